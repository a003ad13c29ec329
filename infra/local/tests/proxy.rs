//! The fault proxy between the real SDK and a real DynamoDB engine: each fault is what the SDK takes it for, and the
//! table shows whether the request was done.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking too")]
#![allow(
    clippy::disallowed_methods,
    reason = "the raw SDK calls, and the time they take, are what is tested"
)]

use std::net::SocketAddr;

use aws_credential_types::Credentials;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, Put, ScalarAttributeType,
    TransactWriteItem,
};
use aws_smithy_types::retry::ErrorKind;
use glassline_local::proxy::{FaultKind, FaultRule, Proxy, ProxyFaults};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const TABLE: &str = "renders";

/// A table in a real engine behind a proxy.
struct Fixture {
    proxy: Proxy,
    /// Straight to the engine.
    direct: Client,
    /// Through the proxy; the SDK repeats nothing.
    client: Client,
}

fn client(url: &str, attempts: u32) -> Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .endpoint_url(url)
        .credentials_provider(Credentials::new("local", "local", None, None, "test"))
        .retry_config(
            RetryConfig::standard()
                .with_max_attempts(attempts)
                .with_initial_backoff(std::time::Duration::from_millis(1)),
        )
        .build();
    Client::from_conf(config)
}

async fn engine() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let db = dynoxide::Database::memory().unwrap();
    tokio::spawn(async move {
        drop(dynoxide::server::serve_with_shutdown(listener, db, std::future::pending()).await);
    });
    address
}

async fn fixture() -> Fixture {
    let engine = engine().await;
    let proxy = Proxy::start(engine, ProxyFaults::default()).await.unwrap();
    let direct = client(&format!("http://{engine}"), 1);
    direct
        .create_table()
        .table_name(TABLE)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(
            AttributeDefinition::builder()
                .attribute_name("pk")
                .attribute_type(ScalarAttributeType::S)
                .build()
                .unwrap(),
        )
        .key_schema(KeySchemaElement::builder().attribute_name("pk").key_type(KeyType::Hash).build().unwrap())
        .send()
        .await
        .unwrap();
    let client = client(&proxy.url(), 1);
    Fixture { proxy, direct, client }
}

fn faults(rules: impl Into<Vec<FaultRule>>) -> ProxyFaults {
    ProxyFaults { seed: 42, rules: rules.into() }
}

fn key(pk: &str) -> AttributeValue {
    AttributeValue::S(pk.to_owned())
}

async fn put(client: &Client, pk: &str) -> Result<(), SdkError<PutItemError>> {
    client.put_item().table_name(TABLE).item("pk", key(pk)).send().await.map(drop)
}

impl Fixture {
    async fn has(&self, pk: &str) -> bool {
        let answer = self.direct.get_item().table_name(TABLE).key("pk", key(pk)).consistent_read(true);
        answer.send().await.unwrap().item.is_some()
    }

    async fn put_two(&self) -> SdkError<TransactWriteItemsError> {
        let item = |pk: &str| {
            let put = Put::builder().table_name(TABLE).item("pk", key(pk)).build().unwrap();
            TransactWriteItem::builder().put(put).build()
        };
        let request = self.client.transact_write_items();
        let request = request.transact_items(item("one")).transact_items(item("two"));
        request.send().await.unwrap_err()
    }
}

#[tokio::test]
async fn without_faults_it_is_not_there() {
    let fixture = fixture().await;
    put(&fixture.client, "a").await.unwrap();
    let answer = fixture.client.get_item().table_name(TABLE).key("pk", key("a")).send().await.unwrap();
    assert_eq!(answer.item.unwrap()["pk"], key("a"));
    let refused = fixture.client.put_item().table_name(TABLE).item("pk", key("a"));
    let refused = refused.condition_expression("attribute_not_exists(pk)").send().await.unwrap_err();
    assert!(refused.into_service_error().is_conditional_check_failed_exception());
    let counts = fixture.proxy.counts();
    assert_eq!((counts.requests, counts.forwarded), (3, 3));
    // A long item and a long answer pass whole.
    let long = AttributeValue::S("x".repeat(380_000));
    let request =
        fixture.client.put_item().table_name(TABLE).item("pk", key("long")).item("text", long.clone());
    request.send().await.unwrap();
    let answer = fixture.client.get_item().table_name(TABLE).key("pk", key("long")).send().await.unwrap();
    assert_eq!(answer.item.unwrap()["text"], long);
}

#[tokio::test]
async fn a_lost_request_is_not_done_and_a_lost_reply_is() {
    let fixture = fixture().await;
    for (kind, pk, done) in
        [(FaultKind::LoseRequest, "request", false), (FaultKind::LoseReply, "reply", true)]
    {
        fixture.proxy.set_faults(faults([FaultRule::new(kind, 100)]));
        let error = put(&fixture.client, pk).await.unwrap_err();
        // Neither a service error nor an answer: the caller can't tell which of the two it was.
        let SdkError::DispatchFailure(failure) = &error else { panic!("{error:?}") };
        assert_eq!(failure.as_other(), Some(ErrorKind::TransientError), "{failure:?}");
        assert_eq!(fixture.has(pk).await, done, "{kind:?}");
    }
    let counts = fixture.proxy.counts();
    assert_eq!((counts.lost_requests, counts.lost_replies, counts.forwarded, counts.requests), (1, 1, 1, 2));
    fixture.proxy.set_faults(ProxyFaults::default());
    put(&fixture.client, "after").await.unwrap();
}

#[tokio::test]
async fn a_sdk_that_repeats_meets_its_own_lost_write() {
    let fixture = fixture().await;
    fixture.proxy.set_faults(faults([FaultRule::new(FaultKind::LoseReply, 100).at_most(1)]));
    let repeating = client(&fixture.proxy.url(), 3);
    let request = repeating.put_item().table_name(TABLE).item("pk", key("a"));
    let error = request.condition_expression("attribute_not_exists(pk)").send().await.unwrap_err();
    assert!(error.into_service_error().is_conditional_check_failed_exception());
    assert_eq!(fixture.proxy.counts().requests, 2);
}

#[tokio::test]
async fn dynamodb_errors_are_what_the_sdk_knows_them_as() {
    let fixture = fixture().await;
    let cases = [
        (FaultKind::Conflict, "TransactionConflictException"),
        (FaultKind::ThroughputExceeded, "ProvisionedThroughputExceededException"),
        (FaultKind::Throttling, "ThrottlingException"),
    ];
    for (kind, code) in cases {
        fixture.proxy.set_faults(faults([FaultRule::new(kind, 100)]));
        let error = put(&fixture.client, "a").await.unwrap_err().into_service_error();
        assert_eq!(error.code(), Some(code));
        assert!(error.message().is_some_and(|message| !message.is_empty()), "{code}");
        let known = match kind {
            FaultKind::Conflict => error.is_transaction_conflict_exception(),
            FaultKind::ThroughputExceeded => error.is_provisioned_throughput_exceeded_exception(),
            FaultKind::Throttling => error.is_throttling_exception(),
            FaultKind::LoseRequest | FaultKind::LoseReply | FaultKind::Delay { .. } => false,
        };
        assert!(known, "{error:?}");
    }
    assert!(!fixture.has("a").await);
    let counts = fixture.proxy.counts();
    assert_eq!((counts.conflicts, counts.throughput_exceeded, counts.throttled), (1, 1, 1));
    assert_eq!((counts.requests, counts.forwarded), (3, 0));
}

#[tokio::test]
async fn a_conflicting_transaction_has_a_reason_per_item() {
    let fixture = fixture().await;
    fixture.proxy.set_faults(faults([FaultRule::new(FaultKind::Conflict, 100)]));
    let mut chosen = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let error = fixture.put_two().await.into_service_error();
        let TransactWriteItemsError::TransactionCanceledException(cancelled) = error else {
            panic!("{error:?}")
        };
        let codes: Vec<&str> =
            cancelled.cancellation_reasons().iter().filter_map(|reason| reason.code()).collect();
        let at = codes.iter().position(|code| *code == "TransactionConflict").unwrap();
        assert_eq!((codes.len(), codes[1 - at]), (2, "None"));
        assert!(cancelled.message().unwrap().contains(&format!("[{}]", codes.join(", "))));
        chosen.insert(at);
    }
    assert_eq!(chosen.len(), 2, "always the same item conflicts");
    assert!(!fixture.has("one").await && !fixture.has("two").await);
    // A read is not forwarded to a conflict it can't have.
    let read = fixture.client.get_item().table_name(TABLE).key("pk", key("one"));
    assert!(read.send().await.unwrap().item.is_none());
}

#[tokio::test]
async fn faults_meet_only_their_target_and_their_share() {
    let fixture = fixture().await;
    fixture.proxy.set_faults(faults([FaultRule::new(FaultKind::LoseRequest, 100).on("PutItem")]));
    put(&fixture.client, "a").await.unwrap_err();
    fixture.client.get_item().table_name(TABLE).key("pk", key("a")).send().await.unwrap();
    let some = faults([FaultRule::new(FaultKind::LoseRequest, 30).on("DynamoDB_20120810.PutItem")]);
    let mut runs = Vec::new();
    for _ in 0..2 {
        fixture.proxy.set_faults(some.clone());
        let mut failed = Vec::new();
        for turn in 0..40 {
            if put(&fixture.client, "b").await.is_err() {
                failed.push(turn);
            }
        }
        runs.push(failed);
    }
    assert_eq!(runs[0], runs[1]);
    assert!((1..40).contains(&runs[0].len()), "{runs:?}");
    assert_eq!(fixture.proxy.counts().lost_requests, 1 + 2 * runs[0].len() as u64);
}

#[tokio::test]
async fn a_delayed_request_is_done_later() {
    let fixture = fixture().await;
    let delay = FaultKind::Delay { delay_ms: 200 };
    fixture.proxy.set_faults(faults([FaultRule::new(delay, 100).at_most(1)]));
    let started = std::time::Instant::now();
    put(&fixture.client, "a").await.unwrap();
    assert!(started.elapsed().as_millis() >= 200);
    put(&fixture.client, "b").await.unwrap();
    let counts = fixture.proxy.counts();
    assert_eq!((counts.delayed, counts.forwarded), (1, 2));
}

#[tokio::test]
async fn a_service_that_is_not_there_is_a_closed_connection() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = gone.local_addr().unwrap();
    drop(gone);
    let proxy = Proxy::start(address, ProxyFaults::default()).await.unwrap();
    let error = put(&client(&proxy.url(), 1), "a").await.unwrap_err();
    assert!(matches!(error, SdkError::DispatchFailure(_)), "{error:?}");
    assert_eq!(proxy.counts().upstream_errors, 1);
    let address = proxy.address;
    drop(proxy);
    tokio::task::yield_now().await;
    let error = put(&client(&format!("http://{address}"), 1), "a").await.unwrap_err();
    assert!(matches!(error, SdkError::DispatchFailure(_)), "{error:?}");
}

#[tokio::test]
async fn it_stands_before_the_queues_too() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = listener.local_addr().unwrap();
    let engine = glassline_sqs::Engine::in_memory().unwrap();
    engine.create_queue("render", glassline_sqs::QueueSettings::default()).await.unwrap();
    tokio::spawn(glassline_sqs::serve(listener, engine.clone(), std::future::pending()));
    let proxy = Proxy::start(upstream, ProxyFaults::default()).await.unwrap();
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(aws_sdk_sqs::config::BehaviorVersion::latest())
        .region(aws_sdk_sqs::config::Region::new("us-east-1"))
        .endpoint_url(proxy.url())
        .credentials_provider(Credentials::new("local", "local", None, None, "test"))
        .retry_config(aws_sdk_sqs::config::retry::RetryConfig::disabled())
        .build();
    let client = aws_sdk_sqs::Client::from_conf(config);
    let url = glassline_sqs::queue_url(upstream, "render");
    let send = || client.send_message().queue_url(&url).message_body("hello").send();
    let throttled = FaultRule::new(FaultKind::Throttling, 100).on("SendMessage").at_most(1);
    let lost = FaultRule::new(FaultKind::LoseReply, 100).on("SendMessage").at_most(1);
    proxy.set_faults(faults([throttled, lost]));
    let error = send().await.unwrap_err().into_service_error();
    assert!(error.is_request_throttled(), "{error:?}");
    assert_eq!(engine.depth("render").await.unwrap().visible, 0);
    // Met by the second rule only now: the first request had its fault.
    assert!(matches!(send().await.unwrap_err(), SdkError::DispatchFailure(_)));
    assert_eq!(engine.depth("render").await.unwrap().visible, 1, "sent all the same");
    let sent = send().await.unwrap();
    let received = client.receive_message().queue_url(&url).max_number_of_messages(10).send().await.unwrap();
    assert!(received.messages().iter().any(|message| message.message_id() == sent.message_id()));
    assert_eq!((proxy.counts().throttled, proxy.counts().lost_replies), (1, 1));
}

/// Sends bytes and reads what comes until the connection closes.
async fn raw(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer).await);
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_close_sends_nothing_and_rubbish_is_refused() {
    let fixture = fixture().await;
    fixture.proxy.set_faults(faults([FaultRule::new(FaultKind::LoseReply, 100)]));
    let request = b"POST / HTTP/1.1\r\nhost: x\r\nx-amz-target: DynamoDB_20120810.ListTables\r\ncontent-length: 2\r\n\r\n{}";
    assert_eq!(raw(fixture.proxy.address, request).await, "");
    assert_eq!(fixture.proxy.counts().lost_replies, 1);
    let answer = raw(fixture.proxy.address, b"nonsense\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(fixture.proxy.counts().requests, 1);
}
