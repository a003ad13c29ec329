//! Dead-letter queues, and moving their messages back.

use aws_sdk_sqs::operation::start_message_move_task::StartMessageMoveTaskError;
use aws_sdk_sqs::types::MessageSystemAttributeName as System;
use glassline_sqs::{Engine, Outgoing, QueueSettings, Redrive, queue_arn, queue_url};

use crate::common::{START_MS, Service, code, fifo};

fn to_dead(base: QueueSettings, dead: &str, max_receives: u32) -> QueueSettings {
    QueueSettings { redrive: Some(Redrive { dead_letter_queue: dead.to_owned(), max_receives }), ..base }
}

async fn queues(engine: &Engine, max_receives: u32) {
    engine.create_queue("dead", QueueSettings::default()).await.unwrap();
    let settings = to_dead(QueueSettings::default(), "dead", max_receives);
    engine.create_queue("q", settings).await.unwrap();
}

#[tokio::test]
async fn a_message_moves_at_the_receive_after_its_last() {
    let service = Service::start().await;
    queues(&service.engine, 2).await;
    let sent = service.engine.send("q", Outgoing::new("poison")).await.unwrap();
    service.engine.send("q", Outgoing::new("later").delayed(60_000)).await.unwrap();
    for receives in 1..=2 {
        let found = service.engine.receive("q", 10, 0, None).await.unwrap();
        assert_eq!(found[0].receives, receives);
        service.clock.advance(30_000);
    }
    assert_eq!(
        service.engine.depth("dead").await.unwrap().visible,
        0,
        "it only moves when it is next received"
    );
    assert_eq!(service.receive_bodies("q").await, ["later"], "and that receive gives what comes after it");
    let url = queue_url(service.address, "dead");
    let request =
        service.client.receive_message().queue_url(&url).message_system_attribute_names(System::All);
    let found = request.send().await.unwrap().messages.unwrap().remove(0);
    assert_eq!((found.body(), found.message_id()), (Some("poison"), Some(sent.id.as_str())));
    let attributes = found.attributes().unwrap();
    assert_eq!(attributes[&System::from("DeadLetterQueueSourceArn")], queue_arn("q"));
    assert_eq!(attributes[&System::ApproximateReceiveCount], "3", "receives across all queues");
    assert_eq!(attributes[&System::SentTimestamp], START_MS.to_string());
    assert_eq!(service.engine.counts()["q"].dead_lettered, 1);
}

#[tokio::test]
async fn a_message_may_be_received_exactly_max_receives_times() {
    let service = Service::start().await;
    queues(&service.engine, 1).await;
    for n in 0..30 {
        service.engine.send("q", Outgoing::new(format!("{n}"))).await.unwrap();
    }
    let mut given = 0;
    loop {
        let found = service.engine.receive("q", 10, 0, Some(0)).await.unwrap();
        given += found.len();
        if found.is_empty() {
            break;
        }
    }
    assert_eq!(given, 30);
    assert_eq!(service.engine.depth("dead").await.unwrap().visible, 30);
    assert_eq!(service.engine.depth("q").await.unwrap().visible, 0);
    assert_eq!(service.engine.counts()["q"].dead_lettered, 30);
}

#[tokio::test]
async fn a_receipt_of_before_the_move_deletes_nothing() {
    let service = Service::start().await;
    queues(&service.engine, 1).await;
    service.engine.send("q", Outgoing::new("x")).await.unwrap();
    let receipt = service.engine.receive("q", 1, 0, Some(0)).await.unwrap().remove(0).receipt;
    assert!(service.receive_bodies("q").await.is_empty());
    service.engine.delete("q", &[receipt]).await.unwrap();
    assert_eq!(service.engine.depth("dead").await.unwrap().visible, 1);
}

#[tokio::test]
async fn without_its_dead_letter_queue_a_message_is_delivered_on() {
    let service = Service::start().await;
    queues(&service.engine, 1).await;
    service.engine.send("q", Outgoing::new("x")).await.unwrap();
    service.engine.delete_queue("dead").await.unwrap();
    for receives in 1..=3 {
        let found = service.engine.receive("q", 1, 0, Some(0)).await.unwrap();
        assert_eq!(found[0].receives, receives);
    }
}

#[tokio::test]
async fn on_fifo_queues_the_group_goes_on_and_the_id_is_replaced() {
    let service = Service::start().await;
    service.engine.create_queue("dead.fifo", fifo()).await.unwrap();
    service.engine.create_queue("q.fifo", to_dead(fifo(), "dead.fifo", 1)).await.unwrap();
    let mut ids = Vec::new();
    for body in ["1", "2"] {
        let message = Outgoing::new(body).in_group("g").deduplicated_by(body);
        ids.push(service.engine.send("q.fifo", message).await.unwrap().id);
    }
    assert_eq!(service.engine.receive("q.fifo", 1, 0, None).await.unwrap()[0].body, "1");
    service.clock.advance(30_000);
    assert_eq!(service.engine.receive("q.fifo", 1, 0, None).await.unwrap()[0].body, "2");
    let dead = service.engine.receive("dead.fifo", 10, 0, None).await.unwrap();
    assert_eq!((dead.len(), dead[0].body.as_str()), (1, "1"));
    assert_eq!(dead[0].attributes["MessageDeduplicationId"], ids[0]);
    assert_eq!(dead[0].attributes["MessageGroupId"], "g");
    assert_eq!(dead[0].attributes["SentTimestamp"], (START_MS + 30_000).to_string());
}

#[tokio::test]
async fn sources_are_listed() {
    let service = Service::start().await;
    queues(&service.engine, 1).await;
    let settings = to_dead(QueueSettings::default(), "dead", 5);
    service.engine.create_queue("another", settings).await.unwrap();
    let list = |name: &str| {
        service.client.list_dead_letter_source_queues().queue_url(queue_url(service.address, name))
    };
    let urls = |names: &[&str]| names.iter().map(|name| queue_url(service.address, name)).collect::<Vec<_>>();
    assert_eq!(list("dead").send().await.unwrap().queue_urls(), urls(&["another", "q"]));
    let first = list("dead").max_results(1).send().await.unwrap();
    assert_eq!(first.queue_urls(), urls(&["another"]));
    let second = list("dead").max_results(1).next_token(first.next_token().unwrap()).send().await.unwrap();
    assert_eq!((second.queue_urls(), second.next_token()), (urls(&["q"]).as_slice(), None));
    assert!(list("q").send().await.unwrap().queue_urls().is_empty());
    assert_eq!(code(list("none").send().await), "AWS.SimpleQueueService.NonExistentQueue");
}

async fn dead_letters(service: &Service) {
    queues(&service.engine, 1).await;
    for body in ["a", "b"] {
        service.engine.send("q", Outgoing::new(body)).await.unwrap();
    }
    service.engine.receive("q", 10, 0, Some(0)).await.unwrap();
    assert!(service.receive_bodies("q").await.is_empty());
    assert_eq!(service.engine.depth("dead").await.unwrap().visible, 2);
}

#[tokio::test]
async fn messages_move_back_to_their_source_as_new_ones() {
    let service = Service::start().await;
    dead_letters(&service).await;
    let before = service.engine.peek("dead", 10).await.unwrap();
    service.clock.advance(1_000);
    let start = service.client.start_message_move_task().source_arn(queue_arn("dead")).send().await.unwrap();
    assert!(!start.task_handle().unwrap().is_empty());
    let found = service.engine.receive("q", 10, 0, None).await.unwrap();
    assert_eq!(found.iter().map(|m| (m.body.as_str(), m.receives)).collect::<Vec<_>>(), [("a", 1), ("b", 1)]);
    assert_ne!(found[0].id, before[0].id);
    assert_eq!(found[0].attributes["SentTimestamp"], (START_MS + 1_000).to_string());
    let tasks = service.client.list_message_move_tasks().source_arn(queue_arn("dead")).send().await.unwrap();
    let task = &tasks.results()[0];
    assert_eq!((task.status(), task.approximate_number_of_messages_moved()), (Some("COMPLETED"), 2));
    assert_eq!(task.approximate_number_of_messages_to_move(), Some(2));
    assert_eq!((task.destination_arn(), task.failure_reason()), (None, None));
    assert_eq!(task.started_timestamp(), i64::try_from(START_MS + 1_000).unwrap());
}

#[tokio::test]
async fn messages_move_to_a_named_queue_or_stay_where_they_have_no_way_back() {
    let service = Service::start().await;
    dead_letters(&service).await;
    service.engine.send("dead", Outgoing::new("sent here")).await.unwrap();
    let start = || service.client.start_message_move_task().source_arn(queue_arn("dead"));
    start().send().await.unwrap();
    assert_eq!(service.receive_bodies("dead").await, ["sent here"]);
    service.clock.advance(30_000);
    service.engine.create_queue("elsewhere", QueueSettings::default()).await.unwrap();
    start()
        .destination_arn(queue_arn("elsewhere"))
        .max_number_of_messages_per_second(5)
        .send()
        .await
        .unwrap();
    assert_eq!(service.receive_bodies("elsewhere").await, ["sent here"]);
    let list = service.client.list_message_move_tasks().source_arn(queue_arn("dead")).max_results(10);
    let tasks = list.send().await.unwrap();
    let shown = tasks
        .results()
        .iter()
        .map(|task| (task.status().unwrap(), task.failure_reason()))
        .collect::<Vec<_>>();
    assert_eq!(shown, [("COMPLETED", None), ("FAILED", Some("CouldNotDetermineMessageSource"))]);
}

#[tokio::test]
async fn moves_need_a_dead_letter_queue_and_a_target_that_exists() {
    let service = Service::start().await;
    queues(&service.engine, 1).await;
    service.engine.create_queue("other.fifo", fifo()).await.unwrap();
    let start = |source: &str| service.client.start_message_move_task().source_arn(source);
    assert_eq!(code(start(&queue_arn("q")).send().await), "InvalidParameterValue");
    for arn in ["nonsense", &queue_arn("none")] {
        let missing = start(arn).send().await.unwrap_err().into_service_error();
        assert!(matches!(missing, StartMessageMoveTaskError::ResourceNotFoundException(_)), "{missing:?}");
    }
    let dead = queue_arn("dead");
    assert_eq!(
        code(start(&dead).destination_arn(queue_arn("none")).send().await),
        "ResourceNotFoundException"
    );
    assert_eq!(
        code(start(&dead).destination_arn(queue_arn("other.fifo")).send().await),
        "InvalidParameterValue"
    );
    for rate in [0, 501] {
        let refused = start(&dead).max_number_of_messages_per_second(rate).send().await;
        assert_eq!(code(refused), "InvalidParameterValue");
    }
    for max in [0, 11] {
        let list = service.client.list_message_move_tasks().source_arn(&dead).max_results(max);
        assert_eq!(code(list.send().await), "InvalidParameterValue");
    }
}
