//! The choice of a story: uniform, and what it reads.

use crate::support::world;
use glassline_dispatch::draw;
use glassline_protocol::ports::{Local as _, Store as _};
use glassline_protocol::row::StoryKey;
use glassline_tests::{World, series_key, story_key};

const STORIES: usize = 20;
/// The upper 1e-6 quantile of chi-squared with 19 degrees of freedom, rounded up: 62.16 by `scipy.stats.chi2.isf`.
const CRITICAL: f64 = 62.2;

/// Chi-squared of so many first draws from a pool of twenty stories.
fn chi_squared(draws: usize, mut draw_one: impl FnMut(&mut Vec<StoryKey>) -> Option<StoryKey>) -> f64 {
    let pool: Vec<StoryKey> =
        (0..STORIES).map(|number| story_key("main", &format!("s{number:02}"))).collect();
    let mut counts = [0u32; STORIES];
    for _ in 0..draws {
        let mut left = pool.clone();
        let chosen = draw_one(&mut left).unwrap();
        assert!(left.len() == STORIES - 1 && !left.contains(&chosen), "a story is drawn once");
        counts[pool.binary_search(&chosen).unwrap()] += 1;
    }
    let expected = draws as f64 / STORIES as f64;
    counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_story_is_equally_likely() {
    let world = world(1).await;
    for draws in [10_000, 100_000] {
        let found = chi_squared(draws, |stories| draw(&world.ports, stories));
        assert!(found < CRITICAL, "chi-squared is {found} for {draws} draws");
    }
    let mut none = Vec::new();
    assert_eq!(draw(&world.ports, &mut none), None);
    // The same check catches draws that aren't uniform: the remainder of five random bits, of a byte (the first sixteen
    // stories are then likelier by a twelfth, which takes more draws to see), and the better of two.
    let below = |bound| usize::try_from(world.ports.random_below(bound)).unwrap();
    for (draws, biased) in [
        (10_000, &(|| below(32) % STORIES) as &dyn Fn() -> usize),
        (300_000, &|| below(256) % STORIES),
        (10_000, &|| below(20).min(below(20))),
    ] {
        let found = chi_squared(draws, |stories| Some(stories.swap_remove(biased())));
        assert!(found > CRITICAL, "a biased draw passed: chi-squared is {found}");
    }
}

/// The bytes of a series' entries in the index: names and values of its four attributes.
async fn index_bytes(world: &World, series: &str) -> usize {
    let partition = format!("STORIES#{series}");
    let names = "pksk".len() + "queue_pkqueue_sk".len();
    let entries = world.index(&partition).await;
    entries.iter().map(|(pk, sk, entry)| names + pk.len() + sk.len() + entry.len() + partition.len()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_choice_reads_half_a_unit_per_4_kb_of_keys() {
    let world = world(1).await;
    for (series, count, most_units) in [("small", 20, 0.5), ("large", 300, 4.5)] {
        world.add_series(series, "keyed", 50).await;
        world.add_stories(series, count).await;
        let bytes = index_bytes(&world, series).await;
        let bound = bytes.div_ceil(4_096) as f64 * 0.5;
        assert!(bound <= most_units, "{count} stories are {bytes} bytes of keys");
        let _ = world.ports.store.meter().take();
        assert_eq!(world.ports.open_stories(&series_key(series)).await.unwrap().len(), count);
        let used = world.ports.store.meter().take();
        assert_eq!(used.len(), 1, "{used:?}");
        assert_eq!(used["Query"].requests, 1, "{used:?}");
        assert!(used["Query"].units > 0.0 && used["Query"].units <= bound, "{used:?}, at most {bound}");
        // Ten openings of one tick read them once.
        assert_eq!(world.open(series).await.len(), 10);
        let used = world.ports.store.meter().take();
        assert!(used["Query"].units <= bound + 0.5, "{used:?}: the stories once, and the open heads");
    }
}
