//! A refusal counts as our own lost reply only when the row shows our own effect. Here another caller has made the same
//! kind of transition first: its effect must not pass for ours, or, where the two can't be told apart, it must be the
//! very effect that we wanted.

use crate::fixtures::{
    ATTEMPT, NEW_LEASE_MS, NOW_MS, SEEN_LEASE_MS, held_at, job, later_at, ours, ready_at, run, task, token,
};
use glassline_protocol::ids::Token;
use glassline_protocol::provider::ErrorClass;
use glassline_protocol::row::{JobRow, QaState, Status};
use glassline_protocol::transition::{JobTransition, Ours};

/// Ours, theirs, and the row on which theirs came first.
struct Race {
    ours: JobTransition,
    theirs: JobTransition,
    before: JobRow,
}

fn race(ours: JobTransition, theirs: JobTransition, status: Status) -> Race {
    Race { ours, theirs, before: job(status) }
}

/// The next attempt's owner, and a row of its.
fn next() -> Ours {
    Ours { attempt: ATTEMPT + 1, token: token(2) }
}

fn next_job(status: Status) -> JobRow {
    let row = job(status);
    JobRow { attempt: ATTEMPT + 1, token: row.token.is_some().then(|| token(2)), ..row }
}

fn after_theirs(race: &Race) -> JobRow {
    let rule = race.theirs.rule();
    assert!(rule.guard(&race.before), "{:?} must happen on {:?}", race.theirs, race.before);
    rule.apply(&race.before).unwrap()
}

fn claim(token: Token, slot: u32) -> JobTransition {
    JobTransition::Claim { seen: ATTEMPT, token, slot, lease_ms: NEW_LEASE_MS, price_micros: None }
}

fn start(number: u8) -> JobTransition {
    JobTransition::Start { ours: ours(), run: run(number), now_ms: NOW_MS, lease_ms: NEW_LEASE_MS }
}

fn record(name: &str) -> JobTransition {
    JobTransition::RecordTask { ours: ours(), task: task(name), lease_ms: NEW_LEASE_MS }
}

fn renew(status: Status, number: u8) -> JobTransition {
    JobTransition::Renew {
        ours: ours(),
        status,
        seen_lease_ms: SEEN_LEASE_MS,
        lease_ms: NEW_LEASE_MS,
        run: run(number),
        held_sk: (status == Status::Held).then(|| held_at(NEW_LEASE_MS, ATTEMPT).sk),
    }
}

/// Callers that differ in what they write (token, run, task, time, verdict) with everything else equal.
#[test]
fn another_callers_effect_on_the_same_row_is_not_ours() {
    use Status::{Claimed, Held, Ready, Rendering, Succeeded};
    let review = |verdict| JobTransition::Review { attempt: ATTEMPT, verdict };
    let judged = JobRow { qa: Some(QaState::Pending), ..job(Succeeded) };
    for race in [
        race(claim(token(1), 7), claim(token(2), 7), Ready),
        race(start(1), start(2), Claimed),
        race(record("t1"), record("t2"), Rendering),
        race(record("t1"), record("t2"), Held),
        race(renew(Rendering, 1), renew(Rendering, 2), Rendering),
        race(renew(Held, 1), renew(Held, 2), Held),
        Race { ours: review(QaState::Approved), theirs: review(QaState::Rejected), before: judged.clone() },
        Race { ours: review(QaState::Rejected), theirs: review(QaState::Approved), before: judged },
    ] {
        let row = after_theirs(&race);
        let rule = race.ours.rule();
        assert!(!rule.guard(&row), "{:?} is refused after {:?}", race.ours, race.theirs);
        assert!(!rule.already_mine(&row), "{:?} isn't applied by {:?}", race.ours, race.theirs);
    }
}

fn ended(of: fn(Ours) -> JobTransition, status: Status) -> Race {
    Race { ours: of(ours()), theirs: of(next()), before: next_job(status) }
}

/// The owner of a later attempt makes the same kind of transition.
#[test]
fn another_attempts_effect_is_not_ours() {
    use Status::{Claimed, Failed, Ready, Rendering, Succeeded};
    let release = |ours: Ours| JobTransition::Release {
        entry: ready_at(ours.attempt),
        ours,
        unless_accepted: false,
        failing_below: None,
    };
    let retry = |ours: Ours| JobTransition::Retry {
        entry: later_at(NEW_LEASE_MS, ours.attempt),
        ours,
        failing_below: Some(9),
        class: ErrorClass::Transient,
        reason: "passing".into(),
    };
    let fail = |ours| JobTransition::Fail {
        ours,
        now_ms: NOW_MS,
        class: ErrorClass::Transient,
        reason: "passing".into(),
    };
    let hold = |ours: Ours| JobTransition::Hold {
        next_check_ms: NEW_LEASE_MS,
        entry: held_at(NEW_LEASE_MS, ours.attempt),
        ours,
        reason: "lost".into(),
    };
    let void =
        |ours: Ours| JobTransition::Void { seen: ours.attempt, queue_sk: ready_at(ours.attempt + 1).sk };
    let requeue = |ours: Ours| JobTransition::Requeue {
        status: Status::Failed,
        attempt: ours.attempt,
        entry: ready_at(ours.attempt + 1),
        note: None,
    };
    let now_ms = NOW_MS;
    let mut asked = ended(|ours| JobTransition::CancelClaimed { ours, now_ms: NOW_MS }, Claimed);
    asked.before.cancel_requested = true;
    let mut review =
        ended(|ours| JobTransition::Review { attempt: ours.attempt, verdict: QaState::Approved }, Succeeded);
    review.before.qa = Some(QaState::Pending);
    for race in [
        ended(|ours| JobTransition::Accept { ours, now_ms: NOW_MS }, Claimed),
        ended(hold, Rendering),
        ended(|ours| JobTransition::Succeed { ours, now_ms: NOW_MS }, Rendering),
        ended(release, Claimed),
        ended(retry, Rendering),
        ended(fail, Claimed),
        ended(|ours| JobTransition::RequestCancel { attempt: ours.attempt }, Claimed),
        ended(|ours| JobTransition::CancelReady { attempt: ours.attempt, now_ms: NOW_MS }, Ready),
        asked,
        ended(|ours| JobTransition::CancelEnded { ours, now_ms: NOW_MS }, Rendering),
        ended(void, Ready),
        ended(requeue, Failed),
        review,
        // A later attempt's Start by a run that happens to be equal.
        Race {
            ours: start(1),
            theirs: JobTransition::Start { ours: next(), run: run(1), now_ms, lease_ms: NEW_LEASE_MS },
            before: next_job(Claimed),
        },
    ] {
        let row = after_theirs(&race);
        let rule = race.ours.rule();
        assert!(!rule.guard(&row), "{:?} is refused after {:?}", race.ours, race.theirs);
        assert!(!rule.already_mine(&row), "{:?} isn't applied by {:?}", race.ours, race.theirs);
    }
}

/// Two callers of one attempt that write the very same thing can't be told apart, and needn't be: the row is as both
/// wanted it. Listed so that a new transition of this kind is a decision.
#[test]
fn callers_that_cannot_be_told_apart_wanted_the_same_row() {
    use Status::{Claimed, Failed, Ready, Rendering};
    let now_ms = NOW_MS;
    let entry = ready_at(ATTEMPT + 1);
    let requeue = JobTransition::Requeue { status: Failed, attempt: ATTEMPT, entry, note: None };
    for (transition, status) in [
        // The reservation can't claim any more, whoever voided it.
        (JobTransition::Void { seen: ATTEMPT, queue_sk: ready_at(ATTEMPT + 1).sk }, Ready),
        // Both handoffs are queued; one Start wins.
        (JobTransition::Accept { ours: ours(), now_ms }, Claimed),
        // One more attempt was asked for twice.
        (requeue, Failed),
        (JobTransition::RequestCancel { attempt: ATTEMPT }, Rendering),
        (JobTransition::CancelReady { attempt: ATTEMPT, now_ms }, Ready),
        // One outcome, followed twice.
        (JobTransition::Succeed { ours: ours(), now_ms }, Rendering),
        (JobTransition::CancelEnded { ours: ours(), now_ms }, Rendering),
    ] {
        let rule = transition.rule();
        let row = rule.apply(&job(status)).unwrap();
        assert!(rule.already_mine(&row), "{transition:?}");
        // Wherever the guard lets it through again, it changes nothing.
        assert!(!rule.guard(&row) || rule.apply(&row).unwrap() == row, "{transition:?}");
    }
}

/// A reply may be lost for long: the row has gone on under our token when the repeat is refused.
#[test]
fn our_effect_is_recognised_after_the_job_went_on() {
    use Status::{Claimed, Ready, Rendering};
    let claimed = claim(token(2), 7).rule().apply(&job(Ready)).unwrap();
    let next_start =
        JobTransition::Start { ours: next(), run: run(1), now_ms: NOW_MS, lease_ms: NEW_LEASE_MS };
    let started = next_start.rule().apply(&claimed).unwrap();
    assert!(claim(token(2), 7).rule().already_mine(&started), "our claim, already started by a worker");
    let asked = JobTransition::RequestCancel { attempt: ATTEMPT };
    let started = start(1).rule().apply(&job(Claimed)).unwrap();
    assert!(
        start(1).rule().already_mine(&asked.rule().apply(&started).unwrap()),
        "our start, asked to cancel"
    );
    let recorded = record("t1").rule().apply(&job(Rendering)).unwrap();
    let succeeded = JobTransition::Succeed { ours: ours(), now_ms: NOW_MS }.rule().apply(&recorded).unwrap();
    assert!(record("t1").rule().already_mine(&succeeded), "our task, whatever the status");
    let approved = JobTransition::Review { attempt: ATTEMPT, verdict: QaState::Approved };
    let approved = approved.rule().apply(&succeeded).unwrap();
    let succeed = JobTransition::Succeed { ours: ours(), now_ms: NOW_MS };
    assert!(succeed.rule().already_mine(&approved), "our success, already approved");
}

/// What must stop passing for ours: somebody else acts for the attempt now.
#[test]
fn our_effect_is_void_once_somebody_else_acts() {
    use Status::{Claimed, Rendering};
    let started = start(1).rule().apply(&job(Claimed)).unwrap();
    let over = JobRow { lease_ms: Some(SEEN_LEASE_MS), ..started };
    let renewed = renew(Rendering, 2).rule().apply(&over).unwrap();
    assert!(!start(1).rule().already_mine(&renewed), "another invocation renewed the lease");
    let mine = renew(Rendering, 1).rule().apply(&over).unwrap();
    let hold = JobTransition::Hold {
        ours: ours(),
        next_check_ms: NEW_LEASE_MS,
        entry: held_at(NEW_LEASE_MS, ATTEMPT),
        reason: "lost".into(),
    };
    let held = hold.rule().apply(&mine).unwrap();
    assert!(!renew(Rendering, 1).rule().already_mine(&held), "the attempt is held");
    let released = JobTransition::Release {
        ours: ours(),
        entry: ready_at(ATTEMPT),
        unless_accepted: false,
        failing_below: None,
    };
    let ready = released.rule().apply(&job(Claimed)).unwrap();
    let again = claim(token(2), 1).rule().apply(&ready).unwrap();
    assert!(!released.rule().already_mine(&again), "the next attempt has begun");
}
