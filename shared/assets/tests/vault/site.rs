//! Servers on loopback: a whole one (axum), and one that says exactly what a script tells it.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use glassline_assets::{AllowedHost, AssetVault, Limits, StoreConfig, VaultConfig};
use glassline_protocol::ids::{Id, JobKey, LaneName};
use glassline_protocol::provider::{Media, Output};
use glassline_protocol::vault::{Asset, Saved, Vault};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// One answer of a whole server.
#[derive(Clone)]
pub(crate) struct Page {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Page {
    /// 200 with a body, and a type that is never right.
    pub(crate) fn ok(body: Vec<u8>) -> Self {
        Self { status: 200, headers: vec![("content-type", "text/plain".into())], body }
    }
    pub(crate) fn status(status: u16, body: &str) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }
    pub(crate) fn redirect(status: u16, target: &str) -> Self {
        Self { status, headers: vec![("location", target.into())], body: b"elsewhere".to_vec() }
    }
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

struct Shared {
    pages: HashMap<&'static str, Page>,
    asked: Mutex<Vec<(String, HeaderMap)>>,
}

/// A running server.
pub(crate) struct Site {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

impl Site {
    pub(crate) async fn start(pages: Vec<(&'static str, Page)>) -> Self {
        let shared = Arc::new(Shared { pages: pages.into_iter().collect(), asked: Mutex::default() });
        let app = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { port, shared }
    }
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
    /// What was asked so far: paths with queries, and headers.
    pub(crate) fn asked(&self) -> Vec<(String, HeaderMap)> {
        self.shared.asked.lock().unwrap().clone()
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    shared.asked.lock().unwrap().push((request.uri().to_string(), request.headers().clone()));
    let page = shared.pages.get(path.as_str()).cloned().unwrap_or(Page::status(404, "nothing here"));
    let mut response = Response::builder().status(page.status);
    for (name, value) in page.headers {
        response = response.header(name, value);
    }
    response.body(Body::from(page.body)).unwrap()
}

/// What a scripted server does after it has read a request.
#[derive(Clone)]
pub(crate) enum Step {
    Send(Vec<u8>),
    /// Sends these bytes again and again, with a pause after each, until the other side leaves.
    Forever(Vec<u8>, Duration),
    /// Sends nothing more, but keeps the connection.
    Hang,
}

/// A server that plays a script on every connection, then closes it. Returns its port and the count of bytes that it
/// could send.
pub(crate) async fn scripted(steps: Vec<Step>) -> (u16, Arc<Mutex<u64>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let sent = Arc::new(Mutex::new(0));
    let count = Arc::clone(&sent);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (steps, count) = (steps.clone(), Arc::clone(&count));
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await;
                for step in steps {
                    match step {
                        Step::Send(bytes) => {
                            let _ = stream.write_all(&bytes).await;
                        }
                        Step::Forever(bytes, pause) => {
                            while stream.write_all(&bytes).await.is_ok() {
                                *count.lock().unwrap() += bytes.len() as u64;
                                tokio::time::sleep(pause).await;
                            }
                        }
                        Step::Hang => tokio::time::sleep(Duration::from_secs(600)).await,
                    }
                }
            });
        }
    });
    (port, sent)
}

/// The head of a 200 answer.
pub(crate) fn head(headers: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{headers}\r\n").into_bytes()
}

pub(crate) fn lane() -> LaneName {
    LaneName::new("lane").unwrap()
}

/// A host on loopback that may be asked over plain http.
pub(crate) fn local(port: u16) -> AllowedHost {
    AllowedHost { host: "127.0.0.1".into(), port: Some(port), allow_http: true, allow_private: true }
}

/// A vault with one lane.
pub(crate) fn vault(root: &Path, hosts: Vec<AllowedHost>, limits: Limits) -> AssetVault {
    let config = VaultConfig {
        store: StoreConfig::Fs { root: root.to_owned() },
        lanes: BTreeMap::from([(lane(), hosts)]),
        limits,
        temp_dir: None,
    };
    AssetVault::new(config).unwrap()
}

pub(crate) fn shot(post: &str, shot: &str) -> JobKey {
    JobKey::shot(Id::new(post).unwrap(), Id::new(shot).unwrap())
}

/// Saves as attempt 1 of `POST#p1/SHOT#s1`. A save that never ends fails the test.
pub(crate) async fn save(vault: &AssetVault, url: &str, expected: Media) -> Saved {
    save_as(vault, url, expected, &shot("p1", "s1")).await
}

pub(crate) async fn save_as(vault: &AssetVault, url: &str, expected: Media, job: &JobKey) -> Saved {
    let output = Output { url: url.to_owned(), expires_ms: None };
    let (lane, save_ms) = (lane(), 60_000);
    let save = Box::pin(vault.save(&lane, job, 1, &output, expected));
    tokio::time::timeout(Duration::from_millis(save_ms), save).await.expect("a save must end")
}

pub(crate) fn stored(saved: Saved) -> Asset {
    match saved {
        Saved::Stored(asset) => asset,
        Saved::Refused { .. } | Saved::Barred { .. } | Saved::Expired | Saved::Unavailable => {
            panic!("not stored: {saved:?}")
        }
    }
}

/// The reason of a refusal.
pub(crate) fn refused(saved: Saved) -> String {
    match saved {
        Saved::Refused { class, reason } => {
            assert_eq!(class, glassline_protocol::provider::ErrorClass::BadOutput);
            reason
        }
        Saved::Stored(_) | Saved::Barred { .. } | Saved::Expired | Saved::Unavailable => {
            panic!("not refused: {saved:?}")
        }
    }
}

/// Why our own policy did not fetch it: that never counts against the attempt.
pub(crate) fn barred(saved: Saved) -> String {
    match saved {
        Saved::Barred { reason } => reason,
        Saved::Stored(_) | Saved::Refused { .. } | Saved::Expired | Saved::Unavailable => {
            panic!("not barred: {saved:?}")
        }
    }
}
