//! The body of a submit: constants, the lane's own, a job's params, and what is placed.

use super::api::Call;
use super::pointer::merge;
use super::spec::Format;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::multipart::{Form, Part};
use serde_json::Value;

/// Puts a body together; `None` if params aren't an object. A placeholder without a value leaves its place alone.
pub(crate) fn body(
    call: &Call,
    lane: &Value,
    params: &Value,
    value: &dyn Fn(&str) -> Option<String>,
) -> Option<Value> {
    let mut body = call.body.clone();
    merge(&mut body, lane.clone());
    for (pointer, template) in &call.place {
        if template.whole() == Some("params") {
            match params {
                Value::Null => {}
                Value::Object(_) => pointer.put(&mut body, params.clone()),
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => return None,
            }
        } else if let Some(text) = template.fill(value) {
            pointer.put(&mut body, Value::String(text));
        }
    }
    Some(body)
}

/// A body in its format.
pub(crate) enum Encoded {
    Json(String),
    Multipart(Form),
}

/// Writes a body; `None` if a file in it can't be read.
pub(crate) fn encode(format: Format, body: &Value) -> Option<Encoded> {
    match format {
        Format::Json => Some(Encoded::Json(body.to_string())),
        Format::Multipart => form(body).map(Encoded::Multipart),
    }
}

/// Each member is a part: texts as they are, `data:` addresses as files, everything else as JSON.
fn form(body: &Value) -> Option<Form> {
    let mut form = Form::new();
    for (name, value) in body.as_object()? {
        let part = match value {
            Value::Null => continue,
            Value::String(text) => match text.strip_prefix("data:") {
                Some(rest) => file(name, rest)?,
                None => Part::text(text.clone()),
            },
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                Part::text(value.to_string())
            }
        };
        form = form.part(name.clone(), part);
    }
    Some(form)
}

/// `type;base64,bytes`, the rest of a `data:` address (<https://www.rfc-editor.org/rfc/rfc2397>).
fn file(name: &str, rest: &str) -> Option<Part> {
    let (kind, bytes) = rest.split_once(";base64,")?;
    let bytes = STANDARD.decode(bytes).ok()?;
    Part::bytes(bytes).file_name(name.to_owned()).mime_str(kind).ok()
}
