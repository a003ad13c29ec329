//! A function that can't work doesn't start, and says in one line what is missing.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::process::Command;

/// Everything that the worker needs, except where it would have to be real.
const GOOD: [(&str, &str); 6] = [
    ("GLASSLINE_TABLE", "glassline"),
    ("GLASSLINE_RENDER_QUEUE_URL", "http://127.0.0.1:9/000000000000/render"),
    ("GLASSLINE_FINISH_QUEUE_URL", "http://127.0.0.1:9/000000000000/finish"),
    ("GLASSLINE_WAKE_QUEUE_URL", "http://127.0.0.1:9/000000000000/wake"),
    ("GLASSLINE_HANDOFF_SECRET", "a secret for this test"),
    ("GLASSLINE_PROVIDERS", "{}"),
];

fn start(change: (&str, Option<&str>)) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
    command.env_clear().env("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9");
    for (name, value) in GOOD {
        match change {
            (changed, None) if changed == name => {}
            (changed, Some(other)) if changed == name => {
                command.env(name, other);
            }
            _ => {
                command.env(name, value);
            }
        }
    }
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn each_missing_variable_is_named_in_one_line() {
    for (name, _) in GOOD {
        let (started, error) = start((name, None));
        assert!(!started);
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(
            error.starts_with(&format!("worker can't start: {name} is not set: it must hold ")),
            "{error}"
        );
    }
}

#[test]
fn an_unusable_value_is_named_and_never_shown() {
    for (name, value, says) in [
        ("GLASSLINE_HANDOFF_SECRET", "hunter2", "at least 16 bytes"),
        ("GLASSLINE_WAKE_QUEUE_URL", "wake-hunter2", "isn't a URL"),
        ("GLASSLINE_PROVIDERS", "{\"hunter2", "isn't JSON"),
        (
            "GLASSLINE_PROVIDERS",
            r#"{"a":{"adapter":"sandbox","base_url":"http://127.0.0.1:9","api_key":"hunter2","recovery":{"tier":"none"},
                "submit_timeout_ms":120000}}"#,
            "lane a: submit_lease_ms is 120000",
        ),
    ] {
        let (started, error) = start((name, Some(value)));
        assert!(!started, "{name}");
        assert!(
            error.contains("GLASSLINE_") && error.contains(says) && !error.contains("hunter2"),
            "{error}"
        );
    }
}
