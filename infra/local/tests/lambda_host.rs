//! The Lambda host with real processes: their life, their limits and how their ends are told.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking too")]

mod support;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use glassline_local::lambda::{
    EnvironmentState, Host, HostError, HostOptions, InvokeError, LogLine, LogSink, LogStream,
};
use serde_json::{Value, json};
use support::{Held, host, invoke, is_running, options, spec, until, with_env};

#[test]
#[ignore = "the function's own process, started by the other tests"]
fn function_process() {
    support::function::serve();
}

fn pid_of(answer: &Value) -> u32 {
    u32::try_from(answer["pid"].as_u64().unwrap()).unwrap()
}

#[tokio::test]
async fn one_process_serves_one_invocation_after_the_other() {
    let host = host(vec![spec("worker")]).await;
    let first = invoke(&host, "worker", json!({"n": 1})).await.unwrap();
    let second = invoke(&host, "worker", json!({"n": 2})).await.unwrap();
    assert_eq!(first["echo"], json!({"n": 1}));
    assert_eq!(second["echo"], json!({"n": 2}));
    assert_eq!(pid_of(&first), pid_of(&second));
    let environments = host.environments("worker");
    assert_eq!(environments.len(), 1);
    assert_eq!(environments[0].pid, pid_of(&first));
    assert_eq!(environments[0].state, EnvironmentState::Idle);
    assert_eq!(environments[0].invocations, 2);
    let stats = host.stats()["worker"].clone();
    assert_eq!((stats.invocations, stats.cold_starts, stats.errors), (2, 1, 0));
    let init = stats.init_ms.unwrap();
    assert!(init.min == init.max && init.median == init.min, "{init:?}");
    host.shutdown().await;
}

#[tokio::test]
async fn what_runs_at_once_has_a_process_each_up_to_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let mut worker = spec("worker");
    worker.max_environments = 2;
    let host = host(vec![worker]).await;
    let held = [Held::new(folder.path(), "one"), Held::new(folder.path(), "two")];
    let running = held.each_ref().map(|held| {
        let (host, payload) = (host.clone(), held.payload());
        tokio::spawn(async move { invoke(&host, "worker", payload).await.unwrap() })
    });
    for held in &held {
        held.begun().await;
    }
    let states: Vec<_> = host.environments("worker").iter().map(|environment| environment.state).collect();
    assert_eq!(states, [EnvironmentState::Busy; 2]);
    let refused = invoke(&host, "worker", json!({})).await.unwrap_err();
    assert!(matches!(refused, InvokeError::Throttled { .. }) && refused.not_run(), "{refused}");
    assert_eq!(refused.error_type(), "TooManyRequestsException");
    held.iter().for_each(Held::let_go);
    let mut pids = BTreeSet::new();
    for running in running {
        pids.insert(pid_of(&running.await.unwrap()));
    }
    assert_eq!(pids.len(), 2);
    let after = invoke(&host, "worker", json!({})).await.unwrap();
    assert!(pids.contains(&pid_of(&after)));
    let stats = host.stats()["worker"].clone();
    assert_eq!((stats.invocations, stats.throttles, stats.cold_starts), (3, 1, 2));
    host.shutdown().await;
}

#[tokio::test]
async fn reserved_concurrency_is_kept_free_and_the_rest_is_shared() {
    let folder = tempfile::tempdir().unwrap();
    let (mut reserved, mut off) = (spec("reserved"), spec("off"));
    reserved.reserved_concurrency = Some(1);
    off.reserved_concurrency = Some(0);
    let total = HostOptions { total_concurrency: 2, ..options() };
    let host = Host::start(vec![reserved, off, spec("one"), spec("two")], total).await.unwrap();
    let shared = Held::new(folder.path(), "shared");
    let (other, payload) = (host.clone(), shared.payload());
    let running = tokio::spawn(async move { invoke(&other, "one", payload).await });
    shared.begun().await;
    // The only place that isn't reserved is taken, for both functions that draw on it.
    for function in ["one", "two", "off"] {
        let refused = invoke(&host, function, json!({})).await.unwrap_err();
        assert!(matches!(refused, InvokeError::Throttled { .. }), "{function}: {refused}");
    }
    invoke(&host, "reserved", json!({})).await.unwrap();
    shared.let_go();
    running.await.unwrap().unwrap();
    invoke(&host, "two", json!({})).await.unwrap();
    host.shutdown().await;
}

#[tokio::test]
async fn an_invocation_out_of_time_is_killed_with_its_process() {
    let mut worker = spec("worker");
    worker.timeout_ms = 1_250;
    let host = host(vec![worker]).await;
    let first = pid_of(&invoke(&host, "worker", json!({})).await.unwrap());
    let error = invoke(&host, "worker", json!({"do": "sleep", "ms": 600_000})).await.unwrap_err();
    let InvokeError::Timeout { request_id, timeout_ms: 1_250 } = &error else { panic!("{error}") };
    assert_eq!(
        error.to_string(),
        format!("RequestId: {request_id} Error: Task timed out after 1.25 seconds")
    );
    assert_eq!(error.error_type(), "Sandbox.Timedout");
    assert!(!error.not_run());
    assert!(!is_running(first), "the process outlived its invocation");
    assert!(host.environments("worker").is_empty());
    let next = pid_of(&invoke(&host, "worker", json!({})).await.unwrap());
    assert_ne!(first, next);
    let stats = host.stats()["worker"].clone();
    assert_eq!((stats.timeouts, stats.errors, stats.cold_starts), (1, 1, 2));
    host.shutdown().await;
}

#[tokio::test]
async fn a_process_that_ends_in_the_middle_fails_its_invocation() {
    let host = host(vec![spec("worker")]).await;
    let cases = [
        (json!({"do": "exit", "code": 3}), "Runtime exited with error: exit status 3", Some(3), None),
        (json!({"do": "exit", "code": 0}), "Runtime exited without providing a reason", Some(0), None),
        (json!({"do": "abort"}), "Runtime exited with error: signal: aborted", None, Some(6)),
    ];
    for (payload, words, exit_code, exit_signal) in cases {
        let error = invoke(&host, "worker", payload).await.unwrap_err();
        assert_eq!(error.error_type(), "Runtime.ExitError");
        let InvokeError::Exited { reason, code, signal, .. } = error else { panic!("{error}") };
        assert_eq!((reason.as_str(), code, signal), (words, exit_code, exit_signal));
    }
    invoke(&host, "worker", json!({})).await.unwrap();
    assert_eq!(host.stats()["worker"].errors, 3);
    host.shutdown().await;
}

#[tokio::test]
async fn a_function_s_own_error_keeps_its_process() {
    let host = host(vec![spec("worker")]).await;
    let before = pid_of(&invoke(&host, "worker", json!({})).await.unwrap());
    let error = invoke(&host, "worker", json!({"do": "error", "message": "no luck"})).await.unwrap_err();
    let expected =
        InvokeError::Function { error_type: "Test.Failure".to_owned(), message: "no luck".to_owned() };
    assert_eq!(error, expected);
    let panicked = invoke(&host, "worker", json!({"do": "panic"})).await.unwrap_err();
    assert!(panicked.to_string().contains("the test asked for it"), "{panicked}");
    assert_eq!(pid_of(&invoke(&host, "worker", json!({})).await.unwrap()), before);
    assert_eq!(host.stats()["worker"].errors, 2);
    host.shutdown().await;
}

#[tokio::test]
async fn a_failed_init_is_told_in_its_own_words() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("bootstrap");
    std::fs::write(&text, "not a program").unwrap();
    let mut entrypoint = spec("entrypoint");
    entrypoint.program = text;
    let specs = vec![
        with_env(spec("report"), "TEST_INIT", "report"),
        with_env(spec("exit"), "TEST_INIT", "exit"),
        with_env(spec("hang"), "TEST_INIT", "hang"),
        entrypoint,
    ];
    let host = Host::start(specs, HostOptions { init_timeout_ms: 1_500, ..options() }).await.unwrap();
    let cases = [
        ("report", "Config.Missing", "GLASSLINE_SECRET is not set"),
        (
            "exit",
            "Runtime.ExitError",
            "exit status 3; the last line it wrote to standard error: refusing to start",
        ),
        ("hang", "Sandbox.Timedout", "Init timed out after 1500 ms"),
        ("entrypoint", "Runtime.InvalidEntrypoint", "could not be started"),
    ];
    for (function, expected, words) in cases {
        let error = invoke(&host, function, json!({})).await.unwrap_err();
        let InvokeError::InitFailed { error_type, message } = &error else { panic!("{function}: {error}") };
        assert_eq!(error_type, expected);
        assert!(message.contains(words), "{function}: {message}");
        assert!(error.not_run() && host.environments(function).is_empty(), "{function}");
        let stats = host.stats()[function].clone();
        assert_eq!((stats.init_failures, stats.errors, stats.init_ms), (1, 1, None), "{function}");
    }
    host.shutdown().await;
}

#[tokio::test]
async fn failing_inits_are_spaced_out_and_forgotten_after_a_success() {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let worker = with_env(spec("worker"), "TEST_INIT", ready.to_str().unwrap());
    let pauses = HostOptions { init_backoff_ms: 200, init_backoff_max_ms: 300, ..options() };
    let host = Host::start(vec![worker], pauses).await.unwrap();
    let started = Instant::now();
    for _ in 0..3 {
        let error = invoke(&host, "worker", json!({})).await.unwrap_err();
        assert!(matches!(error, InvokeError::InitFailed { .. }), "{error}");
    }
    // 200 ms after the first failure, 300 (not 400) after the second.
    assert!(started.elapsed() >= Duration::from_millis(500));
    std::fs::write(&ready, "").unwrap();
    let pid = pid_of(&invoke(&host, "worker", json!({})).await.unwrap());
    assert!(host.kill(pid));
    until("the process is gone", || !is_running(pid)).await;
    invoke(&host, "worker", json!({})).await.unwrap();
    let stats = host.stats()["worker"].clone();
    assert_eq!((stats.init_failures, stats.cold_starts), (3, 5));
    host.shutdown().await;
}

#[tokio::test]
async fn a_killed_process_is_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(vec![spec("worker")]).await;
    assert_eq!(host.kill_any_busy("worker", 7), None);
    assert_eq!(host.kill_any_busy("nobody", 7), None);
    for name in ["by pid", "any"] {
        let held = Held::new(folder.path(), name);
        let (other, payload) = (host.clone(), held.payload());
        let running = tokio::spawn(async move { invoke(&other, "worker", payload).await });
        held.begun().await;
        let pid = host.environments("worker")[0].pid;
        if name == "any" {
            assert_eq!(host.kill_any_busy("worker", 7), Some(pid));
        } else {
            assert!(host.kill(pid));
        }
        let error = running.await.unwrap().unwrap_err();
        assert!(matches!(error, InvokeError::Exited { signal: Some(9), .. }), "{error}");
        assert!(error.to_string().ends_with("Error: Runtime exited with error: signal: killed"), "{error}");
        assert!(!is_running(pid));
        assert!(!host.kill(pid), "it is no environment any more");
    }
    // An idle one: no invocation notices, however soon it comes.
    for _ in 0..20 {
        let idle = pid_of(&invoke(&host, "worker", json!({})).await.unwrap());
        assert!(host.kill(idle));
        let next = pid_of(&invoke(&host, "worker", json!({})).await.unwrap());
        assert_ne!(idle, next);
        until("the idle process is gone", || !is_running(idle)).await;
    }
    assert!(!host.kill(1), "not one of ours");
    assert_eq!(host.stats()["worker"].kills, 22);
    host.shutdown().await;
}

#[tokio::test]
async fn idle_processes_are_ended() {
    let host = Host::start(vec![spec("worker")], HostOptions { idle_ms: 100, ..options() }).await.unwrap();
    let pid = pid_of(&invoke(&host, "worker", json!({})).await.unwrap());
    until("the idle environment has ended", || host.environments("worker").is_empty()).await;
    assert!(!is_running(pid));
    invoke(&host, "worker", json!({})).await.unwrap();
    assert_eq!(host.stats()["worker"].errors, 0);
    host.shutdown().await;
}

#[tokio::test]
async fn a_process_has_its_own_variables_and_no_others() {
    let host = host(vec![with_env(spec("worker"), "TABLE", "renders")]).await;
    let variables = invoke(&host, "worker", json!({"do": "env"})).await.unwrap();
    let given = [
        ("TABLE", "renders"),
        ("_HANDLER", "bootstrap"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("AWS_LAMBDA_FUNCTION_NAME", "worker"),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
        ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand"),
        ("AWS_LAMBDA_LOG_GROUP_NAME", "/aws/lambda/worker"),
    ];
    for (name, value) in given {
        assert_eq!(variables[name], value, "{name}");
    }
    let mut allowed: BTreeSet<&str> = given.map(|(name, _)| name).into();
    allowed.extend(["AWS_LAMBDA_LOG_STREAM_NAME", "AWS_LAMBDA_RUNTIME_API", "LAMBDA_TASK_ROOT"]);
    allowed.extend(["PATH", "TMPDIR", "HOME", "_X_AMZN_TRACE_ID"]);
    let names: Vec<&String> = variables.as_object().unwrap().keys().collect();
    let foreign: Vec<_> = names.iter().filter(|name| !allowed.contains(name.as_str())).collect();
    assert!(foreign.is_empty(), "inherited: {foreign:?}");
    let folder = std::env::current_exe().unwrap().canonicalize().unwrap();
    assert_eq!(variables["LAMBDA_TASK_ROOT"], folder.parent().unwrap().to_str().unwrap());
    assert_eq!(invoke(&host, "worker", json!({"do": "cwd"})).await.unwrap(), variables["LAMBDA_TASK_ROOT"]);
    host.shutdown().await;
}

#[tokio::test]
async fn an_invocation_carries_its_context() {
    let host = host(vec![spec("worker")]).await;
    let now_ms = || std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let before_ms = now_ms();
    let trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
    let payload = json!({"do": "context"}).to_string().into_bytes();
    let answer = host.invoke("worker", payload, Some(trace.to_owned())).await.unwrap();
    let context: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(context["arn"], "arn:aws:lambda:us-east-1:000000000000:function:worker");
    assert_eq!((&context["trace"], &context["trace_env"]), (&json!(trace), &json!(trace)));
    let deadline_ms = u128::from(context["deadline"].as_u64().unwrap());
    assert!((before_ms + 60_000..=now_ms() + 60_000).contains(&deadline_ms), "{deadline_ms}");
    let again = invoke(&host, "worker", json!({"do": "context"})).await.unwrap();
    assert_ne!(again["request_id"], context["request_id"]);
    assert!(again["trace"].as_str().unwrap().starts_with("Root=1-"), "{again}");
    host.shutdown().await;
}

#[tokio::test]
async fn wrong_calls_of_the_runtime_api_are_refused_and_change_nothing() {
    let host = host(vec![spec("worker")]).await;
    let statuses = invoke(&host, "worker", json!({"do": "misuse"})).await.unwrap();
    let expected = json!({
        "wrong id": 400, "wrong id error": 400, "init error": 403, "next": 500, "unknown": 404, "not json": 400,
    });
    assert_eq!(statuses, expected);
    assert_eq!(host.environments("worker")[0].invocations, 1);
    host.shutdown().await;
}

#[tokio::test]
async fn payloads_and_answers_are_bounded() {
    let host = host(vec![spec("worker")]).await;
    // The answer is a JSON string: two bytes more than its text.
    let longest = invoke(&host, "worker", json!({"do": "big", "bytes": 6_291_554})).await.unwrap();
    assert_eq!(longest.as_str().unwrap().len(), 6_291_554);
    let pid = host.environments("worker")[0].pid;
    let error = invoke(&host, "worker", json!({"do": "big", "bytes": 6_291_555})).await.unwrap_err();
    assert_eq!(error.error_type(), "Function.ResponseSizeTooLarge");
    assert!(error.to_string().contains("(6291557 bytes) exceeded"), "{error}");
    assert_eq!(pid_of(&invoke(&host, "worker", json!({})).await.unwrap()), pid, "its process went on");
    let refused = [format!("\"{}\"", "x".repeat(6_291_555)), "{".to_owned(), String::new(), "1 2".to_owned()];
    for payload in refused {
        let error = host.invoke("worker", payload.into_bytes(), None).await.unwrap_err();
        assert!(matches!(error, InvokeError::Payload { .. }), "{error}");
    }
    let unknown = invoke(&host, "nobody", json!({})).await.unwrap_err();
    assert_eq!(unknown, InvokeError::UnknownFunction { function: "nobody".to_owned() });
    host.shutdown().await;
}

#[tokio::test]
async fn output_goes_to_a_file_per_function() {
    let folder = tempfile::tempdir().unwrap();
    let logs = folder.path().join("logs");
    let sink = HostOptions { logs: LogSink::Folder(logs.clone()), max_line_bytes: 100, ..options() };
    let mut slow = spec("slow");
    slow.timeout_ms = 1_000;
    let host = Host::start(vec![spec("worker"), slow], sink).await.unwrap();
    let say = json!({"do": "print", "stdout": "to stdout", "stderr": "y".repeat(150)});
    let pid = pid_of(&invoke(&host, "worker", say).await.unwrap());
    invoke(&host, "slow", json!({"do": "sleep", "ms": 600_000})).await.unwrap_err();
    host.shutdown().await;
    let text = std::fs::read_to_string(logs.join("worker.log")).unwrap();
    assert!(text.contains(&format!("[{pid}] to stdout\n")), "{text}");
    assert!(text.contains(&format!("[{pid}] {} … (50 bytes cut)\n", "y".repeat(100))), "{text}");
    let slow = std::fs::read_to_string(logs.join("slow.log")).unwrap();
    assert!(slow.contains("Task timed out after 1.00 seconds"), "{slow}");
}

#[tokio::test]
async fn output_can_be_forwarded() {
    let lines: Arc<Mutex<Vec<LogLine>>> = Arc::default();
    let kept = Arc::clone(&lines);
    let forward = LogSink::Forward(Arc::new(move |line| kept.lock().unwrap().push(line)));
    let host = Host::start(vec![spec("worker")], HostOptions { logs: forward, ..options() }).await.unwrap();
    let say = json!({"do": "print", "stdout": "out", "stderr": "err"});
    let pid = pid_of(&invoke(&host, "worker", say).await.unwrap());
    let has = |stream, text: &str| {
        let lines = lines.lock().unwrap();
        lines.iter().any(|line| line.stream == stream && line.text == text && line.pid == pid)
    };
    until("both lines have come", || has(LogStream::Stdout, "out") && has(LogStream::Stderr, "err")).await;
    host.shutdown().await;
}

#[tokio::test]
async fn shutdown_leaves_no_process_and_takes_no_invocation() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(vec![spec("worker")]).await;
    let held = Held::new(folder.path(), "busy");
    let (other, payload) = (host.clone(), held.payload());
    let running = tokio::spawn(async move { invoke(&other, "worker", payload).await });
    held.begun().await;
    invoke(&host, "worker", json!({})).await.unwrap();
    let pids: Vec<u32> = host.environments("worker").iter().map(|environment| environment.pid).collect();
    assert_eq!(pids.len(), 2);
    host.shutdown().await;
    assert!(pids.iter().all(|pid| !is_running(*pid)), "{pids:?}");
    assert!(host.environments("worker").is_empty());
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(error, InvokeError::Exited { signal: Some(9), .. }), "{error}");
    assert_eq!(invoke(&host, "worker", json!({})).await.unwrap_err(), InvokeError::ShuttingDown);
    host.shutdown().await;
}

#[tokio::test]
async fn shutdown_waits_for_running_invocations() {
    let folder = tempfile::tempdir().unwrap();
    let patient = HostOptions { shutdown_grace_ms: 60_000, ..options() };
    let host = Host::start(vec![spec("worker")], patient).await.unwrap();
    let held = Held::new(folder.path(), "busy");
    let (other, payload) = (host.clone(), held.payload());
    let running = tokio::spawn(async move { invoke(&other, "worker", payload).await });
    held.begun().await;
    let other = host.clone();
    let shutdown = tokio::spawn(async move { other.shutdown().await });
    until("the host refuses invocations", || host.environments("worker").len() == 1).await;
    held.let_go();
    assert_eq!(running.await.unwrap().unwrap()["echo"]["name"], "busy");
    shutdown.await.unwrap();
    assert!(host.environments("worker").is_empty());
}

#[tokio::test]
async fn a_dropped_host_ends_its_processes() {
    let host = host(vec![spec("worker")]).await;
    let pid = pid_of(&invoke(&host, "worker", json!({})).await.unwrap());
    assert!(is_running(pid));
    drop(host);
    until("the process is gone", || !is_running(pid)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_callers_share_few_processes_and_each_gets_its_own_answer() {
    let mut worker = spec("worker");
    worker.max_environments = 3;
    let host = host(vec![worker]).await;
    let callers: Vec<_> = (0..12)
        .map(|caller| {
            let host = host.clone();
            tokio::spawn(async move {
                for turn in 0..20 {
                    let payload = json!({"caller": caller, "turn": turn});
                    let answer = loop {
                        match invoke(&host, "worker", payload.clone()).await {
                            Ok(answer) => break answer,
                            Err(InvokeError::Throttled { .. }) => {
                                tokio::time::sleep(Duration::from_millis(2)).await;
                            }
                            Err(error) => panic!("{error}"),
                        }
                    };
                    assert_eq!(answer["echo"], payload);
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    let environments = host.environments("worker");
    assert!(environments.len() <= 3, "{environments:?}");
    assert_eq!(environments.iter().map(|environment| environment.invocations).sum::<u64>(), 240);
    assert_eq!(host.stats()["worker"].errors, 0);
    host.shutdown().await;
}

#[tokio::test]
async fn a_spec_that_can_not_work_is_refused_at_the_start() {
    type Change = fn(&mut glassline_local::lambda::FunctionSpec);
    let changes: [(Change, &str); 9] = [
        (|spec| spec.name = "../escape".to_owned(), "rename it"),
        (|spec| spec.name = String::new(), "rename it"),
        (|spec| spec.program = "/nowhere/bootstrap".into(), "build it"),
        (|spec| spec.timeout_ms = 0, "timeout_ms is 0"),
        (|spec| spec.timeout_ms = 900_001, "timeout_ms is 900001"),
        (|spec| spec.max_environments = 0, "max_environments is 0"),
        (|spec| spec.env.push(("AWS_REGION".to_owned(), "x".to_owned())), "is set by the host"),
        (|spec| spec.env.push(("A=B".to_owned(), "x".to_owned())), "can't be given"),
        (|spec| spec.reserved_concurrency = Some(1_001), "more than the total of 1000"),
    ];
    for (change, words) in changes {
        let mut spec = spec("worker");
        change(&mut spec);
        let error = Host::start(vec![spec], options()).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    let twice = Host::start(vec![spec("worker"), spec("worker")], options()).await.unwrap_err();
    assert!(matches!(twice, HostError::Duplicate { .. }), "{twice}");
}
