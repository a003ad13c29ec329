//! One submit is one POST, whatever the other side does; counted by the other side.

use crate::support::{BY_KEY, Raw, Then, at, lane, providers, reference, request, say};
use glassline_protocol::provider::{ErrorClass, Provider, Submit};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

async fn submit_to(url: &str, submit_timeout_ms: u64) -> Submit {
    let mut config = at(url, BY_KEY);
    config.submit_timeout_ms = submit_timeout_ms;
    config.connect_timeout_ms = config.connect_timeout_ms.min(submit_timeout_ms);
    providers(config).submit(&lane(), &request(), &reference("s1")).await
}

const CREATED: &str = r#"{"id":"rnd_1","status":"queued"}"#;

#[tokio::test]
async fn nothing_sends_a_submit_twice() {
    let elsewhere = Raw::start(say("201 Created", "", CREATED)).await;
    let location = format!("location: {}/v1/renders\r\n", elsewhere.url);
    let refused = r#"{"error":{"code":"rate_limited","message":"m"}}"#;
    let cases = [
        ("closed before the answer", Then::Close),
        ("reset before the answer", Then::Reset),
        ("closed in the head", Then::Say("HTTP/1.1 201 Created\r\ncontent-ty".into())),
        (
            "closed in the body",
            Then::Say("HTTP/1.1 201 Created\r\ncontent-length: 99\r\n\r\n{\"id\":".into()),
        ),
        ("not HTTP", Then::Say("SSH-2.0-OpenSSH_9.2\r\n".into())),
        ("500", say("500 Internal Server Error", "", "{}")),
        ("502", say("502 Bad Gateway", "", "<html>")),
        ("503 with Retry-After", say("503 Service Unavailable", "retry-after: 1\r\n", refused)),
        ("504", say("504 Gateway Timeout", "", "")),
        ("408", say("408 Request Timeout", "", refused)),
        ("425", say("425 Too Early", "", "")),
        ("307", say("307 Temporary Redirect", &location, "")),
        ("308", say("308 Permanent Redirect", &location, "")),
        ("303", say("303 See Other", &location, "")),
        ("421", say("421 Misdirected Request", "", "")),
        ("401 with a challenge", say("401 Unauthorized", "www-authenticate: Digest realm=x\r\n", "")),
    ];
    for (name, then) in cases {
        let raw = Raw::start(then).await;
        assert_eq!(submit_to(&raw.url, 20_000).await, Submit::Unknown, "{name}");
        assert_eq!((raw.posts(), raw.connections()), (1, 1), "{name}");
    }
    assert_eq!(elsewhere.connections(), 0, "no redirect was followed");
}

#[tokio::test]
async fn a_timeout_sends_nothing_again() {
    let raw = Raw::start(Then::Hang).await;
    assert_eq!(submit_to(&raw.url, 300).await, Submit::Unknown);
    assert_eq!((raw.posts(), raw.connections()), (1, 1));
    // The head in time, the body never.
    let head = "HTTP/1.1 201 Created\r\ncontent-length: 32\r\n\r\n".to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, head.as_bytes()).await.unwrap();
        let second = listener.accept().await;
        drop(stream);
        second.is_ok()
    });
    assert_eq!(submit_to(&url, 300).await, Submit::Unknown);
    assert!(!server.is_finished(), "no second connection");
    server.abort();
}

#[tokio::test]
async fn a_connection_kept_alive_is_not_used_for_the_next_submit() {
    // On a connection used before, hyper repeats a POST by itself when it finds the connection closed. So whether the
    // server closes it in spite of its offer to keep it, or does keep it: the next submit comes over another one.
    let length = CREATED.len();
    let answer = format!(
        "HTTP/1.1 201 Created\r\nconnection: keep-alive\r\ncontent-length: {length}\r\n\r\n{CREATED}"
    );
    for then in [Then::SayAndBreakOff(answer.clone()), Then::SayAndStay(answer)] {
        let raw = Raw::start(then).await;
        let providers = providers(at(&raw.url, BY_KEY));
        for number in 1..=20 {
            let told = providers.submit(&lane(), &request(), &reference("s1")).await;
            assert!(matches!(told, Submit::Accepted(_)), "{told:?}");
            assert_eq!((raw.posts(), raw.connections()), (number, number));
        }
    }
}

fn not_sent(told: &Submit) -> bool {
    matches!(told, Submit::Rejected { class: ErrorClass::Transient, retry_after_ms: None, .. })
}

#[tokio::test]
async fn no_connection_proves_that_nothing_was_sent() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let told = submit_to(&format!("http://{address}"), 5_000).await;
    assert!(not_sent(&told), "refused: {told:?}");
    let told = submit_to("https://provider.invalid", 20_000).await;
    assert!(not_sent(&told), "no such name: {told:?}");
    // TLS to a server that answers something else: the request comes after the handshake.
    let raw = Raw::start(say("400 Bad Request", "", "")).await;
    let told = submit_to(&raw.url.replace("http:", "https:"), 5_000).await;
    // The server waits for an HTTP head that never comes, so this is a handshake that times out or fails.
    assert!(not_sent(&told), "no TLS: {told:?}");
    assert_eq!(raw.posts(), 0);
}

#[tokio::test]
async fn a_connection_that_is_never_taken_proves_it_too() {
    // A listener with a full queue drops what comes after: the connect timeout is what ends it.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut held = Vec::new();
    while let Ok(Ok(stream)) =
        tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(address)).await
    {
        held.push(stream);
        assert!(held.len() < 100, "the queue never filled up");
    }
    let mut config = at(&format!("http://{address}"), BY_KEY);
    (config.connect_timeout_ms, config.submit_timeout_ms) = (300, 600_000);
    let told = providers(config).submit(&lane(), &request(), &reference("s1")).await;
    assert!(not_sent(&told), "{told:?}");
}

#[tokio::test]
async fn the_request_is_what_the_provider_documents() {
    let raw = Raw::start(say("201 Created", "", CREATED)).await;
    let mut config = at(&format!("{}/base/", raw.url), BY_KEY);
    config.callback_url = Some("https://example.org/hook".into());
    let told = providers(config).submit(&lane(), &request(), &reference("s1")).await;
    assert!(matches!(told, Submit::Accepted(task) if task.as_str() == "rnd_1"));
    let sent = raw.last();
    let (head, body) = sent.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    assert_eq!(lines.next(), Some("POST /base/v1/renders HTTP/1.1"));
    let head = head.to_ascii_lowercase();
    assert!(head.contains("idempotency-key: post#p1/shot#s1/1"), "{head}");
    assert!(head.contains("authorization: bearer sk-very-secret-key"), "{head}");
    assert!(!head.contains("expect:") && !head.contains("accept-encoding"), "{head}");
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    let expected = serde_json::json!({"prompt": crate::support::PROMPT, "params": {"width": 64, "height": 48},
        "media": "image", "reference": "POST#p1/SHOT#s1/1", "callback_url": "https://example.org/hook"});
    assert_eq!(body, expected);
}

#[tokio::test]
async fn a_proxy_in_the_environment_is_not_used() {
    let (proxy, direct) = (Raw::start(Then::Close).await, Raw::start(say("201 Created", "", CREATED)).await);
    // The environment of this process can't be changed safely, so another one runs the test below.
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "once::submits_where_it_is_told", "--ignored", "--test-threads=1"]);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        child.env(name, &proxy.url);
    }
    child.env_remove("NO_PROXY").env_remove("no_proxy").env("DIRECT", &direct.url);
    let ended = child.output().await.unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    assert_eq!((direct.posts(), proxy.connections()), (1, 0));
}

#[tokio::test]
#[ignore = "run by a_proxy_in_the_environment_is_not_used"]
async fn submits_where_it_is_told() {
    // Somebody who runs the ignored tests too has no such variable.
    let Ok(url) = std::env::var("DIRECT") else { return };
    let told = submit_to(&url, 20_000).await;
    assert!(matches!(told, Submit::Accepted(_)), "{told:?}");
}
