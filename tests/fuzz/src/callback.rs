//! Callbacks of providers: forged ones, and ones that are signed and hold anything.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt as _;
use glassline_protocol::ids::LaneName;
use glassline_providers::{Callback, CallbackError, CallbackRequest, Providers, Secret, verify_callback};
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use sha2::Sha256;
use std::sync::LazyLock;

const NOW_MS: u64 = 1_800_000_000_000;
const SENT_S: &str = "1800000000";
const OUR_SECRET: &str = "our own callback secret";
const SANDBOX_SECRET: &str = "the sandbox's callback secret";
/// The example of the Standard Webhooks.
const WEBHOOK_KEY: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const REFERENCE: &str = "POST#p1/SHOT#s1/1";

static PROVIDERS: LazyLock<Providers> = LazyLock::new(|| {
    let hooked = |adapter: &str, own: serde_json::Value| {
        let mut lane = json!({"adapter": adapter, "base_url": "https://api.example", "api_key": "id:key",
            "callback_url": "https://hooks.example/callback", "callback_secrets": [OUR_SECRET]});
        lane.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        lane
    };
    let lanes = json!({
        "replicate": hooked("replicate", json!({"model": "owner/name", "settle_ms": 60_000,
            "webhook_secrets": [format!("whsec_{WEBHOOK_KEY}")]})),
        "higgsfield": hooked("generic", json!({"api": "higgsfield", "options": {"model": "a/b/c"}})),
    });
    Providers::from_config_with(serde_json::from_value(lanes).unwrap(), &|_| None).unwrap()
});

fn mac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

fn headers(pairs: &[(&'static str, &[u8])]) -> HeaderMap {
    let pairs = pairs.iter().filter_map(|(name, value)| {
        Some((HeaderName::from_static(name), HeaderValue::from_bytes(value).ok()?))
    });
    pairs.collect()
}

fn told(lane: &str, query: &str, headers: &HeaderMap, body: &[u8]) -> Result<Callback, CallbackError> {
    let request = CallbackRequest { query, headers, body, now_ms: NOW_MS };
    // Neither of these vendors' keys is fetched, so nothing is waited for.
    PROVIDERS.callback(&LaneName::new(lane).unwrap(), &request).now_or_never().unwrap()
}

/// The bytes as a body, as a query and as headers: nothing is believed that isn't signed, and whatever a signed body
/// holds, it speaks of the reference in its address alone.
pub fn callback(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let raw = headers(&[
        ("webhook-id", data),
        ("webhook-timestamp", SENT_S.as_bytes()),
        ("webhook-signature", data),
        ("x-sandbox-timestamp", SENT_S.as_bytes()),
        ("x-sandbox-signature", data),
    ]);
    for lane in ["replicate", "higgsfield"] {
        assert!(told(lane, &text, &raw, data).is_err(), "{lane} believes what nobody signed");
        let name = [b"glassline-callback-1\n", lane.as_bytes(), b"\n", REFERENCE.as_bytes()];
        let own = hex::encode(mac(OUR_SECRET.as_bytes(), &name.map(|part: &[u8]| part)));
        let query = format!("reference={}&mac={own}", REFERENCE.replace('#', "%23"));
        let parts: [&[u8]; 5] = [b"m1", b".", SENT_S.as_bytes(), b".", data];
        let signature =
            format!("v1,{}", STANDARD.encode(mac(&STANDARD.decode(WEBHOOK_KEY).unwrap(), &parts)));
        let signed = headers(&[
            ("webhook-id", b"m1"),
            ("webhook-timestamp", SENT_S.as_bytes()),
            ("webhook-signature", signature.as_bytes()),
        ]);
        match told(lane, &query, &signed, data) {
            Ok(callback) => assert_eq!(callback.reference.to_string(), REFERENCE, "{lane}"),
            Err(error) => assert_eq!(error, CallbackError::Unreadable, "{lane}: it is signed and fresh"),
        }
    }
    let secrets = [Secret::new(SANDBOX_SECRET)];
    assert!(verify_callback(&raw, data, NOW_MS, &secrets).is_err(), "the sandbox's is believed unsigned");
    let signature = hex::encode(mac(SANDBOX_SECRET.as_bytes(), &[SENT_S.as_bytes(), b".", data]));
    let signed =
        headers(&[("x-sandbox-timestamp", SENT_S.as_bytes()), ("x-sandbox-signature", signature.as_bytes())]);
    match verify_callback(&signed, data, NOW_MS, &secrets) {
        Ok(_) => {}
        Err(error) => assert_eq!(error, CallbackError::Unreadable, "it is signed and fresh"),
    }
}
