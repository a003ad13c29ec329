//! Renders that complete, and workers that answer, long after anybody waited for them.

use crate::support::{
    HOUR_MS, changes_nothing, claimed, completed, first_lane, message, rendering, s1, stands, world,
};
use glassline_protocol::message::{Finish, Handoff, Message};
use glassline_protocol::ports::{OutcomePut, Store as _, Written};
use glassline_protocol::provider::{Media, Provider as _, Reference, RenderRequest, Submit};
use glassline_protocol::rank::ready_entry;
use glassline_protocol::row::outcome::Cost;
use glassline_protocol::row::{OrphanRow, OutcomeRow, Status};
use glassline_protocol::steps::end_of;
use glassline_protocol::transition::JobTransition;
use glassline_sandbox::{FaultKind, FaultRule, RenderState};
use glassline_tests::{Lane, MINUTE_MS, Plan, Spot, World, WorldOptions, post};

async fn slow_world(lane: &str, render_ms: u64, deadline_ms: u64) -> World {
    World::new(WorldOptions::one(Lane { render_ms, deadline_ms, ..Lane::named(lane, 1) })).await
}

/// The state of the only render of an attempt, in the provider's books.
fn booked(world: &World, reference: &str) -> RenderState {
    let books = world.sandbox.books();
    let entries = books.of(reference);
    assert_eq!(entries.len(), 1, "{reference}");
    entries[0].state
}

/// Past its deadline, the provider ignores the cancel and completes long after: the output is adopted, not paid again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_output_that_comes_after_its_job_was_given_up_is_adopted() {
    let world = slow_world("keyed", 40 * MINUTE_MS, 10 * MINUTE_MS).await;
    world.provider_faults(vec![FaultRule::percent(FaultKind::CancelIgnored, 100.0, 1)]);
    rendering(&world, "p1").await;
    let driven = world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Held, 1, 0), "{driven:?}");
    let held = world.job(&s1("p1")).await;
    assert!(held.task.is_some() && held.slot.is_none(), "{held:?}");
    assert!(held.error.as_ref().is_some_and(|why| why.contains("deadline")), "{held:?}");
    // Its slot is free for others meanwhile.
    world.submit(&post("p2", "keyed", 1)).await;
    world
        .drive_until(&Plan::none(), 1, HOUR_MS, async |world: &World| {
            world.job(&s1("p2")).await.status == Status::Rendering
        })
        .await;
    assert_eq!(stands(&world, "p2").await.0, Status::Rendering);
    let ended = async |world: &World| world.job(&s1("p1")).await.status == Status::Succeeded;
    world.drive_until(&Plan::none(), 1, 3 * HOUR_MS, ended).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
    world.drive_late().await;
    assert_eq!(world.renders_of(&s1("p1")), 1);
    assert_eq!(world.qa().await[&s1("p1")].len(), 1);
    world.check(&["p1", "p2"], true).await;
}

/// Past its deadline and cancelled there: it ended without success, so it is tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_render_past_its_deadline_is_cancelled_and_retried() {
    let world = slow_world("blind", 1_000, 10 * MINUTE_MS).await;
    world.provider_faults(vec![FaultRule::references(FaultKind::NeverFinish, ["POST#p1/SHOT#s1/1"])]);
    world.submit(&post("p1", "blind", 1)).await;
    world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 2, 1));
    assert_eq!(booked(&world, "POST#p1/SHOT#s1/1"), RenderState::Cancelled);
    world.check(&["p1"], false).await;
}

/// It completes just before the cancel: it is paid for, so it is finished.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_render_that_completes_just_before_its_cancel_is_finished() {
    let world = slow_world("blind", 10 * MINUTE_MS, 10 * MINUTE_MS).await;
    world.submit(&post("p1", "blind", 1)).await;
    let (plan, gate) = Plan::stop_before(Spot::first("worker", "cancel"));
    let (_, met) = gate
        .interrupt(world.drive(&plan, 1, HOUR_MS, &["p1"]), async {
            world.clock.manual.advance(1_000);
        })
        .await;
    assert!(met.is_some());
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
    world.check(&["p1"], true).await;
}

/// The worker's submit is accepted, and the worker stalls before it records the task. `meanwhile` happens; then it goes
/// on.
async fn stalled_worker<T>(
    world: &World,
    handoff: &Handoff,
    meanwhile: impl Future<Output = T>,
) -> (String, T) {
    let (plan, gate) = Plan::stop_before(Spot::first("worker", "RecordTask"));
    let (note, between) = gate.interrupt(world.handle(&plan, message(handoff)), meanwhile).await;
    (note.unwrap().unwrap(), between.expect("the worker came to its RecordTask"))
}

async fn orphans(world: &World) -> Vec<OrphanRow> {
    world.parent("p1").await.orphans
}

/// Held meanwhile: the task still belongs to the attempt, and is adopted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_is_told_after_its_job_was_held_is_recorded() {
    let world = world("blind", 1).await;
    let handoff = claimed(&world, "p1").await;
    let held = async {
        world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
        assert_eq!(stands(&world, "p1").await, (Status::Held, 1, 0));
    };
    let (note, ()) = stalled_worker(&world, &handoff, held).await;
    assert_eq!(note, "submitted");
    assert_eq!(stands(&world, "p1").await, (Status::Held, 1, 0));
    world.drive_to_end(&Plan::none(), HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
    assert!(orphans(&world).await.is_empty());
    world.check(&["p1"], true).await;
}

/// A person decided to start anew meanwhile: the task is nobody's. It is cancelled there and kept for the ledger.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_is_told_after_a_person_started_anew_is_cancelled_and_kept() {
    let world = slow_world("blind", HOUR_MS, 2 * HOUR_MS).await;
    let handoff = claimed(&world, "p1").await;
    let requeued = async {
        world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
        let row = world.job(&s1("p1")).await;
        assert_eq!(row.status, Status::Held);
        let outcome = OutcomeRow::cancelled(end_of(&row, world.now_ms()), "by hand", Cost::AtRisk);
        assert_eq!(world.ports.put_outcome(&outcome, None).await, OutcomePut::Recorded);
        let requeue = JobTransition::Requeue {
            status: Status::Held,
            attempt: 1,
            entry: ready_entry(&row.lane, &row.rank, 2),
            note: None,
        };
        assert!(matches!(world.ports.change_job(&row.key, &requeue).await, Written::Applied(_)));
    };
    let (note, ()) = stalled_worker(&world, &handoff, requeued).await;
    assert_eq!(note, "orphaned");
    assert_eq!(stands(&world, "p1").await, (Status::Ready, 2, 0), "the job is not touched");
    let orphans = orphans(&world).await;
    assert_eq!(orphans.len(), 1);
    assert_eq!((orphans[0].attempt, orphans[0].cancel.as_str()), (1, "requested"));
    assert_eq!(booked(&world, "POST#p1/SHOT#s1/1"), RenderState::Cancelled);
}

/// The provider's lookup lags behind what it declares, so the attempt counts as never accepted. When the worker's answer
/// comes all the same, the task is cancelled and kept; it never becomes the next attempt's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_is_told_after_its_attempt_was_given_up_is_cancelled_and_kept() {
    let lane = Lane { render_ms: 30 * MINUTE_MS, lookup_delay_ms: HOUR_MS, ..Lane::looked(1) };
    let lane = Lane { deadline_ms: 2 * HOUR_MS, ..lane };
    let world = World::new(WorldOptions::one(lane)).await;
    let handoff = claimed(&world, "p1").await;
    let second = async {
        world
            .drive_until(&Plan::none(), 1, HOUR_MS, async |world: &World| {
                let job = world.job(&s1("p1")).await;
                job.attempt == 2 && job.task.is_some()
            })
            .await;
    };
    let (note, ()) = stalled_worker(&world, &handoff, second).await;
    assert_eq!(note, "orphaned");
    assert_eq!(stands(&world, "p1").await, (Status::Rendering, 2, 1));
    let orphans = orphans(&world).await;
    assert_eq!(orphans.len(), 1);
    assert_ne!(Some(&orphans[0].key.task), world.job(&s1("p1")).await.task.as_ref());
    assert_eq!(booked(&world, "POST#p1/SHOT#s1/1"), RenderState::Cancelled);
    assert!(!booked(&world, "POST#p1/SHOT#s1/2").ended());
    world.drive_to_end(&Plan::none(), 3 * HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 2, 1));
    world.check(&["p1"], false).await;
}

/// The worker starts so late that too little of its lease is left: it doesn't submit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_stalls_after_its_start_does_not_submit() {
    let world = world("blind", 1).await;
    let handoff = claimed(&world, "p1").await;
    let (plan, gate) = Plan::stop_after(Spot::first("worker", "Start"));
    // The lease is 120 s; the submit may take 5 s and 5 s more are kept.
    let stall = async { world.clock.manual.advance(110_001) };
    let (note, _) = gate.interrupt(world.handle(&plan, message(&handoff)), stall).await;
    assert_eq!(note, Some(Ok("too_late".into())));
    assert_eq!(stands(&world, "p1").await, (Status::Ready, 1, 0), "no failure is counted");
    assert!(world.accepted().is_empty());
    world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 2, 0));
    world.check(&["p1"], true).await;
}

/// It stalls until its lease is over and somebody else acts for the attempt: its rejection is worth nothing any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejection_that_comes_after_somebody_else_took_over_decides_nothing() {
    let world = world("keyed", 1).await;
    let handoff = claimed(&world, "p1").await;
    world.provider_faults(vec![FaultRule::next(FaultKind::RejectInvalid, 1)]);
    let (plan, gate) = Plan::stop_before(Spot::first("worker", "put outcome"));
    let takes_over = async {
        world
            .drive_until(&Plan::none(), 1, HOUR_MS, async |world: &World| {
                world.job(&s1("p1")).await.task.is_some()
            })
            .await;
    };
    let (note, _) = gate.interrupt(world.handle(&plan, message(&handoff)), takes_over).await;
    assert!(note.unwrap().is_ok());
    assert_eq!(stands(&world, "p1").await, (Status::Rendering, 1, 0));
    assert!(world.parent("p1").await.outcomes.is_empty());
    world.drive_to_end(&Plan::none(), HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
    assert_eq!(world.renders_of(&s1("p1")), 1);
    world.check(&["p1"], true).await;
}

/// A finish message that waits until the output's address has expired: the provider is asked for a fresh one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_expired_is_asked_for_again() {
    let lane = Lane { address_lifetime_ms: Some(60_000), ..Lane::blind(1) };
    let world = World::new(WorldOptions::one(lane)).await;
    let finish = completed(&world, "p1").await;
    world.clock.manual.advance(61_000);
    let message = Message::Finish(finish);
    assert_eq!(world.handle(&Plan::none(), message).await, Some(Ok("succeeded".into())));
    world.check(&["p1"], true).await;
}

/// A finish message that waits until the output is gone: paid for and lost, tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_output_that_is_gone_ends_its_attempt() {
    let lane = Lane { output_lifetime_ms: 10 * MINUTE_MS, ..Lane::blind(1) };
    let world = World::new(WorldOptions::one(lane)).await;
    let finish = completed(&world, "p1").await;
    world.clock.manual.advance(11 * MINUTE_MS);
    let message = Message::Finish(finish);
    assert_eq!(world.handle(&Plan::none(), message).await, Some(Ok("followed".into())));
    assert_eq!(stands(&world, "p1").await, (Status::Ready, 1, 1));
    world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 2, 1));
    world.check(&["p1"], false).await;
}

/// The provider reports a task that isn't the recorded one, while the job runs and after it has succeeded: that task is
/// cancelled there and kept for the ledger; the job doesn't notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finish_of_another_task_than_the_recorded_one_orphans_that_task() {
    let world = slow_world("blind", MINUTE_MS, HOUR_MS).await;
    let handoff = rendering(&world, "p1").await;
    let subject = handoff.subject();
    for (number, status) in [(1, Status::Rendering), (2, Status::Succeeded)] {
        // Something else submitted it too, and this provider takes what it gets.
        let reference = Reference { job: s1("p1"), attempt: 1 };
        let params = serde_json::json!({"width": 64, "height": 64});
        let request = RenderRequest { prompt: "another".into(), params, media: Media::Image };
        let lane = first_lane(&world).await;
        let Submit::Accepted(task) = world.ports.submit(&lane, &request, &reference).await else {
            panic!("this provider takes everything")
        };
        let finish = Finish { subject: subject.clone(), task: task.clone(), outputs: vec![], resumes: 0 };
        let note = changes_nothing(&world, &s1("p1"), Message::Finish(finish)).await;
        assert_eq!((note.as_str(), stands(&world, "p1").await), ("orphaned", (status, 1, 0)));
        let orphans = orphans(&world).await;
        assert_eq!(orphans.len(), number);
        assert!(orphans.iter().any(|orphan| orphan.key.task == task && orphan.cancel == "requested"));
        let books = world.sandbox.books();
        let entry = books.renders.iter().find(|entry| entry.id == task.as_str()).unwrap();
        assert_eq!(entry.state, RenderState::Cancelled);
        world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
        assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
    }
    assert_eq!(world.qa().await[&s1("p1")].len(), 1);
}

/// The recorded task itself, reported again and again, is nobody's orphan.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_recorded_task_is_never_orphaned() {
    let world = world("keyed", 1).await;
    let handoff = claimed(&world, "p1").await;
    let done = async {
        world.drive_to_end(&Plan::none(), HOUR_MS, &["p1"]).await;
        assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
    };
    // The worker learns of its task when another has found it by its key, and finished it.
    let (note, ()) = stalled_worker(&world, &handoff, done).await;
    assert_eq!(note, "submitted");
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
    assert!(orphans(&world).await.is_empty());
    assert_eq!(booked(&world, "POST#p1/SHOT#s1/1"), RenderState::Succeeded);
    world.check(&["p1"], true).await;
}
