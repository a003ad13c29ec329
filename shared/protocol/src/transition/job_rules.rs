//! The job's transition table (design §4): for each transition what must match, what changes, and how we recognise our
//! own lost reply.

use super::job::{JobTransition, Ours};
use crate::ids::{Attempt, Ms, Run, SlotNo, Token};
use crate::provider::ErrorClass;
use crate::rank::QueueEntry;
use crate::row::JobField as F;
use crate::row::outcome::short;
use crate::row::{QaState, Status, Value};
use crate::rule::{Rule, Then, When};

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}
fn number(value: u64) -> Value {
    Value::Number(value)
}
fn attempt_is(attempt: Attempt) -> When<F> {
    When::Is(F::Attempt, number(u64::from(attempt)))
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
fn end(
    from: &[Status],
    to: Status,
    matching: Vec<When<F>>,
    attempt: Attempt,
    now_ms: Ms,
    more: Vec<Then<F>>,
) -> Rule<F> {
    let mut when = vec![status_in(from)];
    when.extend(matching);
    let mut then = vec![set_status(to), set_number(F::EndedMs, now_ms)];
    then.extend(disown());
    then.extend(LEAVE);
    then.extend(more);
    Rule { when, then, mine: vec![status_is(to), attempt_is(attempt)] }
}

/// Back to the lane. A row that is ready at our attempt shows that our claim was given back.
fn give_back(from: &[Status], ours: &Ours, entry: &QueueEntry, failing_below: Option<u32>) -> Rule<F> {
    let mut when = vec![status_in(from), token_is(&ours.token), When::Absent(F::CancelRequested)];
    let mut then = vec![set_status(Status::Ready)];
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
            Self::Claim { seen, token, slot, lease_ms } => claim(*seen, token, *slot, *lease_ms),
            Self::Void { seen, queue_sk } => Rule {
                when: vec![status_is(Status::Ready), attempt_is(*seen)],
                then: vec![set_number(F::Attempt, u64::from(*seen) + 1), set_text(F::QueueSk, queue_sk)],
                mine: vec![status_is(Status::Ready), attempt_is(seen.saturating_add(1))],
            },
            Self::Accept { ours, now_ms } => Rule {
                when: vec![status_is(Status::Claimed), token_is(&ours.token), When::Absent(F::AcceptedMs)],
                then: vec![set_number(F::AcceptedMs, *now_ms)],
                mine: vec![token_is(&ours.token), When::Is(F::AcceptedMs, number(*now_ms))],
            },
            Self::Start { ours, run, now_ms, lease_ms } => Rule {
                when: vec![
                    status_is(Status::Claimed),
                    token_is(&ours.token),
                    When::Absent(F::CancelRequested),
                ],
                then: vec![
                    set_status(Status::Rendering),
                    set_text(F::Run, run.as_str()),
                    set_number(F::StartedMs, *now_ms),
                    set_number(F::LeaseMs, *lease_ms),
                ],
                mine: vec![status_is(Status::Rendering), token_is(&ours.token), run_is(run)],
            },
            Self::RecordTask { ours, task, lease_ms } => Rule {
                when: vec![status_in(&STARTED), token_is(&ours.token), When::Absent(F::Task)],
                then: vec![
                    set_text(F::Task, task.as_str()),
                    set_number(F::LeaseMs, *lease_ms),
                    Then::Clear(F::Run),
                ],
                mine: vec![When::Is(F::Task, text(task.as_str()))],
            },
            Self::Renew { ours, status, seen_lease_ms, lease_ms, run, held_sk } => {
                let mut then = vec![set_number(F::LeaseMs, *lease_ms), set_text(F::Run, run.as_str())];
                then.extend(held_sk.iter().map(|sk| set_text(F::QueueSk, sk)));
                Rule {
                    when: vec![
                        status_is(*status),
                        token_is(&ours.token),
                        When::Is(F::LeaseMs, number(*seen_lease_ms)),
                    ],
                    then,
                    mine: vec![token_is(&ours.token), run_is(run)],
                }
            }
            Self::Hold { ours, next_check_ms, entry, reason } => hold(ours, *next_check_ms, entry, reason),
            Self::Succeed { ours, now_ms } => end(
                &STARTED,
                Status::Succeeded,
                vec![token_is(&ours.token)],
                ours.attempt,
                *now_ms,
                vec![
                    Then::Set(F::Qa, QaState::Pending.value()),
                    Then::Clear(F::Error),
                    Then::Clear(F::ErrorClass),
                    Then::Clear(F::CancelRequested),
                ],
            ),
            Self::Release { ours, entry, unless_accepted, failing_below } => {
                let mut rule = give_back(&[Status::Claimed], ours, entry, *failing_below);
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
            Self::Fail { ours, now_ms, class, reason } => end(
                &OWNED,
                Status::Failed,
                vec![token_is(&ours.token)],
                ours.attempt,
                *now_ms,
                set_error(*class, reason).into(),
            ),
            Self::RequestCancel { attempt } => Rule {
                when: vec![status_in(&OWNED), attempt_is(*attempt)],
                then: vec![Then::Set(F::CancelRequested, Value::Flag(true))],
                mine: vec![attempt_is(*attempt), When::Is(F::CancelRequested, Value::Flag(true))],
            },
            Self::CancelReady { attempt, now_ms } => end(
                &[Status::Ready],
                Status::Cancelled,
                vec![attempt_is(*attempt)],
                *attempt,
                *now_ms,
                vec![],
            ),
            Self::CancelClaimed { ours, now_ms } => end(
                &[Status::Claimed],
                Status::Cancelled,
                vec![token_is(&ours.token), When::Is(F::CancelRequested, Value::Flag(true))],
                ours.attempt,
                *now_ms,
                vec![],
            ),
            Self::CancelEnded { ours, now_ms } => {
                end(&STARTED, Status::Cancelled, vec![token_is(&ours.token)], ours.attempt, *now_ms, vec![])
            }
            Self::Requeue { status, attempt, entry } => requeue(*status, *attempt, entry),
            Self::Review { attempt, verdict } => Rule {
                when: vec![
                    status_is(Status::Succeeded),
                    attempt_is(*attempt),
                    When::Is(F::Qa, QaState::Pending.value()),
                ],
                then: vec![Then::Set(F::Qa, verdict.value())],
                mine: vec![
                    status_is(Status::Succeeded),
                    attempt_is(*attempt),
                    When::Is(F::Qa, verdict.value()),
                ],
            },
        }
    }
}

fn claim(seen: Attempt, token: &Token, slot: SlotNo, lease_ms: Ms) -> Rule<F> {
    let mut then = vec![
        set_status(Status::Claimed),
        set_number(F::Attempt, u64::from(seen) + 1),
        set_text(F::Token, token.as_str()),
        set_number(F::Slot, u64::from(slot)),
        set_number(F::LeaseMs, lease_ms),
    ];
    then.extend([F::Task, F::Run, F::AcceptedMs, F::StartedMs, F::EndedMs].map(Then::Clear));
    then.extend(LEAVE);
    Rule { when: vec![status_is(Status::Ready), attempt_is(seen)], then, mine: vec![token_is(token)] }
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

fn requeue(status: Status, attempt: Attempt, entry: &QueueEntry) -> Rule<F> {
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
            F::StartedMs,
            F::EndedMs,
            F::Error,
            F::ErrorClass,
        ]
        .map(Then::Clear),
    );
    then.extend(enter(entry));
    let allowed: Vec<Value> = [Status::Failed, Status::Cancelled, Status::Held, Status::Succeeded]
        .iter()
        .filter(|known| **known == status)
        .map(|known| known.value())
        .collect();
    Rule {
        // A status that may not be requeued leaves an empty choice, which nothing matches.
        when: vec![
            allowed.first().cloned().map_or(When::Absent(F::Status), |value| When::Is(F::Status, value)),
            attempt_is(attempt),
        ],
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
