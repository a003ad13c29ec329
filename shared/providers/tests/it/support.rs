//! Lanes, requests, and servers that count what they are sent.

use glassline_protocol::ids::{Id, JobKey, LaneName, TaskId};
use glassline_protocol::provider::{ErrorClass, Media, Recovery, Reference, RenderRequest, Submit};
use glassline_providers::{LaneConfig, Providers, ProvidersConfig, SandboxLane, Secret};
use glassline_sandbox::{AccountConfig, Sandbox, SandboxConfig};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(crate) const PROMPT: &str = "a heron of rose quartz over the drowned cathedral";
pub(crate) const KEY: &str = "sk-very-secret-key";
pub(crate) const BY_KEY: Recovery = Recovery::Key { lifetime_ms: 86_400_000 };
pub(crate) const BY_LOOKUP: Recovery = Recovery::Lookup { settle_ms: 60_000 };

pub(crate) fn lane() -> LaneName {
    LaneName::new("main").unwrap()
}

pub(crate) fn reference(shot: &str) -> Reference {
    let job = JobKey::shot(Id::new("p1").unwrap(), Id::new(shot).unwrap());
    Reference { job, attempt: 1 }
}

pub(crate) fn request() -> RenderRequest {
    let params = serde_json::json!({"width": 64, "height": 48});
    RenderRequest { prompt: PROMPT.into(), params, media: Media::Image }
}

/// The parts of a rejection.
pub(crate) fn rejection(told: Submit) -> (ErrorClass, Option<u64>, String) {
    let Submit::Rejected { class, retry_after_ms, reason } = told else { panic!("{told:?}") };
    (class, retry_after_ms, reason)
}

pub(crate) fn task(text: &str) -> TaskId {
    TaskId::new(text).unwrap()
}

/// Providers with the one lane `main`.
pub(crate) fn providers(config: SandboxLane) -> Providers {
    let lanes = [(lane(), LaneConfig::Sandbox(config))].into();
    Providers::from_config(ProvidersConfig { lanes }).unwrap()
}

/// The lane `main` at an address.
pub(crate) fn at(url: &str, recovery: Recovery) -> SandboxLane {
    SandboxLane::new(url, Secret::new(KEY), recovery)
}

/// A sandbox with one account, and a lane to it.
pub(crate) async fn sandbox(
    recovery: Recovery,
    change: impl FnOnce(&mut AccountConfig),
) -> (Sandbox, Providers, HandClock) {
    let mut account = AccountConfig::new("main", KEY);
    change(&mut account);
    let (mut config, clock) = (SandboxConfig::new(vec![account]), HandClock::default());
    clock.0.store(1_800_000_000_000, Ordering::SeqCst);
    let hand = clock.clone();
    config.clock = Some(Arc::new(move || hand.0.load(Ordering::SeqCst)));
    let sandbox = Sandbox::start(config).await.unwrap();
    let providers = providers(at(&sandbox.url(), recovery));
    (sandbox, providers, clock)
}

#[derive(Clone, Default)]
pub(crate) struct HandClock(pub(crate) Arc<AtomicU64>);

impl HandClock {
    pub(crate) fn forward(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

/// What a raw server does with a request that it has read whole.
#[derive(Clone)]
pub(crate) enum Then {
    /// Answers with these bytes and closes.
    Say(String),
    /// Answers with these bytes, announcing that the connection stays open, then closes it all the same.
    SayAndBreakOff(String),
    /// Answers with these bytes and reads on, over the same connection.
    SayAndStay(String),
    /// Closes.
    Close,
    /// Closes with a reset.
    Reset,
    /// Keeps the connection open and says nothing.
    Hang,
}

/// A raw HTTP server: counts the POSTs (by their request lines, before anything is answered) and the connections.
pub(crate) struct Raw {
    pub(crate) url: String,
    posts: Arc<AtomicU32>,
    connections: Arc<AtomicU32>,
    last: Arc<std::sync::Mutex<String>>,
}

impl Raw {
    pub(crate) async fn start(then: Then) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let raw = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            posts: Arc::default(),
            connections: Arc::default(),
            last: Arc::default(),
        };
        let (posts, connections) = (Arc::clone(&raw.posts), Arc::clone(&raw.connections));
        let last = Arc::clone(&raw.last);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, then.clone(), Arc::clone(&posts), Arc::clone(&last)));
            }
        });
        raw
    }

    pub(crate) fn posts(&self) -> u32 {
        self.posts.load(Ordering::SeqCst)
    }

    pub(crate) fn connections(&self) -> u32 {
        self.connections.load(Ordering::SeqCst)
    }

    /// The last request, head and body.
    pub(crate) fn last(&self) -> String {
        self.last.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    then: Then,
    posts: Arc<AtomicU32>,
    last: Arc<std::sync::Mutex<String>>,
) {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 8192];
        let Ok(count @ 1..) = stream.read(&mut chunk).await else { return };
        bytes.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.to_ascii_lowercase();
        let length = length.lines().find_map(|line| line.strip_prefix("content-length: ").map(str::to_owned));
        if body.len() < length.map_or(0, |length| length.parse().unwrap()) {
            continue;
        }
        posts.fetch_add(u32::from(head.starts_with("POST ")), Ordering::SeqCst);
        *last.lock().unwrap() = text;
        match &then {
            Then::Say(answer) | Then::SayAndBreakOff(answer) => {
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
                return;
            }
            Then::SayAndStay(answer) => {
                let _ = stream.write_all(answer.as_bytes()).await;
                bytes.clear();
            }
            Then::Close => return,
            Then::Reset => {
                let _ = stream.set_zero_linger();
                return;
            }
            Then::Hang => std::future::pending().await,
        }
    }
}

/// An answer with a JSON body.
pub(crate) fn say(status: &str, headers: &str, body: &str) -> Then {
    let length = body.len();
    Then::Say(format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    ))
}
