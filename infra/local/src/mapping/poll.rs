//! Takes messages and runs their batches.

use std::sync::Arc;
use std::time::Duration;

use glassline_sqs::Message;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::event::{self, MAX_EVENT_BYTES};
use super::response::{Verdict, verdict};
use super::{DEFAULT_CONCURRENCY, Shared};
use crate::lambda::InvokeError;

/// Messages of one receive at most.
const MAX_RECEIVE: usize = 10;
/// How long one receive waits for messages: the longest that SQS allows.
const LONG_POLL_MS: u64 = 20_000;
/// How long a receive under way is waited for when the mapping stops: one that is taking messages ends within this
/// time and they are served; one that only waits is dropped.
const LAST_RECEIVE: Duration = Duration::from_millis(200);
/// The pause after a failed request to the queue.
const QUEUE_PAUSE: Duration = Duration::from_millis(500);
/// How often a delete is tried.
const DELETE_TRIES: u32 = 3;
/// The pause after the first throttled try of a batch; it doubles with each further one.
const THROTTLE_PAUSE: Duration = Duration::from_millis(50);
/// The longest such pause.
const MAX_THROTTLE_PAUSE: Duration = Duration::from_secs(5);

type Stop = watch::Receiver<bool>;

/// What one invocation gets of a batch.
struct Part<'a> {
    messages: &'a [Message],
    records: &'a [String],
    taken: Instant,
}

/// A batch and when its first message was taken.
struct Batch {
    messages: Vec<Message>,
    taken: Instant,
}

/// A batch's place among those that run; given up however the batch ends.
struct Running {
    shared: Arc<Shared>,
    _permit: OwnedSemaphorePermit,
}

impl Running {
    fn new(shared: &Arc<Shared>, permit: OwnedSemaphorePermit) -> Self {
        shared.counts().running += 1;
        Self { shared: Arc::clone(shared), _permit: permit }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut counts = self.shared.counts();
        counts.running = counts.running.saturating_sub(1);
    }
}

/// The mapping's life: until it is stopped or its handle is gone, and all its batches have ended.
pub(super) async fn run(shared: Arc<Shared>, mut stop: Stop) {
    let concurrency = shared.mapping.max_concurrency.unwrap_or(DEFAULT_CONCURRENCY);
    let permits = Arc::new(Semaphore::new(usize::try_from(concurrency).unwrap_or(1)));
    let mut running = JoinSet::new();
    // The place comes before the messages: what can't be served yet stays visible to others.
    while let Some(permit) = place(&permits, &mut stop).await {
        while running.try_join_next().is_some() {}
        let Some(batch) = gather(&shared, &mut stop).await else { break };
        if batch.messages.is_empty() {
            continue;
        }
        let (place, stop) = (Running::new(&shared, permit), stop.clone());
        running.spawn(async move { serve(&place.shared, batch, stop).await });
    }
    while running.join_next().await.is_some() {}
}

/// Waits for one of the mapping's places; `None` when it stops.
async fn place(permits: &Arc<Semaphore>, stop: &mut Stop) -> Option<OwnedSemaphorePermit> {
    tokio::select! {
        biased;
        () = stopped(stop) => None,
        permit = Arc::clone(permits).acquire_owned() => permit.ok(),
    }
}

/// Ends when the mapping is stopped or its handle is gone.
async fn stopped(stop: &mut Stop) {
    // An error is the handle's end.
    drop(stop.wait_for(|stop| *stop).await);
}

/// Gathers a batch: what one receive gives or, with a window, what comes until it is full or the window ends. `None`
/// when the mapping stopped and nothing had been taken.
async fn gather(shared: &Shared, stop: &mut Stop) -> Option<Batch> {
    let mapping = &shared.mapping;
    let size = usize::try_from(mapping.batch_size).unwrap_or(MAX_RECEIVE);
    let mut messages = receive(shared, size.min(MAX_RECEIVE), LONG_POLL_MS, stop).await?;
    let taken = Instant::now();
    let end = taken + Duration::from_millis(mapping.window_ms);
    let mut size_bytes: usize = messages.iter().map(about_bytes).sum();
    while !messages.is_empty() && messages.len() < size && size_bytes < MAX_EVENT_BYTES {
        let left_ms = u64::try_from(end.saturating_duration_since(Instant::now()).as_millis()).unwrap_or(0);
        if left_ms == 0 {
            break;
        }
        let room = (size - messages.len()).min(MAX_RECEIVE);
        let Some(more) = receive(shared, room, left_ms.min(LONG_POLL_MS), stop).await else { break };
        size_bytes += more.iter().map(about_bytes).sum::<usize>();
        messages.extend(more);
    }
    Some(Batch { messages, taken })
}

/// How much of an event a message takes, roughly: enough to know when a window's batch is long enough.
fn about_bytes(message: &Message) -> usize {
    message.body.len() + 512
}

/// One receive; `None` when the mapping stopped before it gave anything.
async fn receive(shared: &Shared, max: usize, wait_ms: u64, stop: &mut Stop) -> Option<Vec<Message>> {
    let receive = shared.engine.receive(&shared.mapping.queue, max, wait_ms, None);
    let mut receive = std::pin::pin!(receive);
    let received = tokio::select! {
        received = &mut receive => received,
        () = stopped(stop) => match timeout(LAST_RECEIVE, receive).await {
            Ok(Ok(messages)) if !messages.is_empty() => Ok(messages),
            Ok(_) | Err(_) => return None,
        },
    };
    match received {
        Ok(messages) => Some(messages),
        Err(error) => {
            tracing::warn!(queue = %shared.mapping.queue, %error, "messages could not be received; trying again");
            shared.counts().queue_errors += 1;
            tokio::select! {
                () = sleep(QUEUE_PAUSE) => Some(Vec::new()),
                () = stopped(stop) => None,
            }
        }
    }
}

/// Runs a batch, as several invocations one after the other where one event would be too long.
async fn serve(shared: &Shared, batch: Batch, mut stop: Stop) {
    let Batch { messages, taken } = batch;
    let records: Result<Vec<String>, _> =
        messages.iter().map(|message| event::record(message, &shared.source)).collect();
    let Ok(records) = records else {
        tracing::error!(queue = %shared.mapping.queue, "a batch could not be written as JSON; it stays in the queue");
        return;
    };
    let fifo = shared.mapping.queue.ends_with(".fifo");
    for range in event::split(&records, MAX_EVENT_BYTES) {
        let part = Part { messages: &messages[range.clone()], records: &records[range], taken };
        let succeeded = serve_event(shared, &part, &mut stop).await;
        if fifo && !succeeded {
            // What follows in the same groups must not overtake what failed.
            break;
        }
    }
}

/// Runs one invocation and deletes what succeeded. Returns whether all did. What failed is left alone: it becomes
/// visible when its visibility ends, as on AWS.
async fn serve_event(shared: &Shared, part: &Part<'_>, stop: &mut Stop) -> bool {
    let Some(result) = invoke(shared, part, stop).await else { return false };
    let messages = part.messages;
    let is_known = |id: &str| messages.iter().any(|message| message.id == id);
    let verdict = match result {
        Ok(answer) if shared.mapping.report_failures => verdict(&answer, is_known),
        Ok(_) => Verdict::Succeeded,
        Err(error) => {
            tracing::debug!(function = %shared.mapping.function, error_type = error.error_type(), "a batch failed");
            Verdict::Failed("the invocation failed")
        }
    };
    let (done, failed): (Vec<&Message>, Vec<&Message>) = match &verdict {
        Verdict::Succeeded => (messages.iter().collect(), Vec::new()),
        Verdict::Partly(ids) => messages.iter().partition(|message| !ids.contains(&message.id)),
        Verdict::Failed(_) => (Vec::new(), messages.iter().collect()),
    };
    {
        let mut counts = shared.counts();
        counts.batches += 1;
        counts.records += messages.len() as u64;
        counts.failed += failed.len() as u64;
        match &verdict {
            Verdict::Succeeded => {}
            Verdict::Partly(_) => counts.partial_failures += 1,
            Verdict::Failed(reason) => {
                counts.whole_failures += 1;
                tracing::debug!(function = %shared.mapping.function, reason, "a whole batch failed");
            }
        }
    }
    delete(shared, &done).await;
    failed.is_empty()
}

/// Invokes the function, again and again while it is throttled and the messages are still invisible. `None`: throttled
/// to the end, or until the mapping stopped.
async fn invoke(shared: &Shared, part: &Part<'_>, stop: &mut Stop) -> Option<Result<Vec<u8>, InvokeError>> {
    let function = &shared.mapping.function;
    let trace = part.messages.iter().find_map(|message| message.attributes.get("AWSTraceHeader"));
    let end = part.taken + Duration::from_millis(shared.mapping.visibility_ms);
    let mut pause = THROTTLE_PAUSE;
    loop {
        let result = shared.host.invoke(function, event::event(part.records), trace.cloned()).await;
        match result {
            Err(InvokeError::Throttled { .. }) => shared.counts().throttles += 1,
            result => return Some(result),
        }
        if Instant::now() + pause >= end {
            shared.counts().throttled_out += 1;
            tracing::warn!(%function, "a batch was throttled until its visibility ended; it comes again");
            return None;
        }
        tokio::select! {
            () = sleep(pause) => {}
            () = stopped(stop) => return None,
        }
        pause = (pause * 2).min(MAX_THROTTLE_PAUSE);
    }
}

/// Deletes what succeeded. A message that can't be deleted comes again, which functions must bear anyway.
async fn delete(shared: &Shared, done: &[&Message]) {
    for messages in done.chunks(MAX_RECEIVE) {
        let receipts: Vec<String> = messages.iter().map(|message| message.receipt.clone()).collect();
        for attempt in 1..=DELETE_TRIES {
            let Err(error) = shared.engine.delete(&shared.mapping.queue, &receipts).await else {
                shared.counts().deleted += messages.len() as u64;
                break;
            };
            shared.counts().queue_errors += 1;
            tracing::warn!(queue = %shared.mapping.queue, %error, attempt, "messages could not be deleted");
            if error.is_sender_fault() {
                // A receipt that has expired or a queue that is gone: the same request would fail again.
                break;
            }
            sleep(QUEUE_PAUSE).await;
        }
    }
}
