//! Where the time comes from, so that tests can move it without sleeping.
#![allow(clippy::disallowed_methods, reason = "this is the queue service's clock")]

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

/// A wait of a [`Clock`].
pub type ClockWait<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The time of an engine: delays, visibility, retention, deduplication and time stamps follow it.
///
/// How long a long poll waits does not: that is the caller's patience, kept in real time, so that a poll ends even
/// where a test's clock stands still.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch. Should it ever run backwards, the engine keeps the latest time it saw.
    fn now_ms(&self) -> u64;

    /// Ends once `now_ms()` may have reached `at_ms`. It may end early, never forget to end.
    fn reached(&self, at_ms: u64) -> ClockWait<'_>;
}

/// The system's clock, the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn reached(&self, at_ms: u64) -> ClockWait<'_> {
        let wait_ms = at_ms.saturating_sub(self.now_ms());
        Box::pin(tokio::time::sleep(Duration::from_millis(wait_ms)))
    }
}

/// A clock that moves only when told to; clones show the same time. Moving it wakes the long polls that wait for a
/// message to become visible.
#[derive(Debug, Clone)]
pub struct ManualClock {
    now: std::sync::Arc<watch::Sender<u64>>,
}

impl ManualClock {
    /// A clock that shows `now_ms`.
    #[must_use]
    pub fn new(now_ms: u64) -> Self {
        Self { now: std::sync::Arc::new(watch::Sender::new(now_ms)) }
    }

    /// Moves it forward.
    pub fn advance(&self, by_ms: u64) {
        self.now.send_modify(|now| *now = now.saturating_add(by_ms));
    }

    /// Sets it, also backwards (as a real clock may jump).
    pub fn set(&self, now_ms: u64) {
        self.now.send_replace(now_ms);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        *self.now.borrow()
    }

    fn reached(&self, at_ms: u64) -> ClockWait<'_> {
        let mut watch = self.now.subscribe();
        Box::pin(async move {
            // The sender lives in `self`, so an error can't happen; were it to, ending early is allowed.
            let _ = watch.wait_for(|now| *now >= at_ms).await;
        })
    }
}
