//! The whole configuration of a queue, and its SQS attributes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::SqsError;
use crate::limits;
use crate::types::{QueueSettings, Redrive};

const ARN_PREFIX: &str = "arn:aws:sqs:us-east-1:000000000000:";

/// Attributes by their SQS names.
pub(crate) type Attributes = BTreeMap<String, String>;

/// The ARN of a queue: region us-east-1, account 000000000000.
#[must_use]
pub fn queue_arn(queue: &str) -> String {
    format!("{ARN_PREFIX}{queue}")
}

/// The queue that an ARN names. Partition, region and account don't matter here: there is one of each.
pub(crate) fn queue_of_arn(arn: &str) -> Option<&str> {
    let mut parts = arn.split(':');
    let head = [parts.next()?, parts.next()?, parts.next()?];
    let (_region, _account, queue) = (parts.next()?, parts.next()?, parts.next()?);
    let ok = head[0] == "arn" && head[1].starts_with("aws") && head[2] == "sqs" && parts.next().is_none();
    (ok && !queue.is_empty()).then_some(queue)
}

/// What a FIFO queue deduplicates within.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum DeduplicationScope {
    #[default]
    Queue,
    MessageGroup,
}

impl DeduplicationScope {
    const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::MessageGroup => "messageGroup",
        }
    }
}

/// All settings of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QueueConfig {
    pub settings: QueueSettings,
    pub max_message_bytes: usize,
    /// `ReceiveMessageWaitTimeSeconds`, of receives over HTTP that give no wait.
    pub wait_ms: u64,
    pub scope: DeduplicationScope,
    /// Attributes that are kept and shown but change nothing here (policies, encryption, throughput).
    pub others: Attributes,
}

impl From<QueueSettings> for QueueConfig {
    fn from(settings: QueueSettings) -> Self {
        Self {
            settings,
            max_message_bytes: limits::MAX_MESSAGE_BYTES,
            wait_ms: 0,
            scope: DeduplicationScope::default(),
            others: Attributes::new(),
        }
    }
}

const OTHERS: [&str; 6] = [
    "Policy",
    "RedriveAllowPolicy",
    "KmsMasterKeyId",
    "KmsDataKeyReusePeriodSeconds",
    "SqsManagedSseEnabled",
    "FifoThroughputLimit",
];

/// The other attributes of queues.
const KNOWN: [&str; 15] = [
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesDelayed",
    "ApproximateNumberOfMessagesNotVisible",
    "ContentBasedDeduplication",
    "CreatedTimestamp",
    "DeduplicationScope",
    "DelaySeconds",
    "FifoQueue",
    "LastModifiedTimestamp",
    "MaximumMessageSize",
    "MessageRetentionPeriod",
    "QueueArn",
    "ReceiveMessageWaitTimeSeconds",
    "RedrivePolicy",
    "VisibilityTimeout",
];

impl QueueConfig {
    /// The configuration that `CreateQueue` asks for.
    pub(crate) fn from_attributes(attributes: &Attributes) -> Result<Self, SqsError> {
        let mut config = Self::from(QueueSettings::default());
        if let Some(fifo) = attributes.get("FifoQueue") {
            // SQS takes only "true": a standard queue leaves it out.
            config.settings.fifo = match fifo.as_str() {
                "true" => true,
                _ => return Err(SqsError::InvalidAttributeName { name: "FifoQueue".to_owned() }),
            };
        }
        for (name, value) in attributes.iter().filter(|(name, _)| *name != "FifoQueue") {
            config.set(name, value)?;
        }
        config.check()?;
        Ok(config)
    }

    /// Changes attributes, as `SetQueueAttributes` does.
    pub(crate) fn change(&mut self, attributes: &Attributes) -> Result<(), SqsError> {
        for (name, value) in attributes {
            match (name.as_str(), self.settings.fifo) {
                ("FifoQueue", false) => return Err(SqsError::InvalidAttributeName { name: name.clone() }),
                ("FifoQueue", true) if value != "true" => {
                    return Err(invalid(name, "Modifying queue type is not supported."));
                }
                ("FifoQueue", true) => {}
                _ => self.set(name, value)?,
            }
        }
        self.check()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), SqsError> {
        let fifo = self.settings.fifo;
        let settings = &mut self.settings;
        match name {
            "VisibilityTimeout" => {
                settings.visibility_ms = seconds(name, value, 0, limits::MAX_VISIBILITY_MS)?
            }
            "DelaySeconds" => settings.delay_ms = seconds(name, value, 0, limits::MAX_DELAY_MS)?,
            "MessageRetentionPeriod" => {
                settings.retention_ms =
                    seconds(name, value, limits::MIN_RETENTION_MS, limits::MAX_RETENTION_MS)?;
            }
            "ReceiveMessageWaitTimeSeconds" => self.wait_ms = seconds(name, value, 0, limits::MAX_WAIT_MS)?,
            "MaximumMessageSize" => {
                let size_bytes = value.parse::<usize>().ok();
                let allowed = limits::MIN_MAXIMUM_MESSAGE_BYTES..=limits::MAX_MESSAGE_BYTES;
                self.max_message_bytes = size_bytes
                    .filter(|bytes| allowed.contains(bytes))
                    .ok_or_else(|| invalid(name, "Must be a number from 1024 to 1048576."))?;
            }
            "RedrivePolicy" => settings.redrive = parse_redrive(value)?,
            "ContentBasedDeduplication" if fifo => {
                settings.content_based_deduplication = boolean(name, value)?
            }
            "DeduplicationScope" if fifo => {
                self.scope = match value {
                    "queue" => DeduplicationScope::Queue,
                    "messageGroup" => DeduplicationScope::MessageGroup,
                    _ => return Err(invalid(name, "Must be queue or messageGroup.")),
                };
            }
            "FifoThroughputLimit" if !fifo => {
                return Err(SqsError::InvalidAttributeName { name: name.to_owned() });
            }
            _ if OTHERS.contains(&name) => {
                match value.is_empty() {
                    true => self.others.remove(name),
                    false => self.others.insert(name.to_owned(), value.to_owned()),
                };
            }
            _ => return Err(SqsError::InvalidAttributeName { name: name.to_owned() }),
        }
        Ok(())
    }

    /// Checks all values, also those an in-process caller gave.
    pub(crate) fn check(&self) -> Result<(), SqsError> {
        let settings = &self.settings;
        within("VisibilityTimeout", settings.visibility_ms, 0, limits::MAX_VISIBILITY_MS)?;
        within("DelaySeconds", settings.delay_ms, 0, limits::MAX_DELAY_MS)?;
        let (min_ms, max_ms) = (limits::MIN_RETENTION_MS, limits::MAX_RETENTION_MS);
        within("MessageRetentionPeriod", settings.retention_ms, min_ms, max_ms)?;
        if settings.content_based_deduplication && !settings.fifo {
            return Err(SqsError::InvalidAttributeName { name: "ContentBasedDeduplication".to_owned() });
        }
        if let Some(redrive) = &settings.redrive
            && !(1..=limits::MAX_RECEIVE_COUNT).contains(&redrive.max_receives)
        {
            let reason = "Reason: Invalid value for maxReceiveCount: must be from 1 to 1000.";
            return Err(SqsError::parameter(format!(
                "The value for parameter RedrivePolicy is invalid. {reason}"
            )));
        }
        match self.others.get("FifoThroughputLimit").map(String::as_str) {
            None | Some("perQueue") => Ok(()),
            Some("perMessageGroupId") if self.scope == DeduplicationScope::MessageGroup => Ok(()),
            Some(_) => Err(invalid(
                "FifoThroughputLimit",
                "Must be perQueue, or perMessageGroupId with the DeduplicationScope messageGroup.",
            )),
        }
    }

    /// The attributes as `GetQueueAttributes` shows them, without those the store knows.
    pub(crate) fn attributes(&self) -> Attributes {
        let settings = &self.settings;
        let seconds = |ms: u64| (ms / 1_000).to_string();
        let mut shown = self.others.clone();
        shown.entry("SqsManagedSseEnabled".to_owned()).or_insert_with(|| "false".to_owned());
        let mut put = |name: &str, value: String| shown.insert(name.to_owned(), value);
        put("VisibilityTimeout", seconds(settings.visibility_ms));
        put("DelaySeconds", seconds(settings.delay_ms));
        put("MessageRetentionPeriod", seconds(settings.retention_ms));
        put("ReceiveMessageWaitTimeSeconds", seconds(self.wait_ms));
        put("MaximumMessageSize", self.max_message_bytes.to_string());
        if let Some(redrive) = &settings.redrive {
            put("RedrivePolicy", render_redrive(redrive));
        }
        if settings.fifo {
            put("FifoQueue", "true".to_owned());
            put("ContentBasedDeduplication", settings.content_based_deduplication.to_string());
            put("DeduplicationScope", self.scope.name().to_owned());
            shown.entry("FifoThroughputLimit".to_owned()).or_insert_with(|| "perQueue".to_owned());
        }
        shown
    }

    /// Whether a queue, of whatever type, can have an attribute of this name.
    pub(crate) fn is_attribute(name: &str) -> bool {
        OTHERS.contains(&name) || KNOWN.contains(&name)
    }

    /// The first attribute in which the two differ, of those named; all where none are.
    pub(crate) fn difference(&self, other: &Self, named: Option<&Attributes>) -> Option<String> {
        let (mine, theirs) = (self.attributes(), other.attributes());
        let names = mine
            .keys()
            .chain(theirs.keys())
            .filter(|name| named.is_none_or(|named| named.contains_key(*name)));
        let shown = names.into_iter().find(|name| mine.get(*name) != theirs.get(*name)).cloned();
        // Whole seconds may hide a difference of in-process settings.
        let hidden =
            || (named.is_none() && self.settings != other.settings).then(|| "of milliseconds".to_owned());
        shown.or_else(hidden)
    }
}

fn invalid(name: &str, reason: &str) -> SqsError {
    SqsError::InvalidAttributeValue { name: name.to_owned(), reason: reason.to_owned() }
}

fn within(name: &str, value_ms: u64, min_ms: u64, max_ms: u64) -> Result<(), SqsError> {
    match (min_ms..=max_ms).contains(&value_ms) {
        true => Ok(()),
        false => {
            let (min, max) = (min_ms / 1_000, max_ms / 1_000);
            Err(invalid(name, &format!("Must be from {min} to {max} seconds.")))
        }
    }
}

fn seconds(name: &str, value: &str, min_ms: u64, max_ms: u64) -> Result<u64, SqsError> {
    let value_ms = value.parse::<u64>().ok().and_then(|seconds| seconds.checked_mul(1_000));
    let value_ms = value_ms.unwrap_or(u64::MAX);
    within(name, value_ms, min_ms, max_ms)?;
    Ok(value_ms)
}

fn boolean(name: &str, value: &str) -> Result<bool, SqsError> {
    value.parse().map_err(|_| invalid(name, "Must be true or false."))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RedrivePolicy {
    dead_letter_target_arn: String,
    max_receive_count: Count,
}

/// SQS takes the count as a number or as a string of one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Count {
    Number(u32),
    Text(String),
}

fn parse_redrive(value: &str) -> Result<Option<Redrive>, SqsError> {
    if value.is_empty() {
        return Ok(None);
    }
    let wrong = |reason: &str| {
        SqsError::parameter(format!("The value for parameter RedrivePolicy is invalid. Reason: {reason}"))
    };
    let policy: RedrivePolicy = serde_json::from_str(value)
        .map_err(|_| wrong("Must be a JSON object with deadLetterTargetArn and maxReceiveCount."))?;
    let queue = queue_of_arn(&policy.dead_letter_target_arn)
        .ok_or_else(|| wrong("Invalid value for deadLetterTargetArn."))?;
    let max_receives = match policy.max_receive_count {
        Count::Number(count) => Some(count),
        Count::Text(text) => text.parse().ok(),
    };
    let max_receives = max_receives.ok_or_else(|| wrong("Invalid value for maxReceiveCount."))?;
    Ok(Some(Redrive { dead_letter_queue: queue.to_owned(), max_receives }))
}

fn render_redrive(redrive: &Redrive) -> String {
    serde_json::json!({
        "deadLetterTargetArn": queue_arn(&redrive.dead_letter_queue),
        "maxReceiveCount": redrive.max_receives,
    })
    .to_string()
}
