//! The job's transitions: what each is for, who may make it, and what it must be given. Their conditions and effects
//! are in `job_rules`, one arm each.

use crate::ids::{Attempt, Ms, Run, SlotNo, TaskId, Token};
use crate::provider::ErrorClass;
use crate::rank::QueueEntry;
use crate::row::{QaState, Status};

/// The ownership that every write after the claim must match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ours {
    /// The attempt. Terminal rows have no token; their attempt tells whose end it was.
    pub attempt: Attempt,
    /// The token.
    pub token: Token,
}

/// A transition of a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum JobTransition {
    /// dispatch: take a ready job as seen in the index.
    Claim {
        /// The attempt seen in the index; the claim makes it one more.
        seen: Attempt,
        /// The fresh token.
        token: Token,
        /// The slot it fills.
        slot: SlotNo,
        /// End of the lease, epoch milliseconds.
        lease_ms: Ms,
        /// What the lane says that a render costs, in millionths of the currency unit, if it says so.
        price_micros: Option<u64>,
    },
    /// dispatch: make sure that a reservation which never claimed can't claim any more.
    Void {
        /// The attempt that the reservation saw.
        seen: Attempt,
        /// The job's index sort key with the next attempt.
        queue_sk: String,
    },
    /// api: an outside dispatcher's handoff was taken, before it is queued.
    Accept {
        /// Ownership.
        ours: Ours,
        /// Now.
        now_ms: Ms,
    },
    /// worker: the submit intent, written before the provider is called.
    Start {
        /// Ownership.
        ours: Ours,
        /// This invocation's nonce.
        run: Run,
        /// Now.
        now_ms: Ms,
        /// End of the lease.
        lease_ms: Ms,
    },
    /// worker, api: the provider's id for the accepted render.
    RecordTask {
        /// Ownership.
        ours: Ours,
        /// The task.
        task: TaskId,
        /// End of the lease.
        lease_ms: Ms,
    },
    /// worker: win the right to act for the attempt; voids whatever invocation had it.
    Renew {
        /// Ownership.
        ours: Ours,
        /// Status as read: rendering or held.
        status: Status,
        /// Lease as read.
        seen_lease_ms: Ms,
        /// The new end of the lease.
        lease_ms: Ms,
        /// This invocation's nonce.
        run: Run,
        /// For a held job, the index sort key of its next check; a rendering job has none to move.
        held_sk: Option<String>,
    },
    /// worker, rollback: nobody can tell whether, or how, the last submit ended.
    Hold {
        /// Ownership.
        ours: Ours,
        /// When to look again.
        next_check_ms: Ms,
        /// Its entry in `HELD#lane`.
        entry: QueueEntry,
        /// Why, one sentence.
        reason: String,
    },
    /// finisher: stored, registered, handed to QA.
    Succeed {
        /// Ownership.
        ours: Ours,
        /// Now.
        now_ms: Ms,
    },
    /// rollback, api: the narrow rollback of a claim that was never started.
    Release {
        /// Ownership.
        ours: Ours,
        /// Its entry in `READY#lane`.
        entry: QueueEntry,
        /// Only if no outside dispatcher's handoff was accepted.
        unless_accepted: bool,
        /// After a dead letter: count a failure, and only while fewer than this many are counted.
        failing_below: Option<u32>,
    },
    /// worker, finisher, rollback: try again later.
    Retry {
        /// Ownership.
        ours: Ours,
        /// Its entry in `LATER#lane`.
        entry: QueueEntry,
        /// Count a failure, and only while fewer than this many are counted; `None` counts nothing.
        failing_below: Option<u32>,
        /// The failure's class.
        class: ErrorClass,
        /// The failure, one sentence.
        reason: String,
    },
    /// worker, finisher, rollback: ended without success.
    Fail {
        /// Ownership.
        ours: Ours,
        /// Now.
        now_ms: Ms,
        /// The failure's class.
        class: ErrorClass,
        /// The failure, one sentence.
        reason: String,
    },
    /// api, rollback: ask the owner to stop.
    RequestCancel {
        /// The attempt that is meant.
        attempt: Attempt,
    },
    /// api: cancel a job that nobody owns.
    CancelReady {
        /// The attempt that is meant.
        attempt: Attempt,
        /// Now.
        now_ms: Ms,
    },
    /// worker, rollback: cancel a claim that was asked to stop before it started.
    CancelClaimed {
        /// Ownership.
        ours: Ours,
        /// Now.
        now_ms: Ms,
    },
    /// worker, finisher: cancel an attempt whose outcome is cancelled or failed.
    CancelEnded {
        /// Ownership.
        ours: Ours,
        /// Now.
        now_ms: Ms,
    },
    /// api: a person asks for another attempt.
    Requeue {
        /// Status as read: failed, cancelled, held or succeeded.
        status: Status,
        /// The attempt that is meant; it becomes one more, so that nothing of the old one fits.
        attempt: Attempt,
        /// Its entry in `READY#lane`, with the next attempt.
        entry: QueueEntry,
        /// Why, one sentence, shown until the next attempt has something to say.
        note: Option<String>,
    },
    /// api: QA's verdict.
    Review {
        /// The attempt that was judged.
        attempt: Attempt,
        /// The verdict: approved or rejected.
        verdict: QaState,
    },
}

impl JobTransition {
    /// The name of the transition, as the table has it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Claim { .. } => "Claim",
            Self::Void { .. } => "Void",
            Self::Accept { .. } => "Accept",
            Self::Start { .. } => "Start",
            Self::RecordTask { .. } => "RecordTask",
            Self::Renew { .. } => "Renew",
            Self::Hold { .. } => "Hold",
            Self::Succeed { .. } => "Succeed",
            Self::Release { .. } => "Release",
            Self::Retry { .. } => "Retry",
            Self::Fail { .. } => "Fail",
            Self::RequestCancel { .. } => "RequestCancel",
            Self::CancelReady { .. } => "CancelReady",
            Self::CancelClaimed { .. } => "CancelClaimed",
            Self::CancelEnded { .. } => "CancelEnded",
            Self::Requeue { .. } => "Requeue",
            Self::Review { .. } => "Review",
        }
    }

    /// The token that it needs or, for a claim, that it writes; `None` for those that go by the attempt.
    #[must_use]
    pub fn token(&self) -> Option<&Token> {
        match self {
            Self::Claim { token, .. } => Some(token),
            Self::Accept { ours, .. }
            | Self::Start { ours, .. }
            | Self::RecordTask { ours, .. }
            | Self::Renew { ours, .. }
            | Self::Hold { ours, .. }
            | Self::Succeed { ours, .. }
            | Self::Release { ours, .. }
            | Self::Retry { ours, .. }
            | Self::Fail { ours, .. }
            | Self::CancelClaimed { ours, .. }
            | Self::CancelEnded { ours, .. } => Some(&ours.token),
            Self::Void { .. }
            | Self::RequestCancel { .. }
            | Self::CancelReady { .. }
            | Self::Requeue { .. }
            | Self::Review { .. } => None,
        }
    }

    /// Whether applying it takes a job out of its slot: then a wake is owed. (From held the slot is free already.)
    #[must_use]
    pub fn frees_slot(&self) -> bool {
        match self {
            Self::Hold { .. }
            | Self::Succeed { .. }
            | Self::Release { .. }
            | Self::Retry { .. }
            | Self::Fail { .. }
            | Self::CancelClaimed { .. }
            | Self::CancelEnded { .. } => true,
            Self::Claim { .. }
            | Self::Void { .. }
            | Self::Accept { .. }
            | Self::Start { .. }
            | Self::RecordTask { .. }
            | Self::Renew { .. }
            | Self::RequestCancel { .. }
            | Self::CancelReady { .. }
            | Self::Requeue { .. }
            | Self::Review { .. } => false,
        }
    }
}
