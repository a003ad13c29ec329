//! Event source mappings from a real queue engine to real processes. The engine's clock moves only when a test moves
//! it, so what becomes visible again does so when the test says.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking too")]

mod support;

use std::path::PathBuf;

use glassline_local::lambda::{FunctionSpec, Host};
use glassline_local::mapping::{self, Mapping, MappingHandle};
use glassline_sqs::{
    AttributeValue, Durability, Engine, EngineOptions, ManualClock, MessageAttribute, Outgoing,
    QueueSettings, Redrive,
};
use serde_json::{Value, json};
use support::{Held, host, spec, until, with_env};

/// The queues' visibility timeout, on the clock that the tests move.
const VISIBILITY_MS: u64 = 120_000;
/// Longer than anything that must end may take.
const LONG_MS: u64 = 60_000;

#[test]
#[ignore = "the function's own process, started by the other tests"]
fn function_process() {
    support::function::serve();
}

struct Fixture {
    engine: Engine,
    clock: ManualClock,
    host: Host,
    folder: tempfile::TempDir,
}

/// A queue and a host with one function that writes down what it is given.
async fn fixture(queue: &str, change: impl FnOnce(FunctionSpec) -> FunctionSpec) -> Fixture {
    let clock = ManualClock::new(1_700_000_000_000);
    let options =
        EngineOptions { clock: std::sync::Arc::new(clock.clone()), durability: Durability::ProcessCrash };
    let engine = Engine::open_with(None, options).unwrap();
    let fifo = queue.ends_with(".fifo");
    let settings = QueueSettings { visibility_ms: VISIBILITY_MS, fifo, ..QueueSettings::default() };
    engine.create_queue(queue, settings).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen");
    let worker = change(with_env(spec("worker"), "TEST_SEEN", seen.to_str().unwrap()));
    Fixture { engine, clock, host: host(vec![worker]).await, folder }
}

fn mapping_of(queue: &str) -> Mapping {
    Mapping {
        queue: queue.to_owned(),
        function: "worker".to_owned(),
        batch_size: 10,
        window_ms: 0,
        max_concurrency: None,
        report_failures: true,
        visibility_ms: VISIBILITY_MS,
    }
}

impl Fixture {
    fn spawn(&self, mapping: Mapping) -> MappingHandle {
        mapping::spawn(self.engine.clone(), self.host.clone(), mapping).unwrap()
    }

    async fn send(&self, queue: &str, bodies: &[Value]) {
        for body in bodies {
            self.engine.send(queue, Outgoing::new(body.to_string())).await.unwrap();
        }
    }

    /// Every delivery so far, in order.
    fn seen(&self) -> Vec<Value> {
        let path: PathBuf = self.folder.path().join("seen");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        // A line without its end is still being written.
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The deliveries as `name/receives`.
    fn deliveries(&self) -> Vec<String> {
        let seen = self.seen();
        seen.iter().map(|line| format!("{}/{}", line["name"].as_str().unwrap(), line["receives"])).collect()
    }

    /// Visible, in flight.
    async fn depth(&self, queue: &str) -> (u64, u64) {
        let depth = self.engine.depth(queue).await.unwrap();
        (depth.visible, depth.in_flight)
    }

    async fn until_seen(&self, deliveries: usize, handle: &MappingHandle) {
        until(&format!("{deliveries} deliveries have ended"), || {
            self.seen().len() >= deliveries && handle.counts().running == 0
        })
        .await;
    }
}

#[tokio::test]
async fn messages_become_one_invocation_and_are_deleted() {
    let fixture = fixture("render", |spec| spec).await;
    let trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
    let text = MessageAttribute { data_type: "String".into(), value: AttributeValue::Text("v".into()) };
    let traced = Outgoing {
        trace_header: Some(trace.to_owned()),
        message_attributes: [("kind".to_owned(), text)].into(),
        ..Outgoing::new(json!({"name": "a"}).to_string())
    };
    let sent = fixture.engine.send("render", traced).await.unwrap();
    fixture.send("render", &[json!({"name": "b"}), json!({"name": "c"})]).await;
    let handle = fixture.spawn(mapping_of("render"));
    fixture.until_seen(3, &handle).await;
    assert!(handle.stop(LONG_MS).await);
    let seen = fixture.seen();
    assert_eq!(fixture.deliveries(), ["a/1", "b/1", "c/1"]);
    assert!(seen.iter().all(|line| line["batch"] == 3), "{seen:?}");
    let record = &seen[0]["record"];
    assert_eq!(record["messageId"], sent.id);
    assert_eq!(record["md5OfBody"], sent.md5_of_body);
    assert_eq!(record["body"], json!({"name": "a"}).to_string());
    assert_eq!(record["eventSource"], "aws:sqs");
    assert_eq!(record["eventSourceARN"], "arn:aws:sqs:us-east-1:000000000000:render");
    assert_eq!(record["awsRegion"], "us-east-1");
    assert_eq!(record["messageAttributes"]["kind"]["stringValue"], "v");
    for name in ["SentTimestamp", "ApproximateFirstReceiveTimestamp", "SenderId"] {
        assert!(record["attributes"][name].is_string(), "{name}");
    }
    assert_eq!(record["attributes"]["AWSTraceHeader"], trace);
    assert_eq!((&seen[0]["trace"], &seen[0]["trace_env"]), (&json!(trace), &json!(trace)));
    assert_eq!(fixture.depth("render").await, (0, 0));
    let counts = handle.counts();
    assert_eq!((counts.batches, counts.records, counts.deleted, counts.failed), (1, 3, 3, 0));
    fixture.host.shutdown().await;
}

#[tokio::test]
async fn only_what_failed_comes_again() {
    let fixture = fixture("render", |spec| spec).await;
    let bodies = [json!({"name": "a"}), json!({"name": "b", "do": "fail", "until": 3}), json!({"name": "c"})];
    fixture.send("render", &bodies).await;
    let handle = fixture.spawn(mapping_of("render"));
    fixture.until_seen(3, &handle).await;
    assert_eq!(fixture.depth("render").await, (0, 1), "what failed stays, invisible until its time is over");
    for turn in [4, 5] {
        fixture.clock.advance(VISIBILITY_MS);
        fixture.until_seen(turn, &handle).await;
    }
    assert_eq!(fixture.deliveries(), ["a/1", "b/1", "c/1", "b/2", "b/3"]);
    assert_eq!(fixture.depth("render").await, (0, 0));
    let counts = handle.counts();
    assert_eq!((counts.partial_failures, counts.failed, counts.deleted, counts.whole_failures), (2, 2, 3, 0));
    assert!(handle.stop(LONG_MS).await);
    fixture.host.shutdown().await;
}

#[tokio::test]
async fn every_shape_of_answer_is_taken_as_aws_takes_it() {
    // The answer to a batch of two, and how many of them are left in the queue.
    let shapes = [
        ("null", 0),
        ("{}", 0),
        (r#"{"batchItemFailures":[]}"#, 0),
        (r#"{"batchItemFailures":null}"#, 0),
        (r#"{"batchItemFailures":[{"itemIdentifier":"$ID"}]}"#, 1),
        (r#"{"batchItemFailures":[{"itemIdentifier":"$ID"},{"itemIdentifier":"$ID"}]}"#, 1),
        (r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#, 2),
        (r#"{"batchItemFailures":[{"itemIdentifier":null}]}"#, 2),
        (r#"{"batchItemFailures":[{"itemIdentifier":"$ID"},{"itemIdentifier":"stranger"}]}"#, 2),
        (r#"{"batchItemFailures":[{"id":"$ID"}]}"#, 2),
        (r#"{"batchItemFailures":{"itemIdentifier":"$ID"}}"#, 2),
        (r#""done""#, 2),
    ];
    for (answer, left) in shapes {
        let fixture = fixture("render", |spec| with_env(spec, "TEST_ANSWER", answer)).await;
        fixture.send("render", &[json!({"name": "a"}), json!({"name": "b"})]).await;
        let handle = fixture.spawn(mapping_of("render"));
        fixture.until_seen(2, &handle).await;
        assert!(handle.stop(LONG_MS).await);
        assert_eq!(fixture.depth("render").await, (0, left), "{answer}");
        let counts = handle.counts();
        assert_eq!((counts.deleted, counts.failed), (2 - left, left), "{answer}");
        assert_eq!(
            (counts.partial_failures, counts.whole_failures),
            (u64::from(left == 1), u64::from(left == 2))
        );
        fixture.host.shutdown().await;
    }
}

#[tokio::test]
async fn without_failure_reports_the_answer_says_nothing() {
    let answer = r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#;
    let fixture = fixture("render", |spec| with_env(spec, "TEST_ANSWER", answer)).await;
    fixture.send("render", &[json!({"name": "a"})]).await;
    let handle = fixture.spawn(Mapping { report_failures: false, ..mapping_of("render") });
    fixture.until_seen(1, &handle).await;
    assert!(handle.stop(LONG_MS).await);
    assert_eq!(fixture.depth("render").await, (0, 0));
    fixture.host.shutdown().await;
}

#[tokio::test]
async fn an_error_or_a_crash_fails_the_whole_batch_and_it_comes_again() {
    for what in ["error", "exit"] {
        let fixture = fixture("render", |spec| spec).await;
        fixture.send("render", &[json!({"name": "a"}), json!({"name": "b", "do": what, "until": 2})]).await;
        let handle = fixture.spawn(mapping_of("render"));
        fixture.until_seen(2, &handle).await;
        assert_eq!(fixture.depth("render").await, (0, 2), "{what}");
        fixture.clock.advance(VISIBILITY_MS);
        fixture.until_seen(4, &handle).await;
        assert!(handle.stop(LONG_MS).await);
        assert_eq!(fixture.deliveries(), ["a/1", "b/1", "a/2", "b/2"], "{what}");
        assert_eq!(fixture.depth("render").await, (0, 0));
        assert_eq!(handle.counts().whole_failures, 1);
        fixture.host.shutdown().await;
    }
}

#[tokio::test]
async fn a_message_that_fails_too_often_is_a_dead_letter() {
    let fixture = fixture("dead", |spec| spec).await;
    let redrive = Redrive { dead_letter_queue: "dead".to_owned(), max_receives: 2 };
    let settings =
        QueueSettings { visibility_ms: VISIBILITY_MS, redrive: Some(redrive), ..QueueSettings::default() };
    fixture.engine.create_queue("render", settings).await.unwrap();
    fixture.send("render", &[json!({"name": "a", "do": "fail", "until": 99})]).await;
    let handle = fixture.spawn(mapping_of("render"));
    fixture.until_seen(1, &handle).await;
    fixture.clock.advance(VISIBILITY_MS);
    fixture.until_seen(2, &handle).await;
    assert_eq!(fixture.depth("dead").await, (0, 0));
    fixture.clock.advance(VISIBILITY_MS);
    until("the message is moved", || {
        fixture.engine.counts().get("render").is_some_and(|counts| counts.dead_lettered == 1)
    })
    .await;
    assert!(handle.stop(LONG_MS).await);
    assert_eq!((fixture.depth("render").await, fixture.depth("dead").await), ((0, 0), (1, 0)));
    assert_eq!(fixture.deliveries(), ["a/1", "a/2"]);
    fixture.host.shutdown().await;
}

#[tokio::test]
async fn a_window_gathers_until_the_batch_is_full_or_the_time_is_over() {
    let fixture = fixture("render", |spec| spec).await;
    let bodies: Vec<Value> = (0..25).map(|n| json!({"name": format!("m{n}")})).collect();
    fixture.send("render", &bodies[..5]).await;
    let handle = fixture.spawn(Mapping { batch_size: 25, window_ms: 300_000, ..mapping_of("render") });
    while fixture.depth("render").await != (0, 5) {
        tokio::task::yield_now().await;
    }
    fixture.send("render", &bodies[5..]).await;
    fixture.until_seen(25, &handle).await;
    assert!(handle.stop(LONG_MS).await);
    assert!(fixture.seen().iter().all(|line| line["batch"] == 25));
    assert_eq!(handle.counts().batches, 1);
    // The window's end: nothing more comes.
    fixture.send("render", &bodies[..12]).await;
    let handle = fixture.spawn(Mapping { batch_size: 100, window_ms: 300, ..mapping_of("render") });
    fixture.until_seen(37, &handle).await;
    assert!(handle.stop(LONG_MS).await);
    assert!(fixture.seen()[25..].iter().all(|line| line["batch"] == 12));
    assert_eq!(fixture.depth("render").await, (0, 0));
    fixture.host.shutdown().await;
}

fn held_body(held: &Held, name: &str) -> Value {
    let mut body = held.payload();
    body["name"] = json!(name);
    body
}

#[tokio::test]
async fn no_more_batches_run_than_the_maximum_and_the_rest_stays_visible() {
    let fixture = fixture("render", |spec| spec).await;
    let held: Vec<Held> = (0..4).map(|n| Held::new(fixture.folder.path(), &format!("held{n}"))).collect();
    for (n, held) in held.iter().enumerate() {
        fixture.send("render", &[held_body(held, &format!("m{n}"))]).await;
    }
    let handle = fixture.spawn(Mapping { batch_size: 1, max_concurrency: Some(2), ..mapping_of("render") });
    held[0].begun().await;
    held[1].begun().await;
    assert_eq!(fixture.depth("render").await, (2, 2));
    assert_eq!((fixture.seen().len(), handle.counts().running), (2, 2));
    held[0].let_go();
    held[2].begun().await;
    held.iter().for_each(Held::let_go);
    fixture.until_seen(4, &handle).await;
    assert!(handle.stop(LONG_MS).await);
    assert_eq!(fixture.depth("render").await, (0, 0));
    fixture.host.shutdown().await;
}

#[tokio::test]
async fn a_throttled_batch_is_tried_again_while_it_is_invisible() {
    let fixture = fixture("render", |mut spec| {
        spec.max_environments = 1;
        spec
    })
    .await;
    let held = Held::new(fixture.folder.path(), "held");
    fixture.send("render", &[held_body(&held, "a"), json!({"name": "b"})]).await;
    let handle = fixture.spawn(Mapping { batch_size: 1, ..mapping_of("render") });
    held.begun().await;
    until("the second batch is throttled", || handle.counts().throttles > 0).await;
    held.let_go();
    fixture.until_seen(2, &handle).await;
    assert!(handle.stop(LONG_MS).await);
    assert_eq!(fixture.deliveries(), ["a/1", "b/1"]);
    assert_eq!((handle.counts().throttled_out, handle.counts().whole_failures), (0, 0));
    assert_eq!(fixture.depth("render").await, (0, 0));
    fixture.host.shutdown().await;
}

#[tokio::test]
async fn a_batch_throttled_to_the_end_stays_in_the_queue_and_its_receives_count() {
    let fixture = fixture("render", |mut spec| {
        (spec.reserved_concurrency, spec.timeout_ms) = (Some(0), 100);
        spec
    })
    .await;
    fixture.send("render", &[json!({"name": "a"})]).await;
    let handle = fixture.spawn(Mapping { visibility_ms: 200, ..mapping_of("render") });
    until("the batch is given up", || handle.counts().throttled_out == 1).await;
    assert_eq!(fixture.depth("render").await, (0, 1));
    fixture.clock.advance(VISIBILITY_MS);
    until("the batch is given up again", || handle.counts().throttled_out == 2).await;
    assert!(handle.stop(LONG_MS).await);
    assert_eq!(fixture.engine.peek("render", 1).await.unwrap()[0].receives, 2);
    assert_eq!(handle.counts().batches, 0);
    // One that waits for its next try is no reason to wait at the end.
    fixture.clock.advance(VISIBILITY_MS);
    let handle = fixture.spawn(mapping_of("render"));
    until("the batch is throttled", || handle.counts().throttles > 0).await;
    assert!(handle.stop(LONG_MS).await);
    assert_eq!(handle.counts().throttled_out, 0);
    fixture.host.shutdown().await;
}

#[tokio::test]
async fn a_fifo_group_waits_for_what_failed_and_others_do_not() {
    let fixture = fixture("qa.fifo", |spec| spec).await;
    let bodies = [
        ("a", json!({"name": "a1", "do": "fail", "until": 2})),
        ("a", json!({"name": "a2"})),
        ("b", json!({"name": "b1"})),
        ("a", json!({"name": "a3"})),
        ("b", json!({"name": "b2"})),
    ];
    for (n, (group, body)) in bodies.iter().enumerate() {
        let message = Outgoing::new(body.to_string()).in_group(*group).deduplicated_by(n.to_string());
        fixture.engine.send("qa.fifo", message).await.unwrap();
    }
    let handle = fixture.spawn(Mapping { batch_size: 1, ..mapping_of("qa.fifo") });
    fixture.until_seen(3, &handle).await;
    let of_group = |group: &str| -> Vec<String> {
        fixture.deliveries().into_iter().filter(|delivery| delivery.starts_with(group)).collect()
    };
    assert_eq!(of_group("b"), ["b1/1", "b2/1"]);
    assert_eq!(of_group("a"), ["a1/1"]);
    fixture.clock.advance(VISIBILITY_MS);
    fixture.until_seen(6, &handle).await;
    assert!(handle.stop(LONG_MS).await);
    assert_eq!(of_group("a"), ["a1/1", "a1/2", "a2/1", "a3/1"]);
    for line in fixture.seen() {
        let group = line["record"]["attributes"]["MessageGroupId"].as_str().unwrap();
        assert!(line["name"].as_str().unwrap().starts_with(group), "{line}");
    }
    assert_eq!(fixture.depth("qa.fifo").await, (0, 0));
    fixture.host.shutdown().await;
}

#[tokio::test]
async fn records_too_long_for_one_event_become_several() {
    let fixture = fixture("render", |spec| spec).await;
    // Ten bodies of 900 kB are more than the 6 MB of one invocation.
    let bodies: Vec<Value> =
        (0..10).map(|n| json!({"name": format!("m{n}"), "filler": "x".repeat(900_000)})).collect();
    fixture.send("render", &bodies).await;
    let handle = fixture.spawn(mapping_of("render"));
    fixture.until_seen(10, &handle).await;
    assert!(handle.stop(LONG_MS).await);
    let batches: Vec<u64> = fixture.seen().iter().map(|line| line["batch"].as_u64().unwrap()).collect();
    assert_eq!(batches, [6, 6, 6, 6, 6, 6, 4, 4, 4, 4]);
    assert_eq!((handle.counts().batches, handle.counts().deleted), (2, 10));
    fixture.host.shutdown().await;
}

#[tokio::test]
async fn what_follows_a_failure_in_a_fifo_batch_of_several_events_waits() {
    let fixture = fixture("qa.fifo", |spec| spec).await;
    for n in 0..10 {
        let mut body = json!({"name": format!("m{n}"), "filler": "x".repeat(900_000)});
        if n == 5 {
            (body["do"], body["until"]) = (json!("fail"), json!(2));
        }
        let message = Outgoing::new(body.to_string()).in_group("g").deduplicated_by(n.to_string());
        fixture.engine.send("qa.fifo", message).await.unwrap();
    }
    let handle = fixture.spawn(mapping_of("qa.fifo"));
    fixture.until_seen(6, &handle).await;
    assert_eq!(fixture.depth("qa.fifo").await, (0, 5));
    fixture.clock.advance(VISIBILITY_MS);
    fixture.until_seen(11, &handle).await;
    assert!(handle.stop(LONG_MS).await);
    let expected = ["m0/1", "m1/1", "m2/1", "m3/1", "m4/1", "m5/1", "m5/2", "m6/2", "m7/2", "m8/2", "m9/2"];
    assert_eq!(fixture.deliveries(), expected);
    fixture.host.shutdown().await;
}

#[tokio::test]
async fn stop_waits_for_running_batches_as_long_as_it_is_told() {
    let fixture = fixture("render", |spec| spec).await;
    let held = [0, 1].map(|n| Held::new(fixture.folder.path(), &format!("held{n}")));
    fixture.send("render", &[held_body(&held[0], "a")]).await;
    let handle = fixture.spawn(mapping_of("render"));
    held[0].begun().await;
    let stopping = tokio::spawn(async move { (handle.stop(LONG_MS).await, handle) });
    held[0].let_go();
    let (ended, handle) = stopping.await.unwrap();
    assert!(ended && handle.counts().deleted == 1);
    fixture.send("render", &[held_body(&held[1], "b")]).await;
    assert_eq!(fixture.depth("render").await, (1, 0), "a stopped mapping takes nothing");
    let handle = fixture.spawn(mapping_of("render"));
    held[1].begun().await;
    assert!(!handle.stop(10).await, "the batch still runs");
    held[1].let_go();
    until("its place is free", || handle.counts().running == 0).await;
    assert_eq!(fixture.depth("render").await, (0, 1), "cut off: it comes again");
    fixture.host.shutdown().await;
}

#[tokio::test]
async fn a_mapping_that_aws_would_refuse_is_refused() {
    let fixture = fixture("render", |spec| spec).await;
    type Change = fn(&mut Mapping);
    let changes: [(Change, &str); 9] = [
        (|mapping| mapping.function = "nobody".to_owned(), "no function named \"nobody\""),
        (|mapping| mapping.batch_size = 0, "batch_size is 0"),
        (|mapping| mapping.batch_size = 11, "must be 1 to 10"),
        (|mapping| (mapping.batch_size, mapping.window_ms) = (10_001, 1_000), "must be 1 to 10000"),
        (|mapping| mapping.window_ms = 300_001, "at most 300000"),
        (|mapping| (mapping.queue, mapping.window_ms) = ("qa.fifo".to_owned(), 1), "FIFO"),
        (|mapping| mapping.max_concurrency = Some(1), "2 to 1000"),
        (|mapping| mapping.max_concurrency = Some(1_001), "2 to 1000"),
        (|mapping| mapping.visibility_ms = 59_999, "less than the timeout"),
    ];
    for (change, words) in changes {
        let mut mapping = mapping_of("render");
        change(&mut mapping);
        let error = mapping::spawn(fixture.engine.clone(), fixture.host.clone(), mapping).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_mapping_waits_for_its_queue_to_exist() {
    let fixture = fixture("render", |spec| spec).await;
    let handle = fixture.spawn(mapping_of("later"));
    until("the missing queue is noticed", || handle.counts().queue_errors > 0).await;
    fixture.engine.create_queue("later", QueueSettings::default()).await.unwrap();
    fixture.send("later", &[json!({"name": "a"})]).await;
    fixture.until_seen(1, &handle).await;
    assert!(handle.stop(LONG_MS).await);
    fixture.host.shutdown().await;
}
