//! The HTTP client: one request, one answer within limits, or the reason why there is none.
//!
//! A submit must be sent at most once. What could send it again, and what keeps it from doing so (read in the sources of
//! reqwest 0.13.5 and hyper-util 0.1.21):
//!
//! - reqwest's retry layer, which by default repeats requests that the peer refused at protocol level:
//!   `retry(reqwest::retry::never())` (reqwest `src/retry.rs`, `never`).
//! - hyper-util's client, which repeats a request when a *reused* connection turns out to be closed
//!   (`src/client/legacy/client.rs`, `send_request`: it gives up when the connection is fresh; `retry_canceled_requests`
//!   can't be set through reqwest). Without a pool no connection is ever reused: `pool_max_idle_per_host(0)` switches it
//!   off (`src/client/legacy/pool.rs`, `Config::is_enabled`; `one_connection_for` then always connects).
//! - Redirects: 307 and 308 would repeat the POST elsewhere: `redirect(Policy::none())`.
//! - HTTP/2, whose refused streams clients like to repeat: `http1_only()`, whatever another crate compiles in.
//! - A proxy from the environment: `no_proxy()`.
//!
//! What proves that nothing was sent: `reqwest::Error::is_connect` is true for errors of kind `Connect` of hyper-util's
//! client only; with the pool off they come from the connector alone (`connect_to`), which covers DNS, TCP and TLS and
//! runs to its end before the request is handed over. The connect timeout is raised inside the connector too (reqwest
//! `src/connect.rs`, `with_timeout`), the total timeout outside of it.

use crate::config::ProvidersError;
use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, StatusCode};
use std::time::Duration;

/// The longest answer of the sandbox that is read, in bytes.
pub(crate) const ANSWER_BYTES: usize = 64 * 1024;

/// The longest answer of a vendor that is read, in bytes: lists and echoed requests are longer.
pub(crate) const QUERY_BYTES: usize = 2 * 1024 * 1024;

/// The two clients of a lane.
#[derive(Clone)]
pub(crate) struct Clients {
    /// For submits: every request on a connection of its own.
    pub(crate) submit: Client,
    /// For everything that may be repeated.
    pub(crate) query: Client,
}

impl Clients {
    /// Sets both up.
    pub(crate) fn new(connect_timeout_ms: u64) -> Result<Self, ProvidersError> {
        let build = |pooled: usize| {
            Client::builder()
                .retry(reqwest::retry::never())
                .redirect(Policy::none())
                .no_proxy()
                .http1_only()
                .pool_max_idle_per_host(pooled)
                // A frozen function wakes up with connections that its peer has long closed.
                .pool_idle_timeout(Duration::from_secs(20))
                .connect_timeout(Duration::from_millis(connect_timeout_ms))
                .user_agent(concat!("glassline/", env!("CARGO_PKG_VERSION")))
                .build()
                .map_err(|fault| ProvidersError::Client { reason: fault.without_url().to_string() })
        };
        Ok(Self { submit: build(0)?, query: build(4)? })
    }
}

/// An answer, read whole.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// No connection: nothing was sent.
    NotSent,
    /// Sent, or perhaps sent, and no whole answer in time.
    TimedOut,
    /// Sent, or perhaps sent, and the connection ended first.
    Broken,
    /// The answer is longer than allowed.
    TooLong,
}

impl NoAnswer {
    /// A stable word for logs.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::NotSent => "not_sent",
            Self::TimedOut => "timed_out",
            Self::Broken => "broken",
            Self::TooLong => "too_long",
        }
    }
}

/// Sends a request, once, and reads its answer of at most [`ANSWER_BYTES`].
pub(crate) async fn call(request: RequestBuilder, timeout_ms: u64) -> Result<Answer, NoAnswer> {
    call_within(request, timeout_ms, ANSWER_BYTES, |_| false).await
}

/// The same with another limit. The body of a status that is to be `skipped` is left unread, for it may be a film.
pub(crate) async fn call_within(
    request: RequestBuilder,
    timeout_ms: u64,
    limit_bytes: usize,
    skipped: impl Fn(StatusCode) -> bool,
) -> Result<Answer, NoAnswer> {
    let sent = request.timeout(Duration::from_millis(timeout_ms)).send().await;
    let mut response = sent.map_err(|fault| reason(&fault))?;
    let (status, headers) = (response.status(), response.headers().clone());
    let mut body = Vec::new();
    if skipped(status) {
        return Ok(Answer { status, headers, body });
    }
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > limit_bytes => return Err(NoAnswer::TooLong),
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(Answer { status, headers, body }),
            // The head has arrived, so whatever it is, it isn't `NotSent`.
            Err(fault) if fault.is_timeout() => return Err(NoAnswer::TimedOut),
            Err(_) => return Err(NoAnswer::Broken),
        }
    }
}

fn reason(fault: &reqwest::Error) -> NoAnswer {
    if fault.is_connect() {
        NoAnswer::NotSent
    } else if fault.is_timeout() {
        NoAnswer::TimedOut
    } else {
        NoAnswer::Broken
    }
}
