//! A Function URL on loopback: each HTTP request becomes an event for the function, and its answer the response
//! (<https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html#urls-payloads>).
//!
//! Unlike AWS: a request waits for a free process instead of being throttled; there is no TLS, no streaming and no CORS;
//! a header whose value isn't visible ASCII is left out.

use crate::lambda::{Host, InvokeError};
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{CONTENT_TYPE, COOKIE, HOST, HeaderName, SET_COOKIE, USER_AGENT};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use axum::response::IntoResponse as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Longest body of a request, in bytes: Lambda's limit of an invocation, which the event as a whole has to keep, too.
const MAX_BODY_BYTES: usize = 6 << 20;

/// A served address. Dropping it stops the server.
#[derive(Debug)]
pub struct FunctionUrl {
    /// Where it listens.
    pub address: SocketAddr,
    server: JoinHandle<()>,
}

impl Drop for FunctionUrl {
    fn drop(&mut self) {
        self.server.abort();
    }
}

#[derive(Clone)]
struct Target {
    host: Host,
    function: Arc<str>,
    /// As many as the function has processes.
    places: Arc<Semaphore>,
}

impl FunctionUrl {
    /// Serves a function of the host on this listener.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn serve(listener: TcpListener, host: Host, function: &str) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let places = host.spec(function).map_or(1, |spec| spec.max_environments);
        let places = Arc::new(Semaphore::new(usize::try_from(places).unwrap_or(1)));
        let target = Target { host, function: function.into(), places };
        let router = Router::new().fallback(handle).with_state(target);
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, service).await {
                tracing::error!(event = "url_server", error = %error, "the function's address stopped");
            }
        });
        Ok(Self { address, server })
    }
}

async fn handle(
    State(target): State<Target>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY_BYTES).await else {
        return refusal(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large");
    };
    let event = event(&parts, &body, peer);
    let Ok(_place) = target.places.acquire().await else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable");
    };
    match target.host.invoke(&target.function, event.to_string().into_bytes(), None).await {
        Ok(answer) => response(&answer).unwrap_or_else(|why| {
            tracing::error!(event = "bad_answer", function = %target.function, why);
            refusal(StatusCode::BAD_GATEWAY, "Internal Server Error")
        }),
        Err(InvokeError::Payload { .. }) => {
            refusal(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large")
        }
        Err(InvokeError::Throttled { .. }) => refusal(StatusCode::TOO_MANY_REQUESTS, "Rate Exceeded."),
        Err(error) => {
            tracing::error!(event = "not_answered", function = %target.function, error = %error);
            refusal(StatusCode::BAD_GATEWAY, "Internal Server Error")
        }
    }
}

/// What the service itself says, in its words.
fn refusal(status: StatusCode, message: &str) -> Response<Body> {
    (status, axum::Json(json!({ "Message": message }))).into_response()
}

/// Headers as an event has them: one text each, cookies apart.
fn headers(headers: &HeaderMap) -> (Map<String, Value>, Vec<String>) {
    let texts = |name: &HeaderName| {
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect::<Vec<_>>()
    };
    let named = headers.keys().filter(|name| **name != COOKIE).map(|name| (name, texts(name)));
    let named = named.filter(|(_, texts)| !texts.is_empty());
    let all = named.map(|(name, texts)| (name.to_string(), texts.join(",").into())).collect();
    let cookies = texts(&COOKIE).into_iter().flat_map(|text| text.split(';'));
    (all, cookies.map(|cookie| cookie.trim().to_owned()).filter(|cookie| !cookie.is_empty()).collect())
}

/// Whether a body of this type is given as text.
fn is_text(headers: &HeaderMap) -> bool {
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media.starts_with("text/")
        || ["application/json", "application/javascript", "application/xml"].contains(&media.as_str())
}

fn event(parts: &axum::http::request::Parts, body: &Bytes, peer: SocketAddr) -> Value {
    let (named, cookies) = headers(&parts.headers);
    let now = jiff::Timestamp::now();
    let text = std::str::from_utf8(body).ok().filter(|_| is_text(&parts.headers));
    let (body, is_encoded) = match text {
        _ if body.is_empty() => (Value::Null, false),
        Some(text) => (text.into(), false),
        None => (STANDARD.encode(body).into(), true),
    };
    let header = |name| parts.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
    let mut event = json!({
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "headers": named,
        "requestContext": {
            "accountId": "anonymous",
            "apiId": "local",
            "domainName": header(HOST).unwrap_or("localhost"),
            "domainPrefix": "local",
            "http": {
                "method": parts.method.as_str(),
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": peer.ip().to_string(),
                "userAgent": header(USER_AGENT),
            },
            "requestId": crate::lambda::ids::uuid(),
            "routeKey": "$default",
            "stage": "$default",
            "time": now.strftime("%d/%b/%Y:%H:%M:%S +0000").to_string(),
            "timeEpoch": now.as_millisecond(),
        },
        "body": body,
        "isBase64Encoded": is_encoded,
    });
    if !cookies.is_empty() {
        event["cookies"] = cookies.into();
    }
    event
}

/// A function's answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    status_code: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    cookies: Vec<String>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

fn response(answer: &[u8]) -> Result<Response<Body>, &'static str> {
    let answer: Answer =
        serde_json::from_slice(answer).map_err(|_| "the function's answer isn't that of a Function URL")?;
    let body = answer.body.unwrap_or_default();
    let bytes = if answer.is_base64_encoded {
        STANDARD.decode(body).map_err(|_| "the body of the function's answer isn't Base64")?
    } else {
        body.into_bytes()
    };
    let mut response = Response::builder().status(answer.status_code);
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    for cookie in answer.cookies {
        response = response.header(SET_COOKIE, cookie);
    }
    response
        .body(Body::from(bytes))
        .map_err(|_| "the function's answer has a status or a header that can't be")
}
