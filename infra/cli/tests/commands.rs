//! The command as a person uses it.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};

fn glassline(data: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_glassline")).args(arguments).arg("--data").arg(data).output().unwrap()
}

fn last_json(output: &Output) -> Value {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap_or_else(|error| {
        panic!("{error}: {text}\n{}", String::from_utf8_lossy(&output.stderr));
    })
}

#[test]
fn the_demo_proves_that_each_shot_was_paid_for_once() {
    let folder = tempfile::tempdir().unwrap();
    // A relative folder, as most people name it.
    let output = Command::new(env!("CARGO_BIN_EXE_glassline"))
        .args(["demo", "--json", "--data", "data"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let report = last_json(&output);
    assert!(output.status.success(), "{report}");
    let jobs = report["jobs"].as_array().unwrap();
    assert!(jobs.len() >= 12, "{report}");
    for job in jobs {
        assert_eq!(job["status"], "succeeded", "{job}");
        assert_eq!(job["accepted_renders"], 1, "{job}");
        assert_eq!(job["qa_messages"], 1, "{job}");
        let file = std::fs::read(job["file"].as_str().unwrap()).unwrap();
        assert!(file.len() > 1_000, "{job}");
        assert_eq!(job["sha256"].as_str().unwrap().len(), 64, "{job}");
    }
    assert!(report["faults"]["drop_answer"].as_u64().unwrap() >= 2, "{report}");
    assert_eq!(report["faults"]["kill_worker"], 1, "{report}");
    let used = &report["operations_per_job"];
    assert_eq!(used["create_write_units"], 3.0, "{report}");
    assert!(used["write_units"].as_f64().unwrap() >= 7.0, "{report}");
    assert_eq!(report["episodes"][0]["status"], "complete", "{report}");
    assert!(report["seconds"].as_f64().unwrap() > 1.0, "{report}");
    // What it left behind can be looked at without a running stack.
    let data = folder.path().join("data");
    logs_tell_the_story_of_a_claim(&data);
    let posts = last_json(&glassline(&data, &["ls", "--json"]));
    assert_eq!(posts["posts"].as_array().unwrap().len(), 4, "{posts}");
    let key = jobs[0]["key"].as_str().unwrap();
    let shown = last_json(&glassline(&data, &["show", key, "--json"]));
    assert_eq!(shown["jobs"][0]["outcomes"][0]["verdict"], "stored", "{shown}");
    assert!(shown["jobs"][0].get("token").is_none(), "{shown}");
    let lanes = last_json(&glassline(&data, &["lanes", "--json"]));
    assert!(lanes["lanes"].as_array().unwrap().iter().all(|lane| lane["in_use"] == 0), "{lanes}");
    let queues = last_json(&glassline(&data, &["queues", "--json"]));
    let qa = queues["queues"].as_array().unwrap().iter().find(|queue| queue["queue"] == "qa.fifo").unwrap();
    assert_eq!(qa["visible"], jobs.len(), "{queues}");
}

/// Each claim has a trace that leads from dispatch through the worker to the finisher, and what was done is counted.
fn logs_tell_the_story_of_a_claim(data: &Path) {
    let mut functions: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    let mut counted: BTreeMap<String, f64> = BTreeMap::new();
    for name in ["dispatch", "worker", "finisher"] {
        let text = std::fs::read_to_string(data.join("logs").join(format!("{name}.log"))).unwrap();
        assert!(!text.contains("no_queue"), "{name} sends to a queue that it doesn't know: {text}");
        let lines = text.lines().filter_map(|line| serde_json::from_str(line.split_once("] ")?.1).ok());
        for line in lines.collect::<Vec<Value>>() {
            for metric in line["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().into_iter().flatten() {
                let metric = metric["Name"].as_str().unwrap();
                *counted.entry(metric.to_owned()).or_default() += line[metric].as_f64().unwrap();
            }
            if let (Some(job), Some(trace)) = (line["job"].as_str(), line["trace_id"].as_str()) {
                for field in ["lane", "attempt", "token", "function"] {
                    assert!(!line[field].is_null(), "{field}: {line}");
                }
                functions.entry((job.to_owned(), trace.to_owned())).or_default().insert(name.to_owned());
            }
        }
    }
    assert!(functions.values().any(|functions| functions.len() == 3), "{functions:?}");
    for metric in ["RendersStarted", "RendersSucceeded", "SubmitsUnknown", "FullTicks", "TableWriteUnits"] {
        assert!(counted.get(metric).is_some_and(|count| *count > 0.0), "{metric}: {counted:?}");
    }
}

fn says(output: &Output, sentence: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it must fail: {output:?}");
    assert!(error.contains(sentence), "{error}");
}

#[test]
fn what_is_wrong_is_said_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    says(&glassline(&data, &["ls"]), "there is no data in");
    let file = folder.path().join("posts.json");
    let file = file.to_str().unwrap();
    says(&glassline(&data, &["submit", file]), "can't be read");
    std::fs::write(file, "{\"id\": \"p1\",\n \"lane\": }").unwrap();
    says(&glassline(&data, &["submit", file]), "line 2, column 10");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(file, r#"{"id":"p1","lane":"nowhere","shots":[{"id":"s1","prompt":"x"}]}"#).unwrap();
    says(&glassline(&data, &["submit", file]), "there is no lane `nowhere`");
    says(&glassline(&data, &["show", "POST#nothing"]), "there is no `POST#nothing`");
    says(&glassline(&data, &["show", "no such/key"]), "is not valid");
    says(&glassline(&data, &["function", "nothing"]), "there is no function `nothing`");
}
