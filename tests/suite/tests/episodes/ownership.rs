//! Who may change a story: only its lock's owner, only its episode.

use crate::support::{LOCK_MS, close, one_episode, set_frames, token, world};
use glassline_protocol::ports::{Store as _, Written};
use glassline_protocol::row::{EpisodeStatus, RowKey as _, Status, StoryRow, StoryStatus};
use glassline_protocol::transition::{StoryTransition, story_entry};
use glassline_tests::{Plan, Spot, story_key};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_owner_changes_nothing() {
    let world = world(1).await;
    one_episode(&world, "main").await;
    let key = story_key("main", "a");
    let own = world.story("main", "a").await.owner.unwrap();
    let entry = story_entry(&key);
    let before = world.scan().await;
    for (owner, episode) in [(token('f'), 1), (own.clone(), 2), (token('f'), 2)] {
        for transition in [
            StoryTransition::Release { owner: owner.clone(), episode, entry: entry.clone() },
            StoryTransition::Exhaust { owner: owner.clone(), episode },
            StoryTransition::Unlock { owner: owner.clone() },
            StoryTransition::Use { owner: owner.clone(), episode },
            StoryTransition::Lock { owner: owner.clone(), expires_ms: u64::MAX >> 12 },
        ] {
            let written = world.ports.change_story(&key, &transition).await;
            assert!(matches!(written, Written::Refused(Some(_))), "{transition:?}: {written:?}");
        }
    }
    assert_eq!(world.scan().await, before);
    // The real owner and episode can; and only once.
    let release = StoryTransition::Release { owner: own, episode: 1, entry };
    assert!(matches!(world.ports.change_story(&key, &release).await, Written::Applied(_)));
    assert!(matches!(world.ports.change_story(&key, &release).await, Written::Refused(Some(_))));
    assert_eq!(world.story("main", "a").await.failures, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_episode_that_fails_leaves_a_story_alone_that_moved_on() {
    let world = world(1).await;
    for (name, owner, episode, status) in [
        ("other-owner", Some(token('e')), Some(1), StoryStatus::Used),
        ("other-episode", None, Some(7), StoryStatus::Used),
        ("being-made", Some(token('e')), None, StoryStatus::Locked),
        ("given-back", None, None, StoryStatus::Eligible),
        ("exhausted", None, None, StoryStatus::Exhausted),
    ] {
        one_episode(&world, name).await;
        let row = world.story(name, "a").await;
        let owner = owner.or_else(|| row.owner.clone().filter(|_| episode.is_some()));
        let moved = StoryRow { owner, episode, status, ..row };
        world.put(&moved).await;
        set_frames(&world, name, 1, [Status::Failed; 4]).await;
        assert_eq!(close(&world, name, 1).await, EpisodeStatus::Failed, "{name}");
        assert_eq!(world.story(name, "a").await, moved, "{name}");
        assert_eq!(world.series(name).await.open, 0, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_lock_is_taken_over_and_its_owner_then_makes_nothing() {
    let world = world(1).await;
    for (call, series) in [("transact", "late"), ("read story spec", "later"), ("read lane", "latest")] {
        world.add_series(series, "keyed", 2).await;
        world.add_story(series, "a").await;
        let (plan, gate) = Plan::stop_before(Spot::first("dispatch", call));
        let meanwhile = async {
            let locked = world.story(series, "a").await;
            assert_eq!(locked.status, StoryStatus::Locked);
            assert!(world.open(series).await.is_empty(), "a live lock isn't taken over");
            assert_eq!(world.story(series, "a").await, locked);
            world.clock.manual.advance(LOCK_MS);
            assert_eq!(world.open(series).await, [1], "an expired one is");
            world.story(series, "a").await
        };
        let (slow, taken) = gate.interrupt(world.open_with(&plan, series), meanwhile).await;
        assert!(slow.unwrap().unwrap().episodes.is_empty(), "{call}");
        assert_eq!(world.story(series, "a").await, taken.unwrap(), "{call}");
        assert_eq!(world.check_series_at_rest(series).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_free_place_is_given_to_one_and_the_other_unlocks() {
    let world = world(1).await;
    world.add_series("main", "keyed", 1).await;
    world.add_stories("main", 2).await;
    let (plan, gate) = Plan::stop_before(Spot::first("dispatch", "transact"));
    let meanwhile = async {
        let mut opened = Vec::new();
        // The other story is drawn sooner or later; the locked one is refused.
        while opened.is_empty() {
            opened = world.open("main").await;
        }
        opened
    };
    let (slow, fast) = gate.interrupt(world.open_with(&plan, "main"), meanwhile).await;
    assert_eq!(fast, Some(vec![1]));
    assert!(slow.unwrap().unwrap().episodes.is_empty());
    world.check_series_at_rest("main").await;
    let mut stories = [world.story("main", "s001").await, world.story("main", "s002").await];
    stories.sort_by_key(|story| story.status);
    let free = &stories[0];
    assert_eq!((free.status, &free.owner), (StoryStatus::Eligible, &None), "{}", free.key.primary().pk);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn episodes_beyond_9999_sort_by_number() {
    let world = world(1).await;
    world.add_series("main", "keyed", 10).await;
    world.add_stories("main", 5).await;
    let mut series = world.series("main").await;
    series.next = 9_998;
    world.put(&series).await;
    assert_eq!(world.open("main").await, [9_998, 9_999, 10_000, 10_001, 10_002]);
    let views = world.check_series_from("main", 9_998).await;
    let keys: Vec<String> = views.iter().map(|view| view.head.key.to_string()).collect();
    assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:?}");
    assert_eq!(keys[2], "EPISODE#main#010000");
    let open = world.ports.open_episodes(&glassline_tests::series_key("main"), 3).await.unwrap();
    assert_eq!(open.iter().map(|key| key.number).collect::<Vec<_>>(), [9_998, 9_999, 10_000]);
    let place = glassline_protocol::row::season_and_episode;
    assert_eq!((place(9_999), place(10_000), place(10_001)), ((1_000, 9), (1_000, 10), (1_001, 1)));
}
