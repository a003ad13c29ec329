//! A crash, a lost request or a lost reply at every call of opening and of closing an episode.

use crate::support::{HOUR_MS, LOCK_MS, close, close_with, one_episode, set_frames, statuses, world};
use glassline_protocol::row::{EpisodeStatus, Status, StoryStatus};
use glassline_tests::{Fault, Plan, Spot, World};
use std::collections::BTreeSet;

/// Opens two episodes with `fault` at call `at`; `false` when there are fewer calls.
async fn opening_with(world: &World, fault: Fault, at: usize) -> bool {
    let series = format!("o-{fault:?}-{at}");
    world.add_series(&series, "keyed", 2).await;
    world.add_stories(&series, 2).await;
    let plan = Plan::fault(Spot::number(at), fault);
    let _ = world.open_with(&plan, &series).await;
    let Some(call) = plan.fired() else { return false };
    let about = format!("{fault:?} at call {at} ({call})");
    world.check_series(&series).await;
    let locked = |rows: Vec<glassline_protocol::row::StoryRow>| {
        rows.into_iter().filter(|row| row.status == StoryStatus::Locked).collect::<Vec<_>>()
    };
    let stories =
        async || locked(vec![world.story(&series, "s001").await, world.story(&series, "s002").await]);
    let left = stories().await;
    assert!(left.len() <= 1, "{about}: {left:?}");
    // Nobody takes a lock that hasn't expired.
    let _ = world.open(&series).await;
    world.check_series(&series).await;
    assert_eq!(stories().await, left, "{about}");
    world.clock.manual.advance(LOCK_MS);
    let _ = world.open(&series).await;
    let views = world.check_series_at_rest(&series).await;
    let made: BTreeSet<_> = views.iter().map(|view| view.head.story.clone()).collect();
    assert_eq!((views.len(), made.len()), (2, 2), "{about}");
    assert_eq!(world.series(&series).await.open, 2, "{about}");
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_at_any_call_of_opening_leaves_nothing_half_made() {
    let world = world(1).await;
    for fault in Fault::ALL {
        let mut at = 0;
        while opening_with(&world, fault, at).await {
            at += 1;
        }
        assert!(at >= 12, "{fault:?}: only {at} calls");
    }
}

/// Closes an episode with `fault` at call `at`; `false` when there are fewer calls.
async fn closing_with(world: &World, fault: Fault, at: usize, complete: bool) -> bool {
    use Status::{Failed, Ready, Rendering, Succeeded};
    let series = format!("c-{fault:?}-{at}-{complete}");
    one_episode(world, &series).await;
    let ended = if complete { [Succeeded; 4] } else { [Succeeded, Failed, Ready, Rendering] };
    set_frames(world, &series, 1, ended).await;
    let plan = Plan::fault(Spot::number(at), fault);
    let _ = close_with(world, &plan, &series, 1).await;
    let Some(call) = plan.fired() else { return false };
    let about = format!("{fault:?} at call {at} ({call})");
    world.check_series(&series).await;
    // A full tick closes it, and makes the next episode of a story that was given back.
    let _ = world.open(&series).await;
    let views = world.check_series_at_rest(&series).await;
    let story = world.story(&series, "a").await;
    let head = &views[0].head;
    if complete {
        assert_eq!((head.status, views.len(), story.failures), (EpisodeStatus::Complete, 1, 0), "{about}");
        assert_eq!(world.series(&series).await.open, 0, "{about}");
    } else {
        assert_eq!((head.status, story.failures), (EpisodeStatus::Failed, 1), "{about}");
        assert_eq!(head.reason.as_deref(), Some("FRAME#2: moderated"), "{about}");
        assert_eq!(statuses(world, &series, 1).await, [Succeeded, Failed, Status::Cancelled, Rendering]);
        assert!(views[0].frames[3].cancel_requested, "{about}");
        assert_eq!(world.series(&series).await.open, 1, "{about}: episode 2");
    }
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_at_any_call_of_closing_leaves_no_head_open() {
    let world = world(1).await;
    for complete in [true, false] {
        for fault in Fault::ALL {
            let mut at = 0;
            while closing_with(&world, fault, at, complete).await {
                at += 1;
            }
            // Episode, series, transaction; and for a failure each frame that is stopped, and the story.
            let calls = if complete { 3 } else { 6 };
            assert!(at >= calls, "{fault:?}: only {at} calls");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_episode_is_rendered_and_closed_whatever_the_finisher_dies_of() {
    let mut world = world(4).await;
    for (call, skip) in [("read episode", 0), ("read episode", 3), ("read series", 0), ("transact", 0)] {
        for fault in Fault::ALL {
            world = world.again().await;
            world.add_series("main", "keyed", 1).await;
            world.add_story("main", "a").await;
            let plan = Plan::fault(Spot::first("finisher", call).skipping(skip), fault);
            let closed = async |world: &World| {
                world.series("main").await.next == 2
                    && world.episode("main", 1).await.head.status != EpisodeStatus::Open
            };
            let driven = world.drive_until(&plan, 1, HOUR_MS, closed).await;
            assert_eq!(plan.fired(), Some(call), "{fault:?}: {:?}", plan.log());
            let views = world.check_series_at_rest("main").await;
            assert_eq!(views[0].head.status, EpisodeStatus::Complete, "{fault:?} at {call}: {driven:?}");
            assert_eq!(views[0].frames.iter().filter(|f| f.attempt == 1 && f.failures == 0).count(), 4);
            assert_eq!(world.series("main").await.open, 0);
            world.check_history();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_left_open_is_found_however_many_lower_ones_are_rightly_open() {
    let world = world(1).await;
    world.add_series("main", "keyed", 6).await;
    world.add_stories("main", 6).await;
    assert_eq!(world.open("main").await.len(), 6);
    // Nobody did its parent step: the message was lost for good.
    set_frames(&world, "main", 5, [Status::Succeeded; 4]).await;
    for _ in 0..100 {
        let _ = world.open("main").await;
    }
    world.check_series_at_rest("main").await;
    assert_eq!(world.series("main").await.open, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_episode_that_cannot_be_read_keeps_no_other_from_being_opened_or_closed() {
    let world = world(1).await;
    world.add_series("main", "keyed", 3).await;
    world.add_stories("main", 2).await;
    assert_eq!(world.open("main").await, [1, 2]);
    let bad = world.episode("main", 1).await.frames[0].clone();
    let mut item = glassline_tests::item_of(&bad);
    item.insert("status".into(), aws_sdk_dynamodb::types::AttributeValue::S("nonsense".into()));
    world.put_all(vec![item]).await;
    set_frames(&world, "main", 2, [Status::Succeeded; 4]).await;
    world.add_story("main", "late").await;
    for _ in 0..5 {
        // It is said each time; the rest goes on.
        assert!(world.open_with(&Plan::none(), "main").await.unwrap().is_err());
    }
    let series = world.series("main").await;
    assert_eq!((series.next, series.open), (4, 2));
    assert_eq!(world.episode("main", 2).await.head.status, EpisodeStatus::Complete);
    world.put(&bad).await;
    world.check_series_at_rest("main").await;
    assert_eq!(close(&world, "main", 1).await, EpisodeStatus::Open);
}
