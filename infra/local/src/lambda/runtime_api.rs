//! The Lambda Runtime API 2018-06-01 of one execution environment
//! (<https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>). Each environment has its own port, so that the
//! host knows which process is asking. The routes only translate: every call goes to the environment's own task, which
//! alone knows whether it comes at the right moment.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use futures_util::StreamExt;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// The longest payload of a synchronous invocation and of its answer, as AWS counts it: 6 MiB and 100 bytes
/// (<https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>).
pub(super) const MAX_PAYLOAD_BYTES: usize = 6_291_556;
/// The longest error report that is read.
const MAX_ERROR_BYTES: usize = 256 * 1024;
/// The longest message of an error that is kept.
const MAX_MESSAGE_CHARS: usize = 8_192;

/// An invocation as its process gets it.
#[derive(Debug)]
pub(super) struct Handover {
    pub(super) request_id: String,
    pub(super) deadline_ms: u64,
    pub(super) function_arn: String,
    pub(super) trace: String,
    pub(super) payload: Bytes,
}

/// An error that a process reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reported {
    pub(super) error_type: String,
    pub(super) message: String,
}

/// What a process answered to its invocation.
#[derive(Debug)]
pub(super) enum Answer {
    Response(Bytes),
    TooLong { size_bytes: u64 },
    Error(Reported),
}

/// A call of the Runtime API, waiting for the environment's verdict.
#[derive(Debug)]
pub(super) enum Call {
    Next { reply: oneshot::Sender<Handover> },
    Answer { request_id: String, answer: Answer, reply: oneshot::Sender<Verdict> },
    InitError { error: Reported, reply: oneshot::Sender<Verdict> },
}

impl Call {
    /// The poll, if this is one. A report is refused: it comes when none is due.
    pub(super) fn poll_or_refuse(self) -> Option<oneshot::Sender<Handover>> {
        let (reply, verdict) = match self {
            Self::Next { reply } => return Some(reply),
            Self::Answer { reply, .. } => (reply, Verdict::WrongRequest),
            Self::InitError { reply, .. } => (reply, Verdict::WrongState),
        };
        tell(reply, verdict);
        None
    }
}

/// Answers a report. Its process may be gone: then there is nobody to tell.
pub(super) fn tell(reply: oneshot::Sender<Verdict>, verdict: Verdict) {
    let _ = reply.send(verdict);
}

/// What the environment says to a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Accepted,
    /// The request id isn't the one being served.
    WrongRequest,
    /// Not a moment for this call.
    WrongState,
}

/// A listening Runtime API; dropping it closes the port.
pub(super) struct RuntimeApi {
    pub(super) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for RuntimeApi {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RuntimeApi {
    /// Listens on a free port of the loopback interface and sends each call to `calls`.
    pub(super) async fn listen(calls: mpsc::Sender<Call>) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let router = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next))
            .route("/2018-06-01/runtime/invocation/{request_id}/response", post(response))
            .route("/2018-06-01/runtime/invocation/{request_id}/error", post(error))
            .route("/2018-06-01/runtime/init/error", post(init_error))
            .with_state(calls);
        // Small messages both ways: without this each waits for the other side's delayed acknowledgement.
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        let task = tokio::spawn(async move { drop(axum::serve(listener, router).await) });
        Ok(Self { address, task })
    }
}

async fn next(State(calls): State<mpsc::Sender<Call>>) -> Response {
    let (reply, handover) = oneshot::channel();
    if calls.send(Call::Next { reply }).await.is_err() {
        return gone();
    }
    let Ok(handover) = handover.await else { return gone() };
    let headers = [
        (HeaderName::from_static("lambda-runtime-aws-request-id"), handover.request_id),
        (HeaderName::from_static("lambda-runtime-deadline-ms"), handover.deadline_ms.to_string()),
        (HeaderName::from_static("lambda-runtime-invoked-function-arn"), handover.function_arn),
        (HeaderName::from_static("lambda-runtime-trace-id"), handover.trace),
        (header::CONTENT_TYPE, "application/json".to_owned()),
    ];
    (headers, handover.payload).into_response()
}

async fn response(
    State(calls): State<mpsc::Sender<Call>>,
    Path(request_id): Path<String>,
    body: Body,
) -> Response {
    let answer = match read(body, MAX_PAYLOAD_BYTES).await {
        Read::Whole(body) => Answer::Response(body),
        Read::TooLong { size_bytes } => Answer::TooLong { size_bytes },
        Read::Broken => return refused(StatusCode::BAD_REQUEST, "InvalidRequest", "the body ended early"),
    };
    let too_long = matches!(answer, Answer::TooLong { .. });
    let verdict = report(&calls, |reply| Call::Answer { request_id, answer, reply }).await;
    if too_long && verdict.status() == StatusCode::ACCEPTED {
        let message = format!("Exceeded maximum allowed payload size ({MAX_PAYLOAD_BYTES} bytes).");
        return refused(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", &message);
    }
    verdict
}

async fn error(
    State(calls): State<mpsc::Sender<Call>>,
    Path(request_id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let answer = Answer::Error(reported(&headers, body).await);
    report(&calls, |reply| Call::Answer { request_id, answer, reply }).await
}

async fn init_error(State(calls): State<mpsc::Sender<Call>>, headers: HeaderMap, body: Body) -> Response {
    let error = reported(&headers, body).await;
    report(&calls, |reply| Call::InitError { error, reply }).await
}

async fn report(calls: &mpsc::Sender<Call>, call: impl FnOnce(oneshot::Sender<Verdict>) -> Call) -> Response {
    let (reply, verdict) = oneshot::channel();
    if calls.send(call(reply)).await.is_err() {
        return gone();
    }
    match verdict.await {
        Ok(Verdict::Accepted) => {
            (StatusCode::ACCEPTED, axum::Json(serde_json::json!({"status": "OK"}))).into_response()
        }
        Ok(Verdict::WrongRequest) => {
            refused(StatusCode::BAD_REQUEST, "InvalidRequestID", "Invalid request ID")
        }
        Ok(Verdict::WrongState) => {
            refused(StatusCode::FORBIDDEN, "InvalidStateTransition", "not the moment for this call")
        }
        Err(_) => gone(),
    }
}

fn refused(status: StatusCode, error_type: &str, message: &str) -> Response {
    let body = serde_json::json!({"errorType": error_type, "errorMessage": message});
    (status, axum::Json(body)).into_response()
}

/// The environment has ended: to a process that is still there this is the container error after which a runtime
/// exits promptly.
fn gone() -> Response {
    refused(StatusCode::INTERNAL_SERVER_ERROR, "Container error", "this environment has ended")
}

enum Read {
    Whole(Bytes),
    TooLong { size_bytes: u64 },
    Broken,
}

/// Reads a body to its end but keeps at most `max_bytes`: a client that is cut off in the middle of a long body would
/// see a broken connection, not the answer.
async fn read(body: Body, max_bytes: usize) -> Read {
    let mut kept = Vec::new();
    let mut size_bytes = 0_u64;
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let Ok(chunk) = chunk else { return Read::Broken };
        size_bytes = size_bytes.saturating_add(chunk.len() as u64);
        if size_bytes <= max_bytes as u64 {
            kept.extend_from_slice(&chunk);
        } else {
            kept = Vec::new();
        }
    }
    if size_bytes > max_bytes as u64 { Read::TooLong { size_bytes } } else { Read::Whole(kept.into()) }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorBody {
    error_type: Option<String>,
    error_message: Option<String>,
}

async fn reported(headers: &HeaderMap, body: Body) -> Reported {
    let body = match read(body, MAX_ERROR_BYTES).await {
        Read::Whole(body) => body,
        Read::TooLong { .. } | Read::Broken => Bytes::new(),
    };
    let named = headers.get("lambda-runtime-function-error-type").and_then(|value| value.to_str().ok());
    let body = serde_json::from_slice(&body).unwrap_or_else(|_| ErrorBody {
        error_type: None,
        error_message: Some(String::from_utf8_lossy(&body).into_owned()).filter(|text| !text.is_empty()),
    });
    let error_type = body.error_type.or_else(|| named.map(str::to_owned));
    let error_type =
        error_type.filter(|name| !name.is_empty()).unwrap_or_else(|| "Function.Unknown".to_owned());
    let message = body.error_message.unwrap_or_else(|| "no message was given".to_owned());
    Reported { error_type: shortened(&error_type, 256), message: shortened(&message, MAX_MESSAGE_CHARS) }
}

fn shortened(text: &str, max_chars: usize) -> String {
    text.chars().take(max_chars).collect()
}
