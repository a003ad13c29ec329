//! Random histories of a queue against a plain model of what SQS documents.

use std::collections::BTreeMap;

use glassline_sqs::{Engine, ManualClock, Outgoing, QueueSettings, Redrive, SqsError};
use proptest::prelude::*;

use crate::common::{START_MS, engine, fifo};

#[derive(Debug, Clone)]
enum Step {
    Send {
        group: u8,
        delay_ms: u64,
    },
    Receive {
        max: usize,
        visibility_ms: u64,
    },
    /// By the n-th receipt ever given.
    Delete(prop::sample::Index),
    Change(prop::sample::Index, u64),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let times = prop::sample::select(vec![0_u64, 1, 2, 3, 5, 8]);
    prop_oneof![
        3 => (0_u8..3, times.clone()).prop_map(|(group, delay_ms)| Step::Send { group, delay_ms }),
        4 => (1_usize..=10, times.clone()).prop_map(|(max, visibility_ms)| Step::Receive { max, visibility_ms }),
        2 => any::<prop::sample::Index>().prop_map(Step::Delete),
        1 => (any::<prop::sample::Index>(), times).prop_map(|(n, ms)| Step::Change(n, ms)),
        2 => (1_u64..5).prop_map(Step::Advance),
    ]
}

/// A message of the model.
#[derive(Debug, Clone)]
struct Entry {
    group: u8,
    visible_ms: u64,
    receives: u32,
    receipt: Option<String>,
}

struct Model {
    fifo: bool,
    max_receives: u32,
    now_ms: u64,
    /// By body, which is the order of sending.
    stored: BTreeMap<u32, Entry>,
    dead: Vec<u32>,
    receipts: Vec<(String, u32)>,
    next: u32,
}

impl Model {
    fn in_flight(&self, entry: &Entry) -> bool {
        entry.receipt.is_some() && entry.visible_ms > self.now_ms
    }

    /// The messages that may be received now: for a standard queue any order will do.
    fn available(&self) -> Vec<u32> {
        let blocked = |group| self.stored.values().any(|entry| entry.group == group && self.in_flight(entry));
        let open = |entry: &Entry| entry.visible_ms <= self.now_ms && !(self.fifo && blocked(entry.group));
        self.stored.iter().filter(|(_, entry)| open(entry)).map(|(body, _)| *body).collect()
    }
}

async fn run(fifo_queue: bool, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let clock = ManualClock::new(START_MS);
    let engine = engine(&clock);
    let base = if fifo_queue { fifo() } else { QueueSettings::default() };
    let (queue, dead) = if fifo_queue { ("q.fifo", "d.fifo") } else { ("q", "d") };
    engine.create_queue(dead, base.clone()).await.unwrap();
    let redrive = Some(Redrive { dead_letter_queue: dead.to_owned(), max_receives: 3 });
    engine.create_queue(queue, QueueSettings { redrive, ..base }).await.unwrap();
    let mut model = Model {
        fifo: fifo_queue,
        max_receives: 3,
        now_ms: START_MS,
        stored: BTreeMap::new(),
        dead: Vec::new(),
        receipts: Vec::new(),
        next: 0,
    };
    for step in steps {
        take(&engine, &clock, queue, &mut model, step).await?;
        let depth = engine.depth(queue).await.unwrap();
        let in_flight = model.stored.values().filter(|entry| model.in_flight(entry)).count();
        let visible = model.stored.values().filter(|entry| entry.visible_ms <= model.now_ms).count();
        prop_assert_eq!((depth.visible, depth.in_flight), (visible as u64, in_flight as u64));
        prop_assert_eq!(depth.delayed, (model.stored.len() - visible - in_flight) as u64);
    }
    let dead = engine.peek(dead, usize::MAX).await.unwrap();
    let mut dead = dead.into_iter().map(|message| message.body.parse::<u32>().unwrap()).collect::<Vec<_>>();
    dead.sort_unstable();
    model.dead.sort_unstable();
    prop_assert_eq!(dead, model.dead);
    Ok(())
}

async fn take(
    engine: &Engine,
    clock: &ManualClock,
    queue: &str,
    model: &mut Model,
    step: Step,
) -> Result<(), TestCaseError> {
    match step {
        Step::Advance(ms) => {
            clock.advance(ms);
            model.now_ms += ms;
        }
        Step::Send { group, delay_ms } => {
            let body = model.next;
            model.next += 1;
            let message = Outgoing::new(body.to_string()).in_group(group.to_string());
            let delay_ms = if model.fifo { 0 } else { delay_ms };
            let message = if model.fifo {
                message.deduplicated_by(body.to_string())
            } else {
                message.delayed(delay_ms)
            };
            engine.send(queue, message).await.unwrap();
            let entry = Entry { group, visible_ms: model.now_ms + delay_ms, receives: 0, receipt: None };
            model.stored.insert(body, entry);
        }
        Step::Receive { max, visibility_ms } => receive(engine, queue, model, max, visibility_ms).await?,
        Step::Delete(index) => {
            let Some((receipt, body)) = pick(model, &index) else { return Ok(()) };
            let result = engine.delete(queue, std::slice::from_ref(&receipt)).await;
            let entry = model.stored.get(&body).cloned();
            let current = entry.as_ref().is_some_and(|entry| entry.receipt.as_ref() == Some(&receipt));
            let expired = entry.as_ref().is_some_and(|entry| entry.visible_ms <= model.now_ms);
            let refused = model.fifo && entry.is_some() && (!current || expired);
            prop_assert_eq!(result.is_err(), refused, "{:?}", result);
            if current && !refused {
                model.stored.remove(&body);
            }
        }
        Step::Change(index, ms) => {
            let Some((receipt, body)) = pick(model, &index) else { return Ok(()) };
            let result = engine.change_visibility(queue, &receipt, ms).await;
            let (fifo, now_ms) = (model.fifo, model.now_ms);
            match model.stored.get_mut(&body) {
                Some(entry)
                    if entry.receipt.as_ref() == Some(&receipt) && !(fifo && entry.visible_ms <= now_ms) =>
                {
                    prop_assert_eq!(result, Ok(()));
                    entry.visible_ms = now_ms + ms;
                }
                Some(_) => prop_assert_eq!(result, Err(SqsError::MessageNotInflight)),
                None => {
                    let gone = matches!(result, Err(SqsError::InvalidParameterValue { .. }));
                    prop_assert!(gone, "{:?}", result);
                }
            }
        }
    }
    Ok(())
}

fn pick(model: &Model, index: &prop::sample::Index) -> Option<(String, u32)> {
    (!model.receipts.is_empty()).then(|| index.get(&model.receipts).clone())
}

async fn receive(
    engine: &Engine,
    queue: &str,
    model: &mut Model,
    max: usize,
    visibility_ms: u64,
) -> Result<(), TestCaseError> {
    let available = model.available();
    let found = engine.receive(queue, max, 0, Some(visibility_ms)).await.unwrap();
    let bodies = found.iter().map(|message| message.body.parse::<u32>().unwrap()).collect::<Vec<_>>();
    let alive = |body: &u32| model.stored[body].receives < model.max_receives;
    let fresh = available.iter().copied().filter(alive).collect::<Vec<_>>();
    prop_assert_eq!(bodies.len(), max.min(fresh.len()), "all that there are, up to the maximum");
    prop_assert!(bodies.iter().all(|body| fresh.contains(body)), "{:?} of {:?}", bodies, fresh);
    if model.fifo {
        prop_assert_eq!(&bodies[..], &fresh[..bodies.len()], "in the order of sending");
    }
    for message in found {
        let body = message.body.parse::<u32>().unwrap();
        let entry = model.stored.get_mut(&body).unwrap();
        entry.receives += 1;
        entry.visible_ms = model.now_ms + visibility_ms;
        entry.receipt = Some(message.receipt.clone());
        prop_assert_eq!(message.receives, entry.receives);
        model.receipts.push((message.receipt, body));
    }
    // Those that had all their receives and were in the way are dead now.
    let stored = engine.peek(queue, usize::MAX).await.unwrap();
    let stored = stored.into_iter().map(|message| message.body.parse::<u32>().unwrap()).collect::<Vec<_>>();
    for body in available.into_iter().filter(|body| !stored.contains(body)) {
        prop_assert_eq!(model.stored.remove(&body).map(|entry| entry.receives), Some(model.max_receives));
        model.dead.push(body);
    }
    prop_assert_eq!(stored.len(), model.stored.len());
    Ok(())
}

fn check(fifo_queue: bool, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run(fifo_queue, steps))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_standard_queue_does_what_the_model_does(steps in prop::collection::vec(step(), 1..60)) {
        check(false, steps)?;
    }

    #[test]
    fn a_fifo_queue_does_what_the_model_does(steps in prop::collection::vec(step(), 1..60)) {
        check(true, steps)?;
    }
}
