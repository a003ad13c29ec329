//! One tick of one lane.

use crate::claim::{FreeSlot, fill};
use crate::handoff::hand_over;
use crate::{Look, Ports, Seen, Ticked};
use glassline_protocol::admission::{SlotState, authorise, judge, merge, paused_for, room};
use glassline_protocol::ids::{JobKey, LaneName, Ms};
use glassline_protocol::message::{Message, Rollback, RollbackCause, Subject};
use glassline_protocol::ports::{Candidate, Envelope, Unread};
use glassline_protocol::rank::{held_due_ms, next_attempt, rank_created_ms};
use glassline_protocol::row::{JobRow, LaneRow, SlotRow};
use glassline_protocol::settings::Settings;
use glassline_protocol::settle::{self, Fault, Settled};
use glassline_protocol::sign::Secrets;
use glassline_protocol::steps::send_all;
use glassline_protocol::transition::JobTransition;
use std::collections::{HashMap, HashSet, VecDeque};

/// Most jobs read at once.
const READ_LIMIT: usize = 100;
/// Rounds of one tick: each needs room left by refused claims, or more candidates than one page.
const MAX_ROUNDS: usize = 20;
/// Rounds without a single claim before the tick gives up: other dispatchers are taking what the index still shows.
const MAX_BARREN_ROUNDS: usize = 3;
/// Candidates read beyond the slots to fill, so that claims lost to another dispatcher don't leave slots empty.
const SPARE_CANDIDATES: usize = 8;
/// Held jobs counted. As many entries of the index are 20 KB at most, so 2.5 read units, where that many are held.
pub const HELD_LIMIT: usize = 100;
/// Later than any time that an index entry can name.
const NO_BOUND_MS: Ms = 99_999_999_999_999;

/// Gives out the free slots of a lane, as far as its limits and ready jobs allow.
///
/// `until_ms`: no new round is begun after it.
///
/// # Errors
/// [`Fault`] when the lane can't be read or written now; jobs claimed by then are handed over or rolled back.
pub async fn tick<P: Ports>(
    ports: &P,
    settings: &Settings,
    secrets: &Secrets,
    lane_name: &LaneName,
    look: Look,
    until_ms: Ms,
) -> Result<Ticked, Fault> {
    let Some(mut lane) = ports.lane(lane_name).await? else {
        return Err(Fault::Poison(format!("there is no lane `{lane_name}`")));
    };
    let mut ticked = Ticked::default();
    let mut free: VecDeque<FreeSlot> = match look {
        Look::Full => inspect(ports, settings, &lane, &mut ticked).await?,
        Look::Freed(slots) => slots
            .into_iter()
            .filter(|freed| freed.slot < lane.capacity)
            .map(|freed| FreeSlot { number: freed.slot, seen: Some(freed.token) })
            .collect(),
    };
    if lane.outside {
        // Its dispatcher claims; what else a tick does for a lane is done.
        free.clear();
    }
    let (mut barren, mut ready) = (0, None);
    for _ in 0..MAX_ROUNDS {
        if free.is_empty() || ticked.started >= settings.max_starts_per_tick || ports.now_ms() >= until_ms {
            break;
        }
        let wanted = free.len().min(settings.max_starts_per_tick.saturating_sub(ticked.started));
        let (allowed, candidates) = choose(ports, settings, &mut lane, wanted, &mut ready).await?;
        if allowed == 0 || candidates.is_empty() {
            break;
        }
        let round: Vec<FreeSlot> = free.drain(..allowed.min(free.len())).collect();
        let filled = fill(ports, settings, &lane, round, candidates).await;
        barren = if filled.claimed.is_empty() { barren + 1 } else { 0 };
        free.extend(filled.left);
        let (started, unsent) = hand_over(ports, settings, secrets, lane_name, filled.claimed).await;
        ticked.started += started;
        ticked.unsent += unsent;
        if barren >= MAX_BARREN_ROUNDS {
            break;
        }
    }
    if let Some(seen) = &mut ticked.seen {
        seen.oldest_ready_ms = oldest_ready(ports, &lane, ready).await;
    }
    Ok(ticked)
}

/// The age of the oldest ready job among those that were read when something was to be started. A lane that starts
/// nothing, as it is full or paused, is what this is for: then the first ones are read for it.
async fn oldest_ready<P: Ports>(ports: &P, lane: &LaneRow, ready: Option<Vec<Candidate>>) -> Option<Ms> {
    let ready = match ready {
        Some(ready) => ready,
        // It is only looked at: a tick that has done its work doesn't fail for it.
        None => ports.ready(&lane.key, SPARE_CANDIDATES).await.ok()?,
    };
    let mut created: Vec<Ms> =
        ready.iter().filter_map(|job| rank_created_ms(&job.rank, lane.boost_ms)).collect();
    if let (Some(first), true) = (ready.first(), created.is_empty()) {
        // In a lane with aging only the row says when.
        let rows = ports.jobs(std::slice::from_ref(&first.job)).await.ok()?;
        created.extend(rows.iter().map(|row| row.created_ms));
    }
    created.into_iter().min().map(|created_ms| ports.now_ms().saturating_sub(created_ms))
}

/// Looks at every slot of the lane with its job, and at the lane's held jobs.
pub(crate) async fn inspect<P: Ports>(
    ports: &P,
    settings: &Settings,
    lane: &LaneRow,
    ticked: &mut Ticked,
) -> Result<VecDeque<FreeSlot>, Fault> {
    let slots = ports.slots(&lane.key).await?;
    // Jobs are read after their slots: a job that is not under its slot's token then never will be again.
    let keys: Vec<JobKey> = slots.iter().filter_map(|slot| slot.job.clone()).collect();
    let (jobs, unreadable) = read_jobs(ports, &keys).await?;
    let mut free = VecDeque::new();
    let mut rollbacks = Vec::new();
    for slot in slots {
        if slot.job.as_ref().is_some_and(|key| unreadable.contains(key)) {
            // It may well be under way.
            continue;
        }
        let job = slot.job.as_ref().and_then(|key| jobs.get(key));
        match judge(&slot, job, ports.now_ms(), settings.reservation_ms) {
            SlotState::Free => push(&mut free, lane, slot),
            SlotState::Busy | SlotState::Reserved => {}
            SlotState::LeaseOver => {
                rollbacks.extend(job.and_then(|job| rollback(job, RollbackCause::LeaseOver)))
            }
            SlotState::Stale => match void(ports, settings, &slot, job).await {
                Ok(true) => {
                    ticked.voided += 1;
                    push(&mut free, lane, slot);
                }
                Ok(false) => {}
                // This slot waits for the next full tick; the others needn't.
                Err(fault) => tracing::warn!(event = "not_voided", lane = %lane.key, why = %fault),
            },
        }
    }
    ticked.leases_over = rollbacks.len();
    let (all_held, held) = held(ports, settings, lane).await?;
    ticked.held = held.len();
    let paused = paused_for(lane, ports.now_ms());
    ticked.seen = Some(Seen { held: all_held, oldest_ready_ms: None, paused });
    rollbacks.extend(held);
    // What can't be sent is seen again by the next full tick.
    send_all(ports, rollbacks).await;
    Ok(free)
}

/// Jobs by key, and those whose row is there but can't be understood. One such row must not keep a whole lane waiting.
async fn read_jobs<P: Ports>(
    ports: &P,
    keys: &[JobKey],
) -> Result<(HashMap<JobKey, JobRow>, HashSet<JobKey>), Fault> {
    let (mut jobs, mut unreadable) = (HashMap::new(), HashSet::new());
    let mut enter = |rows: Vec<JobRow>| jobs.extend(rows.into_iter().map(|job| (job.key.clone(), job)));
    for keys in keys.chunks(READ_LIMIT) {
        match ports.jobs(keys).await {
            Ok(rows) => enter(rows),
            Err(Unread::Unavailable) => return Err(Unread::Unavailable.into()),
            // Which one it is shows when each is read alone.
            Err(Unread::Bad(_)) => {
                for key in keys {
                    match ports.jobs(std::slice::from_ref(key)).await {
                        Ok(rows) => enter(rows),
                        Err(Unread::Unavailable) => return Err(Unread::Unavailable.into()),
                        Err(Unread::Bad(bad)) => {
                            tracing::error!(event = "bad_row", error = %bad, "a job can't be understood");
                            unreadable.insert(key.clone());
                        }
                    }
                }
            }
        }
    }
    Ok((jobs, unreadable))
}

fn push(free: &mut VecDeque<FreeSlot>, lane: &LaneRow, slot: SlotRow) {
    if slot.key.number < lane.capacity {
        free.push_back(FreeSlot { number: slot.key.number, seen: slot.token });
    }
}

fn rollback(job: &JobRow, cause: RollbackCause) -> Option<Envelope> {
    let subject = Subject {
        parent: job.key.parent.clone(),
        member: job.key.member.clone(),
        lane: job.lane.clone(),
        attempt: job.attempt,
        token: job.token.clone()?,
    };
    Some(Envelope { message: Message::Rollback(Rollback { subject, cause }), delay_ms: 0 })
}

/// Makes sure that an old reservation can't claim any more; `false` when it just did, so the slot is busy.
async fn void<P: Ports>(
    ports: &P,
    settings: &Settings,
    slot: &SlotRow,
    job: Option<&JobRow>,
) -> Result<bool, Fault> {
    let Some(job) = job else { return Ok(true) };
    let Some(queue_sk) = job.queue_sk.as_deref().and_then(next_attempt) else {
        return Err(Fault::Poison(format!("{} is ready and has no entry in the index", job.key)));
    };
    let void = JobTransition::Void { seen: job.attempt, queue_sk };
    match settle::job(ports, settings.write_repeats, &job.key, &void).await? {
        Settled::Mine(_) | Settled::Refused(None) => Ok(true),
        Settled::Refused(Some(found)) => {
            let busy =
                found.status.fills_slot() && slot.token.as_ref().is_some_and(|token| found.owned_by(token));
            Ok(!busy)
        }
    }
}

/// How many jobs are held, and rollback messages for those whose time to be looked at has come. Held jobs lie by that
/// time in the index, so one query shows both.
async fn held<P: Ports>(
    ports: &P,
    settings: &Settings,
    lane: &LaneRow,
) -> Result<(usize, Vec<Envelope>), Fault> {
    let now_ms = ports.now_ms();
    let held = ports.held(&lane.key, NO_BOUND_MS, HELD_LIMIT.max(settings.held_checks_per_tick)).await?;
    let count = held.len();
    // An entry that doesn't say when is looked at.
    let due = held.into_iter().filter(|job| held_due_ms(&job.rank).is_none_or(|due_ms| due_ms <= now_ms));
    let keys: Vec<JobKey> = due.take(settings.held_checks_per_tick).map(|candidate| candidate.job).collect();
    if keys.is_empty() {
        return Ok((count, Vec::new()));
    }
    let (jobs, _) = read_jobs(ports, &keys).await?;
    let jobs = keys.iter().filter_map(|key| jobs.get(key));
    Ok((count, jobs.filter_map(|job| rollback(job, RollbackCause::Held)).collect()))
}

/// How many starts the lane allows now, authorised, and the best candidates for them. What the first look at the ready
/// jobs showed is kept in `first_ready`.
pub(crate) async fn choose<P: Ports>(
    ports: &P,
    settings: &Settings,
    lane: &mut LaneRow,
    wanted: usize,
    first_ready: &mut Option<Vec<Candidate>>,
) -> Result<(usize, Vec<Candidate>), Fault> {
    let now_ms = ports.now_ms();
    let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
    let allowed = room(lane, now_ms, wanted).starts as usize;
    if allowed == 0 {
        return Ok((0, Vec::new()));
    }
    let limit = allowed.saturating_add(SPARE_CANDIDATES);
    let ready = ports.ready(&lane.key, limit).await?;
    first_ready.get_or_insert_with(|| ready.clone());
    let due = ports.due(&lane.key, now_ms, limit).await?;
    let candidates = merge(ready, due, limit);
    let starts = allowed.min(candidates.len());
    let allowed = authorised(ports, settings, lane, now_ms, starts).await?;
    Ok((allowed, candidates))
}

/// Counts the starts against the lane's rate and budget before anything is claimed. They are never given back: a
/// budget that is only ever used up can't be overspent by a lost reply.
async fn authorised<P: Ports>(
    ports: &P,
    settings: &Settings,
    lane: &mut LaneRow,
    now_ms: Ms,
    starts: usize,
) -> Result<usize, Fault> {
    let mut starts = u32::try_from(starts).unwrap_or(u32::MAX);
    for _ in 0..5 {
        if starts == 0 {
            return Ok(0);
        }
        let Some(transition) = authorise(lane, now_ms, starts, ports.fresh_run()) else {
            return Ok(starts as usize);
        };
        match settle::lane(ports, settings.write_repeats, &lane.key, &transition).await? {
            Settled::Mine(row) => {
                *lane = row;
                return Ok(starts as usize);
            }
            // Another dispatcher was first: count again from what the lane is now.
            Settled::Refused(Some(row)) => {
                *lane = row;
                starts = room(lane, now_ms, starts).starts;
            }
            Settled::Refused(None) => return Ok(0),
        }
    }
    Ok(0)
}
