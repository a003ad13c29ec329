//! Reopening a failed episode.

use crate::support::{HOUR_MS, LOCK_MS, close, failed_episode, reopen_now, reopen_with, set_frames, world};
use glassline_protocol::row::{EpisodeStatus, JobRow, Status, StoryRow, StoryStatus};
use glassline_sandbox::{FaultKind, FaultRule};
use glassline_tests::{Fault, Plan, Spot, World};

const FAILED: [Status; 4] = [Status::Succeeded, Status::Failed, Status::Cancelled, Status::Succeeded];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_reopened_is_refused_with_a_sentence() {
    let world = world(1).await;
    let refused = async |series: &str, number: u32| {
        let before = world.scan().await;
        let error = reopen_now(&world, series, number).await.unwrap_err();
        assert_eq!(world.scan().await, before, "{error}");
        error.to_string()
    };
    assert_eq!(refused("none", 1).await, "there is no episode EPISODE#none#000001");
    failed_episode(&world, "main", FAILED).await;
    // Its story became another episode.
    assert_eq!(world.open("main").await, [2]);
    assert_eq!(
        refused("main", 1).await,
        "episode EPISODE#main#000001 can't be reopened: its story STORY#main#a is in episode EPISODE#main#000002 now"
    );
    let open = refused("main", 2).await;
    assert_eq!(open, "episode EPISODE#main#000002 is open; only a failed one can be reopened");
    set_frames(&world, "main", 2, [Status::Succeeded; 4]).await;
    assert_eq!(close(&world, "main", 2).await, EpisodeStatus::Complete);
    let complete = refused("main", 2).await;
    assert_eq!(complete, "episode EPISODE#main#000002 is complete; only a failed one can be reopened");
    assert!(refused("main", 1).await.contains("is in episode EPISODE#main#000002 now"));
    // Somebody is making another episode of it.
    failed_episode(&world, "made", FAILED).await;
    let (plan, gate) = Plan::stop_before(Spot::first("dispatch", "transact"));
    let sentence = gate.interrupt(world.open_with(&plan, "made"), refused("made", 1)).await.1.unwrap();
    assert!(sentence.ends_with("its story STORY#made#a is being made into another episode"), "{sentence}");
    // A frame from before is still under way.
    failed_episode(&world, "busy", [Status::Succeeded, Status::Failed, Status::Rendering, Status::Ready])
        .await;
    let sentence = refused("busy", 1).await;
    assert!(sentence.contains("FRAME#3 is still rendering; wait until it has ended"), "{sentence}");
}

fn again(before: &JobRow, after: &JobRow) {
    match before.status {
        Status::Succeeded => assert_eq!(before, after),
        Status::Failed | Status::Cancelled => {
            let found = (after.status, after.attempt, after.failures, after.cancel_requested);
            assert_eq!(found, (Status::Ready, before.attempt + 1, 0, false));
            assert!(after.queue_pk.is_some() && after.error.is_none() && after.token.is_none(), "{after:?}");
        }
        Status::Ready | Status::Claimed | Status::Rendering | Status::Held => panic!("{before:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_at_any_call_of_reopening_is_mended_by_repeating_it() {
    let world = world(1).await;
    for fault in Fault::ALL {
        for at in 0.. {
            let series = format!("r-{fault:?}-{at}");
            failed_episode(&world, &series, FAILED).await;
            let before = world.episode(&series, 1).await;
            let plan = Plan::fault(Spot::number(at), fault);
            let first = reopen_with(&world, &plan, &series, 1).await;
            let Some(call) = plan.fired() else {
                assert!(at >= 4 && first == Some(Ok(())), "{at} calls: {first:?}");
                break;
            };
            let about = format!("{fault:?} at call {at} ({call}): {first:?}");
            world.check_series_at_rest(&series).await;
            if first != Some(Ok(())) {
                // The person does it again.
                if let Err(error) = reopen_now(&world, &series, 1).await {
                    assert!(error.to_string().contains("is open; only a failed one"), "{about}: {error}");
                }
            }
            let views = world.check_series_at_rest(&series).await;
            assert_eq!((views.len(), views[0].head.status), (1, EpisodeStatus::Open), "{about}");
            assert_eq!(views[0].head.reason, None, "{about}");
            before.frames.iter().zip(&views[0].frames).for_each(|(before, after)| again(before, after));
            assert_eq!(world.series(&series).await.open, 1, "{about}");
            assert_eq!(world.story(&series, "a").await.status, StoryStatus::Used, "{about}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_story_whose_making_was_given_up_does_not_stand_in_the_way() {
    let world = world(1).await;
    failed_episode(&world, "main", FAILED).await;
    // A dispatcher dies after its lock.
    let plan = Plan::fault(Spot::first("dispatch", "story"), Fault::CrashAfter);
    assert_eq!(world.open_with(&plan, "main").await, None);
    assert_eq!(world.story("main", "a").await.status, StoryStatus::Locked);
    assert!(reopen_now(&world, "main", 1).await.is_err(), "it may still be at work");
    world.clock.manual.advance(LOCK_MS);
    reopen_now(&world, "main", 1).await.unwrap();
    assert_eq!(world.check_series_at_rest("main").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exhausted_story_can_be_reopened_and_fails_for_good_again() {
    let world = world(1).await;
    failed_episode(&world, "main", FAILED).await;
    let story = StoryRow {
        status: StoryStatus::Exhausted,
        failures: 3,
        queue_pk: None,
        queue_sk: None,
        ..world.story("main", "a").await
    };
    world.put(&story).await;
    reopen_now(&world, "main", 1).await.unwrap();
    world.check_series_at_rest("main").await;
    set_frames(&world, "main", 1, FAILED).await;
    assert_eq!(close(&world, "main", 1).await, EpisodeStatus::Failed);
    let story = world.story("main", "a").await;
    assert_eq!((story.status, story.failures), (StoryStatus::Exhausted, 4));
    assert!(world.open("main").await.is_empty());
}

async fn at_rest(world: &World, number: u32) -> EpisodeStatus {
    let ended = async |world: &World| {
        let view = world.episode("main", number).await;
        let open = view.head.status == EpisodeStatus::Open;
        !open && view.frames.iter().all(|frame| frame.status.ended())
    };
    world.drive_until(&Plan::none(), 1, HOUR_MS, ended).await;
    world.episode("main", number).await.head.status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reopened_episode_is_rendered_and_completes_twice_over() {
    let world = world(4).await;
    world.add_series("main", "keyed", 1).await;
    world.add_story("main", "a").await;
    let refuse = |attempt: u32| {
        let reference = format!("EPISODE#main#000001/FRAME#3/{attempt}");
        world.provider_faults(vec![FaultRule::references(FaultKind::FailModeration, [reference])]);
    };
    refuse(1);
    assert_eq!(world.open("main").await, [1]);
    // Nothing else may become an episode while this one is worked on.
    let mut series = world.series("main").await;
    series.open_limit = 0;
    world.put(&series).await;
    for _ in 0..2 {
        assert_eq!(at_rest(&world, 1).await, EpisodeStatus::Failed);
        let failed = world.episode("main", 1).await;
        let third = failed.frames[2].attempt;
        reopen_now(&world, "main", 1).await.unwrap();
        let open = world.check_series_at_rest("main").await.remove(0);
        failed.frames.iter().zip(&open.frames).for_each(|(before, after)| again(before, after));
        assert_eq!(world.series("main").await.open, 1);
        // Requeue and Claim each add an attempt.
        if third == 1 { refuse(3) } else { world.provider_faults(Vec::new()) }
    }
    assert_eq!(at_rest(&world, 1).await, EpisodeStatus::Complete);
    let view = world.check_series_at_rest("main").await.remove(0);
    assert!(view.frames.iter().all(|frame| frame.status == Status::Succeeded));
    assert_eq!(view.frames[2].attempt, 5);
    let story = world.story("main", "a").await;
    assert_eq!((story.status, story.failures), (StoryStatus::Used, 2));
    assert_eq!(world.series("main").await.open, 0);
    world.check_history();
    assert_eq!(world.qa().await.len(), 4);
}
