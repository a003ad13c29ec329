//! The transaction that puts an outcome together with a check of its job: all or nothing, and the reason told.

use crate::random::Random;
use glassline_protocol::ids::JobKey;
use glassline_protocol::ports::{NotStarted, OutcomePut, Store as _};
use glassline_protocol::row::outcome::{AttemptEnd, Cost, Failure};
use glassline_protocol::row::{JobRow, OutcomeKey, OutcomeRow};
use glassline_protocol::rule::Rule;
use glassline_protocol::vault::Asset;
use glassline_tests::{Lane, World, WorldOptions, job_key, lane_name};

impl Random {
    fn outcome(&mut self, job: &JobKey, attempt: u32) -> OutcomeRow {
        let end = AttemptEnd {
            key: OutcomeKey { job: job.clone(), attempt },
            lane: lane_name("a"),
            at_ms: self.ms(),
            started_ms: self.maybe(Self::ms),
            task: self.maybe(Self::task),
            price_micros: self.maybe(Self::ms),
        };
        match self.below(3) {
            0 => OutcomeRow::cancelled(end, &self.reason(), Cost::AtRisk),
            1 => OutcomeRow::stored(
                end,
                &Asset {
                    location: "POST#p/SHOT#s/1-00.png".into(),
                    sha256: "00".repeat(32),
                    size_bytes: self.ms(),
                    content_type: "image/png".into(),
                    width_px: self.maybe(Self::small),
                    height_px: self.maybe(Self::small),
                    duration_ms: self.maybe(Self::ms),
                    frames: self.maybe(Self::ms),
                },
            ),
            _ => OutcomeRow::failed(
                end,
                Failure {
                    class: self.class(),
                    reason: self.reason(),
                    counted: self.chance(50),
                    retry_at_ms: self.maybe(Self::ms),
                    cost: Cost::None,
                },
            ),
        }
    }
}

#[derive(Debug, Default)]
struct Seen {
    recorded: u32,
    repeated: u32,
    exists: u32,
    moved: u32,
}

async fn case(world: &World, random: &mut Random, number: u32, seen: &mut Seen) {
    let key = job_key("p", &format!("s{number}"));
    let only_if = NotStarted { ours: random.ours(), run: random.run() };
    let rule = Rule { when: only_if.when(), then: vec![], mine: vec![] };
    let job: Option<JobRow> = random.row_for(|random| random.job(key.clone()), &rule);
    let outcome = random.outcome(&key, only_if.ours.attempt);
    let there = match random.below(4) {
        0 => Some(outcome.clone()),
        1 => Some(random.outcome(&key, only_if.ours.attempt)),
        _ => None,
    };
    if let Some(job) = &job {
        world.put(job).await;
    }
    if let Some(there) = &there {
        world.put(there).await;
    }
    let checked = random.chance(80);
    let put = world.ports.put_outcome(&outcome, checked.then_some(&only_if)).await;
    let about = format!("{outcome:?} if {only_if:?} ({checked}) with {there:?} of {job:?}");
    let holds = !checked || job.as_ref().is_some_and(|job| rule.guard(job));
    let expected = match &there {
        Some(there) if *there == outcome => OutcomePut::Recorded,
        Some(there) => OutcomePut::Exists(Box::new(there.clone())),
        None if holds => OutcomePut::Recorded,
        None => OutcomePut::Moved,
    };
    assert_eq!(put, expected, "{about}");
    match &put {
        OutcomePut::Recorded if there.is_some() => seen.repeated += 1,
        OutcomePut::Recorded => seen.recorded += 1,
        OutcomePut::Exists(_) => seen.exists += 1,
        OutcomePut::Moved => seen.moved += 1,
        OutcomePut::Unknown => panic!("{about}: no answer"),
    }
    let stored = if there.is_none() && holds { Some(outcome.clone()) } else { there };
    assert_eq!(world.get::<OutcomeRow>(&outcome.key).await, stored, "{about}");
    assert_eq!(world.get::<JobRow>(&key).await, job, "{about}: the job is only looked at");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn put_with_the_proof_that_nothing_was_started() {
    let world = World::new(WorldOptions::one(Lane::keyed(1))).await;
    let mut random = Random::new(0x0c0e);
    let mut seen = Seen::default();
    for number in 0..600 {
        case(&world, &mut random, number, &mut seen).await;
    }
    println!("{seen:?}");
    assert!(seen.recorded >= 100 && seen.repeated >= 60, "{seen:?}");
    assert!(seen.exists >= 60 && seen.moved >= 60, "{seen:?}");
}
