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
    waiting_without_a_stack_fails_and_says_so(folder.path(), &data);
    let locations: Vec<String> = jobs
        .iter()
        .map(|job| {
            let file = Path::new(job["file"].as_str().unwrap()).canonicalize().unwrap();
            let root = data.join("storage").canonicalize().unwrap();
            file.strip_prefix(root).unwrap().to_str().unwrap().to_owned()
        })
        .collect();
    the_audit_tells_what_does_not_agree(&data, &locations);
}

/// Files that a test puts beside the demo's, and what the audit says of them.
fn the_audit_tells_what_does_not_agree(data: &Path, locations: &[String]) {
    let storage = data.join("storage");
    let audit = |options: &[&str], well: bool| {
        let output = glassline(data, &[&["audit", "--json"], options].concat());
        let report = last_json(&output);
        assert_eq!(output.status.success(), well, "{report}");
        report
    };
    let count = |report: &Value, what: &str| report[what].as_array().unwrap().len();
    let clean = audit(&["--deep"], true);
    assert_eq!(clean["objects"], locations.len(), "{clean}");
    for what in
        ["objects_without_rows", "rows_without_objects", "mismatches", "second_copies", "foreign", "bad_rows"]
    {
        assert_eq!(count(&clean, what), 0, "{clean}");
    }
    // The same attempt with other bytes: old, and young. An attempt that never was. A file that is no output.
    let (before, name) = locations[0].rsplit_once('/').unwrap();
    let (attempt, rest) = name.split_once('-').unwrap();
    let extension = rest.rsplit_once('.').unwrap().1;
    let other = |attempt: &str, digit: &str| format!("{before}/{attempt}-{}.{extension}", digit.repeat(64));
    let (old, young, unknown) = (other(attempt, "a"), other(attempt, "b"), other("77", "c"));
    for path in [&old, &young, &unknown, &"notes.txt".to_owned()] {
        std::fs::write(storage.join(path), "stray").unwrap();
    }
    let two_days_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(48 * 60 * 60);
    for path in [&old, &unknown] {
        let file = std::fs::File::options().write(true).open(storage.join(path)).unwrap();
        file.set_modified(two_days_ago).unwrap();
    }
    let strays = audit(&[], true);
    assert_eq!((count(&strays, "objects_without_rows"), count(&strays, "foreign")), (3, 1), "{strays}");
    assert!(storage.join(&old).exists(), "without --repair nothing is changed");
    // One gone, one with a byte changed.
    std::fs::remove_file(storage.join(&locations[1])).unwrap();
    let path = storage.join(&locations[2]);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let shallow = audit(&[], false);
    assert_eq!((count(&shallow, "rows_without_objects"), count(&shallow, "mismatches")), (1, 0), "{shallow}");
    assert_eq!(shallow["rows_without_objects"][0]["location"], locations[1].as_str());
    let deep = audit(&["--deep", "--repair"], false);
    assert_eq!(count(&deep, "mismatches"), 1, "{deep}");
    assert_eq!(deep["mismatches"][0]["location"], locations[2].as_str());
    assert_eq!(deep["mismatches"][0]["differs_in"], "hash");
    let gone = |path: &str| !storage.join(path).exists();
    assert!(gone(&old) && !gone(&young) && !gone(&unknown) && !gone("notes.txt"), "{deep}");
    assert!(locations.iter().enumerate().all(|(n, path)| gone(path) == (n == 1)), "no output is touched");
    let said = String::from_utf8(glassline(data, &["audit"]).stdout).unwrap();
    assert!(
        said.contains("rows without their object") && said.contains("its attempt has no outcome"),
        "{said}"
    );
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

/// Without a stack nothing is waited for, and nobody must take that for success.
fn waiting_without_a_stack_fails_and_says_so(folder: &Path, data: &Path) {
    let file = folder.join("posts.json");
    std::fs::write(&file, r#"{"id":"p1","lane":"prism","shots":[{"id":"s1","prompt":"x"}]}"#).unwrap();
    let file = file.to_str().unwrap();
    let output = glassline(data, &["submit", file, "--wait"]);
    says(&output, "Nothing was waited for");
    assert!(String::from_utf8_lossy(&output.stdout).contains("p1: submitted"), "{output:?}");
    assert!(glassline(data, &["submit", file]).status.success());
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    says(&glassline(&data, &["ls", "--limit", "0"]), "--limit");
    says(&glassline(&data, &["episodes", "--limit", "0"]), "--limit");
    let lanes = folder.path().join("lanes.json");
    let file = lanes.to_str().unwrap();
    for (text, sentence) in [
        (r#""render_min_ms":500,"render_max_ms":5"#, "render_min_ms is 500 and render_max_ms 5"),
        (r#""budget_micros_per_day":5"#, "a budget needs a price_micros"),
        (r#""budget_micros_per_day":5,"price_micros":6"#, "isn't above budget_micros_per_day"),
        (r#""starts_per_minute":0"#, "with 0 starts_per_minute nothing would start"),
    ] {
        let lane = format!(r#"[{{"name":"a","capacity":1,"recovery":{{"tier":"none"}},{text}}}]"#);
        std::fs::write(&lanes, lane).unwrap();
        says(&glassline(&data, &["local", "--lanes", file]), sentence);
    }
}

/// A full disk behind standard output is said, and a reader that has gone away ends the command quietly.
#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let run = |stdout: std::process::Stdio| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_glassline"));
        let command = command.arg("ls").arg("--data").arg(&data).stdout(stdout);
        command.stderr(std::process::Stdio::piped()).spawn().unwrap().wait_with_output().unwrap()
    };
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = run(full.into());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    says(&output, "the output can't be written");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = run(writer.into());
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), [].as_slice()), "{output:?}");
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
