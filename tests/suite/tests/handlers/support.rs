//! Scenes that several tests start from.

use glassline_protocol::ids::JobKey;
use glassline_protocol::message::{
    Check, CheckCause, Finish, Handoff, Message, Rollback, RollbackCause, Subject,
};
use glassline_protocol::row::{JobRow, Status};
use glassline_tests::{Lane, Plan, World, WorldOptions, job_key, lane_name, post};

pub(crate) const HOUR_MS: u64 = 3_600_000;

/// A world with one of the lanes `keyed`, `looked`, `blind`.
pub(crate) async fn world(lane: &str, capacity: u32) -> World {
    World::new(WorldOptions::one(Lane::named(lane, capacity))).await
}

/// The first shot of a post.
pub(crate) fn s1(post: &str) -> JobKey {
    job_key(post, "s1")
}

/// Takes all visible messages off a queue.
pub(crate) async fn take_all(world: &World, queue: &str) -> Vec<Message> {
    let mut messages = Vec::new();
    loop {
        let received = world.engine.receive(queue, 10, 0, Some(1_000)).await.unwrap();
        if received.is_empty() {
            return messages;
        }
        for received in received {
            messages.push(Message::from_body(&received.body).unwrap());
            world.engine.delete(queue, &[received.receipt]).await.unwrap();
        }
    }
}

/// Takes the only visible message off a queue.
pub(crate) async fn take(world: &World, queue: &str) -> Message {
    let mut messages = take_all(world, queue).await;
    assert_eq!(messages.len(), 1, "on {queue}: {messages:?}");
    messages.remove(0)
}

/// Handles a message without faults; what it came to.
pub(crate) async fn ok(world: &World, message: Message) -> String {
    world.handle(&Plan::none(), message).await.unwrap().unwrap()
}

/// A handoff as a message.
pub(crate) fn message(handoff: &Handoff) -> Message {
    Message::Handoff(handoff.clone())
}

/// Submits a post of one shot and claims it: its handoff, off the queue.
pub(crate) async fn claimed(world: &World, id: &str) -> Handoff {
    let lane = world.lane_names().await.remove(0);
    world.submit(&post(id, lane.as_str(), 1)).await;
    claim_next(world).await
}

/// Claims the next job of the world's first lane: its handoff, off the queue.
pub(crate) async fn claim_next(world: &World) -> Handoff {
    take_all(world, "wake").await;
    let lane = world.lane_names().await.remove(0);
    assert_eq!(world.tick_lane(&lane).await.started, 1);
    let Message::Handoff(handoff) = take(world, "render").await else { panic!("it is a handoff") };
    handoff
}

/// As [`claimed`], and submitted: the render runs, its first check is on the queue.
pub(crate) async fn rendering(world: &World, id: &str) -> Handoff {
    let handoff = claimed(world, id).await;
    assert_eq!(ok(world, message(&handoff)).await, "submitted");
    handoff
}

/// As [`rendering`], and completed at the provider: its finish message, off the queue.
pub(crate) async fn completed(world: &World, id: &str) -> Finish {
    rendering(world, id).await;
    world.clock.manual.advance(1_000);
    let check = take(world, "render").await;
    assert_eq!(ok(world, check).await, "completed");
    let Message::Finish(finish) = take(world, "finish").await else { panic!("it is a finish message") };
    finish
}

/// A check of an attempt.
pub(crate) fn check(subject: &Subject, cause: CheckCause) -> Message {
    Message::Check(Check { subject: subject.clone(), cause, resumes: 0, tries: 0 })
}

/// A rollback of an attempt.
pub(crate) fn rollback(subject: &Subject, cause: RollbackCause) -> Message {
    Message::Rollback(Rollback { subject: subject.clone(), cause })
}

/// How many jobs of a post are claimed or rendering.
pub(crate) async fn in_flight(world: &World, id: &str) -> usize {
    world.jobs(id).await.iter().filter(|job| job.status.fills_slot()).count()
}

/// The status, attempt and counted failures of a post's first shot.
pub(crate) async fn stands(world: &World, id: &str) -> (Status, u32, u32) {
    let job = world.job(&s1(id)).await;
    (job.status, job.attempt, job.failures)
}

/// That a message changes nothing of a job: what it came to.
pub(crate) async fn changes_nothing(world: &World, job: &JobKey, message: Message) -> String {
    let before: JobRow = world.job(job).await;
    let note = ok(world, message).await;
    assert_eq!(world.job(job).await, before, "{note}");
    note
}

/// The name of the world's first lane.
pub(crate) async fn first_lane(world: &World) -> glassline_protocol::ids::LaneName {
    lane_name(world.lane_names().await[0].as_str())
}
