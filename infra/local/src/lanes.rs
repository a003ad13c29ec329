//! The lanes of a local stack, each an account at the sandbox provider.

use glassline_protocol::ids::{Id, LaneName};
use glassline_protocol::intake::{MAX_CAPACITY, NewSeries};
use glassline_protocol::provider::Recovery;
use glassline_protocol::row::LaneRow;
use glassline_sandbox::AccountConfig;
use serde::{Deserialize, Serialize};

/// A lane, and the account that serves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneSetup {
    /// Its name.
    pub name: LaneName,
    /// Jobs at once, 1 to 10,000.
    pub capacity: u32,
    /// What its provider offers after a lost submit answer, as `{"tier":"key","lifetime_ms":86400000}`.
    pub recovery: Recovery,
    /// The shortest render, in milliseconds.
    #[serde(default = "short_ms")]
    pub render_min_ms: u64,
    /// The longest render, in milliseconds.
    #[serde(default = "long_ms")]
    pub render_max_ms: u64,
    /// Its claims are made by an outside dispatcher.
    #[serde(default)]
    pub outside: bool,
    /// Starts per minute; no limit if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_per_minute: Option<u32>,
    /// What a render costs, in millionths of the currency unit; not tracked if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_micros: Option<u64>,
    /// Most that may be authorised in a UTC day, in millionths of the currency unit; no limit if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_micros_per_day: Option<u64>,
}

const fn short_ms() -> u64 {
    500
}
const fn long_ms() -> u64 {
    1_500
}

/// The lanes of a stack that is told of none: `prism`, whose provider has idempotency keys, and the narrower `kiln`,
/// whose provider can be asked for a reference.
#[must_use]
pub fn default_lanes() -> Vec<LaneSetup> {
    let lane = |name: &str, capacity, recovery| {
        let name = LaneName::new(name).ok()?;
        Some(LaneSetup {
            name,
            capacity,
            recovery,
            render_min_ms: short_ms(),
            render_max_ms: long_ms(),
            outside: false,
            starts_per_minute: None,
            price_micros: None,
            budget_micros_per_day: None,
        })
    };
    [
        lane("prism", 4, Recovery::Key { lifetime_ms: 86_400_000 }),
        lane("kiln", 2, Recovery::Lookup { settle_ms: 2_000 }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The series of a stack that is told of none: `main`, rendered by the first lane, two episodes at a time.
#[must_use]
pub fn default_series(lanes: &[LaneSetup]) -> Vec<NewSeries> {
    let series = Id::new("main").ok().zip(lanes.first()).map(|(name, lane)| NewSeries {
        name,
        lane: lane.name.clone(),
        priority: 600,
        open_limit: 2,
        template: None,
    });
    series.into_iter().collect()
}

impl LaneSetup {
    /// Checks what the types don't say.
    ///
    /// # Errors
    /// One sentence that names the lane, what is wrong and what to do.
    pub fn check(&self) -> Result<(), String> {
        let lane = &self.name;
        if self.capacity == 0 || self.capacity > MAX_CAPACITY {
            return Err(format!("lane {lane}: its capacity is {}; use 1 to {MAX_CAPACITY}", self.capacity));
        }
        let (min_ms, max_ms) = (self.render_min_ms, self.render_max_ms);
        if min_ms > max_ms {
            return Err(format!(
                "lane {lane}: render_min_ms is {min_ms} and render_max_ms {max_ms}; give both, the second not below the first"
            ));
        }
        if self.starts_per_minute == Some(0) {
            return Err(format!(
                "lane {lane}: with 0 starts_per_minute nothing would start; leave it out, or use 1 or more"
            ));
        }
        if let Some(budget) = self.budget_micros_per_day
            && self.price_micros.is_none_or(|price| price == 0 || price > budget)
        {
            return Err(format!(
                "lane {lane}: a budget needs a price_micros of 1 or more that isn't above budget_micros_per_day"
            ));
        }
        match self.recovery {
            Recovery::Callback { deadline_ms: 0 } => Err(format!(
                "lane {lane}: a callback that is waited for 0 ms never comes; give a deadline_ms, or use the tier none"
            )),
            Recovery::Key { lifetime_ms: 0 } => {
                Err(format!("lane {lane}: a key that is remembered for 0 ms is none; use the tier none"))
            }
            Recovery::Key { .. } | Recovery::Lookup { .. } | Recovery::Callback { .. } | Recovery::None => {
                Ok(())
            }
        }
    }

    /// Its row.
    #[must_use]
    pub fn row(&self) -> LaneRow {
        LaneRow {
            outside: self.outside,
            starts_per_minute: self.starts_per_minute,
            price_micros: self.price_micros,
            budget_micros_per_day: self.budget_micros_per_day,
            ..LaneRow::new(self.name.clone(), self.capacity)
        }
    }

    /// The key of its account. It opens a sandbox on this machine's loopback interface and nothing else.
    #[must_use]
    pub fn api_key(&self) -> String {
        format!("sandbox-key-of-{}", self.name)
    }

    /// Whether the end of its renders is asked for. A lane that is called back isn't polled.
    #[must_use]
    pub fn polled(&self) -> bool {
        !matches!(self.recovery, Recovery::Callback { .. })
    }

    /// Its account at the sandbox.
    #[must_use]
    pub fn account(&self) -> AccountConfig {
        AccountConfig {
            idempotency_keys: matches!(self.recovery, Recovery::Key { .. }),
            key_lifetime_ms: match self.recovery {
                Recovery::Key { lifetime_ms } => lifetime_ms,
                Recovery::Lookup { .. } | Recovery::Callback { .. } | Recovery::None => 0,
            }
            .max(1),
            lookup: matches!(self.recovery, Recovery::Lookup { .. }),
            callbacks: matches!(self.recovery, Recovery::Callback { .. }),
            render_min_ms: self.render_min_ms,
            render_max_ms: self.render_max_ms.max(self.render_min_ms),
            ..AccountConfig::new(self.name.as_str(), self.api_key())
        }
    }
}
