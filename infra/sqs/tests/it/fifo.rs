//! FIFO queues: order within groups, deduplication, what they don't take.

use aws_sdk_sqs::types::{
    MessageSystemAttributeName as System, QueueAttributeName, SendMessageBatchRequestEntry,
};
use glassline_sqs::{Message, Outgoing, QueueSettings, SqsError};

use crate::common::{Service, code, fifo};

async fn ordered() -> Service {
    let service = Service::start().await;
    service.engine.create_queue("q.fifo", fifo()).await.unwrap();
    service
}

async fn send(service: &Service, group: &str, body: &str) {
    let message = Outgoing::new(body).in_group(group).deduplicated_by(body);
    service.engine.send("q.fifo", message).await.unwrap();
}

async fn receive(service: &Service, max: usize) -> Vec<Message> {
    service.engine.receive("q.fifo", max, 0, None).await.unwrap()
}

fn bodies(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.body.as_str()).collect()
}

async fn delete(service: &Service, message: &Message) {
    service.engine.delete("q.fifo", std::slice::from_ref(&message.receipt)).await.unwrap();
}

#[tokio::test]
async fn a_group_gives_nothing_more_while_a_message_of_it_is_in_flight() {
    let service = ordered().await;
    for (group, body) in [("a", "a1"), ("a", "a2"), ("b", "b1"), ("a", "a3"), ("b", "b2")] {
        send(&service, group, body).await;
    }
    let first = receive(&service, 1).await;
    assert_eq!(bodies(&first), ["a1"]);
    let second = receive(&service, 1).await;
    assert_eq!(bodies(&second), ["b1"]);
    assert!(receive(&service, 10).await.is_empty());
    delete(&service, &first[0]).await;
    let rest = receive(&service, 10).await;
    assert_eq!(bodies(&rest), ["a2", "a3"], "one receive may give several of a group, in order");
    // Deleting only the first of them doesn't free the group.
    delete(&service, &rest[0]).await;
    send(&service, "a", "a4").await;
    assert!(receive(&service, 10).await.is_empty());
    delete(&service, &rest[1]).await;
    assert_eq!(bodies(&receive(&service, 10).await), ["a4"]);
}

#[tokio::test]
async fn a_message_that_comes_back_comes_before_its_successors() {
    let service = ordered().await;
    for body in ["1", "2"] {
        send(&service, "g", body).await;
    }
    assert_eq!(bodies(&receive(&service, 1).await), ["1"]);
    service.clock.advance(30_000);
    let again = receive(&service, 10).await;
    assert_eq!(bodies(&again), ["1", "2"]);
    service.engine.change_visibility("q.fifo", &again[0].receipt, 0).await.unwrap();
    assert!(receive(&service, 10).await.is_empty(), "2 is still in flight");
    service.engine.change_visibility("q.fifo", &again[1].receipt, 0).await.unwrap();
    assert_eq!(bodies(&receive(&service, 10).await), ["1", "2"]);
}

#[tokio::test]
async fn an_expired_or_stale_handle_is_refused() {
    let service = ordered().await;
    send(&service, "g", "1").await;
    let first = receive(&service, 1).await.remove(0);
    service.clock.advance(30_000);
    let expired = service.engine.delete("q.fifo", std::slice::from_ref(&first.receipt)).await.unwrap_err();
    assert!(matches!(expired, SqsError::InvalidParameterValue { .. }), "{expired}");
    let extended = service.engine.change_visibility("q.fifo", &first.receipt, 1_000).await;
    assert_eq!(extended, Err(SqsError::MessageNotInflight));
    let second = receive(&service, 1).await.remove(0);
    let stale = service.engine.delete("q.fifo", std::slice::from_ref(&first.receipt)).await.unwrap_err();
    assert!(matches!(stale, SqsError::InvalidParameterValue { .. }), "{stale}");
    delete(&service, &second).await;
    delete(&service, &second).await;
    assert_eq!(service.engine.counts()["q.fifo"].deleted, 1);
}

#[tokio::test]
async fn a_message_sent_again_within_5_minutes_is_the_same_message() {
    let service = ordered().await;
    let url = glassline_sqs::queue_url(service.address, "q.fifo");
    let send = |body: &str, group: &str| {
        let send = service.client.send_message().queue_url(&url).message_body(body).message_group_id(group);
        send.message_deduplication_id("id").send()
    };
    let first = send("one", "g").await.unwrap();
    // Another body and group: the id alone decides, and the digest is that of the body sent.
    let again = send("other", "h").await.unwrap();
    assert_eq!(again.message_id(), first.message_id());
    assert_eq!(again.sequence_number(), first.sequence_number());
    assert_ne!(again.md5_of_message_body(), first.md5_of_message_body());
    let found = receive(&service, 10).await;
    assert_eq!(bodies(&found), ["one"]);
    assert_eq!(found[0].attributes["SequenceNumber"], first.sequence_number().unwrap());
    delete(&service, &found[0]).await;
    service.clock.advance(299_999);
    assert_eq!(send("one", "g").await.unwrap().message_id(), first.message_id(), "also after it was deleted");
    assert!(receive(&service, 10).await.is_empty());
    service.clock.advance(1);
    let later = send("one", "g").await.unwrap();
    assert_ne!(later.message_id(), first.message_id());
    assert!(later.sequence_number() > first.sequence_number());
    let counts = &service.engine.counts()["q.fifo"];
    assert_eq!((counts.sent, counts.deduplicated), (2, 2));
}

#[tokio::test]
async fn content_is_an_id_where_the_queue_says_so() {
    let service = Service::start().await;
    let settings = QueueSettings { content_based_deduplication: true, ..fifo() };
    service.engine.create_queue("q.fifo", settings).await.unwrap();
    let send = |body: &str| service.engine.send("q.fifo", Outgoing::new(body).in_group("g"));
    let first = send("msg").await.unwrap();
    assert_eq!(send("msg").await.unwrap().id, first.id);
    assert_ne!(send("msg2").await.unwrap().id, first.id);
    // An explicit id goes before the content.
    let explicit = Outgoing::new("msg").in_group("g").deduplicated_by("x");
    assert_ne!(service.engine.send("q.fifo", explicit).await.unwrap().id, first.id);
    let found = receive(&service, 10).await;
    assert_eq!(bodies(&found), ["msg", "msg2", "msg"]);
    // SHA-256 of "msg".
    let id = "e46b320165eec91e6344fa10340d5b3208304d6cad29d0d5aed18466d1d9d80e";
    assert_eq!(found[0].attributes["MessageDeduplicationId"], id);
}

#[tokio::test]
async fn deduplication_may_be_within_each_group() {
    let service = Service::start().await;
    let scope = (QueueAttributeName::DeduplicationScope, "messageGroup");
    service.create("q.fifo", &[(QueueAttributeName::FifoQueue, "true"), scope]).await;
    for group in ["a", "b", "a"] {
        let message = Outgoing::new(group).in_group(group).deduplicated_by("same");
        service.engine.send("q.fifo", message).await.unwrap();
    }
    assert_eq!(bodies(&receive(&service, 10).await), ["a", "b"]);
}

#[tokio::test]
async fn fifo_messages_need_a_group_and_an_id_and_take_no_delay() {
    let service = ordered().await;
    let url = glassline_sqs::queue_url(service.address, "q.fifo");
    let send = || service.client.send_message().queue_url(&url).message_body("x");
    assert_eq!(code(send().message_deduplication_id("i").send().await), "MissingParameter");
    assert_eq!(code(send().message_group_id("g").send().await), "InvalidParameterValue");
    let full = || send().message_group_id("g").message_deduplication_id("i");
    assert_eq!(code(full().delay_seconds(1).send().await), "InvalidParameterValue");
    full().delay_seconds(0).send().await.unwrap();
    let entry = |id: &str| {
        let entry = SendMessageBatchRequestEntry::builder().id(id).message_body("x").message_group_id("g");
        entry.message_deduplication_id(id)
    };
    let batch = service.client.send_message_batch().queue_url(&url);
    let batch =
        batch.entries(entry("a").build().unwrap()).entries(entry("b").delay_seconds(1).build().unwrap());
    let answer = batch.send().await.unwrap();
    assert_eq!((answer.successful()[0].id(), answer.failed()[0].id()), ("a", "b"));
    let batch = service.client.send_message_batch().queue_url(&url).entries(entry("c").build().unwrap());
    let bare = SendMessageBatchRequestEntry::builder().id("d").message_body("x").build().unwrap();
    assert_eq!(code(batch.entries(bare).send().await), "MissingParameter");
    assert_eq!(service.engine.depth("q.fifo").await.unwrap().visible, 2);
}

#[tokio::test]
async fn a_queue_delay_holds_and_a_changed_one_is_for_all() {
    let service = Service::start().await;
    let settings = QueueSettings { delay_ms: 10_000, ..fifo() };
    service.engine.create_queue("q.fifo", settings).await.unwrap();
    send(&service, "g", "1").await;
    service.clock.advance(9_999);
    assert!(receive(&service, 10).await.is_empty());
    service.clock.advance(1);
    assert_eq!(bodies(&receive(&service, 10).await), ["1"]);
    send(&service, "h", "2").await;
    let url = glassline_sqs::queue_url(service.address, "q.fifo");
    let set = service.client.set_queue_attributes().queue_url(&url);
    set.attributes(QueueAttributeName::DelaySeconds, "0").send().await.unwrap();
    assert_eq!(bodies(&receive(&service, 10).await), ["2"]);
}

#[tokio::test]
async fn sequence_numbers_are_20_digits_and_grow() {
    let service = ordered().await;
    for n in 0..20 {
        send(&service, &format!("g{}", n % 3), &format!("{n}")).await;
    }
    let url = glassline_sqs::queue_url(service.address, "q.fifo");
    let request = service.client.receive_message().queue_url(&url).max_number_of_messages(10);
    let found = request.message_system_attribute_names(System::All).send().await.unwrap();
    let numbers = found.messages().iter().map(|m| m.attributes().unwrap()[&System::SequenceNumber].clone());
    let numbers = numbers.collect::<Vec<_>>();
    assert!(numbers.iter().all(|number| number.len() == 20), "{numbers:?}");
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let bodies = found.messages().iter().map(|m| m.body().unwrap()).collect::<Vec<_>>();
    assert_eq!(bodies, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
}
