//! The queues port on SQS.

use crate::lambda::{GiveBack, GivenBack};
use crate::meter::Meter;
use crate::telemetry::trace;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, MessageSystemAttributeNameForSends as AttributeName,
    MessageSystemAttributeValue as AttributeValue, SendMessageBatchRequestEntry,
};
use glassline_protocol::message::{Message, Queue};
use glassline_protocol::ports::{DeadLetters, Envelope, Queues, Redriven, Sent};
use glassline_protocol::settings::Settings;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};

/// Most entries of one batch (SQS quota).
const BATCH_ENTRIES: usize = 10;
/// Most bytes of one batch (SQS quota: 1 MiB), with room for what SQS counts besides bodies.
const BATCH_BYTES: usize = 1_000_000;
/// Longest delay of a message (SQS quota).
const MAX_DELAY_SECONDS: u64 = 900;
/// Longest visibility timeout of a message (SQS quota: 12 hours from its receive), with room for the time since.
const MAX_VISIBILITY_SECONDS: u64 = 11 * 3_600;

/// Sends messages to the queues it has addresses for.
#[derive(Clone, Debug)]
pub struct SqsQueues {
    client: Client,
    urls: BTreeMap<Queue, String>,
    dead_letters: BTreeMap<String, String>,
    meter: Meter,
}

struct Entry {
    index: usize,
    body: String,
    delay_seconds: i32,
    group: Option<(String, String)>,
}

/// The message group and deduplication id of a FIFO message: one group per parent, and the outcome's own id, hashed
/// because SQS takes at most 128 characters.
fn fifo(message: &Message) -> Option<(String, String)> {
    match message {
        Message::Qa(qa) => {
            let group = hex::encode(Sha256::digest(qa.job.parent.to_string()));
            Some((group, hex::encode(Sha256::digest(&qa.outcome))))
        }
        Message::Handoff(_)
        | Message::Check(_)
        | Message::Finish(_)
        | Message::Rollback(_)
        | Message::Wake(_) => None,
    }
}

/// The trace that the work under way belongs to, for whoever receives the message.
fn trace_attribute() -> Option<HashMap<AttributeName, AttributeValue>> {
    let trace = trace::current()?;
    let value = AttributeValue::builder().data_type("String").string_value(trace.header()).build().ok()?;
    Some(HashMap::from([(AttributeName::AwsTraceHeader, value)]))
}

fn delay_seconds(delay_ms: u64) -> i32 {
    i32::try_from(delay_ms.div_ceil(1000).min(MAX_DELAY_SECONDS)).unwrap_or(0)
}

#[allow(clippy::wildcard_enum_match_arm, reason = "the SDK's error may grow; what is new is unknown")]
/// Whether SQS answered, and with a refusal: then it does not have the message.
fn refusal<E: ProvideErrorMetadata, R>(queue: Queue, error: &SdkError<E, R>) -> Sent {
    let code = error.code().unwrap_or("no answer");
    tracing::warn!(event = "send_failed", queue = queue.name(), code, "SQS did not take messages");
    match error {
        SdkError::ConstructionFailure(_) => Sent::Refused,
        SdkError::ServiceError(service) => match service.err().code() {
            Some("InternalFailure" | "InternalError" | "ServiceUnavailable") | None => Sent::Unknown,
            Some(_) => Sent::Refused,
        },
        _ => Sent::Unknown,
    }
}

impl SqsQueues {
    /// Sends to these queues; a message to a queue without an address is refused.
    #[must_use]
    pub fn new(client: Client, urls: BTreeMap<Queue, String>) -> Self {
        Self { client, urls, dead_letters: BTreeMap::new(), meter: Meter::default() }
    }

    /// The same, with dead-letter queues by name and address, for [`DeadLetters`].
    #[must_use]
    pub fn with_dead_letters(self, dead_letters: BTreeMap<String, String>) -> Self {
        Self { dead_letters, ..self }
    }

    /// Messages sent, by queue.
    #[must_use]
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    async fn send_entries(&self, queue: Queue, url: &str, entries: Vec<Entry>, sent: &mut [Sent]) {
        let mut batch: Vec<Entry> = Vec::new();
        let mut bytes = 0;
        for entry in entries {
            if batch.len() == BATCH_ENTRIES || (!batch.is_empty() && bytes + entry.body.len() > BATCH_BYTES) {
                self.send_batch(queue, url, std::mem::take(&mut batch), sent).await;
                bytes = 0;
            }
            bytes += entry.body.len();
            batch.push(entry);
        }
        self.send_batch(queue, url, batch, sent).await;
    }

    async fn send_batch(&self, queue: Queue, url: &str, mut batch: Vec<Entry>, sent: &mut [Sent]) {
        if batch.len() == 1 {
            if let Some(entry) = batch.pop() {
                let (index, answer) = self.send_single(queue, url, entry).await;
                set(sent, index, answer);
            }
            return;
        }
        let mut entries = Vec::new();
        let mut indexes = Vec::new();
        for entry in batch {
            let (group, deduplication) = entry.group.unzip();
            let built = SendMessageBatchRequestEntry::builder()
                .id(entry.index.to_string())
                .message_body(entry.body)
                .set_delay_seconds((entry.delay_seconds > 0).then_some(entry.delay_seconds))
                .set_message_group_id(group)
                .set_message_deduplication_id(deduplication)
                .set_message_system_attributes(trace_attribute())
                .build();
            match built {
                Ok(built) => {
                    entries.push(built);
                    indexes.push(entry.index);
                }
                Err(_) => set(sent, entry.index, Sent::Refused),
            }
        }
        if entries.is_empty() {
            return;
        }
        match self.client.send_message_batch().queue_url(url).set_entries(Some(entries)).send().await {
            Ok(output) => {
                #[allow(clippy::cast_precision_loss, reason = "a batch has at most ten entries")]
                self.meter.add(queue.name(), output.successful().len() as f64);
                for entry in output.successful() {
                    answer(sent, entry.id(), Sent::Accepted);
                }
                for entry in output.failed() {
                    answer(sent, entry.id(), Sent::Refused);
                }
            }
            Err(error) => {
                let answer = refusal(queue, &error);
                for index in indexes {
                    set(sent, index, answer);
                }
            }
        }
    }

    async fn send_single(&self, queue: Queue, url: &str, entry: Entry) -> (usize, Sent) {
        let (group, deduplication) = entry.group.unzip();
        let request = self
            .client
            .send_message()
            .queue_url(url)
            .message_body(entry.body)
            .set_delay_seconds((entry.delay_seconds > 0).then_some(entry.delay_seconds))
            .set_message_group_id(group)
            .set_message_deduplication_id(deduplication)
            .set_message_system_attributes(trace_attribute());
        let answer = match request.send().await {
            Ok(_) => {
                self.meter.add(queue.name(), 1.0);
                Sent::Accepted
            }
            Err(error) => refusal(queue, &error),
        };
        (entry.index, answer)
    }
}

fn set(sent: &mut [Sent], index: usize, answer: Sent) {
    if let Some(slot) = sent.get_mut(index) {
        *slot = answer;
    }
}

fn answer(sent: &mut [Sent], id: &str, answer: Sent) {
    if let Ok(index) = id.parse() {
        set(sent, index, answer);
    }
}

impl Queues for SqsQueues {
    async fn send(&self, envelopes: Vec<Envelope>) -> Vec<Sent> {
        let mut sent = vec![Sent::Unknown; envelopes.len()];
        let mut by_queue: BTreeMap<Queue, Vec<Entry>> = BTreeMap::new();
        for (index, envelope) in envelopes.into_iter().enumerate() {
            by_queue.entry(envelope.message.queue()).or_default().push(Entry {
                index,
                body: envelope.message.to_body(),
                delay_seconds: delay_seconds(envelope.delay_ms),
                group: fifo(&envelope.message),
            });
        }
        for (queue, entries) in by_queue {
            match self.urls.get(&queue) {
                Some(url) => self.send_entries(queue, url, entries, &mut sent).await,
                None => {
                    tracing::error!(
                        event = "no_queue",
                        queue = queue.name(),
                        "this function has no address of a queue that it sends to"
                    );
                    for entry in entries {
                        set(&mut sent, entry.index, Sent::Refused);
                    }
                }
            }
        }
        sent
    }
}

/// Gives messages back to the queues that they came from, with the waits of [`Settings::given_back_ms`].
#[derive(Clone, Debug)]
pub struct Redelivery<'a> {
    /// The queues.
    pub queues: &'a SqsQueues,
    /// Times and limits.
    pub settings: &'a Settings,
}

impl Redelivery<'_> {
    fn seconds(&self, message: &GivenBack) -> i32 {
        let seconds = self.settings.given_back_ms(message.receives).div_ceil(1000);
        i32::try_from(seconds.min(MAX_VISIBILITY_SECONDS)).unwrap_or(0)
    }

    async fn change_one(&self, url: &str, message: &GivenBack) -> Option<String> {
        let request = self.queues.client.change_message_visibility().queue_url(url);
        let request = request.receipt_handle(&message.receipt).visibility_timeout(self.seconds(message));
        let error = request.send().await.err()?;
        Some(error.code().unwrap_or("no answer").to_owned())
    }

    async fn change_several(&self, url: &str, messages: &[GivenBack]) -> Option<String> {
        let entries = messages.iter().enumerate().filter_map(|(index, message)| {
            ChangeMessageVisibilityBatchRequestEntry::builder()
                .id(index.to_string())
                .receipt_handle(&message.receipt)
                .visibility_timeout(self.seconds(message))
                .build()
                .ok()
        });
        let request = self.queues.client.change_message_visibility_batch().queue_url(url);
        match request.set_entries(Some(entries.collect())).send().await {
            Ok(output) => output.failed().first().map(|entry| entry.code().to_owned()),
            Err(error) => Some(error.code().unwrap_or("no answer").to_owned()),
        }
    }

    async fn change(&self, url: &str, messages: &[GivenBack]) {
        let refused = match messages {
            [message] => self.change_one(url, message).await,
            several => self.change_several(url, several).await,
        };
        self.queues.meter.add("visibility", 0.0);
        if let Some(code) = refused {
            let why = "they come again when their visibility ends";
            tracing::warn!(event = "give_back_failed", code, messages = messages.len(), why);
        }
    }
}

impl GiveBack for Redelivery<'_> {
    async fn give_back(&self, messages: Vec<GivenBack>) {
        let mut by_queue: BTreeMap<String, Vec<GivenBack>> = BTreeMap::new();
        for message in messages {
            by_queue.entry(message.queue_url.clone()).or_default().push(message);
        }
        for (url, messages) in by_queue {
            for messages in messages.chunks(BATCH_ENTRIES) {
                self.change(&url, messages).await;
            }
        }
    }
}

/// How many messages of a queue are visible, in flight and delayed, as SQS counts them (approximately, on AWS).
///
/// # Errors
/// SQS's reason, one line.
pub async fn depth(client: &Client, url: &str) -> Result<[u64; 3], String> {
    use aws_sdk_sqs::types::QueueAttributeName as Name;
    let names = [
        Name::ApproximateNumberOfMessages,
        Name::ApproximateNumberOfMessagesNotVisible,
        Name::ApproximateNumberOfMessagesDelayed,
    ];
    let request = client.get_queue_attributes().queue_url(url).set_attribute_names(Some(names.to_vec()));
    let output = request.send().await.map_err(|error| error.code().unwrap_or("no answer").to_owned())?;
    let attributes = output.attributes.unwrap_or_default();
    Ok(names.map(|name| attributes.get(&name).and_then(|count| count.parse().ok()).unwrap_or(0)))
}

impl DeadLetters for SqsQueues {
    fn names(&self) -> Vec<String> {
        self.dead_letters.keys().cloned().collect()
    }

    async fn redrive(&self, queue: &str) -> Redriven {
        let Some(url) = self.dead_letters.get(queue) else { return Redriven::Missing };
        match redrive(&self.client, url).await {
            Ok(()) => Redriven::Started,
            Err(code) => {
                tracing::warn!(event = "redrive_refused", queue, code);
                Redriven::Refused(code)
            }
        }
    }
}

/// Starts moving the messages of a dead-letter queue back to where they came from; SQS moves them by and by.
///
/// # Errors
/// The service's error code, or `no answer`.
async fn redrive(client: &Client, url: &str) -> Result<(), String> {
    use aws_sdk_sqs::types::QueueAttributeName::QueueArn;
    let code = |code: Option<&str>| code.unwrap_or("no answer").to_owned();
    let request = client.get_queue_attributes().queue_url(url).attribute_names(QueueArn);
    let output = request.send().await.map_err(|error| code(error.code()))?;
    let arn = output.attributes.and_then(|mut attributes| attributes.remove(&QueueArn));
    let arn = arn.ok_or_else(|| code(Some("NoQueueArn")))?;
    client.start_message_move_task().source_arn(arn).send().await.map_err(|error| code(error.code()))?;
    Ok(())
}
