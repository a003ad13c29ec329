//! The limits of SQS
//! (<https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>).

/// A message with its attributes, and all messages of a batch together, in bytes (1 MiB since August 2025).
pub const MAX_MESSAGE_BYTES: usize = 1_048_576;
/// The least `MaximumMessageSize` a queue may be given, in bytes.
pub const MIN_MAXIMUM_MESSAGE_BYTES: usize = 1_024;
/// Entries of a batch request, and messages of a receive.
pub const MAX_BATCH_ENTRIES: usize = 10;
/// Message attributes of a message.
pub const MAX_MESSAGE_ATTRIBUTES: usize = 10;
/// Default visibility timeout: 30 s.
pub const DEFAULT_VISIBILITY_MS: u64 = 30_000;
/// Longest visibility timeout, extensions included: 12 h.
pub const MAX_VISIBILITY_MS: u64 = 43_200_000;
/// Longest delay: 15 min.
pub const MAX_DELAY_MS: u64 = 900_000;
/// Longest long poll: 20 s.
pub const MAX_WAIT_MS: u64 = 20_000;
/// Default retention: 4 days.
pub const DEFAULT_RETENTION_MS: u64 = 345_600_000;
/// Shortest retention: 1 min.
pub const MIN_RETENTION_MS: u64 = 60_000;
/// Longest retention: 14 days.
pub const MAX_RETENTION_MS: u64 = 1_209_600_000;
/// How long a FIFO queue remembers a deduplication id: 5 min.
pub const DEDUPLICATION_MS: u64 = 300_000;
/// Between two purges of a queue, and between deleting a queue and creating one of the same name: 60 s.
pub const PAUSE_MS: u64 = 60_000;
/// Messages in flight at once on a standard queue, and on a FIFO queue.
pub const MAX_IN_FLIGHT: u64 = 120_000;
/// Highest `maxReceiveCount` of a redrive policy.
pub const MAX_RECEIVE_COUNT: u32 = 1_000;
/// Characters of a queue name, `.fifo` included, and of a batch entry id.
pub const MAX_NAME_CHARS: usize = 80;
/// Characters of a message group id and of a deduplication id.
pub const MAX_GROUP_ID_CHARS: usize = 128;
/// Characters of a message attribute's name, and of its type.
pub const MAX_ATTRIBUTE_NAME_CHARS: usize = 256;
/// Queues of one page of a listing.
pub const MAX_LISTED_QUEUES: usize = 1_000;
