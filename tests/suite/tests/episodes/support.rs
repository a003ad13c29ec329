//! Scenes that several tests start from.

use glassline_protocol::ids::Token;
use glassline_protocol::provider::ErrorClass;
use glassline_protocol::row::{EpisodeStatus, JobRow, Status};
use glassline_protocol::settle::Fault as HandlerFault;
use glassline_protocol::steps::{CantReopen, close_if_ended, reopen};
use glassline_tests::{Faulty, Lane, Plan, World, WorldOptions, episode_key};

pub(crate) const HOUR_MS: u64 = 3_600_000;
/// Longer than a story stays locked.
pub(crate) const LOCK_MS: u64 = 61_000;

/// A world with the lane `keyed`.
pub(crate) async fn world(capacity: u32) -> World {
    World::new(WorldOptions::one(Lane::keyed(capacity))).await
}

/// A token that no opening has.
pub(crate) fn token(digit: char) -> Token {
    Token::new(digit.to_string().repeat(32)).unwrap()
}

/// The row as a job has it in this status.
fn as_if(row: &JobRow, status: Status) -> JobRow {
    let mut row = JobRow { status, ..row.clone() };
    match status {
        Status::Ready => return row,
        Status::Claimed | Status::Rendering | Status::Held => {
            row.attempt += 1;
            row.token = Some(token('c'));
            row.lease_ms = Some(u64::MAX >> 12);
        }
        Status::Failed => {
            row.attempt += 1;
            row.failures = 3;
            row.error_class = Some(ErrorClass::Moderated);
            row.error = Some("moderated".into());
        }
        Status::Succeeded | Status::Cancelled => row.attempt += 1,
    }
    row.queue_pk = None;
    row.queue_sk = None;
    row
}

/// Puts an episode's frames into these statuses.
pub(crate) async fn set_frames(world: &World, series: &str, number: u32, statuses: [Status; 4]) {
    let view = world.episode(series, number).await;
    for (frame, status) in view.frames.iter().zip(statuses) {
        if frame.status != status {
            world.put(&as_if(frame, status)).await;
        }
    }
}

/// The frames' statuses.
pub(crate) async fn statuses(world: &World, series: &str, number: u32) -> Vec<Status> {
    world.episode(series, number).await.frames.iter().map(|frame| frame.status).collect()
}

/// What whoever ends a frame does about its episode, with faults. `None`: it died.
pub(crate) async fn close_with(
    world: &World,
    plan: &Plan,
    series: &str,
    number: u32,
) -> Option<Result<Option<EpisodeStatus>, HandlerFault>> {
    let ports = Faulty::new(&world.ports, plan, "finisher");
    let key = episode_key(series, number);
    ports.run(Box::pin(close_if_ended(&ports, &key))).await
}

/// The same without faults: how the head stands then.
pub(crate) async fn close(world: &World, series: &str, number: u32) -> EpisodeStatus {
    close_with(world, &Plan::none(), series, number).await.unwrap().unwrap().unwrap()
}

/// A series with one story, made into episode 1.
pub(crate) async fn one_episode(world: &World, series: &str) {
    world.add_series(series, "keyed", 1).await;
    world.add_story(series, "a").await;
    assert_eq!(world.open(series).await, [1]);
}

/// A person's reopening of an episode, with faults. `None`: the command died.
pub(crate) async fn reopen_with(
    world: &World,
    plan: &Plan,
    series: &str,
    number: u32,
) -> Option<Result<(), CantReopen>> {
    let ports = Faulty::new(&world.ports, plan, "person");
    let key = episode_key(series, number);
    ports.run(Box::pin(reopen(&ports, &key))).await
}

/// The same without faults.
pub(crate) async fn reopen_now(world: &World, series: &str, number: u32) -> Result<(), CantReopen> {
    reopen_with(world, &Plan::none(), series, number).await.unwrap()
}

/// A series with one story, made into episode 1, which failed: its frames are these.
pub(crate) async fn failed_episode(world: &World, series: &str, frames: [Status; 4]) {
    one_episode(world, series).await;
    set_frames(world, series, 1, frames).await;
    assert_eq!(close(world, series, 1).await, EpisodeStatus::Failed);
}
