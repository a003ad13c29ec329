//! Frames end in any order; the episode is closed once.

use crate::support::{close, close_with, one_episode, set_frames, world};
use futures_util::future::join_all;
use glassline_protocol::row::{EpisodeStatus, Status};
use glassline_tests::{Plan, Spot};

fn orders() -> Vec<[usize; 4]> {
    let mut orders = Vec::new();
    for a in 0..4 {
        for b in (0..4).filter(|b| *b != a) {
            for c in (0..4).filter(|c| ![a, b].contains(c)) {
                orders.push([a, b, c, 6 - a - b - c]);
            }
        }
    }
    orders
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_end_in_any_order() {
    let world = world(1).await;
    assert_eq!(orders().len(), 24);
    for (number, order) in orders().into_iter().enumerate() {
        let series = format!("order{number}");
        one_episode(&world, &series).await;
        let mut frames = [Status::Rendering; 4];
        for (ended, frame) in order.into_iter().enumerate() {
            frames[frame] = Status::Succeeded;
            set_frames(&world, &series, 1, frames).await;
            let expected = if ended == 3 { EpisodeStatus::Complete } else { EpisodeStatus::Open };
            assert_eq!(close(&world, &series, 1).await, expected, "{order:?}");
            assert_eq!(world.series(&series).await.open, u32::from(ended < 3));
        }
        // Coming again changes nothing.
        assert_eq!(close(&world, &series, 1).await, EpisodeStatus::Complete);
        world.check_series_at_rest(&series).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_two_frames_close_it_once() {
    let world = world(1).await;
    for call in ["read episode", "read series", "transact"] {
        let series = format!("race-{}", call.replace(' ', "-"));
        one_episode(&world, &series).await;
        set_frames(&world, &series, 1, [Status::Succeeded; 4]).await;
        let (plan, gate) = Plan::stop_before(Spot::first("finisher", call));
        let (slow, fast) =
            gate.interrupt(close_with(&world, &plan, &series, 1), close(&world, &series, 1)).await;
        assert_eq!(fast, Some(EpisodeStatus::Complete), "{call}");
        assert_eq!(slow, Some(Ok(Some(EpisodeStatus::Complete))), "{call}");
        assert_eq!(world.series(&series).await.open, 0, "{call}");
        world.check_series_at_rest(&series).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_episodes_closed_by_many_at_once_are_counted_right() {
    let world = world(1).await;
    world.add_series("main", "keyed", 10).await;
    world.add_stories("main", 10).await;
    assert_eq!(world.open("main").await.len(), 10);
    for number in 1..=10 {
        let fails = number % 3 == 0;
        let frames = if fails { Status::Failed } else { Status::Succeeded };
        set_frames(&world, "main", number, [frames; 4]).await;
    }
    let plan = Plan::none();
    let closers = (1..=10).flat_map(|number| [number; 3]);
    // One that has to give up for now says so, and its message comes again.
    join_all(closers.map(|number| close_with(&world, &plan, "main", number))).await;
    for number in 1..=10 {
        close(&world, "main", number).await;
    }
    world.check_series_at_rest("main").await;
    assert_eq!(world.series("main").await.open, 0);
    let eligible = world.index("STORIES#main").await.len();
    assert_eq!(eligible, 3, "those of the failed ones are free again, counted once");
    for (pk, ..) in world.index("STORIES#main").await {
        let key = pk.rsplit_once('#').unwrap().1.to_owned();
        assert_eq!(world.story("main", &key).await.failures, 1);
    }
}
