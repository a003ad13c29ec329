//! Injected faults fire, are counted, and come the same way from the same seed.

use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, SendMessageBatchRequestEntry};
use glassline_sqs::{Faults, ManualClock, Outgoing, QueueSettings};

use crate::common::{START_MS, Service, engine, fifo};

#[tokio::test]
async fn a_duplicate_is_a_second_delivery_of_the_same_message() {
    let service = Service::start().await;
    service.engine.create_queue("q", QueueSettings::default()).await.unwrap();
    service.engine.set_faults(Faults { duplicate_percent: 100, ..Faults::default() });
    let sent = service.engine.send("q", Outgoing::new("x")).await.unwrap();
    let first = service.engine.receive("q", 1, 0, None).await.unwrap().remove(0);
    service.engine.delete("q", &[first.receipt]).await.unwrap();
    let second = service.engine.receive("q", 1, 0, None).await.unwrap().remove(0);
    assert_eq!((&first.id, &second.id), (&sent.id, &sent.id));
    service.engine.delete("q", &[second.receipt]).await.unwrap();
    assert!(service.receive_bodies("q").await.is_empty());
    assert_eq!(service.engine.fault_counts().duplicated, 1);
    assert_eq!(service.engine.counts()["q"].sent, 1);
}

#[tokio::test]
async fn a_lost_reply_leaves_the_work_done() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    service.engine.set_faults(Faults { lost_reply_percent: 100, ..Faults::default() });
    let lost = service.client.send_message().queue_url(&url).message_body("x").send().await.unwrap_err();
    assert!(lost.as_service_error().is_none(), "no answer at all: {lost:?}");
    let entry = SendMessageBatchRequestEntry::builder().id("a").message_body("y").build().unwrap();
    service.client.send_message_batch().queue_url(&url).entries(entry).send().await.unwrap_err();
    // Receives aren't hit.
    let found =
        service.client.receive_message().queue_url(&url).max_number_of_messages(10).send().await.unwrap();
    assert_eq!(found.messages().len(), 2);
    let handle = |n: usize| found.messages()[n].receipt_handle().unwrap();
    service.client.delete_message().queue_url(&url).receipt_handle(handle(0)).send().await.unwrap_err();
    let entry = DeleteMessageBatchRequestEntry::builder().id("a").receipt_handle(handle(1)).build().unwrap();
    service.client.delete_message_batch().queue_url(&url).entries(entry).send().await.unwrap_err();
    assert_eq!(service.engine.depth("q").await.unwrap(), glassline_sqs::Depth::default());
    // A refusal is answered.
    let refused = service.client.send_message().queue_url(&url).message_body("").send().await.unwrap_err();
    assert!(refused.as_service_error().is_some());
    assert_eq!(service.engine.fault_counts().lost_replies, 4);
}

#[tokio::test]
async fn a_refused_entry_is_not_stored_and_says_so() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    service.engine.set_faults(Faults { refuse_entry_percent: 50, seed: 3, ..Faults::default() });
    let mut stored = 0;
    for _ in 0..10 {
        let entries = (0..10)
            .map(|n| {
                SendMessageBatchRequestEntry::builder().id(format!("{n}")).message_body("x").build().unwrap()
            })
            .collect();
        let batch = service.client.send_message_batch().queue_url(&url).set_entries(Some(entries));
        let answer = batch.send().await.unwrap();
        assert_eq!(answer.successful().len() + answer.failed().len(), 10);
        assert!(
            answer.failed().iter().all(|failed| failed.code() == "InternalError" && !failed.sender_fault())
        );
        stored += answer.successful().len();
    }
    assert_eq!(service.engine.depth("q").await.unwrap().visible, u64::try_from(stored).unwrap());
    let refused = service.engine.fault_counts().refused_entries;
    assert_eq!(refused, u64::try_from(100 - stored).unwrap());
    assert!((20..=80).contains(&refused), "{refused} of 100 at 50 %");
}

#[tokio::test]
async fn an_extra_delay_makes_messages_late() {
    let service = Service::start().await;
    service.engine.create_queue("q", QueueSettings::default()).await.unwrap();
    service.engine.set_faults(Faults { extra_delay_ms_max: 1_000, seed: 1, ..Faults::default() });
    for n in 0..20 {
        service.engine.send("q", Outgoing::new(format!("{n}"))).await.unwrap();
    }
    let delayed = service.engine.depth("q").await.unwrap().delayed;
    assert_eq!(delayed, service.engine.fault_counts().delayed);
    assert!(delayed > 10, "{delayed} of 20");
    service.clock.advance(1_000);
    assert_eq!(service.engine.depth("q").await.unwrap().visible, 20);
}

#[tokio::test]
async fn fifo_queues_are_spared_copies_delays_and_disorder() {
    let service = Service::start().await;
    service.engine.create_queue("q.fifo", fifo()).await.unwrap();
    let all = Faults {
        duplicate_percent: 100,
        extra_delay_ms_max: 9_999,
        reorder_percent: 100,
        ..Faults::default()
    };
    service.engine.set_faults(all);
    for n in 0..10 {
        let message = Outgoing::new(format!("{n}")).in_group(format!("{n}")).deduplicated_by(format!("{n}"));
        service.engine.send("q.fifo", message).await.unwrap();
    }
    let expected = (0..10).map(|n| format!("{n}")).collect::<Vec<_>>();
    assert_eq!(service.receive_bodies("q.fifo").await, expected);
    assert_eq!(service.engine.fault_counts(), glassline_sqs::FaultCounts::default());
}

/// Sends 60 messages under many faults; gives the bodies as they come.
async fn run(seed: u64) -> (Vec<String>, glassline_sqs::FaultCounts) {
    let clock = ManualClock::new(START_MS);
    let engine = engine(&clock);
    engine.create_queue("q", QueueSettings::default()).await.unwrap();
    engine.set_faults(Faults {
        duplicate_percent: 20,
        extra_delay_ms_max: 50,
        reorder_percent: 50,
        seed,
        ..Faults::default()
    });
    for n in 0..60 {
        engine.send("q", Outgoing::new(format!("{n}"))).await.unwrap();
    }
    let mut bodies = Vec::new();
    for _ in 0..60 {
        clock.advance(5);
        for message in engine.receive("q", 3, 0, None).await.unwrap() {
            bodies.push(message.body);
        }
    }
    (bodies, engine.fault_counts())
}

#[tokio::test]
async fn the_same_seed_and_calls_give_the_same_faults() {
    let (bodies, counts) = run(42).await;
    assert_eq!(run(42).await, (bodies.clone(), counts));
    assert_ne!(run(43).await.0, bodies);
    assert!(counts.duplicated > 0 && counts.delayed > 0 && counts.reordered > 0, "{counts:?}");
    assert_eq!(bodies.len(), 60 + usize::try_from(counts.duplicated).unwrap());
    assert!(!bodies.is_sorted_by_key(|body| body.parse::<u32>().unwrap()));
}
