//! Many dispatchers at once, behind a network that loses requests and replies and a table with conflicts.

use crate::support::LOCK_MS;
use glassline_aws::dynamo::DynamoStore;
use glassline_dispatch::open_episodes;
use glassline_local::proxy::{FaultKind, FaultRule, Proxy, ProxyFaults};
use glassline_protocol::row::{EpisodeStatus, season_and_episode};
use glassline_protocol::settings::Settings;
use glassline_tests::{Lane, Ports, TABLE, World, WorldOptions, series_key};
use std::collections::BTreeSet;
use std::time::Instant;
use tokio::net::TcpListener;

const DISPATCHERS: usize = 32;
const EPISODES: u32 = 300;

/// The world's ports with a table behind `proxy`; the client repeats nothing, so that every lost reply is the handler's
/// to resolve.
async fn behind(world: &World, faults: ProxyFaults) -> (Proxy, Ports) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(dynoxide::server::serve_with_shutdown(listener, world.db.clone(), std::future::pending()));
    let proxy = Proxy::start(address, faults).await.unwrap();
    let config = world.dynamo.config().to_builder();
    let config = config
        .retry_config(aws_sdk_dynamodb::config::retry::RetryConfig::disabled())
        .endpoint_url(proxy.url())
        .build();
    let client = aws_sdk_dynamodb::Client::from_conf(config);
    let ports = Ports { store: DynamoStore::new(client, TABLE), ..world.ports.clone() };
    (proxy, ports)
}

fn faults() -> ProxyFaults {
    let rules = vec![
        FaultRule::new(FaultKind::Conflict, 15).on("TransactWriteItems"),
        FaultRule::new(FaultKind::LoseReply, 10).on("TransactWriteItems"),
        FaultRule::new(FaultKind::LoseRequest, 5).on("TransactWriteItems"),
        FaultRule::new(FaultKind::Conflict, 5).on("UpdateItem"),
        FaultRule::new(FaultKind::LoseReply, 10).on("UpdateItem"),
        FaultRule::new(FaultKind::LoseRequest, 5).on("UpdateItem"),
        FaultRule::new(FaultKind::ThroughputExceeded, 1),
        FaultRule::new(FaultKind::LoseReply, 2),
    ];
    ProxyFaults { seed: 7, rules }
}

/// One dispatcher: ticks until nothing is left for it to do now. How often a tick failed.
async fn dispatcher(ports: Ports, settings: Settings) -> usize {
    let (mut idle, mut failed) = (0, 0);
    while idle < 2 {
        match Box::pin(open_episodes(&ports, &settings, &series_key("main"))).await {
            Ok(opened) if opened.episodes.is_empty() => idle += 1,
            Ok(_) => idle = 0,
            Err(_) => failed += 1,
        }
    }
    failed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_two_dispatchers_make_three_hundred_episodes() {
    let settings = Settings { max_openings_per_tick: 3, ..Settings::default() };
    let world = World::new(WorldOptions { settings, ..WorldOptions::one(Lane::keyed(1)) }).await;
    world.add_series("main", "keyed", EPISODES).await;
    world.add_stories("main", EPISODES as usize).await;
    let (proxy, ports) = behind(&world, faults()).await;
    let (start, mut rounds, mut failed) = (Instant::now(), 0, 0);
    while world.series("main").await.next <= EPISODES {
        assert!(rounds < 20, "it doesn't come to an end: {:?}", world.series("main").await);
        rounds += 1;
        let dispatchers: Vec<_> = (0..DISPATCHERS)
            .map(|_| tokio::spawn(dispatcher(ports.clone(), world.settings.clone())))
            .collect();
        for dispatcher in dispatchers {
            failed += dispatcher.await.unwrap();
        }
        // What a lost reply left locked is free again after a minute.
        world.clock.manual.advance(LOCK_MS);
    }
    let (seconds, counts) = (start.elapsed().as_secs_f64(), proxy.counts());
    let rate = f64::from(EPISODES) / seconds;
    println!("{rate:.1} episodes/s; {rounds} rounds, {failed} failed ticks, {counts:?}");
    assert!(counts.conflicts > 0 && counts.lost_replies > 0 && counts.lost_requests > 0, "{counts:?}");
    let views = world.check_series_at_rest("main").await;
    let series = world.series("main").await;
    assert_eq!((series.next, series.open), (EPISODES + 1, EPISODES));
    let mut stories = BTreeSet::new();
    for (view, number) in views.iter().zip(1..) {
        let head = &view.head;
        assert_eq!((head.key.number, head.status), (number, EpisodeStatus::Open));
        assert!(stories.insert(head.story.clone()), "{} is in two episodes", head.story);
        let place = (number - 1) / 10 * 10 + 1;
        assert_eq!(season_and_episode(number), (place / 10 + 1, number - place + 1));
    }
    assert_eq!(stories.len(), EPISODES as usize);
}
