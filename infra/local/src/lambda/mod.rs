//! A stand-in for AWS Lambda: each function is real processes that speak the Lambda Runtime API 2018-06-01, started
//! on demand, used again while warm, one invocation at a time each, killed when they run out of time.
//!
//! What it doesn't do: enforce memory, freeze idle processes (theirs go on running), versions and aliases,
//! extensions, streaming responses, asynchronous invocation with its retries.

mod environment;
mod error;
pub(crate) mod ids;
mod logs;
mod pool;
mod process;
mod runtime_api;
mod spec;
mod stats;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

pub use error::InvokeError;
pub use logs::{LogForward, LogLine, LogSink, LogStream};
pub use pool::{Environment, EnvironmentState};
pub use spec::{FunctionSpec, HostError, HostOptions, MAX_TIMEOUT_MS};
pub use stats::{FunctionStats, InitTimes};

use logs::{LogThread, Logs};
use pool::{Pool, Shared, locked};
use process::Guard;
use runtime_api::MAX_PAYLOAD_BYTES;

/// How long shutdown waits for killed processes to be gone.
const REAP: Duration = Duration::from_secs(5);

/// A running host. Clones are the same host; when the last is gone its processes are ended.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

struct Inner {
    pools: BTreeMap<String, Arc<Pool>>,
    shared: Arc<Shared>,
    guard: Mutex<Option<Guard>>,
    log_thread: Mutex<Option<LogThread>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        for pool in self.pools.values() {
            pool.close();
        }
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("functions", &self.inner.pools.keys()).finish_non_exhaustive()
    }
}

impl Host {
    /// Checks the functions and makes them invocable; their processes start with their first invocation. Must be
    /// called in a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`HostError`] when a function's name, limits, variables or program can't be used.
    pub async fn start(functions: Vec<FunctionSpec>, options: HostOptions) -> Result<Self, HostError> {
        let functions = spec::checked(functions, &options)?;
        let reserved: u32 = functions.iter().filter_map(|function| function.reserved_concurrency).sum();
        let unreserved =
            usize::try_from(options.total_concurrency.saturating_sub(reserved)).unwrap_or(usize::MAX);
        let unreserved = Arc::new(Semaphore::new(unreserved.min(Semaphore::MAX_PERMITS)));
        let (logs, log_thread) = Logs::open(&options.logs).map_err(|source| {
            let folder = match &options.logs {
                LogSink::Folder(folder) => folder.clone(),
                LogSink::Discard | LogSink::Forward(_) => Default::default(),
            };
            HostError::Logs { folder, source }
        })?;
        let guard = Guard::start();
        let shared = Arc::new(Shared {
            options,
            logs: Mutex::new(Some(logs)),
            group: guard.as_ref().map(Guard::group),
            live: watch::Sender::new(0),
        });
        let pools = functions
            .into_iter()
            .map(|spec| (spec.name.clone(), Arc::new(Pool::new(spec, Arc::clone(&shared), &unreserved))))
            .collect();
        let (guard, log_thread) = (Mutex::new(guard), Mutex::new(log_thread));
        Ok(Self { inner: Arc::new(Inner { pools, shared, guard, log_thread }) })
    }

    /// Invokes a function and waits for its answer. `payload` is JSON; `trace` is an X-Ray trace header, a fresh one
    /// if there is none. A caller who stops waiting doesn't stop the function.
    ///
    /// # Errors
    ///
    /// [`InvokeError`]; [`InvokeError::not_run`] tells whether the function can have run.
    pub async fn invoke(
        &self,
        function: &str,
        payload: Vec<u8>,
        trace: Option<String>,
    ) -> Result<Vec<u8>, InvokeError> {
        let Some(pool) = self.inner.pools.get(function) else {
            return Err(InvokeError::UnknownFunction { function: function.to_owned() });
        };
        if let Err(reason) = check_payload(&payload) {
            return Err(InvokeError::Payload { function: function.to_owned(), reason });
        }
        pool.invoke(payload.into(), ids::uuid(), ids::trace_or_new(trace)).await
    }

    /// The names of the hosted functions.
    pub fn functions(&self) -> Vec<String> {
        self.inner.pools.keys().cloned().collect()
    }

    /// The spec of a function, its program's path made absolute.
    pub fn spec(&self, function: &str) -> Option<&FunctionSpec> {
        self.inner.pools.get(function).map(|pool| &pool.spec)
    }

    /// The host's options.
    pub fn options(&self) -> &HostOptions {
        &self.inner.shared.options
    }

    /// The processes of a function, oldest first; none for an unknown one.
    pub fn environments(&self, function: &str) -> Vec<Environment> {
        self.inner.pools.get(function).map(|pool| pool.environments()).unwrap_or_default()
    }

    /// Kills an environment's process with SIGKILL, as a crash: an invocation it was serving fails with
    /// [`InvokeError::Exited`]. `false` when no environment has that process id. The signal is sent by the
    /// environment's own task, at once but not before this returns.
    pub fn kill(&self, pid: u32) -> bool {
        self.inner.pools.values().any(|pool| pool.kill(pid))
    }

    /// Like [`kill`](Self::kill), for one of the function's busy processes: the `choice`-th of them, counted round.
    /// Returns its process id, `None` when none is busy.
    pub fn kill_any_busy(&self, function: &str, choice: u64) -> Option<u32> {
        self.inner.pools.get(function).and_then(|pool| pool.kill_busy(choice))
    }

    /// What was counted, by function.
    pub fn stats(&self) -> BTreeMap<String, FunctionStats> {
        self.inner.pools.iter().map(|(name, pool)| (name.clone(), pool.stats())).collect()
    }

    /// Takes no more invocations, lets running ones go on for `shutdown_grace_ms`, then kills what is left. When it
    /// returns, no process of this host is left and all their output is written.
    pub async fn shutdown(&self) {
        let inner = &self.inner;
        for pool in inner.pools.values() {
            pool.close();
        }
        let mut live = inner.shared.live.subscribe();
        let grace = Duration::from_millis(inner.shared.options.shutdown_grace_ms);
        if tokio::time::timeout(grace, live.wait_for(|live| *live == 0)).await.is_err() {
            for pool in inner.pools.values() {
                pool.kill_all();
            }
            if tokio::time::timeout(REAP, live.wait_for(|live| *live == 0)).await.is_err() {
                tracing::warn!(
                    "some functions' processes did not end in time; the process guard ends them now"
                );
            }
        }
        let guard = locked(&inner.guard).take();
        if let Some(guard) = guard {
            guard.finish().await;
        }
        locked(&inner.shared.logs).take();
        let thread = locked(&inner.log_thread).take();
        if let Some(thread) = thread {
            // The thread ends when the last reader of a process's output has let go of its sender.
            let joined = tokio::task::spawn_blocking(move || drop(thread.join()));
            if tokio::time::timeout(REAP, joined).await.is_err() {
                tracing::warn!("the functions' logs may miss their last lines");
            }
        }
    }
}

/// Lambda takes any JSON document up to its size limit.
fn check_payload(payload: &[u8]) -> Result<(), String> {
    if payload.len() > MAX_PAYLOAD_BYTES {
        let size_bytes = payload.len();
        return Err(format!("it is {size_bytes} bytes long, at most {MAX_PAYLOAD_BYTES} are taken"));
    }
    serde_json::from_slice::<serde::de::IgnoredAny>(payload)
        .map(drop)
        .map_err(|error| format!("Could not parse request body into json: {error}"))
}
