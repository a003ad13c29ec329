//! What can go wrong, in the words and with the codes of SQS.

use crate::limits;

/// An error of the queue service: the errors of SQS, those of its JSON protocol, and the failure of the store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SqsError {
    /// No queue of that name.
    #[error("The specified queue does not exist: create {queue:?} first.")]
    QueueDoesNotExist {
        /// The name asked for.
        queue: String,
    },
    /// A queue of that name exists with other settings.
    #[error(
        "A queue already exists with the same name and a different value for attribute {attribute}: \
         change {queue:?} with SetQueueAttributes instead."
    )]
    QueueNameExists {
        /// The name.
        queue: String,
        /// The first setting that differs.
        attribute: String,
    },
    /// A queue of that name was deleted less than 60 s ago.
    #[error(
        "You must wait 60 seconds after deleting the queue {queue:?} before you can create another of that name."
    )]
    QueueDeletedRecently {
        /// The name.
        queue: String,
    },
    /// The queue was purged less than 60 s ago.
    #[error("Only one PurgeQueue operation on {queue} is allowed every 60 seconds: wait, then repeat it.")]
    PurgeQueueInProgress {
        /// The name.
        queue: String,
    },
    /// Not a receipt handle of this queue.
    #[error("The input receipt handle is invalid: give one that ReceiveMessage answered for this queue.")]
    ReceiptHandleIsInvalid,
    /// The message isn't in flight under this receipt handle (any more).
    #[error("The message is not in flight under this receipt handle: use the one of its latest receive.")]
    MessageNotInflight,
    /// 120,000 messages are in flight.
    #[error("Too many messages are in flight on {queue:?}: delete messages after processing them.")]
    OverLimit {
        /// The queue.
        queue: String,
    },
    /// No such queue attribute, or not on this type of queue.
    #[error("Unknown Attribute {name}.")]
    InvalidAttributeName {
        /// The attribute.
        name: String,
    },
    /// A queue attribute's value isn't allowed.
    #[error("Invalid value for the parameter {name}. Reason: {reason}")]
    InvalidAttributeValue {
        /// The attribute.
        name: String,
        /// What is wrong with it, and what is allowed.
        reason: String,
    },
    /// A body, or a String attribute, has a character that SQS refuses.
    #[error(
        "Invalid characters found in {part}. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | \
         #xE000 to #xFFFD | #x10000 to #x10FFFF"
    )]
    InvalidMessageContents {
        /// Which part of the message.
        part: String,
    },
    /// A parameter's value isn't allowed.
    #[error("{reason}")]
    InvalidParameterValue {
        /// What is wrong, where, and what is allowed.
        reason: String,
    },
    /// A parameter is missing.
    #[error("The request must contain the parameter {name}.")]
    MissingParameter {
        /// Its name.
        name: &'static str,
    },
    /// Not the URL of a queue.
    #[error(
        "The address {address:?} is not valid: give a queue URL that CreateQueue or GetQueueUrl answered."
    )]
    InvalidAddress {
        /// What was given.
        address: String,
    },
    /// A batch without entries.
    #[error("There should be at least one {entry} in the request.")]
    EmptyBatchRequest {
        /// The type of entry.
        entry: &'static str,
    },
    /// A batch with too many entries.
    #[error("Maximum number of entries per request are {max}. You have sent {sent}.", max = limits::MAX_BATCH_ENTRIES)]
    TooManyEntriesInBatchRequest {
        /// How many it has.
        sent: usize,
    },
    /// Two entries of a batch with the same id.
    #[error("Id {id} repeated: give every entry of a batch an id of its own.")]
    BatchEntryIdsNotDistinct {
        /// The id.
        id: String,
    },
    /// An entry id that is empty, too long or has other characters.
    #[error(
        "A batch entry id can only contain alphanumeric characters, hyphens and underscores. \
         It can be at most {max} letters long.",
        max = limits::MAX_NAME_CHARS
    )]
    InvalidBatchEntryId,
    /// The messages of a batch are too long together.
    #[error(
        "Batch requests cannot be longer than {max} bytes. You have sent {sent_bytes} bytes.",
        max = limits::MAX_MESSAGE_BYTES
    )]
    BatchRequestTooLong {
        /// How long they are.
        sent_bytes: usize,
    },
    /// An operation of SQS that this service doesn't have.
    #[error("The operation {operation} is not supported by this service.")]
    UnsupportedOperation {
        /// Its name.
        operation: &'static str,
    },
    /// The queue of an ARN parameter doesn't exist.
    #[error("The resource that you specified for the {parameter} parameter doesn't exist.")]
    ResourceNotFound {
        /// The parameter.
        parameter: &'static str,
    },
    /// A request body that isn't the JSON of its operation.
    #[error("The request body is not valid JSON for this operation: {detail}.")]
    Serialization {
        /// What the parser said: position and expectation, never content.
        detail: String,
    },
    /// `X-Amz-Target` names no operation of SQS.
    #[error(
        "The header X-Amz-Target names no operation of AmazonSQS: send AmazonSQS.SendMessage, for example."
    )]
    UnknownOperation,
    /// No `X-Amz-Target`.
    #[error("The request must contain the header X-Amz-Target, and use the AWS JSON 1.0 protocol.")]
    MissingAction,
    /// Not a request of the protocol at all.
    #[error("Invalid HTTP request. Reason: {reason}")]
    InvalidHttpRequest {
        /// What is wrong.
        reason: &'static str,
    },
    /// A request body longer than any valid request.
    #[error("The request body is longer than {max_bytes} bytes: send smaller batches.")]
    RequestTooLarge {
        /// The limit.
        max_bytes: usize,
    },
    /// The store failed; nothing of the request was kept.
    #[error("The queue store failed ({detail}); nothing was changed. Check its file and disk, then repeat.")]
    Storage {
        /// What SQLite or the system said.
        detail: String,
    },
    /// The engine's thread has ended.
    #[error("The queue service has stopped: open the engine again.")]
    Stopped,
}

impl From<rusqlite::Error> for SqsError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Storage { detail: error.to_string() }
    }
}

/// How an error goes over the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wire {
    /// The `__type` of the JSON body, without its namespace.
    pub shape: &'static str,
    /// The code of the header `x-amzn-query-error` and of a batch entry, which SDKs map their typed errors from.
    pub code: &'static str,
    /// The HTTP status.
    pub status: u16,
}

const fn wire(shape: &'static str, code: &'static str, status: u16) -> Wire {
    Wire { shape, code, status }
}

impl SqsError {
    /// Another parameter error.
    pub(crate) fn parameter(reason: impl Into<String>) -> Self {
        Self::InvalidParameterValue { reason: reason.into() }
    }

    /// The wire form. Shapes, codes and statuses are those of the service's model and of recorded answers.
    pub(crate) fn wire(&self) -> Wire {
        match self {
            Self::QueueDoesNotExist { .. } => {
                wire("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", 400)
            }
            Self::QueueNameExists { .. } => wire("QueueNameExists", "QueueAlreadyExists", 400),
            Self::QueueDeletedRecently { .. } => {
                wire("QueueDeletedRecently", "AWS.SimpleQueueService.QueueDeletedRecently", 400)
            }
            Self::PurgeQueueInProgress { .. } => {
                wire("PurgeQueueInProgress", "AWS.SimpleQueueService.PurgeQueueInProgress", 403)
            }
            Self::ReceiptHandleIsInvalid => wire("ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", 400),
            Self::MessageNotInflight => {
                wire("MessageNotInflight", "AWS.SimpleQueueService.MessageNotInflight", 400)
            }
            Self::OverLimit { .. } => wire("OverLimit", "OverLimit", 403),
            Self::InvalidAttributeName { .. } => wire("InvalidAttributeName", "InvalidAttributeName", 400),
            Self::InvalidAttributeValue { .. } => wire("InvalidAttributeValue", "InvalidAttributeValue", 400),
            Self::InvalidMessageContents { .. } => {
                wire("InvalidMessageContents", "InvalidMessageContents", 400)
            }
            Self::InvalidParameterValue { .. } => {
                wire("InvalidParameterValueException", "InvalidParameterValue", 400)
            }
            Self::MissingParameter { .. } => {
                wire("MissingRequiredParameterException", "MissingParameter", 400)
            }
            Self::InvalidAddress { .. } => wire("InvalidAddress", "InvalidAddress", 404),
            Self::EmptyBatchRequest { .. } => {
                wire("EmptyBatchRequest", "AWS.SimpleQueueService.EmptyBatchRequest", 400)
            }
            Self::TooManyEntriesInBatchRequest { .. } => wire(
                "TooManyEntriesInBatchRequest",
                "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
                400,
            ),
            Self::BatchEntryIdsNotDistinct { .. } => {
                wire("BatchEntryIdsNotDistinct", "AWS.SimpleQueueService.BatchEntryIdsNotDistinct", 400)
            }
            Self::InvalidBatchEntryId => {
                wire("InvalidBatchEntryId", "AWS.SimpleQueueService.InvalidBatchEntryId", 400)
            }
            Self::BatchRequestTooLong { .. } => {
                wire("BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong", 400)
            }
            Self::UnsupportedOperation { .. } => {
                wire("UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation", 400)
            }
            Self::ResourceNotFound { .. } => {
                wire("ResourceNotFoundException", "ResourceNotFoundException", 404)
            }
            Self::Serialization { .. } => wire("SerializationException", "MalformedInput", 400),
            Self::UnknownOperation => wire("UnknownOperationException", "InvalidAction", 400),
            Self::MissingAction => wire("MissingActionException", "MissingAction", 400),
            Self::InvalidHttpRequest { .. } => wire("InvalidHttpRequestException", "InvalidHttpRequest", 400),
            Self::RequestTooLarge { .. } => {
                wire("RequestEntityTooLargeException", "RequestEntityTooLarge", 413)
            }
            Self::Storage { .. } => wire("InternalFailure", "InternalFailure", 500),
            Self::Stopped => wire("ServiceUnavailable", "ServiceUnavailable", 503),
        }
    }

    /// Whether the caller is at fault (SQS calls it `Sender`), not the service.
    #[must_use]
    pub fn is_sender_fault(&self) -> bool {
        self.wire().status < 500
    }

    /// The error code of SQS, as in `x-amzn-query-error` and in a batch entry.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.wire().code
    }
}
