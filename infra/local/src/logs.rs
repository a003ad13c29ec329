//! The functions' logs: kept in files, and their `operations` lines added up.

use crate::lambda::{LogForward, LogLine, LogSink};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Requests and units of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Operations {
    /// Requests answered.
    pub requests: u64,
    /// Capacity units of the table, or messages.
    pub units: f64,
}

/// What functions asked of AWS, by function and then by operation or queue.
pub type ByFunction = BTreeMap<String, BTreeMap<String, Operations>>;

#[derive(Default)]
struct State {
    files: BTreeMap<String, Option<File>>,
    store: ByFunction,
    sent: ByFunction,
}

/// Takes the functions' log lines.
#[derive(Clone, Default)]
pub struct Logs {
    folder: Option<PathBuf>,
    state: Arc<Mutex<State>>,
}

fn add(into: &mut ByFunction, function: &str, text: Option<&Value>) {
    // The functions log each map as text: name → [requests, units].
    let Some(map) = text.and_then(Value::as_str) else { return };
    let Ok(used) = serde_json::from_str::<BTreeMap<String, (u64, f64)>>(map) else { return };
    let operations = into.entry(function.to_owned()).or_default();
    for (name, (requests, units)) in used {
        let entry = operations.entry(name).or_default();
        entry.requests += requests;
        entry.units += units;
    }
}

impl Logs {
    /// Keeps each function's lines in a file of this folder; without one, only counts.
    #[must_use]
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, state: Arc::default() }
    }

    /// The sink for a host.
    #[must_use]
    pub fn sink(&self) -> LogSink {
        let logs = self.clone();
        let forward: LogForward = Arc::new(move |line| logs.take(&line));
        LogSink::Forward(forward)
    }

    fn take(&self, line: &LogLine) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if line.text.contains("\"operations\"")
            && let Ok(entry) = serde_json::from_str::<Value>(&line.text)
            && entry.get("event").and_then(Value::as_str) == Some("operations")
        {
            add(&mut state.store, &line.function, entry.get("store"));
            add(&mut state.sent, &line.function, entry.get("queues"));
        }
        let Some(folder) = &self.folder else { return };
        let name = line.function.to_string();
        let path = folder.join(format!("{name}.log"));
        let file = state
            .files
            .entry(name)
            .or_insert_with(|| OpenOptions::new().create(true).append(true).open(path).ok());
        if let Some(file) = file {
            // A log that can't be written must not stop the functions.
            let _ = writeln!(file, "[{}] {}", line.pid, line.text);
        }
    }

    /// Table operations so far.
    #[must_use]
    pub fn store(&self) -> ByFunction {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).store.clone()
    }

    /// Messages sent so far.
    #[must_use]
    pub fn sent(&self) -> ByFunction {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).sent.clone()
    }
}
