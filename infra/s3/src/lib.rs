//! An S3-compatible service in process, for tests and benchmarks: `s3s-fs` on a loopback port, with three things that it
//! lacks. Conditional writes are atomic (it looks first and writes later), what was asked is counted, and answers can be
//! made to go wrong.
//!
//! It checks signatures (v4) against [`KEY_ID`] and [`SECRET`]. Objects are files below the root it was started with.

use hyper::body::Incoming;
use hyper::header::IF_NONE_MATCH;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// The access key id that the service knows.
pub const KEY_ID: &str = "AKIAEXAMPLE";
/// The secret of [`KEY_ID`]. No secret: the service listens on loopback and holds test data.
pub const SECRET: &str = "loopback-only";

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its method.
    pub method: String,
    /// Its path, as it was sent: `/bucket/key`.
    pub path: String,
    /// Its query, empty if it had none.
    pub query: String,
    /// Whether it was to succeed only if the object was absent.
    pub if_absent: bool,
    /// The status of the answer.
    pub status: u16,
}

/// Answers that shall go wrong: how many of those to come.
#[derive(Debug, Default)]
pub struct Faults {
    /// Conditional writes answered 409 (`ConditionalRequestConflict`), and not done.
    pub conflicts: AtomicU32,
    /// Writes that are done, and whose answer is lost with the connection.
    pub lost: AtomicU32,
    /// Writes that are answered before those of `lost`.
    pub kept: AtomicU32,
    /// Requests answered 503 (`SlowDown`), and not done.
    pub slow_down: AtomicU32,
}

struct Shared {
    service: S3Service,
    faults: Faults,
    asked: Mutex<Vec<Asked>>,
    /// Requests under way that send bytes, and the most of them at once.
    sending: AtomicU32,
    most_sending: AtomicU32,
    /// Held by each conditional write.
    writing: tokio::sync::Mutex<()>,
}

/// A running service. It stops when this is dropped.
pub struct Server {
    endpoint: String,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Server {
    /// Starts a service on a free loopback port, with one bucket. Its objects are files below `root`.
    ///
    /// # Errors
    /// The folder can't be used, or no port is free.
    pub async fn start(root: &Path, bucket: &str) -> std::io::Result<Self> {
        std::fs::create_dir_all(root.join(bucket))?;
        let files = FileSystem::new(root).map_err(|error| std::io::Error::other(format!("{error:?}")))?;
        let mut builder = S3ServiceBuilder::new(files);
        builder.set_auth(SimpleAuth::from_single(KEY_ID, SECRET));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let shared = Arc::new(Shared {
            service: builder.build(),
            faults: Faults::default(),
            asked: Mutex::default(),
            sending: AtomicU32::default(),
            most_sending: AtomicU32::default(),
            writing: tokio::sync::Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared))).abort_handle();
        Ok(Self { endpoint, shared, accepting })
    }

    /// The address that clients use, path-style: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The answers that shall go wrong.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Loses the answer to one write, after `kept` others that are answered.
    pub fn lose_after(&self, kept: u32) {
        self.shared.faults.kept.store(kept, Ordering::SeqCst);
        self.shared.faults.lost.store(1, Ordering::SeqCst);
    }

    /// The most requests with `PUT` that were under way at once.
    #[must_use]
    pub fn most_sending(&self) -> u32 {
        self.shared.most_sending.load(Ordering::SeqCst)
    }

    /// What was asked and answered so far, in the order of the answers.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, Arc::clone(&shared)));
            }
            Err(error) => {
                tracing::warn!(%error, "the S3 server could not accept a connection");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(move |request| answer(Arc::clone(&shared), request));
    let ended = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the S3 server ended");
    }
}

/// Takes one from a count, if there is one.
fn take(count: &AtomicU32) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

fn refusal(status: StatusCode, code: &str) -> Result<Response<s3s::Body>, Failure> {
    let text = format!("<Error><Code>{code}</Code><Message>{code}</Message></Error>");
    let response = Response::builder().status(status).header("content-type", "application/xml");
    Ok(response.body(s3s::Body::from(text))?)
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<s3s::Body>, Failure> {
    if request.method() != Method::PUT {
        return handle(&shared, request).await;
    }
    let sending = shared.sending.fetch_add(1, Ordering::SeqCst) + 1;
    shared.most_sending.fetch_max(sending, Ordering::SeqCst);
    let answered = handle(&shared, request).await;
    shared.sending.fetch_sub(1, Ordering::SeqCst);
    answered
}

async fn handle(shared: &Shared, request: Request<Incoming>) -> Result<Response<s3s::Body>, Failure> {
    let if_absent = request.headers().contains_key(IF_NONE_MATCH)
        && (request.method() == Method::PUT || request.method() == Method::POST);
    let writes = request.method() != Method::GET && request.method() != Method::HEAD;
    let mut asked = Asked {
        method: request.method().to_string(),
        path: request.uri().path().to_owned(),
        query: request.uri().query().unwrap_or_default().to_owned(),
        if_absent,
        status: 0,
    };
    let response = if take(&shared.faults.slow_down) {
        refusal(StatusCode::SERVICE_UNAVAILABLE, "SlowDown")?
    } else if if_absent && take(&shared.faults.conflicts) {
        refusal(StatusCode::CONFLICT, "ConditionalRequestConflict")?
    } else {
        let guard = if if_absent { Some(shared.writing.lock().await) } else { None };
        let response = hyper::service::Service::call(&shared.service, request).await;
        drop(guard);
        response.map_err(|error| Failure::from(format!("{error:?}")))?
    };
    asked.status = response.status().as_u16();
    let done = response.status().is_success();
    shared.asked.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
    if writes && done && !take(&shared.faults.kept) && take(&shared.faults.lost) {
        return Err("the answer is lost, as asked for".into());
    }
    Ok(response)
}
