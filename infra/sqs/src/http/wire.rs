//! The JSON of requests and answers. Field names are those of the SQS API reference
//! (<https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_Operations.html>).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::address::queue_of_url;
use crate::error::SqsError;
use crate::types::{AttributeValue, MessageAttribute};

/// An answer without content.
#[derive(Serialize)]
pub(super) struct Empty {}

/// The body of an error.
pub(super) fn error_body(error: &SqsError) -> Vec<u8> {
    let shape = error.wire().shape;
    // Shapes of the service's model are in its namespace, those of the protocol's framework in its own.
    let namespace = match shape.ends_with("Exception") && shape != "ResourceNotFoundException" {
        true => "com.amazon.coral.service",
        false => "com.amazonaws.sqs",
    };
    let body = serde_json::json!({ "__type": format!("{namespace}#{shape}"), "message": error.to_string() });
    body.to_string().into_bytes()
}

/// A parameter that must be there.
pub(super) fn required<T>(value: Option<T>, name: &'static str) -> Result<T, SqsError> {
    value.ok_or(SqsError::MissingParameter { name })
}

/// The queue of a `QueueUrl` parameter.
pub(super) fn queue(url: Option<String>) -> Result<String, SqsError> {
    queue_of_url(&required(url, "QueueUrl")?)
}

/// A parameter in seconds as milliseconds; its upper limit is checked where it is used.
pub(super) fn milliseconds(value: i64, name: &str) -> Result<u64, SqsError> {
    let seconds = u64::try_from(value).map_err(|_| {
        SqsError::parameter(format!("Value {value} for parameter {name} is invalid. Reason: Must be >= 0."))
    })?;
    Ok(seconds.saturating_mul(1_000))
}

/// An entry of a batch that failed.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct FailedEntry {
    id: String,
    sender_fault: bool,
    code: &'static str,
    message: String,
}

impl FailedEntry {
    pub(super) fn new(id: String, error: &SqsError) -> Self {
        Self { id, sender_fault: error.is_sender_fault(), code: error.code(), message: error.to_string() }
    }

    /// An entry refused by an injected fault.
    pub(super) fn injected(id: String) -> Self {
        let message = "The entry was refused on purpose (fault injection); repeat it.".to_owned();
        Self { id, sender_fault: false, code: "InternalError", message }
    }
}

/// The answer to a batch.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct BatchResult<T> {
    pub successful: Vec<T>,
    /// Left out where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedEntry>,
}

/// An entry of a delete or visibility batch that succeeded.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct DoneEntry {
    pub id: String,
}

/// A message attribute on the wire.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct WireAttribute {
    #[serde(skip_serializing_if = "Option::is_none")]
    string_value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    binary_value: Option<String>,
    #[serde(skip_serializing)]
    string_list_values: Option<Vec<String>>,
    #[serde(skip_serializing)]
    binary_list_values: Option<Vec<String>>,
    data_type: Option<String>,
}

impl From<&MessageAttribute> for WireAttribute {
    fn from(attribute: &MessageAttribute) -> Self {
        let data_type = Some(attribute.data_type.clone());
        match &attribute.value {
            AttributeValue::Text(text) => {
                Self { string_value: Some(text.clone()), data_type, ..Self::default() }
            }
            AttributeValue::Binary(bytes) => {
                Self { binary_value: Some(STANDARD.encode(bytes)), data_type, ..Self::default() }
            }
        }
    }
}

/// Attributes by name, in any JSON object.
pub(super) type WireAttributes = BTreeMap<String, WireAttribute>;

/// Reads attributes. What they may hold is checked with the message.
pub(super) fn attributes(
    wire: Option<WireAttributes>,
) -> Result<BTreeMap<String, MessageAttribute>, SqsError> {
    let wire = wire.unwrap_or_default();
    wire.into_iter().map(|(name, attribute)| Ok((name.clone(), read_attribute(&name, attribute)?))).collect()
}

fn read_attribute(name: &str, wire: WireAttribute) -> Result<MessageAttribute, SqsError> {
    let lists = [wire.string_list_values, wire.binary_list_values];
    if lists.iter().flatten().any(|list| !list.is_empty()) {
        return Err(SqsError::parameter(
            "Message attribute list values in SendMessage operation are not supported.",
        ));
    }
    let data_type = wire.data_type.unwrap_or_default();
    let value = match (wire.string_value, wire.binary_value) {
        (Some(text), None) => AttributeValue::Text(text),
        (None, Some(encoded)) => AttributeValue::Binary(
            STANDARD
                .decode(encoded)
                .map_err(|_| SqsError::Serialization { detail: "a BinaryValue is not Base64".to_owned() })?,
        ),
        (None, None) | (Some(_), Some(_)) => {
            return Err(SqsError::parameter(format!(
                "Message (user) attribute '{name}' must contain exactly one value, of its type."
            )));
        }
    };
    Ok(MessageAttribute { data_type, value })
}
