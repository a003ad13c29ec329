//! What a job costs: counted by the store's own consumed capacity and the queues' own counters.

use crate::support::{first_lane, rendering, s1, stands, take_all};
use glassline_protocol::ids::JobKey;
use glassline_protocol::message::{Finish, Message, Subject};
use glassline_protocol::ports::{Created, NewRow, Store as _};
use glassline_protocol::row::Status;
use glassline_sqs::Outgoing;
use glassline_tests::{Driven, Lane, MINUTE_MS, Plan, World, WorldOptions, post};
use std::collections::{BTreeMap, BTreeSet};

const JOBS: usize = 50;

/// Capacity units consumed.
#[derive(Clone, Copy, Debug, Default)]
struct Units {
    read: f64,
    write: f64,
}

/// What the handlers' store reported since the last time. A refused write consumes a unit too, though the refusal doesn't
/// say so.
fn take_units(world: &World) -> Units {
    let mut units = Units::default();
    for (operation, used) in world.ports.store.meter().take() {
        let refused = operation.ends_with("refused");
        match operation.split(' ').next().unwrap() {
            "GetItem" | "BatchGetItem" | "Query" => units.read += used.units,
            "PutItem" | "UpdateItem" | "TransactWriteItems" if refused => {
                units.write += f64::from(u32::try_from(used.requests).unwrap());
            }
            "PutItem" | "UpdateItem" | "TransactWriteItems" => units.write += used.units,
            _ => panic!("{operation} is neither a read nor a write"),
        }
    }
    units
}

/// Messages sent so far, by queue.
fn sent(world: &World) -> BTreeMap<String, u64> {
    world.engine.counts().into_iter().map(|(queue, counts)| (queue, counts.sent)).collect()
}

fn each(units: f64, jobs: usize) -> f64 {
    units / f64::from(u32::try_from(jobs).unwrap())
}

/// Delivers until all jobs have ended, without any full tick: the slots are given out by wakes. Where the lane isn't
/// polled, a finish message without outputs comes for every completed task, as a callback's.
async fn by_wakes(world: &World, polled: bool) -> Driven {
    let mut driven = Driven::default();
    let mut called = BTreeSet::new();
    for _ in 0..2_000 {
        while world.deliver(&Plan::none(), 1, &mut driven).await {}
        let jobs = world.jobs("p1").await;
        if jobs.iter().all(|job| job.status.ended()) {
            return driven;
        }
        world.clock.manual.advance(1_000);
        for job in jobs.iter().filter(|job| !polled && job.status == Status::Rendering) {
            let (Some(task), Some(token)) = (job.task.clone(), job.token.clone()) else { continue };
            if called.insert(task.to_string()) {
                let JobKey { parent, member } = job.key.clone();
                let subject = Subject { parent, member, lane: job.lane.clone(), attempt: job.attempt, token };
                let finish = Message::Finish(Finish { subject, task, outputs: vec![], resumes: 0 });
                world.engine.send("finish", Outgoing::new(finish.to_body())).await.unwrap();
            }
        }
    }
    panic!("it doesn't end: {driven:?}");
}

/// A post on a lane of capacity 4, and what its parts consumed.
async fn happy(lane: Lane, about: &str) -> (Units, Units, Units) {
    let polled = lane.polled;
    let world = World::new(WorldOptions::one(lane)).await;
    let set_up = take_units(&world);
    world.submit(&post("p1", "keyed", JOBS)).await;
    let created = take_units(&world);
    // A head alone, to count it apart.
    let mut head = world.parent("p1").await.head.unwrap();
    head.key.0 = "POST#another".parse().unwrap();
    assert_eq!(world.ports.create(&NewRow::Head(head)).await, Created::Created);
    let head = take_units(&world).write;
    take_all(&world, "wake").await;
    let sent_before = sent(&world);

    // One full tick, as the schedule makes it once a minute, gives out the four slots.
    assert_eq!(world.tick_lane(&first_lane(&world).await).await.started, 4);
    let full = take_units(&world);
    // From here on every slot is given out by the wake of the job before.
    let driven = by_wakes(&world, polled).await;
    let steady = take_units(&world);
    let jobs = world.jobs("p1").await;
    assert!(jobs.iter().all(|job| (job.status, job.attempt) == (Status::Succeeded, 1)), "{driven:?}");
    world.check(&["p1"], true).await;

    let polls = driven.notes.iter().filter(|note| ["running", "completed"].contains(&note.as_str())).count();
    assert_eq!(polls, if polled { JOBS } else { 0 }, "each is polled once, if at all: {driven:?}");
    let messages: BTreeMap<String, u64> = sent(&world)
        .into_iter()
        .map(|(queue, count)| (queue.clone(), count - sent_before.get(&queue).copied().unwrap_or(0)))
        .collect();
    println!(
        "{about}: {JOBS} jobs, capacity 4. Lane and slots {set_up:?}. Creation {created:?}, of that head {head}. \
         A full tick with 4 starts {full:?}. By wakes {steady:?}, {polls} polls. Messages {messages:?}."
    );
    println!(
        "{about}, per job: creation {:.2} write units; then {:.2} write units and {:.2} read units, of those {:.2} for \
         polls.",
        each(created.write - head, JOBS),
        each(full.write + steady.write, JOBS),
        each(steady.read, JOBS),
        each(f64::from(u32::try_from(polls).unwrap()), JOBS),
    );
    assert!(each(created.write - head, JOBS) <= 3.0);
    let total: u64 = messages.values().sum();
    assert!(total <= (4 * JOBS + polls) as u64, "{total} messages: {messages:?}");
    // The full tick reads what it does once a minute, however many jobs there are; its writes are jobs' own.
    assert!(
        each(steady.read, JOBS) <= 4.0 + each(f64::from(u32::try_from(polls).unwrap()), JOBS),
        "{steady:?}"
    );
    (created, full, steady)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_costs_what_the_design_allows() {
    let (_, full, steady) = happy(Lane::keyed(4), "plain lane").await;
    assert!(each(full.write + steady.write, JOBS) <= 7.0);
    assert!(full.read <= 16.0, "{full:?}");
}

/// The design's happy path: a callback, no polls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_with_a_callback_costs_what_the_design_allows() {
    let lane = Lane { polled: false, ..Lane::keyed(4) };
    let (_, full, steady) = happy(lane, "callbacks").await;
    assert!(each(full.write + steady.write, JOBS) <= 7.0);
    assert!(each(steady.read, JOBS) <= 4.0);
}

/// A lane that counts adds one write per tick.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_with_rate_and_budget_adds_a_write_a_tick() {
    let mut lane = Lane::keyed(4);
    lane.row.starts_per_minute = Some(10_000);
    lane.row.price_micros = Some(40_000);
    lane.row.budget_micros_per_day = Some(1_000_000_000);
    let (_, full, steady) = happy(lane, "lane with rate and budget").await;
    assert!(each(full.write + steady.write, JOBS) <= 8.0);
}

/// A long render: a read and a message a poll, at most a write a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_render_adds_a_read_a_poll_and_at_most_a_write_a_minute() {
    const MINUTES: u32 = 25;
    let lane =
        Lane { render_ms: u64::from(MINUTES) * MINUTE_MS, deadline_ms: 60 * MINUTE_MS, ..Lane::keyed(1) };
    let world = World::new(WorldOptions::one(lane)).await;
    rendering(&world, "p1").await;
    take_units(&world);
    let before = sent(&world);
    let driven = by_wakes(&world, true).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
    let units = take_units(&world);
    let polls = driven.notes.iter().filter(|note| ["running", "completed"].contains(&note.as_str())).count();
    let after = sent(&world);
    let messages: u64 = after.iter().map(|(queue, count)| count - before.get(queue).unwrap_or(&0)).sum();
    println!(
        "{MINUTES} minutes of rendering: {units:?}, {polls} polls, {messages} messages after the submit"
    );
    // What comes after the submit: outcome and success; the finisher's read and an idle wake's.
    assert!(units.write <= 2.0 + f64::from(MINUTES), "{units:?}");
    assert!(units.read <= 4.0 + f64::from(u32::try_from(polls).unwrap()), "{units:?}");
    assert!(messages <= 4 + polls as u64);
    assert_eq!(world.renders_of(&s1("p1")), 1);
}
