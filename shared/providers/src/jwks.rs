//! fal's signatures: Ed25519 with public keys from a JWKS that is kept for a while.
//!
//! <https://fal.ai/docs/documentation/model-apis/inference/webhooks>: the message is request id, user id, timestamp and
//! the SHA-256 of the body in hex, one per line; keys are `OKP` with `x`, and may be kept for a day.

use crate::callback::CallbackError;
use crate::config::{address, this_machine};
use crate::hook::{CallbackRequest, near, seconds, single};
use crate::wire::Wire;
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex, PoisonError};

/// How long keys are kept.
const KEPT_MS: u64 = 3_600_000;
/// Keys that don't fit a signature are asked for again, but not more often than this: forged callbacks cost nothing.
const AGAIN_MS: u64 = 60_000;

const REQUEST: &str = "x-fal-webhook-request-id";
const USER: &str = "x-fal-webhook-user-id";
const TIMESTAMP: &str = "x-fal-webhook-timestamp";
const SIGNATURE: &str = "x-fal-webhook-signature";

/// The keys of one address.
#[derive(Clone)]
pub(crate) struct Keys {
    url: Url,
    kept: Arc<Mutex<Option<Kept>>>,
}

#[derive(Clone)]
struct Kept {
    keys: Vec<Vec<u8>>,
    at_ms: u64,
}

#[derive(Deserialize)]
struct Jwks {
    keys: Vec<Jwk>,
}

#[derive(Deserialize)]
struct Jwk {
    #[serde(default)]
    kty: String,
    #[serde(default)]
    crv: Option<String>,
    #[serde(default)]
    x: String,
}

impl Keys {
    /// Keys at an address; `None` unless it is https, or http on this machine.
    pub(crate) fn new(wire: &Wire, url: &str) -> Option<Self> {
        let url = address(url)?;
        let fits = url.scheme() == "https" || this_machine(&url) || wire.base.scheme() == "http";
        fits.then(|| Self { url, kept: Arc::default() })
    }

    /// Checks the signature, then the time.
    pub(crate) async fn verify(
        &self,
        wire: &Wire,
        request: &CallbackRequest<'_>,
    ) -> Result<(), CallbackError> {
        let (id, user) = (single(request.headers, REQUEST)?, single(request.headers, USER)?);
        let (timestamp, sent_s) = seconds(request.headers, TIMESTAMP)?;
        let signature = single(request.headers, SIGNATURE)?;
        let signature = hex::decode(signature).map_err(|_| CallbackError::Header(SIGNATURE))?;
        // A stale one is refused before keys are fetched for it.
        near(request.now_ms, sent_s)?;
        let message = format!("{id}\n{user}\n{timestamp}\n{}", hex::encode(Sha256::digest(request.body)));
        let fits = |kept: &Kept| {
            let valid = |key: &Vec<u8>| {
                UnparsedPublicKey::new(&ED25519, key).verify(message.as_bytes(), &signature).is_ok()
            };
            kept.keys.iter().any(valid)
        };
        let kept = self.kept();
        let age_ms = kept.as_ref().map(|kept| request.now_ms.abs_diff(kept.at_ms));
        if let Some(kept) = kept.filter(|_| age_ms.is_some_and(|age_ms| age_ms < KEPT_MS)) {
            if fits(&kept) {
                return Ok(());
            }
            if age_ms.is_some_and(|age_ms| age_ms < AGAIN_MS) {
                return Err(CallbackError::Signature);
            }
        }
        let fresh = self.fetch(wire, request.now_ms).await?;
        if fits(&fresh) { Ok(()) } else { Err(CallbackError::Signature) }
    }

    fn kept(&self) -> Option<Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn fetch(&self, wire: &Wire, now_ms: u64) -> Result<Kept, CallbackError> {
        // Without the account's key: this address is another host's.
        let request = wire.clients.query.request(Method::GET, self.url.clone());
        let answer = wire.query(request, "jwks").await.ok_or(CallbackError::NoKeys)?;
        let told = (answer.status == StatusCode::OK).then(|| wire.read::<Jwks>(&answer, "jwks")).flatten();
        let keys: Vec<Vec<u8>> = told
            .ok_or(CallbackError::NoKeys)?
            .keys
            .into_iter()
            .take(32)
            .filter(|key| key.kty == "OKP" && key.crv.as_deref().is_none_or(|crv| crv == "Ed25519"))
            .filter_map(|key| URL_SAFE_NO_PAD.decode(key.x.trim_end_matches('=')).ok())
            .filter(|key| key.len() == 32)
            .collect();
        if keys.is_empty() {
            return Err(CallbackError::NoKeys);
        }
        let kept = Kept { keys, at_ms: now_ms };
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept.clone());
        Ok(kept)
    }
}
