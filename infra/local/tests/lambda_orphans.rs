//! However the process that hosts the functions ends, its functions end too.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "the parent process is told by variables how to end")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking too")]

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use support::{Held, host, invoke, is_running, spec, until};

#[test]
#[ignore = "the function's own process, started by the other tests"]
fn function_process() {
    support::function::serve();
}

/// Hosts an idle and a busy process, tells their ids, and ends as it is told.
#[tokio::test]
#[ignore = "the parent's process, started by the other tests"]
async fn parent_process() {
    let (Ok(folder), Ok(end)) = (std::env::var("TEST_FOLDER"), std::env::var("TEST_END")) else { return };
    let host = host(vec![spec("idle"), spec("busy")]).await;
    invoke(&host, "idle", json!({})).await.unwrap();
    let held = Held::new(Path::new(&folder), "busy");
    let (other, payload) = (host.clone(), held.payload());
    let running = tokio::spawn(async move { invoke(&other, "busy", payload).await });
    held.begun().await;
    println!("\nPIDS {} {}", host.environments("idle")[0].pid, host.environments("busy")[0].pid);
    match end.as_str() {
        "panic" => panic!("the test asked for it"),
        "abort" => std::process::abort(),
        "exit" => std::process::exit(0),
        _ => drop(running.await),
    }
}

struct Parent {
    process: Child,
    idle: u32,
    busy: u32,
}

impl Parent {
    fn start(folder: &Path, end: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["parent_process", "--exact", "--ignored", "--nocapture"])
            .env("TEST_FOLDER", folder)
            .env("TEST_END", end)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let told = lines.map(Result::unwrap).find_map(|line| line.strip_prefix("PIDS ").map(str::to_owned));
        let pids: Vec<u32> = told.unwrap().split(' ').map(|pid| pid.parse().unwrap()).collect();
        Self { process, idle: pids[0], busy: pids[1] }
    }
}

/// The process group of a process, whose leader is the guard.
fn group_of(pid: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().split_whitespace().nth(2).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_killed_parent_leaves_neither_idle_nor_busy_processes() {
    let folder = tempfile::tempdir().unwrap();
    let mut parent = Parent::start(folder.path(), "wait");
    assert!(is_running(parent.idle) && is_running(parent.busy));
    let guard = group_of(parent.idle);
    assert_eq!(guard, group_of(parent.busy));
    assert_ne!(guard, group_of(parent.process.id()), "the guard must not kill its parent's group");
    parent.process.kill().unwrap();
    parent.process.wait().unwrap();
    for pid in [parent.idle, parent.busy, guard] {
        until("the process has ended", || !is_running(pid)).await;
    }
}

#[tokio::test]
async fn without_the_guard_they_end_when_the_runtime_api_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let mut parent = Parent::start(folder.path(), "wait");
    let guard = group_of(parent.idle);
    assert!(Command::new("/bin/sh").args(["-c", &format!("kill -9 {guard}")]).status().unwrap().success());
    until("the guard has ended", || !is_running(guard)).await;
    assert!(is_running(parent.idle) && is_running(parent.busy));
    parent.process.kill().unwrap();
    parent.process.wait().unwrap();
    until("the idle process has ended", || !is_running(parent.idle)).await;
    assert!(is_running(parent.busy), "nothing tells a busy process before it answers");
    Held::new(folder.path(), "busy").let_go();
    until("the busy process has ended", || !is_running(parent.busy)).await;
}

#[tokio::test]
async fn a_parent_that_panics_aborts_or_exits_leaves_none_either() {
    for end in ["panic", "abort", "exit"] {
        let folder = tempfile::tempdir().unwrap();
        let mut parent = Parent::start(folder.path(), end);
        let status = parent.process.wait().unwrap();
        assert_eq!(status.success(), end == "exit", "{end}: {status}");
        for pid in [parent.idle, parent.busy] {
            until(&format!("the process has ended after {end}"), || !is_running(pid)).await;
        }
    }
}
