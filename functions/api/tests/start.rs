//! A function that lacks something doesn't start, and says in one line what.
#![allow(missing_docs, clippy::unwrap_used, clippy::disallowed_methods)]

use std::process::Command;

/// Everything that the api needs, except where it would have to be real.
const GOOD: [(&str, &str); 7] = [
    ("GLASSLINE_TABLE", "glassline"),
    ("GLASSLINE_RENDER_QUEUE_URL", "http://127.0.0.1:9/000000000000/render"),
    ("GLASSLINE_FINISH_QUEUE_URL", "http://127.0.0.1:9/000000000000/finish"),
    ("GLASSLINE_ROLLBACK_QUEUE_URL", "http://127.0.0.1:9/000000000000/rollback"),
    ("GLASSLINE_WAKE_QUEUE_URL", "http://127.0.0.1:9/000000000000/wake"),
    ("GLASSLINE_HANDOFF_SECRET", "a secret for this test"),
    ("GLASSLINE_API_SECRET", "another secret for this test"),
];

fn start(change: (&str, Option<&str>)) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_api"));
    command.env_clear().env("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9").envs(GOOD);
    match change.1 {
        Some(value) => command.env(change.0, value),
        None => command.env_remove(change.0),
    };
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn each_missing_variable_is_named_in_one_line() {
    for (name, _) in GOOD {
        let (started, error) = start((name, None));
        assert!(!started);
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.starts_with(&format!("api can't start: {name} is not set: it must hold ")), "{error}");
    }
}

#[test]
fn a_secret_that_is_too_short_is_named_and_never_shown() {
    for name in ["GLASSLINE_API_SECRET", "GLASSLINE_API_SECRET_PREVIOUS"] {
        let (started, error) = start((name, Some("hunter2")));
        assert!(!started);
        assert!(error.contains(name) && error.contains("at least 16 bytes"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}
