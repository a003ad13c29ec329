//! The Function URL on loopback: real HTTP, a real function's process.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking too")]

mod support;

use glassline_local::lambda::Host;
use glassline_local::url::FunctionUrl;
use serde_json::{Value, json};
use support::{host, spec};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

#[test]
#[ignore = "the function's own process, started by the other tests"]
fn function_process() {
    support::function::serve();
}

async fn url() -> (Host, FunctionUrl) {
    let host = host(vec![spec("api")]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = FunctionUrl::serve(listener, host.clone(), "api").unwrap();
    (host, url)
}

/// Sends a request as it is, and gives the head and the body of the answer.
async fn send(url: &FunctionUrl, head: &str, body: &[u8]) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(url.address).await.unwrap();
    let length = body.len();
    let head = format!("{head}\r\nhost: here\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    // A server that refuses a body may close before it has read all of it.
    let _ = stream.write_all(body).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    (String::from_utf8(answer[..end].to_vec()).unwrap().to_lowercase(), answer[end + 4..].to_vec())
}

async fn echo(url: &FunctionUrl, head: &str, body: &[u8]) -> Value {
    let (status, body) = send(url, head, body).await;
    assert!(status.starts_with("http/1.1 200"), "{status}");
    serde_json::from_slice(&body).unwrap()
}

#[tokio::test]
async fn a_request_becomes_an_event_as_aws_makes_it() {
    let (host, url) = url().await;
    let head = "POST /echo?b=2&a=%23&a=1 HTTP/1.1\r\nContent-Type: application/json\r\nX-Two: a\r\nX-Two: b\r\n\
                Cookie: one=1; two=2\r\nUser-Agent: tests\r\nX-Odd: \u{e9}";
    let event = echo(&url, head, br#"{"a":1}"#).await;
    assert_eq!((&event["version"], &event["routeKey"]), (&json!("2.0"), &json!("$default")));
    assert_eq!((&event["rawPath"], &event["rawQueryString"]), (&json!("/echo"), &json!("b=2&a=%23&a=1")));
    assert_eq!((&event["body"], &event["isBase64Encoded"]), (&json!("{\"a\":1}"), &json!(false)));
    assert_eq!(event["cookies"], json!(["one=1", "two=2"]));
    let headers = &event["headers"];
    assert_eq!((&headers["x-two"], &headers["content-type"]), (&json!("a,b"), &json!("application/json")));
    assert!(headers.get("cookie").is_none() && headers.get("x-odd").is_none(), "{headers}");
    let http = &event["requestContext"]["http"];
    assert_eq!((&http["method"], &http["sourceIp"]), (&json!("POST"), &json!("127.0.0.1")));
    assert_eq!(http["userAgent"], "tests");
    let binary = echo(&url, "POST /echo HTTP/1.1\r\nContent-Type: application/x-ndjson", b"{}\n{}").await;
    assert_eq!((&binary["body"], &binary["isBase64Encoded"]), (&json!("e30Ke30="), &json!(true)));
    let empty = echo(&url, "GET /echo HTTP/1.1", b"").await;
    assert_eq!((&empty["body"], empty.get("cookies")), (&json!(null), None));
    host.shutdown().await;
}

#[tokio::test]
async fn an_answer_becomes_a_response() {
    let (host, url) = url().await;
    let (head, body) = send(&url, "GET /binary HTTP/1.1", b"").await;
    assert!(head.starts_with("http/1.1 201") && head.contains("content-type: image/png"), "{head}");
    assert!(head.contains("set-cookie: a=1; httponly") && head.contains("set-cookie: b=2"), "{head}");
    assert_eq!(body, [255, 0, 255]);
    for path in ["/number", "/header", "/fail", "/exit"] {
        let (head, _) = send(&url, &format!("GET {path} HTTP/1.1"), b"").await;
        assert!(head.starts_with("http/1.1 502"), "{path} {head}");
    }
    let (head, _) = send(&url, "POST /echo HTTP/1.1", &vec![b'x'; (6 << 20) + 1]).await;
    assert!(head.starts_with("http/1.1 413"), "{head}");
    host.shutdown().await;
}
