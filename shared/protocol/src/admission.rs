//! Lane admission: which slots are free, how many jobs a lane may start now, and which. Pure.

use crate::ids::{Ms, Run};
use crate::ports::Candidate;
use crate::provider::ErrorClass;
use crate::row::{JobRow, LaneRow, SlotRow, Status};
use crate::transition::LaneTransition;

/// Why a lane starts nothing, or less than it has slots for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Paused by a person.
    Paused,
    /// Paused until a time, epoch milliseconds.
    PausedUntil(Ms),
    /// Starts per minute are used up.
    Rate,
    /// The budget of the day is used up.
    Budget,
}

/// How many jobs may be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// This many.
    pub starts: u32,
    /// What cuts it below what was asked, if anything.
    pub limit: Option<Limit>,
}

const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 86_400_000;

// A clock that steps back must not open a minute or a day again, so a count holds until its minute or day has passed.
fn starts_in(lane: &LaneRow, minute: u64) -> u32 {
    if lane.minute.is_some_and(|counted| counted >= minute) { lane.minute_starts } else { 0 }
}

fn spent_on(lane: &LaneRow, day: u64) -> u64 {
    if lane.day.is_some_and(|counted| counted >= day) { lane.day_micros } else { 0 }
}

/// What was authorised on the UTC day of this time, in millionths of the currency unit.
#[must_use]
pub fn spent_today(lane: &LaneRow, now_ms: Ms) -> u64 {
    spent_on(lane, now_ms / DAY_MS)
}

/// How many of `wanted` starts the lane allows now.
#[must_use]
pub fn room(lane: &LaneRow, now_ms: Ms, wanted: u32) -> Room {
    if lane.paused {
        return Room { starts: 0, limit: Some(Limit::Paused) };
    }
    if let Some(until_ms) = lane.paused_until_ms.filter(|until_ms| *until_ms > now_ms) {
        return Room { starts: 0, limit: Some(Limit::PausedUntil(until_ms)) };
    }
    let mut room = Room { starts: wanted, limit: None };
    if let Some(rate) = lane.starts_per_minute {
        let left = rate.saturating_sub(starts_in(lane, now_ms / MINUTE_MS));
        if left < room.starts {
            room = Room { starts: left, limit: Some(Limit::Rate) };
        }
    }
    if let (Some(price), Some(budget)) =
        (lane.price_micros.filter(|price| *price > 0), lane.budget_micros_per_day)
    {
        let left = budget.saturating_sub(spent_on(lane, now_ms / DAY_MS)) / price;
        if left < u64::from(room.starts) {
            room = Room { starts: u32::try_from(left).unwrap_or(room.starts), limit: Some(Limit::Budget) };
        }
    }
    room
}

/// Why a lane pauses, as its row says it: the class first, so that whoever reads the row knows it.
#[must_use]
pub fn pause_reason(class: ErrorClass, reason: &str) -> String {
    format!("{class}: {reason}")
}

/// The class of what a lane is paused for now; `None` when it isn't paused, or by hand.
#[must_use]
pub fn paused_for(lane: &LaneRow, now_ms: Ms) -> Option<ErrorClass> {
    match room(lane, now_ms, 1).limit {
        Some(Limit::PausedUntil(_)) => lane.pause_reason.as_deref()?.split_once(':')?.0.parse().ok(),
        Some(Limit::Paused | Limit::Rate | Limit::Budget) | None => None,
    }
}

/// The write that authorises this many starts; `None` when the lane counts neither rate nor spend.
#[must_use]
pub fn authorise(lane: &LaneRow, now_ms: Ms, starts: u32, by: Run) -> Option<LaneTransition> {
    if lane.starts_per_minute.is_none() && lane.price_micros.is_none() {
        return None;
    }
    let minute = (now_ms / MINUTE_MS).max(lane.minute.unwrap_or(0));
    let day = (now_ms / DAY_MS).max(lane.day.unwrap_or(0));
    let spend = lane.price_micros.unwrap_or(0).saturating_mul(u64::from(starts));
    Some(LaneTransition::Authorise {
        seen_rev: lane.rev,
        minute,
        minute_starts: starts_in(lane, minute).saturating_add(starts),
        day,
        day_micros: spent_on(lane, day).saturating_add(spend),
        by,
    })
}

/// What a slot is, seen with the job that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// It may be given out.
    Free,
    /// Its job is claimed or rendering under its token.
    Busy,
    /// Its job is busy, and its lease ran out: somebody should look.
    LeaseOver,
    /// It was given to a job that isn't claimed yet, a moment ago: leave it.
    Reserved,
    /// It was given to a job that isn't claimed yet, long ago: void the reservation first.
    Stale,
}

/// Judges a slot by its job's row, read consistently after the slot (`None`: no such job).
#[must_use]
pub fn judge(slot: &SlotRow, job: Option<&JobRow>, now_ms: Ms, reservation_ms: u64) -> SlotState {
    let (Some(token), Some(attempt), Some(job)) = (&slot.token, slot.attempt, job) else {
        return SlotState::Free;
    };
    if job.status.fills_slot() && job.owned_by(token) {
        return if job.lease_over(now_ms) { SlotState::LeaseOver } else { SlotState::Busy };
    }
    if job.status == Status::Ready && job.attempt == attempt {
        let age_ms = now_ms.saturating_sub(slot.since_ms.unwrap_or(0));
        return if age_ms < reservation_ms { SlotState::Reserved } else { SlotState::Stale };
    }
    SlotState::Free
}

/// Merges ready jobs and due retries by rank, each job once (the newest attempt seen), best first.
#[must_use]
pub fn merge(ready: Vec<Candidate>, due: Vec<Candidate>, limit: usize) -> Vec<Candidate> {
    let mut all: Vec<_> = ready.into_iter().chain(due).collect();
    all.sort_by(|a, b| a.job.cmp(&b.job).then(b.attempt.cmp(&a.attempt)));
    all.dedup_by(|later, kept| later.job == kept.job);
    all.sort_by(|a, b| a.rank.cmp(&b.rank).then_with(|| a.job.cmp(&b.job)));
    all.truncate(limit);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LaneName;

    fn lane() -> LaneRow {
        LaneRow::new(LaneName::new("a").unwrap(), 4)
    }

    fn by() -> Run {
        Run::new("00000000000000aa").unwrap()
    }

    #[test]
    fn pauses_stop_starts() {
        let paused = LaneRow { paused: true, ..lane() };
        assert_eq!(room(&paused, 5, 3), Room { starts: 0, limit: Some(Limit::Paused) });
        let until = LaneRow { paused_until_ms: Some(10), ..lane() };
        assert_eq!(room(&until, 9, 3), Room { starts: 0, limit: Some(Limit::PausedUntil(10)) });
        assert_eq!(room(&until, 10, 3), Room { starts: 3, limit: None });
    }

    #[test]
    fn a_pause_says_what_for_while_it_lasts() {
        let reason = Some(pause_reason(ErrorClass::PaymentRequired, "top up: the account is empty"));
        let lane = LaneRow { paused_until_ms: Some(10), pause_reason: reason, ..lane() };
        assert_eq!(paused_for(&lane, 9), Some(ErrorClass::PaymentRequired));
        assert_eq!(paused_for(&lane, 10), None);
        assert_eq!(paused_for(&LaneRow { paused: true, ..lane.clone() }, 9), None, "by hand");
        assert_eq!(paused_for(&LaneRow { pause_reason: Some("lunch".into()), ..lane }, 9), None);
    }

    #[test]
    fn rate_counts_within_its_minute() {
        let lane = LaneRow { starts_per_minute: Some(5), minute: Some(2), minute_starts: 3, ..lane() };
        assert_eq!(room(&lane, 2 * 60_000, 4), Room { starts: 2, limit: Some(Limit::Rate) });
        assert_eq!(room(&lane, 3 * 60_000, 4), Room { starts: 4, limit: None });
    }

    #[test]
    fn budget_counts_within_its_day_and_only_grows() {
        let lane = LaneRow {
            price_micros: Some(40),
            budget_micros_per_day: Some(100),
            day: Some(1),
            day_micros: 50,
            ..lane()
        };
        assert_eq!(room(&lane, DAY_MS, 4), Room { starts: 1, limit: Some(Limit::Budget) });
        let Some(LaneTransition::Authorise { day_micros, day, .. }) = authorise(&lane, DAY_MS, 1, by())
        else {
            panic!("a priced lane is authorised")
        };
        assert_eq!((day, day_micros), (1, 90));
        // The clock steps back to the day before: still day 1, still growing.
        let Some(LaneTransition::Authorise { day_micros, day, .. }) = authorise(&lane, 5, 1, by()) else {
            panic!("a priced lane is authorised")
        };
        assert_eq!((day, day_micros), (1, 90));
        assert_eq!(authorise(&LaneRow::new(lane.key.clone(), 1), 5, 1, by()), None);
    }

    #[test]
    fn a_clock_that_steps_back_does_not_refill_rate_or_budget() {
        let lane = LaneRow {
            price_micros: Some(40),
            budget_micros_per_day: Some(100),
            day: Some(1),
            day_micros: 100,
            starts_per_minute: Some(5),
            minute: Some(1440),
            minute_starts: 5,
            ..lane()
        };
        assert_eq!(room(&lane, DAY_MS - 1, 4).starts, 0);
    }

    #[test]
    fn merging_keeps_each_job_once_by_rank() {
        let candidate = |id: &str, attempt, rank: &str| Candidate {
            job: format!("POST#p/SHOT#{id}").parse().unwrap(),
            attempt,
            rank: rank.into(),
        };
        let merged = merge(
            vec![candidate("a", 0, "2"), candidate("b", 0, "3")],
            vec![candidate("c", 1, "1"), candidate("a", 1, "2")],
            2,
        );
        assert_eq!(merged, [candidate("c", 1, "1"), candidate("a", 1, "2")]);
    }
}
