//! The HTTP server: connections, requests, answers. What the operations do is in the submodules.

mod address;
mod messages;
mod moves;
mod operation;
mod queues;
mod wire;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use crate::engine::Engine;
use crate::error::SqsError;
use crate::receipt;
use operation::Operation;

pub use address::queue_url;

const JSON: HeaderValue = HeaderValue::from_static("application/x-amz-json-1.0");
/// The longest body that is read: a batch of 1 MiB with every character escaped (`\u0009`), and its frame.
const MAX_BODY_BYTES: usize = 8 << 20;
/// How much of a longer body is read away, so that its sender gets to read the answer.
const MAX_DRAINED_BYTES: usize = 64 << 20;
/// How long a client may take to send a request's body.
const BODY_TIME: Duration = Duration::from_secs(60);
/// How long a connection may wait for its next request; longer than clients keep idle connections (90 s), so that they
/// close first.
const IDLE_TIME: Duration = Duration::from_secs(120);
/// Connections at once; more wait to be accepted.
const MAX_CONNECTIONS: usize = 1_024;
/// How long requests under way may take to end after the shutdown began.
const GRACE: Duration = Duration::from_secs(5);

/// Serves the AWS JSON protocol of SQS on the listener until `shutdown` ends; then long polls are answered at once,
/// requests under way get 5 s to end, and it returns. The engine stays open.
///
/// # Errors
/// The listener has no address. A connection that can't be accepted is logged, not an error.
pub async fn serve(
    listener: TcpListener,
    engine: Engine,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let (stop, stopping) = watch::channel(false);
    let server = Arc::new(Server { engine, address: listener.local_addr()?, stopping });
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &room) => accepted,
            () = &mut shutdown => break,
        };
        match accepted {
            Ok((stream, permit)) => {
                connections.spawn(connection(Arc::clone(&server), stream, permit));
            }
            Err(error) => {
                tracing::warn!(%error, "the queue server could not accept a connection");
                // Out of file descriptors: give connections time to end.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    stop.send_replace(true);
    // Whatever is left after the grace is cut off below.
    let _ = tokio::time::timeout(GRACE, async { while connections.join_next().await.is_some() {} }).await;
    connections.shutdown().await;
    Ok(())
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.map_err(std::io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, permit))
}

async fn connection(server: Arc<Server>, stream: TcpStream, _permit: OwnedSemaphorePermit) {
    // Without it small answers wait for the client's acknowledgement; failing to set it harms nobody.
    let _ = stream.set_nodelay(true);
    let mut stopping = server.stopping.clone();
    let service = service_fn(move |request| {
        let server = Arc::clone(&server);
        async move { server.answer(request).await }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIME)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a queue connection ended early");
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error means that the server is gone, which is as good.
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// An injected fault: the connection closes without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the reply was lost on purpose (fault injection)")]
struct LostReply;

/// What the requests of a server share.
struct Server {
    engine: Engine,
    address: SocketAddr,
    stopping: watch::Receiver<bool>,
}

impl Server {
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, LostReply> {
        let (head, body) = request.into_parts();
        let (operation, result) = match (operation_of(&head.method, &head.headers), read(body).await) {
            (Ok(operation), Ok(body)) => (Some(operation), operation.run(self, &body).await),
            (Err(error), _) | (_, Err(error)) => (None, Err(error)),
        };
        if result.is_ok()
            && operation.is_some_and(Operation::may_lose_reply)
            && self.engine.faults().lose_reply()
        {
            return Err(LostReply);
        }
        Ok(respond(result))
    }

    fn url(&self, queue: &str) -> String {
        queue_url(self.address, queue)
    }

    /// Ends when the server stops.
    async fn stopped(&self) {
        stopped(&mut self.stopping.clone()).await;
    }
}

fn operation_of(method: &Method, headers: &HeaderMap) -> Result<Operation, SqsError> {
    if method != Method::POST {
        return Err(SqsError::InvalidHttpRequest { reason: "The method must be POST." });
    }
    let target = headers.get("x-amz-target").ok_or(SqsError::MissingAction)?;
    // Also keeps web pages of other origins out: they can't send either header without being asked for permission.
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/x-amz-json-1.0") {
        let reason = "The header Content-Type must be application/x-amz-json-1.0.";
        return Err(SqsError::InvalidHttpRequest { reason });
    }
    let name = target.to_str().ok().and_then(|target| target.strip_prefix("AmazonSQS."));
    Operation::from_name(name.ok_or(SqsError::UnknownOperation)?)
}

async fn read(body: Incoming) -> Result<Bytes, SqsError> {
    match tokio::time::timeout(BODY_TIME, read_all(body)).await {
        Ok(body) => body,
        Err(_) => Err(SqsError::InvalidHttpRequest { reason: "The body took longer than 60 seconds." }),
    }
}

async fn read_all(mut body: Incoming) -> Result<Bytes, SqsError> {
    let mut bytes = Vec::new();
    let mut length = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| SqsError::InvalidHttpRequest { reason: "The body ended early." })?;
        let Ok(data) = frame.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length <= MAX_BODY_BYTES {
            bytes.extend_from_slice(&data);
        } else {
            bytes = Vec::new();
        }
        if length > MAX_DRAINED_BYTES {
            break;
        }
    }
    match length <= MAX_BODY_BYTES {
        true => Ok(bytes.into()),
        false => Err(SqsError::RequestTooLarge { max_bytes: MAX_BODY_BYTES }),
    }
}

fn respond(result: Result<Vec<u8>, SqsError>) -> Response<Full<Bytes>> {
    let (status, error_code, body) = match result {
        Ok(body) => (StatusCode::OK, None, body),
        Err(error) => {
            if !error.is_sender_fault() {
                tracing::error!(%error, "a queue request failed");
            }
            let wire = error.wire();
            let fault = if error.is_sender_fault() { "Sender" } else { "Receiver" };
            let status = StatusCode::from_u16(wire.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let code = HeaderValue::try_from(format!("{};{fault}", wire.code)).ok();
            (status, code, wire::error_body(&error))
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    let request_id = receipt::uuid().ok().and_then(|id| HeaderValue::try_from(id).ok());
    for (name, value) in [("x-amzn-requestid", request_id), ("x-amzn-query-error", error_code)] {
        if let Some(value) = value {
            headers.insert(name, value);
        }
    }
    response
}
