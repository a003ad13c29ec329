//! What a job costs: counted by the store's own consumed capacity and the queues' own counters.

use crate::support::{HOUR_MS, first_lane, take_all};
use glassline_aws::dynamo::Used;
use glassline_protocol::row::Status;
use glassline_tests::{Driven, Lane, Plan, World, WorldOptions, post};
use std::collections::BTreeMap;

const JOBS: usize = 50;

/// Capacity units consumed.
#[derive(Clone, Copy, Debug, Default)]
struct Units {
    read: f64,
    write: f64,
}

/// Sums what the store reported. A refused write consumes as much as one of its row's size, though the refusal doesn't
/// say so; none is expected in a happy life.
fn units(used: &BTreeMap<&'static str, Used>) -> Units {
    let mut units = Units::default();
    for (operation, used) in used {
        match *operation {
            "GetItem" | "BatchGetItem" | "Query" => units.read += used.units,
            "PutItem" | "UpdateItem" | "TransactWriteItems" => units.write += used.units,
            refused if refused.ends_with("refused") => units.write += used.requests as f64,
            other => panic!("{other} is neither a read nor a write"),
        }
    }
    units
}

fn take_units(world: &World) -> Units {
    units(&world.ports.store.meter().take())
}

/// Messages sent so far, by queue.
fn sent(world: &World) -> BTreeMap<String, u64> {
    world.engine.counts().into_iter().map(|(queue, counts)| (queue, counts.sent)).collect()
}

/// Delivers until all jobs have ended, without any full tick: the slots are given out by wakes.
async fn by_wakes(world: &World, limit_ms: u64) -> Driven {
    let mut driven = Driven::default();
    let end_ms = world.now_ms() + limit_ms;
    while world.now_ms() < end_ms {
        while world.deliver(&Plan::none(), 1, &mut driven).await {}
        // Not counted: it is only this test that looks.
        let meter = world.ports.store.meter().read();
        let ended = world.jobs("p1").await.iter().all(|job| job.status.ended());
        restore(world, meter);
        if ended {
            return driven;
        }
        world.clock.manual.advance(1_000);
    }
    panic!("it doesn't end: {driven:?}");
}

/// Takes what was counted since off the meter again.
fn restore(world: &World, before: BTreeMap<&'static str, Used>) {
    LOOKS.with_borrow_mut(|looks| {
        let after = world.ports.store.meter().read();
        for (operation, used) in after {
            let seen = before.get(operation).copied().unwrap_or_default();
            let look = looks.entry(operation).or_default();
            look.requests += used.requests - seen.requests;
            look.units += used.units - seen.units;
        }
    });
}

thread_local! {
    /// What this thread's test itself read.
    static LOOKS: std::cell::RefCell<BTreeMap<&'static str, Used>> = const { std::cell::RefCell::new(BTreeMap::new()) };
}
