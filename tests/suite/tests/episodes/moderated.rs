//! An episode of which one frame is refused for good.

use crate::support::{HOUR_MS, world};
use glassline_protocol::row::{EpisodeStatus, Status, StoryStatus};
use glassline_sandbox::{FaultKind, FaultRule};
use glassline_tests::{Plan, World, episode_key};

fn refuse_frame_3(world: &World, kind: FaultKind) {
    let references: Vec<String> =
        (1..=9).map(|number| format!("{}/FRAME#3/1", episode_key("main", number))).collect();
    world.provider_faults(vec![FaultRule::references(kind, references)]);
}

async fn until_closed(world: &World, number: u32) {
    let closed = async |world: &World| {
        let there = world.series("main").await.next > number;
        there && world.episode("main", number).await.head.status != EpisodeStatus::Open
    };
    world.drive_until(&Plan::none(), 1, HOUR_MS, closed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_is_not_billed_and_the_third_failure_exhausts_the_story() {
    let world = world(1).await;
    world.add_series("main", "keyed", 1).await;
    world.add_story("main", "a").await;
    refuse_frame_3(&world, FaultKind::RejectModeration);
    for number in 1..=3 {
        until_closed(&world, number).await;
        let view = world.episode("main", number).await;
        assert_eq!(view.head.status, EpisodeStatus::Failed);
        let reason = view.head.reason.clone().unwrap();
        assert!(reason.starts_with("FRAME#3: ") && reason.len() > 12, "{reason}");
        use Status::{Cancelled, Failed, Succeeded};
        let statuses: Vec<Status> = view.frames.iter().map(|frame| frame.status).collect();
        assert_eq!(statuses, [Succeeded, Succeeded, Failed, Cancelled]);
        let billed: Vec<usize> = view.frames.iter().map(|frame| world.renders_of(&frame.key)).collect();
        assert_eq!(billed, [1, 1, 0, 0], "frame 4 had not been asked for yet");
        let story = world.story("main", "a").await;
        assert_eq!(story.failures, number);
        let expected = if number < 3 { StoryStatus::Eligible } else { StoryStatus::Exhausted };
        assert_eq!(story.status, expected);
        world.check_series_at_rest("main").await;
    }
    world.drive_late().await;
    assert!(world.index("STORIES#main").await.is_empty());
    let series = world.series("main").await;
    assert_eq!((series.next, series.open), (4, 0), "it is no longer drawn");
    world.check_history();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_billed_after_the_failure_but_what_was_accepted_before() {
    // All four at once: refused at the submit, or later at the render's end.
    let mut world = world(4).await;
    for kind in [FaultKind::RejectModeration, FaultKind::FailModeration] {
        world = world.again().await;
        world.add_series("main", "keyed", 1).await;
        world.add_story("main", "a").await;
        refuse_frame_3(&world, kind);
        let before = world.accepted();
        assert_eq!(world.open("main").await, [1]);
        let mut series = world.series("main").await;
        series.open_limit = 0;
        world.put(&series).await;
        until_closed(&world, 1).await;
        let accepted = world.accepted();
        world.drive_late().await;
        assert_eq!(world.accepted(), accepted, "{kind:?}");
        assert!(accepted.len() <= before.len() + 4, "{kind:?}");
        let view = world.check_series_at_rest("main").await.remove(0);
        assert_eq!(view.head.status, EpisodeStatus::Failed);
        assert!(view.frames.iter().all(|frame| frame.status.ended()), "{:?}", view.frames);
        assert_eq!(world.story("main", "a").await.status, StoryStatus::Eligible);
        world.check_history();
    }
}
