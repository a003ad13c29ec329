//! Filling free slots: take the slot, then claim the job. A refused claim passes its slot to the next candidate.

use crate::Ports;
use futures_util::stream::{self, StreamExt as _};
use glassline_protocol::ids::{SlotNo, Token};
use glassline_protocol::ports::Candidate;
use glassline_protocol::row::{JobRow, LaneRow, SlotKey};
use glassline_protocol::settings::Settings;
use glassline_protocol::settle::{self, Fault, Settled};
use glassline_protocol::transition::{JobTransition, SlotTransition};
use std::collections::VecDeque;
use std::sync::Mutex;

/// A slot that may be given out, with the token seen in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FreeSlot {
    pub(crate) number: SlotNo,
    pub(crate) seen: Option<Token>,
}

/// What filling came to.
#[derive(Default)]
pub(crate) struct Filled {
    /// Jobs claimed, each under its own token.
    pub(crate) claimed: Vec<JobRow>,
    /// Slots that are still ours to give out.
    pub(crate) left: Vec<FreeSlot>,
}

enum One {
    Claimed(Box<JobRow>),
    /// No candidate was left for it.
    Left(FreeSlot),
    /// Another dispatcher took it, or nobody can tell.
    Lost,
}

/// Fills slots with candidates, best first, several at a time.
pub(crate) async fn fill<P: Ports>(
    ports: &P,
    settings: &Settings,
    lane: &LaneRow,
    slots: Vec<FreeSlot>,
    candidates: Vec<Candidate>,
) -> Filled {
    let queue = Mutex::new(VecDeque::from(candidates));
    let outcomes: Vec<One> = stream::iter(slots)
        .map(|slot| one(ports, settings, lane, slot, &queue))
        .buffer_unordered(settings.claim_concurrency.max(1))
        .collect()
        .await;
    let mut filled = Filled::default();
    for outcome in outcomes {
        match outcome {
            One::Claimed(job) => filled.claimed.push(*job),
            One::Left(slot) => filled.left.push(slot),
            One::Lost => {}
        }
    }
    filled
}

fn next(queue: &Mutex<VecDeque<Candidate>>) -> Option<Candidate> {
    queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop_front()
}

async fn one<P: Ports>(
    ports: &P,
    settings: &Settings,
    lane: &LaneRow,
    mut slot: FreeSlot,
    queue: &Mutex<VecDeque<Candidate>>,
) -> One {
    while let Some(candidate) = next(queue) {
        let token = ports.fresh_token();
        match claim(ports, settings, lane, &slot, &candidate, &token).await {
            Ok(Claim::Claimed(job)) => return One::Claimed(job),
            Ok(Claim::SlotGone) | Err(_) => return One::Lost,
            // The slot names the refused claim now; whoever gives it out next must have seen that.
            Ok(Claim::JobGone) => slot.seen = Some(token),
        }
    }
    One::Left(slot)
}

enum Claim {
    Claimed(Box<JobRow>),
    SlotGone,
    JobGone,
}

async fn claim<P: Ports>(
    ports: &P,
    settings: &Settings,
    lane: &LaneRow,
    slot: &FreeSlot,
    candidate: &Candidate,
    token: &Token,
) -> Result<Claim, Fault> {
    let now_ms = ports.now_ms();
    let key = SlotKey { lane: lane.key.clone(), number: slot.number };
    let take = SlotTransition::Take {
        seen: slot.seen.clone(),
        job: candidate.job.clone(),
        attempt: candidate.attempt,
        token: token.clone(),
        now_ms,
    };
    if let Settled::Refused(_) = settle::slot(ports, settings.write_repeats, &key, &take).await? {
        return Ok(Claim::SlotGone);
    }
    let claim = JobTransition::Claim {
        seen: candidate.attempt,
        token: token.clone(),
        slot: slot.number,
        lease_ms: now_ms.saturating_add(settings.claim_lease_ms),
        price_micros: lane.price_micros,
    };
    match settle::job(ports, settings.write_repeats, &candidate.job, &claim).await? {
        Settled::Mine(row) => Ok(Claim::Claimed(Box::new(row))),
        Settled::Refused(_) => Ok(Claim::JobGone),
    }
}
