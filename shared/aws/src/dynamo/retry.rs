//! What an error from DynamoDB means, and when to try again.

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use std::time::Duration;

/// What the caller must do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Not applied, for certain, and worth another try: throttling, a transaction conflict.
    Busy,
    /// Nobody can tell whether it was applied.
    Unknown,
    /// It can't work like this: no such table, no permission, a bad request. Not applied.
    Broken,
}

const BUSY: [&str; 7] = [
    "ThrottlingException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "TransactionConflictException",
    "TransactionInProgressException",
    "LimitExceededException",
    "Throttling",
];

#[allow(clippy::wildcard_enum_match_arm, reason = "the SDK's error may grow; what is new is unknown")]
pub(super) fn trouble<E: ProvideErrorMetadata, R>(error: &SdkError<E, R>) -> Trouble {
    match error {
        SdkError::ServiceError(service) => match service.err().code() {
            Some(code) if BUSY.contains(&code) => Trouble::Busy,
            Some("InternalServerError" | "ServiceUnavailable" | "InternalFailure") | None => Trouble::Unknown,
            Some(_) => Trouble::Broken,
        },
        SdkError::ConstructionFailure(_) => Trouble::Broken,
        // Sent or perhaps sent: a timeout, a reset, an answer that can't be read, and whatever the SDK adds.
        _ => Trouble::Unknown,
    }
}

/// Logs an error that a person must mend, without its contents.
pub(super) fn log<E: ProvideErrorMetadata, R>(operation: &'static str, table: &str, error: &SdkError<E, R>) {
    let code = error.code().unwrap_or("no answer");
    let message = error.message().unwrap_or("the request failed before an answer came");
    tracing::warn!(
        event = "store_error",
        operation,
        table,
        code,
        message,
        "DynamoDB did not do what was asked"
    );
}

/// Tries of a write that the store was too busy for.
pub(super) const BUSY_TRIES: u32 = 8;

/// Waits before the next try: exponential, with full jitter, so that writers that collided don't collide again.
#[allow(clippy::disallowed_methods, reason = "the adapter is where waiting and randomness belong")]
pub(super) async fn pause(attempt: u32) {
    let longest_ms = 10u64 << attempt.min(6);
    let mut bytes = [0u8; 8];
    let _ = getrandom::fill(&mut bytes);
    tokio::time::sleep(Duration::from_millis(u64::from_le_bytes(bytes) % (longest_ms + 1))).await;
}
