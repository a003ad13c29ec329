//! The body of `POST /v1/renders`: read, checked, and reduced to what the books keep of it.

use crate::answer::Refusal;
use crate::books::OutputKind;
use crate::picture;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt::Write;

const PROMPT_BYTES: std::ops::RangeInclusive<usize> = 1..=32_768;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    prompt: String,
    #[serde(default)]
    params: Value,
    media: OutputKind,
    reference: String,
    #[serde(default)]
    callback_url: Option<String>,
}

/// A request that can be accepted.
pub(crate) struct RenderCall {
    pub(crate) reference: String,
    pub(crate) media: OutputKind,
    pub(crate) callback_url: Option<String>,
    pub(crate) seed: u64,
    pub(crate) width_px: u32,
    pub(crate) height_px: u32,
    pub(crate) fingerprint: String,
}

impl RenderCall {
    /// Reads and checks a body. Refusals name the field and never quote it.
    ///
    /// # Errors
    /// [`Refusal`] with code `invalid_request`.
    pub(crate) fn read(body: &[u8]) -> Result<Self, Refusal> {
        let body: Body = serde_json::from_slice(body).map_err(|fault| Refusal::unreadable(&fault))?;
        let invalid = |param, rule| Err(Refusal::invalid(param, rule));
        if !PROMPT_BYTES.contains(&body.prompt.len()) {
            return invalid("prompt", "it must have 1 to 32768 bytes");
        }
        if !body.params.is_object() && !body.params.is_null() {
            return invalid("params", "it must be an object or null");
        }
        if !visible(&body.reference, 256) {
            return invalid("reference", "it must be 1 to 256 visible ASCII characters");
        }
        if let Some(url) = &body.callback_url
            && (!visible(url, 2_048) || !(url.starts_with("http://") || url.starts_with("https://")))
        {
            return invalid("callback_url", "it must be an http or https address of at most 2048 characters");
        }
        let (width, height) = picture::DEFAULT_SIZE_PX;
        let width_px = side(&body.params, "width", "params.width", width)?;
        let height_px = side(&body.params, "height", "params.height", height)?;
        let picture = digest(&[&body.prompt, &canonical(&body.params)]);
        let media = if body.media == OutputKind::Image { "image" } else { "video" };
        let callback = body.callback_url.as_deref().unwrap_or_default();
        let whole = digest(&[&body.prompt, &canonical(&body.params), media, &body.reference, callback]);
        let mut seed = [0; 8];
        seed.copy_from_slice(&picture[..8]);
        Ok(Self {
            reference: body.reference,
            media: body.media,
            callback_url: body.callback_url,
            seed: u64::from_be_bytes(seed),
            width_px,
            height_px,
            fingerprint: hex::encode(whole),
        })
    }
}

/// Whether a text is 1 to `most` visible ASCII characters.
pub(crate) fn visible(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn side(params: &Value, name: &str, param: &'static str, default: u32) -> Result<u32, Refusal> {
    let given = match params.get(name) {
        None | Some(Value::Null) => return Ok(default),
        Some(given) => given.as_u64().and_then(|pixels| u32::try_from(pixels).ok()),
    };
    match given {
        Some(pixels) if picture::SIDE_PX.contains(&pixels) => Ok(pixels),
        Some(_) | None => Err(Refusal::invalid(param, "it must be a whole number from 16 to 2048")),
    }
}

/// A digest of texts that differ whenever the list differs.
fn digest(texts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    }
    hash.finalize().into()
}

/// A JSON text that doesn't depend on the order of keys or on white space.
fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            text.push('{');
            for (key, value) in entries {
                // Writing to a String can't fail. A key is written as JSON so that no two maps look the same.
                let _ = write!(text, "{}:", Value::String(key.clone()));
                write_canonical(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(values) => {
            text.push('[');
            for value in values {
                write_canonical(value, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let _ = write!(text, "{value}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(body: &str) -> String {
        RenderCall::read(body.as_bytes()).ok().unwrap().fingerprint
    }

    #[test]
    fn the_order_of_keys_does_not_change_the_fingerprint_but_every_field_does() {
        let base = r#"{"prompt":"p","params":{"a":1,"b":{"c":[1,2]}},"media":"image","reference":"r"}"#;
        let same = r#"{"reference":"r","media":"image", "params":{"b":{"c":[1,2]},"a":1},"prompt":"p"}"#;
        assert_eq!(print(base), print(same));
        for other in [
            base.replace("\"p\"", "\"q\""),
            base.replace("[1,2]", "[2,1]"),
            base.replace("\"image\"", "\"video\""),
            base.replace("\"r\"", "\"s\""),
            base.replace("\"p\",", "\"p\",\"callback_url\":\"http://x/\","),
        ] {
            assert_ne!(print(base), print(&other), "{other}");
        }
    }
}
