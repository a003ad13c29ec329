//! The event that a function gets for a batch of messages
//! (<https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html#example-standard-queue-message-event>).

use std::collections::BTreeMap;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glassline_sqs::{AttributeValue, Message, MessageAttribute};
use serde::Serialize;

/// The longest event, as an invocation takes it.
pub(super) const MAX_EVENT_BYTES: usize = 6_291_556;
const HEAD: &str = r#"{"Records":["#;
const TAIL: &str = "]}";

/// Where the records of an event come from.
pub(super) struct Source {
    pub(super) arn: String,
    pub(super) region: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    message_id: &'a str,
    receipt_handle: &'a str,
    body: &'a str,
    attributes: BTreeMap<&'a str, &'a str>,
    message_attributes: BTreeMap<&'a str, Attribute<'a>>,
    md5_of_body: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    md5_of_message_attributes: Option<String>,
    event_source: &'static str,
    #[serde(rename = "eventSourceARN")]
    event_source_arn: &'a str,
    aws_region: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Attribute<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    string_value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    binary_value: Option<String>,
    string_list_values: [(); 0],
    binary_list_values: [(); 0],
    data_type: &'a str,
}

impl<'a> From<&'a MessageAttribute> for Attribute<'a> {
    fn from(attribute: &'a MessageAttribute) -> Self {
        let (string_value, binary_value) = match &attribute.value {
            AttributeValue::Text(text) => (Some(text.as_str()), None),
            AttributeValue::Binary(bytes) => (None, Some(STANDARD.encode(bytes))),
        };
        Self {
            string_value,
            binary_value,
            string_list_values: [],
            binary_list_values: [],
            data_type: &attribute.data_type,
        }
    }
}

/// One message as a record of an event.
pub(super) fn record(message: &Message, source: &Source) -> Result<String, serde_json::Error> {
    let pairs = message.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    serde_json::to_string(&Record {
        message_id: &message.id,
        receipt_handle: &message.receipt,
        body: &message.body,
        attributes: pairs.collect(),
        message_attributes: message
            .message_attributes
            .iter()
            .map(|(name, value)| (name.as_str(), value.into()))
            .collect(),
        md5_of_body: &message.md5_of_body,
        md5_of_message_attributes: message.md5_of_message_attributes(),
        event_source: "aws:sqs",
        event_source_arn: &source.arn,
        aws_region: &source.region,
    })
}

/// An event of these records.
pub(super) fn event(records: &[String]) -> Vec<u8> {
    format!("{HEAD}{}{TAIL}", records.join(",")).into_bytes()
}

/// Cuts records into events that an invocation takes, in order. A record too long for any stays alone; its invocation
/// is refused, and so it fails.
pub(super) fn split(records: &[String], max_bytes: usize) -> Vec<Range<usize>> {
    let room_bytes = max_bytes.saturating_sub(HEAD.len() + TAIL.len());
    let mut ranges = Vec::new();
    let (mut start, mut size_bytes) = (0, 0);
    for (index, record) in records.iter().enumerate() {
        let added = record.len() + usize::from(index > start);
        if index > start && size_bytes + added > room_bytes {
            ranges.push(start..index);
            (start, size_bytes) = (index, record.len());
        } else {
            size_bytes += added;
        }
    }
    if start < records.len() {
        ranges.push(start..records.len());
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_documented_form_and_aws_s_own_types_read_it() {
        let text =
            MessageAttribute { data_type: "String".into(), value: AttributeValue::Text("v\"1".into()) };
        let bytes =
            MessageAttribute { data_type: "Binary.png".into(), value: AttributeValue::Binary(vec![0, 255]) };
        let message = Message {
            id: "059f36b4".into(),
            receipt: "AQEB".into(),
            body: "{\"a\":\"ü\u{1}\"}".into(),
            receives: 2,
            attributes: [("ApproximateReceiveCount", "2"), ("AWSTraceHeader", "Root=1-2-3")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            message_attributes: [("text".to_owned(), text), ("bytes".to_owned(), bytes)].into(),
            md5_of_body: "e4e68fb7bd0e697a0ae8f1bb342846b3".into(),
        };
        let source =
            Source { arn: "arn:aws:sqs:us-east-1:000000000000:render".into(), region: "us-east-1".into() };
        let event = event(&[record(&message, &source).unwrap(), record(&message, &source).unwrap()]);
        let json: serde_json::Value = serde_json::from_slice(&event).unwrap();
        let expected = serde_json::json!({
            "messageId": "059f36b4",
            "receiptHandle": "AQEB",
            "body": "{\"a\":\"ü\u{1}\"}",
            "attributes": {"ApproximateReceiveCount": "2", "AWSTraceHeader": "Root=1-2-3"},
            "messageAttributes": {
                "text": {"stringValue": "v\"1", "stringListValues": [], "binaryListValues": [], "dataType": "String"},
                "bytes": {"binaryValue": "AP8=", "stringListValues": [], "binaryListValues": [], "dataType": "Binary.png"},
            },
            "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
            "md5OfMessageAttributes": message.md5_of_message_attributes().unwrap(),
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:render",
            "awsRegion": "us-east-1",
        });
        assert_eq!(json["Records"], serde_json::json!([expected, expected]));
        let typed: aws_lambda_events::sqs::SqsEvent = serde_json::from_slice(&event).unwrap();
        assert_eq!(typed.records[1].body.as_deref(), Some(message.body.as_str()));
        assert_eq!(typed.records[1].message_attributes["text"].string_value.as_deref(), Some("v\"1"));
    }

    #[test]
    fn records_are_cut_where_an_event_would_be_too_long() {
        let records: Vec<String> = [10, 10, 10, 50, 1, 1].map(|length| "x".repeat(length)).to_vec();
        let frame = HEAD.len() + TAIL.len();
        assert_eq!(split(&records, frame + 21), [0..2, 2..3, 3..4, 4..6]);
        assert_eq!(split(&records, frame + 20), [0..1, 1..2, 2..3, 3..4, 4..6]);
        assert_eq!(split(&records, 1_000), vec![0..6]);
        assert!(split(&[], 1_000).is_empty());
        for range in split(&records, frame + 32) {
            let length = event(&records[range.clone()]).len();
            assert!(length <= frame + 32 || range.len() == 1, "{range:?}");
        }
    }
}
