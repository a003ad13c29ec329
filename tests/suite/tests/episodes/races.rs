//! Somebody who read an episode before it was reopened, and writes after.

use crate::support::{
    close, close_with, failed_episode, one_episode, reopen_now, reopen_with, set_frames, statuses, world,
};
use glassline_protocol::row::{EpisodeStatus, Status, StoryStatus};
use glassline_tests::{Fault, Plan, Spot, World};

/// Closes episode 1 and reopens it.
async fn fail_and_reopen(world: &World, series: &str) {
    assert_eq!(close(world, series, 1).await, EpisodeStatus::Failed);
    reopen_now(world, series, 1).await.unwrap();
}

async fn still_reopened(world: &World, series: &str, frames: [Status; 4]) {
    let views = world.check_series_at_rest(series).await;
    assert_eq!(views[0].head.status, EpisodeStatus::Open, "{:?}", views[0].head);
    assert_eq!(statuses(world, series, 1).await, frames);
    let story = world.story(series, "a").await;
    assert_eq!((story.status, story.episode, story.failures), (StoryStatus::Used, Some(1), 1));
    assert_eq!(world.series(series).await.open, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_closing_does_not_close_what_was_reopened_since() {
    use Status::{Cancelled, Failed, Ready, Succeeded};
    let world = world(1).await;
    one_episode(&world, "main").await;
    set_frames(&world, "main", 1, [Succeeded, Failed, Cancelled, Cancelled]).await;
    let (plan, gate) = Plan::stop_before(Spot::first("finisher", "transact"));
    let stale = close_with(&world, &plan, "main", 1);
    let (status, between) = gate.interrupt(stale, fail_and_reopen(&world, "main")).await;
    assert!(between.is_some());
    assert_eq!(status, Some(Ok(Some(EpisodeStatus::Open))));
    still_reopened(&world, "main", [Succeeded, Ready, Ready, Ready]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_closing_leaves_the_head_alone_when_the_story_was_elsewhere() {
    use Status::{Cancelled, Failed, Ready, Succeeded};
    let world = world(1).await;
    // Story a is given back, and becomes the episode's again only by the reopening: the stale closing has no story's
    // part that would be refused.
    one_episode(&world, "main").await;
    set_frames(&world, "main", 1, [Succeeded, Failed, Cancelled, Cancelled]).await;
    let (plan, gate) = Plan::stop_before(Spot::first("finisher", "read story"));
    let meanwhile = async {
        assert_eq!(close(&world, "main", 1).await, EpisodeStatus::Failed);
    };
    let (plan2, gate2) = Plan::stop_before(Spot::first("finisher", "transact"));
    let _ = (plan2, gate2);
    let (status, _) = gate.interrupt(close_with(&world, &plan, "main", 1), meanwhile).await;
    assert_eq!(status, Some(Ok(Some(EpisodeStatus::Failed))));
    reopen_now(&world, "main", 1).await.unwrap();
    still_reopened(&world, "main", [Succeeded, Ready, Ready, Ready]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_stop_does_not_cancel_a_frame_that_was_asked_for_again() {
    use Status::{Cancelled, Failed, Ready, Rendering, Succeeded};
    let world = world(1).await;
    one_episode(&world, "main").await;
    set_frames(&world, "main", 1, [Succeeded, Failed, Rendering, Cancelled]).await;
    let (plan, gate) = Plan::stop_before(Spot::first("finisher", "RequestCancel"));
    let meanwhile = async {
        set_frames(&world, "main", 1, [Succeeded, Failed, Cancelled, Cancelled]).await;
        fail_and_reopen(&world, "main").await;
    };
    let (status, between) = gate.interrupt(close_with(&world, &plan, "main", 1), meanwhile).await;
    assert!(between.is_some());
    assert_eq!(status, Some(Ok(Some(EpisodeStatus::Open))));
    still_reopened(&world, "main", [Succeeded, Ready, Ready, Ready]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_that_is_claimed_while_it_is_stopped_is_asked_to_stop_again() {
    use Status::{Cancelled, Claimed, Failed, Ready, Succeeded};
    let world = world(1).await;
    one_episode(&world, "main").await;
    set_frames(&world, "main", 1, [Succeeded, Failed, Ready, Cancelled]).await;
    let (plan, gate) = Plan::stop_before(Spot::first("finisher", "CancelReady"));
    let meanwhile = set_frames(&world, "main", 1, [Succeeded, Failed, Claimed, Cancelled]);
    let (status, between) = gate.interrupt(close_with(&world, &plan, "main", 1), meanwhile).await;
    assert!(between.is_some(), "{:?}", plan.log());
    assert_eq!(status, Some(Ok(Some(EpisodeStatus::Failed))));
    let frame = world.episode("main", 1).await.frames.remove(2);
    assert!(frame.status == Claimed && frame.cancel_requested, "{frame:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_reopening_whose_reply_is_lost_reopens_once() {
    use Status::{Cancelled, Failed, Ready, Succeeded};
    let world = world(1).await;
    failed_episode(&world, "main", [Succeeded, Failed, Cancelled, Cancelled]).await;
    // Its frames fail again, or all succeed, before the command learns what became of its transaction.
    for (series, again) in [("failed-again", Failed), ("complete", Succeeded)] {
        failed_episode(&world, series, [Succeeded, Failed, Cancelled, Cancelled]).await;
        let (plan, gate) = Plan::stop_before(Spot::first("person", "read episode").skipping(1));
        let plan = plan.and_fault(Spot::first("person", "transact"), Fault::LostReply);
        let meanwhile = async {
            assert_eq!(statuses(&world, series, 1).await, [Succeeded, Ready, Ready, Ready]);
            set_frames(&world, series, 1, [Succeeded, again, again, again]).await;
            close(&world, series, 1).await
        };
        let (reopened, between) = gate.interrupt(reopen_with(&world, &plan, series, 1), meanwhile).await;
        assert_eq!(reopened, Some(Ok(())), "{series}");
        let view = world.check_series_at_rest(series).await.remove(0);
        assert_eq!(Some(view.head.status), between, "{series}: reopened twice");
        assert_eq!(statuses(&world, series, 1).await, [Succeeded, again, again, again]);
    }
}
