//! Setting a lane: settings, pause and slots, from any state and as often as one likes.

use super::MAX_CAPACITY;
use super::submit::{SubmitError, create, create_slots};
use crate::ids::{LaneName, Ms};
use crate::message::{Message, Wake};
use crate::ports::{Created, Envelope, Local, NewRow, Queues, Store, Unread};
use crate::row::LaneRow;
use crate::settle::{self, Fault, Settled};
use crate::transition::{LaneSettings, LaneTransition};

/// Most milliseconds that a step of priority may count: a day. All steps together stay within the years that ranks know.
pub const MAX_BOOST_MS: u64 = 86_400_000;
/// Most millionths that a price or a budget may have: a thousand million units, and exact in any JSON.
pub const MAX_MICROS: u64 = 1_000_000_000_000_000;
/// Most starts a minute.
pub const MAX_STARTS_PER_MINUTE: u32 = 1_000_000;
/// Tries of a change while dispatch counts starts in the same row.
const TRIES: u32 = 10;
/// Tries of one write whose answer is lost.
const REPEATS: u32 = 3;
/// Why a lane is paused by hand, where nobody says why.
const NO_REASON: &str = "no reason was given";

/// What is to change of a lane; what is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneChange {
    /// Jobs at once, 1 to [`MAX_CAPACITY`]. A new lane needs it.
    pub capacity: Option<u32>,
    /// Starts a minute; `Some(None)` for no limit.
    pub starts_per_minute: Option<Option<u32>>,
    /// Price of a render in millionths; `Some(None)` when it isn't to be tracked.
    pub price_micros: Option<Option<u64>>,
    /// Budget of a day in millionths; `Some(None)` for no limit.
    pub budget_micros_per_day: Option<Option<u64>>,
    /// Aging, in milliseconds per step of priority; `Some(None)` for none. It ranks the jobs that come after it.
    pub boost_ms: Option<Option<u64>>,
    /// Its claims are made by an outside dispatcher.
    pub outside: Option<bool>,
    /// Paused by hand, or every pause ended.
    pub paused: Option<bool>,
    /// Why it is paused, one sentence. A lane that is paused by hand already keeps its reason.
    pub pause_reason: Option<String>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneSet {
    /// The lane as it is now.
    pub row: LaneRow,
    /// Whether it is new.
    pub created: bool,
}

/// A lane that can't be set so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CantSet {
    /// There is no such lane, and a new one needs a capacity.
    #[error("there is no lane {0}; give a `capacity` to create it")]
    NoCapacity(LaneName),
    /// A setting is out of its range.
    #[error("`{field}` is {got}; use {range}")]
    OutOfRange {
        /// Which.
        field: &'static str,
        /// What was given.
        got: u64,
        /// What may be given.
        range: String,
    },
    /// It isn't what the caller has read.
    #[error("lane {0} has other settings than the ones that this change was made from")]
    Changed(LaneName),
    /// The table doesn't answer.
    #[error("the table doesn't answer; send the same again")]
    Unavailable,
    /// A row can't be understood.
    #[error(transparent)]
    Unread(#[from] Unread),
}

impl From<SubmitError> for CantSet {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Unread(unread) => Self::Unread(unread),
            SubmitError::Conflict(_)
            | SubmitError::NoLane { .. }
            | SubmitError::BadSeries { .. }
            | SubmitError::StoryConflict(_)
            | SubmitError::BadStory { .. }
            | SubmitError::Unavailable(_) => Self::Unavailable,
        }
    }
}

impl From<Fault> for CantSet {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::RetryAfter { .. } => Self::Unavailable,
            Fault::Poison(what) => Self::Unread(Unread::Bad(crate::ports::BadRowBox(what))),
        }
    }
}

/// What a person set of a lane, as one text: whoever read it can say that it must still be so. What dispatch counts in the
/// same row doesn't change it.
#[must_use]
pub fn settings_tag(row: &LaneRow) -> String {
    let number = |value: Option<u64>| value.map_or_else(|| "none".to_owned(), |number| number.to_string());
    format!(
        "{}.{}.{}.{}.{}.{}.{}",
        row.capacity,
        number(row.starts_per_minute.map(u64::from)),
        number(row.price_micros),
        number(row.budget_micros_per_day),
        number(row.boost_ms),
        if row.outside { "outside" } else { "ours" },
        if row.paused { "paused" } else { "running" },
    )
}

fn settings_of(row: &LaneRow) -> LaneSettings {
    LaneSettings {
        capacity: row.capacity,
        starts_per_minute: row.starts_per_minute,
        price_micros: row.price_micros,
        budget_micros_per_day: row.budget_micros_per_day,
        boost_ms: row.boost_ms,
        outside: row.outside,
    }
}

impl LaneChange {
    /// Checks the ranges.
    ///
    /// # Errors
    /// [`CantSet::OutOfRange`]
    pub fn check(&self) -> Result<(), CantSet> {
        let within = |field, value: Option<u64>, least: u64, most: u64| match value {
            Some(got) if !(least..=most).contains(&got) => {
                Err(CantSet::OutOfRange { field, got, range: format!("{least} to {most}") })
            }
            Some(_) | None => Ok(()),
        };
        let starts = self.starts_per_minute.flatten().map(u64::from);
        within("capacity", self.capacity.map(u64::from), 1, u64::from(MAX_CAPACITY))?;
        within("starts_per_minute", starts, 1, u64::from(MAX_STARTS_PER_MINUTE))?;
        within("price_micros", self.price_micros.flatten(), 0, MAX_MICROS)?;
        within("budget_micros_per_day", self.budget_micros_per_day.flatten(), 0, MAX_MICROS)?;
        within("boost_ms", self.boost_ms.flatten(), 1, MAX_BOOST_MS)
    }

    /// The settings that a lane has after it.
    #[must_use]
    pub fn applied_to(&self, row: &LaneRow) -> LaneSettings {
        LaneSettings {
            capacity: self.capacity.unwrap_or(row.capacity),
            starts_per_minute: self.starts_per_minute.unwrap_or(row.starts_per_minute),
            price_micros: self.price_micros.unwrap_or(row.price_micros),
            budget_micros_per_day: self.budget_micros_per_day.unwrap_or(row.budget_micros_per_day),
            boost_ms: self.boost_ms.unwrap_or(row.boost_ms),
            outside: self.outside.unwrap_or(row.outside),
        }
    }

    fn reason(&self) -> String {
        let given = self.pause_reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty());
        given.unwrap_or(NO_REASON).to_owned()
    }

    /// A new lane.
    fn new_row(&self, lane: &LaneName) -> Option<LaneRow> {
        let blank = LaneRow::new(lane.clone(), self.capacity?);
        let settings = self.applied_to(&blank);
        let paused = self.paused == Some(true);
        Some(LaneRow {
            starts_per_minute: settings.starts_per_minute,
            price_micros: settings.price_micros,
            budget_micros_per_day: settings.budget_micros_per_day,
            boost_ms: settings.boost_ms,
            paused,
            pause_reason: paused.then(|| crate::row::outcome::short(&self.reason())),
            ..blank
        })
    }
}

/// Sets a lane, and creates it when it isn't there. With `expected`, only while its [`settings_tag`] is one of those, or
/// with `*` any.
/// A crash in between leaves a part of it done; the same again completes it.
///
/// # Errors
/// [`CantSet`]
pub async fn set_lane<P: Store + Queues + Local>(
    ports: &P,
    lane: &LaneName,
    change: &LaneChange,
    expected: Option<&[String]>,
) -> Result<LaneSet, CantSet> {
    change.check()?;
    let found = ports.lane(lane).await?;
    let (row, created) = match found {
        Some(row) => (row, false),
        None if expected.is_some() => return Err(CantSet::Changed(lane.clone())),
        None => {
            let row = change.new_row(lane).ok_or_else(|| CantSet::NoCapacity(lane.clone()))?;
            match create(ports, &NewRow::Lane(row.clone()), &format!("lane {lane}")).await? {
                Created::Created => (row, true),
                // Somebody else was faster: it is changed like any that is there.
                Created::Exists(_) | Created::Unknown => {
                    (ports.lane(lane).await?.ok_or(CantSet::Unavailable)?, false)
                }
            }
        }
    };
    let row = Setting { ports, lane, change, expected }.apply(row).await?;
    let wake = Message::Wake(Wake { lane: lane.clone(), freed: None });
    // Whatever was raised may let jobs start now; a lost wake costs a tick.
    let _ = ports.send(vec![Envelope { message: wake, delay_ms: 0 }]).await;
    Ok(LaneSet { row, created })
}

struct Setting<'a, P> {
    ports: &'a P,
    lane: &'a LaneName,
    change: &'a LaneChange,
    expected: Option<&'a [String]>,
}

impl<P: Store + Queues + Local> Setting<'_, P> {
    fn expected(&self, row: &LaneRow) -> Result<(), CantSet> {
        match self.expected {
            None => Ok(()),
            Some(tags) => {
                let tag = settings_tag(row);
                let is_one = tags.iter().any(|one| *one == tag || one == "*");
                is_one.then_some(()).ok_or_else(|| CantSet::Changed(self.lane.clone()))
            }
        }
    }

    /// A pause comes first and a resume last: in between nothing starts under settings that are about to change.
    async fn apply(&self, mut row: LaneRow) -> Result<LaneRow, CantSet> {
        self.expected(&row)?;
        create_slots(self.ports, self.lane, self.change.applied_to(&row).capacity).await?;
        row = self.configure(row).await?;
        let resumes = self.change.paused == Some(false) && self.is_paused(&row, self.ports.now_ms());
        let pauses = self.change.paused == Some(true) && !row.paused;
        let transition = match (pauses, resumes) {
            (true, _) => LaneTransition::PauseByHand { reason: self.change.reason() },
            (false, true) => LaneTransition::Resume,
            (false, false) => return Ok(row),
        };
        match settle::lane(self.ports, REPEATS, self.lane, &transition).await? {
            Settled::Mine(row) | Settled::Refused(Some(row)) => Ok(row),
            Settled::Refused(None) => Err(CantSet::Unavailable),
        }
    }

    fn is_paused(&self, row: &LaneRow, now_ms: Ms) -> bool {
        row.paused || row.pause_reason.is_some() || row.paused_until_ms.is_some_and(|until| until > now_ms)
    }

    /// Writes the settings, again after each time that dispatch counted in the same row.
    async fn configure(&self, mut row: LaneRow) -> Result<LaneRow, CantSet> {
        for _ in 0..TRIES {
            let settings = self.change.applied_to(&row);
            if settings == settings_of(&row) {
                return Ok(row);
            }
            let by = self.ports.fresh_run();
            let transition = LaneTransition::Configure { seen_rev: row.rev, settings, by };
            match settle::lane(self.ports, REPEATS, self.lane, &transition).await? {
                Settled::Mine(row) => return Ok(row),
                Settled::Refused(Some(now)) => {
                    self.expected(&now)?;
                    row = now;
                }
                Settled::Refused(None) => return Err(CantSet::Unavailable),
            }
        }
        Err(CantSet::Unavailable)
    }
}
