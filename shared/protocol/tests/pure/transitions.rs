//! Every transition of a job on every kind of row, against the table by hand.

use crate::fixtures::{ATTEMPT, NEW_LEASE_MS, NOW_MS, SEEN_LEASE_MS, STATUSES, job, ours, run, task, token};
use crate::job_table::{Line, Repeat, lines};
use glassline_protocol::rank::QueueEntry;
use glassline_protocol::row::{JobField, JobRow, QaState, Status};
use glassline_protocol::rule::{Then, When};
use glassline_protocol::transition::{JobTransition, not_started};
use std::collections::{BTreeSet, HashSet};

/// A row for each combination of what transitions look at, possible or not: 40,824 rows.
fn rows() -> Vec<JobRow> {
    let mut rows: Vec<JobRow> = STATUSES.into_iter().map(job).collect();
    vary(&mut rows, &[Some(token(1)), Some(token(2)), None], |row, token| row.token = token);
    vary(&mut rows, &[ATTEMPT - 1, ATTEMPT, ATTEMPT + 1], |row, attempt| row.attempt = attempt);
    vary(&mut rows, &[false, true], |row, asked| row.cancel_requested = asked);
    vary(&mut rows, &[None, Some(NOW_MS), Some(NOW_MS - 1)], |row, at_ms| row.accepted_ms = at_ms);
    vary(&mut rows, &[None, Some(task("t1")), Some(task("t2"))], |row, task| row.task = task);
    vary(&mut rows, &[None, Some(run(1)), Some(run(2))], |row, run| row.run = run);
    vary(&mut rows, &[1, 2], |row, failures| row.failures = failures);
    vary(&mut rows, &[None, Some(QaState::Pending), Some(QaState::Approved)], |row, qa| row.qa = qa);
    vary(&mut rows, &[Some(SEEN_LEASE_MS), Some(NEW_LEASE_MS)], |row, lease_ms| row.lease_ms = lease_ms);
    rows
}

fn vary<T: Clone>(rows: &mut Vec<JobRow>, values: &[T], set: fn(&mut JobRow, T)) {
    *rows = rows
        .iter()
        .flat_map(|row| {
            values.iter().map(move |value| {
                let mut row = row.clone();
                set(&mut row, value.clone());
                row
            })
        })
        .collect();
}

#[test]
fn a_transition_happens_exactly_where_the_table_says() {
    let rows = rows();
    for Line { label, transition, from, matches, .. } in lines() {
        let rule = transition.rule();
        let mut happened = 0;
        for row in &rows {
            let may = from.contains(&row.status) && matches(row);
            assert_eq!(rule.guard(row), may, "{label} on {row:?}");
            happened += usize::from(may);
        }
        assert_eq!(happened > 0, !from.is_empty(), "{label}: the rows must show both answers");
        assert!(happened < rows.len(), "{label}");
    }
}

#[test]
fn afterwards_exactly_the_listed_fields_are_changed() {
    let rows = rows();
    for Line { label, transition, from, matches, after, .. } in lines() {
        let rule = transition.rule();
        for row in rows.iter().filter(|row| from.contains(&row.status) && matches(row)) {
            let mut wanted = row.clone();
            after(&mut wanted);
            assert_eq!(rule.apply(row).unwrap(), wanted, "{label} on {row:?}");
        }
    }
}

#[test]
fn a_lost_reply_is_recognised_by_its_own_caller_only() {
    let rows = rows();
    for Line { label, transition, from, matches, mine, .. } in lines() {
        let rule = transition.rule();
        for row in &rows {
            assert_eq!(rule.already_mine(row), mine(row), "{label} on {row:?}");
            // A token belongs to one attempt, so only rows at ours can come about under it.
            if row.attempt == ATTEMPT && from.contains(&row.status) && matches(row) {
                assert!(rule.already_mine(&rule.apply(row).unwrap()), "{label} after itself on {row:?}");
            }
        }
    }
}

#[test]
fn a_repeat_on_its_own_result_changes_nothing() {
    let rows = rows();
    for Line { label, transition, from, matches, repeat, .. } in lines() {
        let rule = transition.rule();
        for row in rows.iter().filter(|row| from.contains(&row.status) && matches(row)) {
            let once = rule.apply(row).unwrap();
            match repeat {
                Repeat::Refused => assert!(!rule.guard(&once), "{label} twice on {row:?}"),
                Repeat::Harmless => assert_eq!(rule.apply(&once).unwrap(), once, "{label} twice on {row:?}"),
            }
        }
    }
}

/// Which line of the table a transition is; a new kind doesn't compile here until it has its line.
fn line_of(transition: &JobTransition) -> &'static str {
    match transition {
        JobTransition::Claim { .. } => "Claim",
        JobTransition::Void { .. } => "Void",
        JobTransition::Accept { .. } => "Accept",
        JobTransition::Start { .. } => "Start",
        JobTransition::RecordTask { .. } => "RecordTask",
        JobTransition::Renew { .. } => "Renew",
        JobTransition::Hold { .. } => "Hold",
        JobTransition::Succeed { .. } => "Succeed",
        JobTransition::Release { .. } => "Release",
        JobTransition::Retry { .. } => "Retry",
        JobTransition::Fail { .. } => "Fail",
        JobTransition::RequestCancel { .. } => "RequestCancel",
        JobTransition::CancelReady { .. } => "CancelReady",
        JobTransition::CancelClaimed { .. } => "CancelClaimed",
        JobTransition::CancelEnded { .. } => "CancelEnded",
        JobTransition::Requeue { .. } => "Requeue",
        JobTransition::Review { .. } => "Review",
    }
}

#[test]
fn every_transition_has_its_line_and_its_name() {
    let covered: BTreeSet<&str> = lines().iter().map(|line| line_of(&line.transition)).collect();
    assert_eq!(covered.len(), 17);
    for line in lines() {
        assert_eq!(line.transition.name(), line_of(&line.transition));
    }
}

#[test]
fn only_the_listed_transitions_touch_status_attempt_and_token() {
    const STATUS: [&str; 11] = [
        "Claim",
        "Start",
        "Hold",
        "Succeed",
        "Release",
        "Retry",
        "Fail",
        "CancelReady",
        "CancelClaimed",
        "CancelEnded",
        "Requeue",
    ];
    const ATTEMPT: [&str; 3] = ["Claim", "Void", "Requeue"];
    const TOKEN: [&str; 9] = [
        "Claim",
        "Succeed",
        "Release",
        "Retry",
        "Fail",
        "CancelReady",
        "CancelClaimed",
        "CancelEnded",
        "Requeue",
    ];
    const ENDS: [&str; 5] = ["Succeed", "Fail", "CancelReady", "CancelClaimed", "CancelEnded"];
    for Line { label, transition, .. } in lines() {
        let (name, rule) = (line_of(&transition), transition.rule());
        let fields: Vec<JobField> = rule.then.iter().map(changed).collect();
        assert_eq!(fields.contains(&JobField::Status), STATUS.contains(&name), "{label}: status");
        assert_eq!(fields.contains(&JobField::Attempt), ATTEMPT.contains(&name), "{label}: attempt");
        assert_eq!(fields.contains(&JobField::Token), TOKEN.contains(&name), "{label}: token");
        if ENDS.contains(&name) {
            for gone in [JobField::Token, JobField::LeaseMs] {
                assert!(rule.then.contains(&Then::Clear(gone)), "{label}: {gone:?} goes in the same write");
            }
        }
        for never in [JobField::Lane, JobField::Rank, JobField::CreatedMs, JobField::Media] {
            assert!(!fields.contains(&never), "{label}: {never:?} is fixed at creation");
        }
        // An update that names an attribute twice is refused by the table.
        assert_eq!(fields.iter().collect::<HashSet<_>>().len(), fields.len(), "{label}: a field twice");
    }
}

fn changed(then: &Then<JobField>) -> JobField {
    match then {
        Then::Set(field, _) | Then::Clear(field) | Then::Add(field, _) => *field,
    }
}

#[test]
fn the_transitions_that_free_a_slot_owe_a_wake() {
    for Line { label, transition, from, matches, .. } in lines() {
        let rule = transition.rule();
        let frees = from.iter().any(|status| {
            let mut before = JobRow { slot: Some(4), cancel_requested: false, ..job(*status) };
            if label == "Cancel, claimed" {
                before.cancel_requested = true;
            }
            before.status.fills_slot()
                && matches(&before)
                && !rule.apply(&before).unwrap().status.fills_slot()
        });
        assert_eq!(transition.frees_slot(), frees, "{label}");
    }
}

/// Succeeded, failed and cancelled are ended; claimed and rendering fill a slot. By hand.
#[test]
fn statuses_say_what_they_are() {
    let ended: Vec<Status> = STATUSES.into_iter().filter(|status| status.ended()).collect();
    let filling: Vec<Status> = STATUSES.into_iter().filter(|status| status.fills_slot()).collect();
    assert_eq!(ended, [Status::Succeeded, Status::Failed, Status::Cancelled]);
    assert_eq!(filling, [Status::Claimed, Status::Rendering]);
    assert_eq!(Status::ALL, STATUSES);
}

#[test]
fn a_rejection_counts_only_while_the_run_is_its_own_and_no_task_is_known() {
    let conditions = not_started(&ours(), &run(1));
    for row in rows() {
        let may = matches!(row.status, Status::Rendering | Status::Held)
            && row.token == Some(token(1))
            && row.run == Some(run(1))
            && row.task.is_none();
        assert_eq!(conditions.iter().all(|when| when.holds(&row)), may, "{row:?}");
    }
}

/// An attempt's number is never given twice, not even past the last one: a row there stays as it is.
#[test]
fn the_last_attempt_number_is_not_given_twice() {
    let entry = QueueEntry { pk: "READY#luma".into(), sk: "x".into() };
    let attempt = u32::MAX;
    for (transition, status) in [
        (
            JobTransition::Claim { seen: attempt, token: token(1), slot: 0, lease_ms: 1, price_micros: None },
            Status::Ready,
        ),
        (JobTransition::Void { seen: attempt, queue_sk: "x".into() }, Status::Ready),
        (JobTransition::Requeue { status: Status::Failed, attempt, entry, note: None }, Status::Failed),
    ] {
        let row = JobRow { attempt, ..job(status) };
        assert!(!transition.rule().guard(&row), "{transition:?}");
    }
}

#[test]
fn no_condition_asks_for_a_false_flag() {
    // `false` is stored as absence, so such a condition would never hold.
    for line in lines() {
        let rule = line.transition.rule();
        for when in rule.when.iter().chain(&rule.mine) {
            assert!(
                !matches!(when, When::Is(_, glassline_protocol::row::Value::Flag(false))),
                "{}: {when:?}",
                line.label
            );
        }
    }
}
