//! Jobs, slots and lanes.

use crate::random::Random;
use crate::transitions::{JOB_KINDS, LANE_KINDS};
use futures_util::stream::{self, StreamExt as _};
use glassline_protocol::ports::{Store as _, Written};
use glassline_protocol::row::{JobRow, LaneRow, Row, SlotKey, SlotRow};
use glassline_protocol::rule::{Rule, When};
use glassline_protocol::transition::{JobTransition, LaneTransition, SlotTransition};
use glassline_tests::{Lane, World, WorldOptions, item_of, job_key, lane_name};
use std::collections::BTreeSet;

/// Cases of each kind of transition.
const CASES: u64 = 300;
const SEED: u64 = 0x61a5_511e;

struct Case<R: Row, T> {
    key: R::Key,
    before: Option<R>,
    transition: T,
    rule: Rule<R::Field>,
}

/// What the cases of one kind came to.
#[derive(Debug, Default)]
struct Seen {
    applied: u32,
    refused: u32,
    missing: u32,
    mine: u32,
    /// Conditions that were the only one to fail, in some case.
    decisive: BTreeSet<String>,
}

/// A condition without its value.
fn kind_of<F: std::fmt::Debug>(when: &When<F>) -> String {
    match when {
        When::Is(field, _) => format!("{field:?} is"),
        When::OneOf(field, _) => format!("{field:?} is one of"),
        When::Absent(field) => format!("{field:?} is absent"),
        When::Below(field, _) => format!("{field:?} is below"),
        When::AbsentOrBelow(field, _) => format!("{field:?} is absent or below"),
        When::AbsentOrIs(field, _) => format!("{field:?} is absent or is"),
    }
}

async fn one<R: Row, T: std::fmt::Debug>(
    world: &World,
    case: Case<R, T>,
    change: impl AsyncFn(&R::Key, &T) -> Written<R>,
) -> Seen {
    let Case { key, before, transition, rule } = case;
    let about = format!("{transition:?} on {before:?}");
    let written = change(&key, &transition).await;
    let after: Option<R> = world.get(&key).await;
    let mut seen = Seen::default();
    let Some(before) = before else {
        assert_eq!((written, after), (Written::Refused(None), None), "{about}");
        return Seen { missing: 1, ..seen };
    };
    if !rule.guard(&before) {
        assert_eq!(written, Written::Refused(Some(before.clone())), "{about}");
        assert_eq!(after, Some(before.clone()), "{about}");
        let failing: Vec<_> = rule.when.iter().filter(|when| !when.holds(&before)).collect();
        if let [only] = failing.as_slice() {
            seen.decisive.insert(kind_of(*only));
        }
        return Seen { refused: 1, mine: u32::from(rule.already_mine(&before)), ..seen };
    }
    let expected = rule.apply(&before).unwrap();
    assert_eq!(written, Written::Applied(expected.clone()), "{about}");
    assert_eq!(after, Some(expected.clone()), "{about}");
    seen.applied = 1;
    // Our own lost reply: the same write again is recognised, or changes nothing.
    match change(&key, &transition).await {
        Written::Applied(again) => assert_eq!(again, expected, "{about}, twice"),
        Written::Refused(Some(found)) => assert!(rule.already_mine(&found), "{about}, then {found:?}"),
        Written::Refused(None) | Written::Unknown => panic!("{about}: the repeat has no answer"),
    }
    assert_eq!(world.get(&key).await, Some(expected), "{about}, twice");
    seen
}

async fn agree<R: Row, T: std::fmt::Debug>(
    world: &World,
    cases: Vec<Case<R, T>>,
    change: impl AsyncFn(&R::Key, &T) -> Written<R>,
) -> Seen {
    world.put_all(cases.iter().filter_map(|case| case.before.as_ref()).map(item_of).collect()).await;
    let rules = cases.iter().map(|case| &case.rule);
    let conditions: BTreeSet<String> = rules.flat_map(|rule| rule.when.iter().map(kind_of)).collect();
    let change = &change;
    let done: Vec<Seen> = stream::iter(cases)
        .map(|case| {
            Box::pin(one(world, case, async |key: &R::Key, transition: &T| {
                Box::pin(change(key, transition)).await
            }))
        })
        .buffer_unordered(8)
        .collect()
        .await;
    let seen = done.into_iter().fold(Seen::default(), |sum, seen| Seen {
        applied: sum.applied + seen.applied,
        refused: sum.refused + seen.refused,
        missing: sum.missing + seen.missing,
        mine: sum.mine + seen.mine,
        decisive: &sum.decisive | &seen.decisive,
    });
    assert_eq!(seen.decisive, conditions, "each condition is once the only one that fails");
    seen
}

async fn world() -> World {
    World::new(WorldOptions::one(Lane::keyed(1))).await
}

/// Tokens are never used for two attempts, so a row under our token is at our attempt.
fn at_our_attempt(row: Option<JobRow>, transition: &JobTransition) -> Option<JobRow> {
    let ours = match transition {
        JobTransition::Accept { ours, .. }
        | JobTransition::Start { ours, .. }
        | JobTransition::RecordTask { ours, .. }
        | JobTransition::Renew { ours, .. }
        | JobTransition::Hold { ours, .. }
        | JobTransition::Succeed { ours, .. }
        | JobTransition::Release { ours, .. }
        | JobTransition::Retry { ours, .. }
        | JobTransition::Fail { ours, .. }
        | JobTransition::CancelClaimed { ours, .. }
        | JobTransition::CancelEnded { ours, .. } => ours,
        JobTransition::Claim { .. }
        | JobTransition::Void { .. }
        | JobTransition::RequestCancel { .. }
        | JobTransition::CancelReady { .. }
        | JobTransition::Requeue { .. }
        | JobTransition::Review { .. } => return row,
    };
    row.map(|row| if row.owned_by(&ours.token) { JobRow { attempt: ours.attempt, ..row } } else { row })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_jobs() {
    let world = world().await;
    let mut names = BTreeSet::new();
    for kind in 0..JOB_KINDS {
        let mut random = Random::new(SEED + kind);
        let cases: Vec<_> = (0..CASES)
            .map(|number| {
                let key = job_key(&format!("{kind}-{}", number / 50), &format!("s{number}"));
                let transition = random.job_transition(kind);
                let rule = transition.rule();
                let before = random.row_for(|random| random.job(key.clone()), &rule);
                let before = at_our_attempt(before, &transition);
                Case { key, before, transition, rule }
            })
            .collect();
        let name = cases[0].transition.name();
        names.insert(name);
        let seen =
            agree(&world, cases, async |key, transition| world.ports.change_job(key, transition).await).await;
        println!("{name}: {seen:?}");
        // A third of the Requeues ask for a status that may never be requeued.
        assert!(seen.applied >= 60 && seen.refused >= 60 && seen.missing >= 3, "{name}: {seen:?}");
        assert!(seen.mine >= 3 || name == "RequestCancel", "{name}: no case met its own effect: {seen:?}");
    }
    assert_eq!(names.len() as u64, JOB_KINDS, "every kind has its cases: {names:?}");
    the_index_shows_the_rows(&world).await;
}

/// The index has the entry of every row that has both of its keys, and no other.
async fn the_index_shows_the_rows(world: &World) {
    let mut expected = BTreeSet::new();
    let mut pages = world.dynamo.scan().table_name(glassline_tests::TABLE).into_paginator().items().send();
    while let Some(item) = pages.next().await {
        let item = item.unwrap();
        let text = |name: &str| item.get(name).map(|value| value.as_s().unwrap().clone());
        if let (Some(queue_pk), Some(queue_sk)) = (text("queue_pk"), text("queue_sk")) {
            expected.insert((queue_pk, text("pk").unwrap(), text("sk").unwrap(), queue_sk));
        }
    }
    let mut found = BTreeSet::new();
    for partition in ["READY#a", "LATER#a", "HELD#a"] {
        for (pk, sk, queue_sk) in world.index(partition).await {
            found.insert((partition.to_owned(), pk, sk, queue_sk));
        }
    }
    assert!(found.len() > 1_000, "{} entries", found.len());
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_slots() {
    let world = world().await;
    let mut random = Random::new(SEED);
    let cases: Vec<Case<SlotRow, SlotTransition>> = (0..CASES)
        .map(|number| {
            let key = SlotKey { lane: lane_name("a"), number: u32::try_from(number).unwrap() };
            let transition = random.slot_transition();
            let rule = transition.rule();
            let before = random.row_for(|random| random.slot(key.clone()), &rule);
            Case { key, before, transition, rule }
        })
        .collect();
    let seen =
        agree(&world, cases, async |key, transition| world.ports.change_slot(key, transition).await).await;
    assert!(seen.applied >= 60 && seen.refused >= 60 && seen.missing >= 3 && seen.mine >= 3, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_lanes() {
    let world = world().await;
    for kind in 0..LANE_KINDS {
        let mut random = Random::new(SEED + kind);
        let cases: Vec<Case<LaneRow, LaneTransition>> = (0..CASES)
            .map(|number| {
                let name = format!("{kind}-{number}");
                let transition = random.lane_transition(kind);
                let rule = transition.rule();
                let before = random.row_for(|random| random.lane(&name), &rule);
                Case { key: lane_name(&name), before, transition, rule }
            })
            .collect();
        let name = format!("{:?}", cases[0].transition).split([' ', '{']).next().unwrap().to_owned();
        let seen =
            agree(&world, cases, async |key, transition| world.ports.change_lane(key, transition).await)
                .await;
        println!("{name}: {seen:?}");
        assert!(seen.applied >= 60 && seen.missing >= 3, "{name}: {seen:?}");
        // Whatever a lane is, it may be resumed.
        assert!((seen.refused >= 60 && seen.mine >= 3) || name == "Resume", "{name}: {seen:?}");
    }
}
