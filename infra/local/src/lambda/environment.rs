//! One execution environment: a process, its Runtime API, and the single task that owns both. Every event of the
//! environment (a call of the API, the process's end, an invocation, the clock, a kill) meets in that task, so their
//! order is one order.
#![allow(clippy::disallowed_methods, reason = "the Runtime API's deadline is wall-clock time")]

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use super::error::InvokeError;
use super::ids;
use super::logs::{LogLine, LogStream};
use super::pool::{Job, Pool};
use super::process::{Launch, Process, describe_exit};
use super::runtime_api::{Answer, Call, Handover, MAX_PAYLOAD_BYTES, Reported, RuntimeApi, Verdict, tell};

/// How long a process may take to exit after it reported that its init failed.
const EXIT_AFTER_INIT_ERROR: Duration = Duration::from_secs(2);
/// How long a process whose poll broke off may take to poll again.
const POLL_AGAIN: Duration = Duration::from_secs(5);

/// A process's waiting `next`.
type Poll = oneshot::Sender<Handover>;

struct Running {
    pool: Arc<Pool>,
    id: u64,
    process: Process,
    calls: mpsc::Receiver<Call>,
    work: mpsc::Receiver<Job>,
    kill: Arc<Notify>,
    function_arn: String,
    /// Closed when the environment ends.
    _api: RuntimeApi,
}

/// How the wait for an answer ended.
enum Progress {
    /// The process answered; it is still there.
    Answered(Result<Vec<u8>, InvokeError>),
    /// The process is gone.
    Ended(InvokeError),
}

/// Starts an environment for `job`; the rest happens in a task of its own.
pub(super) async fn start(pool: &Arc<Pool>, job: Job) {
    let (calls_in, calls) = mpsc::channel(4);
    let started = match RuntimeApi::listen(calls_in).await {
        Ok(api) => launch(pool, api.address.to_string()).map(|process| (api, process)),
        Err(error) => Err(error),
    };
    let (api, process) = match started {
        Ok(started) => started,
        Err(error) => {
            let message = format!("Error: the program could not be started: {error}");
            let error =
                InvokeError::InitFailed { error_type: "Runtime.InvalidEntrypoint".to_owned(), message };
            pool.init_failed();
            pool.conclude(job, Err(error));
            return;
        }
    };
    let (work_in, work) = mpsc::channel(1);
    let kill = Arc::new(Notify::new());
    let Some(id) = pool.register(process.pid, work_in, Arc::clone(&kill)) else {
        // Dropping the process kills it.
        pool.conclude(job, Err(InvokeError::ShuttingDown));
        return;
    };
    let options = &pool.shared.options;
    let function_arn =
        format!("arn:aws:lambda:{}:{}:function:{}", options.region, options.account, pool.spec.name);
    let pool = Arc::clone(pool);
    tokio::spawn(Running { pool, id, process, calls, work, kill, function_arn, _api: api }.run(job));
}

fn launch(pool: &Pool, runtime_api: String) -> std::io::Result<Process> {
    Process::start(&Launch {
        spec: &pool.spec,
        options: &pool.shared.options,
        logs: &pool.shared.logs(),
        runtime_api,
        log_stream: format!("[$LATEST]{}", ids::hex_id()),
        group: pool.shared.group,
    })
}

impl Running {
    async fn run(mut self, first: Job) {
        let started = Instant::now();
        let mut poll = match self.init().await {
            Ok(poll) => poll,
            Err(Reported { error_type, message }) => {
                self.pool.init_failed();
                self.say(format!("Init failed: {error_type}: {message}")).await;
                self.end().await;
                self.pool.conclude(first, Err(InvokeError::InitFailed { error_type, message }));
                return;
            }
        };
        self.pool.init_succeeded(started.elapsed());
        let mut job = first;
        while let Some(free) = self.serve(job, poll).await {
            let Some((next_job, next_poll)) = self.idle(free).await else { break };
            (job, poll) = (next_job, next_poll);
        }
    }

    /// Waits for the first `next`.
    async fn init(&mut self) -> Result<Poll, Reported> {
        let limit_ms = self.pool.shared.options.init_timeout_ms;
        let deadline = Instant::now() + Duration::from_millis(limit_ms);
        loop {
            tokio::select! {
                biased;
                Some(call) = self.calls.recv() => match call {
                    Call::Next { reply } => return Ok(reply),
                    Call::InitError { error, reply } => {
                        tell(reply, Verdict::Accepted);
                        // A runtime exits after this by itself; it must not be asked twice.
                        if timeout(EXIT_AFTER_INIT_ERROR, self.process.child.wait()).await.is_err() {
                            self.process.kill().await;
                        }
                        return Err(error);
                    }
                    other @ Call::Answer { .. } => drop(other.poll_or_refuse()),
                },
                status = self.process.child.wait() => return Err(self.exited_in_init(status.ok()).await),
                () = self.kill.notified() => {
                    let status = self.process.kill().await;
                    return Err(self.exited_in_init(status).await);
                }
                () = sleep_until(deadline) => {
                    self.process.kill().await;
                    let message = format!("Error: Init timed out after {} ms", limit_ms);
                    return Err(Reported { error_type: "Sandbox.Timedout".to_owned(), message });
                }
            }
        }
    }

    async fn exited_in_init(&mut self, status: Option<std::process::ExitStatus>) -> Reported {
        let (reason, _, _) = describe_exit(status);
        let message = match self.process.last_words().await {
            Some(line) => {
                let line: String = line.chars().take(1_024).collect();
                format!("Error: {reason}; the last line it wrote to standard error: {line}")
            }
            None => format!("Error: {reason}"),
        };
        Reported { error_type: "Runtime.ExitError".to_owned(), message }
    }

    /// Serves one invocation. Returns the process's next poll, or `None` when the environment has ended.
    async fn serve(&mut self, job: Job, poll: Poll) -> Option<Poll> {
        let limit = Duration::from_millis(self.pool.spec.timeout_ms);
        if !self.hand_over(&job, poll).await {
            self.end().await;
            job.not_taken();
            return None;
        }
        self.pool.set_busy(self.id);
        let deadline = Instant::now() + limit;
        let result = match self.answer(&job.request_id, deadline).await {
            Progress::Answered(result) => result,
            Progress::Ended(error) => {
                self.say(error.to_string()).await;
                self.end().await;
                self.pool.conclude(job, Err(error));
                return None;
            }
        };
        self.pool.answered(self.id);
        // The answer stands whatever the process does now. The caller hears it when the environment is free again:
        // then invocations one after the other use the same environment, not a second one for want of microseconds.
        let next = self.next_poll(deadline).await;
        match next {
            Some(_) => self.pool.set_idle(self.id),
            None => self.end().await,
        }
        self.pool.conclude(job, result);
        next
    }

    /// Gives the invocation to the waiting poll. `false` when the process has ended before it took it.
    async fn hand_over(&mut self, job: &Job, mut poll: Poll) -> bool {
        let again = Instant::now() + POLL_AGAIN;
        loop {
            let handover = Handover {
                request_id: job.request_id.clone(),
                deadline_ms: now_ms().saturating_add(self.pool.spec.timeout_ms),
                function_arn: self.function_arn.clone(),
                trace: job.trace.clone(),
                payload: job.payload.clone(),
            };
            if !poll.is_closed() && poll.send(handover).is_ok() {
                return true;
            }
            poll = match self.next_poll(again).await {
                Some(poll) => poll,
                None => return false,
            };
        }
    }

    /// Waits for the answer to the invocation.
    async fn answer(&mut self, request_id: &str, deadline: Instant) -> Progress {
        loop {
            tokio::select! {
                biased;
                Some(call) = self.calls.recv() => match call {
                    Call::Answer { request_id: of, answer, reply } if of == request_id => {
                        tell(reply, Verdict::Accepted);
                        return Progress::Answered(verdict_of(answer));
                    }
                    // A poll is dropped: a process that asks for more before it has answered gets an error.
                    other @ (Call::Answer { .. } | Call::InitError { .. } | Call::Next { .. }) => {
                        drop(other.poll_or_refuse());
                    }
                },
                status = self.process.child.wait() => return Progress::Ended(exited(request_id, status.ok())),
                () = self.kill.notified() => {
                    let status = self.process.kill().await;
                    return Progress::Ended(exited(request_id, status));
                }
                () = sleep_until(deadline) => {
                    // The environment's end, which follows, kills the process.
                    let timeout_ms = self.pool.spec.timeout_ms;
                    return Progress::Ended(InvokeError::Timeout { request_id: request_id.to_owned(), timeout_ms });
                }
            }
        }
    }

    /// Waits for the process to poll, killing it at the deadline. `None`: it is gone.
    async fn next_poll(&mut self, deadline: Instant) -> Option<Poll> {
        loop {
            tokio::select! {
                biased;
                Some(call) = self.calls.recv() => {
                    if let Some(poll) = call.poll_or_refuse() {
                        return Some(poll);
                    }
                }
                _ = self.process.child.wait() => return None,
                () = self.kill.notified() => break,
                () = sleep_until(deadline) => break,
            }
        }
        self.process.kill().await;
        None
    }

    /// Waits for the next invocation. `None` when the environment has ended instead.
    async fn idle(&mut self, mut poll: Poll) -> Option<(Job, Poll)> {
        let mut expiry = Instant::now() + Duration::from_millis(self.pool.shared.options.idle_ms);
        loop {
            tokio::select! {
                // An end that has come goes before an invocation: that one can still go elsewhere.
                biased;
                () = self.kill.notified() => break,
                status = self.process.child.wait() => {
                    let (reason, _, _) = describe_exit(status.ok());
                    self.say(format!("Error: {reason} (while idle)")).await;
                    break;
                }
                job = self.work.recv() => match job {
                    Some(job) => return Some((job, poll)),
                    None => break,
                },
                Some(call) = self.calls.recv() => {
                    if let Some(again) = call.poll_or_refuse() {
                        poll = again;
                    }
                }
                () = sleep_until(expiry) => {
                    if self.pool.retire_idle(self.id) {
                        break;
                    }
                    // An invocation is on its way; it can't be lost by ending now.
                    expiry = Instant::now() + POLL_AGAIN;
                }
            }
        }
        self.end().await;
        None
    }

    /// Ends the process and takes the environment out of the pool; an invocation that was on its way goes back.
    async fn end(&mut self) {
        self.process.kill().await;
        self.pool.remove(self.id);
        self.work.close();
        while let Some(job) = self.work.recv().await {
            job.not_taken();
        }
    }

    /// Writes a line of the host's own into the function's log.
    async fn say(&self, text: String) {
        let line = LogLine {
            function: self.pool.spec.name.as_str().into(),
            pid: self.process.pid,
            stream: LogStream::Platform,
            text,
            cut_bytes: 0,
        };
        self.pool.shared.logs().send(line).await;
    }
}

fn verdict_of(answer: Answer) -> Result<Vec<u8>, InvokeError> {
    match answer {
        Answer::Response(body) => Ok(body.into()),
        Answer::Error(Reported { error_type, message }) => Err(InvokeError::Function { error_type, message }),
        Answer::TooLong { size_bytes } => Err(InvokeError::Function {
            error_type: "Function.ResponseSizeTooLarge".to_owned(),
            message: format!(
                "Response payload size ({size_bytes} bytes) exceeded maximum allowed payload size \
                 ({MAX_PAYLOAD_BYTES} bytes)."
            ),
        }),
    }
}

fn exited(request_id: &str, status: Option<std::process::ExitStatus>) -> InvokeError {
    let (reason, code, signal) = describe_exit(status);
    InvokeError::Exited { request_id: request_id.to_owned(), reason, code, signal }
}

/// Milliseconds since 1970.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
