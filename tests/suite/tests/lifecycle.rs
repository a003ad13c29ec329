//! One shot from ready to stored, registered and handed to QA; with every fault at every call on the way.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use glassline_protocol::row::Status;
use glassline_tests::{Fault, Lane, Plan, Spot, World, WorldOptions, job_key, post};

const HOUR_MS: u64 = 3_600_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shot_is_rendered_stored_registered_and_handed_to_qa() {
    let world = World::new(WorldOptions::default()).await;
    world.submit(&post("p1", "keyed", 3)).await;
    let plan = Plan::none();
    let driven = world.drive(&plan, 1, HOUR_MS, &["p1"]).await;
    for n in 1..=3 {
        let job = world.job(&job_key("p1", &format!("s{n}"))).await;
        assert_eq!((job.status, job.attempt, job.failures), (Status::Succeeded, 1, 0), "{driven:?}");
    }
    world.check(&["p1"], true).await;
    assert_eq!(world.accepted().len(), 3);
    assert_eq!(world.qa().await.len(), 3);
}

/// Runs one shot through its life with `fault` at call `at`; `None` when its life has fewer calls.
async fn life_with(world: &World, lane: &str, at: usize, fault: Fault, copies: usize) -> Option<()> {
    let id = format!("{fault:?}-{at}");
    world.submit(&post(&id, lane, 1)).await;
    let plan = Plan::fault(Spot::number(at), fault);
    let driven = world.drive(&plan, copies, 6 * HOUR_MS, &[&id]).await;
    let call = plan.fired()?;
    let job = world.job(&job_key(&id, "s1")).await;
    let about = format!("{fault:?} at call {at} ({call}): {job:?}\n{driven:?}\n{:?}", plan.log());
    // The intent is written and nobody knows whether it was submitted: from Start's answer to RecordTask's effect.
    let in_doubt = matches!(
        (call, fault),
        ("Start", Fault::CrashAfter) | ("submit", _) | ("RecordTask", Fault::CrashBefore)
    );
    let submitted = !matches!(
        (call, fault),
        ("Start", Fault::CrashAfter) | ("submit", Fault::LostRequest | Fault::CrashBefore)
    );
    match job.status {
        Status::Succeeded => {}
        // Where the provider offers nothing, a lost submit is a person's to decide.
        Status::Held if lane == "blind" && in_doubt => {}
        Status::Held
        | Status::Ready
        | Status::Claimed
        | Status::Rendering
        | Status::Failed
        | Status::Cancelled => panic!("not succeeded: {about}"),
    }
    world.check(&[&id], true).await;
    let held = job.status == Status::Held;
    assert_eq!(world.renders_of(&job.key), usize::from(submitted || !held), "{about}");
    // A lookup that finds nothing proves that the attempt was lost before it was paid for; only that counts a failure.
    let lost = lane == "looked" && in_doubt && !submitted;
    assert_eq!((job.failures, job.attempt), if lost { (1, 2) } else { (0, job.attempt) }, "{about}");
    Some(())
}

async fn every_call_and_fault(lane: &str, copies: usize) {
    let mut world = World::new(WorldOptions::one(Lane::named(lane, 2))).await;
    for fault in Fault::ALL {
        let mut at = 0;
        while life_with(&world, lane, at, fault, copies).await.is_some() {
            at += 1;
            world = world.again().await;
        }
        assert!(at > 20, "a life has more calls than {at}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_at_every_call_with_keys() {
    every_call_and_fault("keyed", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_at_every_call_with_lookup() {
    every_call_and_fault("looked", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_at_every_call_with_nothing_offered() {
    every_call_and_fault("blind", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_at_every_call_with_every_message_twice() {
    every_call_and_fault("keyed", 2).await;
}
