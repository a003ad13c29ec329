//! QA's verdict on a stored output.

use super::asked::Asked;
use super::requeue::again;
use crate::note::Did;
use crate::ports::{Local, Queues, Store};
use crate::provider::Reference;
use crate::row::{JobRow, QaState, Status, Verdict};
use crate::settings::Settings;
use crate::settle::{self, Fault, Settled};
use crate::transition::JobTransition;

/// A verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Review {
    /// It may be published.
    Approve,
    /// It is rendered again, because of this.
    Reject(String),
}

/// Records a verdict on the outcome that it names; a rejected job becomes ready for another attempt. A late duplicate
/// changes nothing. The caller owes the lane a wake if it is requeued.
///
/// # Errors
/// [`Fault::RetryAfter`] when an answer stays unknown; asking again is harmless.
pub async fn review<P: Store + Queues + Local>(
    ports: &P,
    settings: &Settings,
    outcome: &Reference,
    review: Review,
) -> Result<Asked, Fault> {
    let Some(view) = ports.job(&outcome.job).await? else { return Ok(Asked::Missing) };
    let stored = view.outcome(outcome.attempt).is_some_and(|found| found.verdict == Verdict::Stored);
    let row = view.job;
    if !stored {
        return Ok(Asked::refused(format!("attempt {} has no stored output to judge", outcome.attempt), row));
    }
    if row.attempt != outcome.attempt || row.status != Status::Succeeded {
        let why = format!(
            "attempt {} of {} was judged, and it is {} at attempt {}",
            outcome.attempt, row.key, row.status, row.attempt
        );
        return Ok(Asked::refused(why, row));
    }
    let verdict = match review {
        Review::Approve => QaState::Approved,
        Review::Reject(_) => QaState::Rejected,
    };
    let transition = JobTransition::Review { attempt: outcome.attempt, verdict };
    let row = match settle::job(ports, settings.write_repeats, &outcome.job, &transition).await? {
        Settled::Mine(row) => row,
        Settled::Refused(found) => return Ok(judged_otherwise(found)),
    };
    let note = match review {
        Review::Approve => return Ok(Asked::done(Did::Approved, row)),
        Review::Reject(note) => note,
    };
    match again(ports, settings, row.clone(), Some(format!("rejected: {note}"))).await? {
        Asked::Done(_, row) => Ok(Asked::Done(Did::RejectedAndRequeued, row)),
        Asked::Refused(_, found) if found.status == Status::Succeeded => {
            Ok(Asked::Done(Did::Rejected, found))
        }
        asked @ (Asked::Refused(..) | Asked::Missing) => Ok(asked),
    }
}

fn judged_otherwise(found: Option<JobRow>) -> Asked {
    match found {
        Some(row) if row.status == Status::Succeeded => match row.qa {
            Some(qa @ (QaState::Approved | QaState::Rejected)) => {
                Asked::refused(format!("it is {qa} already"), row)
            }
            Some(QaState::Pending) | None => Asked::moved_on(Some(row)),
        },
        found => Asked::moved_on(found),
    }
}
