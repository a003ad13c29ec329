//! A tick costs what it starts, however long the backlog is.

use crate::support::{first_lane, take_all};
use dynoxide::{AttributeValue, ImportOptions};
use glassline_aws::meter::Used;
use glassline_protocol::ids::JobKey;
use glassline_protocol::intake::rows_of;
use glassline_protocol::message::{FreedSlot, Message, Wake};
use glassline_protocol::ports::Store as _;
use glassline_protocol::row::{Field, JobRow, Row, RowKey, Status, Value};
use glassline_tests::{Lane, Plan, TABLE, World, WorldOptions, job_key, lane_name, post};
use std::collections::BTreeMap;

fn item<R: Row>(row: &R) -> dynoxide::Item {
    let key = row.key().primary();
    let mut item = dynoxide::Item::new();
    item.insert("pk".into(), AttributeValue::S(key.pk));
    item.insert("sk".into(), AttributeValue::S(key.sk));
    for field in R::Field::ALL {
        let Some(value) = row.get(*field) else { continue };
        let attribute = match value {
            Value::Text(text) => AttributeValue::S(text),
            Value::Number(number) => AttributeValue::N(number.to_string()),
            Value::Flag(flag) => AttributeValue::BOOL(flag),
        };
        item.insert(field.name().into(), attribute);
    }
    item
}

/// The units that a full tick and a wake consumed on a lane with this many ready jobs.
struct Cost {
    full: BTreeMap<&'static str, Used>,
    wake: BTreeMap<&'static str, Used>,
}

async fn with_ready_jobs(jobs: usize) -> Cost {
    let world = World::new(WorldOptions::one(Lane::keyed(4))).await;
    let lane = world.look.lane(&lane_name("keyed")).await.unwrap().unwrap();
    let (_, rows) = rows_of(&post("p0", "keyed", 1), &lane, world.now_ms(), "2025-11");
    let (spec, job) = rows.into_iter().next().unwrap();
    let keys: Vec<JobKey> =
        (0..jobs).map(|n| job_key(&format!("p{:03}", n / 1_000), &format!("s{:03}", n % 1_000))).collect();
    for (part, keys) in keys.chunks(20_000).enumerate() {
        // Every job has its own rank, as jobs have that weren't created in the same millisecond.
        let items = keys.iter().enumerate().map(|(n, key)| {
            let rank =
                glassline_protocol::rank::rank(500, world.now_ms() + (part * 20_000 + n) as u64, 0, None);
            let entry = glassline_protocol::rank::ready_entry(&lane.key, &rank, 0);
            item(&JobRow {
                key: key.clone(),
                rank,
                queue_pk: Some(entry.pk),
                queue_sk: Some(entry.sk),
                ..job.clone()
            })
        });
        world.db.import_items(TABLE, items.collect(), ImportOptions::default()).unwrap();
    }
    for key in keys.iter().take(20) {
        let mut spec = spec.clone();
        spec.key.0 = key.clone();
        world.put(&spec).await;
    }
    let meter = world.ports.store.meter();
    let _ = meter.take();
    assert_eq!(world.tick_lane(&first_lane(&world).await).await.started, 4);
    let full = meter.take();
    // The first ones by rank are claimed. One succeeds, and its wake starts the next.
    let first = world.job(&keys[0]).await;
    assert_eq!(first.status, Status::Claimed);
    assert_eq!(world.job(&keys[4]).await.status, Status::Ready);
    take_all(&world, "render").await;
    let mut ended = first.clone();
    (ended.status, ended.token, ended.lease_ms) = (Status::Succeeded, None, None);
    world.put(&ended).await;
    let freed = FreedSlot { slot: first.slot.unwrap(), token: first.token.unwrap() };
    let wake = Message::Wake(Wake { lane: lane.key.clone(), freed: Some(freed) });
    world.handle(&Plan::none(), wake).await.unwrap().unwrap();
    assert_eq!(world.job(&keys[4]).await.status, Status::Claimed);
    let wake = meter.take();
    Cost { full, wake }
}

fn read(used: &BTreeMap<&'static str, Used>) -> f64 {
    let is_read =
        |name: &str| name.starts_with("Get") || name.starts_with("BatchGet") || name.starts_with("Query");
    used.iter().filter(|(name, _)| is_read(name)).map(|(_, used)| used.units).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_100_000_jobs_costs_a_tick_no_more_than_one_of_100() {
    let few = with_ready_jobs(100).await;
    let many = with_ready_jobs(100_000).await;
    println!("full tick: {:?}; {:?}", few.full, many.full);
    println!("wake: {:?}; {:?}", few.wake, many.wake);
    assert_eq!(few.full, many.full);
    assert_eq!(few.wake, many.wake);
    assert!(read(&many.wake) <= 4.0 && read(&many.full) <= 16.0);
}
