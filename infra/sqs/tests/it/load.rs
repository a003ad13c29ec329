//! Many tasks at once: nothing is lost, nothing comes twice, groups stay in order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use glassline_sqs::{Engine, ManualClock, Outgoing, QueueSettings};
use tokio::task::JoinSet;

use crate::common::{START_MS, Service, engine, fifo};

const TASKS: usize = 32;
const MESSAGES: usize = 200;

/// Receives and deletes until all messages have come; gives the bodies in the order they came to this task.
async fn drain(engine: Engine, queue: &str, left: Arc<Mutex<usize>>) -> Vec<String> {
    let mut bodies = Vec::new();
    while *left.lock().unwrap() > 0 {
        let messages = engine.receive(queue, 10, 20, None).await.unwrap();
        let receipts = messages.iter().map(|message| message.receipt.clone()).collect::<Vec<_>>();
        engine.delete(queue, &receipts).await.unwrap();
        *left.lock().unwrap() -= messages.len();
        bodies.extend(messages.into_iter().map(|message| message.body));
    }
    bodies
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_message_of_32_tasks_is_received_exactly_once() {
    let engine = engine(&ManualClock::new(START_MS));
    engine.create_queue("q", QueueSettings::default()).await.unwrap();
    let left = Arc::new(Mutex::new(TASKS * MESSAGES));
    let mut senders = JoinSet::new();
    let mut receivers = JoinSet::new();
    for task in 0..TASKS {
        let sender = engine.clone();
        senders.spawn(async move {
            for n in 0..MESSAGES {
                sender.send("q", Outgoing::new(format!("{task}/{n}"))).await.unwrap();
            }
        });
        let (receiver, left) = (engine.clone(), Arc::clone(&left));
        receivers.spawn(async move { drain(receiver, "q", left).await });
    }
    senders.join_all().await;
    let bodies = receivers.join_all().await.into_iter().flatten().collect::<Vec<_>>();
    assert_eq!(bodies.len(), TASKS * MESSAGES);
    assert_eq!(bodies.into_iter().collect::<BTreeSet<_>>().len(), TASKS * MESSAGES);
    let counts = &engine.counts()["q"];
    let all = u64::try_from(TASKS * MESSAGES).unwrap();
    assert_eq!((counts.sent, counts.received, counts.deleted), (all, all, all));
    assert_eq!(engine.depth("q").await.unwrap(), glassline_sqs::Depth::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn groups_stay_in_order_under_many_receivers() {
    let engine = engine(&ManualClock::new(START_MS));
    engine.create_queue("q.fifo", fifo()).await.unwrap();
    let (groups, each) = (16, 40);
    for n in 0..each {
        for group in 0..groups {
            let body = format!("{group}/{n}");
            let message = Outgoing::new(&body).in_group(format!("{group}")).deduplicated_by(&body);
            engine.send("q.fifo", message).await.unwrap();
        }
    }
    let left = Arc::new(Mutex::new(groups * each));
    let seen = Arc::new(Mutex::new(BTreeMap::<String, Vec<usize>>::new()));
    let mut receivers = JoinSet::new();
    for _ in 0..8 {
        let (engine, left, seen) = (engine.clone(), Arc::clone(&left), Arc::clone(&seen));
        receivers.spawn(async move {
            while *left.lock().unwrap() > 0 {
                let messages = engine.receive("q.fifo", 3, 20, None).await.unwrap();
                // Noted before the delete, so before anybody else can have the group's next message.
                for message in &messages {
                    let (group, n) = message.body.split_once('/').unwrap();
                    seen.lock().unwrap().entry(group.to_owned()).or_default().push(n.parse().unwrap());
                }
                let receipts = messages.iter().map(|message| message.receipt.clone()).collect::<Vec<_>>();
                engine.delete("q.fifo", &receipts).await.unwrap();
                *left.lock().unwrap() -= messages.len();
            }
        });
    }
    receivers.join_all().await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), groups);
    for (group, order) in seen.iter() {
        assert_eq!(*order, (0..each).collect::<Vec<_>>(), "group {group}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_clients_share_the_server() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    let mut clients = JoinSet::new();
    for client in 0..16 {
        let (sqs, url) = (service.client.clone(), url.clone());
        clients.spawn(async move {
            for n in 0..20 {
                sqs.send_message()
                    .queue_url(&url)
                    .message_body(format!("{client}/{n}"))
                    .send()
                    .await
                    .unwrap();
            }
            let mut bodies = Vec::new();
            while bodies.len() < 20 {
                let found = sqs.receive_message().queue_url(&url).send().await.unwrap();
                for message in found.messages() {
                    let handle = message.receipt_handle().unwrap();
                    sqs.delete_message().queue_url(&url).receipt_handle(handle).send().await.unwrap();
                    bodies.push(message.body().unwrap().to_owned());
                }
            }
            bodies
        });
    }
    let bodies = clients.join_all().await.into_iter().flatten().collect::<BTreeSet<_>>();
    assert_eq!(bodies.len(), 320);
    service.stop().await;
}
