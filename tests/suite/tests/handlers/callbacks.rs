//! A provider's callbacks after their signature was found right: hints, whatever they say and however often.

use crate::support::{HOUR_MS, claimed, message, s1, stands, take_all};
use glassline_protocol::ids::TaskId;
use glassline_protocol::note::Note;
use glassline_protocol::provider::{Recovery, Reference};
use glassline_protocol::row::Status;
use glassline_protocol::settle::Fault as HandlerFault;
use glassline_protocol::steps::called_back;
use glassline_sandbox::{FaultKind, FaultRule};
use glassline_tests::{Fault, Faulty, Lane, Plan, Spot, World, WorldOptions, lane_name};

async fn world() -> World {
    let recovery = Recovery::Callback { deadline_ms: 600_000 };
    let lane = Lane { polled: false, render_ms: 3_000, ..Lane::new("called", 1, recovery) };
    World::new(WorldOptions::one(lane)).await
}

async fn called(
    world: &World,
    plan: &Plan,
    lane: &str,
    attempt: u32,
    task: &TaskId,
) -> Option<Result<Note, HandlerFault>> {
    let ports = Faulty::new(&world.ports, plan, "api");
    let (lane, reference) = (lane_name(lane), Reference { job: s1("p1"), attempt });
    ports.run(Box::pin(called_back(&ports, &world.settings, &lane, &reference, task))).await
}

async fn note(world: &World, attempt: u32, task: &TaskId) -> Note {
    called(world, &Plan::none(), "called", attempt, task).await.unwrap().unwrap()
}

/// The render that the provider has, in the latest world.
fn task(world: &World) -> TaskId {
    world.sandbox.books().renders.last().unwrap().id.parse().unwrap()
}

/// Its submit's answer is lost; the provider renders.
async fn lost(world: &World) {
    world.provider_faults(vec![FaultRule::next(FaultKind::DropAnswer, 1)]);
    let handoff = claimed(world, "p1").await;
    assert_eq!(world.handle(&Plan::none(), message(&handoff)).await, Some(Ok("submit_unknown".into())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_makes_a_lost_submits_task_known_and_it_is_finished() {
    let world = world().await;
    lost(&world).await;
    let task = task(&world);
    // Before its end, as some providers do; then at its end, twice; then late.
    assert_eq!(note(&world, 1, &task).await, Note::Completed);
    assert_eq!(world.job(&s1("p1")).await.task, Some(task.clone()));
    world.drive_on(&Plan::none(), 1_000).await;
    assert_eq!(stands(&world, "p1").await, (Status::Rendering, 1, 0), "what it says isn't believed");
    world.clock.manual.advance(3_000);
    assert_eq!(note(&world, 1, &task).await, Note::Completed);
    assert_eq!(note(&world, 1, &task).await, Note::Completed);
    world.drive_to_end(&Plan::none(), HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
    let row = world.job(&s1("p1")).await;
    assert_eq!(note(&world, 1, &task).await, Note::Ended);
    assert_eq!(world.job(&s1("p1")).await, row);
    assert!(take_all(&world, "finish").await.is_empty());
    world.check(&["p1"], true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_about_another_attempt_lane_or_job_changes_nothing() {
    let world = world().await;
    let handoff = claimed(&world, "p1").await;
    let other: TaskId = "rnd_other".parse().unwrap();
    assert_eq!(note(&world, 1, &other).await, Note::Stale, "nothing was submitted yet");
    world.handle(&Plan::none(), message(&handoff)).await;
    let before = world.job(&s1("p1")).await;
    assert_eq!(note(&world, 2, &other).await, Note::Stale);
    let lane = called(&world, &Plan::none(), "elsewhere", 1, &other).await.unwrap().unwrap();
    assert_eq!(lane, Note::Stale);
    let (lane, reference) = (lane_name("called"), Reference { job: s1("p2"), attempt: 1 });
    let missing = called_back(&world.ports, &world.settings, &lane, &reference, &other).await.unwrap();
    assert_eq!(missing, Note::Missing);
    assert_eq!(world.job(&s1("p1")).await, before);
    assert!(take_all(&world, "finish").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_survives_a_fault_at_every_call() {
    let mut world = world().await;
    'calls: for at in 0.. {
        for fault in Fault::ALL {
            lost(&world).await;
            let task = task(&world);
            world.clock.manual.advance(3_000);
            let plan = Plan::fault(Spot::number(at), fault);
            called(&world, &plan, "called", 1, &task).await;
            let Some(call) = plan.fired() else { break 'calls };
            // The provider sends it again until it is answered.
            assert_eq!(note(&world, 1, &task).await, Note::Completed, "{fault:?} at {call}");
            world.drive_to_end(&Plan::none(), HOUR_MS, &["p1"]).await;
            assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0), "{fault:?} at {call}");
            world.check_history();
            world = world.again().await;
        }
    }
}
