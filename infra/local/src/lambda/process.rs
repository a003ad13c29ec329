//! Child processes: how one is started, how its end is worded, and what ends them all when the host can't.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;

use super::logs::{Lines, LogLine, LogStream, Logs};
use super::spec::{FunctionSpec, HostOptions};

/// What a child gets of the host's own environment: where programs and temporary files are. The rest stays out, for a
/// deployed function sees only what its template declares: an inherited variable would hide a missing declaration,
/// and the developer's own AWS credentials would reach the functions.
const INHERITED: [&str; 3] = ["PATH", "TMPDIR", "HOME"];

/// How long to wait for a dead process's last words.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Leads the process group of all children and kills the group, itself included, once its standard input closes,
/// which the kernel does however the host ends: `kill -9` and `abort` run no destructors, and a busy child would go on
/// to the end of its work. An idle one ends by itself: its poll of the Runtime API fails.
pub(super) struct Guard {
    child: Child,
    /// Never written to; its closing is the signal.
    _lifeline: ChildStdin,
    group: i32,
}

impl Guard {
    /// Starts the guard, if this system has a POSIX shell.
    pub(super) fn start() -> Option<Self> {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "while read -r line; do :; done; kill -9 0"])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let started = command.spawn().ok().and_then(|mut child| {
            let group = i32::try_from(child.id()?).ok()?;
            Some(Self { _lifeline: child.stdin.take()?, child, group })
        });
        if started.is_none() {
            tracing::warn!(
                "no process guard could be started: if this process is killed, busy functions outlive it"
            );
        }
        started
    }

    /// The process group that children join.
    pub(super) fn group(&self) -> i32 {
        self.group
    }

    /// Lets the guard kill what is left of its group, and waits for it to end.
    pub(super) async fn finish(self) {
        let Self { mut child, _lifeline: lifeline, .. } = self;
        drop(lifeline);
        if tokio::time::timeout(Duration::from_secs(5), child.wait()).await.is_err() {
            drop(child.start_kill());
        }
    }
}

/// A running child and the tasks that read its output.
pub(super) struct Process {
    pub(super) child: Child,
    pub(super) pid: u32,
    stderr: Option<JoinHandle<Option<String>>>,
}

/// What a child is started with, beside its spec.
pub(super) struct Launch<'a> {
    pub(super) spec: &'a FunctionSpec,
    pub(super) options: &'a HostOptions,
    pub(super) logs: &'a Logs,
    /// `HOST:PORT` of its Runtime API.
    pub(super) runtime_api: String,
    pub(super) log_stream: String,
    /// The process group to join.
    pub(super) group: Option<i32>,
}

impl Process {
    /// Starts a child. It is killed when the returned value is dropped.
    pub(super) fn start(launch: &Launch<'_>) -> io::Result<Self> {
        let mut command = command(launch);
        let mut child = command.spawn()?;
        let pid = child.id().unwrap_or(0);
        let function: Arc<str> = launch.spec.name.as_str().into();
        let max = launch.options.max_line_bytes;
        if let Some(stdout) = child.stdout.take() {
            let sink = (launch.logs.clone(), Arc::clone(&function), pid);
            tokio::spawn(forward(stdout, LogStream::Stdout, max, sink));
        }
        let stderr = child.stderr.take().map(|stderr| {
            let sink = (launch.logs.clone(), function, pid);
            tokio::spawn(forward(stderr, LogStream::Stderr, max, sink))
        });
        Ok(Self { child, pid, stderr })
    }

    /// SIGKILL, then waits until the process is gone and reaped.
    pub(super) async fn kill(&mut self) -> Option<ExitStatus> {
        // An error means that it has ended already.
        drop(self.child.start_kill());
        self.child.wait().await.ok()
    }

    /// The last line that an ended process wrote to its standard error.
    pub(super) async fn last_words(&mut self) -> Option<String> {
        let reader = self.stderr.take()?;
        // Bounded: something that the process started may hold the pipe open.
        tokio::time::timeout(LAST_WORDS, reader).await.ok()?.ok()?
    }
}

/// Sends a stream's lines to the sink, to its end. Returns the last that wasn't blank.
async fn forward<R: AsyncRead + Unpin>(
    pipe: R,
    stream: LogStream,
    max_line_bytes: usize,
    (logs, function, pid): (Logs, Arc<str>, u32),
) -> Option<String> {
    let mut lines = Lines::new(pipe, max_line_bytes);
    let mut last = None;
    while let Some((text, cut_bytes)) = lines.next().await {
        if !text.trim().is_empty() {
            last = Some(text.clone());
        }
        logs.send(LogLine { function: Arc::clone(&function), pid, stream, text, cut_bytes }).await;
    }
    last
}

fn command(launch: &Launch<'_>) -> Command {
    let Launch { spec, options, .. } = launch;
    let task_root = spec.program.parent().unwrap_or(Path::new("/"));
    let mut command = Command::new(&spec.program);
    command.args(&spec.args).env_clear().current_dir(task_root).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(group) = launch.group {
        command.process_group(group);
    }
    command.envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.envs(spec.env.iter().map(|(name, value)| (name, value)));
    // The variables of a Lambda runtime: https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
    command
        .env("_HANDLER", "bootstrap")
        .env("AWS_DEFAULT_REGION", &options.region)
        .env("AWS_REGION", &options.region)
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", spec.memory_mb.to_string())
        .env("AWS_LAMBDA_FUNCTION_NAME", &spec.name)
        .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
        .env("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand")
        .env("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/{}", spec.name))
        .env("AWS_LAMBDA_LOG_STREAM_NAME", &launch.log_stream)
        .env("AWS_LAMBDA_RUNTIME_API", &launch.runtime_api)
        .env("LAMBDA_TASK_ROOT", task_root);
    command
}

/// How Lambda words the end of a process, with its exit code and signal.
pub(super) fn describe_exit(status: Option<ExitStatus>) -> (String, Option<i32>, Option<i32>) {
    use std::os::unix::process::ExitStatusExt;
    let code = status.and_then(|status| status.code());
    let signal = status.and_then(|status| status.signal());
    let reason = match (code, signal) {
        (_, Some(9)) => "Runtime exited with error: signal: killed".to_owned(),
        (_, Some(6)) => "Runtime exited with error: signal: aborted".to_owned(),
        (_, Some(11)) => "Runtime exited with error: signal: segmentation fault".to_owned(),
        (_, Some(signal)) => format!("Runtime exited with error: signal: {signal}"),
        (Some(0) | None, None) => "Runtime exited without providing a reason".to_owned(),
        (Some(code), None) => format!("Runtime exited with error: exit status {code}"),
    };
    (reason, code, signal)
}
