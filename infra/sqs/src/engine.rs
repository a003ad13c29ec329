//! The in-process API.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::{Clock, SystemClock};
use crate::config::QueueConfig;
use crate::error::SqsError;
use crate::faults::{FaultCounts, FaultInjector, Faults};
use crate::limits;
use crate::state::{Observers, Poll};
use crate::store::{Look, Received, Store, StoreHandle};
use crate::types::{Counts, Depth, Message, Outgoing, QueueSettings, Sent};
use crate::validate;

/// What an acknowledged change survives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// The loss of power: each group of changes is flushed to the disk before it is acknowledged (SQLite's
    /// `synchronous=FULL`). Requests that wait together share a flush.
    #[default]
    PowerLoss,
    /// The end of the process at any point (kill -9), not that of the machine (SQLite's `synchronous=NORMAL`). Faster.
    ProcessCrash,
}

/// How to open an engine. The default: the system's clock, and what is acknowledged survives the loss of power.
#[derive(Clone)]
pub struct EngineOptions {
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// What an acknowledged change survives; of no matter in memory.
    pub durability: Durability,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), durability: Durability::default() }
    }
}

/// The queue service. Cheap to clone: clones are the same service, and the last one closes it. Its methods need a Tokio
/// runtime; SQLite runs on a thread of its own.
#[derive(Clone)]
pub struct Engine {
    store: StoreHandle,
    clock: Arc<dyn Clock>,
    faults: Arc<FaultInjector>,
    observers: Arc<Observers>,
}

impl Engine {
    /// Opens the service on a file, which it creates where there is none, with the default options.
    ///
    /// # Errors
    /// [`SqsError::Storage`]: the file can't be opened, isn't a queue store, or another process has it open.
    pub fn open(path: &Path) -> Result<Self, SqsError> {
        Self::open_with(Some(path), EngineOptions::default())
    }

    /// Opens a service that is gone with its last clone.
    ///
    /// # Errors
    /// [`SqsError::Storage`]: its thread can't start.
    pub fn in_memory() -> Result<Self, SqsError> {
        Self::open_with(None, EngineOptions::default())
    }

    /// Opens the service on a file, or in memory where `path` is none.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn open_with(path: Option<&Path>, options: EngineOptions) -> Result<Self, SqsError> {
        let EngineOptions { clock, durability } = options;
        let (faults, observers) = (Arc::<FaultInjector>::default(), Arc::<Observers>::default());
        let store = StoreHandle::open(
            path,
            durability,
            Arc::clone(&clock),
            Arc::clone(&faults),
            Arc::clone(&observers),
        )?;
        Ok(Self { store, clock, faults, observers })
    }

    /// Creates a queue; does nothing where it exists with the same settings. A dead-letter queue must exist before.
    ///
    /// # Errors
    /// `QueueNameExists`: it exists with other settings. `QueueDeletedRecently`. A name, setting or redrive policy that
    /// SQS refuses.
    pub async fn create_queue(&self, name: &str, settings: QueueSettings) -> Result<(), SqsError> {
        let name = name.to_owned();
        let config = QueueConfig::from(settings);
        self.store.run(move |store| store.create_queue(&name, &config, None)).await
    }

    /// Deletes a queue with its messages. The name is free again after 60 s.
    ///
    /// # Errors
    /// `QueueDoesNotExist`.
    pub async fn delete_queue(&self, name: &str) -> Result<(), SqsError> {
        let name = name.to_owned();
        self.store.run(move |store| store.delete_queue(&name)).await
    }

    /// Deletes all messages of a queue, at most every 60 s.
    ///
    /// # Errors
    /// `QueueDoesNotExist`, `PurgeQueueInProgress`.
    pub async fn purge(&self, queue: &str) -> Result<(), SqsError> {
        let queue = queue.to_owned();
        self.store.run(move |store| store.purge_queue(&queue)).await
    }

    /// Sends a message: it is stored when this returns. Counts as `SendMessage`.
    ///
    /// # Errors
    /// `QueueDoesNotExist`; a message that SQS refuses (size, characters, attributes, delay, group or deduplication id).
    pub async fn send(&self, queue: &str, message: Outgoing) -> Result<Sent, SqsError> {
        let message = validate::prepare(message)?;
        let queue = queue.to_owned();
        let sent = self.store.run(move |store| store.send(&queue, "SendMessage", vec![message])).await?;
        sent.into_iter().next().unwrap_or(Err(SqsError::Stopped))
    }

    /// Receives up to `max` messages (1 to 10); where there are none, waits up to `wait_ms` (0 to 20,000, in real time)
    /// for one to be sent or to become visible. They are invisible to others for `visibility_ms` (0 to 43,200,000), or
    /// as the queue says.
    ///
    /// Dropping the future while it takes messages leaves them in flight until their visibility ends, as a client that
    /// hangs up on SQS does.
    ///
    /// # Errors
    /// `QueueDoesNotExist`; a value out of range; `OverLimit`, with 120,000 messages in flight and no wait.
    pub async fn receive(
        &self,
        queue: &str,
        max: usize,
        wait_ms: u64,
        visibility_ms: Option<u64>,
    ) -> Result<Vec<Message>, SqsError> {
        self.receive_until(queue, max, Some(wait_ms), visibility_ms, std::future::pending()).await
    }

    /// [`Engine::receive`] with the queue's own wait where there is none given; stops waiting when `stop` ends.
    pub(crate) async fn receive_until(
        &self,
        queue: &str,
        max: usize,
        wait_ms: Option<u64>,
        visibility_ms: Option<u64>,
        stop: impl Future<Output = ()>,
    ) -> Result<Vec<Message>, SqsError> {
        validate::check_max_messages(max)?;
        validate::check_wait(wait_ms.unwrap_or(0))?;
        validate::check_visibility(visibility_ms.unwrap_or(0))?;
        let started = Instant::now();
        let mut poll = Poll::new(&self.observers, queue);
        let mut look = Look { max, visibility_ms, wait_ms, first: true };
        let mut stop = std::pin::pin!(stop);
        loop {
            poll.start();
            let found = self.look(queue, look).await?;
            let deadline = started + Duration::from_millis(found.wait_ms);
            if !found.messages.is_empty() || Instant::now() >= deadline {
                return Ok(found.messages);
            }
            look.first = false;
            tokio::select! {
                () = poll.changed() => {}
                () = self.until_visible(found.next_visible_ms) => {}
                () = tokio::time::sleep_until(deadline) => return Ok(Vec::new()),
                () = &mut stop => return Ok(Vec::new()),
            }
        }
    }

    async fn look(&self, queue: &str, look: Look) -> Result<Received, SqsError> {
        let queue = queue.to_owned();
        self.store.run(move |store| store.receive(&queue, look)).await
    }

    async fn until_visible(&self, visible_ms: Option<u64>) {
        match visible_ms {
            Some(visible_ms) => self.clock.reached(visible_ms).await,
            None => std::future::pending().await,
        }
    }

    /// Deletes messages by their receipt handles. All valid handles are honoured even where one is refused. One handle
    /// counts as `DeleteMessage`, more as a `DeleteMessageBatch` per ten.
    ///
    /// On a standard queue a handle that a later receive replaced succeeds without deleting, as in SQS.
    ///
    /// # Errors
    /// `QueueDoesNotExist`; the first refusal of a handle: `ReceiptHandleIsInvalid`, or on a FIFO queue
    /// `InvalidParameterValue` where it has expired.
    pub async fn delete(&self, queue: &str, receipts: &[String]) -> Result<(), SqsError> {
        let requests = match receipts.len() {
            0 | 1 => ("DeleteMessage", 1),
            many => ("DeleteMessageBatch", many.div_ceil(limits::MAX_BATCH_ENTRIES) as u64),
        };
        let (queue, receipts) = (queue.to_owned(), receipts.to_vec());
        let results = self.store.run(move |store| store.delete(&queue, requests, &receipts)).await?;
        results.into_iter().collect()
    }

    /// Makes a received message visible again in `visibility_ms` from now (0 to 43,200,000; with the time since it was
    /// received at most 43,200,000).
    ///
    /// # Errors
    /// `QueueDoesNotExist`, `ReceiptHandleIsInvalid`; `MessageNotInflight`: it was received again since, or on a FIFO
    /// queue its visibility has ended; `InvalidParameterValue`: too long, or the message is gone.
    pub async fn change_visibility(
        &self,
        queue: &str,
        receipt: &str,
        visibility_ms: u64,
    ) -> Result<(), SqsError> {
        validate::check_visibility(visibility_ms)?;
        let (queue, change) = (queue.to_owned(), [(receipt.to_owned(), visibility_ms)]);
        let operation = "ChangeMessageVisibility";
        let results =
            self.store.run(move |store| store.change_visibility(&queue, operation, &change)).await?;
        results.into_iter().collect()
    }

    /// How many messages a queue holds, exactly.
    ///
    /// # Errors
    /// `QueueDoesNotExist`.
    pub async fn depth(&self, queue: &str) -> Result<Depth, SqsError> {
        let queue = queue.to_owned();
        self.store.run(move |store| store.depth(&queue)).await
    }

    /// Every message stored, visible or not, in the order of sending and at most `limit`, without receiving it: their
    /// receipts are empty.
    ///
    /// # Errors
    /// `QueueDoesNotExist`.
    pub async fn peek(&self, queue: &str, limit: usize) -> Result<Vec<Message>, SqsError> {
        let queue = queue.to_owned();
        self.store.run(move |store| store.peek(&queue, limit)).await
    }

    /// The names of all queues, in order.
    ///
    /// # Errors
    /// `Storage`.
    pub async fn queues(&self) -> Result<Vec<String>, SqsError> {
        self.store.run(|store| store.queue_names("", "", usize::MAX)).await
    }

    /// What happened on each queue since this service was opened; queues without anything aren't in it. Requests count
    /// where they reached an existing queue, refused there or not.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, Counts> {
        self.observers.counts()
    }

    /// Injects these faults from now on, and starts their random streams at their seed.
    pub fn set_faults(&self, faults: Faults) {
        self.faults.set(faults);
    }

    /// How often each fault was injected since this service was opened.
    #[must_use]
    pub fn fault_counts(&self) -> FaultCounts {
        self.faults.counts()
    }

    pub(crate) fn faults(&self) -> &FaultInjector {
        &self.faults
    }

    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, SqsError> + Send + 'static,
    ) -> Result<T, SqsError> {
        self.store.run(work).await
    }
}
