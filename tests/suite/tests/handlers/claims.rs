//! Reservations whose claim comes late, or just in time.

use crate::support::{HOUR_MS, first_lane, in_flight, world};
use glassline_protocol::row::Status;
use glassline_tests::{MINUTE_MS, Plan, Spot, World, post};
use tokio::sync::Notify;

async fn all_succeed(world: &World, shots: usize) {
    world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    let jobs = world.jobs("p1").await;
    assert_eq!(jobs.len(), shots);
    assert!(jobs.iter().all(|job| job.status == Status::Succeeded && job.failures == 0), "{jobs:?}");
    world.check(&["p1"], true).await;
}

/// Dispatcher A takes a slot and stalls before its claim; B voids the reservation when it is old and gives the slot out.
async fn late_claim(capacity: u32, shots: usize) {
    let world = world("blind", capacity).await;
    world.submit(&post("p1", "blind", shots)).await;
    let lane = first_lane(&world).await;
    let (plan, gate) = Plan::stop_before(Spot::first("dispatch", "Claim"));
    let (a, b) = gate
        .interrupt(world.tick_lane_with(&plan, &lane), async {
            world.clock.manual.advance(MINUTE_MS - 1);
            let young = world.tick_lane(&lane).await;
            assert_eq!(young.voided, 0, "a young reservation is left alone");
            world.clock.manual.advance(1);
            let old = world.tick_lane(&lane).await;
            // A stands still whole, perhaps with more slots taken than the one whose claim it came to. Where the lane had
            // other slots free, B may have started A's job in one of them, which voids the reservation as well.
            let settled = old.voided + young.started;
            assert!(
                (1..=shots.min(capacity as usize)).contains(&settled),
                "an old one isn't: {young:?} {old:?}"
            );
            assert!(capacity > 1 || (young.started, old.voided) == (0, 1), "{young:?} {old:?}");
            assert!(in_flight(&world, "p1").await <= capacity as usize);
            (young, old)
        })
        .await;
    let (young, old) = b.expect("A came to its claim");
    let started = a.unwrap().started + young.started + old.started;
    assert_eq!(in_flight(&world, "p1").await, (capacity as usize).min(shots));
    assert_eq!(started, (capacity as usize).min(shots), "nothing was started twice");
    all_succeed(&world, shots).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_comes_after_its_reservation_was_voided_is_refused() {
    late_claim(1, 1).await;
    late_claim(1, 3).await;
    late_claim(4, 3).await;
    late_claim(4, 9).await;
}

/// B has seen A's old reservation, and A's claim comes just before B's Void.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_comes_just_before_the_void_keeps_its_slot() {
    let world = world("blind", 1).await;
    world.submit(&post("p1", "blind", 2)).await;
    let lane = first_lane(&world).await;
    let (a_plan, a_gate) = Plan::stop_before(Spot::first("dispatch", "Claim"));
    let (b_plan, b_gate) = Plan::stop_before(Spot::first("dispatch", "Void"));
    let a_done = Notify::new();
    let a = async {
        let ticked = world.tick_lane_with(&a_plan, &lane).await.unwrap();
        a_done.notify_one();
        ticked
    };
    let b = async {
        a_gate.reached().await;
        world.clock.manual.advance(MINUTE_MS);
        let meanwhile = async {
            a_gate.open();
            a_done.notified().await;
        };
        b_gate.interrupt(world.tick_lane_with(&b_plan, &lane), meanwhile).await
    };
    let (a, (b, met)) = tokio::join!(a, b);
    assert!(met.is_some(), "B came to its Void");
    let b = b.unwrap();
    assert_eq!((a.started, b.started, b.voided), (1, 0, 0));
    assert_eq!(in_flight(&world, "p1").await, 1);
    all_succeed(&world, 2).await;
}

/// The claim is done and its dispatcher dies before the handoff: the lease gives it back, at no cost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_without_a_handoff_is_given_back_by_its_lease() {
    let world = world("blind", 1).await;
    world.submit(&post("p1", "blind", 1)).await;
    let lane = first_lane(&world).await;
    let plan = Plan::fault(Spot::first("dispatch", "Claim"), glassline_tests::Fault::CrashAfter);
    assert_eq!(world.tick_lane_with(&plan, &lane).await, None);
    assert_eq!(in_flight(&world, "p1").await, 1);
    all_succeed(&world, 1).await;
    assert_eq!(world.jobs("p1").await[0].attempt, 2);
}

/// The slots' rows show, and a dispatcher's late Take of a slot that was given out since is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_take_of_a_slot_that_was_given_out_since_is_refused() {
    let world = world("blind", 1).await;
    world.submit(&post("p1", "blind", 2)).await;
    let lane = first_lane(&world).await;
    let (plan, gate) = Plan::stop_before(Spot::first("dispatch", "Take"));
    let (a, b) = gate.interrupt(world.tick_lane_with(&plan, &lane), world.tick_lane(&lane)).await;
    assert_eq!((a.unwrap().started, b.unwrap().started), (0, 1));
    assert_eq!(in_flight(&world, "p1").await, 1);
    all_succeed(&world, 2).await;
}
