//! Times and limits of the protocol. One set serves every function; a local stack uses shorter times.

use crate::ids::Ms;
use serde::{Deserialize, Serialize};

/// Times and limits. All `_ms` are milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Lease of a claim: time for its handoff to be delivered and started.
    pub claim_lease_ms: u64,
    /// Lease of a start, and of each try to resolve a lost submit: longer than any provider's submit timeout.
    pub submit_lease_ms: u64,
    /// Lease while the provider renders, renewed by polls.
    pub render_lease_ms: u64,
    /// A poll renews the lease when less than this is left of it.
    pub renew_below_ms: u64,
    /// What must be left of the lease beyond the submit's timeout for the submit to be sent.
    pub submit_margin_ms: u64,
    /// How long a reservation (a slot given to a job that isn't claimed yet) is left alone.
    pub reservation_ms: u64,
    /// How often a held job is looked at.
    pub held_check_ms: u64,
    /// Held jobs looked at per lane and full tick.
    pub held_checks_per_tick: usize,
    /// A job fails for good at this many counted failures.
    pub max_failures: u32,
    /// First wait before a retry; doubles with each failure.
    pub retry_base_ms: u64,
    /// Longest wait before a retry.
    pub retry_max_ms: u64,
    /// How long a lane pauses when the provider gives no time.
    pub throttle_pause_ms: u64,
    /// How long a lane pauses for missing credit or bad credentials.
    pub refused_pause_ms: u64,
    /// Tries to resolve a lost submit by repeating it with its key, before it is held.
    pub max_tries: u32,
    /// Resumes after dead letters, before the job is held or failed.
    pub max_resumes: u32,
    /// Slots filled at the same time by one tick.
    pub claim_concurrency: usize,
    /// Most starts of one tick of one lane.
    pub max_starts_per_tick: usize,
    /// How long a story stays locked while an episode is made of it.
    pub story_lock_ms: u64,
    /// Most episodes of one series opened by one tick.
    pub max_openings_per_tick: usize,
    /// Open episodes of one series that a full tick looks at, lowest numbers first.
    pub open_heads_per_tick: usize,
    /// Repeats of one write whose reply was lost, before the caller gives the message back.
    pub write_repeats: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            claim_lease_ms: 5 * 60_000,
            submit_lease_ms: 2 * 60_000,
            render_lease_ms: 15 * 60_000,
            renew_below_ms: 5 * 60_000,
            submit_margin_ms: 5_000,
            reservation_ms: 60_000,
            held_check_ms: 15 * 60_000,
            held_checks_per_tick: 5,
            max_failures: 3,
            retry_base_ms: 10_000,
            retry_max_ms: 15 * 60_000,
            throttle_pause_ms: 30_000,
            refused_pause_ms: 15 * 60_000,
            max_tries: 3,
            max_resumes: 3,
            claim_concurrency: 16,
            max_starts_per_tick: 200,
            story_lock_ms: 60_000,
            max_openings_per_tick: 10,
            open_heads_per_tick: 3,
            write_repeats: 3,
        }
    }
}

impl Settings {
    /// When a job with this many counted failures may be tried again.
    #[must_use]
    pub fn retry_at_ms(&self, now_ms: Ms, failures: u32) -> Ms {
        let factor = 1u64.checked_shl(failures.min(20)).unwrap_or(u64::MAX);
        now_ms.saturating_add(self.retry_base_ms.saturating_mul(factor).min(self.retry_max_ms))
    }
}
