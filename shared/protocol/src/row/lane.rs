//! Lanes and their slots.

use super::{BadRow, PrimaryKey, RowKey, row};
use crate::ids::{Attempt, JobKey, LaneName, Ms, Run, SlotNo, Token};

row! {
    /// A lane: an admission domain such as one provider account or model.
    LaneRow, LaneField, LaneName {
        /// Jobs that may be claimed or rendering at once. Slots with this number or above aren't given out.
        capacity: u32 = Capacity "capacity",
        /// Starts allowed per minute; absent for no limit.
        starts_per_minute: Option<u32> = StartsPerMinute "starts_per_minute",
        /// Price of one render in millionths of the account's currency unit; absent when not tracked.
        price_micros: Option<u64> = PriceMicros "price_micros",
        /// Most that may be authorised per UTC day, in millionths of the currency unit; absent for no limit.
        budget_micros_per_day: Option<u64> = BudgetMicrosPerDay "budget_micros_per_day",
        /// With aging: how much earlier one step of priority ranks a job, in milliseconds.
        boost_ms: Option<u64> = BoostMs "boost_ms",
        /// Its claims are made by an outside dispatcher: our own ticks start nothing in it, but look after it.
        outside: bool = Outside "outside",
        /// Paused by a person until resumed.
        paused: bool = Paused "paused",
        /// Paused until then, in epoch milliseconds.
        paused_until_ms: Option<Ms> = PausedUntilMs "paused_until_ms",
        /// Why it is paused, one sentence.
        pause_reason: Option<String> = PauseReason "pause_reason",
        /// The minute (epoch milliseconds / 60,000) that `minute_starts` counts.
        minute: Option<u64> = Minute "minute",
        /// Starts authorised in that minute.
        minute_starts: u32 = MinuteStarts "minute_starts",
        /// The UTC day (epoch milliseconds / 86,400,000) that `day_micros` counts.
        day: Option<u64> = Day "day",
        /// Spend authorised on that day; only ever grows within the day.
        day_micros: u64 = DayMicros "day_micros",
        /// Who authorised last: tells our own lost reply from another dispatcher's equal write.
        authorised_by: Option<Run> = AuthorisedBy "authorised_by",
        /// Counts authorisations and settings changes.
        rev: u64 = Rev "rev",
    }
}

impl RowKey for LaneName {
    fn primary(&self) -> PrimaryKey {
        PrimaryKey { pk: "LANES".into(), sk: self.to_string() }
    }
    fn parse(key: &PrimaryKey) -> Result<Self, BadRow> {
        if key.pk != "LANES" {
            return Err(BadRow::new(key, "its pk isn't LANES"));
        }
        LaneName::new(key.sk.clone()).map_err(|error| BadRow::new(key, error.to_string()))
    }
}

impl LaneRow {
    /// A lane with a capacity and nothing else set.
    #[must_use]
    pub fn new(name: LaneName, capacity: u32) -> Self {
        Self {
            key: name,
            capacity,
            starts_per_minute: None,
            price_micros: None,
            budget_micros_per_day: None,
            boost_ms: None,
            outside: false,
            paused: false,
            paused_until_ms: None,
            pause_reason: None,
            minute: None,
            minute_starts: 0,
            day: None,
            day_micros: 0,
            authorised_by: None,
            rev: 0,
        }
    }
}

row! {
    /// One unit of a lane's capacity. It is free when the job it names is not (claimed or rendering) under its token.
    SlotRow, SlotField, SlotKey {
        /// The job it was last given to.
        job: Option<JobKey> = Job "job",
        /// The attempt that job had when it was chosen, before its claim.
        attempt: Option<Attempt> = Attempt "attempt",
        /// The token the claim was to write.
        token: Option<Token> = Token "token",
        /// Since when, in epoch milliseconds.
        since_ms: Option<Ms> = SinceMs "since_ms",
    }
}

/// The key of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotKey {
    /// Its lane.
    pub lane: LaneName,
    /// Its number, from 0.
    pub number: SlotNo,
}

impl RowKey for SlotKey {
    fn primary(&self) -> PrimaryKey {
        PrimaryKey { pk: format!("LANE#{}", self.lane), sk: format!("SLOT#{:05}", self.number) }
    }
    fn parse(key: &PrimaryKey) -> Result<Self, BadRow> {
        let bad = || BadRow::new(key, "it isn't a slot key (LANE#name / SLOT#number)");
        let lane = key.pk.strip_prefix("LANE#").and_then(|name| LaneName::new(name).ok()).ok_or_else(bad)?;
        let number = key.sk.strip_prefix("SLOT#").and_then(|n| n.parse().ok()).ok_or_else(bad)?;
        let read = Self { lane, number };
        // One text per key: `SLOT#7` would be another row of the same slot.
        if read.primary() == *key { Ok(read) } else { Err(bad()) }
    }
}

impl SlotRow {
    /// A slot that was never given out.
    #[must_use]
    pub fn new(lane: LaneName, number: SlotNo) -> Self {
        Self { key: SlotKey { lane, number }, job: None, attempt: None, token: None, since_ms: None }
    }
}
