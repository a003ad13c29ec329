//! Pauses, rates, budgets and order.

use crate::support::{HOUR_MS, first_lane, in_flight, take_all};
use glassline_protocol::ids::Ms;
use glassline_protocol::intake::parse_posts;
use glassline_protocol::ports::{Store as _, Written};
use glassline_protocol::row::{JobRow, LaneRow, Status};
use glassline_protocol::transition::{LaneSettings, LaneTransition};
use glassline_tests::{Lane, MINUTE_MS, Plan, World, WorldOptions, job_key, lane_name, post};
use std::collections::BTreeMap;

const DAY_MS: u64 = 24 * HOUR_MS;

async fn world(capacity: u32, set: impl Fn(&mut LaneRow)) -> World {
    let mut lane = Lane::keyed(capacity);
    set(&mut lane.row);
    World::new(WorldOptions::one(lane)).await
}

async fn change(world: &World, transition: LaneTransition) {
    let written = world.ports.change_lane(&lane_name("keyed"), &transition).await;
    assert!(matches!(written, Written::Applied(_)), "{written:?}");
}

async fn tick(world: &World) -> usize {
    world.tick_lane(&first_lane(world).await).await.started
}

/// When each job was claimed, from the table's history.
async fn claims(world: &World, posts: &[&str]) -> Vec<(Ms, JobRow)> {
    let mut claims = Vec::new();
    for id in posts {
        for job in world.jobs(id).await {
            let claimed = world.history_of(&job.key).into_iter().filter(|row| row.status == Status::Claimed);
            claims.extend(claimed.map(|row| (row.lease_ms.unwrap() - world.settings.claim_lease_ms, row)));
        }
    }
    claims.sort_by_key(|(at_ms, _)| *at_ms);
    claims
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_lane_starts_nothing_until_it_is_resumed() {
    let world = world(2, |_| {}).await;
    world.submit(&post("p1", "keyed", 3)).await;
    change(&world, LaneTransition::PauseByHand { reason: "a look at the bill".into() }).await;
    world.drive_on(&Plan::none(), 10 * MINUTE_MS).await;
    assert_eq!(in_flight(&world, "p1").await, 0);
    assert!(world.accepted().is_empty());
    change(&world, LaneTransition::Resume).await;
    assert_eq!(tick(&world).await, 2);
    world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    world.check(&["p1"], true).await;
    assert!(world.jobs("p1").await.iter().all(|job| job.status == Status::Succeeded));
}

/// Jobs under way go on; nothing new is started, by wakes neither.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_that_is_paused_midway_finishes_what_it_started() {
    let world = world(2, |_| {}).await;
    world.submit(&post("p1", "keyed", 5)).await;
    take_all(&world, "wake").await;
    assert_eq!(tick(&world).await, 2);
    change(&world, LaneTransition::PauseByHand { reason: "stop".into() }).await;
    world.drive_on(&Plan::none(), 10 * MINUTE_MS).await;
    let jobs = world.jobs("p1").await;
    assert_eq!(jobs.iter().filter(|job| job.status == Status::Succeeded).count(), 2);
    assert_eq!(jobs.iter().filter(|job| job.status == Status::Ready).count(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_paused_until_a_time_starts_again_then_and_not_before() {
    let world = world(2, |_| {}).await;
    world.submit(&post("p1", "keyed", 1)).await;
    let until_ms = world.now_ms() + 5 * MINUTE_MS;
    change(&world, LaneTransition::Pause { until_ms, reason: "throttled".into() }).await;
    // A shorter pause doesn't shorten it.
    let shorter = LaneTransition::Pause { until_ms: until_ms - 1, reason: "throttled".into() };
    assert!(matches!(
        world.ports.change_lane(&lane_name("keyed"), &shorter).await,
        Written::Refused(Some(_))
    ));
    world.clock.manual.advance(5 * MINUTE_MS - 1);
    assert_eq!(tick(&world).await, 0);
    world.clock.manual.advance(1);
    assert_eq!(tick(&world).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_minute_has_more_starts_than_the_rate() {
    let world = world(10, |lane| lane.starts_per_minute = Some(3)).await;
    world.submit(&post("p1", "keyed", 8)).await;
    world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    assert!(world.jobs("p1").await.iter().all(|job| job.status == Status::Succeeded));
    let mut minutes: BTreeMap<u64, u32> = BTreeMap::new();
    for (at_ms, _) in claims(&world, &["p1"]).await {
        *minutes.entry(at_ms / MINUTE_MS).or_default() += 1;
    }
    assert!(minutes.values().all(|starts| *starts <= 3), "{minutes:?}");
    assert_eq!(minutes.values().copied().collect::<Vec<_>>(), [3, 3, 2], "and none is wasted: {minutes:?}");
    world.check(&["p1"], true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_dispatchers_never_authorise_more_than_the_budget() {
    for dispatchers in [1, 2, 8] {
        // 35 buys three of 10 each.
        let world = world(10, |lane| {
            lane.price_micros = Some(10);
            lane.budget_micros_per_day = Some(35);
        })
        .await;
        world.submit(&post("p1", "keyed", 9)).await;
        let lane = first_lane(&world).await;
        let ticks = (0..dispatchers).map(|_| world.tick_lane(&lane));
        let started: usize =
            futures_util::future::join_all(ticks).await.iter().map(|ticked| ticked.started).sum();
        let spent = world.look.lane(&lane).await.unwrap().unwrap().day_micros;
        assert!(spent <= 35 && 10 * started as u64 <= spent, "{dispatchers}: {started} for {spent}");
        assert!(started >= 1, "{dispatchers}");
        world.drive_on(&Plan::none(), HOUR_MS).await;
        let row = world.look.lane(&lane).await.unwrap().unwrap();
        assert!(row.day_micros <= 35, "{row:?}");
        let today = world.accepted().len();
        assert!(today <= 3, "{dispatchers}: {today} renders for a budget of three");
        // The next day there is money again.
        world.clock.manual.advance(DAY_MS);
        world.drive_on(&Plan::none(), HOUR_MS).await;
        assert_eq!(world.accepted().len(), today + 3, "{dispatchers}");
        world.check(&["p1"], true).await;
    }
}

/// One dispatcher alone wastes nothing of the budget.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_budget_is_used() {
    let world = world(2, |lane| {
        lane.price_micros = Some(10);
        lane.budget_micros_per_day = Some(50);
    })
    .await;
    world.submit(&post("p1", "keyed", 9)).await;
    world.drive_on(&Plan::none(), HOUR_MS).await;
    assert_eq!(world.accepted().len(), 5);
}

async fn submit_with_priority(world: &World, id: &str, priority: u32) {
    let text = format!(
        r#"{{"id":"{id}","lane":"keyed","priority":{priority},"shots":[{{"id":"s1","prompt":"a pear","params":{{"width":64,"height":64}}}}]}}"#
    );
    world.submit(&parse_posts(&text).unwrap().remove(0).unwrap()).await;
}

/// The order in which jobs were claimed on a lane of capacity 1.
async fn order(world: &World, posts: &[&str]) -> Vec<String> {
    world.drive(&Plan::none(), 1, HOUR_MS, posts).await;
    let claims = claims(world, posts).await;
    claims
        .into_iter()
        .map(|(_, job)| job.key.parent.to_string().trim_start_matches("POST#").to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn higher_priority_goes_first_and_then_age() {
    let world = world(1, |_| {}).await;
    for (id, priority) in [("old-low", 1), ("old-middle", 500), ("new-middle", 500), ("new-high", 1000)] {
        submit_with_priority(&world, id, priority).await;
        world.clock.manual.advance(HOUR_MS);
    }
    let posts = ["old-low", "old-middle", "new-middle", "new-high"];
    assert_eq!(order(&world, &posts).await, ["new-high", "old-middle", "new-middle", "old-low"]);
}

/// With aging a step of priority is worth a second: a job is overtaken only by those created within 1,000 s after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_aging_a_job_is_overtaken_for_a_bounded_time_only() {
    let world = world(1, |lane| lane.boost_ms = Some(1_000)).await;
    submit_with_priority(&world, "low", 0).await;
    world.clock.manual.advance(999_000);
    submit_with_priority(&world, "high-in-time", 1000).await;
    world.clock.manual.advance(2_000);
    submit_with_priority(&world, "high-too-late", 1000).await;
    let posts = ["low", "high-in-time", "high-too-late"];
    assert_eq!(order(&world, &posts).await, ["high-in-time", "low", "high-too-late"]);
}

/// A capacity that is lowered is reached by waiting; slots beyond it aren't given out, by wakes neither.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lowered_capacity_is_kept() {
    let world = world(4, |_| {}).await;
    world.submit(&post("p1", "keyed", 10)).await;
    take_all(&world, "wake").await;
    assert_eq!(tick(&world).await, 4);
    let row = world.look.lane(&lane_name("keyed")).await.unwrap().unwrap();
    let by = glassline_protocol::ids::Run::new("00000000000000ff").unwrap();
    let settings = LaneSettings { capacity: 2, ..LaneSettings::default() };
    change(&world, LaneTransition::Configure { seen_rev: row.rev, settings, by }).await;
    world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    assert!(world.jobs("p1").await.iter().all(|job| job.status == Status::Succeeded));
    world.check(&["p1"], true).await;
}

/// More slots than a tick may start, or than one page of candidates shows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_starts_no_more_than_it_may() {
    let mut options = WorldOptions::one(Lane::keyed(40));
    options.settings.max_starts_per_tick = 15;
    let world = World::new(options).await;
    world.submit(&post("p1", "keyed", 35)).await;
    assert_eq!(tick(&world).await, 15);
    assert_eq!(tick(&world).await, 15);
    assert_eq!(tick(&world).await, 5);
    assert_eq!(in_flight(&world, "p1").await, 35);
    assert_eq!(world.job(&job_key("p1", "s35")).await.status, Status::Claimed);
}
