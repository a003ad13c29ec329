//! What a run has seen: so that no run proves something of nothing.

use crate::live::Memo;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a configuration is expected to reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goal {
    /// A job succeeded.
    Succeeded,
    /// A job succeeded on a later attempt than its first.
    SecondAttempt,
    /// A job is held.
    Held,
    /// A job that was held succeeded all the same.
    Resumed,
    /// A job succeeded although an answer to a write was lost.
    LostSurvived,
    /// A job succeeded although an invocation died.
    CrashSurvived,
    /// A job failed for good.
    Failed,
    /// A job was cancelled.
    Cancelled,
    /// A task was given up.
    Orphan,
    /// Two jobs were under way at once.
    TwoAtOnce,
    /// An episode is complete.
    Complete,
    /// A story was given back after its episode failed.
    Released,
    /// Two episodes are open.
    TwoOpen,
}

/// What a run has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    told: AtomicU64,
    notes: AtomicU64,
    pub(crate) memo: Memo,
}

/// Notes of handlers, by their bit.
const RESUMING: u64 = 1;

impl Seen {
    /// A handler came to this.
    pub(crate) fn note(&self, note: &str) {
        if note == "resuming" && self.notes.load(Ordering::Relaxed) & RESUMING == 0 {
            self.notes.fetch_or(RESUMING, Ordering::Relaxed);
        }
    }

    pub(crate) fn resumed(&self) -> bool {
        self.notes.load(Ordering::Relaxed) & RESUMING != 0
    }

    /// Says yes once for each `bit`: the checker keeps a path each time.
    pub(crate) fn once(&self, bit: u8) -> bool {
        let bit = 1 << bit;
        self.told.load(Ordering::Relaxed) & bit == 0 && self.told.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    pub(crate) fn told(&self, bit: u8) -> bool {
        self.told.load(Ordering::Relaxed) & (1 << bit) != 0
    }
}
