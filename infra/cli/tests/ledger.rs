//! What renders cost, as a person asks for it: budget, ledger, and the provider's own books.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

mod support;

use std::time::{Duration, Instant};
use support::{Local, glassline, json};

/// Three shots at 0.04 each in a lane that may spend 0.10 a day: two are rendered, the third waits for tomorrow, and the
/// ledger says what the provider's books say.
#[test]
fn a_budget_stops_claims_and_the_ledger_adds_up() {
    let folder = tempfile::tempdir().unwrap();
    let (data, lanes) = (folder.path().join("data"), folder.path().join("lanes.json"));
    let lane = r#"[{"name":"dear","capacity":4,"recovery":{"tier":"key","lifetime_ms":86400000},
        "price_micros":40000,"budget_micros_per_day":100000,"render_min_ms":50,"render_max_ms":100}]"#;
    std::fs::write(&lanes, lane).unwrap();
    let local = Local::start(&data, Some(&lanes));
    let post = folder.path().join("post.json");
    let shots = r#"[{"id":"s1","prompt":"a"},{"id":"s2","prompt":"b"},{"id":"s3","prompt":"c"}]"#;
    std::fs::write(&post, format!(r#"{{"id":"p1","lane":"dear","shots":{shots}}}"#)).unwrap();
    assert!(glassline(&data, &["submit", post.to_str().unwrap()]).status.success());
    let until = Instant::now() + Duration::from_secs(60);
    let ledger = loop {
        let ledger = json(&data, &["ledger"]);
        if ledger["total"]["paid"]["count"] == 2 {
            break ledger;
        }
        assert!(Instant::now() < until, "{ledger}");
        std::thread::sleep(Duration::from_millis(100));
    };
    // Two more ticks, which must leave the third shot alone.
    std::thread::sleep(Duration::from_millis(2_500));
    let shown = json(&data, &["show", "p1"]);
    let statuses: Vec<_> = shown["jobs"].as_array().unwrap().iter().map(|job| &job["status"]).collect();
    assert_eq!(statuses, ["succeeded", "succeeded", "ready"], "{shown}");
    let paid = &ledger["total"]["paid"];
    assert_eq!((paid["micros"].as_u64(), paid["unpriced"].as_u64()), (Some(80_000), Some(0)), "{ledger}");
    assert_eq!(ledger["lanes"]["dear"]["paid"], *paid, "{ledger}");
    assert_eq!(ledger["accepted_twice"], serde_json::json!([]), "{ledger}");
    let books = std::fs::read_to_string(data.join("provider-books.jsonl")).unwrap();
    for line in ledger["lines"].as_array().unwrap() {
        assert!(books.contains(line["task"].as_str().unwrap()), "the provider knows {line}");
    }
    let text = glassline(&data, &["ledger", "--lane", "dear", "--since", "1h"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for part in ["POST#p1/SHOT#s1", "0.04", "0.08 (2)", "No attempt has more than one accepted task."] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(json(&data, &["ledger", "--lane", "another"])["lines"], serde_json::json!([]));
    drop(local);
}
