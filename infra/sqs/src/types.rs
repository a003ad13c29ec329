//! What the in-process API takes and gives.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::checksum;
use crate::limits;

/// The settings of a queue that change what it does. All times in milliseconds; HTTP shows whole seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSettings {
    /// How long a received message stays invisible, 0 to 43,200,000 (12 h).
    pub visibility_ms: u64,
    /// How long a sent message waits before it can be received, 0 to 900,000 (15 min).
    pub delay_ms: u64,
    /// How long a message is kept, 60,000 (1 min) to 1,209,600,000 (14 days).
    pub retention_ms: u64,
    /// Ordered by group and deduplicated. The name then ends in `.fifo`, and only then.
    pub fifo: bool,
    /// FIFO only: where a message has no deduplication id, the SHA-256 of its body is one.
    pub content_based_deduplication: bool,
    /// Where messages go that were received too often.
    pub redrive: Option<Redrive>,
}

impl Default for QueueSettings {
    /// The defaults of SQS: visible again after 30 s, no delay, kept 4 days, standard, no dead-letter queue.
    fn default() -> Self {
        Self {
            visibility_ms: limits::DEFAULT_VISIBILITY_MS,
            delay_ms: 0,
            retention_ms: limits::DEFAULT_RETENTION_MS,
            fifo: false,
            content_based_deduplication: false,
            redrive: None,
        }
    }
}

/// The redrive policy of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redrive {
    /// The name of the dead-letter queue. It exists, and is FIFO exactly if its source is.
    pub dead_letter_queue: String,
    /// How often a message may be received, 1 to 1,000; the next receive moves it instead of delivering it.
    pub max_receives: u32,
}

/// A message as received, or as seen by a peek.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The `MessageId`, a UUID.
    pub id: String,
    /// The receipt handle of this receive; empty in a peek.
    pub receipt: String,
    /// The body.
    pub body: String,
    /// How often it was received, this receive included.
    pub receives: u32,
    /// The system attributes by their SQS names (`SentTimestamp`, `ApproximateReceiveCount`, …).
    pub attributes: BTreeMap<String, String>,
    /// The attributes its sender gave it.
    pub message_attributes: BTreeMap<String, MessageAttribute>,
    /// MD5 of the body, in hex.
    pub md5_of_body: String,
}

impl Message {
    /// `MD5OfMessageAttributes` over all of its message attributes, in hex; none where it has none.
    #[must_use]
    pub fn md5_of_message_attributes(&self) -> Option<String> {
        checksum::md5_of_attributes(&self.message_attributes)
    }
}

/// A message attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageAttribute {
    /// `String`, `Number` or `Binary`, with an optional `.label`.
    pub data_type: String,
    /// Its value.
    pub value: AttributeValue,
}

/// The value of a message attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttributeValue {
    /// Of a `String` or a `Number`.
    #[serde(rename = "t")]
    Text(String),
    /// Of a `Binary`: the bytes themselves, not Base64.
    #[serde(rename = "b", with = "hex::serde")]
    Binary(Vec<u8>),
}

/// A message to send.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outgoing {
    /// The body, 1 to 1,048,576 bytes with the attributes.
    pub body: String,
    /// Its own delay instead of the queue's, 0 to 900,000 ms; not on a FIFO queue.
    pub delay_ms: Option<u64>,
    /// `MessageGroupId`; a FIFO queue needs one.
    pub group_id: Option<String>,
    /// `MessageDeduplicationId`; FIFO only.
    pub deduplication_id: Option<String>,
    /// The system attribute `AWSTraceHeader`.
    pub trace_header: Option<String>,
    /// Up to ten attributes.
    pub message_attributes: BTreeMap<String, MessageAttribute>,
}

impl Outgoing {
    /// A message with this body and nothing else.
    #[must_use]
    pub fn new(body: impl Into<String>) -> Self {
        Self { body: body.into(), ..Self::default() }
    }

    /// The same message, delayed by `delay_ms`.
    #[must_use]
    pub fn delayed(mut self, delay_ms: u64) -> Self {
        self.delay_ms = Some(delay_ms);
        self
    }

    /// The same message, in a group.
    #[must_use]
    pub fn in_group(mut self, group_id: impl Into<String>) -> Self {
        self.group_id = Some(group_id.into());
        self
    }

    /// The same message, with a deduplication id.
    #[must_use]
    pub fn deduplicated_by(mut self, deduplication_id: impl Into<String>) -> Self {
        self.deduplication_id = Some(deduplication_id.into());
        self
    }
}

/// What a send answers: the message is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The `MessageId`; of a deduplicated message, that of the first.
    pub id: String,
    /// MD5 of the body as sent, in hex.
    pub md5_of_body: String,
    /// MD5 of the message attributes, in hex, where there are any.
    pub md5_of_message_attributes: Option<String>,
    /// MD5 of the system attributes sent, in hex, where there are any.
    pub md5_of_system_attributes: Option<String>,
    /// FIFO only: 20 decimal digits, growing within the queue.
    pub sequence_number: Option<String>,
}

/// How many messages a queue holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    /// Messages that a receive may give (`ApproximateNumberOfMessages`; here exact).
    pub visible: u64,
    /// Messages received and neither deleted nor visible again (`ApproximateNumberOfMessagesNotVisible`).
    pub in_flight: u64,
    /// Messages sent but still delayed (`ApproximateNumberOfMessagesDelayed`).
    pub delayed: u64,
    /// When the oldest message of any of these was sent, in epoch milliseconds.
    pub oldest_sent_ms: Option<u64>,
}

/// What happened on a queue since the engine started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages stored (not the deduplicated ones, nor copies made by an injected fault).
    pub sent: u64,
    /// Messages delivered, each delivery counted.
    pub received: u64,
    /// Messages deleted by a receipt handle.
    pub deleted: u64,
    /// Messages moved from this queue to its dead-letter queue.
    pub dead_lettered: u64,
    /// Sends that found their message already sent.
    pub deduplicated: u64,
    /// Requests by operation (`SendMessage`, …), in-process ones included, refused ones too.
    pub requests: BTreeMap<String, u64>,
}
