//! The limits of queues: names and attributes, at their edges and over them.

use std::sync::Arc;

use aws_sdk_sqs::types::QueueAttributeName as Name;
use glassline_sqs::{Engine, EngineOptions, ManualClock, Outgoing, QueueSettings, SqsError};

use crate::common::{START_MS, Service, code, fifo};

#[tokio::test]
async fn names_have_1_to_80_plain_characters() {
    let service = Service::start().await;
    let create = |name: &str| service.client.create_queue().queue_name(name).send();
    for name in ["a", "A-z_09", &"n".repeat(80)] {
        create(name).await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
    }
    for name in ["", "a b", "a.b", "é", "a/b", "a.fifo", &"n".repeat(81)] {
        assert_eq!(code(create(name).await), "InvalidParameterValue", "{name}");
    }
    let create = |name: &str| {
        service.client.create_queue().queue_name(name).attributes(Name::FifoQueue, "true").send()
    };
    create(&format!("{}.fifo", "n".repeat(75))).await.unwrap();
    for name in ["plain", ".fifo", "a.b.fifo", &format!("{}.fifo", "n".repeat(76))] {
        assert_eq!(code(create(name).await), "InvalidParameterValue", "{name}");
    }
}

#[tokio::test]
async fn attributes_have_their_ranges_when_created_and_when_set() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    let ranges = [
        (Name::VisibilityTimeout, 0, 43_200),
        (Name::DelaySeconds, 0, 900),
        (Name::MessageRetentionPeriod, 60, 1_209_600),
        (Name::ReceiveMessageWaitTimeSeconds, 0, 20),
        (Name::MaximumMessageSize, 1_024, 1_048_576),
    ];
    for (name, min, max) in ranges {
        let set = |value: String| {
            let request = service.client.set_queue_attributes().queue_url(&url);
            request.attributes(name.clone(), value).send()
        };
        for value in [min, max] {
            set(value.to_string()).await.unwrap_or_else(|error| panic!("{name} {value}: {error:?}"));
            let request = service.client.get_queue_attributes().queue_url(&url);
            let shown = request.attribute_names(name.clone()).send().await.unwrap();
            assert_eq!(shown.attributes().unwrap()[&name], value.to_string());
        }
        for value in
            [(min - 1).to_string(), (max + 1).to_string(), String::new(), "x".to_owned(), "1.5".to_owned()]
        {
            assert_eq!(code(set(value.clone()).await), "InvalidAttributeValue", "{name} {value}");
            let create = service.client.create_queue().queue_name("other").attributes(name.clone(), &value);
            assert_eq!(code(create.send().await), "InvalidAttributeValue", "{name} {value}");
        }
    }
    let unknown =
        service.client.set_queue_attributes().queue_url(&url).attributes(Name::from("Colour"), "red");
    assert_eq!(code(unknown.send().await), "InvalidAttributeName");
    let unknown = service.client.get_queue_attributes().queue_url(&url).attribute_names(Name::from("Colour"));
    assert_eq!(code(unknown.send().await), "InvalidAttributeName");
}

#[tokio::test]
async fn fifo_attributes_are_for_fifo_queues() {
    let service = Service::start().await;
    let standard = service.create("q", &[]).await;
    let ordered = service.create("q.fifo", &[(Name::FifoQueue, "true")]).await;
    let set = |url: &str, name: Name, value: &str| {
        service.client.set_queue_attributes().queue_url(url).attributes(name, value).send()
    };
    for (name, value) in [
        (Name::FifoQueue, "true"),
        (Name::ContentBasedDeduplication, "true"),
        (Name::DeduplicationScope, "queue"),
        (Name::FifoThroughputLimit, "perQueue"),
    ] {
        assert_eq!(code(set(&standard, name.clone(), value).await), "InvalidAttributeName", "{name}");
        set(&ordered, name, value).await.unwrap();
    }
    assert_eq!(code(set(&ordered, Name::FifoQueue, "false").await), "InvalidAttributeValue");
    assert_eq!(code(set(&ordered, Name::DeduplicationScope, "world").await), "InvalidAttributeValue");
    assert_eq!(code(set(&ordered, Name::ContentBasedDeduplication, "yes").await), "InvalidAttributeValue");
    let limit = Name::FifoThroughputLimit;
    assert_eq!(code(set(&ordered, limit.clone(), "perMessageGroupId").await), "InvalidAttributeValue");
    set(&ordered, Name::DeduplicationScope, "messageGroup").await.unwrap();
    set(&ordered, limit, "perMessageGroupId").await.unwrap();
    let create = service.client.create_queue().queue_name("r").attributes(Name::FifoQueue, "false");
    assert_eq!(code(create.send().await), "InvalidAttributeName");
}

#[tokio::test]
async fn redrive_policies_name_an_existing_queue_of_the_same_type() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    service.create("dead", &[]).await;
    service.create("dead.fifo", &[(Name::FifoQueue, "true")]).await;
    let set = |policy: String| {
        let request = service.client.set_queue_attributes().queue_url(&url);
        request.attributes(Name::RedrivePolicy, policy).send()
    };
    let policy = |queue: &str, count: &str| {
        format!(
            r#"{{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:{queue}","maxReceiveCount":{count}}}"#
        )
    };
    for count in ["1", "1000", "\"3\""] {
        set(policy("dead", count)).await.unwrap_or_else(|error| panic!("{count}: {error:?}"));
    }
    for (queue, count) in [
        ("dead", "0"),
        ("dead", "1001"),
        ("dead", "-1"),
        ("dead", "\"x\""),
        ("none", "3"),
        ("q", "3"),
        ("dead.fifo", "3"),
    ] {
        assert_eq!(code(set(policy(queue, count)).await), "InvalidParameterValue", "{queue} {count}");
    }
    for bad in [
        "{",
        "[]",
        "{}",
        r#"{"deadLetterTargetArn":"dummy","maxReceiveCount":3}"#,
        r#"{"maxReceiveCount":3}"#,
    ] {
        assert_eq!(code(set(bad.to_owned()).await), "InvalidParameterValue", "{bad}");
    }
    let shown = |name| service.client.get_queue_attributes().queue_url(&url).attribute_names(name).send();
    let policy = shown(Name::RedrivePolicy).await.unwrap().attributes.unwrap()[&Name::RedrivePolicy].clone();
    let policy: serde_json::Value = serde_json::from_str(&policy).unwrap();
    assert_eq!(policy["maxReceiveCount"], 3);
    assert_eq!(policy["deadLetterTargetArn"], "arn:aws:sqs:us-east-1:000000000000:dead");
    set(String::new()).await.unwrap();
    assert!(shown(Name::RedrivePolicy).await.unwrap().attributes().is_none(), "an empty policy removes it");
}

#[tokio::test]
async fn in_process_settings_have_the_same_limits() {
    let service = Service::start().await;
    let plain = QueueSettings::default;
    let bad = [
        QueueSettings { visibility_ms: 43_200_001, ..plain() },
        QueueSettings { delay_ms: 900_001, ..plain() },
        QueueSettings { retention_ms: 59_999, ..plain() },
        QueueSettings { retention_ms: 1_209_600_001, ..plain() },
        QueueSettings { visibility_ms: u64::MAX, ..plain() },
    ];
    for settings in bad {
        let refused = service.engine.create_queue("q", settings.clone()).await.unwrap_err();
        assert!(matches!(refused, SqsError::InvalidAttributeValue { .. }), "{settings:?}: {refused}");
    }
    let content = QueueSettings { content_based_deduplication: true, ..plain() };
    let refused = service.engine.create_queue("q", content).await.unwrap_err();
    assert!(matches!(refused, SqsError::InvalidAttributeName { .. }), "{refused}");
    assert!(
        service.engine.create_queue("q", fifo()).await.is_err(),
        "the name of a FIFO queue ends in .fifo"
    );
    assert!(service.engine.queues().await.unwrap().is_empty());
    let edge =
        QueueSettings { visibility_ms: 43_200_000, delay_ms: 900_000, retention_ms: 60_000, ..plain() };
    service.engine.create_queue("q", edge.clone()).await.unwrap();
    service.engine.create_queue("q", edge.clone()).await.unwrap();
    let other = QueueSettings { visibility_ms: 43_199_999, ..edge };
    let refused = service.engine.create_queue("q", other).await.unwrap_err();
    assert!(matches!(refused, SqsError::QueueNameExists { .. }), "{refused}");
}

#[tokio::test]
async fn at_most_120_000_messages_are_in_flight() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queues.sqlite");
    let clock = ManualClock::new(START_MS);
    let open = || {
        let options = EngineOptions { clock: Arc::new(clock.clone()), ..EngineOptions::default() };
        Engine::open_with(Some(&path), options).unwrap()
    };
    let engine = open();
    engine.create_queue("q", QueueSettings::default()).await.unwrap();
    engine.create_queue("q.fifo", fifo()).await.unwrap();
    drop(engine);
    // Receiving so many one by one takes minutes, so they are written into the file.
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    conn.execute(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 119999)
         INSERT INTO messages (queue_id, message_id, visible_ms, kept_from_ms, sent_ms, received_ms, receipt, group_id, body)
         SELECT queues.id, 'id', ?1 + 30000, ?1, ?1, ?1, i, 'other', 'x' FROM n, queues",
        [i64::try_from(START_MS).unwrap()],
    )
    .unwrap();
    drop(conn);
    let engine = open();
    for body in ["1", "2"] {
        engine.send("q", Outgoing::new(body)).await.unwrap();
        let message = Outgoing::new(body).in_group(body).deduplicated_by(body);
        engine.send("q.fifo", message).await.unwrap();
    }
    for queue in ["q", "q.fifo"] {
        assert_eq!(engine.receive(queue, 10, 0, None).await.unwrap().len(), 1, "{queue}: up to the limit");
    }
    assert_eq!(engine.receive("q", 10, 0, None).await, Err(SqsError::OverLimit { queue: "q".to_owned() }));
    assert!(engine.receive("q", 10, 1, None).await.unwrap().is_empty(), "a long poll gives none instead");
    assert!(engine.receive("q.fifo", 10, 0, None).await.unwrap().is_empty(), "and so does a FIFO queue");
    clock.advance(30_000);
    assert_eq!(engine.receive("q", 10, 0, None).await.unwrap().len(), 10);
}
