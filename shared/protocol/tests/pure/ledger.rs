//! The ledger, line by line.

use crate::fixtures::{NOW_MS, job, job_key, lane, task};
use glassline_protocol::ids::Attempt;
use glassline_protocol::ledger::{Charge, Entry, Ledger, Sum, Wanted, ledger};
use glassline_protocol::provider::ErrorClass;
use glassline_protocol::row::outcome::{AttemptEnd, Cost, Failure};
use glassline_protocol::row::{JobRow, OrphanKey, OrphanRow, OutcomeKey, OutcomeRow, Status};

const PRICE_MICROS: u64 = 40_000;

fn end(attempt: Attempt, name: Option<&str>) -> AttemptEnd {
    AttemptEnd {
        key: OutcomeKey { job: job_key(), attempt },
        lane: lane(),
        at_ms: NOW_MS + u64::from(attempt),
        started_ms: Some(NOW_MS),
        task: name.map(task),
        price_micros: Some(PRICE_MICROS),
    }
}

fn failed(attempt: Attempt, name: Option<&str>, cost: Cost) -> Entry {
    let class = ErrorClass::Transient;
    let failure = Failure { class, reason: "no".into(), counted: true, retry_at_ms: None, cost };
    Entry::Outcome(Box::new(OutcomeRow::failed(end(attempt, name), failure)))
}

fn orphan(attempt: Attempt, name: &str) -> Entry {
    Entry::Orphan(Box::new(OrphanRow {
        key: OrphanKey { job: job_key(), task: task(name) },
        attempt,
        lane: lane(),
        at_ms: NOW_MS,
        reason: "its attempt had moved on".into(),
        cancel: "requested".into(),
        price_micros: None,
    }))
}

fn current(status: Status, attempt: Attempt, name: Option<&str>) -> Entry {
    let row = JobRow {
        attempt,
        task: name.map(task),
        started_ms: Some(NOW_MS),
        price_micros: Some(PRICE_MICROS),
        ..job(status)
    };
    Entry::Job(Box::new(row))
}

fn all(entries: Vec<Entry>) -> Ledger {
    ledger(entries, &Wanted::default())
}

fn priced(count: u64) -> Sum {
    Sum { count, micros: count * PRICE_MICROS, unpriced: 0 }
}

#[test]
fn every_attempt_is_one_line_and_lines_add_up() {
    let ledger = all(vec![
        failed(1, None, Cost::None),
        failed(2, Some("t2"), Cost::AtRisk),
        failed(3, Some("t3"), Cost::Paid),
        current(Status::Rendering, 4, Some("t4")),
    ]);
    let charges: Vec<_> = ledger.lines.iter().map(|line| (line.attempt, line.charge)).collect();
    let expected = [(1, Charge::Unbilled), (2, Charge::AtRisk), (3, Charge::Paid), (4, Charge::Open)];
    assert_eq!(charges, expected);
    for charge in Charge::ALL {
        assert_eq!(ledger.total(charge), priced(1), "{charge:?}");
    }
    assert_eq!(ledger.twice, []);
}

#[test]
fn a_held_job_is_at_risk_and_a_claimed_one_is_no_line() {
    let ledger = all(vec![current(Status::Held, 1, None)]);
    assert_eq!((ledger.lines.len(), ledger.total(Charge::AtRisk)), (1, priced(1)));
    for status in [Status::Ready, Status::Claimed, Status::Succeeded, Status::Failed, Status::Cancelled] {
        assert_eq!(all(vec![current(status, 1, None)]).lines, [], "{status}");
    }
}

/// The outcome is written before the job's row follows it: the attempt must not count twice in between.
#[test]
fn an_outcome_that_is_not_followed_yet_counts_once() {
    let paid = failed(1, Some("t1"), Cost::Paid);
    for entries in [
        vec![current(Status::Rendering, 1, Some("t1")), paid.clone()],
        vec![paid, current(Status::Rendering, 1, Some("t1"))],
    ] {
        let ledger = all(entries);
        assert_eq!((ledger.lines.len(), ledger.total(Charge::Paid)), (1, priced(1)));
        assert_eq!(ledger.twice, [], "one task, named by two rows");
    }
}

#[test]
fn two_accepted_tasks_of_one_attempt_are_found_in_whichever_rows_they_are() {
    for entries in [
        vec![failed(1, Some("a"), Cost::Paid), orphan(1, "b")],
        vec![current(Status::Rendering, 1, Some("a")), orphan(1, "b")],
        vec![orphan(1, "b"), orphan(1, "a")],
    ] {
        // They count even where the lines aren't asked for.
        let wanted = Wanted { since_ms: u64::MAX, ..Wanted::default() };
        let ledger = ledger(entries, &wanted);
        assert_eq!(ledger.lines, []);
        assert_eq!(ledger.twice.len(), 1);
        assert_eq!((ledger.twice[0].attempt, &ledger.twice[0].tasks), (1, &vec![task("a"), task("b")]));
    }
    assert_eq!(all(vec![failed(1, Some("a"), Cost::Paid), orphan(2, "b")]).twice, [], "two attempts");
    assert_eq!(all(vec![failed(1, Some("a"), Cost::Paid), orphan(1, "a")]).twice, [], "one task");
}

#[test]
fn a_lane_and_a_time_cut_the_lines() {
    let entries = || vec![failed(1, None, Cost::None), failed(2, Some("t2"), Cost::Paid), orphan(2, "t9")];
    let since = |since_ms| ledger(entries(), &Wanted { lane: None, since_ms }).lines.len();
    assert_eq!((since(0), since(NOW_MS + 1), since(NOW_MS + 2), since(NOW_MS + 3)), (3, 2, 1, 0));
    let of = |lane: &str| {
        let lane = Some(lane.parse().unwrap());
        ledger(entries(), &Wanted { lane, since_ms: 0 }).lines.len()
    };
    assert_eq!((of(lane().as_str()), of("another")), (3, 0));
    let risk = all(entries()).total(Charge::AtRisk);
    assert_eq!(
        risk,
        Sum { count: 1, micros: 0, unpriced: 1 },
        "an orphan without a price is said to have none"
    );
}
