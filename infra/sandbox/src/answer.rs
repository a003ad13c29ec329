//! Answers as a vendor gives them: JSON, with one shape of error and a stable code in it.

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// A refusal: `{"error": {"code", "message", "param"?}}`. The message never quotes the request.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    message: String,
    param: Option<&'static str>,
    retry_after_s: Option<u64>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), param: None, retry_after_s: None }
    }

    pub(crate) fn invalid(param: &'static str, rule: &'static str) -> Self {
        let message = format!("`{param}` can't be used: {rule}");
        let refusal = Self::new(StatusCode::BAD_REQUEST, "invalid_request", message);
        Self { param: Some(param), ..refusal }
    }

    /// A body that isn't the JSON asked for; serde's own message would quote it.
    pub(crate) fn unreadable(fault: &serde_json::Error) -> Self {
        let what = if fault.is_data() { "has a wrong or unknown field" } else { "isn't JSON" };
        let message = format!("the body {what} (line {}, column {})", fault.line(), fault.column());
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    pub(crate) fn throttled(retry_after_s: u64) -> Self {
        let message = "too many renders at once; try again later";
        let refusal = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message);
        Self { retry_after_s: Some(retry_after_s), ..refusal }
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "give a known key as a bearer token")
    }

    pub(crate) fn unpaid() -> Self {
        Self::new(StatusCode::PAYMENT_REQUIRED, "payment_required", "the account has no credit left")
    }

    pub(crate) fn moderated() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "content_moderated", "the request breaks the content rules")
    }

    pub(crate) fn unknown_render() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "this account has no such render")
    }

    pub(crate) fn no_endpoint() -> Self {
        Self::new(StatusCode::NOT_FOUND, "no_such_endpoint", "there is nothing at this address")
    }

    pub(crate) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "something broke on our side")
    }

    pub(crate) fn upstream() -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "upstream_error", "something broke between us")
    }

    pub(crate) fn too_large() -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", "the body has more than 256 KiB")
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(param) = self.param {
            error["param"] = param.into();
        }
        let mut response = reply(self.status, &json!({"error": error}));
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// A JSON answer.
pub(crate) fn reply(status: StatusCode, body: &Value) -> Response {
    let json = HeaderValue::from_static("application/json");
    (status, [(CONTENT_TYPE, json)], body.to_string()).into_response()
}
