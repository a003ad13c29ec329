//! Messages that die too often: what becomes of their jobs.

use crate::support::{HOUR_MS, claimed, first_lane, message, s1, stands, take_all, world};
use glassline_protocol::message::Message;
use glassline_protocol::note::Note;
use glassline_protocol::ports::Store as _;
use glassline_protocol::row::{OutcomeKey, OutcomeRow, Status};
use glassline_sandbox::{FaultKind, FaultRule};
use glassline_tests::{Driven, Fault, MINUTE_MS, Plan, Spot, World, post};

/// One job, with handlers that die every time before this call.
async fn dying(world: &World, function: &'static str, call: &'static str) -> (Plan, Driven) {
    let lane = first_lane(world).await;
    world.submit(&post("p1", lane.as_str(), 1)).await;
    let plan = Plan::fault(Spot::every(function, call), Fault::CrashBefore);
    let driven = world.drive(&plan, 1, 2 * HOUR_MS, &["p1"]).await;
    assert!(driven.crashes > 5, "{driven:?}");
    (plan, driven)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handoff_that_no_worker_survives_fails_its_job_without_ever_being_submitted() {
    let world = world("keyed", 1).await;
    let (_, driven) = dying(&world, "worker", "Start").await;
    let (status, attempt, _) = stands(&world, "p1").await;
    assert_eq!((status, attempt), (Status::Failed, world.settings.max_failures), "{driven:?}");
    assert!(world.accepted().is_empty() && world.sandbox.books().totals.posts == 0);
    let job = world.job(&s1("p1")).await;
    assert!(job.error.as_ref().is_some_and(|why| why.contains("no worker")), "{job:?}");
    world.check(&["p1"], true).await;
    // The slot is free.
    world.submit(&post("p2", "keyed", 1)).await;
    world.drive(&Plan::none(), 1, MINUTE_MS, &["p2"]).await;
    assert_eq!(stands(&world, "p2").await, (Status::Succeeded, 1, 0));
}

/// Less often than the limit: the job goes on, with its failures counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handoff_that_dies_once_is_claimed_anew() {
    let world = world("blind", 1).await;
    world.submit(&post("p1", "blind", 1)).await;
    let plan = Plan::fault(Spot::first("worker", "Start").times(5), Fault::CrashBefore);
    world.drive(&plan, 1, HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 2, 1));
    world.check(&["p1"], true).await;
}

/// The finish message dies and dies again: the output is paid for, so it is held, looked at slowly, and adopted when
/// finishers live again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finish_that_always_dies_is_held_and_never_failed() {
    let world = world("keyed", 1).await;
    let (plan, driven) = dying(&world, "finisher", "save").await;
    assert_eq!(stands(&world, "p1").await, (Status::Held, 1, 0), "{driven:?}");
    assert_eq!(driven.count(Note::Resuming), world.settings.max_resumes as usize, "{driven:?}");
    assert!(world.job(&s1("p1")).await.task.is_some());
    world.drive_on(&plan, HOUR_MS).await;
    assert_eq!(stands(&world, "p1").await, (Status::Held, 1, 0), "not for an hour of dying either");
    world.drive_to_end(&Plan::none(), HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
    assert_eq!(world.qa().await[&s1("p1")].len(), 1);
    world.check(&["p1"], true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_that_always_dies_is_held_and_never_failed() {
    let world = world("blind", 1).await;
    let (_, driven) = dying(&world, "worker", "status").await;
    assert_eq!(stands(&world, "p1").await, (Status::Held, 1, 0), "{driven:?}");
    world.drive_to_end(&Plan::none(), HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
    world.check(&["p1"], true).await;
}

/// Its submit was lost and whoever would hold it dies: rollback holds it in the end. Nothing is proven, so it isn't
/// failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_submit_whose_checks_always_die_is_held() {
    for fault in [FaultKind::DropAnswer, FaultKind::DropRequest] {
        let world = world("blind", 1).await;
        world.provider_faults(vec![FaultRule::next(fault, 1)]);
        let (_, driven) = dying(&world, "worker", "Hold").await;
        assert_eq!(stands(&world, "p1").await, (Status::Held, 1, 0), "{driven:?}");
        world.drive_late().await;
        assert_eq!(stands(&world, "p1").await, (Status::Held, 1, 0));
        assert_eq!(world.sandbox.books().totals.posts, 1);
        world.check(&["p1"], true).await;
    }
}

/// The provider itself says that the render failed: that is proof enough, whoever dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_that_always_dies_on_a_render_that_failed_counts_its_failures() {
    let world = world("blind", 1).await;
    world.provider_faults(vec![FaultRule::percent(FaultKind::FailRender, 100.0, 1)]);
    let (_, driven) = dying(&world, "worker", "status").await;
    let (status, attempt, _) = stands(&world, "p1").await;
    assert_eq!((status, attempt), (Status::Failed, world.settings.max_failures), "{driven:?}");
    assert_eq!(world.sandbox.books().totals.accepted, 3);
    world.check(&["p1"], false).await;
}

/// Rollback dies as well, for a while: leases and full ticks bring everything back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollbacks_that_die_cost_time_and_nothing_else() {
    let world = world("blind", 1).await;
    world.submit(&post("p1", "blind", 1)).await;
    let plan = Plan::fault(Spot::first("dispatch", "render"), Fault::LostRequest)
        .and_fault(Spot::first("rollback", "read job").times(6), Fault::CrashBefore);
    world.drive(&plan, 1, HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 2, 0));
    world.check(&["p1"], true).await;
}

/// At the limit: the dead handoff's rollback and the worker that has it after all, at the same moment.
async fn at_the_limit(worker_first: bool) {
    let world = world("blind", 1).await;
    let handoff = claimed(&world, "p1").await;
    // Its failures are used up.
    let mut row = world.job(&s1("p1")).await;
    row.failures = world.settings.max_failures - 1;
    world.put(&row).await;
    // The release is refused by then, so the next thing is to take the claim from every worker.
    let call = if worker_first { "Start" } else { "put outcome" };
    let (plan, gate) = Plan::stop_before(Spot::first("rollback", call));
    let no_faults = Plan::none();
    let worker = world.handle(&no_faults, message(&handoff));
    let (dead, worker) = gate.interrupt(world.handle_dead(&plan, message(&handoff)), worker).await;
    let worker = worker.expect("rollback came to it").unwrap().unwrap();
    if worker_first {
        assert_eq!((worker.as_str(), dead), ("submitted", Some(Ok("stale".into()))));
        world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
        assert_eq!(stands(&world, "p1").await.0, Status::Succeeded);
        assert_eq!(world.renders_of(&s1("p1")), 1);
    } else {
        assert_eq!((worker.as_str(), dead), ("replay", Some(Ok("followed".into()))));
        assert_eq!(stands(&world, "p1").await.0, Status::Failed);
        world.drive_late().await;
        assert_eq!(stands(&world, "p1").await.0, Status::Failed);
        assert!(world.accepted().is_empty(), "never submitted");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_starts_before_the_dead_handoff_is_given_up_keeps_the_job() {
    at_the_limit(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_starts_after_the_dead_handoff_was_given_up_submits_nothing() {
    at_the_limit(false).await;
}

/// The rollback at the limit dies after its own start, which nobody will submit: it is never failed without proof, and
/// nothing is paid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_that_dies_at_the_limit_leaves_nothing_stuck() {
    for fault in [Fault::CrashBefore, Fault::CrashAfter, Fault::LostReply] {
        for call in ["Start", "put outcome", "Fail"] {
            let world = world("blind", 1).await;
            let handoff = claimed(&world, "p1").await;
            let mut row = world.job(&s1("p1")).await;
            row.failures = world.settings.max_failures - 1;
            world.put(&row).await;
            let plan = Plan::fault(Spot::first("rollback", call), fault);
            let dead = world.handle_dead(&plan, message(&handoff)).await;
            if dead.is_none() {
                // It is delivered again.
                world.handle_dead(&Plan::none(), message(&handoff)).await.unwrap().unwrap();
            }
            world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
            let (status, attempt, _) = stands(&world, "p1").await;
            let about = format!("{fault:?} at {call}");
            // After its own Start nobody can tell any more that it was a rollback's.
            let doubt = (fault, call) == (Fault::CrashAfter, "Start")
                || (fault, call) == (Fault::CrashBefore, "put outcome");
            assert_eq!(status, if doubt { Status::Held } else { Status::Failed }, "{about}");
            assert_eq!(attempt, 1, "{about}");
            assert!(world.accepted().is_empty(), "{about}");
            take_all(&world, "wake").await;
        }
    }
}

/// Dead letters about jobs that have moved on, or that there are none of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_of_others_are_acknowledged() {
    let world = world("blind", 1).await;
    let first = claimed(&world, "p1").await;
    let mut stranger = first.clone();
    stranger.parent = "POST#nobody".parse().unwrap();
    let handled = world.handle_dead(&Plan::none(), Message::Handoff(stranger)).await;
    assert_eq!(handled, Some(Ok("missing".into())));
    let mut other = first.clone();
    other.token = glassline_protocol::ids::Token::new("ffffffffffffffff").unwrap();
    assert_eq!(world.handle_dead(&Plan::none(), Message::Handoff(other)).await, Some(Ok("stale".into())));
    assert_eq!(stands(&world, "p1").await, (Status::Claimed, 1, 0));
    let none: Option<OutcomeRow> = world.get(&OutcomeKey { job: s1("p1"), attempt: 1 }).await;
    assert_eq!(none, None);
    assert!(world.ports.slots(&first_lane(&world).await).await.unwrap()[0].token.is_some());
}
