//! Bodies from outside: a JSON object, or a JSON string that holds one. Everything else is refused before anything
//! happens.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Largest body read, in bytes: SQS's own limit for a message.
pub const MAX_BODY_BYTES: usize = 1_048_576;

/// A body that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBody {
    /// Too large.
    #[error("the body has {0} bytes; at most {MAX_BODY_BYTES} are read")]
    TooLarge(usize),
    /// Not JSON.
    #[error("the body isn't JSON: {0}")]
    NotJson(String),
    /// JSON of another shape.
    #[error("the body is {0}; send an object, or a string holding one")]
    NotAnObject(&'static str),
    /// An object whose fields don't fit.
    #[error("the body doesn't fit: {0}")]
    Fields(String),
    /// A message of a version that this code doesn't know yet: to be tried again later, by newer code.
    #[error("the message has version {0}, and this function knows up to {known}; it is left for newer code", known = crate::message::VERSION)]
    Newer(u64),
}

/// What kind of value a refused body is, for the refusal's sentence. Never its contents.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Reads a body as an object.
///
/// # Errors
/// [`BadBody`] when it is too large, isn't JSON, or is neither an object nor a string holding one (a string within a
/// string is refused).
pub fn object(text: &str) -> Result<Map<String, Value>, BadBody> {
    if text.len() > MAX_BODY_BYTES {
        return Err(BadBody::TooLarge(text.len()));
    }
    let not_json = |error: serde_json::Error| BadBody::NotJson(position(&error));
    match serde_json::from_str(text).map_err(not_json)? {
        Value::Object(object) => Ok(object),
        Value::String(inner) => match serde_json::from_str(&inner).map_err(not_json)? {
            Value::Object(object) => Ok(object),
            Value::String(_) => Err(BadBody::NotAnObject("a string within a string")),
            other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
                Err(BadBody::NotAnObject(kind(&other)))
            }
        },
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
            Err(BadBody::NotAnObject(kind(&other)))
        }
    }
}

/// Where JSON ends to be JSON, without quoting what stands there: a body may hold prompts.
fn position(error: &serde_json::Error) -> String {
    format!("it stops making sense at line {}, column {}", error.line(), error.column())
}

/// Reads an object into a type.
///
/// # Errors
/// [`BadBody::Fields`] naming the field and what was expected there, never what stood there.
pub fn fields<T: DeserializeOwned>(object: Map<String, Value>) -> Result<T, BadBody> {
    serde_path_to_error::deserialize(Value::Object(object)).map_err(|error| {
        let (place, what) = (error.path().to_string(), unquoted(&error.inner().to_string()));
        let shown = place.split(['.', '[', ']']).all(|part| part.is_empty() || is_word(part)) && place != ".";
        BadBody::Fields(if shown { format!("`{place}`: {what}") } else { what })
    })
}

/// Whether a name may be shown: a short plain word. Another may hold anything, a prompt included.
fn is_word(name: &str) -> bool {
    (1..=40).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The sentence of a reader's error without the values that it quotes. What is kept is what the reader itself says, at
/// the sentence's known end, after the last word that could have come from outside.
fn unquoted(sentence: &str) -> String {
    for fault in ["missing field", "unknown field", "duplicate field"] {
        let Some(rest) = sentence.strip_prefix(fault).and_then(|rest| rest.strip_prefix(" `")) else {
            continue;
        };
        let name = rest.split('`').next().unwrap_or_default();
        return if is_word(name) { format!("{fault} `{name}`") } else { fault.to_owned() };
    }
    if ["invalid ", "unknown variant "].iter().any(|start| sentence.starts_with(start)) {
        return match sentence.rsplit_once(", expected ") {
            Some((_, expected)) => format!("the value doesn't fit; expected {expected}"),
            None => "the value doesn't fit".into(),
        };
    }
    // A name of ours: what it is, the value, the rule.
    match (sentence.split_once(" `"), sentence.rsplit_once("` is not valid: ")) {
        (Some((what, _)), Some((_, rule))) => format!("the {what} is not valid: {rule}"),
        (None | Some(_), _) => "the value doesn't fit".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_strings_holding_one_pass() {
        for good in [r#"{"a":1}"#, r#""{\"a\":1}""#, " \n{} "] {
            assert!(object(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn every_other_shape_is_refused_by_kind() {
        for (bad, kind) in [
            ("[{}]", "an array"),
            ("3", "a number"),
            ("null", "null"),
            ("true", "a boolean"),
            (r#""[1]""#, "an array"),
            (r#""null""#, "null"),
            (r#""\"{}\"""#, "a string within a string"),
        ] {
            assert_eq!(object(bad), Err(BadBody::NotAnObject(kind)), "{bad}");
        }
        assert!(matches!(object(""), Err(BadBody::NotJson(_))));
        assert!(matches!(object("{\"a\":"), Err(BadBody::NotJson(_))));
        assert!(matches!(object("\"not an object\""), Err(BadBody::NotJson(_))));
    }

    #[test]
    fn a_body_of_a_megabyte_is_read_and_one_byte_more_is_not() {
        let body = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
        assert!(object(&body(MAX_BODY_BYTES)).is_ok());
        assert_eq!(object(&body(MAX_BODY_BYTES + 1)), Err(BadBody::TooLarge(MAX_BODY_BYTES + 1)));
    }

    #[test]
    fn a_refusal_never_quotes_the_body() {
        let error = object("{\"prompt\": secret words}").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
