//! Function URL events (payload 2.0) as HTTP requests, and answers back
//! (<https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html#urls-payloads>).
//!
//! The crate for this, `lambda_http`, ends the process at an address or a body that it can't make a request of; here that
//! is an answer with status 400, like everything else that can't be understood.

use crate::problem::{Code, Problem};
use aws_lambda_events::lambda_function_urls::{LambdaFunctionUrlRequest, LambdaFunctionUrlResponse};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Request, Response};
use axum::response::IntoResponse as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lambda_runtime::Error;
use serde_json::Value;
use tower::ServiceExt as _;

/// Longest answer, in bytes of its body: Lambda takes 6 MB, in Base64 if it isn't text.
pub const MAX_ANSWER_BYTES: usize = 4 << 20;

/// Serves one event.
///
/// # Errors
/// The answer can't be written, which would be a fault of ours.
pub async fn serve(router: &Router, event: Value) -> Result<Value, Error> {
    let response = match request(event) {
        // A router has no errors of its own.
        Ok(request) => router.clone().oneshot(request).await.unwrap_or_else(|never| match never {}),
        Err(what) => Problem::new(Code::BadParameter, what).into_response(),
    };
    Ok(serde_json::to_value(answer(response).await?)?)
}

/// The event as a request; what is wrong with it, one sentence, otherwise.
fn request(event: Value) -> Result<Request<Body>, &'static str> {
    let event: LambdaFunctionUrlRequest =
        serde_json::from_value(event).map_err(|_| "The event isn't a request of a Function URL.")?;
    let path = event.raw_path.filter(|path| path.starts_with('/')).ok_or("The address has no path.")?;
    let query = event.raw_query_string.filter(|query| !query.is_empty());
    let path = encoded(&path);
    let uri = query.map_or_else(|| path.clone(), |query| format!("{path}?{query}"));
    let bytes = match event.body {
        Some(text) if event.is_base64_encoded => {
            STANDARD.decode(text).map_err(|_| "The body isn't what the event says.")?
        }
        Some(text) => text.into_bytes(),
        None => Vec::new(),
    };
    let method = event.request_context.http.method.ok_or("The request has no method.")?;
    let request = Request::builder().method(method.as_str()).uri(uri).body(Body::from(bytes));
    let mut request = request.map_err(|_| "The method or the address can't be used.")?;
    *request.headers_mut() = event.headers;
    if let Some(cookies) = event.cookies.filter(|cookies| !cookies.is_empty()) {
        let joined = HeaderValue::from_str(&cookies.join("; ")).map_err(|_| "The cookies can't be used.")?;
        request.headers_mut().insert(COOKIE, joined);
    }
    Ok(request)
}

/// A path with everything encoded that can't stand in one, in case that it was decoded on its way here.
fn encoded(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/%".contains(&byte);
    path.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Whether an answer of this type is text.
fn is_text(headers: &HeaderMap) -> bool {
    let media = crate::extract::media_type(headers);
    media.starts_with("text/")
        || media.ends_with("json")
        || media.ends_with("xml")
        || media.ends_with("javascript")
}

/// A response as the Function URL takes it.
async fn answer(response: Response<Body>) -> Result<LambdaFunctionUrlResponse, Error> {
    let (parts, body) = response.into_parts();
    let bytes: Bytes = axum::body::to_bytes(body, MAX_ANSWER_BYTES).await?;
    let mut answer = LambdaFunctionUrlResponse::default();
    answer.status_code = i64::from(parts.status.as_u16());
    let cookies = parts.headers.get_all(SET_COOKIE).iter();
    answer.cookies = cookies.filter_map(|cookie| cookie.to_str().ok().map(str::to_owned)).collect();
    // The event has one text for each header; several are one with commas, except cookies.
    for name in parts.headers.keys().filter(|name| *name != SET_COOKIE) {
        let values: Vec<&str> =
            parts.headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
        answer.headers.insert(name, HeaderValue::from_str(&values.join(", "))?);
    }
    match String::from_utf8(bytes.into()) {
        Ok(text) if is_text(&answer.headers) || text.is_empty() => answer.body = Some(text),
        Ok(text) => {
            answer.body = Some(STANDARD.encode(text));
            answer.is_base64_encoded = true;
        }
        Err(binary) => {
            answer.body = Some(STANDARD.encode(binary.as_bytes()));
            answer.is_base64_encoded = true;
        }
    }
    Ok(answer)
}
