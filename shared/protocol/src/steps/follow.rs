//! `follow`: from an outcome to its transition. Whoever ends an attempt records its outcome first and then follows it;
//! whoever finds an outcome follows it too, so that a crash at any point is finished by the next one to look.

use super::parent::parent_step;
use super::send::wake;
use crate::ids::Ms;
use crate::ports::{Local, Queues, Store};
use crate::provider::ErrorClass;
use crate::rank::{held_entry, later_entry};
use crate::row::outcome::AttemptEnd;
use crate::row::{JobRow, OutcomeKey, OutcomeRow, Verdict};
use crate::settings::Settings;
use crate::settle::{self, Fault, Settled};
use crate::transition::{JobTransition, Ours};

/// What following an outcome came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// The job changed (or had already changed so) by this transition.
    Done(&'static str),
    /// The attempt isn't ours any more: somebody else followed it, or a person decided.
    Elsewhere,
    /// The outcome is stored: only the finisher goes on from here.
    Stored,
}

/// The fields of an outcome that its job's row gives.
#[must_use]
pub fn end_of(row: &JobRow, now_ms: Ms) -> AttemptEnd {
    AttemptEnd {
        key: OutcomeKey { job: row.key.clone(), attempt: row.attempt },
        lane: row.lane.clone(),
        at_ms: now_ms,
        started_ms: row.started_ms,
        task: row.task.clone(),
        price_micros: row.price_micros,
    }
}

/// Whether a failure of this class can never be mended by trying again.
fn is_final(class: ErrorClass) -> bool {
    match class {
        ErrorClass::InvalidInput | ErrorClass::Moderated => true,
        ErrorClass::Throttled
        | ErrorClass::Transient
        | ErrorClass::PaymentRequired
        | ErrorClass::Unauthorized
        | ErrorClass::BadOutput => false,
    }
}

/// The transition that an outcome without success means for the row: Retry, Fail or Cancel.
fn transition_for(
    settings: &Settings,
    row: &JobRow,
    outcome: &OutcomeRow,
    ours: Ours,
    now_ms: Ms,
) -> JobTransition {
    let class = outcome.class.unwrap_or(ErrorClass::Transient);
    let reason = outcome.reason.clone().unwrap_or_default();
    let failures_left = !outcome.counted || row.failures.saturating_add(1) < settings.max_failures;
    match outcome.verdict {
        Verdict::Cancelled => JobTransition::CancelEnded { ours, now_ms },
        Verdict::Stored | Verdict::Failed if row.cancel_requested => {
            JobTransition::CancelEnded { ours, now_ms }
        }
        Verdict::Stored | Verdict::Failed if is_final(class) || !failures_left => {
            JobTransition::Fail { ours, now_ms, class, reason }
        }
        Verdict::Stored | Verdict::Failed => {
            let due_ms = outcome.retry_at_ms.unwrap_or(0).max(if outcome.counted {
                settings.retry_at_ms(outcome.at_ms, row.failures)
            } else {
                0
            });
            JobTransition::Retry {
                entry: later_entry(&row.lane, due_ms, &row.rank, row.attempt),
                // Failing at n means that a retry is allowed while fewer than n - 1 failures are counted.
                failing_below: outcome.counted.then(|| settings.max_failures.saturating_sub(1)),
                ours,
                class,
                reason,
            }
        }
    }
}

/// Follows an outcome without success to its transition, sends the wake and makes the parent step. `row` is the job as
/// last read, under the outcome's attempt.
///
/// # Errors
/// [`Fault::RetryAfter`] when an answer stays unknown.
pub async fn follow_ended<P: Store + Queues + Local>(
    ports: &P,
    settings: &Settings,
    row: &JobRow,
    outcome: &OutcomeRow,
) -> Result<Followed, Fault> {
    if outcome.verdict == Verdict::Stored {
        return Ok(Followed::Stored);
    }
    let mut row = row.clone();
    // A refusal may mean that a cancel was asked for, or a failure counted, since the row was read: decide again.
    for _ in 0..3 {
        let (Some(token), true) = (row.token.clone(), row.attempt == outcome.key.attempt) else {
            return Ok(Followed::Elsewhere);
        };
        let ours = Ours { attempt: row.attempt, token: token.clone() };
        let transition = transition_for(settings, &row, outcome, ours, ports.now_ms());
        match settle::job(ports, settings.write_repeats, &row.key, &transition).await? {
            Settled::Mine(after) => {
                wake(ports, &row).await;
                parent_step(ports, &after).await?;
                return Ok(Followed::Done(transition.name()));
            }
            Settled::Refused(Some(found)) if found.owned_by(&token) => row = found,
            Settled::Refused(_) => return Ok(Followed::Elsewhere),
        }
    }
    Err(Fault::retry(format!("{} keeps changing while its outcome is followed", row.key)))
}

/// Holds a rendering attempt: nobody can tell whether, or how, its submit ended. Frees its slot. A job that is held
/// already, or moved on, is left as it is.
///
/// # Errors
/// [`Fault::RetryAfter`] when an answer stays unknown.
pub async fn hold<P: Store + Queues + Local>(
    ports: &P,
    settings: &Settings,
    row: &JobRow,
    reason: &str,
) -> Result<Followed, Fault> {
    let Some(token) = row.token.clone() else { return Ok(Followed::Elsewhere) };
    let next_check_ms = ports.now_ms().saturating_add(settings.held_check_ms);
    let transition = JobTransition::Hold {
        ours: Ours { attempt: row.attempt, token },
        next_check_ms,
        entry: held_entry(&row.lane, next_check_ms, row.attempt),
        reason: reason.to_owned(),
    };
    match settle::job(ports, settings.write_repeats, &row.key, &transition).await? {
        Settled::Mine(_) => {
            wake(ports, row).await;
            Ok(Followed::Done(transition.name()))
        }
        Settled::Refused(_) => Ok(Followed::Elsewhere),
    }
}
