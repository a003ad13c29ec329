//! Lost replies to our own conditional writes are recognised as ours, and others' writes that look alike are not.

use crate::support::{HOUR_MS, claimed, rendering, s1, stands, world};
use glassline_protocol::admission::authorise;
use glassline_protocol::ids::Run;
use glassline_protocol::message::Message;
use glassline_protocol::ports::{Local as _, Store as _};
use glassline_protocol::row::{SlotKey, Status};
use glassline_protocol::settle::{self, Settled};
use glassline_protocol::transition::{JobTransition, LaneTransition, Ours, SlotTransition};
use glassline_tests::{Fault, Lane, Plan, Spot, World, WorldOptions, lane_name, post};

/// Every write of a job's life.
const WRITES: [(&str, &str); 6] = [
    ("dispatch", "Take"),
    ("dispatch", "Claim"),
    ("worker", "Start"),
    ("worker", "RecordTask"),
    ("finisher", "put outcome"),
    ("finisher", "Succeed"),
];

/// As often as a handler repeats a write, less once: its last try is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_costs_neither_failure_nor_attempt() {
    let mut world = world("blind", 1).await;
    for (function, call) in WRITES {
        for fault in [Fault::LostReply, Fault::LostRequest] {
            for times in [1, 3] {
                let id = format!("{function}-{fault:?}-{times}-{}", call.replace(' ', "-"));
                world.submit(&post(&id, "blind", 1)).await;
                let plan = Plan::fault(Spot::first(function, call).times(times), fault);
                let driven = world.drive(&plan, 1, 60_000, &[&id]).await;
                assert_eq!(plan.times(), times, "{id}: {driven:?}");
                assert_eq!(stands(&world, &id).await, (Status::Succeeded, 1, 0), "{id}: {driven:?}");
                assert_eq!((driven.given_back, driven.crashes), (0, 0), "{id}");
                assert_eq!(world.qa().await[&s1(&id)].len(), 1, "{id}");
                world.check(&[&id], true).await;
                world = world.again().await;
            }
        }
    }
}

/// More replies lost than a handler waits for: another invocation goes on from what it finds, and no failure is counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_gives_up_on_its_replies_costs_no_failure() {
    let mut world = world("keyed", 1).await;
    for (function, call) in WRITES {
        let id = format!("{function}-{}", call.replace(' ', "-"));
        world.submit(&post(&id, "keyed", 1)).await;
        let plan = Plan::fault(Spot::first(function, call).times(4), Fault::LostReply);
        let driven = world.drive(&plan, 1, HOUR_MS, &[&id]).await;
        assert_eq!(plan.times(), 4, "{id}: {driven:?}");
        let job = world.job(&s1(&id)).await;
        // A claim that nobody knows of is given back by its lease, a slot taken without one is voided, and both are made
        // anew.
        let attempts = if function == "dispatch" { 2 } else { 1 };
        assert_eq!((job.status, job.failures), (Status::Succeeded, 0), "{id}: {driven:?}");
        assert!(job.attempt <= attempts, "{id}: {job:?}, {driven:?}");
        world.check(&[&id], true).await;
        world = world.again().await;
    }
}

fn mine<R: std::fmt::Debug>(settled: Result<Settled<R>, settle::Fault>) -> bool {
    match settled.unwrap() {
        Settled::Mine(_) => true,
        Settled::Refused(_) => false,
    }
}

/// Each of two callers makes a write that differs in nothing but its own nonce: the first wins, also when it asks again;
/// the second doesn't.
async fn only_the_first_wins(world: &World, first: &JobTransition, second: &JobTransition) {
    let job = async |transition| mine(settle::job(&world.ports, 0, &s1("p1"), transition).await);
    assert!(job(first).await, "{first:?}");
    assert!(!job(second).await, "{second:?} is not {first:?}");
    assert!(job(first).await, "{first:?} again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_dispatchers_that_claim_alike() {
    let world = world("blind", 1).await;
    world.submit(&post("p1", "blind", 1)).await;
    let claim = || JobTransition::Claim {
        seen: 0,
        token: world.ports.fresh_token(),
        slot: 0,
        lease_ms: world.now_ms() + 1_000,
        price_micros: None,
    };
    only_the_first_wins(&world, &claim(), &claim()).await;
    let take = || SlotTransition::Take {
        seen: None,
        job: s1("p1"),
        attempt: 0,
        token: world.ports.fresh_token(),
        now_ms: world.now_ms(),
    };
    let key = SlotKey { lane: lane_name("blind"), number: 0 };
    let slot = async |transition| mine(settle::slot(&world.ports, 0, &key, transition).await);
    let (first, second) = (take(), take());
    assert!(slot(&first).await && !slot(&second).await && slot(&first).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_that_start_alike() {
    let world = world("blind", 1).await;
    let handoff = claimed(&world, "p1").await;
    let start = || JobTransition::Start {
        ours: Ours { attempt: 1, token: handoff.token.clone() },
        run: world.ports.fresh_run(),
        now_ms: world.now_ms(),
        lease_ms: world.now_ms() + 120_000,
    };
    only_the_first_wins(&world, &start(), &start()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_resumes_that_renew_alike() {
    let world = world("blind", 1).await;
    let handoff = rendering(&world, "p1").await;
    let seen_lease_ms = world.job(&s1("p1")).await.lease_ms.unwrap();
    let renew = || JobTransition::Renew {
        ours: Ours { attempt: 1, token: handoff.token.clone() },
        status: Status::Rendering,
        seen_lease_ms,
        lease_ms: seen_lease_ms + 60_000,
        run: world.ports.fresh_run(),
        held_sk: None,
    };
    only_the_first_wins(&world, &renew(), &renew()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_dispatchers_that_authorise_alike() {
    let mut lane = Lane::keyed(4);
    lane.row.starts_per_minute = Some(2);
    let world = World::new(WorldOptions::one(lane)).await;
    let row = world.ports.lane(&lane_name("keyed")).await.unwrap().unwrap();
    let by = |text: &str| Run::new(text).unwrap();
    let first = authorise(&row, world.now_ms(), 2, by("00000000000000a0")).unwrap();
    let second = authorise(&row, world.now_ms(), 2, by("00000000000000b0")).unwrap();
    let lane = async |transition: &LaneTransition| {
        mine(settle::lane(&world.ports, 0, &lane_name("keyed"), transition).await)
    };
    assert!(lane(&first).await && !lane(&second).await && lane(&first).await);
}

/// Two workers with the same handoff at the same moment, many times: one submits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_with_one_handoff() {
    let world = world("blind", 1).await;
    for run in 0..20 {
        let id = format!("p{run}");
        let handoff = claimed(&world, &id).await;
        let (a, b) = (Plan::none(), Plan::none());
        let message = Message::Handoff(handoff);
        let (first, second) = tokio::join!(world.handle(&a, message.clone()), world.handle(&b, message));
        let mut notes = [first.unwrap().unwrap(), second.unwrap().unwrap()];
        notes.sort();
        assert_eq!(notes, ["replay", "submitted"]);
        world.drive(&Plan::none(), 1, HOUR_MS, &[&id]).await;
        assert_eq!(stands(&world, &id).await, (Status::Succeeded, 1, 0));
        crate::support::take_all(&world, "wake").await;
        // The replay's look at the end of the lease.
        world.drive_late().await;
    }
    assert_eq!(world.sandbox.books().totals.posts, 20);
    world.check(&["p0", "p19"], true).await;
}
