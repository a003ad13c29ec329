//! Standard queues by the injected clock: delays, visibility, receipts, retention, attributes, counts.

use aws_sdk_sqs::operation::change_message_visibility::ChangeMessageVisibilityError;
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{
    DeleteMessageBatchRequestEntry, MessageAttributeValue, MessageSystemAttributeName as System,
    MessageSystemAttributeNameForSends, MessageSystemAttributeValue, QueueAttributeName,
};
use glassline_sqs::{Depth, Outgoing, QueueSettings, SqsError};

use crate::common::{START_MS, Service, code};

#[tokio::test]
async fn a_delayed_message_appears_when_its_delay_is_over() {
    let service = Service::start().await;
    let settings = QueueSettings { delay_ms: 5_000, ..QueueSettings::default() };
    service.engine.create_queue("q", settings).await.unwrap();
    service.engine.send("q", Outgoing::new("of the queue")).await.unwrap();
    service.engine.send("q", Outgoing::new("its own").delayed(2_000)).await.unwrap();
    service.engine.send("q", Outgoing::new("none").delayed(0)).await.unwrap();
    assert_eq!(service.receive_bodies("q").await, ["none"]);
    service.clock.advance(1_999);
    assert!(service.receive_bodies("q").await.is_empty());
    let depth = service.engine.depth("q").await.unwrap();
    assert_eq!(depth, Depth { visible: 0, in_flight: 1, delayed: 2, oldest_sent_ms: Some(START_MS) });
    service.clock.advance(1);
    assert_eq!(service.receive_bodies("q").await, ["its own"]);
    service.clock.advance(3_000);
    assert_eq!(service.receive_bodies("q").await, ["of the queue"]);
}

#[tokio::test]
async fn a_changed_queue_delay_is_for_messages_sent_later() {
    let service = Service::start().await;
    let url = service.create("q", &[(QueueAttributeName::DelaySeconds, "5")]).await;
    service.engine.send("q", Outgoing::new("x")).await.unwrap();
    let set = service.client.set_queue_attributes().queue_url(&url);
    set.attributes(QueueAttributeName::DelaySeconds, "0").send().await.unwrap();
    assert!(service.receive_bodies("q").await.is_empty());
    service.clock.advance(5_000);
    assert_eq!(service.receive_bodies("q").await, ["x"]);
}

#[tokio::test]
async fn a_received_message_comes_back_when_its_visibility_ends() {
    let service = Service::start().await;
    service.engine.create_queue("q", QueueSettings::default()).await.unwrap();
    service.engine.send("q", Outgoing::new("x")).await.unwrap();
    let first = service.engine.receive("q", 10, 0, None).await.unwrap().remove(0);
    assert_eq!((first.receives, first.body.as_str()), (1, "x"));
    service.clock.advance(29_999);
    assert!(service.receive_bodies("q").await.is_empty());
    service.clock.advance(1);
    let second = service.engine.receive("q", 10, 0, Some(1_000)).await.unwrap().remove(0);
    assert_eq!((second.receives, &second.id), (2, &first.id));
    assert_ne!(second.receipt, first.receipt);
    assert_eq!(second.attributes["ApproximateFirstReceiveTimestamp"], START_MS.to_string());
    service.clock.advance(1_000);
    let third = service.engine.receive("q", 10, 0, Some(0)).await.unwrap().remove(0);
    assert_eq!(third.receives, 3);
    assert_eq!(service.receive_bodies("q").await, ["x"], "a visibility of 0 leaves it visible");
}

#[tokio::test]
async fn a_stale_handle_deletes_nothing_and_an_expired_one_still_deletes() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    service.engine.send("q", Outgoing::new("x")).await.unwrap();
    let receive = || async { service.engine.receive("q", 1, 0, None).await.unwrap().remove(0).receipt };
    let stale = receive().await;
    service.clock.advance(30_000);
    let latest = receive().await;
    let delete = |handle: &str| service.client.delete_message().queue_url(&url).receipt_handle(handle).send();
    delete(&stale).await.unwrap();
    let counts = |service: &Service| service.engine.counts()["q"].clone();
    assert_eq!((service.engine.depth("q").await.unwrap().in_flight, counts(&service).deleted), (1, 0));
    // Its visibility is over, but nobody received it since.
    service.clock.advance(30_000);
    delete(&latest).await.unwrap();
    assert_eq!((service.engine.depth("q").await.unwrap().visible, counts(&service).deleted), (0, 1));
    delete(&latest).await.unwrap();
    assert_eq!(counts(&service).deleted, 1, "deleting what is gone succeeds and isn't counted");
    service.create("other", &[]).await;
    assert_eq!(service.engine.delete("other", &[latest]).await, Err(SqsError::ReceiptHandleIsInvalid));
    assert_eq!(code(delete("garbage").await), "ReceiptHandleIsInvalid");
    assert_eq!(code(delete("").await), "ReceiptHandleIsInvalid");
}

#[tokio::test]
async fn a_batch_delete_honours_each_valid_handle() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    for body in ["a", "b"] {
        service.engine.send("q", Outgoing::new(body)).await.unwrap();
    }
    let messages = service.engine.receive("q", 2, 0, None).await.unwrap();
    let entry = |id: &str, handle: &str| {
        DeleteMessageBatchRequestEntry::builder().id(id).receipt_handle(handle).build().unwrap()
    };
    let batch = service.client.delete_message_batch().queue_url(&url);
    let batch = batch.entries(entry("1", &messages[0].receipt)).entries(entry("2", "garbage"));
    let answer = batch.entries(entry("3", &messages[1].receipt)).send().await.unwrap();
    assert_eq!(answer.successful().iter().map(|done| done.id()).collect::<Vec<_>>(), ["1", "3"]);
    assert_eq!((answer.failed()[0].id(), answer.failed()[0].code()), ("2", "ReceiptHandleIsInvalid"));
    assert_eq!(service.engine.depth("q").await.unwrap(), Depth::default());
}

#[tokio::test]
async fn visibility_is_extended_cut_short_and_refused_to_stale_handles() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    service.engine.send("q", Outgoing::new("x")).await.unwrap();
    let first = service.engine.receive("q", 1, 0, None).await.unwrap().remove(0).receipt;
    service.engine.change_visibility("q", &first, 60_000).await.unwrap();
    service.clock.advance(59_999);
    assert!(service.receive_bodies("q").await.is_empty());
    service.engine.change_visibility("q", &first, 0).await.unwrap();
    let second = service.engine.receive("q", 1, 0, None).await.unwrap().remove(0).receipt;
    let change = |handle: &str| {
        let request = service.client.change_message_visibility().queue_url(&url).receipt_handle(handle);
        request.visibility_timeout(5).send()
    };
    let stale = change(&first).await.unwrap_err().into_service_error();
    assert!(matches!(stale, ChangeMessageVisibilityError::MessageNotInflight(_)), "{stale:?}");
    let garbage = change("garbage").await.unwrap_err().into_service_error();
    assert!(matches!(garbage, ChangeMessageVisibilityError::ReceiptHandleIsInvalid(_)), "{garbage:?}");
    change(&second).await.unwrap();
    service.engine.delete("q", std::slice::from_ref(&second)).await.unwrap();
    assert_eq!(code(change(&second).await), "InvalidParameterValue");
}

#[tokio::test]
async fn messages_expire_from_when_they_were_sent() {
    let service = Service::start().await;
    let settings = QueueSettings { retention_ms: 60_000, ..QueueSettings::default() };
    service.engine.create_queue("q", settings).await.unwrap();
    service.engine.send("q", Outgoing::new("old")).await.unwrap();
    service.engine.send("q", Outgoing::new("delayed").delayed(59_000)).await.unwrap();
    service.clock.advance(59_999);
    service.engine.send("q", Outgoing::new("new")).await.unwrap();
    assert_eq!(service.engine.depth("q").await.unwrap().visible, 3);
    service.clock.advance(1);
    assert_eq!(service.receive_bodies("q").await, ["new"]);
    assert_eq!(service.engine.peek("q", 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn attributes_come_as_asked_for_and_their_digests_are_right() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    let text = |value: &str| {
        MessageAttributeValue::builder().data_type("String").string_value(value).build().unwrap()
    };
    let binary = MessageAttributeValue::builder().data_type("Binary").binary_value(Blob::new([0_u8, 1, 255]));
    let trace = MessageSystemAttributeValue::builder()
        .data_type("String")
        .string_value("Root=1-2-3")
        .build()
        .unwrap();
    let send = service.client.send_message().queue_url(&url).message_body("msg");
    let send = send.message_attributes("Hello", text("There")).message_attributes("General", text("Kenobi"));
    let send = send.message_attributes("Help.Me", text("Me"));
    let sent = send.message_system_attributes(MessageSystemAttributeNameForSends::AwsTraceHeader, trace);
    let sent = sent.send().await.unwrap();
    // Digests that AWS answered for the same attributes.
    assert_eq!(sent.md5_of_message_body(), Some("6e2baaf3b97dbeef01c0043275f9a0e7"));
    assert_eq!(sent.md5_of_message_attributes(), Some("4c360f3fdafd970e05fae2f149d997f5"));
    assert_eq!(sent.md5_of_message_system_attributes().unwrap().len(), 32);
    let receive = |names: &[&str]| {
        let request = service.client.receive_message().queue_url(&url).visibility_timeout(0);
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        request.set_message_attribute_names(Some(names)).send()
    };
    for (names, digest, count) in [
        (&["All"][..], "4c360f3fdafd970e05fae2f149d997f5", 3),
        (&[".*"], "4c360f3fdafd970e05fae2f149d997f5", 3),
        (&["Hel.*"], "83fee93c1bcd8b9a5a923ffacdc636c7", 2),
        (&["Hello", "General"], "fca026605781cb4126a1e9044df24232", 2),
        (&["Hello", "Nothing"], "a311262e065454b75da111d535b8dacd", 1),
    ] {
        let found = receive(names).await.unwrap().messages.unwrap().remove(0);
        assert_eq!(found.md5_of_message_attributes(), Some(digest), "{names:?}");
        assert_eq!(found.message_attributes().unwrap().len(), count, "{names:?}");
        assert!(found.attributes().is_none());
    }
    let bare = receive(&["Nothing"]).await.unwrap().messages.unwrap().remove(0);
    assert_eq!((bare.md5_of_message_attributes(), bare.message_attributes()), (None, None));
    let all = service.client.receive_message().queue_url(&url).message_system_attribute_names(System::All);
    let all = all.send().await.unwrap().messages.unwrap().remove(0).attributes.unwrap();
    assert_eq!(all[&System::SentTimestamp], START_MS.to_string());
    assert_eq!(all[&System::ApproximateReceiveCount], "7");
    assert_eq!(all[&System::ApproximateFirstReceiveTimestamp], START_MS.to_string());
    assert_eq!(all[&System::AwsTraceHeader], "Root=1-2-3");
    assert!(!all.contains_key(&System::MessageGroupId) && !all.contains_key(&System::SequenceNumber));
    let send = service.client.send_message().queue_url(&url).message_body("binary");
    send.message_attributes("bytes", binary.build().unwrap()).send().await.unwrap();
    let found = receive(&["All"]).await.unwrap().messages.unwrap().remove(0);
    assert_eq!(found.message_attributes().unwrap()["bytes"].binary_value().unwrap().as_ref(), [0, 1, 255]);
}

#[tokio::test]
async fn a_group_is_allowed_and_a_deduplication_id_is_not() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    let send = || service.client.send_message().queue_url(&url).message_body("x");
    send().message_group_id("tenant").send().await.unwrap();
    assert_eq!(code(send().message_deduplication_id("d").send().await), "InvalidParameterValue");
    let found = service.engine.receive("q", 1, 0, None).await.unwrap().remove(0);
    assert_eq!(found.attributes["MessageGroupId"], "tenant");
}

#[tokio::test]
async fn a_peek_shows_all_and_receives_none() {
    let service = Service::start().await;
    service.engine.create_queue("q", QueueSettings::default()).await.unwrap();
    for (body, delay_ms) in [("a", 0), ("b", 5_000), ("c", 0)] {
        service.engine.send("q", Outgoing::new(body).delayed(delay_ms)).await.unwrap();
    }
    service.engine.receive("q", 1, 0, None).await.unwrap();
    let seen = service.engine.peek("q", 10).await.unwrap();
    let seen = seen.iter().map(|m| (m.body.as_str(), m.receives, m.receipt.as_str())).collect::<Vec<_>>();
    assert_eq!(seen, [("a", 1, ""), ("b", 0, ""), ("c", 0, "")]);
    assert_eq!(service.engine.peek("q", 2).await.unwrap().len(), 2);
    assert_eq!(service.receive_bodies("q").await, ["c"]);
}

#[tokio::test]
async fn counts_are_of_messages_and_of_requests() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    for _ in 0..3 {
        service.engine.send("q", Outgoing::new("x")).await.unwrap();
    }
    service.client.send_message().queue_url(&url).message_body("x").send().await.unwrap();
    let messages = service.engine.receive("q", 10, 0, None).await.unwrap();
    let receipts = messages.into_iter().map(|message| message.receipt).collect::<Vec<_>>();
    service.engine.delete("q", &receipts).await.unwrap();
    service.engine.receive("q", 10, 0, None).await.unwrap();
    let counts = &service.engine.counts()["q"];
    assert_eq!((counts.sent, counts.received, counts.deleted), (4, 4, 4));
    let requests = |name: &str| counts.requests.get(name).copied().unwrap_or_default();
    assert_eq!((requests("SendMessage"), requests("ReceiveMessage")), (4, 2));
    assert_eq!((requests("DeleteMessageBatch"), requests("DeleteMessage")), (1, 0));
    let missing = service.engine.send("none", Outgoing::new("x")).await.unwrap_err();
    assert_eq!(missing, SqsError::QueueDoesNotExist { queue: "none".to_owned() });
    assert!(!service.engine.counts().contains_key("none"));
}

#[tokio::test]
async fn the_clock_may_jump_back() {
    let service = Service::start().await;
    service.engine.create_queue("q", QueueSettings::default()).await.unwrap();
    service.clock.advance(1_000_000);
    service.engine.send("q", Outgoing::new("x")).await.unwrap();
    service.clock.set(5);
    assert_eq!(service.receive_bodies("q").await, ["x"], "what is visible stays visible");
    service.clock.set(u64::MAX);
    service.engine.send("q", Outgoing::new("y")).await.unwrap();
    assert_eq!(service.receive_bodies("q").await, ["y"], "and the end of time is no error");
}
