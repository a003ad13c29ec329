//! Series, stories and episodes as a person uses them.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

mod support;

use std::time::{Duration, Instant};
use support::{Local, glassline, json};

#[test]
fn stories_become_episodes() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let local = Local::start(&data, None);
    let added = json(&data, &["series", "add", "night", "--lane", "prism", "--open", "2"]);
    assert_eq!(added["series"], "night");
    let csv = folder.path().join("stories.csv");
    std::fs::write(&csv, "series,key,premise\nnight,owl,\"An owl, awake.\"\n").unwrap();
    let lines = folder.path().join("stories.jsonl");
    let frames = r#"["one","two","three","four"]"#;
    let good = format!(r#"{{"series":"night","key":"fox","frames":{frames}}}"#);
    let bad = r#"{"series":"night","key":"hen","frames":["one","two","three"]}"#;
    std::fs::write(&lines, format!("{good}\n{bad}\n")).unwrap();
    assert!(glassline(&data, &["submit", csv.to_str().unwrap()]).status.success());
    let mixed = glassline(&data, &["submit", lines.to_str().unwrap()]);
    assert!(!mixed.status.success(), "one of them has three frames");
    assert!(String::from_utf8_lossy(&mixed.stderr).contains("it has 3 frames; a story has exactly four"));
    assert!(String::from_utf8_lossy(&mixed.stdout).contains("STORY#night#fox: submitted"));
    let until = Instant::now() + Duration::from_secs(60);
    let episodes = loop {
        let episodes = json(&data, &["episodes", "night"]);
        let list = episodes.as_array().unwrap();
        if list.len() == 2 && list.iter().all(|episode| episode["status"] == "complete") {
            break episodes;
        }
        assert!(Instant::now() < until, "{episodes}");
        std::thread::sleep(Duration::from_millis(200));
    };
    let newest = &episodes[0];
    assert_eq!(newest["series"], "night");
    assert_eq!((newest["number"].as_u64(), newest["season"].as_u64()), (Some(2), Some(1)));
    assert_eq!(newest["episode"], 2);
    let frames = newest["frames"].as_array().unwrap();
    assert!(frames.len() == 4 && frames.iter().all(|frame| frame["status"] == "succeeded"), "{newest}");
    let series = json(&data, &["series"]);
    let night = series["series"].as_array().unwrap().iter().find(|row| row["series"] == "night").unwrap();
    assert_eq!((night["episodes"].as_u64(), night["open"].as_u64()), (Some(2), Some(0)), "{night}");
    let shown = glassline(&data, &["show", "EPISODE#night#000001"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    for part in ["season 1, episode 1", "FRAME#4", "succeeded, attempt 1"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let refused = glassline(&data, &["reopen", "EPISODE#night#000001"]);
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("is complete; only a failed one can be reopened")
    );
    drop(local);
}
