//! The sandbox's callbacks: signed over their raw body with the time of sending.

use crate::secret::Secret;
use glassline_protocol::ids::TaskId;
use glassline_protocol::provider::Reference;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::header::HeaderMap;
use serde::Deserialize;
use sha2::Sha256;

const TIMESTAMP_HEADER: &str = "x-sandbox-timestamp";
const SIGNATURE_HEADER: &str = "x-sandbox-signature";
/// How far its time may be from ours, either way, in milliseconds.
const WINDOW_MS: u64 = 300_000;
const BODY_BYTES: usize = 64 * 1024;

/// A callback whose signature is right: a hint that something happened to this task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    /// The provider's id of the render.
    pub task: TaskId,
    /// Our reference.
    pub reference: Reference,
}

/// A callback that can't be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallbackError {
    /// No secret to check it with.
    #[error("the callback can't be checked: no secret is configured; set the provider's callback secret")]
    NoSecret,
    /// A header is missing, there twice, or not in its form.
    #[error("the callback's header `{0}` is missing, there twice or malformed; refuse it")]
    Header(&'static str),
    /// Too old, or from the future.
    #[error("the callback's time is more than five minutes from ours; refuse it and check the clocks")]
    Stale,
    /// Not signed with any of the secrets.
    #[error("the callback's signature is wrong; refuse it")]
    Signature,
    /// The address doesn't carry one of our references with our HMAC.
    #[error("the callback's address isn't one that we gave out; refuse it")]
    Address,
    /// The keys to check it with can't be fetched now.
    #[error("the provider's public keys can't be fetched now; refuse it, the provider will send it again")]
    NoKeys,
    /// The lane's provider sends no callbacks, or none were asked for.
    #[error("this lane takes no callbacks; refuse it, or give the lane a `callback_url`")]
    NotExpected,
    /// Signed, but not in the documented form.
    #[error("the callback is signed but can't be read; refuse it and check the provider's version")]
    Unreadable,
}

#[derive(Deserialize)]
struct Body {
    id: TaskId,
    reference: String,
}

/// Checks a callback: signature over `timestamp.raw body` with any of the secrets (two are valid during a rotation),
/// compared in constant time, then the time, then the body. Empty secrets don't count.
///
/// # Errors
/// [`CallbackError`] says what is wrong with it.
pub fn verify_callback(
    headers: &HeaderMap,
    raw_body: &[u8],
    now_ms: u64,
    secrets: &[Secret],
) -> Result<Callback, CallbackError> {
    if secrets.iter().all(|secret| secret.expose().is_empty()) {
        return Err(CallbackError::NoSecret);
    }
    let timestamp = single(headers, TIMESTAMP_HEADER)?;
    let digits = (1..=12).contains(&timestamp.len()) && timestamp.bytes().all(|byte| byte.is_ascii_digit());
    let sent_s: u64 = match timestamp.parse() {
        Ok(sent_s) if digits => sent_s,
        Ok(_) | Err(_) => return Err(CallbackError::Header(TIMESTAMP_HEADER)),
    };
    let signature = single(headers, SIGNATURE_HEADER)?;
    let signature = hex::decode(signature).map_err(|_| CallbackError::Header(SIGNATURE_HEADER))?;
    // Every secret is tried, whichever of them fits.
    let mut signed = false;
    for secret in secrets.iter().filter(|secret| !secret.expose().is_empty()) {
        signed |= fits(secret, timestamp, raw_body, &signature);
    }
    if !signed {
        return Err(CallbackError::Signature);
    }
    if now_ms.abs_diff(sent_s.saturating_mul(1_000)) > WINDOW_MS {
        return Err(CallbackError::Stale);
    }
    if raw_body.len() > BODY_BYTES {
        return Err(CallbackError::Unreadable);
    }
    let body: Body = serde_json::from_slice(raw_body).map_err(|_| CallbackError::Unreadable)?;
    let reference = reference(&body.reference).ok_or(CallbackError::Unreadable)?;
    Ok(Callback { task: body.id, reference })
}

fn fits(secret: &Secret, timestamp: &str, raw_body: &[u8], signature: &[u8]) -> bool {
    // HMAC takes keys of any length, so there is nothing that could fail.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()) else { return false };
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(raw_body);
    mac.verify_slice(signature).is_ok()
}

fn single<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<&'a str, CallbackError> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().map_err(|_| CallbackError::Header(name)),
        (None, _) | (Some(_), Some(_)) => Err(CallbackError::Header(name)),
    }
}

/// Reads `parent/member/attempt`; only the one text that [`Reference`] itself writes.
pub(crate) fn reference(text: &str) -> Option<Reference> {
    let (job, attempt) = text.rsplit_once('/')?;
    let reference = Reference { job: job.parse().ok()?, attempt: attempt.parse().ok()? };
    (reference.attempt > 0 && reference.to_string() == text).then_some(reference)
}
