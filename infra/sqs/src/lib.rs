//! An embeddable SQS-compatible queue service, durable on SQLite.
//!
//! [`Engine`] is the service, in process; [`serve`] puts it on a TCP listener under the AWS JSON 1.0 protocol of SQS, so
//! that an unmodified AWS SDK with `endpoint_url` works against it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use glassline_sqs::{Engine, Outgoing, QueueSettings, queue_url, serve};
//!
//! let engine = Engine::in_memory()?;
//! engine.create_queue("render", QueueSettings::default()).await?;
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let url = queue_url(listener.local_addr()?, "render");
//! assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/000000000000/render"));
//! tokio::spawn(serve(listener, engine.clone(), std::future::pending()));
//!
//! engine.send("render", Outgoing::new("a body")).await?;
//! let messages = engine.receive("render", 10, 0, None).await?;
//! engine.delete("render", &[messages[0].receipt.clone()]).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Durability
//! One thread owns the SQLite connection (WAL). It takes the requests that wait, runs each in a savepoint of one
//! transaction, commits, and only then answers: whatever was acknowledged survives kill -9, and with the default
//! [`Durability::PowerLoss`] the loss of power too. Messages in flight come back when their visibility ends, restart or
//! not. The file is locked: one engine has it at a time. Counts and faults aren't stored.
//!
//! # Time
//! Delays, visibility, retention, deduplication and time stamps follow the injected [`Clock`]; the wait of a long poll is
//! real time. Long polls are woken by what happens (a send, a message becoming visible, a freed group), not by polling.
//!
//! # As in SQS
//! * `CreateQueue`, `GetQueueUrl`, `ListQueues`, `DeleteQueue`, `PurgeQueue`, `GetQueueAttributes`,
//!   `SetQueueAttributes`, `SendMessage`, `ReceiveMessage`, `DeleteMessage`, `ChangeMessageVisibility`, the batches of
//!   these, `ListDeadLetterSourceQueues`, `StartMessageMoveTask`, `ListMessageMoveTasks`; error types, codes and
//!   statuses; the limits in [`limits`], 120,000 messages in flight included; MD5 digests.
//! * The latest receipt handle counts. On a standard queue a stale one deletes nothing and succeeds, and one whose
//!   visibility has ended still deletes while nobody else received the message; on a FIFO queue both are refused.
//! * A message received `max_receives` times moves to the dead-letter queue at the next receive that comes upon it, and
//!   keeps its id, receive count and (standard) time.
//! * FIFO: a group waits while one of its messages is in flight; deduplication over 5 minutes by id or content, per queue
//!   or group, also of deleted messages.
//! * 60 s between purges, and between deleting a queue and creating one of its name.
//!
//! # Unlike SQS
//! * One region (us-east-1), one account (000000000000). Signatures, policies and encryption aren't checked: anybody who
//!   reaches the port may do anything, so listen on the loopback address. Attributes for those are kept and shown.
//! * Consistent: every change is seen at once, the `Approximate…` numbers are exact, a short poll looks at all messages,
//!   standard queues deliver once and nearly in order. [`Faults`] bring back copies, delays and disorder.
//! * No throttling. `MessageGroupId` on a standard queue is stored but doesn't make it fair.
//! * A queue's `MaximumMessageSize` also holds for each entry of a batch.
//! * Message moves are done when their start is answered, whatever rate was asked for.
//! * `ReceiveRequestAttemptId` is ignored: repeating a FIFO receive gives the next messages.
//! * No `AddPermission`, `RemovePermission`, `TagQueue`, `UntagQueue`, `ListQueueTags`, `CancelMessageMoveTask`
//!   (`UnsupportedOperation`); tags given to `CreateQueue` are dropped. No Query (XML) protocol.
//! * Queue URLs name the server's own address; in requests only their path counts.

mod checksum;
mod clock;
mod config;
mod engine;
mod error;
mod faults;
mod http;
pub mod limits;
mod receipt;
mod state;
mod store;
mod types;
mod validate;

pub use clock::{Clock, ClockWait, ManualClock, SystemClock};
pub use config::queue_arn;
pub use engine::{Durability, Engine, EngineOptions};
pub use error::SqsError;
pub use faults::{FaultCounts, Faults};
pub use http::{queue_url, serve};
pub use types::{
    AttributeValue, Counts, Depth, Message, MessageAttribute, Outgoing, QueueSettings, Redrive, Sent,
};
