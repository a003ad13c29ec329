//! Times and limits of the protocol. One set serves every function; a local stack uses shorter times.

use crate::ids::{LaneName, Ms};
use crate::provider::Capabilities;
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
    /// Tries to resolve a lost submit by repeating it with its key, before it is held. A held job is looked at slowly, and
    /// each such look tries once more while the key lives.
    pub max_tries: u32,
    /// Resumes after dead letters in one chain of messages, before the job is held or failed. A resume that a lease or a
    /// slow look brings begins a new chain.
    pub max_resumes: u32,
    /// Slots filled at the same time by one tick.
    pub claim_concurrency: usize,
    /// Most starts of one tick of one lane.
    pub max_starts_per_tick: usize,
    /// How long a story stays locked while an episode is made of it.
    pub story_lock_ms: u64,
    /// Most episodes of one series opened by one tick.
    pub max_openings_per_tick: usize,
    /// Open episodes of one series that a full tick looks at, from a random one on.
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

/// Times that don't fit each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lane {lane}: {what}")]
pub struct Misfit {
    /// The lane whose provider they don't fit.
    pub lane: LaneName,
    /// Which times, and what to do.
    pub what: String,
}

impl Settings {
    /// Checks the times against what a lane's provider declares.
    ///
    /// # Errors
    /// [`Misfit`]: with such times no job of the lane would ever be submitted, or its polls would outlast its lease.
    pub fn check(&self, lane: &LaneName, provider: &Capabilities) -> Result<(), Misfit> {
        let misfit = |what: String| Err(Misfit { lane: lane.clone(), what });
        let needed_ms = provider.submit_timeout_ms.saturating_add(self.submit_margin_ms);
        if self.submit_lease_ms <= needed_ms {
            return misfit(format!(
                "submit_lease_ms is {}, and must be more than its provider's submit_timeout_ms plus submit_margin_ms, \
                 {needed_ms}; raise it",
                self.submit_lease_ms
            ));
        }
        if self.renew_below_ms <= provider.poll_ms {
            return misfit(format!(
                "renew_below_ms is {}, and must be more than its provider's poll_ms, {}; raise it",
                self.renew_below_ms, provider.poll_ms
            ));
        }
        if self.render_lease_ms <= provider.poll_ms.saturating_add(self.renew_below_ms) {
            return misfit(format!(
                "render_lease_ms is {}, and must be more than its provider's poll_ms plus renew_below_ms, {}; raise it",
                self.render_lease_ms,
                provider.poll_ms.saturating_add(self.renew_below_ms)
            ));
        }
        Ok(())
    }

    /// When a job with this many counted failures may be tried again.
    #[must_use]
    pub fn retry_at_ms(&self, now_ms: Ms, failures: u32) -> Ms {
        let factor = 1u64.checked_shl(failures.min(20)).unwrap_or(u64::MAX);
        now_ms.saturating_add(self.retry_base_ms.saturating_mul(factor).min(self.retry_max_ms))
    }

    /// How long a message that was given back stays invisible, after this many receives: short at first, for what fails
    /// once mostly works a moment later; then long, so that its receives aren't used up in a short outage.
    #[must_use]
    pub fn given_back_ms(&self, receives: u32) -> u64 {
        let factor = 6u64.checked_pow(receives.saturating_sub(1)).unwrap_or(u64::MAX);
        self.retry_base_ms.saturating_mul(factor).min(self.retry_max_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Recovery;

    #[test]
    fn a_lease_that_no_submit_fits_into_is_refused() {
        let lane = LaneName::new("a").unwrap();
        let provider = Capabilities {
            recovery: Recovery::None,
            polled: true,
            submit_timeout_ms: 30_000,
            poll_ms: 5_000,
            deadline_ms: 900_000,
            output_lifetime_ms: None,
        };
        let settings = Settings::default();
        assert_eq!(settings.check(&lane, &provider), Ok(()));
        let short = Settings { submit_lease_ms: 35_000, ..settings.clone() };
        let error = short.check(&lane, &provider).unwrap_err().to_string();
        assert!(error.contains("submit_lease_ms is 35000") && error.contains("35000; raise it"), "{error}");
        let short = Settings { render_lease_ms: 305_000, ..settings };
        assert!(short.check(&lane, &provider).unwrap_err().to_string().contains("render_lease_ms"));
    }

    #[test]
    fn retries_wait_longer_each_time_up_to_a_limit() {
        let settings = Settings::default();
        let waits: Vec<_> = (0..9).map(|failures| settings.retry_at_ms(0, failures)).collect();
        assert_eq!(waits, [10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 640_000, 900_000, 900_000]);
    }

    #[test]
    fn a_message_that_is_given_back_waits_short_at_first_and_then_long() {
        let settings = Settings::default();
        let waits: Vec<_> =
            [0, 1, 2, 3, 4, 5, u32::MAX].map(|receives| settings.given_back_ms(receives)).into();
        assert_eq!(waits, [10_000, 10_000, 60_000, 360_000, 900_000, 900_000, 900_000]);
    }
}
