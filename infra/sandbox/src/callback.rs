//! Callbacks: sent when a render has ended, signed, and tried again until they are taken or given up.

use crate::config::AccountConfig;
use crate::faults::FaultKind;
use crate::state::Shared;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;
use std::sync::Arc;
use std::time::Duration;

/// The header with the time of sending, in whole seconds since the epoch.
pub const TIMESTAMP_HEADER: &str = "x-sandbox-timestamp";
/// The header with the signature: HMAC-SHA256 over `timestamp.raw body`, in lower-case hex.
pub const SIGNATURE_HEADER: &str = "x-sandbox-signature";

/// Signs a callback's body as the sandbox does.
#[must_use]
pub fn sign_callback(secret: &str, timestamp_s: u64, body: &[u8]) -> String {
    // HMAC takes keys of any length, so there is nothing that could fail.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return String::new() };
    mac.update(format!("{timestamp_s}.").as_bytes());
    mac.update(body);
    hex::encode(mac.finalize().into_bytes())
}

/// Waits for the end of a render and sends its callback, if one is asked for. A cancelled render's waiter finds it
/// called back, or not owing, and sends nothing.
pub(crate) fn schedule(shared: &Arc<Shared>, id: String) {
    let shared = Arc::clone(shared);
    let mut stopped = shared.stopped();
    tokio::spawn(async move {
        tokio::select! {
            () = wait_and_send(&shared, &id) => {}
            // What is owed is sent by the next server on the same books.
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
    });
}

async fn wait_and_send(shared: &Shared, id: &str) {
    let Some((account, wait_ms)) = due(shared, id) else { return };
    if let Some(wait_ms) = wait_ms {
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
    }
    let Some(call) = claim(shared, id) else { return };
    deliver(shared, &account, &call).await;
    shared.lock().called_back(id);
}

struct Call {
    id: String,
    url: String,
    reference: String,
    body: String,
}

/// The account and the wait until the render ends; nothing when it will never end by itself or owes no callback.
fn due(shared: &Shared, id: &str) -> Option<(Arc<AccountConfig>, Option<u64>)> {
    let inner = shared.lock();
    let render = inner.books.any(id)?;
    let account = shared.account_named(&render.account)?;
    if !account.callbacks || render.callback_url.is_none() || render.called_back {
        return None;
    }
    let now_ms = shared.now_ms();
    if render.state(now_ms).ended() {
        return Some((account, None));
    }
    if !render.state(u64::MAX).ended() {
        return None;
    }
    Some((account, Some(render.finish_ms.saturating_sub(now_ms))))
}

/// The callback to send now: only one of the waiters gets it.
fn claim(shared: &Shared, id: &str) -> Option<Call> {
    let mut inner = shared.lock();
    // Judged at its end at the earliest, so that a test's clock that stands still can't swallow the callback.
    let now_ms = shared.now_ms();
    let render = inner.books.any_mut(id).filter(|render| !render.called_back)?;
    let state = render.state(now_ms.max(render.finish_ms));
    render.called_back = true;
    let ended_ms = render.cancelled_ms.unwrap_or(render.finish_ms);
    let body =
        json!({"id": render.id, "reference": render.reference, "status": state.word(), "ended_ms": ended_ms});
    Some(Call {
        id: id.to_owned(),
        url: render.callback_url.clone()?,
        reference: render.reference.clone(),
        body: body.to_string(),
    })
}

async fn deliver(shared: &Shared, account: &AccountConfig, call: &Call) {
    let twice = {
        let mut inner = shared.lock();
        inner.faults.fire(&account.name, &call.reference, &[FaultKind::DuplicateCallbacks]).is_some()
    };
    let mut wait_ms = account.callback_retry_ms;
    for attempt in 0..=account.callback_retries {
        let taken = send(shared, account, call).await;
        if taken && twice {
            send(shared, account, call).await;
        }
        if taken {
            return;
        }
        if attempt < account.callback_retries {
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            wait_ms = wait_ms.saturating_mul(2);
        }
    }
    tracing::warn!(event = "sandbox_callback_given_up", render = call.id);
}

async fn send(shared: &Shared, account: &AccountConfig, call: &Call) -> bool {
    let timestamp_s = shared.now_ms() / 1_000;
    let signature = sign_callback(account.callback_key(), timestamp_s, call.body.as_bytes());
    if let Some(render) = shared.lock().books.any_mut(&call.id) {
        render.callbacks_sent += 1;
    }
    let request = shared
        .client
        .post(&call.url)
        .header("content-type", "application/json")
        .header(TIMESTAMP_HEADER, timestamp_s)
        .header(SIGNATURE_HEADER, signature)
        .body(call.body.clone());
    request.send().await.is_ok_and(|answer| answer.status().is_success())
}
