//! A client that knows nothing of the server but its address.

use glassline_sandbox::{AccountConfig, Sandbox, SandboxConfig};
use reqwest::Response;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// A clock that a test moves.
#[derive(Clone)]
pub(crate) struct HandClock(Arc<AtomicU64>);

impl HandClock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(1_800_000_000_000)))
    }
    pub(crate) fn forward(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
    pub(crate) fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
    pub(crate) fn put_into(&self, config: &mut SandboxConfig) {
        let clock = self.clone();
        config.clock = Some(Arc::new(move || clock.now_ms()));
    }
}

/// A sandbox with one account, changed as asked, and a clock moved by hand.
pub(crate) async fn start(change: impl FnOnce(&mut AccountConfig)) -> (Sandbox, HandClock, Client) {
    let mut account = AccountConfig::new("main", "key-main");
    change(&mut account);
    let (mut config, clock) = (SandboxConfig::new(vec![account]), HandClock::new());
    clock.put_into(&mut config);
    let sandbox = Sandbox::start(config).await.unwrap();
    let client = Client::new(&sandbox, "key-main");
    (sandbox, clock, client)
}

pub(crate) struct Client {
    pub(crate) url: String,
    pub(crate) key: String,
    pub(crate) http: reqwest::Client,
}

impl Client {
    pub(crate) fn new(sandbox: &Sandbox, key: &str) -> Self {
        Self::at(&sandbox.url(), key)
    }

    pub(crate) fn at(url: &str, key: &str) -> Self {
        let http = reqwest::Client::builder().retry(reqwest::retry::never()).no_proxy();
        Self { url: url.to_owned(), key: key.to_owned(), http: http.build().unwrap() }
    }

    /// A POST of any body.
    pub(crate) async fn post_raw(&self, body: impl Into<reqwest::Body>) -> Answer {
        let request = self.http.post(format!("{}/v1/renders", self.url)).bearer_auth(&self.key);
        Answer::read(request.body(body).send().await.unwrap()).await
    }

    /// A POST under an idempotency key; `None` when the connection closed without an answer.
    pub(crate) async fn post_keyed(&self, key: &str, body: &Value) -> Option<Answer> {
        let request = self.http.post(format!("{}/v1/renders", self.url)).bearer_auth(&self.key);
        let sent = request.header("idempotency-key", key).body(body.to_string()).send().await;
        match sent {
            Ok(response) => Some(Answer::read(response).await),
            Err(fault) => {
                assert!(!fault.is_connect() && !fault.is_timeout(), "{fault:?}");
                None
            }
        }
    }

    /// Submits an image and expects it to be accepted.
    pub(crate) async fn submit(&self, reference: &str) -> String {
        let answer = self.post_keyed(reference, &image(reference)).await.unwrap();
        assert_eq!(answer.status, 201, "{}", answer.json());
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        let request = self.http.get(format!("{}{path}", self.url)).bearer_auth(&self.key);
        Answer::read(request.send().await.unwrap()).await
    }

    pub(crate) async fn cancel(&self, id: &str) -> Answer {
        let request = self.http.post(format!("{}/v1/renders/{id}/cancel", self.url)).bearer_auth(&self.key);
        Answer::read(request.send().await.unwrap()).await
    }

    pub(crate) async fn render(&self, id: &str) -> Value {
        let answer = self.get(&format!("/v1/renders/{id}")).await;
        assert_eq!(answer.status, 200, "{}", answer.json());
        answer.json()
    }

    /// The only output's address.
    pub(crate) async fn output_url(&self, id: &str) -> String {
        self.render(id).await["outputs"][0]["url"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn fetch(&self, url: &str) -> Answer {
        Answer::read(self.http.get(url).send().await.unwrap()).await
    }
}

/// The body of an image request.
pub(crate) fn image(reference: &str) -> Value {
    json!({"prompt": format!("a window for {reference}"), "params": {"width": 64, "height": 48},
        "media": "image", "reference": reference})
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<String>,
    pub(crate) content_type: String,
    pub(crate) replayed: bool,
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    async fn read(response: Response) -> Self {
        let header = |name: &str| response.headers().get(name).map(|v| v.to_str().unwrap().to_owned());
        Self {
            status: response.status().as_u16(),
            retry_after: header("retry-after"),
            content_type: header("content-type").unwrap_or_default(),
            replayed: header("idempotent-replayed").is_some(),
            bytes: response.bytes().await.unwrap().to_vec(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }

    /// Status and error code of a refusal, which must be JSON.
    pub(crate) fn refusal(&self) -> (u16, String) {
        assert_eq!(self.content_type, "application/json");
        (self.status, self.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
    }
}

/// A callback as it arrived.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> String {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).collect()
    }
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// A server that answers requests with these statuses in turn (then with 204) and hands over what came.
pub(crate) async fn receiver(statuses: Vec<u16>) -> (String, mpsc::UnboundedReceiver<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (sender, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut statuses = statuses.into_iter();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = Vec::new();
            let (head, body) = loop {
                let mut chunk = [0; 4096];
                let count = stream.read(&mut chunk).await.unwrap();
                assert!(count > 0, "the caller hung up");
                bytes.extend_from_slice(&chunk[..count]);
                let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
                let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
                let length = head.to_ascii_lowercase();
                let length = length.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                let length: usize = length.parse().unwrap();
                if bytes.len() >= end + 4 + length {
                    break (head, bytes[end + 4..].to_vec());
                }
            };
            let status = statuses.next().unwrap_or(204);
            let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            if sender.send(Received { head, body }).is_err() {
                return;
            }
        }
    });
    (url, received)
}

/// Waits long enough for anything that will come.
pub(crate) async fn next(received: &mut mpsc::UnboundedReceiver<Received>) -> Received {
    tokio::time::timeout(Duration::from_secs(20), received.recv()).await.expect("a callback").unwrap()
}

/// Waits until something is so; fails if it never is.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}
