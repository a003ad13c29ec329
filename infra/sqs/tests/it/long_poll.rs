//! Long polls: what ends them. The waits are of up to 20 s, so a poll that isn't woken fails by its test's limit.

use std::future::Future;
use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName;
use glassline_sqs::{Message, Outgoing, QueueSettings, Redrive, SqsError};
use tokio::task::JoinHandle;

use crate::common::{Service, fifo};

/// Waits long enough for a loaded machine, but less than a poll that nothing wakes.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(15), what).await.expect("nothing woke the long poll")
}

/// Starts a poll of 20 s and lets it begin to wait.
async fn poll(service: &Service, queue: &str) -> JoinHandle<Result<Vec<Message>, SqsError>> {
    let before = requests(service, queue);
    let (engine, name) = (service.engine.clone(), queue.to_owned());
    let poll = tokio::spawn(async move { engine.receive(&name, 10, 20_000, None).await });
    while requests(service, queue) == before {
        tokio::task::yield_now().await;
    }
    poll
}

fn requests(service: &Service, queue: &str) -> u64 {
    let counts = service.engine.counts();
    counts.get(queue).and_then(|counts| counts.requests.get("ReceiveMessage")).copied().unwrap_or_default()
}

#[tokio::test]
async fn a_send_wakes_a_poll() {
    let service = Service::start().await;
    service.engine.create_queue("q", QueueSettings::default()).await.unwrap();
    service.engine.create_queue("other", QueueSettings::default()).await.unwrap();
    let waiting = poll(&service, "q").await;
    service.engine.send("other", Outgoing::new("not for it")).await.unwrap();
    service.engine.send("q", Outgoing::new("x")).await.unwrap();
    let found = soon(waiting).await.unwrap().unwrap();
    assert_eq!(found[0].body, "x");
    assert_eq!(requests(&service, "q"), 1, "however often it looks, it is one request");
}

#[tokio::test]
async fn a_send_over_http_wakes_a_poll_over_http_that_the_queue_asks_for() {
    let service = Service::start().await;
    let url = service.create("q", &[(QueueAttributeName::ReceiveMessageWaitTimeSeconds, "20")]).await;
    let waiting = tokio::spawn(service.client.receive_message().queue_url(&url).send());
    while requests(&service, "q") == 0 {
        tokio::task::yield_now().await;
    }
    service.client.send_message().queue_url(&url).message_body("x").send().await.unwrap();
    let found = soon(waiting).await.unwrap().unwrap();
    assert_eq!(found.messages()[0].body(), Some("x"));
}

#[tokio::test]
async fn one_message_goes_to_one_of_many_polls() {
    let service = Service::start().await;
    service.engine.create_queue("q", QueueSettings::default()).await.unwrap();
    let mut polls = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let engine = service.engine.clone();
        polls.spawn(async move { engine.receive("q", 1, 20_000, None).await.unwrap() });
    }
    while requests(&service, "q") < 8 {
        tokio::task::yield_now().await;
    }
    for n in 0..8 {
        service.engine.send("q", Outgoing::new(format!("{n}"))).await.unwrap();
    }
    let mut bodies = Vec::new();
    while let Some(found) = soon(polls.join_next()).await {
        bodies.extend(found.unwrap().into_iter().map(|message| message.body));
    }
    bodies.sort();
    assert_eq!(bodies, ["0", "1", "2", "3", "4", "5", "6", "7"]);
}

#[tokio::test]
async fn a_message_that_becomes_visible_wakes_a_poll() {
    let service = Service::start().await;
    service.engine.create_queue("q", QueueSettings::default()).await.unwrap();
    service.engine.send("q", Outgoing::new("x").delayed(600_000)).await.unwrap();
    let waiting = poll(&service, "q").await;
    service.clock.advance(600_000);
    assert_eq!(soon(waiting).await.unwrap().unwrap()[0].body, "x");
    let waiting = poll(&service, "q").await;
    service.clock.advance(30_000);
    let found = soon(waiting).await.unwrap().unwrap();
    assert_eq!(found[0].receives, 2);
    let waiting = poll(&service, "q").await;
    service.engine.change_visibility("q", &found[0].receipt, 0).await.unwrap();
    assert_eq!(soon(waiting).await.unwrap().unwrap()[0].receives, 3);
}

#[tokio::test]
async fn a_delete_frees_the_group_for_a_poll() {
    let service = Service::start().await;
    service.engine.create_queue("q.fifo", fifo()).await.unwrap();
    for body in ["1", "2"] {
        let message = Outgoing::new(body).in_group("g").deduplicated_by(body);
        service.engine.send("q.fifo", message).await.unwrap();
    }
    let first = service.engine.receive("q.fifo", 1, 0, None).await.unwrap();
    let waiting = poll(&service, "q.fifo").await;
    service.engine.delete("q.fifo", std::slice::from_ref(&first[0].receipt)).await.unwrap();
    assert_eq!(soon(waiting).await.unwrap().unwrap()[0].body, "2");
}

#[tokio::test]
async fn a_dead_letter_wakes_a_poll_of_its_queue() {
    let service = Service::start().await;
    service.engine.create_queue("dead", QueueSettings::default()).await.unwrap();
    let redrive = Some(Redrive { dead_letter_queue: "dead".to_owned(), max_receives: 1 });
    service.engine.create_queue("q", QueueSettings { redrive, ..QueueSettings::default() }).await.unwrap();
    service.engine.send("q", Outgoing::new("x")).await.unwrap();
    service.engine.receive("q", 1, 0, Some(0)).await.unwrap();
    let waiting = poll(&service, "dead").await;
    service.engine.receive("q", 1, 0, None).await.unwrap();
    assert_eq!(soon(waiting).await.unwrap().unwrap()[0].body, "x");
}

#[tokio::test]
async fn a_poll_ends_empty_after_its_wait_and_with_its_queue() {
    let service = Service::start().await;
    service.engine.create_queue("q", QueueSettings::default()).await.unwrap();
    assert!(soon(service.engine.receive("q", 1, 50, None)).await.unwrap().is_empty());
    let waiting = poll(&service, "q").await;
    service.engine.delete_queue("q").await.unwrap();
    let gone = soon(waiting).await.unwrap();
    assert_eq!(gone, Err(SqsError::QueueDoesNotExist { queue: "q".to_owned() }));
}

#[tokio::test]
async fn the_end_of_the_server_answers_its_polls() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    let waiting = tokio::spawn(service.client.receive_message().queue_url(&url).wait_time_seconds(20).send());
    while requests(&service, "q") == 0 {
        tokio::task::yield_now().await;
    }
    soon(service.stop()).await;
    assert!(soon(waiting).await.unwrap().unwrap().messages().is_empty());
}
