//! A configuration: what the modelled world consists of, and what may go wrong in it how often.

use crate::budget::Budget;
use crate::codec::LaneShape;
use crate::seen::Goal;
use crate::state::Lane;
use glassline_protocol::provider::{Capabilities, Recovery};
use glassline_protocol::settings::Settings;

pub(crate) const NEW_LANE: Lane =
    Lane { paused_until: None, counted: false, starts: 0, micros: 0, by: 0, rev: 0 };

/// What a provider offers after a lost submit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tier {
    /// An idempotency key.
    Key,
    /// A lookup by reference.
    Lookup,
    /// A callback.
    Callback,
    /// Nothing.
    None,
}

/// The times of a model, in its own units. They stand in the same order as the deployed ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) settle: u64,
    pub(crate) key_lifetime: u64,
    pub(crate) callback: u64,
    pub(crate) deadline: u64,
}

/// Longer than any configuration runs.
pub(crate) const NEVER: u64 = 1_000;
pub(crate) const SUBMIT_TIMEOUT: u64 = 1;
pub(crate) const POLL: u64 = 2;

/// A configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name.
    pub name: &'static str,
    /// Jobs that wait in the lane at the start.
    pub jobs: u8,
    /// Slots of the lane.
    pub capacity: u8,
    /// Invocations at the same time.
    pub procs: u8,
    /// What the provider offers.
    pub tier: Tier,
    /// Whether the provider's tasks are polled for.
    pub polled: bool,
    /// Starts per minute.
    pub rate: Option<u8>,
    /// Budget of the day, at a price of one per render.
    pub spend: Option<u8>,
    /// Stories of the series; 0 for no series.
    pub stories: u8,
    /// Episodes that may be open at once.
    pub open_limit: u8,
    /// Episodes that may be opened at all.
    pub episodes: u8,
    /// Frames of each episode that are modelled; the others have succeeded when it opens.
    pub frames: u8,
    /// Deliveries before a message goes to the dead letters.
    pub receives: u8,
    /// What may go wrong.
    pub budget: Budget,
    pub(crate) settings: Settings,
    pub(crate) times: Times,
    /// The seeded fault, if any.
    pub mutant: Option<&'static str>,
    /// Whether I10 can be checked: nothing but lost answers to our own writes may go wrong.
    pub only_lost: bool,
    /// What must be reached, or the run proves nothing.
    pub goals: &'static [Goal],
}

/// Short times with the order of the deployed ones: submit timeout + margin < submit lease; poll < renew below; poll +
/// renew below < render lease; reservation < claim
/// lease; submit lease + settle time < claim lease.
fn settings() -> Settings {
    Settings {
        claim_lease_ms: 6,
        submit_lease_ms: 3,
        render_lease_ms: 6,
        renew_below_ms: 3,
        submit_margin_ms: 1,
        reservation_ms: 2,
        held_check_ms: 9,
        held_checks_per_tick: 5,
        max_failures: 2,
        retry_base_ms: 1,
        retry_max_ms: 2,
        throttle_pause_ms: 2,
        refused_pause_ms: 3,
        max_tries: 2,
        max_resumes: 1,
        claim_concurrency: 4,
        max_starts_per_tick: 4,
        story_lock_ms: 3,
        max_openings_per_tick: 2,
        open_heads_per_tick: 3,
        write_repeats: 1,
    }
}

impl Config {
    /// One job, one slot, two invocations at once, and nothing goes wrong.
    #[must_use]
    pub fn new(name: &'static str, tier: Tier) -> Self {
        Self {
            name,
            jobs: 1,
            capacity: 1,
            procs: 2,
            tier,
            polled: true,
            rate: None,
            spend: None,
            stories: 0,
            open_limit: 1,
            episodes: 2,
            frames: 2,
            receives: 2,
            budget: Budget::default(),
            settings: settings(),
            times: Times { settle: 2, key_lifetime: 12, callback: 5, deadline: NEVER },
            mutant: None,
            only_lost: false,
            goals: &[Goal::Succeeded],
        }
    }

    /// The same with these troubles, as `crash=1 lost=2`.
    ///
    /// # Panics
    /// When a name isn't one.
    #[must_use]
    pub fn with(mut self, troubles: &str) -> Self {
        for trouble in troubles.split_whitespace() {
            let (name, value) = trouble.split_once('=').unwrap();
            self.budget.set(name, value.parse().unwrap()).unwrap();
        }
        self
    }

    /// A configuration from text: parts and troubles as `tier=lookup jobs=2 crash=1`.
    ///
    /// # Errors
    /// What isn't one.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut config = Self::new("custom", Tier::Lookup);
        for part in text.split_whitespace() {
            let (name, value) = part.split_once('=').ok_or_else(|| format!("`{part}` isn't name=value"))?;
            if name == "tier" {
                config.tier = match value {
                    "key" => Tier::Key,
                    "lookup" => Tier::Lookup,
                    "callback" => Tier::Callback,
                    "none" => Tier::None,
                    other => return Err(format!("there is no tier `{other}`")),
                };
                continue;
            }
            let number: u8 = value.parse().map_err(|_| format!("`{part}` isn't a small number"))?;
            match name {
                "jobs" => config.jobs = number,
                "capacity" => config.capacity = number,
                "procs" => config.procs = number,
                "polled" => config.polled = number > 0,
                "rate" => config.rate = Some(number),
                "spend" => config.spend = Some(number),
                "stories" => config.stories = number,
                "open_limit" => config.open_limit = number,
                "episodes" => config.episodes = number,
                "frames" => config.frames = number,
                "receives" => config.receives = number,
                "only_lost" => config.only_lost = number > 0,
                "deadline" => config.times.deadline = u64::from(number),
                "repeats" => config.settings.write_repeats = u32::from(number),
                "failures" => config.settings.max_failures = u32::from(number),
                name => config.budget.set(name, number)?,
            }
        }
        if config.stories > 0 {
            (config.jobs, config.capacity) = (0, 0);
        }
        Ok(config)
    }

    /// The same with another part changed.
    #[must_use]
    pub fn but(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(crate) fn is(&self, mutant: &str) -> bool {
        self.mutant == Some(mutant)
    }

    /// Whether the copied handlers run, with their seeded fault.
    pub(crate) fn mutated(&self) -> bool {
        self.mutant.is_some()
    }

    pub(crate) fn lane_shape(&self) -> LaneShape {
        LaneShape { capacity: self.capacity, rate: self.rate, budget: self.spend }
    }

    /// Whether anything writes to the lane's row.
    pub(crate) fn lane_changes(&self) -> bool {
        self.rate.is_some() || self.spend.is_some() || self.budget.throttle > 0
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        Capabilities {
            recovery: match self.tier {
                Tier::Key => Recovery::Key { lifetime_ms: self.times.key_lifetime },
                Tier::Lookup if self.is("a lookup's no counts at once") => Recovery::Lookup { settle_ms: 0 },
                Tier::Lookup => Recovery::Lookup { settle_ms: self.times.settle },
                Tier::Callback => Recovery::Callback { deadline_ms: self.times.callback },
                Tier::None => Recovery::None,
            },
            polled: self.polled,
            submit_timeout_ms: SUBMIT_TIMEOUT,
            poll_ms: POLL,
            deadline_ms: self.times.deadline,
            output_lifetime_ms: None,
        }
    }

    /// How long after a start its time still matters.
    pub(crate) fn started_matters(&self) -> i16 {
        let own = match self.tier {
            Tier::Key => self.times.key_lifetime,
            Tier::Lookup => self.settings.submit_lease_ms + self.times.settle,
            Tier::Callback => self.times.callback,
            Tier::None => 0,
        };
        let deadline = if self.times.deadline == NEVER { 0 } else { self.times.deadline };
        i16::try_from(own.max(deadline).max(self.settings.held_check_ms)).unwrap()
    }
}
