//! Seeded faults: each must be found, or the check proves little.
//!
//! Three kinds, none of which needs a switch in the deployed code: a weakened rule, applied by the modelled table; a port
//! that misbehaves; and a copy of the handlers' source with another text in one place (`seeded.rs`).

use crate::check::Broken;
use crate::config::{Config, Tier};
use crate::properties::LIVE;
use glassline_protocol::row::{EpisodeField, JobField, SeriesField, SlotField, StoryField};
use glassline_protocol::rule::{Rule, Then, When};
use glassline_protocol::transition::{EpisodeTransition, JobTransition, SeriesTransition, StoryTransition};
use std::cell::Cell;

thread_local! {
    static ON: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Says which fault the copied handlers have from now on, in this thread.
pub(crate) fn switch(mutant: Option<&'static str>) {
    ON.set(mutant);
}

/// Whether the copied handlers have this fault.
pub(crate) fn on(name: &str) -> bool {
    ON.get() == Some(name)
}

/// What must be true of the field is no longer asked.
fn drop_when<F: PartialEq>(rule: &mut Rule<F>, field: F) {
    rule.when.retain(|when| match when {
        When::Is(f, _)
        | When::OneOf(f, _)
        | When::Absent(f)
        | When::Below(f, _)
        | When::AbsentOrBelow(f, _)
        | When::AbsentOrIs(f, _) => *f != field,
    });
}

/// The field is no longer changed.
fn drop_then<F: PartialEq>(rule: &mut Rule<F>, field: F) {
    rule.then.retain(|then| match then {
        Then::Set(f, _) | Then::Clear(f) | Then::Add(f, _) => *f != field,
    });
}

pub(crate) fn change_job_rule(config: &Config, transition: &JobTransition, rule: &mut Rule<JobField>) {
    let Some(mutant) = config.mutant else { return };
    match (mutant, transition) {
        ("Start doesn't match the token", JobTransition::Start { .. })
        | ("Succeed doesn't match the token", JobTransition::Succeed { .. })
        | ("Hold doesn't match the token", JobTransition::Hold { .. })
        | ("Retry doesn't match the token", JobTransition::Retry { .. }) => drop_when(rule, JobField::Token),
        ("Start doesn't ask for a cancel", JobTransition::Start { .. }) => {
            drop_when(rule, JobField::CancelRequested);
        }
        ("Release ignores the status", JobTransition::Release { .. }) => drop_when(rule, JobField::Status),
        ("Claim doesn't match the attempt", JobTransition::Claim { .. }) => drop_when(rule, JobField::Attempt),
        ("Claim keeps the old task", JobTransition::Claim { .. }) => drop_then(rule, JobField::Task),
        ("Requeue keeps the attempt", JobTransition::Requeue { .. }) => drop_then(rule, JobField::Attempt),
        ("Renew doesn't match the lease", JobTransition::Renew { .. }) => drop_when(rule, JobField::LeaseMs),
        ("Renew leaves the run", JobTransition::Renew { .. }) => drop_then(rule, JobField::Run),
        ("RecordTask replaces a task", JobTransition::RecordTask { .. }) => drop_when(rule, JobField::Task),
        _ => {}
    }
}

/// By what a handler knows its own effect.
pub(crate) fn change_mine(transition: &JobTransition, rule: &mut Rule<JobField>) {
    let wide = match transition {
        JobTransition::Start { .. } => on("Start's own effect is known without the run"),
        JobTransition::Renew { .. } => on("a resumed lease is taken for one's own"),
        _ => false,
    };
    if wide {
        let run = |when: &When<JobField>| matches!(when, When::Is(JobField::Run, _));
        rule.mine.retain(|when| !run(when));
    }
}

pub(crate) fn change_slot_rule(config: &Config, rule: &mut Rule<SlotField>) {
    if config.is("Take doesn't match the token seen") {
        rule.when.clear();
    }
}

pub(crate) fn change_story_rule(config: &Config, transition: &StoryTransition, rule: &mut Rule<StoryField>) {
    match transition {
        StoryTransition::Use { .. } if config.is("Use doesn't match the owner") => {
            drop_when(rule, StoryField::Owner);
            drop_when(rule, StoryField::Status);
        }
        StoryTransition::Release { .. } if config.is("a story is given back twice") => {
            rule.when.clear();
        }
        _ => {}
    }
}

pub(crate) fn change_series_rule(config: &Config, transition: &SeriesTransition, rule: &mut Rule<SeriesField>) {
    match transition {
        SeriesTransition::Number { .. } if config.is("the counter is an ADD") => {
            drop_when(rule, SeriesField::Next);
            drop_then(rule, SeriesField::Next);
            rule.then.push(Then::Add(SeriesField::Next, 1));
        }
        SeriesTransition::Closed { .. } if config.is("closing doesn't match the open count") => rule.when.clear(),
        _ => {}
    }
}

pub(crate) fn change_episode_rule(
    config: &Config,
    transition: &EpisodeTransition,
    rule: &mut Rule<EpisodeField>,
) {
    match transition {
        EpisodeTransition::Complete { .. } | EpisodeTransition::Fail { .. }
            if config.is("closing doesn't match the opening") =>
        {
            drop_when(rule, EpisodeField::Opened);
        }
        EpisodeTransition::Complete { .. } | EpisodeTransition::Fail { .. }
            if config.is("an episode is closed twice") =>
        {
            rule.when.clear();
        }
        _ => {}
    }
}

/// A seeded fault.
#[derive(Clone, Copy)]
pub struct Mutant {
    /// What is wrong.
    pub name: &'static str,
    /// The properties of which one must find it.
    pub found_by: &'static [&'static str],
    /// Where it is found fast.
    pub config: fn() -> Config,
}

impl std::fmt::Debug for Mutant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Every seeded fault.
pub const MUTANTS: &[Mutant] = &[];
