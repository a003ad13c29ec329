//! Callbacks of vendors: an address that carries our reference and its HMAC, and the signature of the Standard Webhooks.
//!
//! A callback is a hint: whatever it says, the provider is asked before anything is believed.

use crate::callback::CallbackError;
use crate::secret::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glassline_protocol::ids::LaneName;
use glassline_protocol::provider::Reference;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::Url;
use reqwest::header::HeaderMap;
use sha2::Sha256;

/// How far a callback's time may be from ours, either way, in milliseconds.
pub(crate) const WINDOW_MS: u64 = 300_000;

/// The longest callback that is read, in bytes: some carry the render's whole input.
pub(crate) const BODY_BYTES: usize = 1024 * 1024;

/// A callback as it came in.
#[derive(Clone, Copy)]
pub struct CallbackRequest<'a> {
    /// The query of its address, as sent (without the `?`); empty if there was none.
    pub query: &'a str,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// Its body, byte for byte.
    pub body: &'a [u8],
    /// Now, in epoch milliseconds.
    pub now_ms: u64,
}

impl std::fmt::Debug for CallbackRequest<'_> {
    /// Without what it carries.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallbackRequest").field("now_ms", &self.now_ms).finish_non_exhaustive()
    }
}

/// Where a lane's callbacks come in.
#[derive(Clone)]
pub(crate) struct Hook {
    base: Url,
    lane: LaneName,
    secrets: Vec<Secret>,
}

impl Hook {
    pub(crate) fn new(base: Url, lane: LaneName, secrets: Vec<Secret>) -> Self {
        Self { base, lane, secrets }
    }

    /// The address to give a provider with a submit. It is the same for the same reference until the secrets change.
    pub(crate) fn address(&self, reference: &Reference) -> Option<Url> {
        let name = reference.to_string();
        let mac = mac_of(self.secrets.first()?, &self.lane, &name)?;
        let mut url = self.base.clone();
        let mac = hex::encode(mac.finalize().into_bytes());
        url.query_pairs_mut().append_pair("reference", &name).append_pair("mac", &mac);
        Some(url)
    }

    /// Whether an address that a provider shows is the one for this reference, under any of the secrets.
    pub(crate) fn is_for(&self, address: &str, reference: &Reference) -> bool {
        let Ok(url) = Url::parse(address) else { return false };
        let mut own = url.clone();
        own.set_query(None);
        own == self.base && self.reference(url.query().unwrap_or_default()).as_ref() == Ok(reference)
    }

    /// The reference that a callback's address carries, if its HMAC is ours.
    pub(crate) fn reference(&self, query: &str) -> Result<Reference, CallbackError> {
        let bad = CallbackError::Address;
        let (mut name, mut mac) = (None, None);
        for (key, value) in reqwest_pairs(query) {
            let place = match key.as_str() {
                "reference" => &mut name,
                "mac" => &mut mac,
                _ => continue,
            };
            if place.replace(value).is_some() {
                return Err(bad);
            }
        }
        let (name, mac) = (name.ok_or(bad)?, hex::decode(mac.ok_or(bad)?).map_err(|_| bad)?);
        // Every secret is tried, whichever of them fits.
        let mut signed = false;
        for secret in &self.secrets {
            signed |= mac_of(secret, &self.lane, &name).is_some_and(|own| own.verify_slice(&mac).is_ok());
        }
        if !signed {
            return Err(bad);
        }
        crate::callback::reference(&name).ok_or(bad)
    }
}

/// The pairs of a query, decoded as forms are.
fn reqwest_pairs(query: &str) -> Vec<(String, String)> {
    let Ok(mut url) = Url::parse("http://query.invalid/") else { return Vec::new() };
    url.set_query(Some(query));
    url.query_pairs().take(16).map(|(key, value)| (key.into_owned(), value.into_owned())).collect()
}

fn mac_of(secret: &Secret, lane: &LaneName, name: &str) -> Option<Hmac<Sha256>> {
    // HMAC takes keys of any length, so this is always `Some`; a `None` would refuse, never accept.
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()).ok()?;
    mac.update(b"glassline-callback-1\n");
    mac.update(lane.as_str().as_bytes());
    mac.update(b"\n");
    mac.update(name.as_bytes());
    Some(mac)
}

/// The value of a header that must be there exactly once.
pub(crate) fn single<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<&'a str, CallbackError> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().map_err(|_| CallbackError::Header(name)),
        (None, _) | (Some(_), Some(_)) => Err(CallbackError::Header(name)),
    }
}

/// Reads a time in whole seconds as it stands in a header, and checks that it is near; its text and its value.
pub(crate) fn seconds<'a>(
    headers: &'a HeaderMap,
    name: &'static str,
) -> Result<(&'a str, u64), CallbackError> {
    let text = single(headers, name)?;
    let digits = (1..=12).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(value) if digits => Ok((text, value)),
        Ok(_) | Err(_) => Err(CallbackError::Header(name)),
    }
}

/// Whether a time in seconds is within the window around now.
pub(crate) fn near(now_ms: u64, sent_s: u64) -> Result<(), CallbackError> {
    if now_ms.abs_diff(sent_s.saturating_mul(1_000)) > WINDOW_MS { Err(CallbackError::Stale) } else { Ok(()) }
}

/// The key of a Standard Webhooks secret: base64, after `whsec_` if it has that.
pub(crate) fn webhook_key(secret: &Secret) -> Option<Vec<u8>> {
    let text = secret.expose();
    let key = STANDARD.decode(text.strip_prefix("whsec_").unwrap_or(text)).ok()?;
    (!key.is_empty()).then_some(key)
}

/// Checks a signature as the Standard Webhooks have it: HMAC-SHA256 over `id.timestamp.body`, any of the `v1` signatures
/// listed, under any of the keys, compared in constant time; then the time.
/// <https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>
pub(crate) fn standard_webhook(request: &CallbackRequest<'_>, keys: &[Vec<u8>]) -> Result<(), CallbackError> {
    const SIGNATURE: &str = "webhook-signature";
    if keys.is_empty() {
        return Err(CallbackError::NoSecret);
    }
    let id = single(request.headers, "webhook-id")?;
    let (timestamp, sent_s) = seconds(request.headers, "webhook-timestamp")?;
    let listed = single(request.headers, SIGNATURE)?;
    let given: Vec<Vec<u8>> = listed
        .split(' ')
        .take(16)
        .filter_map(|one| one.strip_prefix("v1,"))
        .filter_map(|text| STANDARD.decode(text).ok())
        .collect();
    let mut signed = false;
    for key in keys {
        for signature in &given {
            let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { continue };
            for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", request.body] {
                mac.update(part);
            }
            signed |= mac.verify_slice(signature).is_ok();
        }
    }
    if !signed {
        return Err(CallbackError::Signature);
    }
    near(request.now_ms, sent_s)
}
