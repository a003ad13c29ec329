//! Creating, finding, listing, purging and deleting queues.

use aws_sdk_sqs::operation::create_queue::CreateQueueError;
use aws_sdk_sqs::operation::get_queue_url::GetQueueUrlError;
use aws_sdk_sqs::operation::purge_queue::PurgeQueueError;
use aws_sdk_sqs::types::QueueAttributeName as Name;
use glassline_sqs::{Outgoing, QueueSettings, queue_arn, queue_url};

use crate::common::{START_MS, Service, code};

#[tokio::test]
async fn creating_again_finds_the_same_queue_or_names_the_difference() {
    let service = Service::start().await;
    service.create("q", &[(Name::VisibilityTimeout, "60"), (Name::DelaySeconds, "5")]).await;
    service.create("q", &[(Name::VisibilityTimeout, "60")]).await;
    service.create("q", &[]).await;
    let other =
        service.client.create_queue().queue_name("q").attributes(Name::DelaySeconds, "6").send().await;
    let other = other.unwrap_err().into_service_error();
    assert!(matches!(other, CreateQueueError::QueueNameExists(_)), "{other:?}");
    assert!(other.to_string().contains("QueueNameExists") || format!("{other:?}").contains("DelaySeconds"));
}

#[tokio::test]
async fn all_attributes_are_shown() {
    let service = Service::start().await;
    let url = service.create("q", &[(Name::VisibilityTimeout, "60")]).await;
    for delay_ms in [0, 0, 1_000] {
        service.engine.send("q", Outgoing::new("x").delayed(delay_ms)).await.unwrap();
    }
    service.engine.receive("q", 1, 0, None).await.unwrap();
    service.clock.advance(500);
    let set = service.client.set_queue_attributes().queue_url(&url).attributes(Name::VisibilityTimeout, "70");
    set.attributes(Name::Policy, "{}").send().await.unwrap();
    let all = service
        .client
        .get_queue_attributes()
        .queue_url(&url)
        .attribute_names(Name::All)
        .send()
        .await
        .unwrap();
    let all = all.attributes().unwrap();
    let shown = |name: Name| all.get(&name).map(String::as_str);
    assert_eq!(shown(Name::QueueArn), Some(queue_arn("q").as_str()));
    assert_eq!(shown(Name::ApproximateNumberOfMessages), Some("1"));
    assert_eq!(shown(Name::ApproximateNumberOfMessagesNotVisible), Some("1"));
    assert_eq!(shown(Name::ApproximateNumberOfMessagesDelayed), Some("1"));
    assert_eq!(shown(Name::CreatedTimestamp), Some((START_MS / 1_000).to_string().as_str()));
    assert_eq!(shown(Name::VisibilityTimeout), Some("70"));
    assert_eq!(shown(Name::MaximumMessageSize), Some("1048576"));
    assert_eq!(shown(Name::MessageRetentionPeriod), Some("345600"));
    assert_eq!(shown(Name::ReceiveMessageWaitTimeSeconds), Some("0"));
    assert_eq!(shown(Name::Policy), Some("{}"));
    assert_eq!(shown(Name::FifoQueue), None);
    let two = service.client.get_queue_attributes().queue_url(&url).attribute_names(Name::QueueArn);
    let two = two.attribute_names(Name::DelaySeconds).send().await.unwrap();
    assert_eq!(two.attributes().unwrap().len(), 2);
}

#[tokio::test]
async fn queues_are_found_and_listed_in_pages() {
    let service = Service::start().await;
    for name in ["b-2", "a-1", "b-1", "b-3"] {
        service.create(name, &[]).await;
    }
    let url = service.client.get_queue_url().queue_name("a-1").send().await.unwrap();
    assert_eq!(url.queue_url().unwrap(), queue_url(service.address, "a-1"));
    let none = service.client.get_queue_url().queue_name("c").send().await.unwrap_err().into_service_error();
    assert!(matches!(none, GetQueueUrlError::QueueDoesNotExist(_)), "{none:?}");
    let urls = |names: &[&str]| names.iter().map(|name| queue_url(service.address, name)).collect::<Vec<_>>();
    let list = || service.client.list_queues();
    assert_eq!(list().send().await.unwrap().queue_urls(), urls(&["a-1", "b-1", "b-2", "b-3"]));
    let first = list().queue_name_prefix("b-").max_results(2).send().await.unwrap();
    assert_eq!(first.queue_urls(), urls(&["b-1", "b-2"]));
    let token = first.next_token().unwrap();
    let second = list().queue_name_prefix("b-").max_results(2).next_token(token).send().await.unwrap();
    assert_eq!((second.queue_urls(), second.next_token()), (urls(&["b-3"]).as_slice(), None));
    assert!(list().queue_name_prefix("z").send().await.unwrap().queue_urls().is_empty());
    for max in [0, 1_001] {
        assert_eq!(code(list().max_results(max).send().await), "InvalidParameterValue");
    }
    assert_eq!(code(list().max_results(1).next_token("%").send().await), "InvalidParameterValue");
    assert_eq!(service.engine.queues().await.unwrap(), ["a-1", "b-1", "b-2", "b-3"]);
}

#[tokio::test]
async fn a_purge_empties_the_queue_once_a_minute() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    for delay_ms in [0, 0, 1_000] {
        service.engine.send("q", Outgoing::new("x").delayed(delay_ms)).await.unwrap();
    }
    service.engine.receive("q", 1, 0, None).await.unwrap();
    let purge = || service.client.purge_queue().queue_url(&url).send();
    purge().await.unwrap();
    assert_eq!(service.engine.depth("q").await.unwrap(), glassline_sqs::Depth::default());
    service.clock.advance(59_999);
    let early = purge().await.unwrap_err().into_service_error();
    assert!(matches!(early, PurgeQueueError::PurgeQueueInProgress(_)), "{early:?}");
    service.clock.advance(1);
    purge().await.unwrap();
}

#[tokio::test]
async fn a_deleted_queue_is_gone_and_its_name_free_after_a_minute() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    service.engine.send("q", Outgoing::new("x")).await.unwrap();
    service.client.delete_queue().queue_url(&url).send().await.unwrap();
    let gone = "AWS.SimpleQueueService.NonExistentQueue";
    assert_eq!(code(service.client.delete_queue().queue_url(&url).send().await), gone);
    assert_eq!(code(service.client.purge_queue().queue_url(&url).send().await), gone);
    assert_eq!(code(service.client.receive_message().queue_url(&url).send().await), gone);
    assert_eq!(code(service.client.send_message().queue_url(&url).message_body("x").send().await), gone);
    assert_eq!(code(service.client.get_queue_attributes().queue_url(&url).send().await), gone);
    let create = || service.client.create_queue().queue_name("q").send();
    service.clock.advance(59_999);
    let early = create().await.unwrap_err().into_service_error();
    assert!(matches!(early, CreateQueueError::QueueDeletedRecently(_)), "{early:?}");
    service.clock.advance(1);
    create().await.unwrap();
    assert_eq!(service.engine.depth("q").await.unwrap(), glassline_sqs::Depth::default());
}

#[tokio::test]
async fn in_process_settings_are_those_that_http_shows() {
    let service = Service::start().await;
    let settings = QueueSettings { visibility_ms: 1_500, delay_ms: 2_000, ..QueueSettings::default() };
    service.engine.create_queue("q", settings).await.unwrap();
    let url = queue_url(service.address, "q");
    let all = service
        .client
        .get_queue_attributes()
        .queue_url(&url)
        .attribute_names(Name::All)
        .send()
        .await
        .unwrap();
    let all = all.attributes().unwrap();
    assert_eq!((all[&Name::VisibilityTimeout].as_str(), all[&Name::DelaySeconds].as_str()), ("1", "2"));
    service.stop().await;
}
