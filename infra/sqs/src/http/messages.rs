//! The operations on messages.

use serde::{Deserialize, Serialize};

use super::Server;
use super::wire::{
    BatchResult, DoneEntry, Empty, FailedEntry, WireAttribute, WireAttributes, attributes, milliseconds,
    queue, required,
};
use crate::checksum;
use crate::config::Attributes;
use crate::error::SqsError;
use crate::limits;
use crate::types::{AttributeValue, Message, Outgoing, Sent};
use crate::validate;

/// What a message to send has, alone or in a batch.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WireMessage {
    message_body: Option<String>,
    delay_seconds: Option<i64>,
    message_attributes: Option<WireAttributes>,
    message_system_attributes: Option<WireAttributes>,
    message_deduplication_id: Option<String>,
    message_group_id: Option<String>,
}

impl WireMessage {
    fn outgoing(self) -> Result<Outgoing, SqsError> {
        let mut trace_header = None;
        for (name, attribute) in attributes(self.message_system_attributes)? {
            match (name.as_str(), attribute.value) {
                ("AWSTraceHeader", AttributeValue::Text(text)) if attribute.data_type == "String" => {
                    trace_header = Some(text);
                }
                _ => {
                    return Err(SqsError::parameter(
                        "Message system attribute name or type is invalid: only AWSTraceHeader of type String can be \
                         sent.",
                    ));
                }
            }
        }
        Ok(Outgoing {
            body: required(self.message_body, "MessageBody")?,
            delay_ms: self.delay_seconds.map(|seconds| milliseconds(seconds, "DelaySeconds")).transpose()?,
            group_id: self.message_group_id,
            deduplication_id: self.message_deduplication_id,
            trace_header,
            message_attributes: attributes(self.message_attributes)?,
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SendMessage {
    queue_url: Option<String>,
    #[serde(flatten)]
    message: WireMessage,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SendMessageBatch {
    queue_url: Option<String>,
    entries: Option<Vec<SendEntry>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SendEntry {
    id: Option<String>,
    #[serde(flatten)]
    message: WireMessage,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SentMessage {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    message_id: String,
    #[serde(rename = "MD5OfMessageBody")]
    md5_of_message_body: String,
    #[serde(rename = "MD5OfMessageAttributes", skip_serializing_if = "Option::is_none")]
    md5_of_message_attributes: Option<String>,
    #[serde(rename = "MD5OfMessageSystemAttributes", skip_serializing_if = "Option::is_none")]
    md5_of_message_system_attributes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence_number: Option<String>,
}

impl SentMessage {
    fn new(id: Option<String>, sent: Sent) -> Self {
        Self {
            id,
            message_id: sent.id,
            md5_of_message_body: sent.md5_of_body,
            md5_of_message_attributes: sent.md5_of_message_attributes,
            md5_of_message_system_attributes: sent.md5_of_system_attributes,
            sequence_number: sent.sequence_number,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ReceiveMessage {
    queue_url: Option<String>,
    attribute_names: Option<Vec<String>>,
    message_system_attribute_names: Option<Vec<String>>,
    message_attribute_names: Option<Vec<String>>,
    max_number_of_messages: Option<i64>,
    visibility_timeout: Option<i64>,
    wait_time_seconds: Option<i64>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ReceivedMessages {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    messages: Vec<ReceivedMessage>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ReceivedMessage {
    message_id: String,
    receipt_handle: String,
    #[serde(rename = "MD5OfBody")]
    md5_of_body: String,
    body: String,
    #[serde(skip_serializing_if = "Attributes::is_empty")]
    attributes: Attributes,
    #[serde(rename = "MD5OfMessageAttributes", skip_serializing_if = "Option::is_none")]
    md5_of_message_attributes: Option<String>,
    #[serde(skip_serializing_if = "WireAttributes::is_empty")]
    message_attributes: WireAttributes,
}

/// Which attributes a receive asks for.
struct Wanted {
    system: Vec<String>,
    message: Vec<String>,
}

impl Wanted {
    fn message_attribute(&self, name: &str) -> bool {
        self.message.iter().any(|wanted| match wanted.as_str() {
            "All" | "*" => true,
            wanted => {
                wanted == name || wanted.strip_suffix(".*").is_some_and(|prefix| name.starts_with(prefix))
            }
        })
    }

    fn of(&self, message: Message) -> ReceivedMessage {
        let Message { id, receipt, body, mut attributes, mut message_attributes, md5_of_body, .. } = message;
        let all = self.system.iter().any(|name| name == "All");
        attributes.retain(|name, _| all || self.system.contains(name));
        message_attributes.retain(|name, _| self.message_attribute(name));
        ReceivedMessage {
            message_id: id,
            receipt_handle: receipt,
            md5_of_body,
            body,
            attributes,
            // Of the attributes given, which is what clients check.
            md5_of_message_attributes: checksum::md5_of_attributes(&message_attributes),
            message_attributes: message_attributes
                .iter()
                .map(|(name, attribute)| (name.clone(), WireAttribute::from(attribute)))
                .collect(),
        }
    }
}

/// A receipt handle and what to do with it, alone or in a batch.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WireReceipt {
    id: Option<String>,
    receipt_handle: Option<String>,
    visibility_timeout: Option<i64>,
}

impl WireReceipt {
    fn change(&self) -> Result<(String, u64), SqsError> {
        let handle = required(self.receipt_handle.clone(), "ReceiptHandle")?;
        let seconds = required(self.visibility_timeout, "VisibilityTimeout")?;
        let visibility_ms = milliseconds(seconds, "VisibilityTimeout")?;
        validate::check_visibility(visibility_ms)?;
        Ok((handle, visibility_ms))
    }

    fn handle(&self) -> Result<String, SqsError> {
        required(self.receipt_handle.clone(), "ReceiptHandle")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct OneReceipt {
    queue_url: Option<String>,
    #[serde(flatten)]
    receipt: WireReceipt,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ReceiptBatch {
    queue_url: Option<String>,
    entries: Option<Vec<WireReceipt>>,
}

/// The entries of a batch on their way: those that go on to the store, and those that already failed.
struct Batch<T> {
    ids: Vec<String>,
    items: Vec<T>,
    failed: Vec<FailedEntry>,
}

impl<T> Batch<T> {
    fn new() -> Self {
        Self { ids: Vec::new(), items: Vec::new(), failed: Vec::new() }
    }

    fn add(&mut self, server: &Server, id: String, item: Result<T, SqsError>) {
        match item {
            Err(error) => self.failed.push(FailedEntry::new(id, &error)),
            Ok(_) if server.engine.faults().refuse_entry() => self.failed.push(FailedEntry::injected(id)),
            Ok(item) => {
                self.ids.push(id);
                self.items.push(item);
            }
        }
    }
}

fn batch_result<T, U>(
    ids: Vec<String>,
    results: Vec<Result<T, SqsError>>,
    failed: Vec<FailedEntry>,
    entry: impl Fn(String, T) -> U,
) -> BatchResult<U> {
    let mut answer = BatchResult { successful: Vec::with_capacity(ids.len()), failed };
    for (id, result) in ids.into_iter().zip(results) {
        match result {
            Ok(done) => answer.successful.push(entry(id, done)),
            Err(error) => answer.failed.push(FailedEntry::new(id, &error)),
        }
    }
    answer
}

impl Server {
    pub(super) async fn send_message(&self, request: SendMessage) -> Result<SentMessage, SqsError> {
        let sent = self.engine.send(&queue(request.queue_url)?, request.message.outgoing()?).await?;
        Ok(SentMessage::new(None, sent))
    }

    pub(super) async fn send_message_batch(
        &self,
        request: SendMessageBatch,
    ) -> Result<BatchResult<SentMessage>, SqsError> {
        let name = queue(request.queue_url)?;
        let entries = request.entries.unwrap_or_default();
        let ids = entries.iter().map(|entry| entry.id.as_deref().unwrap_or_default());
        validate::check_batch_ids("SendMessageBatchRequestEntry", ids)?;
        let entries = entries
            .into_iter()
            .map(|entry| (entry.id.unwrap_or_default(), entry.message.outgoing()))
            .collect::<Vec<_>>();
        let sizes = entries.iter().filter_map(|(_, message)| message.as_ref().ok()).map(validate::size_bytes);
        let sent_bytes = sizes.sum();
        if sent_bytes > limits::MAX_MESSAGE_BYTES {
            return Err(SqsError::BatchRequestTooLong { sent_bytes });
        }
        let mut batch = Batch::new();
        for (id, message) in entries {
            batch.add(self, id, message.and_then(validate::prepare));
        }
        let Batch { ids, items, failed } = batch;
        let results = self.engine.run(move |store| store.send(&name, "SendMessageBatch", items)).await?;
        Ok(batch_result(ids, results, failed, |id, sent| SentMessage::new(Some(id), sent)))
    }

    pub(super) async fn receive_message(
        &self,
        request: ReceiveMessage,
    ) -> Result<ReceivedMessages, SqsError> {
        let name = queue(request.queue_url)?;
        let max = request.max_number_of_messages.unwrap_or(1);
        let max = usize::try_from(max).unwrap_or(0);
        let optional = |value: Option<i64>, name| value.map(|value| milliseconds(value, name)).transpose();
        let visibility_ms = optional(request.visibility_timeout, "VisibilityTimeout")?;
        let wait_ms = optional(request.wait_time_seconds, "WaitTimeSeconds")?;
        let mut system = request.attribute_names.unwrap_or_default();
        system.extend(request.message_system_attribute_names.unwrap_or_default());
        let wanted = Wanted { system, message: request.message_attribute_names.unwrap_or_default() };
        let messages = self.engine.receive_until(&name, max, wait_ms, visibility_ms, self.stopped()).await?;
        Ok(ReceivedMessages { messages: messages.into_iter().map(|message| wanted.of(message)).collect() })
    }

    pub(super) async fn delete_message(&self, request: OneReceipt) -> Result<Empty, SqsError> {
        self.engine.delete(&queue(request.queue_url)?, &[request.receipt.handle()?]).await?;
        Ok(Empty {})
    }

    pub(super) async fn delete_message_batch(
        &self,
        request: ReceiptBatch,
    ) -> Result<BatchResult<DoneEntry>, SqsError> {
        let entry = "DeleteMessageBatchRequestEntry";
        let (name, Batch { ids, items, failed }) = self.receipts(request, entry, WireReceipt::handle)?;
        let requests = ("DeleteMessageBatch", 1);
        let results = self.engine.run(move |store| store.delete(&name, requests, &items)).await?;
        Ok(batch_result(ids, results, failed, |id, ()| DoneEntry { id }))
    }

    pub(super) async fn change_visibility(&self, request: OneReceipt) -> Result<Empty, SqsError> {
        let (handle, visibility_ms) = request.receipt.change()?;
        self.engine.change_visibility(&queue(request.queue_url)?, &handle, visibility_ms).await?;
        Ok(Empty {})
    }

    pub(super) async fn change_visibility_batch(
        &self,
        request: ReceiptBatch,
    ) -> Result<BatchResult<DoneEntry>, SqsError> {
        let entry = "ChangeMessageVisibilityBatchRequestEntry";
        let (name, Batch { ids, items, failed }) = self.receipts(request, entry, WireReceipt::change)?;
        let operation = "ChangeMessageVisibilityBatch";
        let results = self.engine.run(move |store| store.change_visibility(&name, operation, &items)).await?;
        Ok(batch_result(ids, results, failed, |id, ()| DoneEntry { id }))
    }

    fn receipts<T>(
        &self,
        request: ReceiptBatch,
        entry: &'static str,
        read: impl Fn(&WireReceipt) -> Result<T, SqsError>,
    ) -> Result<(String, Batch<T>), SqsError> {
        let name = queue(request.queue_url)?;
        let entries = request.entries.unwrap_or_default();
        validate::check_batch_ids(
            entry,
            entries.iter().map(|entry| entry.id.as_deref().unwrap_or_default()),
        )?;
        let mut batch = Batch::new();
        for entry in entries {
            let item = read(&entry);
            batch.add(self, entry.id.unwrap_or_default(), item);
        }
        Ok((name, batch))
    }
}
