//! An outside dispatcher: claims, handoffs, lost answers, handoffs that never arrive, claims given back.

use crate::support::{HOUR_MS, first_lane, message, ok, s1, stands, take_all};
use glassline_dispatch::{Claims, claim_outside};
use glassline_protocol::ids::Ms;
use glassline_protocol::message::{Message, OutsideClaim};
use glassline_protocol::row::{LaneRow, Status};
use glassline_protocol::settle::Fault as HandlerFault;
use glassline_protocol::steps::{Acceptance, GivenBack, HandedOver, acceptance, give_back, hand_over};
use glassline_protocol::transition::Ours;
use glassline_tests::{Fault, Faulty, Lane, MINUTE_MS, Plan, Spot, World, WorldOptions, lane_name, post};

async fn world(capacity: u32) -> World {
    let mut lane = Lane::blind(capacity);
    lane.row.outside = true;
    World::new(WorldOptions::one(lane)).await
}

async fn claims(world: &World, count: usize) -> Vec<OutsideClaim> {
    let lane = first_lane(world).await;
    match claim_outside(&world.ports, &world.settings, &lane, count, Ms::MAX).await.unwrap() {
        Claims::Made(claims) => claims,
        other => panic!("{other:?}"),
    }
}

async fn hand(world: &World, plan: &Plan, claim: &OutsideClaim) -> Option<Result<HandedOver, HandlerFault>> {
    let ports = Faulty::new(&world.ports, plan, "api");
    ports.run(Box::pin(hand_over(&ports, &world.settings, &world.secrets, claim))).await
}

async fn handed(world: &World, claim: &OutsideClaim) -> HandedOver {
    hand(world, &Plan::none(), claim).await.unwrap().unwrap()
}

async fn back(world: &World, plan: &Plan, claim: &OutsideClaim) -> Option<Result<GivenBack, HandlerFault>> {
    let ours = Ours { attempt: claim.attempt, token: claim.token.clone() };
    let ports = Faulty::new(&world.ports, plan, "api");
    ports.run(Box::pin(give_back(&ports, &world.settings, &claim.job(), &ours))).await
}

async fn read_back(world: &World, claim: &OutsideClaim) -> Acceptance {
    acceptance(&world.job(&claim.job()).await, &claim.token)
}

fn receipt(handed: &HandedOver) -> String {
    match handed {
        HandedOver::Taken(receipt, _) => receipt.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_keep_the_lanes_capacity_and_our_ticks_start_nothing() {
    let world = world(2).await;
    world.submit(&post("p1", "blind", 3)).await;
    let lane = first_lane(&world).await;
    assert_eq!(world.tick_lane(&lane).await.started, 0);
    world.drive_on(&Plan::none(), 3 * MINUTE_MS).await;
    assert!(world.jobs("p1").await.iter().all(|job| job.status == Status::Ready && job.attempt == 0));
    let first = claims(&world, 10).await;
    assert_eq!(first.len(), 2);
    assert_eq!(first[0].prompt.as_deref(), Some("shot 1 of p1"));
    assert!(claims(&world, 10).await.is_empty(), "the lane is full");
    assert!(take_all(&world, "render").await.is_empty(), "nothing is sent");
    // A dispatcher that never comes back: the leases bring the claims back.
    world.clock.manual.advance(6 * MINUTE_MS);
    world.drive_on(&Plan::none(), MINUTE_MS).await;
    assert!(world.jobs("p1").await.iter().all(|job| job.status == Status::Ready));
    assert_eq!(claims(&world, 1).await.len(), 1);
    world.check(&["p1"], true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_of_our_own_and_no_lane_give_no_claims() {
    let world = World::new(WorldOptions::one(Lane::blind(1))).await;
    let lane = first_lane(&world).await;
    let asked = claim_outside(&world.ports, &world.settings, &lane, 1, Ms::MAX).await.unwrap();
    assert!(matches!(asked, Claims::NotOutside(_)), "{asked:?}");
    let none = lane_name("none");
    let asked = claim_outside(&world.ports, &world.settings, &none, 1, Ms::MAX).await.unwrap();
    assert_eq!(asked, Claims::Missing);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_and_a_budget_hold_for_claims() {
    for row in [
        LaneRow { paused: true, ..LaneRow::new(lane_name("blind"), 2) },
        LaneRow {
            price_micros: Some(2),
            budget_micros_per_day: Some(1),
            ..LaneRow::new(lane_name("blind"), 2)
        },
    ] {
        let lane = Lane { row: LaneRow { outside: true, ..row }, ..Lane::blind(2) };
        let world = World::new(WorldOptions::one(lane)).await;
        world.submit(&post("p1", "blind", 1)).await;
        assert!(claims(&world, 1).await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_handoff_gets_the_same_receipt_and_one_render() {
    let world = world(1).await;
    world.submit(&post("p1", "blind", 1)).await;
    let claim = claims(&world, 1).await.remove(0);
    assert_eq!(read_back(&world, &claim).await, Acceptance::NotAccepted);
    let first = receipt(&handed(&world, &claim).await);
    world.clock.manual.advance(1_000);
    // Only what must be said.
    let bare = OutsideClaim {
        lane: None,
        slot: None,
        lease_ms: None,
        prompt: None,
        params: None,
        media: None,
        ..claim.clone()
    };
    assert_eq!(receipt(&handed(&world, &bare).await), first);
    let queued = take_all(&world, "render").await;
    assert_eq!(queued.len(), 2, "queued again while nobody has started it");
    let mut notes = Vec::new();
    for handoff in queued {
        let Message::Handoff(handoff) = handoff else { panic!("{handoff:?}") };
        assert_eq!(handoff.prompt, "shot 1 of p1");
        notes.push(ok(&world, message(&handoff)).await);
    }
    assert_eq!(notes, ["submitted", "replay"]);
    assert_eq!(receipt(&handed(&world, &claim).await), first, "rendering");
    world.drive_to_end(&Plan::none(), HOUR_MS, &["p1"]).await;
    assert_eq!(receipt(&handed(&world, &claim).await), first, "ended");
    assert!(take_all(&world, "render").await.is_empty());
    assert_eq!(read_back(&world, &claim).await, Acceptance::Accepted(first.parse().unwrap()));
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
    assert_eq!(world.renders_of(&s1("p1")), 1);
    world.check(&["p1"], true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handoff_that_says_otherwise_than_the_spec_changes_nothing() {
    let world = world(1).await;
    world.submit(&post("p1", "blind", 1)).await;
    let claim = claims(&world, 1).await.remove(0);
    let before = world.job(&s1("p1")).await;
    for (field, other) in [
        ("prompt", OutsideClaim { prompt: Some("a cheaper one".into()), ..claim.clone() }),
        ("params", OutsideClaim { params: Some(serde_json::json!({"width": 65})), ..claim.clone() }),
        ("lane", OutsideClaim { lane: Some(lane_name("other")), ..claim.clone() }),
        ("media", OutsideClaim { media: Some(glassline_protocol::provider::Media::Video), ..claim.clone() }),
    ] {
        let asked = handed(&world, &other).await;
        assert!(matches!(&asked, HandedOver::Differs(found, _) if *found == field), "{asked:?}");
    }
    for other in [
        OutsideClaim { attempt: 2, ..claim.clone() },
        OutsideClaim { token: "00000000deadbeef".parse().unwrap(), ..claim.clone() },
    ] {
        let asked = handed(&world, &other).await;
        assert!(matches!(asked, HandedOver::NotClaimed(_)), "{asked:?}");
        let given = back(&world, &Plan::none(), &other).await.unwrap().unwrap();
        assert!(matches!(given, GivenBack::NotClaimed(_)), "{given:?}");
    }
    let missing = OutsideClaim { parent: "POST#none".parse().unwrap(), ..claim.clone() };
    assert_eq!(handed(&world, &missing).await, HandedOver::Missing);
    assert_eq!(world.job(&s1("p1")).await, before);
    assert!(take_all(&world, "render").await.is_empty());
}

/// The 202 is lost, or the api dies, at every call: the readback says what is so, and there is one render.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_at_every_call_of_a_handoff_is_read_back_and_rendered_once() {
    let mut world = world(1).await;
    let mut seen = [0, 0];
    'calls: for at in 0.. {
        for fault in Fault::ALL {
            world.submit(&post("p1", "blind", 1)).await;
            let renders = world.renders_of(&s1("p1"));
            let claim = claims(&world, 1).await.remove(0);
            let plan = Plan::fault(Spot::number(at), fault);
            hand(&world, &plan, &claim).await;
            if plan.fired().is_none() {
                break 'calls;
            }
            let about = format!("{fault:?} at {:?}", plan.fired());
            match read_back(&world, &claim).await {
                // Nobody has started it yet: it says accepted all the same, and can't be given back.
                Acceptance::Accepted(receipt) => {
                    seen[0] += 1;
                    assert_eq!(world.job(&s1("p1")).await.status, Status::Claimed, "{about}");
                    let given = back(&world, &Plan::none(), &claim).await.unwrap().unwrap();
                    assert!(
                        matches!(&given, GivenBack::Accepted(found, _) if *found == receipt),
                        "{about}: {given:?}"
                    );
                }
                Acceptance::NotAccepted => {
                    seen[1] += 1;
                    receipt(&handed(&world, &claim).await);
                }
                Acceptance::Superseded => panic!("{about}"),
            }
            world.drive(&Plan::none(), 1, 10 * MINUTE_MS, &["p1"]).await;
            if world.job(&s1("p1")).await.status == Status::Ready {
                // It was accepted and never queued, and its lease brought it back.
                assert_eq!(read_back(&world, &claim).await, Acceptance::Superseded, "{about}");
                let again = claims(&world, 1).await.remove(0);
                assert!(again.token != claim.token);
                receipt(&handed(&world, &again).await);
            }
            world.drive_to_end(&Plan::none(), HOUR_MS, &["p1"]).await;
            assert_eq!(world.job(&s1("p1")).await.status, Status::Succeeded, "{about}");
            assert_eq!(world.renders_of(&s1("p1")) - renders, 1, "{about}");
            world.check_history();
            world = world.again().await;
        }
    }
    assert!(seen[0] >= 4 && seen[1] >= 4, "{seen:?}");
}

/// The handoff never arrived: not accepted, given back (with a fault at every call of that), and the next claim has
/// another token, under which the late handoff is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handoff_that_never_arrived_is_given_back_and_refused_when_it_comes() {
    let mut world = world(1).await;
    'calls: for at in 0.. {
        for fault in Fault::ALL {
            world.submit(&post("p1", "blind", 1)).await;
            let renders = world.renders_of(&s1("p1"));
            let claim = claims(&world, 1).await.remove(0);
            assert_eq!(read_back(&world, &claim).await, Acceptance::NotAccepted);
            let plan = Plan::fault(Spot::number(at), fault);
            let given = back(&world, &plan, &claim).await;
            if plan.fired().is_none() {
                break 'calls;
            }
            let about = format!("{fault:?} at {:?}: {given:?}", plan.fired());
            let given = back(&world, &Plan::none(), &claim).await.unwrap().unwrap();
            assert!(matches!(given, GivenBack::Released(_)), "{about}");
            assert_eq!(stands(&world, "p1").await, (Status::Ready, 1, 0), "{about}");
            let next = claims(&world, 1).await.remove(0);
            assert!(next.token != claim.token && next.attempt == 2);
            let late = handed(&world, &claim).await;
            assert!(matches!(&late, HandedOver::NotClaimed(row) if row.attempt == 2), "{about}: {late:?}");
            assert!(matches!(back(&world, &Plan::none(), &claim).await, Some(Ok(GivenBack::NotClaimed(_)))));
            assert_eq!(read_back(&world, &claim).await, Acceptance::Superseded);
            receipt(&handed(&world, &next).await);
            world.drive_to_end(&Plan::none(), HOUR_MS, &["p1"]).await;
            assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 2, 0), "{about}");
            assert_eq!(world.renders_of(&s1("p1")) - renders, 1, "{about}");
            world = world.again().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_was_asked_to_cancel_is_cancelled_when_it_is_given_back() {
    let world = world(1).await;
    world.submit(&post("p1", "blind", 1)).await;
    let claim = claims(&world, 1).await.remove(0);
    use glassline_protocol::ports::Store as _;
    let request = glassline_protocol::transition::JobTransition::RequestCancel { attempt: 1 };
    world.ports.change_job(&s1("p1"), &request).await;
    let given = back(&world, &Plan::none(), &claim).await.unwrap().unwrap();
    assert!(matches!(given, GivenBack::Cancelled(_)), "{given:?}");
    assert_eq!(stands(&world, "p1").await, (Status::Cancelled, 1, 0));
    assert_eq!(take_all(&world, "wake").await.len(), 2, "the intake's, and its slot's");
}
