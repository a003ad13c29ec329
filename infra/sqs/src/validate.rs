//! Whether what callers give is what SQS accepts.

use std::collections::BTreeMap;

use crate::checksum;
use crate::error::SqsError;
use crate::limits;
use crate::types::{AttributeValue, MessageAttribute, Outgoing};

/// A message whose own parts are all valid, with what is computed from them off the store's thread.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub outgoing: Outgoing,
    pub size_bytes: usize,
    pub md5_of_body: String,
    pub md5_of_attributes: Option<String>,
    pub md5_of_system_attributes: Option<String>,
    /// The message attributes as the store keeps them.
    pub attributes_json: Option<String>,
}

/// Checks a message by itself; what depends on its queue is checked where the queue is known.
///
/// # Errors
/// `MissingParameter`, `InvalidMessageContents`, `InvalidParameterValue`.
pub(crate) fn prepare(outgoing: Outgoing) -> Result<Prepared, SqsError> {
    if outgoing.body.is_empty() {
        return Err(SqsError::MissingParameter { name: "MessageBody" });
    }
    if let Some(delay_ms) = outgoing.delay_ms {
        check_delay(delay_ms)?;
    }
    let size_bytes = size_bytes(&outgoing);
    check_size(size_bytes, limits::MAX_MESSAGE_BYTES)?;
    check_characters("the message body", &outgoing.body)?;
    check_attributes(&outgoing.message_attributes)?;
    check_group_id("MessageGroupId", outgoing.group_id.as_deref())?;
    check_group_id("MessageDeduplicationId", outgoing.deduplication_id.as_deref())?;
    if let Some(trace) = &outgoing.trace_header {
        check_value("Message (system) attribute", "AWSTraceHeader", trace)?;
    }
    let attributes_json = match outgoing.message_attributes.is_empty() {
        true => None,
        false => Some(serde_json::to_string(&outgoing.message_attributes).map_err(store_error)?),
    };
    Ok(Prepared {
        size_bytes,
        md5_of_body: checksum::md5_hex(outgoing.body.as_bytes()),
        md5_of_attributes: checksum::md5_of_attributes(&outgoing.message_attributes),
        md5_of_system_attributes: outgoing.trace_header.as_ref().and_then(|trace| {
            let value = AttributeValue::Text(trace.clone());
            let header = MessageAttribute { data_type: "String".to_owned(), value };
            checksum::md5_of_attributes(&BTreeMap::from([("AWSTraceHeader".to_owned(), header)]))
        }),
        attributes_json,
        outgoing,
    })
}

pub(crate) fn store_error(error: serde_json::Error) -> SqsError {
    SqsError::Storage { detail: format!("stored JSON: {error}") }
}

/// What counts towards the size limit: the body, and of each attribute name, type and value. System attributes don't.
pub(crate) fn size_bytes(outgoing: &Outgoing) -> usize {
    let attributes = outgoing.message_attributes.iter().map(|(name, attribute)| {
        let value_bytes = match &attribute.value {
            AttributeValue::Text(text) => text.len(),
            AttributeValue::Binary(bytes) => bytes.len(),
        };
        name.len() + attribute.data_type.len() + value_bytes
    });
    outgoing.body.len() + attributes.sum::<usize>()
}

/// A message may have `max_bytes` bytes.
pub(crate) fn check_size(size_bytes: usize, max_bytes: usize) -> Result<(), SqsError> {
    if size_bytes <= max_bytes {
        return Ok(());
    }
    let reason = format!(
        "One or more parameters are invalid. Reason: Message must be shorter than {max_bytes} bytes."
    );
    Err(SqsError::InvalidParameterValue { reason })
}

fn check_characters(part: &str, text: &str) -> Result<(), SqsError> {
    let allowed = |c: char| !matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}');
    match text.chars().all(allowed) {
        true => Ok(()),
        false => Err(SqsError::InvalidMessageContents { part: part.to_owned() }),
    }
}

fn check_attributes(attributes: &BTreeMap<String, MessageAttribute>) -> Result<(), SqsError> {
    if attributes.len() > limits::MAX_MESSAGE_ATTRIBUTES {
        let max = limits::MAX_MESSAGE_ATTRIBUTES;
        let reason = format!(
            "Number of message attributes [{}] exceeds the allowed maximum [{max}].",
            attributes.len()
        );
        return Err(SqsError::InvalidParameterValue { reason });
    }
    for (name, attribute) in attributes {
        check_attribute_name(name)?;
        check_attribute_type(name, attribute)?;
        match &attribute.value {
            AttributeValue::Text(text) => check_value("Message (user) attribute", name, text)?,
            AttributeValue::Binary(bytes) if bytes.is_empty() => {
                return Err(empty_value("Message (user) attribute", name, "Binary"));
            }
            AttributeValue::Binary(_) => {}
        }
    }
    Ok(())
}

fn empty_value(kind: &str, name: &str, data_type: &str) -> SqsError {
    SqsError::parameter(format!("{kind} '{name}' must contain a non-empty value of type '{data_type}'."))
}

fn check_value(kind: &str, name: &str, text: &str) -> Result<(), SqsError> {
    if text.is_empty() {
        return Err(empty_value(kind, name, "String"));
    }
    check_characters(&format!("{kind} '{name}'"), text)
}

fn check_attribute_name(name: &str) -> Result<(), SqsError> {
    let lower = name.to_ascii_lowercase();
    let ok = (1..=limits::MAX_ATTRIBUTE_NAME_CHARS).contains(&name.chars().count())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
        && !lower.starts_with("aws.")
        && !lower.starts_with("amazon.")
        && !name.starts_with('.')
        && !name.ends_with('.')
        && !name.contains("..");
    match ok {
        true => Ok(()),
        false => Err(SqsError::parameter(
            "The message attribute name is invalid: use up to 256 letters, digits, hyphens, underscores and single \
             inner periods, and don't start it with AWS. or Amazon.",
        )),
    }
}

fn check_attribute_type(name: &str, attribute: &MessageAttribute) -> Result<(), SqsError> {
    let data_type = &attribute.data_type;
    let base = data_type.split('.').next().unwrap_or_default();
    if data_type.len() > limits::MAX_ATTRIBUTE_NAME_CHARS {
        return Err(SqsError::parameter(format!(
            "The type of the message attribute '{name}' is too long: it may have 256 characters."
        )));
    }
    match (base, &attribute.value) {
        ("String", AttributeValue::Text(_)) | ("Binary", AttributeValue::Binary(_)) => Ok(()),
        ("Number", AttributeValue::Text(text)) if is_number(text) => Ok(()),
        ("Number", AttributeValue::Text(_)) => Err(SqsError::parameter(format!(
            "Can't cast the value of message (user) attribute '{name}' to a number."
        ))),
        ("String" | "Number" | "Binary", _) => Err(SqsError::parameter(format!(
            "The message attribute '{name}' must have a value of its type {base}."
        ))),
        _ => Err(SqsError::parameter(format!(
            "The message attribute '{name}' has an invalid message attribute type, the set of supported type prefixes \
             is Binary, Number, and String."
        ))),
    }
}

/// Numbers have up to 38 digits and lie between -10^128 and 10^126, as the service documents them.
fn is_number(text: &str) -> bool {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let digits = mantissa.chars().filter(char::is_ascii_digit).collect::<String>();
    let significant = digits.trim_start_matches('0').len();
    let plain = text.chars().all(|c| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E'));
    plain && significant <= 38 && text.parse::<f64>().is_ok_and(|value| (-1e128..=1e126).contains(&value))
}

fn check_group_id(parameter: &str, id: Option<&str>) -> Result<(), SqsError> {
    let Some(id) = id else { return Ok(()) };
    let ok = (1..=limits::MAX_GROUP_ID_CHARS).contains(&id.len()) && id.chars().all(|c| c.is_ascii_graphic());
    match ok {
        true => Ok(()),
        false => Err(SqsError::parameter(format!(
            "The value for parameter {parameter} is invalid. Reason: {parameter} can only include alphanumeric and \
             punctuation characters. 1 to 128 in length."
        ))),
    }
}

fn check_range(
    parameter: &str,
    unit: (u64, &str),
    value_ms: u64,
    min_ms: u64,
    max_ms: u64,
) -> Result<(), SqsError> {
    if (min_ms..=max_ms).contains(&value_ms) {
        return Ok(());
    }
    let (divisor, unit) = unit;
    Err(SqsError::parameter(format!(
        "The value for parameter {parameter} is invalid. Reason: Must be between {} and {} {unit}, if provided.",
        min_ms / divisor,
        max_ms / divisor
    )))
}

const SECONDS: (u64, &str) = (1_000, "seconds");

/// A message's own delay.
pub(crate) fn check_delay(delay_ms: u64) -> Result<(), SqsError> {
    check_range("DelaySeconds", SECONDS, delay_ms, 0, limits::MAX_DELAY_MS)
}

/// The visibility of a receive, or a changed one.
pub(crate) fn check_visibility(visibility_ms: u64) -> Result<(), SqsError> {
    check_range("VisibilityTimeout", SECONDS, visibility_ms, 0, limits::MAX_VISIBILITY_MS)
}

/// The wait of a long poll.
pub(crate) fn check_wait(wait_ms: u64) -> Result<(), SqsError> {
    check_range("WaitTimeSeconds", SECONDS, wait_ms, 0, limits::MAX_WAIT_MS)
}

/// How many messages a receive may give.
pub(crate) fn check_max_messages(max: usize) -> Result<(), SqsError> {
    let most = limits::MAX_BATCH_ENTRIES as u64;
    let asked = u64::try_from(max).unwrap_or(u64::MAX);
    check_range("MaxNumberOfMessages", (1, "messages"), asked, 1, most)
}

/// The name of a queue.
pub(crate) fn check_queue_name(name: &str, fifo: bool) -> Result<(), SqsError> {
    let stem = name.strip_suffix(".fifo");
    if fifo && stem.is_none() {
        return Err(SqsError::parameter("The name of a FIFO queue must end with .fifo."));
    }
    if !fifo && stem.is_some() {
        return Err(SqsError::parameter(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length. \
             Set FifoQueue for a name that ends with .fifo.",
        ));
    }
    let stem = stem.unwrap_or(name);
    let plain = stem.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    match !stem.is_empty() && name.len() <= limits::MAX_NAME_CHARS && plain {
        true => Ok(()),
        false => Err(SqsError::parameter(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length.",
        )),
    }
}

/// The ids of a batch, in the order in which SQS complains.
pub(crate) fn check_batch_ids<'a>(
    entry: &'static str,
    ids: impl ExactSizeIterator<Item = &'a str>,
) -> Result<(), SqsError> {
    let sent = ids.len();
    if sent == 0 {
        return Err(SqsError::EmptyBatchRequest { entry });
    }
    if sent > limits::MAX_BATCH_ENTRIES {
        return Err(SqsError::TooManyEntriesInBatchRequest { sent });
    }
    let mut seen = std::collections::BTreeSet::new();
    for id in ids {
        let plain = id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        if id.is_empty() || id.len() > limits::MAX_NAME_CHARS || !plain {
            return Err(SqsError::InvalidBatchEntryId);
        }
        if !seen.insert(id) {
            return Err(SqsError::BatchEntryIdsNotDistinct { id: id.to_owned() });
        }
    }
    Ok(())
}
