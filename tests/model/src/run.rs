//! Running a check and reporting on it.

use crate::action::Action;
use crate::config::Config;
use crate::model::Checked;
use crate::state::World;
use stateright::{Checker as _, HasDiscoveries, Model as _, Path, UniformChooser};
use std::time::{Duration, Instant};

/// How far a check goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Threads.
    pub threads: usize,
    /// Depth first: takes less memory, and its counterexamples are longer.
    pub depth_first: bool,
    /// Stops after this many states, repeats included.
    pub states: Option<usize>,
    /// Stops after this long, in milliseconds.
    pub timeout_ms: Option<u64>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { threads: 2, depth_first: false, states: None, timeout_ms: None }
    }
}

/// What a check came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// The configuration.
    pub name: &'static str,
    /// Different states.
    pub unique: usize,
    /// States, repeats included.
    pub total: usize,
    /// Longest path.
    pub depth: usize,
    /// How long it took, in milliseconds.
    pub took_ms: u128,
    /// What was broken, with the way there.
    pub broken: Vec<(&'static str, Vec<Action>)>,
    /// What should have been reached and wasn't.
    pub missed: Vec<&'static str>,
    /// Whether every state within the bounds was looked at.
    pub exhausted: bool,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, unique, total, depth, took_ms, exhausted, .. } = self;
        let (seconds, tenths) = (took_ms / 1_000, took_ms % 1_000 / 100);
        let how = if *exhausted { "exhausted" } else { "stopped" };
        write!(
            f,
            "{name:<22} {unique:>10} states  {total:>11} steps  depth {depth:>3}  {seconds:>4}.{tenths} s  {how}"
        )
    }
}

fn report(
    name: &'static str,
    checked: &Checked,
    discoveries: std::collections::HashMap<&'static str, Path<World, Action>>,
    counts: (usize, usize, usize),
    took: Duration,
    exhausted: bool,
) -> Report {
    let failing = |property: &str| checked.property_fails(property);
    let mut broken = Vec::new();
    let mut reached = Vec::new();
    for (property, path) in discoveries {
        if failing(property) {
            broken.push((property, path.into_actions()));
        } else {
            reached.push(property);
        }
    }
    broken.sort_by_key(|(_, actions)| actions.len());
    let goals = checked.config.goals.iter().map(|goal| goal.name());
    let missed = goals.filter(|goal| !reached.contains(goal)).collect();
    let (unique, total, depth) = counts;
    Report { name, unique, total, depth, took_ms: took.as_millis(), broken, missed, exhausted }
}

impl Checked {
    fn property_fails(&self, name: &str) -> bool {
        self.config.goals.iter().all(|goal| goal.name() != name)
    }
}

/// Looks at every state of a configuration, within bounds; stops at the first violation.
#[must_use]
pub fn check(config: &Config, bounds: Bounds) -> Report {
    let began = Instant::now();
    let mut builder = Checked::new(config.clone())
        .checker()
        .threads(bounds.threads)
        .finish_when(HasDiscoveries::AnyFailures);
    if let Some(states) = bounds.states {
        builder = builder.target_state_count(states);
    }
    if let Some(timeout_ms) = bounds.timeout_ms {
        builder = builder.timeout(Duration::from_millis(timeout_ms));
    }
    macro_rules! finish {
        ($checker:expr) => {{
            let checker = $checker.join();
            let counts = (checker.unique_state_count(), checker.state_count(), checker.max_depth());
            let took = began.elapsed();
            let stopped = bounds.states.is_some_and(|states| counts.1 >= states)
                || bounds.timeout_ms.is_some_and(|ms| took >= Duration::from_millis(ms));
            report(config.name, checker.model(), checker.discoveries(), counts, took, !stopped)
        }};
    }
    if bounds.depth_first { finish!(builder.spawn_dfs()) } else { finish!(builder.spawn_bfs()) }
}

/// Random walks from the start, each to its end, for as long as it is told.
#[must_use]
pub fn simulate(config: &Config, seed: u64, bounds: Bounds) -> Report {
    let began = Instant::now();
    let checker = Checked::new(config.clone())
        .checker()
        .threads(bounds.threads)
        .target_max_depth(400)
        .timeout(Duration::from_millis(bounds.timeout_ms.unwrap_or(10_000)))
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_simulation(seed, UniformChooser)
        .join();
    let counts = (checker.unique_state_count(), checker.state_count(), checker.max_depth());
    report(config.name, checker.model(), checker.discoveries(), counts, began.elapsed(), false)
}
