//! What each transition of a job may do, written by hand from the protocol's table, not from the code: from which
//! statuses, what must match, what the row is afterwards, and which rows show the caller's own effect.
//!
//! Where the code asks for more than the table's line says, the line here says so and why.

use crate::fixtures::{
    ATTEMPT, NEW_LEASE_MS, NOW_MS, SEEN_LEASE_MS, held_at, later_at, ours, ready_at, run, task, token,
};
use glassline_protocol::provider::ErrorClass;
use glassline_protocol::rank::QueueEntry;
use glassline_protocol::row::{JobRow, QaState, Status};
use glassline_protocol::sign::receipt_of;
use glassline_protocol::transition::JobTransition;

/// What happens when the very same transition comes again on its own result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Its guard refuses it.
    Refused,
    /// Its guard lets it through, and nothing changes.
    Harmless,
}

/// One line of the table, made for [`ATTEMPT`] under token 1.
pub(crate) struct Line {
    pub(crate) label: &'static str,
    pub(crate) transition: JobTransition,
    pub(crate) from: &'static [Status],
    /// What must match besides the status.
    pub(crate) matches: fn(&JobRow) -> bool,
    /// What changes; every other field stays.
    pub(crate) after: fn(&mut JobRow),
    /// Whether a row shows this caller's own effect.
    pub(crate) mine: fn(&JobRow) -> bool,
    pub(crate) repeat: Repeat,
}

use Status::{Cancelled, Claimed, Failed, Held, Ready, Rendering, Succeeded};

/// More failures than this aren't counted by the counting lines.
const LIMIT: u32 = 2;

fn at(row: &JobRow) -> bool {
    row.attempt == ATTEMPT
}
fn owns(row: &JobRow) -> bool {
    row.token == Some(token(1))
}
fn is(row: &JobRow, status: Status) -> bool {
    row.status == status
}
fn not_asked(row: &JobRow) -> bool {
    !row.cancel_requested
}
fn enter(row: &mut JobRow, entry: QueueEntry) {
    (row.queue_pk, row.queue_sk) = (Some(entry.pk), Some(entry.sk));
}
fn leave(row: &mut JobRow) {
    (row.queue_pk, row.queue_sk) = (None, None);
}
/// "Terminal transitions remove token and lease in the same write"; the slot and the run go with them.
fn disown(row: &mut JobRow) {
    (row.token, row.lease_ms, row.run, row.slot) = (None, None, None, None);
}
/// The owner leaves its receipt.
fn disown_owned(row: &mut JobRow) {
    disown(row);
    row.receipt = Some(receipt_of(&token(1)));
}
fn ended_owned(row: &mut JobRow, status: Status) {
    ended(row, status);
    row.receipt = Some(receipt_of(&token(1)));
}
fn ended(row: &mut JobRow, status: Status) {
    (row.status, row.ended_ms) = (status, Some(NOW_MS));
    disown(row);
    leave(row);
}
fn failure(row: &mut JobRow, class: ErrorClass, error: &str) {
    (row.error_class, row.error) = (Some(class), Some(error.into()));
}

/// Every line.
pub(crate) fn lines() -> Vec<Line> {
    [claims(), submits(), renewals(), holds(), returns(), ends(), cancels(), requeues(), reviews()]
        .into_iter()
        .flatten()
        .collect()
}

fn claims() -> Vec<Line> {
    vec![
        Line {
            label: "Claim",
            transition: JobTransition::Claim {
                seen: ATTEMPT,
                token: token(1),
                slot: 7,
                lease_ms: NEW_LEASE_MS,
                price_micros: Some(40_000),
            },
            from: &[Ready],
            matches: at,
            // The last attempt's marks go with its task and run: they would be taken for the new one's.
            after: |row| {
                (row.status, row.attempt, row.token) = (Claimed, ATTEMPT + 1, Some(token(1)));
                (row.slot, row.lease_ms) = (Some(7), Some(NEW_LEASE_MS));
                row.price_micros = Some(40_000);
                (row.task, row.run) = (None, None);
                (row.accepted_ms, row.receipt, row.started_ms, row.ended_ms) = (None, None, None, None);
                leave(row);
            },
            mine: owns,
            repeat: Repeat::Refused,
        },
        Line {
            label: "Void",
            transition: JobTransition::Void { seen: ATTEMPT, queue_sk: ready_at(ATTEMPT + 1).sk },
            from: &[Ready],
            matches: at,
            after: |row| {
                row.attempt = ATTEMPT + 1;
                row.queue_sk = Some(ready_at(ATTEMPT + 1).sk);
            },
            mine: |row| is(row, Ready) && row.attempt == ATTEMPT + 1,
            repeat: Repeat::Refused,
        },
        Line {
            label: "Accept",
            transition: JobTransition::Accept { ours: ours(), now_ms: NOW_MS },
            from: &[Claimed],
            // Stricter: only the first acceptance is written.
            matches: |row| owns(row) && row.accepted_ms.is_none(),
            after: |row| row.accepted_ms = Some(NOW_MS),
            // A repeat of the same handoff, at any time, finds its own.
            mine: |row| owns(row) && row.accepted_ms.is_some(),
            repeat: Repeat::Refused,
        },
    ]
}

fn submits() -> Vec<Line> {
    vec![
        Line {
            label: "Start",
            transition: JobTransition::Start {
                ours: ours(),
                run: run(1),
                now_ms: NOW_MS,
                lease_ms: NEW_LEASE_MS,
            },
            from: &[Claimed],
            matches: |row| owns(row) && not_asked(row),
            after: |row| {
                (row.status, row.run) = (Rendering, Some(run(1)));
                (row.started_ms, row.lease_ms) = (Some(NOW_MS), Some(NEW_LEASE_MS));
            },
            mine: |row| is(row, Rendering) && owns(row) && row.run == Some(run(1)),
            repeat: Repeat::Refused,
        },
        Line {
            label: "RecordTask",
            transition: JobTransition::RecordTask { ours: ours(), task: task("t1"), lease_ms: NEW_LEASE_MS },
            from: &[Rendering, Held],
            matches: |row| owns(row) && row.task.is_none(),
            after: |row| (row.task, row.lease_ms, row.run) = (Some(task("t1")), Some(NEW_LEASE_MS), None),
            mine: |row| row.task == Some(task("t1")),
            repeat: Repeat::Refused,
        },
    ]
}

fn renew(status: Status, held_sk: Option<String>) -> JobTransition {
    let (seen_lease_ms, lease_ms) = (SEEN_LEASE_MS, NEW_LEASE_MS);
    JobTransition::Renew { ours: ours(), status, seen_lease_ms, lease_ms, run: run(1), held_sk }
}

/// The table says "run cleared"; a fresh run instead voids the old invocation just as well, and tells this caller's own
/// lost reply from another's Renew of the same lease.
fn renewals() -> Vec<Line> {
    let next_check = || Some(held_at(NEW_LEASE_MS, ATTEMPT).sk);
    let line = |label, transition, from, after| Line {
        label,
        transition,
        from,
        matches: |row| owns(row) && row.lease_ms == Some(SEEN_LEASE_MS),
        after,
        mine: |row| owns(row) && row.run == Some(run(1)),
        repeat: Repeat::Refused,
    };
    let lease: fn(&mut JobRow) = |row| (row.lease_ms, row.run) = (Some(NEW_LEASE_MS), Some(run(1)));
    let lease_and_entry: fn(&mut JobRow) = |row| {
        (row.lease_ms, row.run) = (Some(NEW_LEASE_MS), Some(run(1)));
        row.queue_sk = Some(held_at(NEW_LEASE_MS, ATTEMPT).sk);
    };
    vec![
        line("Renew, rendering", renew(Rendering, None), &[Rendering], lease),
        line("Renew, held", renew(Held, next_check()), &[Held], lease_and_entry),
        // A rendering job has no entry to move.
        line("Renew, rendering, with an entry", renew(Rendering, next_check()), &[Rendering], lease),
        line("Renew, ready", renew(Ready, None), &[], |_| ()),
        line("Renew, claimed", renew(Claimed, None), &[], |_| ()),
        line("Renew, failed", renew(Failed, next_check()), &[], |_| ()),
    ]
}

fn holds() -> Vec<Line> {
    vec![Line {
        label: "Hold",
        transition: JobTransition::Hold {
            ours: ours(),
            next_check_ms: NEW_LEASE_MS,
            entry: held_at(NEW_LEASE_MS, ATTEMPT),
            reason: "the answer was lost".into(),
        },
        from: &[Rendering],
        matches: owns,
        // Keeps token and task, frees the slot, enters HELD#lane; the run that got it there is void.
        after: |row| {
            (row.status, row.slot, row.run) = (Held, None, None);
            row.lease_ms = Some(NEW_LEASE_MS);
            row.error = Some("the answer was lost".into());
            enter(row, held_at(NEW_LEASE_MS, ATTEMPT));
        },
        mine: |row| is(row, Held) && owns(row),
        repeat: Repeat::Refused,
    }]
}

fn release(unless_accepted: bool, failing_below: Option<u32>) -> JobTransition {
    JobTransition::Release { ours: ours(), entry: ready_at(ATTEMPT), unless_accepted, failing_below }
}

fn retry(failing_below: Option<u32>) -> JobTransition {
    JobTransition::Retry {
        ours: ours(),
        entry: later_at(NEW_LEASE_MS, ATTEMPT),
        failing_below,
        class: ErrorClass::Throttled,
        reason: "too many requests".into(),
    }
}

/// Release is stricter than its line: with a cancel asked for it is refused, so that no ready job is one that somebody
/// asked to cancel; the claim is cancelled instead.
fn returns() -> Vec<Line> {
    let line = |label, transition, from, matches, after| Line {
        label,
        transition,
        from,
        matches,
        after,
        mine: |row| is(row, Ready) && at(row),
        repeat: Repeat::Refused,
    };
    let free: fn(&JobRow) -> bool = |row| owns(row) && not_asked(row);
    let countable: fn(&JobRow) -> bool = |row| owns(row) && not_asked(row) && row.failures < LIMIT;
    // What was accepted and never started is gone with its claim.
    let released: fn(&mut JobRow) = |row| {
        (row.status, row.accepted_ms) = (Ready, None);
        disown_owned(row);
        enter(row, ready_at(ATTEMPT));
    };
    let retried: fn(&mut JobRow) = |row| {
        row.status = Ready;
        disown_owned(row);
        enter(row, later_at(NEW_LEASE_MS, ATTEMPT));
        failure(row, ErrorClass::Throttled, "too many requests");
    };
    vec![
        line("Release", release(false, None), &[Claimed], free, released),
        line(
            "Release, unless accepted",
            release(true, None),
            &[Claimed],
            |row| owns(row) && not_asked(row) && row.accepted_ms.is_none(),
            released,
        ),
        line("Release, counted", release(false, Some(LIMIT)), &[Claimed], countable, |row| {
            row.failures += 1;
            (row.status, row.accepted_ms) = (Ready, None);
            disown_owned(row);
            enter(row, ready_at(ATTEMPT));
        }),
        line("Retry, not counted", retry(None), &[Rendering, Held], free, retried),
        line("Retry, counted", retry(Some(LIMIT)), &[Rendering, Held], countable, |row| {
            row.failures += 1;
            row.status = Ready;
            disown_owned(row);
            enter(row, later_at(NEW_LEASE_MS, ATTEMPT));
            failure(row, ErrorClass::Throttled, "too many requests");
        }),
    ]
}

fn ends() -> Vec<Line> {
    vec![
        Line {
            label: "Succeed",
            transition: JobTransition::Succeed { ours: ours(), now_ms: NOW_MS },
            from: &[Rendering, Held],
            matches: owns,
            // A success has no error, and a cancel that came too late is over.
            after: |row| {
                ended_owned(row, Succeeded);
                row.qa = Some(QaState::Pending);
                (row.error, row.error_class, row.cancel_requested) = (None, None, false);
            },
            mine: |row| is(row, Succeeded) && at(row),
            repeat: Repeat::Refused,
        },
        Line {
            label: "Fail",
            transition: JobTransition::Fail {
                ours: ours(),
                now_ms: NOW_MS,
                class: ErrorClass::Moderated,
                reason: "é".repeat(100),
            },
            from: &[Claimed, Rendering, Held],
            matches: owns,
            after: |row| {
                ended_owned(row, Failed);
                // 160 bytes at most, cut at a character's edge.
                failure(row, ErrorClass::Moderated, &format!("{}…", "é".repeat(78)));
            },
            mine: |row| is(row, Failed) && at(row),
            repeat: Repeat::Refused,
        },
    ]
}

fn cancels() -> Vec<Line> {
    let cancel = |label, transition, from, matches| Line {
        label,
        transition,
        from,
        matches,
        after: |row| ended_owned(row, Cancelled),
        mine: |row| is(row, Cancelled) && at(row),
        repeat: Repeat::Refused,
    };
    let now_ms = NOW_MS;
    vec![
        Line {
            label: "RequestCancel",
            transition: JobTransition::RequestCancel { attempt: ATTEMPT },
            from: &[Claimed, Rendering, Held],
            matches: at,
            after: |row| row.cancel_requested = true,
            mine: |row| at(row) && row.cancel_requested,
            repeat: Repeat::Harmless,
        },
        Line {
            after: |row| ended(row, Cancelled),
            ..cancel("Cancel, ready", JobTransition::CancelReady { attempt: ATTEMPT, now_ms }, &[Ready], at)
        },
        cancel("Cancel, claimed", JobTransition::CancelClaimed { ours: ours(), now_ms }, &[Claimed], |row| {
            owns(row) && row.cancel_requested
        }),
        cancel(
            "Cancel, ended",
            JobTransition::CancelEnded { ours: ours(), now_ms },
            &[Rendering, Held],
            owns,
        ),
    ]
}

fn requeues() -> Vec<Line> {
    let requeue = |status, note: Option<&str>| JobTransition::Requeue {
        status,
        attempt: ATTEMPT,
        entry: ready_at(ATTEMPT + 1),
        note: note.map(str::to_owned),
    };
    let line = |label, status, from: &'static [Status]| Line {
        label,
        transition: requeue(status, None),
        from,
        matches: at,
        after: |row| {
            (row.status, row.attempt, row.failures) = (Ready, ATTEMPT + 1, 0);
            (row.cancel_requested, row.task) = (false, None);
            // A fresh start: what the old attempt left is in its outcome.
            (row.qa, row.error, row.error_class) = (None, None, None);
            (row.accepted_ms, row.receipt, row.started_ms, row.ended_ms) = (None, None, None, None);
            disown(row);
            enter(row, ready_at(ATTEMPT + 1));
        },
        mine: |row| is(row, Ready) && row.attempt == ATTEMPT + 1,
        repeat: Repeat::Refused,
    };
    vec![
        line("Requeue, failed", Failed, &[Failed]),
        line("Requeue, cancelled", Cancelled, &[Cancelled]),
        line("Requeue, held", Held, &[Held]),
        line("Requeue, succeeded", Succeeded, &[Succeeded]),
        Line {
            transition: requeue(Succeeded, Some("the lamp is missing")),
            after: |row| {
                (row.status, row.attempt, row.failures) = (Ready, ATTEMPT + 1, 0);
                (row.cancel_requested, row.task) = (false, None);
                (row.qa, row.error, row.error_class) = (None, Some("the lamp is missing".into()), None);
                (row.accepted_ms, row.receipt, row.started_ms, row.ended_ms) = (None, None, None, None);
                disown(row);
                enter(row, ready_at(ATTEMPT + 1));
            },
            ..line("Requeue, rejected", Succeeded, &[Succeeded])
        },
        line("Requeue, ready", Ready, &[]),
        line("Requeue, claimed", Claimed, &[]),
        line("Requeue, rendering", Rendering, &[]),
    ]
}

fn reviews() -> Vec<Line> {
    let line = |label, verdict, from, after, mine| Line {
        label,
        transition: JobTransition::Review { attempt: ATTEMPT, verdict },
        from,
        matches: |row| at(row) && row.qa == Some(QaState::Pending),
        after,
        mine,
        repeat: Repeat::Refused,
    };
    vec![
        line(
            "Review, approved",
            QaState::Approved,
            &[Succeeded],
            |row| row.qa = Some(QaState::Approved),
            |row| is(row, Succeeded) && at(row) && row.qa == Some(QaState::Approved),
        ),
        line(
            "Review, rejected",
            QaState::Rejected,
            &[Succeeded],
            |row| row.qa = Some(QaState::Rejected),
            |row| is(row, Succeeded) && at(row) && row.qa == Some(QaState::Rejected),
        ),
        // "qa approved or rejected": pending is no verdict.
        line(
            "Review, pending",
            QaState::Pending,
            &[],
            |_| (),
            |row| is(row, Succeeded) && at(row) && row.qa == Some(QaState::Pending),
        ),
    ]
}
