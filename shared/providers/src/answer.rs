//! What answers mean, as far as providers agree on it.
#![allow(clippy::disallowed_methods, reason = "an HTTP date in Retry-After is wall-clock time")]

use crate::client::Answer;
use crate::text;
use glassline_protocol::provider::{ErrorClass, Output, Submit, TaskState};
use reqwest::header::RETRY_AFTER;
use reqwest::{StatusCode, Url};
use std::time::{SystemTime, UNIX_EPOCH};

/// The longest address of an output, in bytes.
const ADDRESS_BYTES: usize = 8_192;

/// What a refused submit with this status is, where the provider says no more about it. Only statuses that a server
/// gives instead of taking a request are here (<https://www.rfc-editor.org/rfc/rfc9110#name-client-error-4xx>): 408, 409,
/// 425 and every 5xx say nothing about what became of it. A path or model that doesn't exist is a fault of the lane and
/// not of one job, so it pauses the lane as bad credentials do.
pub(crate) fn refusal(status: StatusCode) -> Option<(ErrorClass, &'static str)> {
    match status.as_u16() {
        400 | 406 | 411 | 414 | 415 | 422 => {
            Some((ErrorClass::InvalidInput, "the provider can't read or use the request"))
        }
        401 | 403 => Some((ErrorClass::Unauthorized, "the provider refused the API key")),
        402 => Some((ErrorClass::PaymentRequired, "the provider account has no credit left")),
        404 | 405 | 410 => Some((
            ErrorClass::Unauthorized,
            "the provider doesn't know this address or model; correct the lane's configuration",
        )),
        413 => Some((ErrorClass::InvalidInput, "the request is too large for the provider")),
        429 => Some((ErrorClass::Throttled, "the provider has too many requests of this account")),
        _ => None,
    }
}

/// One sentence for a class, for a submit that was refused for a documented reason.
pub(crate) const fn refused_as(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::Throttled => "the provider has too many requests of this account",
        ErrorClass::Transient => "the provider could not take the request",
        ErrorClass::InvalidInput => "the provider can't read or use the request",
        ErrorClass::Moderated => "the provider's moderation refused the request",
        ErrorClass::PaymentRequired => "the provider account has no credit left",
        ErrorClass::Unauthorized => "the provider refused the API key",
        ErrorClass::BadOutput => "the provider could not make the output",
    }
}

/// One sentence for a class, for a task that failed.
const fn failed_as(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::Throttled => "the provider gave the render up for want of capacity",
        ErrorClass::Transient => "the render failed at the provider",
        ErrorClass::InvalidInput => "the provider can't render this request",
        ErrorClass::Moderated => "the provider's moderation refused the render",
        ErrorClass::PaymentRequired => "the provider account has no credit left for the render",
        ErrorClass::Unauthorized => "the provider account may not make this render",
        ErrorClass::BadOutput => "the provider's own check refused the output",
    }
}

/// A failed task, with the provider's own code when it is a plain word.
pub(crate) fn failed(class: ErrorClass, code: Option<&str>) -> TaskState {
    let sentence = failed_as(class);
    let reason = match code.filter(|code| !code.is_empty()) {
        Some(code) => format!("{sentence} (code `{}`)", text::word(code)),
        None => sentence.to_owned(),
    };
    TaskState::Failed { class, reason }
}

/// A submit that was provably not accepted.
pub(crate) fn rejected(class: ErrorClass, reason: &str, retry_after_ms: Option<u64>) -> Submit {
    Submit::Rejected { class, retry_after_ms, reason: reason.to_owned() }
}

/// The wait that an answer asks for in its `Retry-After`, in milliseconds.
pub(crate) fn retry_after_ms(answer: &Answer) -> Option<u64> {
    let value = answer.headers.get(RETRY_AFTER)?.to_str().ok()?;
    text::retry_after_ms(value, epoch_ms())
}

/// Outputs in the order in which they expire; those that never do come last.
pub(crate) fn completed(mut outputs: Vec<Output>) -> TaskState {
    outputs.retain(|output| usable(&output.url));
    if outputs.is_empty() {
        let reason = "the render succeeded but the provider has no output of it (any more)".to_owned();
        return TaskState::Failed { class: ErrorClass::BadOutput, reason };
    }
    outputs.sort_by_key(|output| output.expires_ms.unwrap_or(u64::MAX));
    TaskState::Completed(outputs)
}

/// Whether a text is an address that an output may have.
pub(crate) fn usable(address: &str) -> bool {
    let scheme = |url: Url| matches!(url.scheme(), "http" | "https" | "s3") && url.has_host();
    address.len() <= ADDRESS_BYTES && Url::parse(address).is_ok_and(scheme)
}

/// Now, in epoch milliseconds.
pub(crate) fn epoch_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A time as providers write it: RFC 3339, in epoch milliseconds. Times before 1970 are none.
pub(crate) fn rfc3339_ms(text: &str) -> Option<u64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

/// The same, written. Times that no calendar has are none.
pub(crate) fn to_rfc3339(epoch_ms: u64) -> Option<String> {
    let time = jiff::Timestamp::from_millisecond(i64::try_from(epoch_ms).ok()?).ok()?;
    Some(time.to_string())
}
