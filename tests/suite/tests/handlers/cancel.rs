//! Cancelling at every place of a job's life, and late messages afterwards.

use crate::support::{
    HOUR_MS, changes_nothing, check, claimed, first_lane, message, rendering, rollback, s1, stands, take,
    take_all, world,
};
use glassline_protocol::message::{CheckCause, Finish, Handoff, Message, RollbackCause, Subject};
use glassline_protocol::ports::{Store as _, Written};
use glassline_protocol::row::{OutcomeKey, OutcomeRow, Status, Verdict};
use glassline_protocol::transition::JobTransition;
use glassline_sandbox::{FaultKind, FaultRule, RenderState};
use glassline_tests::{Lane, MINUTE_MS, Plan, Spot, World, WorldOptions, post};

/// Asks for it; whether there was something to cancel.
async fn request(world: &World, attempt: u32) -> bool {
    let request = JobTransition::RequestCancel { attempt };
    matches!(world.ports.change_job(&s1("p1"), &request).await, Written::Applied(_))
}

/// Everything that may still come of an attempt changes nothing.
async fn late_messages_change_nothing(world: &World, handoff: &Handoff) {
    take_all(world, "wake").await;
    let subject: Subject = handoff.subject();
    let task = glassline_protocol::ids::TaskId::new("rnd_late").unwrap();
    let row = world.job(&s1("p1")).await;
    let task = row.task.clone().unwrap_or(task);
    let finish = Message::Finish(Finish { subject: subject.clone(), task, outputs: vec![], resumes: 0 });
    for late in [
        message(handoff),
        check(&subject, CheckCause::Resume),
        check(&subject, CheckCause::Callback),
        check(&subject, CheckCause::Chain { lease_ms: row.lease_ms.unwrap_or(0) }),
        finish,
        rollback(&subject, RollbackCause::Unsent),
        rollback(&subject, RollbackCause::LeaseOver),
    ] {
        changes_nothing(world, &s1("p1"), late.clone()).await;
        world.handle_dead(&Plan::none(), late).await.unwrap().unwrap();
        assert_eq!(world.job(&s1("p1")).await, row);
    }
    world.drive_late().await;
    assert_eq!(world.job(&s1("p1")).await, row);
    world.check(&["p1"], true).await;
}

/// The slot of the cancelled job goes to the next one.
async fn its_slot_is_free(world: &World) {
    world.submit(&post("p2", first_lane(world).await.as_str(), 1)).await;
    world.drive(&Plan::none(), 1, MINUTE_MS, &["p2"]).await;
    assert_eq!(stands(world, "p2").await, (Status::Succeeded, 1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ready_job_is_cancelled_and_never_claimed() {
    let world = world("blind", 1).await;
    world.submit(&post("p1", "blind", 1)).await;
    assert!(!request(&world, 0).await, "nobody owns it");
    // A dispatcher has it among its candidates already.
    let lane = first_lane(&world).await;
    let (plan, gate) = Plan::stop_before(Spot::first("dispatch", "Take"));
    let cancel = async {
        let cancel = JobTransition::CancelReady { attempt: 0, now_ms: world.now_ms() };
        assert!(matches!(world.ports.change_job(&s1("p1"), &cancel).await, Written::Applied(_)));
    };
    let (ticked, _) = gate.interrupt(world.tick_lane_with(&plan, &lane), cancel).await;
    assert_eq!(ticked.unwrap().started, 0);
    assert_eq!(stands(&world, "p1").await, (Status::Cancelled, 0, 0));
    its_slot_is_free(&world).await;
    world.check(&["p1", "p2"], true).await;
    assert_eq!(world.renders_of(&s1("p1")), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claimed_job_is_cancelled_by_its_worker_without_a_submit() {
    let world = world("blind", 1).await;
    let handoff = claimed(&world, "p1").await;
    assert!(request(&world, 1).await);
    assert_eq!(world.handle(&Plan::none(), message(&handoff)).await, Some(Ok("cancelled".into())));
    assert_eq!(stands(&world, "p1").await, (Status::Cancelled, 1, 0));
    assert!(world.accepted().is_empty());
    assert!(!request(&world, 1).await, "it has ended");
    its_slot_is_free(&world).await;
    late_messages_change_nothing(&world, &handoff).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claimed_job_whose_handoff_is_lost_is_cancelled_by_rollback() {
    for cause in [RollbackCause::Unsent, RollbackCause::LeaseOver] {
        let world = world("blind", 1).await;
        let handoff = claimed(&world, "p1").await;
        assert!(request(&world, 1).await);
        world.clock.manual.advance(6 * MINUTE_MS);
        let asked = rollback(&handoff.subject(), cause);
        assert_eq!(world.handle(&Plan::none(), asked).await, Some(Ok("cancelled".into())));
        assert_eq!(stands(&world, "p1").await, (Status::Cancelled, 1, 0), "{cause:?}");
        its_slot_is_free(&world).await;
        late_messages_change_nothing(&world, &handoff).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_handoff_that_is_asked_to_cancel_is_cancelled() {
    let world = world("blind", 1).await;
    let handoff = claimed(&world, "p1").await;
    assert!(request(&world, 1).await);
    assert_eq!(world.handle_dead(&Plan::none(), message(&handoff)).await, Some(Ok("cancelled".into())));
    assert_eq!(stands(&world, "p1").await, (Status::Cancelled, 1, 0));
    late_messages_change_nothing(&world, &handoff).await;
}

async fn slow_world(lane: Lane) -> World {
    World::new(WorldOptions::one(Lane { render_ms: 10 * MINUTE_MS, ..lane })).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rendering_job_is_cancelled_at_the_provider() {
    let world = slow_world(Lane::blind(1)).await;
    let handoff = rendering(&world, "p1").await;
    assert!(request(&world, 1).await);
    world.drive(&Plan::none(), 1, MINUTE_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Cancelled, 1, 0));
    assert_eq!(world.sandbox.books().renders[0].state, RenderState::Cancelled);
    let outcome: OutcomeRow = world.get(&OutcomeKey { job: s1("p1"), attempt: 1 }).await.unwrap();
    assert_eq!(outcome.verdict, Verdict::Cancelled);
    assert!(world.qa().await.is_empty());
    late_messages_change_nothing(&world, &handoff).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_render_that_has_completed_is_paid_for_and_finished() {
    let world = world("blind", 1).await;
    let handoff = rendering(&world, "p1").await;
    assert!(request(&world, 1).await);
    world.clock.manual.advance(1_000);
    world.drive(&Plan::none(), 1, MINUTE_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
    assert!(!world.job(&s1("p1")).await.cancel_requested);
    assert_eq!(world.qa().await[&s1("p1")].len(), 1);
    late_messages_change_nothing(&world, &handoff).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_that_the_provider_ignores_holds_the_job_until_the_output_comes() {
    let world = slow_world(Lane::keyed(1)).await;
    world.provider_faults(vec![FaultRule::percent(FaultKind::CancelIgnored, 100.0, 1)]);
    let handoff = rendering(&world, "p1").await;
    assert!(request(&world, 1).await);
    world.drive(&Plan::none(), 1, MINUTE_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Held, 1, 0));
    let task = world.job(&s1("p1")).await.task;
    assert!(task.is_some());
    world.drive_to_end(&Plan::none(), HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0), "it is paid for");
    late_messages_change_nothing(&world, &handoff).await;
}

/// Started, its submit lost, and asked to cancel: where the provider says that it never had it, it is cancelled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_submit_that_never_arrived_is_cancelled_when_that_is_proven() {
    let world = world("looked", 1).await;
    world.provider_faults(vec![FaultRule::next(FaultKind::DropRequest, 1)]);
    let handoff = claimed(&world, "p1").await;
    assert_eq!(world.handle(&Plan::none(), message(&handoff)).await, Some(Ok("submit_unknown".into())));
    assert!(request(&world, 1).await);
    world.drive_to_end(&Plan::none(), HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Cancelled, 1, 0));
    assert!(world.accepted().is_empty());
    late_messages_change_nothing(&world, &handoff).await;
}

/// Held with nothing to ask the provider by: a request changes nothing that nobody can know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_job_that_nobody_knows_of_stays_held_and_is_not_submitted() {
    let world = world("blind", 1).await;
    world.provider_faults(vec![FaultRule::next(FaultKind::DropAnswer, 1)]);
    world.submit(&post("p1", "blind", 1)).await;
    world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Held, 1, 0));
    assert!(request(&world, 1).await);
    world.drive_late().await;
    assert_eq!(stands(&world, "p1").await, (Status::Held, 1, 0));
    assert!(world.job(&s1("p1")).await.cancel_requested);
    assert_eq!(world.sandbox.books().totals.posts, 1);
    world.check(&["p1"], true).await;
}

/// A held job with a task: the next slow look cancels it at the provider.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_job_with_a_task_is_cancelled_at_the_provider() {
    let lane = Lane { render_ms: 3 * HOUR_MS, deadline_ms: 5 * MINUTE_MS, ..Lane::blind(1) };
    let world = World::new(WorldOptions::one(lane)).await;
    world.provider_faults(vec![FaultRule::next(FaultKind::CancelIgnored, 1)]);
    let handoff = rendering(&world, "p1").await;
    world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Held, 1, 0));
    assert!(request(&world, 1).await);
    world.drive_to_end(&Plan::none(), HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Cancelled, 1, 0));
    assert_eq!(world.sandbox.books().renders[0].state, RenderState::Cancelled);
    late_messages_change_nothing(&world, &handoff).await;
}

/// The render fails, and before that is followed somebody asks to cancel: it isn't tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_attempt_that_is_asked_to_cancel_is_not_retried() {
    let world = world("blind", 1).await;
    world.provider_faults(vec![FaultRule::percent(FaultKind::FailRender, 100.0, 1)]);
    let handoff = rendering(&world, "p1").await;
    world.clock.manual.advance(1_000);
    let look = take(&world, "render").await;
    let (plan, gate) = Plan::stop_before(Spot::first("worker", "Retry"));
    let (note, asked) = gate.interrupt(world.handle(&plan, look), request(&world, 1)).await;
    assert_eq!((note, asked), (Some(Ok("followed".into())), Some(true)));
    assert_eq!(stands(&world, "p1").await, (Status::Cancelled, 1, 0));
    late_messages_change_nothing(&world, &handoff).await;
}

/// A request at every step of a life, and it always ends: cancelled, or succeeded where it was paid for already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_at_every_call_of_a_life() {
    let mut world = World::new(WorldOptions::one(Lane { render_ms: 3_000, ..Lane::keyed(1) })).await;
    let mut ended = [0, 0];
    for at in 0.. {
        world.submit(&post("p1", "keyed", 1)).await;
        let renders = world.renders_of(&s1("p1"));
        let (plan, gate) = Plan::stop_before(Spot::number(at));
        let asked = async { request(&world, world.job(&s1("p1")).await.attempt).await };
        let (driven, asked) = gate.interrupt(world.drive(&plan, 1, HOUR_MS, &["p1"]), asked).await;
        let Some(asked) = asked else { break };
        let job = world.job(&s1("p1")).await;
        let about = format!("before {:?}: {job:?}, {driven:?}", plan.fired());
        match job.status {
            Status::Cancelled => ended[0] += 1,
            Status::Succeeded => ended[1] += 1,
            Status::Ready | Status::Claimed | Status::Rendering | Status::Held | Status::Failed => {
                panic!("{about}")
            }
        }
        assert!(asked || job.status == Status::Succeeded, "{about}");
        assert_eq!((job.attempt, job.failures), (1, 0), "{about}");
        world.check_history();
        // The provider outlives the worlds: one more render at most.
        assert!(world.renders_of(&job.key) - renders <= 1, "{about}");
        world = world.again().await;
    }
    assert!(ended[0] >= 3 && ended[1] >= 3, "{ended:?}");
}
