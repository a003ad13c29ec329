//! One function's environments: who is idle, who may still start, what was counted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use serde::Serialize;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;

use super::environment;
use super::error::InvokeError;
use super::logs::Logs;
use super::spec::{FunctionSpec, HostOptions};
use super::stats::{Counters, FunctionStats};

/// How often an invocation is given to another environment because the one it was for had just ended.
const MAX_ASSIGNMENTS: usize = 8;

/// What an environment is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EnvironmentState {
    /// Started, has not asked for an invocation yet.
    Init,
    /// Waiting for an invocation.
    Idle,
    /// Serving one.
    Busy,
}

/// One process of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Environment {
    /// Its process id.
    pub pid: u32,
    /// What it is doing.
    pub state: EnvironmentState,
    /// Invocations it has answered.
    pub invocations: u64,
}

/// What all functions of a host share.
pub(super) struct Shared {
    pub(super) options: HostOptions,
    pub(super) logs: Mutex<Option<Logs>>,
    /// The process group that children join.
    pub(super) group: Option<i32>,
    /// Processes alive.
    pub(super) live: watch::Sender<usize>,
}

impl Shared {
    /// The sink, until shutdown closes it.
    pub(super) fn logs(&self) -> Logs {
        locked(&self.logs).clone().unwrap_or(Logs::Discard)
    }
}

/// Locks, whatever a panicking holder left: every change under these locks is a single step.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right to run one invocation now, counted against the function's processes and its concurrency.
struct Admission {
    _environment: OwnedSemaphorePermit,
    _concurrency: OwnedSemaphorePermit,
}

/// An invocation on its way to a process.
pub(super) struct Job {
    pub(super) request_id: String,
    pub(super) payload: Bytes,
    pub(super) trace: String,
    admission: Admission,
    done: oneshot::Sender<Outcome>,
}

impl Job {
    /// The process ended before it took this invocation: another may have it.
    pub(super) fn not_taken(self) {
        let Self { request_id, payload, trace, admission, done } = self;
        // Nobody waits any more: then nobody wants it to run either.
        drop(done.send(Outcome::NotTaken(Pending { request_id, payload, trace, admission })));
    }
}

struct Pending {
    request_id: String,
    payload: Bytes,
    trace: String,
    admission: Admission,
}

enum Outcome {
    Finished(Result<Vec<u8>, InvokeError>),
    NotTaken(Pending),
}

struct Handle {
    public: Environment,
    /// Taken away when the host shuts down, which ends the environment once it is idle.
    work: Option<mpsc::Sender<Job>>,
    kill: Arc<Notify>,
}

#[derive(Default)]
struct State {
    environments: BTreeMap<u64, Handle>,
    /// The longest idle first, the latest last: the latest is used again, so that a surplus ages and ends.
    idle: Vec<u64>,
    next_id: u64,
    counters: Counters,
    init_failures: u32,
    not_before: Option<Instant>,
    closed: bool,
}

impl State {
    /// Has the environment's task kill its process. No invocation is given to it from now on; one that is on its way
    /// and not taken yet goes to another.
    fn kill(&mut self, id: u64) {
        self.idle.retain(|idle| *idle != id);
        if let Some(handle) = self.environments.get(&id) {
            handle.kill.notify_one();
            self.counters.counts.kills += 1;
        }
    }
}

/// One function and its environments.
pub(super) struct Pool {
    pub(super) spec: FunctionSpec,
    pub(super) shared: Arc<Shared>,
    environments: Arc<Semaphore>,
    concurrency: Arc<Semaphore>,
    state: Mutex<State>,
}

impl Pool {
    /// A function without processes; `unreserved` is what it draws on when it has no concurrency of its own.
    pub(super) fn new(spec: FunctionSpec, shared: Arc<Shared>, unreserved: &Arc<Semaphore>) -> Self {
        let semaphore = |count: u32| {
            Arc::new(Semaphore::new(usize::try_from(count).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS)))
        };
        let concurrency = spec.reserved_concurrency.map_or_else(|| Arc::clone(unreserved), semaphore);
        let environments = semaphore(spec.max_environments);
        Self { spec, shared, environments, concurrency, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Runs one invocation to its end.
    pub(super) async fn invoke(
        self: &Arc<Self>,
        payload: Bytes,
        request_id: String,
        trace: String,
    ) -> Result<Vec<u8>, InvokeError> {
        let admission = self.admit()?;
        let mut pending = Pending { request_id, payload, trace, admission };
        for _ in 0..MAX_ASSIGNMENTS {
            let (done, outcome) = oneshot::channel();
            let Pending { request_id, payload, trace, admission } = pending;
            let job = Job { request_id: request_id.clone(), payload, trace, admission, done };
            self.assign(job).await;
            pending = match outcome.await {
                Ok(Outcome::Finished(result)) => return result,
                Ok(Outcome::NotTaken(pending)) => pending,
                Err(_) => return Err(lost(request_id)),
            };
        }
        let error = lost(pending.request_id.clone());
        self.state().counters.counts.errors += 1;
        Err(error)
    }

    fn admit(&self) -> Result<Admission, InvokeError> {
        let mut state = self.state();
        if state.closed {
            return Err(InvokeError::ShuttingDown);
        }
        let throttled = |limit| InvokeError::Throttled { function: self.spec.name.clone(), limit };
        let concurrency = Arc::clone(&self.concurrency).try_acquire_owned().map_err(|_| {
            throttled(match self.spec.reserved_concurrency {
                Some(_) => "its reserved concurrency",
                None => "the host's total concurrency",
            })
        });
        let environment = Arc::clone(&self.environments)
            .try_acquire_owned()
            .map_err(|_| throttled("its number of environments"));
        match (concurrency, environment) {
            (Ok(concurrency), Ok(environment)) => {
                state.counters.counts.invocations += 1;
                Ok(Admission { _environment: environment, _concurrency: concurrency })
            }
            (Err(error), _) | (Ok(_), Err(error)) => {
                state.counters.counts.throttles += 1;
                Err(error)
            }
        }
    }

    /// Gives the job to an idle environment, or starts one for it.
    async fn assign(self: &Arc<Self>, mut job: Job) {
        loop {
            while let Some(work) = self.take_idle() {
                match work.send(job).await {
                    Ok(()) => return,
                    // It ended just now.
                    Err(mpsc::error::SendError(returned)) => job = returned,
                }
            }
            // Failing inits must not become a busy loop of process starts; meanwhile another may become idle.
            let Some(not_before) = self.state().not_before.filter(|at| *at > Instant::now()) else { break };
            tokio::time::sleep_until(not_before).await;
        }
        environment::start(self, job).await;
    }

    fn take_idle(&self) -> Option<mpsc::Sender<Job>> {
        let mut state = self.state();
        while let Some(id) = state.idle.pop() {
            if let Some(handle) = state.environments.get_mut(&id)
                && let Some(work) = handle.work.clone()
            {
                handle.public.state = EnvironmentState::Busy;
                return Some(work);
            }
        }
        None
    }

    /// Enters a started process. `None` when the host is shutting down: the process must not go on.
    pub(super) fn register(&self, pid: u32, work: mpsc::Sender<Job>, kill: Arc<Notify>) -> Option<u64> {
        let mut state = self.state();
        if state.closed {
            return None;
        }
        let id = state.next_id;
        state.next_id += 1;
        let public = Environment { pid, state: EnvironmentState::Init, invocations: 0 };
        state.environments.insert(id, Handle { public, work: Some(work), kill });
        state.counters.counts.cold_starts += 1;
        self.shared.live.send_modify(|live| *live += 1);
        Some(id)
    }

    /// Takes out an environment whose process has ended.
    pub(super) fn remove(&self, id: u64) {
        let mut state = self.state();
        state.idle.retain(|idle| *idle != id);
        if state.environments.remove(&id).is_some() {
            self.shared.live.send_modify(|live| *live = live.saturating_sub(1));
        }
    }

    /// Takes an environment off the idle list because it was idle for too long. `false` when an invocation is already
    /// on its way to it.
    pub(super) fn retire_idle(&self, id: u64) -> bool {
        let mut state = self.state();
        let before = state.idle.len();
        state.idle.retain(|idle| *idle != id);
        state.idle.len() < before
    }

    pub(super) fn set_busy(&self, id: u64) {
        if let Some(handle) = self.state().environments.get_mut(&id) {
            handle.public.state = EnvironmentState::Busy;
        }
    }

    pub(super) fn set_idle(&self, id: u64) {
        let mut state = self.state();
        if let Some(handle) = state.environments.get_mut(&id) {
            handle.public.state = EnvironmentState::Idle;
            state.idle.push(id);
        }
    }

    /// Counts an answer of an environment.
    pub(super) fn answered(&self, id: u64) {
        if let Some(handle) = self.state().environments.get_mut(&id) {
            handle.public.invocations += 1;
        }
    }

    pub(super) fn init_succeeded(&self, took: Duration) {
        let mut state = self.state();
        state.init_failures = 0;
        state.not_before = None;
        state.counters.record_init(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    }

    pub(super) fn init_failed(&self) {
        let options = &self.shared.options;
        let mut state = self.state();
        let doublings = state.init_failures.min(32);
        let pause_ms =
            options.init_backoff_ms.saturating_mul(1 << doublings).min(options.init_backoff_max_ms);
        state.init_failures = state.init_failures.saturating_add(1);
        state.not_before = Instant::now().checked_add(Duration::from_millis(pause_ms));
        state.counters.counts.init_failures += 1;
    }

    /// Ends a job: counts it and gives its place free before its caller hears of it, so that a caller who invokes one
    /// after the other is never throttled by itself.
    pub(super) fn conclude(&self, job: Job, result: Result<Vec<u8>, InvokeError>) {
        let Job { admission, done, .. } = job;
        if let Err(error) = &result {
            let counts = &mut self.state().counters.counts;
            counts.errors += 1;
            counts.timeouts += u64::from(matches!(error, InvokeError::Timeout { .. }));
        }
        drop(admission);
        // The caller may have stopped waiting; the invocation ran all the same, as on AWS.
        drop(done.send(Outcome::Finished(result)));
    }

    /// Takes no more invocations; idle environments end now, busy ones after their answer.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.idle.clear();
        for handle in state.environments.values_mut() {
            handle.work = None;
        }
    }

    pub(super) fn kill_all(&self) {
        for handle in self.state().environments.values() {
            handle.kill.notify_one();
        }
    }

    /// Kills the process `pid` if it is one of this function's.
    pub(super) fn kill(&self, pid: u32) -> bool {
        let mut state = self.state();
        let found = state.environments.iter().find(|(_, handle)| handle.public.pid == pid);
        let Some(id) = found.map(|(id, _)| *id) else { return false };
        state.kill(id);
        true
    }

    /// Kills the `choice`-th busy process, counted round, and returns its pid.
    pub(super) fn kill_busy(&self, choice: u64) -> Option<u32> {
        let mut state = self.state();
        let is_busy = |handle: &Handle| handle.public.state == EnvironmentState::Busy;
        let busy: Vec<(u64, u32)> = state
            .environments
            .iter()
            .filter(|(_, handle)| is_busy(handle))
            .map(|(id, handle)| (*id, handle.public.pid))
            .collect();
        let index = choice.checked_rem(busy.len() as u64).and_then(|index| usize::try_from(index).ok())?;
        let (id, pid) = *busy.get(index)?;
        state.kill(id);
        Some(pid)
    }

    pub(super) fn environments(&self) -> Vec<Environment> {
        self.state().environments.values().map(|handle| handle.public).collect()
    }

    pub(super) fn stats(&self) -> FunctionStats {
        self.state().counters.snapshot()
    }
}

/// The environments that an invocation was for kept ending before they took it.
fn lost(request_id: String) -> InvokeError {
    let reason = "the environments ended before they took the invocation".to_owned();
    InvokeError::Exited { request_id, reason, code: None, signal: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long the next start must wait at most, in milliseconds.
    fn pause_ms(pool: &Pool) -> u128 {
        let not_before = pool.state().not_before;
        not_before.map_or(0, |at| at.saturating_duration_since(Instant::now()).as_millis())
    }

    #[test]
    fn pauses_double_up_to_their_bound_and_a_success_ends_them() {
        let options =
            HostOptions { init_backoff_ms: 100_000, init_backoff_max_ms: 350_000, ..HostOptions::default() };
        let logs = Mutex::new(None);
        let shared = Arc::new(Shared { options, logs, group: None, live: watch::Sender::new(0) });
        let spec = FunctionSpec {
            name: "worker".to_owned(),
            program: "/bootstrap".into(),
            args: Vec::new(),
            env: Vec::new(),
            timeout_ms: 1_000,
            memory_mb: 128,
            reserved_concurrency: None,
            max_environments: 1,
        };
        let pool = Pool::new(spec, shared, &Arc::new(Semaphore::new(1)));
        // In steps of 50 s, so that no slow machine changes them.
        let mut steps = Vec::new();
        for _ in 0..4 {
            pool.init_failed();
            steps.push(pause_ms(&pool).div_ceil(50_000));
        }
        assert_eq!(steps, [2, 4, 7, 7]);
        pool.init_succeeded(Duration::from_millis(7));
        assert_eq!(pause_ms(&pool), 0);
        pool.init_failed();
        assert_eq!(pause_ms(&pool).div_ceil(50_000), 2);
        let stats = pool.stats();
        assert_eq!((stats.init_failures, stats.init_ms.map(|init| init.median)), (5, Some(7)));
    }
}
