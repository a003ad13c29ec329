//! The store: one SQLite connection on a thread of its own.
//!
//! Requests queue up for the thread. It takes all that wait (up to [`GROUP_MAX`]), runs each within a savepoint of one
//! transaction, commits, and only then answers them: so a caller is never told of a change that a crash could undo, and
//! under load one flush to the disk serves many requests.

mod messages;
mod moves;
mod queues;
mod receive;
mod schema;
mod send;

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::engine::Durability;
use crate::error::SqsError;
use crate::faults::FaultInjector;
use crate::state::Observers;

pub(crate) use receive::{Look, Received};

/// How many requests share a transaction at most.
const GROUP_MAX: usize = 64;
/// How long to wait for another process, which is closing the file, to let go of it.
const BUSY: Duration = Duration::from_secs(5);
/// The latest time a clock may show (the year 287396), so that sums of times stay in range.
const LATEST_MS: i64 = 1 << 53;

type Reply = Box<dyn FnOnce(&Result<(), SqsError>) + Send>;
type Job = Box<dyn FnOnce(&mut Store) -> Reply + Send>;

/// What a committed request changes outside of the store.
#[derive(Debug, Clone)]
enum Effect {
    /// Long polls of the queue should look again.
    Wake(String),
    Sent(String, u64),
    Received(String, u64),
    Deleted(String, u64),
    DeadLettered(String, u64),
    Deduplicated(String, u64),
}

/// The state of the store's thread.
pub(crate) struct Store {
    conn: Connection,
    clock: Arc<dyn Clock>,
    latest_ms: i64,
    faults: Arc<FaultInjector>,
    observers: Arc<Observers>,
    effects: Vec<Effect>,
    /// Why the transaction of this group can't be committed any more.
    failed: Option<SqsError>,
}

/// Sends requests to the thread. When the last handle is gone, the thread ends.
#[derive(Clone)]
pub(crate) struct StoreHandle {
    jobs: mpsc::Sender<Job>,
}

impl StoreHandle {
    /// Opens the file, or memory where there is none, and starts the thread.
    ///
    /// # Errors
    /// `Storage`: the file can't be opened, is no store of this version, or another process has it open.
    pub(crate) fn open(
        path: Option<&Path>,
        durability: Durability,
        clock: Arc<dyn Clock>,
        faults: Arc<FaultInjector>,
        observers: Arc<Observers>,
    ) -> Result<Self, SqsError> {
        let conn = match path {
            Some(path) => {
                create_private(path);
                Connection::open(path)?
            }
            None => Connection::open_in_memory()?,
        };
        conn.busy_timeout(BUSY)?;
        conn.set_prepared_statement_cache_capacity(64);
        schema::prepare(&conn, durability)?;
        let (jobs, waiting) = mpsc::channel();
        let mut store =
            Store { conn, clock, latest_ms: 0, faults, observers, effects: Vec::new(), failed: None };
        std::thread::Builder::new()
            .name("glassline-sqs".to_owned())
            .spawn(move || store.run(&waiting))
            .map_err(|error| SqsError::Storage { detail: format!("its thread can't start: {error}") })?;
        Ok(Self { jobs })
    }

    /// Runs `work` on the thread; the answer comes after its commit. Dropping the future before the work started
    /// cancels it.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, SqsError> + Send + 'static,
    ) -> Result<T, SqsError> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |store| {
            if answer.is_closed() {
                return Box::new(|_| {});
            }
            let result = store.savepoint(work);
            Box::new(move |committed| {
                let result = result.and_then(|done| committed.clone().map(|()| done));
                // The caller may have gone; what was done stays done, as with SQS.
                let _ = answer.send(result);
            })
        });
        self.jobs.send(job).map_err(|_| SqsError::Stopped)?;
        answered.await.map_err(|_| SqsError::Stopped)?
    }
}

/// Creates the file for its owner only: it holds message bodies. SQLite gives its other files the same rights. Where this
/// fails, opening the file tells why.
fn create_private(path: &Path) {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let _ = options.open(path);
}

impl Store {
    fn run(&mut self, waiting: &mpsc::Receiver<Job>) {
        while let Ok(first) = waiting.recv() {
            self.failed = self.conn.execute_batch("BEGIN").err().map(SqsError::from);
            let mut replies = vec![first(self)];
            while replies.len() < GROUP_MAX {
                let Ok(job) = waiting.try_recv() else { break };
                replies.push(job(self));
            }
            let committed = self.commit();
            if let Err(error) = &committed {
                tracing::error!(%error, requests = replies.len(), "the queue store could not commit");
            }
            for reply in replies {
                reply(&committed);
            }
        }
    }

    /// Runs the work of one request; if it fails, nothing of it stays.
    fn savepoint<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, SqsError>) -> Result<T, SqsError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.conn.prepare_cached("SAVEPOINT request")?.execute([])?;
        let effects = self.effects.len();
        let result = work(self);
        if result.is_err() {
            self.effects.truncate(effects);
            if let Err(error) = self.conn.execute_batch("ROLLBACK TO request") {
                self.failed = Some(error.into());
            }
        }
        if let Err(error) = self.conn.execute_batch("RELEASE request") {
            self.failed = Some(error.into());
        }
        // A full disk ends the whole transaction, with the work of those before.
        if self.conn.is_autocommit() && self.failed.is_none() {
            self.failed = Some(SqsError::Storage { detail: "the transaction was rolled back".to_owned() });
        }
        match (&self.failed, result) {
            (Some(error), Ok(_)) => Err(error.clone()),
            (_, result) => result,
        }
    }

    fn commit(&mut self) -> Result<(), SqsError> {
        let effects = std::mem::take(&mut self.effects);
        let committed = match self.failed.take() {
            Some(error) => Err(error),
            None => self.conn.execute_batch("COMMIT").map_err(SqsError::from),
        };
        match committed {
            Ok(()) => {
                effects.into_iter().for_each(|effect| self.apply(effect));
                Ok(())
            }
            Err(error) => {
                if !self.conn.is_autocommit() {
                    // Fails only where there is nothing left to roll back.
                    let _ = self.conn.execute_batch("ROLLBACK");
                }
                Err(error)
            }
        }
    }

    fn apply(&self, effect: Effect) {
        match effect {
            Effect::Wake(queue) => self.observers.wake(&queue),
            Effect::Sent(queue, n) => self.observers.count(&queue, |counts| counts.sent += n),
            Effect::Received(queue, n) => self.observers.count(&queue, |counts| counts.received += n),
            Effect::Deleted(queue, n) => self.observers.count(&queue, |counts| counts.deleted += n),
            Effect::DeadLettered(queue, n) => {
                self.observers.count(&queue, |counts| counts.dead_lettered += n)
            }
            Effect::Deduplicated(queue, n) => self.observers.count(&queue, |counts| counts.deduplicated += n),
        }
    }

    fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Counts a request on an existing queue, also if it is then refused.
    pub(crate) fn count_request(&self, queue: &str, operation: &'static str, requests: u64) {
        self.observers.count(queue, |counts| {
            *counts.requests.entry(operation.to_owned()).or_default() += requests;
        });
    }

    /// The time; it never runs backwards within a process.
    fn now_ms(&mut self) -> i64 {
        let now_ms = i64::try_from(self.clock.now_ms()).unwrap_or(LATEST_MS).min(LATEST_MS);
        self.latest_ms = self.latest_ms.max(now_ms);
        self.latest_ms
    }
}

/// A checked number of milliseconds, bytes or rows as SQLite takes it.
pub(crate) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(LATEST_MS)
}

/// A number of SQLite as the API gives it.
pub(crate) fn uint(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::config::QueueConfig;
    use crate::types::{Outgoing, QueueSettings};
    use crate::validate::prepare;

    fn open() -> (StoreHandle, Arc<Observers>) {
        let observers = Arc::<Observers>::default();
        let (clock, faults) = (Arc::new(SystemClock), Arc::default());
        let store = StoreHandle::open(None, Durability::PowerLoss, clock, faults, Arc::clone(&observers));
        (store.unwrap(), observers)
    }

    async fn send(store: &StoreHandle) -> Result<(), SqsError> {
        let message = prepare(Outgoing::new("x".repeat(20_000))).unwrap();
        let sent = store.run(move |store| store.send("q", "SendMessage", vec![message])).await?;
        sent.into_iter().collect::<Result<Vec<_>, _>>().map(|_| ())
    }

    /// Sends 200 messages at once; gives how many were acknowledged.
    async fn send_many(store: &StoreHandle) -> usize {
        let mut sends = tokio::task::JoinSet::new();
        for _ in 0..200 {
            let store = store.clone();
            sends.spawn(async move { send(&store).await });
        }
        sends.join_all().await.into_iter().filter(Result::is_ok).count()
    }

    #[tokio::test]
    async fn on_a_full_disk_what_is_acknowledged_is_stored_and_nothing_else() {
        let (store, observers) = open();
        let config = QueueConfig::from(QueueSettings::default());
        store.run(move |store| store.create_queue("q", &config, None)).await.unwrap();
        let limit = |pages: i64| {
            move |store: &mut Store| {
                Ok(store.conn.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?)
            }
        };
        store.run(limit(400)).await.unwrap();
        let acknowledged = send_many(&store).await;
        assert!((10..190).contains(&acknowledged), "the disk holds some of them: {acknowledged}");
        let stored = store.run(|store| store.depth("q")).await.unwrap().visible;
        assert_eq!(stored, u64::try_from(acknowledged).unwrap());
        assert_eq!(observers.counts()["q"].sent, stored);
        assert!(matches!(send(&store).await, Err(SqsError::Storage { .. })));
        store.run(limit(100_000)).await.unwrap();
        assert_eq!(send_many(&store).await, 200, "with room again it goes on");
        assert_eq!(store.run(|store| store.depth("q")).await.unwrap().visible, stored + 200);
    }

    #[tokio::test]
    async fn a_failed_request_leaves_nothing_and_harms_no_other_of_its_transaction() {
        let (store, observers) = open();
        let config = QueueConfig::from(QueueSettings::default());
        store.run(move |store| store.create_queue("q", &config, None)).await.unwrap();
        let half = store.run(|store| {
            let message = prepare(Outgoing::new("half"))?;
            store.send("q", "SendMessage", vec![message])?;
            Err::<(), _>(SqsError::Stopped)
        });
        let (half, whole) = tokio::join!(half, send(&store));
        assert_eq!((half, whole), (Err(SqsError::Stopped), Ok(())));
        assert_eq!(store.run(|store| store.depth("q")).await.unwrap().visible, 1);
        assert_eq!(observers.counts()["q"].sent, 1);
    }

    #[tokio::test]
    async fn a_request_whose_caller_left_before_it_began_is_not_done() {
        let (store, _) = open();
        let config = QueueConfig::from(QueueSettings::default());
        store.run(move |store| store.create_queue("q", &config, None)).await.unwrap();
        let (hold, held) = mpsc::channel::<()>();
        let busy = store.clone();
        let busy = tokio::spawn(async move { busy.run(move |_| Ok(held.recv().is_err())).await });
        let mut left = Box::pin(send(&store));
        // One poll puts it in the queue of the thread, behind the one that holds it up.
        assert!(
            std::future::poll_fn(|context| std::task::Poll::Ready(left.as_mut().poll(context)))
                .await
                .is_pending()
        );
        drop(left);
        drop(hold);
        assert_eq!(busy.await.unwrap(), Ok(true));
        assert_eq!(store.run(|store| store.depth("q")).await.unwrap().visible, 0);
    }
}
