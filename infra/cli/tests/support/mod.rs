//! A running stack, and the command on its folder.

use serde_json::Value;
use std::io::BufRead as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

pub(crate) fn glassline(data: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_glassline")).args(arguments).arg("--data").arg(data).output().unwrap()
}

/// What a command prints as JSON that must succeed.
pub(crate) fn json(data: &Path, arguments: &[&str]) -> Value {
    let mut arguments = arguments.to_vec();
    arguments.push("--json");
    let output = glassline(data, &arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A stack that ends with the test, whatever becomes of it.
pub(crate) struct Local(Child);

impl Local {
    /// Starts one on a folder, with the lanes of a file if there is one, and waits until it is up.
    pub(crate) fn start(data: &Path, lanes: Option<&Path>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_glassline"));
        command.args(["local", "--json", "--tick-seconds", "1", "--data"]).arg(data);
        if let Some(lanes) = lanes {
            command.arg("--lanes").arg(lanes);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("addresses"), "not up: {line}");
        Self(child)
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
