//! A reverse proxy on the loopback interface that stands between a client and an AWS-like service (DynamoDB or SQS,
//! HTTP/1.1, no TLS) and does to requests what a network and a busy service may do.

mod answers;
mod faults;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use serde::Serialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

pub use faults::{FaultKind, FaultRule, ProxyFaults};

use answers::Operation;
use faults::Faults;

/// The longest request or answer that is passed on: twice DynamoDB's longest, 16 MB.
const MAX_BODY_BYTES: usize = 32 * 1024 * 1024;

/// Headers that are about one connection, not about the request
/// (<https://www.rfc-editor.org/rfc/rfc9110#name-connection>).
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// How often each thing happened since the proxy started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ProxyCounts {
    /// Requests that came.
    pub requests: u64,
    /// Requests that the service answered, lost replies among them.
    pub forwarded: u64,
    /// Requests not forwarded, connection closed.
    pub lost_requests: u64,
    /// Requests forwarded whose answer was not passed on.
    pub lost_replies: u64,
    /// Answered `TransactionConflictException` or `TransactionCanceledException`.
    pub conflicts: u64,
    /// Answered `ProvisionedThroughputExceededException`.
    pub throughput_exceeded: u64,
    /// Answered `ThrottlingException` or `RequestThrottled`.
    pub throttled: u64,
    /// Requests that waited.
    pub delayed: u64,
    /// Requests that could not be brought to the service, or whose answer did not come; connection closed.
    pub upstream_errors: u64,
}

/// A running proxy. Dropping it closes its port and its connections.
#[derive(Debug)]
pub struct Proxy {
    /// Where it listens, on 127.0.0.1.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    faults: Faults,
    counts: ProxyCounts,
}

/// Ends the connection without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed without an answer")]
struct Close;

impl Proxy {
    /// Listens on a free port in front of `upstream`.
    ///
    /// # Errors
    ///
    /// What the system says when no port can be had.
    pub async fn start(upstream: SocketAddr, faults: ProxyFaults) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let state = Mutex::new(State { faults: Faults::new(faults), counts: ProxyCounts::default() });
        let shared = Arc::new(Shared { upstream, client, state });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, task })
    }

    /// `http://127.0.0.1:PORT`, as a client's endpoint.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Replaces the faults, from the next request on; their streams and limits start anew.
    pub fn set_faults(&self, faults: ProxyFaults) {
        self.shared.state().faults = Faults::new(faults);
    }

    /// What has happened so far.
    pub fn counts(&self) -> ProxyCounts {
        self.shared.state().counts
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // In a set, so that the connections end with this task.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(serve(stream, Arc::clone(&shared)))),
                // Out of descriptors, or a client that is gone already: neither is cured by trying at once.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    drop(stream.set_nodelay(true));
    let service = service_fn(move |request| handle(Arc::clone(&shared), request));
    let connection =
        http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
    // An error is a connection that was closed, by the client or by a fault.
    drop(connection.await);
}

async fn handle(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Close> {
    let (mut parts, body) = request.into_parts();
    let operation = Operation::new(
        parts.headers.get("x-amz-target").and_then(|value| value.to_str().ok()).unwrap_or_default(),
    );
    // The request is read whatever becomes of it: a close in the middle of it is another fault than a lost request.
    let body = match read(body).await {
        Ok(body) => body,
        Err(error) if error.is::<LengthLimitError>() => {
            let message = format!("the proxy passes on at most {MAX_BODY_BYTES} bytes");
            return Ok(answers::reply(
                StatusCode::PAYLOAD_TOO_LARGE,
                &serde_json::json!({"message": message}),
            ));
        }
        Err(_) => return Err(Close),
    };
    let plan = shared.plan(&operation);
    if plan.delay_ms > 0 {
        tokio::time::sleep(Duration::from_millis(plan.delay_ms)).await;
    }
    if plan.fault == Some(FaultKind::LoseRequest) {
        return Err(Close);
    }
    if let Some(answer) = plan.fault.and_then(|kind| answers::answer(kind, &operation, &body, plan.choice)) {
        return Ok(answer);
    }
    strip(&mut parts.headers);
    let mut forward = Request::new(Full::from(body));
    *forward.method_mut() = parts.method;
    *forward.headers_mut() = parts.headers;
    *forward.uri_mut() = shared.upstream_uri(&parts.uri)?;
    let response = shared.forward(forward).await?;
    if plan.fault == Some(FaultKind::LoseReply) {
        shared.state().counts.lost_replies += 1;
        return Err(Close);
    }
    Ok(response)
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is one step, so a panicking holder leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plan(&self, operation: &Operation) -> faults::Plan {
        let mut state = self.state();
        let plan = state.faults.plan(operation);
        let counts = &mut state.counts;
        counts.requests += 1;
        counts.delayed += u64::from(plan.delay_ms > 0);
        match plan.fault {
            Some(FaultKind::LoseRequest) => counts.lost_requests += 1,
            Some(FaultKind::Conflict) => counts.conflicts += 1,
            Some(FaultKind::ThroughputExceeded) => counts.throughput_exceeded += 1,
            Some(FaultKind::Throttling) => counts.throttled += 1,
            // A reply is lost only once there is one.
            Some(FaultKind::LoseReply | FaultKind::Delay { .. }) | None => {}
        }
        plan
    }

    fn upstream_uri(&self, uri: &Uri) -> Result<Uri, Close> {
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        format!("http://{}{path}", self.upstream).parse().map_err(|_| Close)
    }

    /// Sends a request to the service and reads its whole answer.
    async fn forward(&self, request: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, Close> {
        let answered = async {
            let (mut parts, body) = self.client.request(request).await?.into_parts();
            strip(&mut parts.headers);
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Response::from_parts(
                parts,
                Full::from(read(body).await?),
            ))
        };
        match answered.await {
            Ok(response) => {
                self.state().counts.forwarded += 1;
                Ok(response)
            }
            Err(error) => {
                tracing::debug!(%error, "the service behind the proxy gave no answer");
                self.state().counts.upstream_errors += 1;
                Err(Close)
            }
        }
    }
}

async fn read<B>(body: B) -> Result<Bytes, Box<dyn std::error::Error + Send + Sync>>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    Ok(Limited::new(body, MAX_BODY_BYTES).collect().await?.to_bytes())
}

fn strip(headers: &mut HeaderMap) {
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}
