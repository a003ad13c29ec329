//! Requests that no SDK sends, over a plain connection.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::Service;

struct Answer {
    status: u16,
    head: String,
    body: Value,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Status, `__type` and query error code.
    fn error(&self) -> (u16, &str, &str) {
        let kind = self.body["__type"].as_str().unwrap();
        (self.status, kind.split_once('#').unwrap().1, self.header("x-amzn-query-error").unwrap())
    }
}

async fn exchange(address: SocketAddr, request: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), body: serde_json::from_str(body).unwrap_or(Value::Null) }
}

fn request(method: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!("{method} / HTTP/1.1\r\nHost: sqs\r\nConnection: close\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += &format!("Content-Length: {}\r\n\r\n", body.len());
    [text.as_bytes(), body].concat()
}

const JSON: (&str, &str) = ("Content-Type", "application/x-amz-json-1.0");

async fn call(service: &Service, operation: &str, body: impl AsRef<[u8]>) -> Answer {
    let target = format!("AmazonSQS.{operation}");
    exchange(service.address, &request("POST", &[JSON, ("X-Amz-Target", &target)], body.as_ref())).await
}

#[tokio::test]
async fn a_good_request_is_answered_as_sqs_does() {
    let service = Service::start().await;
    let answer = call(&service, "CreateQueue", r#"{"QueueName":"q","tags":{"a":"b"},"Unknown":1}"#).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-amz-json-1.0")));
    assert_eq!(answer.header("x-amzn-requestid").unwrap().len(), 36);
    let url = answer.body["QueueUrl"].as_str().unwrap();
    let gone =
        call(&service, "PurgeQueue", json!({ "QueueUrl": url.replace("/q", "/none") }).to_string()).await;
    assert_eq!(gone.body["__type"], "com.amazonaws.sqs#QueueDoesNotExist");
    assert_eq!(gone.error().2, "AWS.SimpleQueueService.NonExistentQueue;Sender");
    assert!(gone.body["message"].as_str().unwrap().starts_with("The specified queue does not exist"));
    let empty = call(&service, "ReceiveMessage", json!({ "QueueUrl": url }).to_string()).await;
    assert_eq!((empty.status, empty.body), (200, json!({})));
}

#[tokio::test]
async fn broken_json_is_a_serialization_error_that_quotes_nothing() {
    let service = Service::start().await;
    for body in [
        "",
        "{",
        "[]",
        "null",
        "\"x\"",
        "{\"QueueName\":}",
        "{\"QueueName\":7}",
        "{\"Attributes\":[\"secret\"]}",
        "\u{0}",
        "{}x",
    ] {
        let answer = call(&service, "CreateQueue", body).await;
        assert_eq!(answer.error(), (400, "SerializationException", "MalformedInput;Sender"), "{body:?}");
        assert!(!answer.body["message"].as_str().unwrap().contains("secret"));
    }
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    assert_eq!(call(&service, "CreateQueue", deep).await.error().1, "SerializationException");
    assert_eq!(call(&service, "SendMessage", [0xff, 0xfe]).await.error().1, "SerializationException");
    let lone = r#"{"QueueUrl":"http://h/000000000000/q","MessageBody":"\ud800"}"#;
    assert_eq!(call(&service, "SendMessage", lone).await.error().1, "SerializationException");
}

#[tokio::test]
async fn targets_methods_and_types_are_checked() {
    let service = Service::start().await;
    let send = |method: &str, headers: &[(&str, &str)]| {
        let request = request(method, headers, b"{}");
        let address = service.address;
        async move { exchange(address, &request).await }
    };
    assert_eq!(send("POST", &[JSON]).await.error(), (400, "MissingActionException", "MissingAction;Sender"));
    for target in ["AmazonSQS.Nothing", "ListQueues", "DynamoDB_20120810.ListTables", "AmazonSQS.", ""] {
        let answer = send("POST", &[JSON, ("X-Amz-Target", target)]).await;
        assert_eq!(answer.error(), (400, "UnknownOperationException", "InvalidAction;Sender"), "{target}");
    }
    let unsupported = call(&service, "TagQueue", "{}").await;
    let code = "AWS.SimpleQueueService.UnsupportedOperation;Sender";
    assert_eq!(unsupported.error(), (400, "UnsupportedOperation", code));
    let target = ("X-Amz-Target", "AmazonSQS.ListQueues");
    assert_eq!(send("GET", &[JSON, target]).await.error().1, "InvalidHttpRequestException");
    assert_eq!(send("PUT", &[JSON, target]).await.error().1, "InvalidHttpRequestException");
    assert_eq!(send("POST", &[target]).await.error().1, "InvalidHttpRequestException");
    assert_eq!(
        send("POST", &[target, ("Content-Type", "text/plain")]).await.error().1,
        "InvalidHttpRequestException"
    );
    assert_eq!(send("POST", &[JSON, target]).await.status, 200);
}

#[tokio::test]
async fn missing_parameters_and_wrong_addresses_are_named() {
    let service = Service::start().await;
    service.create("q", &[]).await;
    let url = json!("http://any.host/000000000000/q");
    let missing = (400, "MissingRequiredParameterException", "MissingParameter;Sender");
    for (operation, body) in [
        ("CreateQueue", json!({})),
        ("GetQueueUrl", json!({})),
        ("SendMessage", json!({ "MessageBody": "x" })),
        ("SendMessage", json!({ "QueueUrl": url })),
        ("DeleteMessage", json!({ "QueueUrl": url })),
        ("ChangeMessageVisibility", json!({ "QueueUrl": url, "ReceiptHandle": "x" })),
        ("SetQueueAttributes", json!({ "QueueUrl": url })),
        ("StartMessageMoveTask", json!({})),
        ("ListMessageMoveTasks", json!({ "SourceArn": null })),
    ] {
        assert_eq!(call(&service, operation, body.to_string()).await.error(), missing, "{operation} {body}");
    }
    for url in ["", "q", "http://h", "ftp://h/000000000000/q", "http://h/000000000000/"] {
        let answer = call(&service, "ReceiveMessage", json!({ "QueueUrl": url }).to_string()).await;
        assert_eq!(answer.error(), (404, "InvalidAddress", "InvalidAddress;Sender"), "{url}");
    }
    let other = json!({ "QueueUrl": "http://h/123456789012/q" });
    assert_eq!(call(&service, "ReceiveMessage", other.to_string()).await.error().1, "QueueDoesNotExist");
    let empty = call(&service, "SendMessageBatch", json!({ "QueueUrl": url }).to_string()).await;
    assert_eq!(empty.error().1, "EmptyBatchRequest");
    for bad in [json!(1.5), json!("1"), json!(99_999_999_999_999_999_999_f64), json!([])] {
        let body = json!({ "QueueUrl": url, "WaitTimeSeconds": bad });
        assert_eq!(
            call(&service, "ReceiveMessage", body.to_string()).await.error().1,
            "SerializationException",
            "{bad}"
        );
    }
    let body = json!({ "QueueUrl": url, "WaitTimeSeconds": i64::MAX, "MaxNumberOfMessages": i64::MIN });
    assert_eq!(
        call(&service, "ReceiveMessage", body.to_string()).await.error().1,
        "InvalidParameterValueException"
    );
}

#[tokio::test]
async fn attribute_values_must_be_one_and_base64() {
    let service = Service::start().await;
    service.create("q", &[]).await;
    let send = |value: Value| {
        let body = json!({ "QueueUrl": "http://h/000000000000/q", "MessageBody": "x", "MessageAttributes": { "a": value } });
        let service = &service;
        async move { call(service, "SendMessage", body.to_string()).await }
    };
    for bad in [
        json!({}),
        json!({ "DataType": "String" }),
        json!({ "DataType": "String", "StringValue": "a", "BinaryValue": "AA==" }),
        json!({ "DataType": "String", "StringListValues": ["a"] }),
        json!({ "StringValue": "a" }),
    ] {
        assert_eq!(send(bad.clone()).await.error().1, "InvalidParameterValueException", "{bad}");
    }
    let broken = send(json!({ "DataType": "Binary", "BinaryValue": "%%%" })).await;
    assert_eq!(broken.error().1, "SerializationException");
    assert_eq!(send(json!({ "DataType": "Binary", "BinaryValue": "AP8=" })).await.status, 200);
    let system = json!({ "QueueUrl": "http://h/000000000000/q", "MessageBody": "x",
        "MessageSystemAttributes": { "Other": { "DataType": "String", "StringValue": "x" } } });
    assert_eq!(
        call(&service, "SendMessage", system.to_string()).await.error().1,
        "InvalidParameterValueException"
    );
}

#[tokio::test]
async fn bodies_that_are_too_long_are_answered() {
    let service = Service::start().await;
    service.create("q", &[]).await;
    let body = |bytes: usize| {
        json!({ "QueueUrl": "http://h/000000000000/q", "MessageBody": "x".repeat(bytes) }).to_string()
    };
    let two = call(&service, "SendMessage", body(2 << 20)).await;
    assert_eq!(two.error(), (400, "InvalidParameterValueException", "InvalidParameterValue;Sender"));
    let ten = call(&service, "SendMessage", body(10 << 20)).await;
    assert_eq!(ten.error(), (413, "RequestEntityTooLargeException", "RequestEntityTooLarge;Sender"));
    assert_eq!(service.engine.depth("q").await.unwrap().visible, 0);
}

#[tokio::test]
async fn connections_that_break_off_or_speak_no_http_harm_nobody() {
    let service = Service::start().await;
    let url = service.create("q", &[]).await;
    let half = "POST / HTTP/1.1\r\nHost: sqs\r\nX-Amz-Target: AmazonSQS.SendMessage\r\nContent-Length: 1000\r\n\r\n{\"Queue";
    for request in [half, "GARBAGE\r\n\r\n", "\u{16}\u{3}\u{1}", ""] {
        let mut stream = TcpStream::connect(service.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        drop(stream);
    }
    service.client.send_message().queue_url(&url).message_body("x").send().await.unwrap();
    assert_eq!(service.receive_bodies("q").await, ["x"]);
    service.stop().await;
}
