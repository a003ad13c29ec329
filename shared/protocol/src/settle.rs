//! Making a write settle: a lost reply is repeated, a refusal that shows our own effect counts as applied.

use crate::ids::{JobKey, LaneName};
use crate::ports::{NotStarted, OutcomePut, Store, Unread, Written};
use crate::row::{BadRow, Field, JobRow, LaneRow, OutcomeRow, Row, SlotKey, SlotRow, StoryKey, StoryRow};
use crate::rule::Rule;
use crate::transition::{JobTransition, LaneTransition, SlotTransition, StoryTransition};

/// What a handler can't settle now: the message is given back and comes again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Try again later.
    #[error("{what}; it will be tried again")]
    RetryAfter {
        /// What isn't possible now, one sentence without its full stop.
        what: String,
    },
    /// It can never be handled: it goes the way of the dead letter.
    #[error("{0}")]
    Poison(String),
}

impl Fault {
    /// Try again later, without a time.
    #[must_use]
    pub fn retry(what: impl Into<String>) -> Self {
        Self::RetryAfter { what: what.into() }
    }

    /// The stable code that logs, metrics and runbooks use.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::RetryAfter { .. } => "retry_after",
            Self::Poison(_) => "poison",
        }
    }
}

impl From<Unread> for Fault {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Unavailable => Self::retry("the table can't be read now"),
            Unread::Bad(row) => Self::Poison(row.to_string()),
        }
    }
}

impl From<BadRow> for Fault {
    fn from(row: BadRow) -> Self {
        Self::Poison(row.to_string())
    }
}

/// A settled write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled<R> {
    /// It happened, now or in an earlier try of this very caller; the row as it was then or is now.
    Mine(R),
    /// It did not, and never will in this form; the row as it is.
    Refused(Option<R>),
}

fn judge<F: Field, R: Row<Field = F>>(written: Written<R>, rule: &Rule<F>) -> Option<Settled<R>> {
    match written {
        Written::Applied(row) => Some(Settled::Mine(row)),
        Written::Refused(Some(row)) if rule.already_mine(&row) => Some(Settled::Mine(row)),
        Written::Refused(row) => Some(Settled::Refused(row)),
        Written::Unknown => None,
    }
}

/// Settles a job's transition.
///
/// # Errors
/// [`Fault::RetryAfter`] when its answer stays unknown.
pub async fn job<S: Store>(
    store: &S,
    repeats: u32,
    key: &JobKey,
    transition: &JobTransition,
) -> Result<Settled<JobRow>, Fault> {
    let rule = transition.rule();
    for _ in 0..=repeats {
        if let Some(settled) = judge(store.change_job(key, transition).await, &rule) {
            return Ok(settled);
        }
    }
    Err(Fault::retry(format!("{} of {key} has no answer", transition.name())))
}

/// Settles a slot's transition.
///
/// # Errors
/// [`Fault::RetryAfter`] when its answer stays unknown.
pub async fn slot<S: Store>(
    store: &S,
    repeats: u32,
    key: &SlotKey,
    transition: &SlotTransition,
) -> Result<Settled<SlotRow>, Fault> {
    let rule = transition.rule();
    for _ in 0..=repeats {
        if let Some(settled) = judge(store.change_slot(key, transition).await, &rule) {
            return Ok(settled);
        }
    }
    Err(Fault::retry(format!("Take of slot {} of lane {} has no answer", key.number, key.lane)))
}

/// Settles a lane's transition.
///
/// # Errors
/// [`Fault::RetryAfter`] when its answer stays unknown.
pub async fn lane<S: Store>(
    store: &S,
    repeats: u32,
    key: &LaneName,
    transition: &LaneTransition,
) -> Result<Settled<LaneRow>, Fault> {
    let rule = transition.rule();
    for _ in 0..=repeats {
        if let Some(settled) = judge(store.change_lane(key, transition).await, &rule) {
            return Ok(settled);
        }
    }
    Err(Fault::retry(format!("a write of lane {key} has no answer")))
}

/// Settles a story's transition.
///
/// # Errors
/// [`Fault::RetryAfter`] when its answer stays unknown.
pub async fn story<S: Store>(
    store: &S,
    repeats: u32,
    key: &StoryKey,
    transition: &StoryTransition,
) -> Result<Settled<StoryRow>, Fault> {
    let rule = transition.rule();
    for _ in 0..=repeats {
        if let Some(settled) = judge(store.change_story(key, transition).await, &rule) {
            return Ok(settled);
        }
    }
    Err(Fault::retry(format!("a write of {key} has no answer")))
}

/// What became of an outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The attempt's outcome is this: ours, or the one that was first. Follow it.
    Follow(Box<OutcomeRow>),
    /// Somebody else acts for the attempt: leave it to them.
    Moved,
}

/// Records how an attempt ended; whoever comes second gets the first one's outcome.
///
/// # Errors
/// [`Fault::RetryAfter`] when its answer stays unknown.
pub async fn outcome<S: Store>(
    store: &S,
    repeats: u32,
    outcome: &OutcomeRow,
    only_if: Option<&NotStarted>,
) -> Result<Recorded, Fault> {
    for _ in 0..=repeats {
        match store.put_outcome(outcome, only_if).await {
            OutcomePut::Recorded => return Ok(Recorded::Follow(Box::new(outcome.clone()))),
            OutcomePut::Exists(found) => return Ok(Recorded::Follow(found)),
            OutcomePut::Moved => return Ok(Recorded::Moved),
            OutcomePut::Unknown => {}
        }
    }
    Err(Fault::retry(format!("the outcome of {} has no answer", outcome.reference())))
}
