//! What is counted of the handlers' work, and what their log lines say.

use crate::support::{claimed, first_lane, message, ok, rendering, take, take_all, world};
use glassline_aws::lambda::{handle_batch, records};
use glassline_aws::telemetry::list::{BY_FUNCTION, BY_LANE, METRICS};
use glassline_aws::telemetry::trace::{self, Trace};
use glassline_aws::telemetry::{Metrics, logs, token_hash};
use glassline_dispatch::Seen;
use glassline_protocol::message::Message;
use glassline_protocol::provider::ErrorClass;
use glassline_protocol::row::Status;
use glassline_sandbox::{FaultKind, FaultRule};
use glassline_tests::{Lane, MINUTE_MS, Plan, World, WorldOptions, post};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex, Once};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt as _;

/// Log lines kept in memory.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// While there is only one subscriber in the process, an event that another test's thread comes upon first is taken to
/// interest nobody, here neither. So there are always two.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Registry::default()).unwrap());
}

/// What is logged and counted on this thread while it lives.
struct Watched {
    metrics: Metrics,
    lines: Kept,
    _guard: DefaultGuard,
}

impl Watched {
    fn new() -> Self {
        let (metrics, lines) = (Metrics::new("test", Some("Glassline/app")), Kept::default());
        let kept = lines.clone();
        listen();
        // As much as can be had: also then no line says what it must not.
        let lines_layer = logs(move || kept.clone(), "trace");
        let subscriber = Registry::default().with(lines_layer).with(metrics.clone());
        Self { metrics, lines, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// The log lines so far.
    fn lines(&self) -> Vec<Value> {
        let text = String::from_utf8(self.lines.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The numbers since the last time by lane (none: "") and metric, each line checked against the format's rules.
    fn take(&self) -> BTreeMap<(String, String), f64> {
        let mut numbers = BTreeMap::new();
        for line in self.metrics.take(1_764_000_000_000) {
            let line: Value = serde_json::from_str(&line).unwrap();
            let lane = line["lane"].as_str().unwrap_or_default().to_owned();
            assert_eq!(line["_aws"]["Timestamp"], 1_764_000_000_000_u64);
            let [directive] = line["_aws"]["CloudWatchMetrics"].as_array().unwrap().as_slice() else {
                panic!("one directive: {line}")
            };
            assert_eq!(directive["Namespace"], "Glassline/app");
            let sets = if lane.is_empty() { BY_FUNCTION } else { BY_LANE };
            assert_eq!(directive["Dimensions"], json!(sets), "{line}");
            for name in sets.concat() {
                assert!(line[name].is_string(), "{name}: {line}");
            }
            let metrics = directive["Metrics"].as_array().unwrap();
            assert!((1..=100).contains(&metrics.len()), "{line}");
            for metric in metrics {
                let name = metric["Name"].as_str().unwrap();
                let listed = METRICS.iter().find(|listed| listed.name == name).unwrap();
                assert_eq!(metric["Unit"], listed.unit.word(), "{name}");
                numbers.insert((lane.clone(), name.to_owned()), line[name].as_f64().unwrap());
            }
        }
        numbers
    }
}

fn number(numbers: &BTreeMap<(String, String), f64>, lane: &str, name: &str) -> Option<f64> {
    numbers.get(&(lane.to_owned(), name.to_owned())).copied()
}

/// A full tick as the schedule makes it.
async fn full_tick(world: &World) {
    world.tick(&Plan::none()).await;
}

#[tokio::test]
async fn a_render_is_counted_from_its_start_to_its_success() {
    let world = world("keyed", 1).await;
    let watched = Watched::new();
    world.submit(&post("p1", "keyed", 2)).await;
    world.drive(&Plan::none(), 1, 60 * MINUTE_MS, &["p1"]).await;
    let numbers = watched.take();
    for (name, count) in
        [("RendersStarted", Some(2.0)), ("RendersSucceeded", Some(2.0)), ("RendersHeld", None)]
    {
        assert_eq!(number(&numbers, "keyed", name), count, "{name}: {numbers:?}");
    }
    assert_eq!(number(&numbers, "keyed", "LeaseExpiries"), Some(0.0), "{numbers:?}");
    assert!(watched.take().is_empty(), "counting starts anew");
    world.ports.log_operations("test");
    let numbers = watched.take();
    assert!(number(&numbers, "", "TableWriteUnits").unwrap() >= 14.0, "{numbers:?}");
    assert!(number(&numbers, "", "TableReadUnits").unwrap() >= 6.0, "{numbers:?}");
    assert!(number(&numbers, "", "MessagesSent").unwrap() >= 8.0, "{numbers:?}");
}

/// A lane that is full: the age is that of the job that waits, and a lease that ran out is counted.
#[tokio::test]
async fn a_full_tick_says_how_long_ready_jobs_wait_and_which_leases_ran_out() {
    let world = world("keyed", 1).await;
    let watched = Watched::new();
    full_tick(&world).await;
    let numbers = watched.take();
    assert_eq!(number(&numbers, "keyed", "OldestReadyAge"), Some(0.0), "nothing waits: {numbers:?}");
    assert_eq!(number(&numbers, "keyed", "HeldJobs"), Some(0.0), "{numbers:?}");
    world.submit(&post("p1", "keyed", 2)).await;
    world.clock.manual.advance(MINUTE_MS);
    full_tick(&world).await;
    assert_eq!(number(&watched.take(), "keyed", "OldestReadyAge"), Some(60.0), "one starts, one waits");
    let claim_lease_ms = world.settings.claim_lease_ms;
    world.clock.manual.advance(claim_lease_ms + 1);
    // The worker never came: the slot is busy and its lease over.
    let _ = world.ports.store.meter().take();
    full_tick(&world).await;
    let read: f64 = world
        .ports
        .store
        .meter()
        .take()
        .iter()
        .filter(|(operation, _)| ["GetItem", "BatchGetItem", "Query"].contains(operation))
        .map(|(_, used)| used.units)
        .sum();
    assert!(read <= 8.0, "a tick that starts nothing reads little: {read}");
    let numbers = watched.take();
    assert_eq!(number(&numbers, "keyed", "OldestReadyAge"), Some(60.0 + 300.0), "{numbers:?}");
    assert_eq!(number(&numbers, "keyed", "LeaseExpiries"), Some(1.0), "{numbers:?}");
}

/// In a lane with aging the rank doesn't say when a job was created: its row does.
#[tokio::test]
async fn priority_makes_no_job_older() {
    let mut lane = Lane::keyed(1);
    lane.row.boost_ms = Some(3_600_000);
    let world = World::new(WorldOptions::one(lane)).await;
    claimed(&world, "p1").await;
    world.submit(&post("p2", "keyed", 1)).await;
    world.clock.manual.advance(90_000);
    let seen = world.tick_lane(&first_lane(&world).await).await.seen.unwrap();
    assert_eq!(seen, Seen { held: 0, oldest_ready_ms: Some(90_000), paused: None });
}

/// All held jobs are counted, also those that are not due to be looked at.
#[tokio::test]
async fn held_jobs_are_counted_while_they_are_held() {
    let world = world("blind", 1).await;
    let handoff = claimed(&world, "p1").await;
    world.provider_faults(vec![FaultRule::next(FaultKind::DropAnswer, 1)]);
    let watched = Watched::new();
    assert_eq!(ok(&world, message(&handoff)).await, "submit_unknown");
    assert_eq!(number(&watched.take(), "blind", "SubmitsUnknown"), Some(1.0));
    let held = async |world: &World| world.jobs("p1").await[0].status == Status::Held;
    world.drive_until(&Plan::none(), 1, 60 * MINUTE_MS, held).await;
    assert_eq!(number(&watched.take(), "blind", "RendersHeld"), Some(1.0));
    let ticked = world.tick_lane(&first_lane(&world).await).await;
    assert_eq!((ticked.held, ticked.seen.map(|seen| seen.held)), (0, Some(1)), "not due, and held");
    world.clock.manual.advance(world.settings.held_check_ms);
    let ticked = world.tick_lane(&first_lane(&world).await).await;
    assert_eq!((ticked.held, ticked.seen.map(|seen| seen.held)), (1, Some(1)), "due");
    full_tick(&world).await;
    assert_eq!(number(&watched.take(), "blind", "HeldJobs"), Some(1.0));
}

#[tokio::test]
async fn a_lane_that_is_paused_says_what_for_as_long_as_it_is() {
    for (fault, class, name) in [
        (FaultKind::RejectPayment, ErrorClass::PaymentRequired, "LanePausedPayment"),
        (FaultKind::RejectUnauthorized, ErrorClass::Unauthorized, "LanePausedCredentials"),
        (FaultKind::RejectThrottled, ErrorClass::Throttled, "LanePausedThrottled"),
    ] {
        let world = world("keyed", 1).await;
        let handoff = claimed(&world, "p1").await;
        world.provider_faults(vec![FaultRule::next(fault, 1)]);
        let watched = Watched::new();
        assert_eq!(ok(&world, message(&handoff)).await, "rejected");
        let numbers = watched.take();
        assert_eq!(number(&numbers, "keyed", "RendersRetried"), Some(1.0), "{numbers:?}");
        let lines = watched.lines();
        assert!(
            lines.iter().any(|line| line["event"] == "lane_paused" && line["lane"] == "keyed"),
            "{lines:?}"
        );
        let seen = world.tick_lane(&first_lane(&world).await).await.seen.unwrap();
        assert_eq!(seen.paused, Some(class));
        full_tick(&world).await;
        assert_eq!(number(&watched.take(), "keyed", name), Some(1.0));
        world.clock.manual.advance(world.settings.refused_pause_ms);
        full_tick(&world).await;
        assert_eq!(number(&watched.take(), "keyed", name), None, "the pause is over");
    }
}

#[tokio::test]
async fn a_status_word_that_nobody_knows_is_counted() {
    let world = world("keyed", 1).await;
    rendering(&world, "p1").await;
    world.provider_faults(vec![FaultRule::next(FaultKind::UnknownStatusWord, 1)]);
    let watched = Watched::new();
    world.clock.manual.advance(1_000);
    let check = take(&world, "render").await;
    assert_eq!(ok(&world, check).await, "running");
    assert_eq!(number(&watched.take(), "keyed", "ProviderStatusUnknown"), Some(1.0));
}

fn record(id: &str, body: &str, trace: Option<&str>) -> Value {
    let mut attributes = json!({ "ApproximateReceiveCount": "1" });
    if let Some(trace) = trace {
        attributes["AWSTraceHeader"] = trace.into();
    }
    json!({
        "messageId": id, "receiptHandle": "handle", "body": body, "attributes": attributes,
        "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:render",
    })
}

async fn worker(world: &World, batch: Vec<Value>) {
    let records = records(&json!({ "Records": batch })).unwrap();
    handle_batch("worker", records, &(), |message| {
        glassline_worker::handle(&world.ports, &world.settings, &world.secrets, message)
    })
    .await
    .unwrap();
}

/// Whoever can send messages can make no metrics with them: a lane that only a message names is no dimension.
#[tokio::test]
async fn forged_and_poison_messages_are_counted_without_what_they_claim() {
    let world = world("keyed", 1).await;
    let handoff = claimed(&world, "p1").await;
    let mut forged = handoff.clone();
    forged.lane = "invented".parse().unwrap();
    let watched = Watched::new();
    worker(&world, vec![record("m1", &message(&forged).to_body(), None), record("m2", "[]", None)]).await;
    let numbers = watched.take();
    let expected = [("PoisonMessages", 2.0), ("SignaturesRefused", 1.0)];
    let expected = expected.map(|(name, count)| ((String::new(), name.to_owned()), count));
    assert_eq!(numbers, expected.into());
    let text = format!("{:?}", watched.lines());
    assert!(!text.contains(handoff.token.as_str()) && !text.contains(&handoff.prompt), "{text}");
}

const TRACE: &str = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";

/// A record's trace is on every line about it and on what it sends; its neighbour's is another.
#[tokio::test]
async fn what_a_record_causes_belongs_to_its_trace_and_every_line_names_its_job() {
    let world = world("keyed", 2).await;
    world.submit(&post("p1", "keyed", 2)).await;
    full_tick(&world).await;
    let handoffs = take_all(&world, "render").await;
    let other = "Root=1-00000000-00000000000000000000000a";
    let lineage = format!("{TRACE};Lineage=1:fc3b4ff1:0");
    let batch = vec![
        record("m1", &handoffs[0].to_body(), Some(&lineage)),
        record("m2", &handoffs[1].to_body(), Some(other)),
        record("m3", "[]", Some("not a trace")),
    ];
    let watched = Watched::new();
    worker(&world, batch).await;
    let mut sent = BTreeMap::new();
    for check in world.engine.peek("render", 10).await.unwrap() {
        let Message::Check(message) = Message::from_body(&check.body).unwrap() else { panic!("{check:?}") };
        sent.insert(message.subject.job().to_string(), check.attributes.get("AWSTraceHeader").cloned());
    }
    for (handoff, header) in handoffs.iter().zip([TRACE, other]) {
        let Message::Handoff(handoff) = handoff else { panic!("it is a handoff") };
        let job = handoff.job().to_string();
        assert_eq!(sent[&job].as_deref(), Some(header));
        let lines = watched.lines();
        let own: Vec<_> = lines.iter().filter(|line| line["job"] == job.as_str()).collect();
        let events: Vec<_> = own.iter().filter_map(|line| line["event"].as_str()).collect();
        assert_eq!(events, ["job_changed", "job_changed", "handled"], "{own:?}");
        for line in own {
            assert_eq!(line["lane"], "keyed", "{line}");
            assert_eq!(line["attempt"], 1, "{line}");
            assert_eq!(line["token"], token_hash(&handoff.token).as_str(), "{line}");
            assert_eq!(line["trace_id"], Trace::parse(header).unwrap().id(), "{line}");
            assert_eq!(line["function"], "worker", "{line}");
        }
        let text = format!("{lines:?}");
        assert!(!text.contains(handoff.token.as_str()) && !text.contains(&handoff.prompt), "{text}");
    }
}

/// Whatever the filter leaves of the lines, they name their job.
#[tokio::test]
async fn no_filter_takes_the_job_from_a_line() {
    let world = world("keyed", 1).await;
    let handoff = claimed(&world, "p1").await;
    world.provider_faults(vec![FaultRule::next(FaultKind::DropAnswer, 1)]);
    let kept = Kept::default();
    let writer = kept.clone();
    listen();
    let subscriber = Registry::default().with(logs(move || writer.clone(), "glassline_providers=warn"));
    let guard = tracing::subscriber::set_default(subscriber);
    worker(&world, vec![record("m1", &message(&handoff).to_body(), None)]).await;
    drop(guard);
    let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
    let line: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["event"], "provider_submit_unknown", "{line}");
    assert_eq!(line["job"], handoff.job().to_string().as_str(), "{line}");
}

/// Several messages in one request carry it as well.
#[tokio::test]
async fn a_batch_of_messages_carries_the_trace() {
    let world = world("keyed", 2).await;
    world.submit(&post("p1", "keyed", 2)).await;
    trace::scope(Trace::parse(TRACE), full_tick(&world)).await;
    let sent = world.engine.peek("render", 10).await.unwrap();
    assert_eq!(sent.len(), 2);
    for message in sent {
        assert_eq!(message.attributes.get("AWSTraceHeader").map(String::as_str), Some(TRACE));
    }
}
