//! Seeded faults: each must be found, or the check proves little.
//!
//! Three kinds, none of which needs a switch in the deployed code: a weakened rule, applied by the modelled table; a port
//! that misbehaves; and a copy of the handlers' source with another text in one place (`seeded.rs`).

use crate::config::Config;
use glassline_protocol::row::{EpisodeField, JobField, SeriesField, SlotField, StoryField, Value};
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
        ("Claim doesn't match the attempt", JobTransition::Claim { .. }) => {
            drop_when(rule, JobField::Attempt)
        }
        ("Claim keeps the old task", JobTransition::Claim { .. }) => drop_then(rule, JobField::Task),
        ("Requeue keeps the attempt", JobTransition::Requeue { attempt, .. }) => {
            drop_then(rule, JobField::Attempt);
            drop_then(rule, JobField::QueueSk);
            let entry = format!("00#{attempt:06}");
            rule.then.push(Then::Set(JobField::QueueSk, Value::Text(entry)));
        }
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
        _ => {}
    }
}

pub(crate) fn change_series_rule(
    config: &Config,
    transition: &SeriesTransition,
    rule: &mut Rule<SeriesField>,
) {
    match transition {
        SeriesTransition::Number { .. } if config.is("the counter is an ADD") => {
            drop_when(rule, SeriesField::Next);
            drop_then(rule, SeriesField::Next);
            rule.then.push(Then::Add(SeriesField::Next, 1));
        }
        SeriesTransition::Closed { .. } if config.is("closing doesn't match the open count") => {
            rule.when.clear()
        }
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
        _ => {}
    }
}

/// A seeded fault.
#[derive(Clone, Copy)]
pub struct Mutant {
    /// What is wrong.
    pub name: &'static str,
    /// The first words of the property that must find it.
    pub found_by: &'static str,
    /// Where it is found fast: a configuration as text.
    pub config: &'static str,
}

impl std::fmt::Debug for Mutant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Mutant {
    /// The configuration in which it is found.
    ///
    /// # Panics
    /// When its text isn't one.
    #[must_use]
    pub fn config(&self) -> Config {
        let mut config = Config::parse(self.config).unwrap();
        (config.name, config.mutant) = (self.name, Some(self.name));
        config
    }
}

const fn mutant(name: &'static str, found_by: &'static str, config: &'static str) -> Mutant {
    Mutant { name, found_by, config }
}

/// Every seeded fault.
pub const MUTANTS: &[Mutant] = &[
    // Weakened rules.
    mutant("Start doesn't match the token", "I1", "unsent=1 early=1"),
    mutant("Succeed doesn't match the token", "I1", "dup=1 requeue=1"),
    mutant("Retry doesn't match the token", "I1", "fail=1 dup=1 early=1"),
    mutant("Hold doesn't match the token", "I1", "tier=none submit=1 dup=1 requeue=1"),
    mutant("Release ignores the status", "I1", "unsent=1"),
    mutant("Start doesn't ask for a cancel", "I1", "cancel=1"),
    mutant("Claim doesn't match the attempt", "I1", "fail=1 stale=1"),
    mutant("Claim keeps the old task", "ledger", "fail=1"),
    mutant("Take doesn't match the token seen", "I6", "jobs=2 tick=1 stale=1"),
    mutant("Requeue keeps the attempt", "I6", "jobs=2 cancel=1 requeue=1 tick=1"),
    mutant("Renew doesn't match the lease", "I1", "tier=none submit=1 dup=1"),
    mutant("Renew leaves the run", "I2", "tier=key early=1 tick=1 reject=1"),
    mutant("RecordTask replaces a task", "I1", "tier=key early=1 tick=1"),
    mutant("Authorise doesn't match the revision", "I6", "jobs=2 capacity=2 rate=1 tick=1"),
    mutant("Use doesn't match the owner", "I8", "stories=2 open_limit=3 frames=0 early=1 tick=2"),
    mutant("closing doesn't match the open count", "I7", "stories=2 open_limit=2 frames=1"),
    mutant("closing doesn't match the opening", "I8", "stories=1 frames=2 framefail=1 reopen=1"),
    mutant("the counter is an ADD", "I7", "stories=2 open_limit=2 frames=0 tick=1"),
    mutant("a transaction in pieces", "I7", "stories=2 open_limit=2 frames=0 tick=1"),
    // Ports that misbehave.
    mutant("an unknown submit is sent again", "I2", "tier=none submit=1"),
    mutant("refused means lost", "I10", "lost=1 only_lost=1"),
    mutant("an outcome replaces another", "I2/I3", "badout=1 dup=1"),
    mutant("a rejection's outcome asks for no proof", "I2", "tier=key early=1 tick=1 reject=1"),
    mutant("a lookup's no counts at once", "I2", "tier=lookup submit=1 early=1 tick=1"),
    mutant("requeue of a held job puts no outcome first", "I3", "barred=1 requeue=1"),
    // Order and control flow.
    mutant("Start's own effect is known without the run", "I2", "dup=1"),
    mutant("a resumed lease is taken for one's own", "I9", "dup=1"),
    mutant("a reservation is given out unvoided", "I6", "jobs=2 tick=1 early=1 stale=1"),
    mutant("a lease that is over tells nobody", "I4", "crash=1"),
    mutant("a held job is never looked at", "I4", "barred=1"),
    mutant("a slot is free while its job lives", "I6", "jobs=2"),
    mutant("the lease is not measured before the submit", "I2", "tier=lookup early=1 tick=1"),
    mutant("Retry without an outcome", "I2/I3", "reject=1"),
    mutant("a callback is believed", "I2", "callback=1"),
    mutant("a resume acts without the lease", "I9", "tier=key early=1 tick=1 reject=1"),
    mutant("a resume goes on after it lost the lease", "I9", "tier=key early=1 tick=1"),
    mutant("a resume overlooks an outcome that came meanwhile", "I2", "tier=key early=1 tick=1 reject=1"),
    mutant("a cancel is believed unseen", "I2", "deadline=8 refuse=1"),
    mutant("a chain of checks that multiplies", "I9", ""),
    mutant("a repeat's rejection is believed", "I2", "tier=key submit=1 reject=1"),
    mutant("a lost submit without recovery is tried again", "I2", "tier=none submit=1"),
    mutant("success before QA", "I3", ""),
    mutant("the outcome after QA", "I3", ""),
    mutant("a barred output is rendered again", "I2", "barred=1"),
    mutant("a claim to be cancelled is not given back", "I4", "unsent=1 cancel=1"),
    mutant("resumes used up mean failed", "I2", "tier=none crash=2 receives=1"),
    mutant("a complete episode's head is left open", "I4", "stories=1 frames=1"),
    mutant("a failed episode keeps its story", "I8", "stories=1 frames=1 framefail=1"),
];
