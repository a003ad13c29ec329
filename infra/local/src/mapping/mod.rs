//! Event source mappings: messages of an SQS queue become invocations of a function, as Lambda's pollers do it
//! (<https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html>).
//!
//! What it doesn't do: filters, scaling beyond the five batches at once that Lambda begins with when no maximum is
//! set, and slowing down after the function's own errors.

mod event;
mod poll;
mod response;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use glassline_sqs::Engine;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::lambda::Host;

/// Batches at once when the mapping sets no maximum: what Lambda begins with.
const DEFAULT_CONCURRENCY: u32 = 5;
/// Records of a batch at most without a window, and of a FIFO queue always.
const MAX_PLAIN_BATCH: u32 = 10;
/// Records of a batch at most with a window.
const MAX_WINDOW_BATCH: u32 = 10_000;
/// The longest window.
const MAX_WINDOW_MS: u64 = 300_000;

/// A queue that feeds a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The queue's name; a FIFO queue's ends in `.fifo`.
    pub queue: String,
    /// The function's name.
    pub function: String,
    /// Records of one invocation at most: 1 to 10; up to 10,000 with a window on a standard queue.
    pub batch_size: u32,
    /// How long to gather records for one invocation, in milliseconds: 0, or up to 300,000 on a standard queue.
    pub window_ms: u64,
    /// Invocations at once at most, 2 to 1,000 as on AWS; 5 if not set.
    pub max_concurrency: Option<u32>,
    /// Whether the function reports the records that failed (`ReportBatchItemFailures`).
    pub report_failures: bool,
    /// The queue's visibility timeout, in milliseconds: a throttled invocation is tried again within it. Not below the
    /// function's timeout, as AWS demands; it advises six times as long.
    pub visibility_ms: u64,
}

/// Why a mapping can't be made, as AWS would refuse it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// The host has no such function.
    #[error(
        "mapping of queue {queue}: no function named {function:?} is hosted: declare it when the host starts"
    )]
    UnknownFunction {
        /// The queue.
        queue: String,
        /// The function.
        function: String,
    },
    /// A setting is out of its range.
    #[error("mapping of queue {queue}: {what}")]
    Setting {
        /// The queue.
        queue: String,
        /// Which setting, and what it must be.
        what: String,
    },
}

/// What a mapping did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MappingCounts {
    /// Invocations that were not throttled.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// Records deleted from the queue because they succeeded.
    pub deleted: u64,
    /// Records that failed, alone or with their batch, and stay in the queue.
    pub failed: u64,
    /// Batches of which some records failed.
    pub partial_failures: u64,
    /// Batches that failed as a whole.
    pub whole_failures: u64,
    /// Invocations refused for concurrency, each try counted.
    pub throttles: u64,
    /// Batches given up because they were throttled until their visibility ended.
    pub throttled_out: u64,
    /// Requests to the queue that failed.
    pub queue_errors: u64,
    /// Batches under way now.
    pub running: u64,
}

/// A running mapping. Dropping it stops it without waiting: running batches go on to their end.
#[derive(Debug)]
pub struct MappingHandle {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    poller: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    engine: Engine,
    host: Host,
    mapping: Mapping,
    source: event::Source,
    counts: Mutex<MappingCounts>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("mapping", &self.mapping).finish_non_exhaustive()
    }
}

impl Shared {
    fn counts(&self) -> MutexGuard<'_, MappingCounts> {
        // Every change is one step, so a panicking holder leaves nothing half done.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts a mapping; must be called in a tokio runtime. The queue needn't exist yet.
///
/// # Errors
///
/// [`MappingError`] when the function isn't hosted or a setting is out of range.
pub fn spawn(engine: Engine, host: Host, mapping: Mapping) -> Result<MappingHandle, MappingError> {
    check(&host, &mapping)?;
    let options = host.options();
    let source = event::Source {
        arn: format!("arn:aws:sqs:{}:{}:{}", options.region, options.account, mapping.queue),
        region: options.region.clone(),
    };
    let shared = Arc::new(Shared { engine, host, mapping, source, counts: Mutex::default() });
    let stop = watch::Sender::new(false);
    let poller = tokio::spawn(poll::run(Arc::clone(&shared), stop.subscribe()));
    Ok(MappingHandle { shared, stop, poller: Mutex::new(Some(poller)) })
}

impl MappingHandle {
    /// The mapping.
    pub fn mapping(&self) -> &Mapping {
        &self.shared.mapping
    }

    /// What it did so far.
    pub fn counts(&self) -> MappingCounts {
        *self.shared.counts()
    }

    /// Takes no more messages and waits at most `within_ms` for running batches. Returns whether all have ended; of
    /// those that haven't, the functions go on, but their messages are not deleted and become visible again.
    pub async fn stop(&self, within_ms: u64) -> bool {
        self.stop.send_replace(true);
        let poller = self.poller.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut poller) = poller else { return self.counts().running == 0 };
        if timeout(Duration::from_millis(within_ms), &mut poller).await.is_ok() {
            return true;
        }
        poller.abort();
        false
    }
}

fn check(host: &Host, mapping: &Mapping) -> Result<(), MappingError> {
    let queue = || mapping.queue.clone();
    let Some(function) = host.spec(&mapping.function) else {
        return Err(MappingError::UnknownFunction { queue: queue(), function: mapping.function.clone() });
    };
    let refuse = |what: String| Err(MappingError::Setting { queue: queue(), what });
    let (batch_size, window_ms) = (mapping.batch_size, mapping.window_ms);
    let fifo = mapping.queue.ends_with(".fifo");
    if fifo && window_ms > 0 {
        return refuse(format!("window_ms is {window_ms}, a FIFO queue can't have one: set it to 0"));
    }
    let (max_batch, of) = if window_ms > 0 {
        (MAX_WINDOW_BATCH, "with a window")
    } else {
        (MAX_PLAIN_BATCH, "without a window")
    };
    if !(1..=max_batch).contains(&batch_size) {
        return refuse(format!("batch_size is {batch_size}, {of} it must be 1 to {max_batch}"));
    }
    if window_ms > MAX_WINDOW_MS {
        return refuse(format!("window_ms is {window_ms}, it must be at most {MAX_WINDOW_MS}"));
    }
    if let Some(max) = mapping.max_concurrency.filter(|max| !(2..=1_000).contains(max)) {
        return refuse(format!("max_concurrency is {max}, it must be 2 to 1000 or not set"));
    }
    let (visibility_ms, timeout_ms) = (mapping.visibility_ms, function.timeout_ms);
    if visibility_ms < timeout_ms {
        return refuse(format!(
            "visibility_ms is {visibility_ms}, less than the timeout of function {} ({timeout_ms}): raise it",
            mapping.function
        ));
    }
    Ok(())
}
