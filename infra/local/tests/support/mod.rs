//! What the tests of this folder share. A function's process is the test binary itself, started again with the name
//! of one ignored test that serves [`function::serve`]: so cargo always builds it along, and it is a real process with
//! the real `lambda_runtime`.
#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod function;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use glassline_local::lambda::{FunctionSpec, Host, HostOptions, InvokeError};
use serde_json::{Value, json};

/// How long anything may take before a test gives up; nothing is measured against it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The name of the ignored test that is the function's process.
pub(crate) const FUNCTION_TEST: &str = "function_process";

/// A function served by this test binary, with room for everything.
pub(crate) fn spec(name: &str) -> FunctionSpec {
    FunctionSpec {
        name: name.to_owned(),
        program: std::env::current_exe().unwrap(),
        args: [FUNCTION_TEST, "--exact", "--ignored", "--nocapture"].map(Into::into).to_vec(),
        env: Vec::new(),
        timeout_ms: 60_000,
        memory_mb: 256,
        reserved_concurrency: None,
        max_environments: 10,
    }
}

pub(crate) fn with_env(mut spec: FunctionSpec, name: &str, value: &str) -> FunctionSpec {
    spec.env.push((name.to_owned(), value.to_owned()));
    spec
}

/// Options that keep the tests short: nothing to wait for after a failed init, none at shutdown.
pub(crate) fn options() -> HostOptions {
    HostOptions {
        init_timeout_ms: 60_000,
        init_backoff_ms: 1,
        shutdown_grace_ms: 50,
        ..HostOptions::default()
    }
}

pub(crate) async fn host(specs: Vec<FunctionSpec>) -> Host {
    Host::start(specs, options()).await.unwrap()
}

/// Invokes and parses the answer.
pub(crate) async fn invoke(host: &Host, function: &str, payload: Value) -> Result<Value, InvokeError> {
    let answer = host.invoke(function, payload.to_string().into_bytes(), None).await?;
    Ok(serde_json::from_slice(&answer).unwrap())
}

/// Waits until `ready` says so.
pub(crate) async fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !ready() {
        assert!(Instant::now() < give_up, "gave up waiting until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Whether a process is there and not a zombie that only waits to be reaped.
pub(crate) fn is_running(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The name in parentheses may hold anything, so the state is looked for behind the last one.
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim().chars().next());
    !matches!(state, Some('Z' | 'X') | None)
}

/// An invocation that says when it has begun and waits to be let go.
pub(crate) struct Held {
    folder: PathBuf,
    name: String,
}

impl Held {
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        Self { folder: folder.to_owned(), name: name.to_owned() }
    }

    fn path(&self, what: &str) -> PathBuf {
        self.folder.join(format!("{}.{what}", self.name))
    }

    pub(crate) fn payload(&self) -> Value {
        json!({"do": "hold", "begun": self.path("begun"), "go": self.path("go"), "name": self.name})
    }

    pub(crate) async fn begun(&self) {
        let path = self.path("begun");
        until(&format!("{} has begun", self.name), || path.exists()).await;
    }

    pub(crate) fn let_go(&self) {
        std::fs::write(self.path("go"), "").unwrap();
    }
}
