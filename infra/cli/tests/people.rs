//! What people do by command: on a running stack, at its address, and on a folder whose stack is stopped.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

mod support;

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use support::Local;

/// One renders at once and takes its time; the other can't be asked what became of a lost submit.
const LANES: &str = r#"[
    {"name":"slow","capacity":1,"recovery":{"tier":"key","lifetime_ms":86400000},"render_min_ms":60000,"render_max_ms":60000},
    {"name":"quick","capacity":2,"recovery":{"tier":"none"},"render_min_ms":50,"render_max_ms":100}]"#;

struct Stack {
    // Ends before its folder goes.
    local: Option<Local>,
    folder: tempfile::TempDir,
}

impl Stack {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let lanes = folder.path().join("lanes.json");
        std::fs::write(&lanes, LANES).unwrap();
        let local = Some(Local::start(&folder.path().join("data"), Some(&lanes)));
        Self { local, folder }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        support::glassline(&self.data(), arguments)
    }

    /// What a command prints that must succeed.
    fn text(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        support::json(&self.data(), arguments)
    }

    /// What a command says that must fail.
    fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(!output.status.success(), "{arguments:?}: {output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(text.trim_end().lines().count(), 1, "one sentence: {text}");
        text
    }

    fn submit(&self, post: &str, lane: &str, shots: usize) {
        let shots: Vec<_> = (1..=shots).map(|n| json!({"id": format!("s{n}"), "prompt": "x"})).collect();
        let file = self.folder.path().join("post.json");
        std::fs::write(&file, json!({"id": post, "lane": lane, "shots": shots}).to_string()).unwrap();
        self.text(&["submit", file.to_str().unwrap()]);
    }

    fn wait(&self, job: &str, status: &str) -> Value {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let shown = self.json(&["show", job])["jobs"][0].clone();
            if shown["status"] == status {
                return shown;
            }
            assert!(Instant::now() < until, "{job} isn't {status}: {shown}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` isn't in: {text}");
    }
}

#[test]
fn people_explain_cancel_requeue_and_judge() {
    let mut stack = Stack::start();
    stack.submit("p1", "slow", 2);
    stack.wait("POST#p1/SHOT#s1", "rendering");
    contains(&stack.text(&["explain", "POST#p1/SHOT#s2"]), &["slow"]);
    contains(&stack.text(&["explain", "POST#p1/SHOT#s1"]), &["render"]);
    contains(&stack.text(&["pause", "slow", "--reason", "a bad day"]), &["slow", "is paused"]);
    contains(&stack.text(&["explain", "POST#p1/SHOT#s2"]), &["paused", "a bad day"]);
    contains(&stack.text(&["watch", "--times", "1"]), &["slow", "quick"]);
    contains(&stack.text(&["resume", "slow"]), &["goes on"]);
    contains(&stack.text(&["cancel", "POST#p1/SHOT#s2"]), &["cancelled"]);
    contains(&stack.refusal(&["cancel", "POST#p1/SHOT#s2", "--attempt", "9"]), &["POST#p1/SHOT#s2"]);
    contains(&stack.text(&["requeue", "POST#p1/SHOT#s2", "--note", "after all"]), &["ready"]);
    stack.submit("p2", "quick", 1);
    let shown = stack.wait("POST#p2/SHOT#s1", "succeeded");
    let outcome = format!("POST#p2/SHOT#s1/{}", shown["attempt"]);
    contains(&stack.text(&["review", &outcome, "--reject", "too dark"]), &["rejected"]);
    contains(&stack.refusal(&["review", &outcome, "--approve"]), &["POST#p2/SHOT#s1"]);
    let again = stack.wait("POST#p2/SHOT#s1", "succeeded");
    assert!(again["attempt"].as_u64() > shown["attempt"].as_u64(), "{again}");
    stack.text(&["lanes", "set", "slow", "--capacity", "2", "--price", "0.04", "--budget", "25"]);
    let lanes = stack.json(&["lanes"]);
    let slow = lanes["lanes"].as_array().unwrap().iter().find(|lane| lane["lane"] == "slow").unwrap();
    assert_eq!(slow["capacity"], 2, "{slow}");
    contains(&stack.refusal(&["pause", "nowhere"]), &["nowhere"]);
    at_an_address(&stack);
    // There is room for it now.
    stack.wait("POST#p1/SHOT#s2", "rendering");
    // The same on the folder, once nothing runs any more.
    drop(stack.local.take());
    contains(&stack.text(&["explain", "POST#p1/SHOT#s2"]), &["render"]);
    let all = stack.text(&["cancel", "--lane", "slow"]);
    contains(&all, &["POST#p1/SHOT#s1", "POST#p1/SHOT#s2"]);
}

/// With an address and its secret alone, as somebody elsewhere has them.
fn at_an_address(stack: &Stack) {
    let url = stack.text(&["open"]).trim().to_owned();
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    let secret = std::fs::read_to_string(stack.data().join("api-secret")).unwrap();
    let run = |secret: &str, data: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_glassline"));
        command.args(["explain", "POST#p2/SHOT#s1", "--url", &url]).current_dir(data);
        command.env("GLASSLINE_API_SECRET", secret).output().unwrap()
    };
    let elsewhere = tempfile::tempdir().unwrap();
    let output = run(secret.trim(), elsewhere.path());
    assert!(output.status.success(), "{output:?}");
    let refused = run("not the secret that it is", elsewhere.path());
    assert!(!refused.status.success(), "{refused:?}");
    assert!(!String::from_utf8_lossy(&refused.stderr).contains(secret.trim()));
}

#[test]
fn shells_get_their_completions() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_glassline")).args(["completions", "bash"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    contains(&String::from_utf8(output.stdout).unwrap(), &["glassline", "requeue", "resolve"]);
}
