//! The schedule with a real function.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking too")]

mod support;

use glassline_local::lambda::{Host, InvokeError};
use glassline_local::schedule::{Delivery, Rate, Schedule, ScheduleSpec};
use serde_json::{Value, json};
use support::{Held, host, spec, until};

#[test]
#[ignore = "the function's own process, started by the other tests"]
fn function_process() {
    support::function::serve();
}

fn schedule_of(input: &Value) -> ScheduleSpec {
    ScheduleSpec {
        name: "dispatch-tick".to_owned(),
        function: "worker".to_owned(),
        rate: "rate(1 hour)".parse().unwrap(),
        input: input.to_string(),
        retries: 2,
        retry_ms: 1,
    }
}

fn answer(delivery: &Delivery) -> Value {
    serde_json::from_slice(delivery.as_ref().unwrap()).unwrap()
}

async fn worker() -> Host {
    host(vec![spec("worker")]).await
}

#[tokio::test]
async fn a_firing_carries_the_scheduler_s_attributes() {
    let host = worker().await;
    let input = json!({
        "time": "<aws.scheduler.scheduled-time>", "id": "<aws.scheduler.execution-id>",
        "attempt": "<aws.scheduler.attempt-number>", "arn": "<aws.scheduler.schedule-arn>",
    });
    let schedule = Schedule::spawn(host.clone(), schedule_of(&input));
    let deliveries = schedule.trigger().await;
    assert_eq!(deliveries.len(), 1);
    let event = answer(&deliveries[0])["echo"].clone();
    assert_eq!(event["attempt"], "1");
    assert_eq!(event["arn"], "arn:aws:scheduler:us-east-1:000000000000:schedule/default/dispatch-tick");
    assert_eq!(event["id"].as_str().unwrap().len(), 36);
    let time = event["time"].as_str().unwrap();
    assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
    let fired: jiff::Timestamp = time.parse().unwrap();
    assert!(jiff::Timestamp::now().as_second() - fired.as_second() < 3_600);
    assert!(schedule.stop(60_000).await);
    assert!(schedule.trigger().await.is_empty(), "a stopped schedule doesn't fire");
    assert_eq!((schedule.counts().fired, schedule.counts().succeeded), (1, 1));
    host.shutdown().await;
}

#[tokio::test]
async fn the_clock_fires_without_waiting_for_the_last_one() {
    let folder = tempfile::tempdir().unwrap();
    let host = worker().await;
    let held = Held::new(folder.path(), "held");
    let spec = ScheduleSpec { rate: Rate { every_ms: 50 }, ..schedule_of(&held.payload()) };
    let schedule = Schedule::spawn(host.clone(), spec);
    until("several firings run at once", || schedule.counts().running >= 3).await;
    assert!(!schedule.stop(10).await, "they still run");
    let fired = schedule.counts().fired;
    held.let_go();
    assert!(schedule.stop(60_000).await);
    let counts = schedule.counts();
    assert_eq!((counts.fired, counts.running), (fired, 0));
    host.shutdown().await;
}

#[tokio::test]
async fn a_firing_may_be_delivered_twice() {
    let host = worker().await;
    let schedule = Schedule::spawn(host.clone(), schedule_of(&json!({"id": "<aws.scheduler.execution-id>"})));
    schedule.set_duplicates(100, 7);
    let deliveries = schedule.trigger().await;
    assert_eq!(deliveries.len(), 2);
    assert_eq!(
        answer(&deliveries[0])["echo"],
        answer(&deliveries[1])["echo"],
        "one execution, delivered twice"
    );
    schedule.set_duplicates(0, 7);
    assert_eq!(schedule.trigger().await.len(), 1);
    let counts = schedule.counts();
    assert_eq!((counts.fired, counts.duplicated, counts.succeeded), (2, 1, 3));
    assert!(schedule.stop(60_000).await);
    host.shutdown().await;
}

#[tokio::test]
async fn a_failed_delivery_is_tried_twice_more_and_given_up() {
    let host = worker().await;
    let input = json!({"do": "error", "message": "attempt <aws.scheduler.attempt-number>"});
    let schedule = Schedule::spawn(host.clone(), schedule_of(&input));
    let deliveries = schedule.trigger().await;
    let Err(InvokeError::Function { message, .. }) = &deliveries[0] else { panic!("{deliveries:?}") };
    assert_eq!(message, "attempt 3");
    let counts = schedule.counts();
    assert_eq!((counts.failed, counts.given_up, counts.succeeded), (3, 1, 0));
    assert!(schedule.stop(60_000).await);
    host.shutdown().await;
}

#[tokio::test]
async fn a_throttled_delivery_is_tried_again_and_stop_does_not_wait_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut worker = spec("worker");
    worker.max_environments = 1;
    let host = host(vec![worker]).await;
    let held = Held::new(folder.path(), "held");
    let (other, payload) = (host.clone(), held.payload());
    let running = tokio::spawn(async move { support::invoke(&other, "worker", payload).await });
    held.begun().await;
    let schedule = Schedule::spawn(host.clone(), schedule_of(&json!({})));
    {
        let mut firing = std::pin::pin!(schedule.trigger());
        tokio::select! {
            _ = &mut firing => panic!("there was no place for it"),
            () = until("it is throttled", || schedule.counts().throttled > 0) => held.let_go(),
        }
        assert!(firing.await[0].is_ok());
    }
    running.await.unwrap().unwrap();
    let held = Held::new(folder.path(), "again");
    let (other, payload) = (host.clone(), held.payload());
    let running = tokio::spawn(async move { support::invoke(&other, "worker", payload).await });
    held.begun().await;
    let before = schedule.counts().throttled;
    let mut firing = std::pin::pin!(schedule.trigger());
    tokio::select! {
        _ = &mut firing => panic!("there was no place for it"),
        () = until("it is throttled", || schedule.counts().throttled > before) => {}
    }
    assert!(schedule.stop(60_000).await);
    assert!(firing.await.is_empty(), "it was dropped");
    held.let_go();
    running.await.unwrap().unwrap();
    host.shutdown().await;
}
