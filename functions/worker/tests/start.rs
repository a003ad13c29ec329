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
    let (started, error, _) = start_logged(change);
    (started, error)
}

/// Whether it started, what it said on standard error, and its log.
fn start_logged(change: (&str, Option<&str>)) -> (bool, String, String) {
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
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stderr), text(output.stdout))
}

/// The log says it too, and an alarm can see it.
#[test]
fn a_start_that_fails_is_logged_and_counted() {
    let (_, _, log) = start_logged(("GLASSLINE_TABLE", None));
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [said, counted] = lines.as_slice() else { panic!("{log}") };
    assert_eq!((&said["event"], &said["function"]), (&"start_failed".into(), &"worker".into()), "{said}");
    assert!(said["why"].as_str().unwrap().starts_with("GLASSLINE_TABLE is not set"), "{said}");
    assert_eq!(
        (&counted["StartsFailed"], &counted["function"]),
        (&1.0.into(), &"worker".into()),
        "{counted}"
    );
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
