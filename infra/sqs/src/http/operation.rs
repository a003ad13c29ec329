//! The operations of SQS by their names.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Server;
use crate::error::SqsError;

/// An operation that this service has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    ChangeMessageVisibility,
    ChangeMessageVisibilityBatch,
    CreateQueue,
    DeleteMessage,
    DeleteMessageBatch,
    DeleteQueue,
    GetQueueAttributes,
    GetQueueUrl,
    ListDeadLetterSourceQueues,
    ListMessageMoveTasks,
    ListQueues,
    PurgeQueue,
    ReceiveMessage,
    SendMessage,
    SendMessageBatch,
    SetQueueAttributes,
    StartMessageMoveTask,
}

/// Operations of SQS that this service doesn't have.
const UNSUPPORTED: [&str; 6] =
    ["AddPermission", "CancelMessageMoveTask", "ListQueueTags", "RemovePermission", "TagQueue", "UntagQueue"];

impl Operation {
    /// # Errors
    /// `UnsupportedOperation`, `UnknownOperation`.
    pub(super) fn from_name(name: &str) -> Result<Self, SqsError> {
        Ok(match name {
            "ChangeMessageVisibility" => Self::ChangeMessageVisibility,
            "ChangeMessageVisibilityBatch" => Self::ChangeMessageVisibilityBatch,
            "CreateQueue" => Self::CreateQueue,
            "DeleteMessage" => Self::DeleteMessage,
            "DeleteMessageBatch" => Self::DeleteMessageBatch,
            "DeleteQueue" => Self::DeleteQueue,
            "GetQueueAttributes" => Self::GetQueueAttributes,
            "GetQueueUrl" => Self::GetQueueUrl,
            "ListDeadLetterSourceQueues" => Self::ListDeadLetterSourceQueues,
            "ListMessageMoveTasks" => Self::ListMessageMoveTasks,
            "ListQueues" => Self::ListQueues,
            "PurgeQueue" => Self::PurgeQueue,
            "ReceiveMessage" => Self::ReceiveMessage,
            "SendMessage" => Self::SendMessage,
            "SendMessageBatch" => Self::SendMessageBatch,
            "SetQueueAttributes" => Self::SetQueueAttributes,
            "StartMessageMoveTask" => Self::StartMessageMoveTask,
            other => {
                let known = UNSUPPORTED.iter().find(|name| **name == other);
                return Err(known.map_or(SqsError::UnknownOperation, |operation| {
                    SqsError::UnsupportedOperation { operation }
                }));
            }
        })
    }

    /// Whether an injected fault may swallow its answer.
    pub(super) const fn may_lose_reply(self) -> bool {
        matches!(
            self,
            Self::SendMessage | Self::SendMessageBatch | Self::DeleteMessage | Self::DeleteMessageBatch
        )
    }

    /// Does it: takes the JSON of a request, gives that of the answer.
    pub(super) async fn run(self, server: &Server, body: &[u8]) -> Result<Vec<u8>, SqsError> {
        match self {
            Self::ChangeMessageVisibility => json(&server.change_visibility(parse(body)?).await?),
            Self::ChangeMessageVisibilityBatch => json(&server.change_visibility_batch(parse(body)?).await?),
            Self::CreateQueue => json(&server.create_queue(parse(body)?).await?),
            Self::DeleteMessage => json(&server.delete_message(parse(body)?).await?),
            Self::DeleteMessageBatch => json(&server.delete_message_batch(parse(body)?).await?),
            Self::DeleteQueue => json(&server.delete_queue(parse(body)?).await?),
            Self::GetQueueAttributes => json(&server.get_queue_attributes(parse(body)?).await?),
            Self::GetQueueUrl => json(&server.get_queue_url(parse(body)?).await?),
            Self::ListDeadLetterSourceQueues => json(&server.list_dead_letter_sources(parse(body)?).await?),
            Self::ListMessageMoveTasks => json(&server.list_move_tasks(parse(body)?).await?),
            Self::ListQueues => json(&server.list_queues(parse(body)?).await?),
            Self::PurgeQueue => json(&server.purge_queue(parse(body)?).await?),
            // A receive keeps its future for long; boxed, the other requests' futures stay small.
            Self::ReceiveMessage => json(&Box::pin(server.receive_message(parse(body)?)).await?),
            Self::SendMessage => json(&server.send_message(parse(body)?).await?),
            Self::SendMessageBatch => json(&server.send_message_batch(parse(body)?).await?),
            Self::SetQueueAttributes => json(&server.set_queue_attributes(parse(body)?).await?),
            Self::StartMessageMoveTask => json(&server.start_move_task(parse(body)?).await?),
        }
    }
}

/// The parser's own message may quote content, so only the place and kind of the mistake are passed on.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, SqsError> {
    serde_json::from_slice(body).map_err(|error| {
        let kind = match error.classify() {
            serde_json::error::Category::Data => "a value of the wrong type",
            serde_json::error::Category::Eof => "an early end",
            serde_json::error::Category::Io | serde_json::error::Category::Syntax => "a syntax error",
        };
        let detail = format!("{kind} at line {} column {}", error.line(), error.column());
        SqsError::Serialization { detail }
    })
}

fn json<T: Serialize>(answer: &T) -> Result<Vec<u8>, SqsError> {
    serde_json::to_vec(answer).map_err(crate::validate::store_error)
}
