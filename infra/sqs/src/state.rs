//! What of an engine isn't stored: its counts, and who waits for messages.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::types::Counts;

/// Counts by queue, and the long polls of each queue.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    counts: Mutex<BTreeMap<String, Counts>>,
    polls: Mutex<HashMap<String, watch::Sender<()>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observers {
    pub(crate) fn counts(&self) -> BTreeMap<String, Counts> {
        locked(&self.counts).clone()
    }

    pub(crate) fn count(&self, queue: &str, change: impl FnOnce(&mut Counts)) {
        let mut counts = locked(&self.counts);
        match counts.get_mut(queue) {
            Some(counts) => change(counts),
            None => change(counts.entry(queue.to_owned()).or_default()),
        }
    }

    /// Lets the long polls of the queue look again.
    pub(crate) fn wake(&self, queue: &str) {
        if let Some(polls) = locked(&self.polls).get(queue) {
            polls.send_replace(());
        }
    }
}

/// A long poll's wait for a queue; its queue is forgotten with its last poll.
pub(crate) struct Poll {
    observers: Arc<Observers>,
    queue: String,
    changes: watch::Receiver<()>,
}

impl Poll {
    pub(crate) fn new(observers: &Arc<Observers>, queue: &str) -> Self {
        let mut polls = locked(&observers.polls);
        let sender = polls.entry(queue.to_owned()).or_insert_with(|| watch::Sender::new(()));
        Self { observers: Arc::clone(observers), queue: queue.to_owned(), changes: sender.subscribe() }
    }

    /// Call this before looking: a change after it ends the next wait.
    pub(crate) fn start(&mut self) {
        self.changes.mark_unchanged();
    }

    /// Ends once something changed since `start`.
    pub(crate) async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            // Can't be: the sender lives as long as this receiver. Never spin, should it change.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        let mut polls = locked(&self.observers.polls);
        if polls.get(&self.queue).is_some_and(|sender| sender.receiver_count() <= 1) {
            polls.remove(&self.queue);
        }
    }
}
