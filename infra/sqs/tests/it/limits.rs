//! Every limit of messages, at its edge and over it, through the SDK.

use aws_sdk_sqs::error::ProvideErrorMetadata;
use aws_sdk_sqs::operation::send_message::SendMessageError;
use aws_sdk_sqs::operation::send_message_batch::SendMessageBatchError;
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, MessageAttributeValue,
    QueueAttributeName, SendMessageBatchRequestEntry,
};

use crate::common::{Service, code};

const MAX_BYTES: usize = 1_048_576;

fn entry(id: &str, body: impl Into<String>) -> SendMessageBatchRequestEntry {
    SendMessageBatchRequestEntry::builder().id(id).message_body(body).build().unwrap()
}

fn text(data_type: &str, value: &str) -> MessageAttributeValue {
    MessageAttributeValue::builder().data_type(data_type).string_value(value).build().unwrap()
}

#[tokio::test]
async fn a_message_has_at_most_1_mib_with_its_attributes() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    let send = |bytes: usize| service.client.send_message().queue_url(&url).message_body("x".repeat(bytes));
    send(1).send().await.unwrap();
    let full = send(MAX_BYTES).send().await.unwrap();
    assert_eq!(full.md5_of_message_body().unwrap().len(), 32);
    assert_eq!(code(send(MAX_BYTES + 1).send().await), "InvalidParameterValue");
    assert_eq!(code(send(0).send().await), "MissingParameter");
    // Name 4 + type 6 + value 6.
    let with = |bytes| send(bytes).message_attributes("name", text("String", "value6"));
    with(MAX_BYTES - 16).send().await.unwrap();
    assert_eq!(code(with(MAX_BYTES - 15).send().await), "InvalidParameterValue");
    // Bytes count, not characters: each of these has three.
    let wide = service.client.send_message().queue_url(&url).message_body("€".repeat(MAX_BYTES / 3 + 1));
    assert_eq!(code(wide.send().await), "InvalidParameterValue");
    // A whole message of characters that JSON must escape still fits the HTTP limit.
    let escaped = service.client.send_message().queue_url(&url).message_body("\t".repeat(MAX_BYTES));
    escaped.send().await.unwrap();
    assert_eq!(service.engine.depth("q").await.unwrap().visible, 4);
}

#[tokio::test]
async fn a_queue_may_allow_less() {
    let service = Service::start().await;
    let url = service.create("q", &[(QueueAttributeName::MaximumMessageSize, "1024")]).await;
    let send = |bytes: usize| service.client.send_message().queue_url(&url).message_body("x".repeat(bytes));
    send(1_024).send().await.unwrap();
    assert_eq!(code(send(1_025).send().await), "InvalidParameterValue");
    let batch = service.client.send_message_batch().queue_url(&url);
    let batch = batch.entries(entry("a", "x".repeat(1_024))).entries(entry("b", "x".repeat(1_025)));
    let answer = batch.send().await.unwrap();
    assert_eq!((answer.successful()[0].id(), answer.failed()[0].id()), ("a", "b"));
    assert!(answer.failed()[0].sender_fault());
}

#[tokio::test]
async fn a_batch_has_1_to_10_entries_and_at_most_1_mib() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    let batch = |entries: usize, bytes: usize| {
        let entries = (0..entries).map(|n| entry(&format!("id-{n}"), "x".repeat(bytes))).collect();
        service.client.send_message_batch().queue_url(&url).set_entries(Some(entries)).send()
    };
    let answer = batch(10, 10).await.unwrap();
    assert_eq!((answer.successful().len(), answer.failed().len()), (10, 0));
    assert_eq!(code(batch(11, 10).await), "AWS.SimpleQueueService.TooManyEntriesInBatchRequest");
    let empty = batch(0, 0).await.unwrap_err().into_service_error();
    assert!(matches!(empty, SendMessageBatchError::EmptyBatchRequest(_)), "{empty:?}");
    // 8 x 131,072 is exactly 1 MiB.
    assert_eq!(batch(8, MAX_BYTES / 8).await.unwrap().successful().len(), 8);
    let long = batch(8, MAX_BYTES / 8 + 1).await.unwrap_err().into_service_error();
    assert!(matches!(long, SendMessageBatchError::BatchRequestTooLong(_)), "{long:?}");
    assert_eq!(service.engine.depth("q").await.unwrap().visible, 18, "a refused batch stores nothing");
}

#[tokio::test]
async fn batch_ids_are_distinct_and_plain() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    let batch = |ids: &[&str]| {
        let entries = ids.iter().map(|id| entry(id, "x")).collect();
        service.client.send_message_batch().queue_url(&url).set_entries(Some(entries)).send()
    };
    batch(&[&"a".repeat(80), "A-z_09"]).await.unwrap();
    let twice = batch(&["a", "b", "a"]).await.unwrap_err().into_service_error();
    assert!(matches!(twice, SendMessageBatchError::BatchEntryIdsNotDistinct(_)), "{twice:?}");
    for bad in ["", "a b", "a.b", "é", &"a".repeat(81)] {
        let refused = batch(&[bad]).await.unwrap_err().into_service_error();
        assert!(matches!(refused, SendMessageBatchError::InvalidBatchEntryId(_)), "{bad:?}: {refused:?}");
    }
    let delete = |id: &str| {
        let entry = DeleteMessageBatchRequestEntry::builder().id(id).receipt_handle("x").build().unwrap();
        service.client.delete_message_batch().queue_url(&url).entries(entry).send()
    };
    assert_eq!(code(delete("a:b").await), "AWS.SimpleQueueService.InvalidBatchEntryId");
    let failed = delete("ok").await.unwrap();
    assert_eq!(failed.failed()[0].code(), "ReceiptHandleIsInvalid");
    let change = |id: &str, seconds| {
        let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(id).receipt_handle("x");
        let entry = entry.visibility_timeout(seconds).build().unwrap();
        service.client.change_message_visibility_batch().queue_url(&url).entries(entry).send()
    };
    assert_eq!(code(change("a:b", 1).await), "AWS.SimpleQueueService.InvalidBatchEntryId");
    assert_eq!(change("ok", 43_201).await.unwrap().failed()[0].code(), "InvalidParameterValue");
    assert_eq!(change("ok", 43_200).await.unwrap().failed()[0].code(), "ReceiptHandleIsInvalid");
}

#[tokio::test]
async fn a_delay_is_0_to_900_seconds() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    let send = |seconds| {
        service.client.send_message().queue_url(&url).message_body("x").delay_seconds(seconds).send()
    };
    send(0).await.unwrap();
    send(900).await.unwrap();
    assert_eq!(code(send(901).await), "InvalidParameterValue");
    assert_eq!(code(send(-1).await), "InvalidParameterValue");
    let depth = service.engine.depth("q").await.unwrap();
    assert_eq!((depth.visible, depth.delayed), (1, 1));
}

#[tokio::test]
async fn a_receive_has_its_ranges() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    let receive = || service.client.receive_message().queue_url(&url);
    for max in [1, 10] {
        receive().max_number_of_messages(max).send().await.unwrap();
    }
    for max in [0, 11, -1] {
        assert_eq!(
            code(receive().max_number_of_messages(max).send().await),
            "InvalidParameterValue",
            "{max}"
        );
    }
    for seconds in [0, 43_200] {
        receive().visibility_timeout(seconds).send().await.unwrap();
    }
    for seconds in [-1, 43_201] {
        assert_eq!(
            code(receive().visibility_timeout(seconds).send().await),
            "InvalidParameterValue",
            "{seconds}"
        );
    }
    for seconds in [-1, 21] {
        assert_eq!(
            code(receive().wait_time_seconds(seconds).send().await),
            "InvalidParameterValue",
            "{seconds}"
        );
    }
    service.client.send_message().queue_url(&url).message_body("x").send().await.unwrap();
    let found = receive().wait_time_seconds(20).send().await.unwrap();
    let handle = found.messages()[0].receipt_handle().unwrap();
    let change = |seconds| {
        let request = service.client.change_message_visibility().queue_url(&url).receipt_handle(handle);
        request.visibility_timeout(seconds).send()
    };
    for seconds in [0, 43_200] {
        change(seconds).await.unwrap();
    }
    for seconds in [-1, 43_201] {
        assert_eq!(code(change(seconds).await), "InvalidParameterValue", "{seconds}");
    }
    // 12 hours is the total since the receive.
    service.clock.advance(1_000);
    change(43_199).await.unwrap();
    assert_eq!(code(change(43_200).await), "InvalidParameterValue");
}

#[tokio::test]
async fn bodies_have_the_characters_of_xml() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    let send = |body: &str| service.client.send_message().queue_url(&url).message_body(body).send();
    for ok in [
        "\t",
        "\n",
        "\r",
        " ",
        "\u{d7ff}",
        "\u{e000}",
        "\u{fffd}",
        "\u{10000}",
        "\u{10ffff}",
        "\u{7f}",
        "\"\\",
    ] {
        send(ok).await.unwrap_or_else(|error| panic!("{ok:?}: {error:?}"));
    }
    for bad in ["\0", "\u{1}", "\u{8}", "\u{b}", "\u{c}", "\u{e}", "\u{1f}", "\u{fffe}", "\u{ffff}"] {
        let refused = send(&format!("ok{bad}ok")).await.unwrap_err().into_service_error();
        assert!(matches!(refused, SendMessageError::InvalidMessageContents(_)), "{bad:?}: {refused:?}");
    }
    // In a batch only the entry fails.
    let batch = service.client.send_message_batch().queue_url(&url);
    let answer = batch.entries(entry("bad", "\0")).entries(entry("ok", "x")).send().await.unwrap();
    assert_eq!((answer.successful()[0].id(), answer.failed()[0].id()), ("ok", "bad"));
    assert_eq!(answer.failed()[0].code(), "InvalidMessageContents");
}

#[tokio::test]
async fn attributes_are_at_most_10_with_plain_names_and_known_types() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    let many = |count: usize| {
        let send = service.client.send_message().queue_url(&url).message_body("x");
        (0..count).fold(send, |send, n| send.message_attributes(format!("a{n}"), text("String", "v"))).send()
    };
    many(10).await.unwrap();
    assert_eq!(code(many(11).await), "InvalidParameterValue");
    let send = |name: &str, value: MessageAttributeValue| {
        service.client.send_message().queue_url(&url).message_body("x").message_attributes(name, value).send()
    };
    for name in ["a", "A-b_c.9", &"n".repeat(256), "awsome"] {
        send(name, text("String", "v")).await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
    }
    for name in ["", ".a", "a.", "a..b", "a b", "é", "AWS.x", "aws.x", "Amazon.x", &"n".repeat(257)] {
        assert_eq!(code(send(name, text("String", "v")).await), "InvalidParameterValue", "{name}");
    }
    for (data_type, value) in
        [("String", "v"), ("String.json", "{}"), ("Number", "-1.5e3"), ("Number.float", "7")]
    {
        send("a", text(data_type, value)).await.unwrap_or_else(|error| panic!("{data_type}: {error:?}"));
    }
    let long = "9".repeat(39);
    for (data_type, value) in [
        ("", "v"),
        ("Text", "v"),
        ("Number", "x"),
        ("Number", &long),
        ("Number", "1e127"),
        ("Number", "NaN"),
        ("String", ""),
        ("Binary", "v"),
    ] {
        assert_eq!(
            code(send("a", text(data_type, value)).await),
            "InvalidParameterValue",
            "{data_type} {value}"
        );
    }
    let control = send("a", text("String", "\0")).await.unwrap_err();
    assert_eq!(control.code(), Some("InvalidMessageContents"));
    let binary = |bytes: &[u8]| {
        MessageAttributeValue::builder()
            .data_type("Binary.png")
            .binary_value(Blob::new(bytes))
            .build()
            .unwrap()
    };
    send("a", binary(&[0, 255])).await.unwrap();
    assert_eq!(code(send("a", binary(&[])).await), "InvalidParameterValue");
}

#[tokio::test]
async fn group_and_deduplication_ids_have_1_to_128_plain_characters() {
    let service = Service::start().await;
    let url = service.create("q.fifo", &[(QueueAttributeName::FifoQueue, "true")]).await;
    let send = |group: &str, id: &str| {
        let send = service.client.send_message().queue_url(&url).message_body("x");
        send.message_group_id(group).message_deduplication_id(id).send()
    };
    let (longest, long) = ("g".repeat(128), "g".repeat(129));
    send(&longest, &longest).await.unwrap();
    send("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "~").await.unwrap();
    for bad in ["", "a b", "é", &long] {
        assert_eq!(code(send(bad, "i").await), "InvalidParameterValue", "{bad}");
        assert_eq!(code(send("g", bad).await), "InvalidParameterValue", "{bad}");
    }
}
