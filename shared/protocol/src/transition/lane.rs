//! Transitions of lanes and slots.

use crate::ids::{Attempt, JobKey, Ms, Run, Token};
use crate::row::outcome::short;
use crate::row::{LaneField as L, SlotField as S, Value};
use crate::rule::{Rule, Then, When};

/// A transition of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SlotTransition {
    /// dispatch: give the slot to a job, matching the token seen in it: whoever saw an older holder loses.
    Take {
        /// The token seen in the slot; `None` for one that was never given out.
        seen: Option<Token>,
        /// The job.
        job: JobKey,
        /// The attempt seen in the index, before the claim.
        attempt: Attempt,
        /// The token that the claim will write.
        token: Token,
        /// Now.
        now_ms: Ms,
    },
}

impl SlotTransition {
    /// The transition's line of the table.
    #[must_use]
    pub fn rule(&self) -> Rule<S> {
        match self {
            Self::Take { seen, job, attempt, token, now_ms } => Rule {
                when: vec![match seen {
                    Some(seen) => When::Is(S::Token, Value::Text(seen.as_str().into())),
                    None => When::Absent(S::Token),
                }],
                then: vec![
                    Then::Set(S::Job, Value::Text(job.to_string())),
                    Then::Set(S::Attempt, Value::Number(u64::from(*attempt))),
                    Then::Set(S::Token, Value::Text(token.as_str().into())),
                    Then::Set(S::SinceMs, Value::Number(*now_ms)),
                ],
                mine: vec![When::Is(S::Token, Value::Text(token.as_str().into()))],
            },
        }
    }
}

/// A transition of a lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LaneTransition {
    /// dispatch: count starts against the minute and spend against the day, before the claims.
    Authorise {
        /// The revision as read.
        seen_rev: u64,
        /// The minute that is counted.
        minute: u64,
        /// Starts authorised in it, these included.
        minute_starts: u32,
        /// The day that is counted.
        day: u64,
        /// Spend authorised on it, this included.
        day_micros: u64,
        /// This invocation's nonce.
        by: Run,
    },
    /// worker: pause until a time (never shortens a pause).
    Pause {
        /// Until when.
        until_ms: Ms,
        /// Why, one sentence.
        reason: String,
    },
    /// api: pause until resumed.
    PauseByHand {
        /// Why, one sentence.
        reason: String,
    },
    /// api: end every pause.
    Resume,
    /// api: settings, matching the revision that was read.
    Configure {
        /// The revision as read.
        seen_rev: u64,
        /// The settings to have.
        settings: LaneSettings,
        /// This invocation's nonce.
        by: Run,
    },
}

/// What a person sets of a lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct LaneSettings {
    /// Jobs at once.
    pub capacity: u32,
    /// Starts per minute.
    pub starts_per_minute: Option<u32>,
    /// Price per render in millionths.
    pub price_micros: Option<u64>,
    /// Budget per day in millionths.
    pub budget_micros_per_day: Option<u64>,
    /// Aging, in milliseconds per step of priority.
    pub boost_ms: Option<u64>,
    /// Its claims are made by an outside dispatcher.
    pub outside: bool,
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

fn set_or_clear(field: L, value: Option<u64>) -> Then<L> {
    value.map_or(Then::Clear(field), |number| Then::Set(field, Value::Number(number)))
}

/// The very revision that this caller wrote: neither another's equal write, nor this caller's own next one.
fn counted_by(seen_rev: u64, by: &Run) -> Vec<When<L>> {
    vec![
        When::Is(L::AuthorisedBy, text(by.as_str())),
        When::Is(L::Rev, Value::Number(seen_rev.saturating_add(1))),
    ]
}

impl LaneTransition {
    /// The transition's line of the table.
    #[must_use]
    pub fn rule(&self) -> Rule<L> {
        match self {
            Self::Authorise { seen_rev, minute, minute_starts, day, day_micros, by } => Rule {
                when: vec![When::Is(L::Rev, Value::Number(*seen_rev))],
                then: vec![
                    Then::Set(L::Minute, Value::Number(*minute)),
                    Then::Set(L::MinuteStarts, Value::Number(u64::from(*minute_starts))),
                    Then::Set(L::Day, Value::Number(*day)),
                    Then::Set(L::DayMicros, Value::Number(*day_micros)),
                    Then::Set(L::AuthorisedBy, text(by.as_str())),
                    Then::Set(L::Rev, Value::Number(seen_rev.saturating_add(1))),
                ],
                mine: counted_by(*seen_rev, by),
            },
            Self::Pause { until_ms, reason } => Rule {
                when: vec![When::AbsentOrBelow(L::PausedUntilMs, *until_ms)],
                then: vec![
                    Then::Set(L::PausedUntilMs, Value::Number(*until_ms)),
                    Then::Set(L::PauseReason, text(&short(reason))),
                ],
                mine: vec![When::Is(L::PausedUntilMs, Value::Number(*until_ms))],
            },
            Self::PauseByHand { reason } => Rule {
                when: vec![When::Absent(L::Paused)],
                then: vec![
                    Then::Set(L::Paused, Value::Flag(true)),
                    Then::Set(L::PauseReason, text(&short(reason))),
                ],
                mine: vec![When::Is(L::Paused, Value::Flag(true))],
            },
            Self::Resume => Rule {
                when: vec![],
                then: [L::Paused, L::PausedUntilMs, L::PauseReason].map(Then::Clear).into(),
                mine: vec![When::Absent(L::Paused), When::Absent(L::PausedUntilMs)],
            },
            Self::Configure { seen_rev, settings, by } => Rule {
                when: vec![When::Is(L::Rev, Value::Number(*seen_rev))],
                then: vec![
                    Then::Set(L::Capacity, Value::Number(u64::from(settings.capacity))),
                    set_or_clear(L::StartsPerMinute, settings.starts_per_minute.map(u64::from)),
                    set_or_clear(L::PriceMicros, settings.price_micros),
                    set_or_clear(L::BudgetMicrosPerDay, settings.budget_micros_per_day),
                    set_or_clear(L::BoostMs, settings.boost_ms),
                    Then::Set(L::Outside, Value::Flag(settings.outside)),
                    Then::Set(L::AuthorisedBy, text(by.as_str())),
                    Then::Set(L::Rev, Value::Number(seen_rev.saturating_add(1))),
                ],
                mine: counted_by(*seen_rev, by),
            },
        }
    }
}
