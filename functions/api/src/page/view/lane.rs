//! Lanes.

use glassline_protocol::ids::{LaneName, Ms};
use glassline_protocol::registry::{COUNT_LIMIT, LaneView};

/// Why nothing starts in a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Until when, in epoch milliseconds; `None`: until a person resumes it.
    pub until_ms: Option<Ms>,
    /// Why, one sentence.
    pub reason: Option<String>,
}

/// A lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneCard {
    /// Its name.
    pub name: LaneName,
    /// Slots that are filled.
    pub in_use: usize,
    /// Slots that there are.
    pub capacity: u32,
    /// Jobs that are ready.
    pub ready: usize,
    /// Jobs that wait to retry.
    pub later: usize,
    /// Jobs that are held.
    pub held: usize,
    /// When the first ready job in line was created, in epoch milliseconds.
    pub first_ready_ms: Option<Ms>,
    /// Starts allowed a minute.
    pub starts_per_minute: Option<u32>,
    /// The price of one render, in millionths of the currency unit.
    pub price_micros: Option<u64>,
    /// What was authorised today, in millionths.
    pub spent_micros: u64,
    /// What may be, in millionths.
    pub budget_micros: Option<u64>,
    /// The pause, if it is paused.
    pub pause: Option<Pause>,
}

impl LaneCard {
    /// A lane as it stands at `now_ms`.
    #[must_use]
    pub fn new(lane: &LaneView, now_ms: Ms) -> Self {
        let row = &lane.row;
        let reason = lane.pause_reason(now_ms).map(str::to_owned);
        let pause = if row.paused {
            Some(Pause { until_ms: None, reason })
        } else {
            lane.paused_until_ms(now_ms).map(|until_ms| Pause { until_ms: Some(until_ms), reason })
        };
        Self {
            name: row.key.clone(),
            in_use: lane.in_use,
            capacity: row.capacity,
            ready: lane.ready,
            later: lane.later,
            held: lane.held,
            first_ready_ms: lane.first_ready.as_ref().map(|job| job.created_ms),
            starts_per_minute: row.starts_per_minute,
            price_micros: row.price_micros,
            spent_micros: lane.spent_today_micros(now_ms),
            budget_micros: row.budget_micros_per_day,
            pause,
        }
    }
}

/// A count in words: `1000 or more` where counting stopped.
#[must_use]
pub fn counted(count: usize) -> String {
    if count >= COUNT_LIMIT { format!("{count} or more") } else { count.to_string() }
}

/// Millionths as an amount: two digits, or up to six where two would hide something.
#[must_use]
pub fn money(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let whole = text.len() - 4;
    let kept = text.trim_end_matches('0').len().max(whole);
    text.get(..kept).unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_protocol::row::LaneRow;

    #[test]
    fn amounts_keep_their_last_digit() {
        for (micros, text) in
            [(0, "0.00"), (1, "0.000001"), (40_000, "0.04"), (1_500_000, "1.50"), (12_345_000, "12.345")]
        {
            assert_eq!(money(micros), text);
        }
    }

    #[test]
    fn a_pause_that_is_over_is_none() {
        let mut row = LaneRow::new(LaneName::new("prism").unwrap(), 4);
        row.paused_until_ms = Some(5_000);
        let mut lane = LaneView { row, in_use: 0, ready: 0, later: 0, held: 0, first_ready: None };
        assert_eq!(LaneCard::new(&lane, 4_999).pause.unwrap().until_ms, Some(5_000));
        assert_eq!(LaneCard::new(&lane, 5_000).pause, None);
        lane.row.paused = true;
        assert_eq!(LaneCard::new(&lane, 4_999).pause.unwrap().until_ms, None);
        assert_eq!((counted(1_000), counted(3)), ("1000 or more".into(), "3".into()));
    }
}
