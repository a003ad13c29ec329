//! The job's transition table: for each transition what must match, what changes, and how we recognise our
//! own lost reply.

use super::job::{JobTransition, Ours};
use crate::ids::{Attempt, Ms, Run, SlotNo, TaskId, Token};
use crate::provider::ErrorClass;
use crate::rank::QueueEntry;
use crate::row::JobField as F;
use crate::row::outcome::short;
use crate::row::{QaState, Status, Value};
use crate::rule::{Rule, Then, When};
use crate::sign::receipt_of;

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}
fn number(value: u64) -> Value {
    Value::Number(value)
}
fn attempt_is(attempt: Attempt) -> When<F> {
    When::Is(F::Attempt, number(u64::from(attempt)))
}
/// An attempt that another is to follow. After the last number there is none, and no number is given twice.
fn attempt_before_next(attempt: Attempt) -> When<F> {
    if attempt == Attempt::MAX { never() } else { attempt_is(attempt) }
}
/// What no row fulfils, for every row has a status: a transition that was asked for with values the table doesn't have.
fn never() -> When<F> {
    When::Absent(F::Status)
}
fn status_is(status: Status) -> When<F> {
    When::Is(F::Status, status.value())
}
fn status_in(statuses: &[Status]) -> When<F> {
    match statuses {
        [one] => status_is(*one),
        many => When::OneOf(F::Status, many.iter().map(|status| status.value()).collect()),
    }
}
fn token_is(token: &Token) -> When<F> {
    When::Is(F::Token, text(token.as_str()))
}
fn run_is(run: &Run) -> When<F> {
    When::Is(F::Run, text(run.as_str()))
}
fn set_number(field: F, value: u64) -> Then<F> {
    Then::Set(field, number(value))
}
fn set_text(field: F, value: &str) -> Then<F> {
    Then::Set(field, text(value))
}
fn set_status(status: Status) -> Then<F> {
    Then::Set(F::Status, status.value())
}
fn set_error(class: ErrorClass, reason: &str) -> [Then<F>; 2] {
    [set_text(F::ErrorClass, &class.to_string()), set_text(F::Error, &short(reason))]
}
fn enter(entry: &QueueEntry) -> [Then<F>; 2] {
    [set_text(F::QueuePk, &entry.pk), set_text(F::QueueSk, &entry.sk)]
}
const LEAVE: [Then<F>; 2] = [Then::Clear(F::QueuePk), Then::Clear(F::QueueSk)];

/// What the end of an attempt's ownership clears, in the same write as its new status.
fn disown() -> Vec<Then<F>> {
    vec![Then::Clear(F::Token), Then::Clear(F::LeaseMs), Then::Clear(F::Run), Then::Clear(F::Slot)]
}

/// A terminal transition.
fn end(from: &[Status], to: Status, matching: When<F>, attempt: Attempt, now_ms: Ms) -> Rule<F> {
    let mut then = vec![set_status(to), set_number(F::EndedMs, now_ms)];
    then.extend(disown());
    then.extend(LEAVE);
    Rule { when: vec![status_in(from), matching], then, mine: vec![status_is(to), attempt_is(attempt)] }
}

/// A terminal transition by the attempt's owner. What is left of its token is the receipt, so that whoever held it can
/// still be told whether its handoff was taken; it comes when the token goes, and fits into its place.
fn end_owned(from: &[Status], to: Status, ours: &Ours, now_ms: Ms) -> Rule<F> {
    let mut rule = end(from, to, token_is(&ours.token), ours.attempt, now_ms);
    rule.then.push(set_text(F::Receipt, receipt_of(&ours.token).as_str()));
    rule
}

/// Back to the lane. A row that is ready at our attempt shows that our claim was given back.
fn give_back(from: &[Status], ours: &Ours, entry: &QueueEntry, failing_below: Option<u32>) -> Rule<F> {
    let mut when = vec![status_in(from), token_is(&ours.token), When::Absent(F::CancelRequested)];
    let mut then = vec![set_status(Status::Ready), set_text(F::Receipt, receipt_of(&ours.token).as_str())];
    then.extend(disown());
    then.extend(enter(entry));
    if let Some(limit) = failing_below {
        when.push(When::Below(F::Failures, u64::from(limit)));
        then.push(Then::Add(F::Failures, 1));
    }
    Rule { when, then, mine: vec![status_is(Status::Ready), attempt_is(ours.attempt)] }
}

/// Statuses in which an attempt may have reached the provider.
const STARTED: [Status; 2] = [Status::Rendering, Status::Held];
/// Statuses in which an attempt has an owner.
const OWNED: [Status; 3] = [Status::Claimed, Status::Rendering, Status::Held];

impl JobTransition {
    /// The transition's line of the table.
    #[must_use]
    pub fn rule(&self) -> Rule<F> {
        match self {
            Self::Claim { seen, token, slot, lease_ms, price_micros } => {
                claim(*seen, token, *slot, *lease_ms, *price_micros)
            }
            Self::Void { seen, queue_sk } => void(*seen, queue_sk),
            Self::Accept { ours, now_ms } => accept(ours, *now_ms),
            Self::Start { ours, run, now_ms, lease_ms } => start(ours, run, *now_ms, *lease_ms),
            Self::RecordTask { ours, task, lease_ms } => record_task(ours, task, *lease_ms),
            Self::Renew { ours, status, seen_lease_ms, lease_ms, run, held_sk } => {
                renew(ours, *status, *seen_lease_ms, *lease_ms, run, held_sk.as_deref())
            }
            Self::Hold { ours, next_check_ms, entry, reason } => hold(ours, *next_check_ms, entry, reason),
            Self::Succeed { ours, now_ms } => succeed(ours, *now_ms),
            Self::Release { ours, entry, unless_accepted, failing_below } => {
                let mut rule = give_back(&[Status::Claimed], ours, entry, *failing_below);
                // It was not started: whoever asks for its acceptance is told that the claim is gone.
                rule.then.push(Then::Clear(F::AcceptedMs));
                if *unless_accepted {
                    rule.when.push(When::Absent(F::AcceptedMs));
                }
                rule
            }
            Self::Retry { ours, entry, failing_below, class, reason } => {
                let mut rule = give_back(&STARTED, ours, entry, *failing_below);
                rule.then.extend(set_error(*class, reason));
                rule
            }
            Self::Fail { ours, now_ms, class, reason } => {
                let mut rule = end_owned(&OWNED, Status::Failed, ours, *now_ms);
                rule.then.extend(set_error(*class, reason));
                rule
            }
            Self::RequestCancel { attempt } => request_cancel(*attempt),
            Self::CancelReady { attempt, now_ms } => {
                end(&[Status::Ready], Status::Cancelled, attempt_is(*attempt), *attempt, *now_ms)
            }
            Self::CancelClaimed { ours, now_ms } => {
                let mut rule = end_owned(&[Status::Claimed], Status::Cancelled, ours, *now_ms);
                rule.when.push(When::Is(F::CancelRequested, Value::Flag(true)));
                rule
            }
            Self::CancelEnded { ours, now_ms } => end_owned(&STARTED, Status::Cancelled, ours, *now_ms),
            Self::Requeue { status, attempt, entry, note } => {
                requeue(*status, *attempt, entry, note.as_deref())
            }
            Self::Review { attempt, verdict } => review(*attempt, *verdict),
        }
    }
}

fn void(seen: Attempt, queue_sk: &str) -> Rule<F> {
    let next = seen.saturating_add(1);
    Rule {
        when: vec![status_is(Status::Ready), attempt_before_next(seen)],
        then: vec![set_number(F::Attempt, u64::from(next)), set_text(F::QueueSk, queue_sk)],
        mine: vec![status_is(Status::Ready), attempt_is(next)],
    }
}

/// A repeat of the same handoff finds its own acceptance, whenever that was.
fn accept(ours: &Ours, now_ms: Ms) -> Rule<F> {
    Rule {
        when: vec![status_is(Status::Claimed), token_is(&ours.token), When::Absent(F::AcceptedMs)],
        then: vec![set_number(F::AcceptedMs, now_ms)],
        mine: vec![token_is(&ours.token), When::Below(F::AcceptedMs, u64::MAX)],
    }
}

fn start(ours: &Ours, run: &Run, now_ms: Ms, lease_ms: Ms) -> Rule<F> {
    Rule {
        when: vec![status_is(Status::Claimed), token_is(&ours.token), When::Absent(F::CancelRequested)],
        then: vec![
            set_status(Status::Rendering),
            set_text(F::Run, run.as_str()),
            set_number(F::StartedMs, now_ms),
            set_number(F::LeaseMs, lease_ms),
        ],
        mine: vec![status_is(Status::Rendering), token_is(&ours.token), run_is(run)],
    }
}

fn record_task(ours: &Ours, task: &TaskId, lease_ms: Ms) -> Rule<F> {
    Rule {
        when: vec![status_in(&STARTED), token_is(&ours.token), When::Absent(F::Task)],
        then: vec![set_text(F::Task, task.as_str()), set_number(F::LeaseMs, lease_ms), Then::Clear(F::Run)],
        mine: vec![When::Is(F::Task, text(task.as_str()))],
    }
}

fn succeed(ours: &Ours, now_ms: Ms) -> Rule<F> {
    let mut rule = end_owned(&STARTED, Status::Succeeded, ours, now_ms);
    rule.then.push(Then::Set(F::Qa, QaState::Pending.value()));
    rule.then.extend([F::Error, F::ErrorClass, F::CancelRequested].map(Then::Clear));
    rule
}

fn request_cancel(attempt: Attempt) -> Rule<F> {
    Rule {
        when: vec![status_in(&OWNED), attempt_is(attempt)],
        then: vec![Then::Set(F::CancelRequested, Value::Flag(true))],
        mine: vec![attempt_is(attempt), When::Is(F::CancelRequested, Value::Flag(true))],
    }
}

fn claim(seen: Attempt, token: &Token, slot: SlotNo, lease_ms: Ms, price_micros: Option<u64>) -> Rule<F> {
    let mut then = vec![
        set_status(Status::Claimed),
        set_number(F::Attempt, u64::from(seen.saturating_add(1))),
        set_text(F::Token, token.as_str()),
        set_number(F::Slot, u64::from(slot)),
        set_number(F::LeaseMs, lease_ms),
    ];
    then.extend([F::Task, F::Run, F::AcceptedMs, F::Receipt, F::StartedMs, F::EndedMs].map(Then::Clear));
    // The price as it was when this attempt was claimed: a later change of the lane's doesn't rewrite the ledger.
    then.push(price_micros.map_or(Then::Clear(F::PriceMicros), |price| set_number(F::PriceMicros, price)));
    then.extend(LEAVE);
    Rule {
        when: vec![status_is(Status::Ready), attempt_before_next(seen)],
        then,
        mine: vec![token_is(token)],
    }
}

/// A fresh run voids the invocation that had the lease, as clearing it would, and tells this caller's own lost reply
/// from another's Renew of the same lease.
fn renew(
    ours: &Ours,
    status: Status,
    seen_lease_ms: Ms,
    lease_ms: Ms,
    run: &Run,
    held_sk: Option<&str>,
) -> Rule<F> {
    let mut then = vec![set_number(F::LeaseMs, lease_ms), set_text(F::Run, run.as_str())];
    let from = match status {
        Status::Rendering => status_is(status),
        Status::Held => {
            then.extend(held_sk.map(|sk| set_text(F::QueueSk, sk)));
            status_is(status)
        }
        Status::Ready | Status::Claimed | Status::Succeeded | Status::Failed | Status::Cancelled => never(),
    };
    Rule {
        when: vec![from, token_is(&ours.token), When::Is(F::LeaseMs, number(seen_lease_ms))],
        then,
        mine: vec![token_is(&ours.token), run_is(run)],
    }
}

fn review(attempt: Attempt, verdict: QaState) -> Rule<F> {
    let from = match verdict {
        QaState::Approved | QaState::Rejected => status_is(Status::Succeeded),
        QaState::Pending => never(),
    };
    Rule {
        when: vec![from, attempt_is(attempt), When::Is(F::Qa, QaState::Pending.value())],
        then: vec![Then::Set(F::Qa, verdict.value())],
        mine: vec![status_is(Status::Succeeded), attempt_is(attempt), When::Is(F::Qa, verdict.value())],
    }
}

fn hold(ours: &Ours, next_check_ms: Ms, entry: &QueueEntry, reason: &str) -> Rule<F> {
    let mut then = vec![
        set_status(Status::Held),
        set_number(F::LeaseMs, next_check_ms),
        Then::Clear(F::Run),
        Then::Clear(F::Slot),
        set_text(F::Error, &short(reason)),
    ];
    then.extend(enter(entry));
    Rule {
        when: vec![status_is(Status::Rendering), token_is(&ours.token)],
        then,
        mine: vec![status_is(Status::Held), token_is(&ours.token)],
    }
}

fn requeue(status: Status, attempt: Attempt, entry: &QueueEntry, note: Option<&str>) -> Rule<F> {
    let next = attempt.saturating_add(1);
    let mut then =
        vec![set_status(Status::Ready), set_number(F::Attempt, u64::from(next)), set_number(F::Failures, 0)];
    then.extend(disown());
    then.extend(
        [
            F::Task,
            F::CancelRequested,
            F::Qa,
            F::AcceptedMs,
            F::Receipt,
            F::StartedMs,
            F::EndedMs,
            F::ErrorClass,
        ]
        .map(Then::Clear),
    );
    then.push(note.map_or(Then::Clear(F::Error), |note| set_text(F::Error, &short(note))));
    then.extend(enter(entry));
    let from = match status {
        Status::Failed | Status::Cancelled | Status::Held | Status::Succeeded => status_is(status),
        Status::Ready | Status::Claimed | Status::Rendering => never(),
    };
    Rule {
        when: vec![from, attempt_before_next(attempt)],
        then,
        mine: vec![status_is(Status::Ready), attempt_is(next)],
    }
}

/// The check that a rejection needs, put together with its outcome: the attempt is still this invocation's, and no
/// task was recorded by anyone.
#[must_use]
pub fn not_started(ours: &Ours, run: &Run) -> Vec<When<F>> {
    vec![status_in(&STARTED), token_is(&ours.token), run_is(run), When::Absent(F::Task)]
}
