//! The ledger: what every attempt cost, or may have cost, from the rows that the handlers write anyway. Outcome and
//! orphan rows are its lines; a job that is rendering or held is a line that isn't closed yet.

use crate::ids::{Attempt, JobKey, LaneName, Ms, TaskId};
use crate::row::outcome::Cost;
use crate::row::{JobRow, OrphanRow, OutcomeRow, Status};
use std::collections::{BTreeMap, BTreeSet};

/// Whether a line is money spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Charge {
    /// Accepted, and its output was there to fetch: paid for.
    Paid,
    /// It may have been charged: accepted and ended without an output, given up, or nobody knows whether it was accepted.
    AtRisk,
    /// Rendering: accepted or being submitted, its end isn't known yet.
    Open,
    /// Proven not accepted: nothing was charged.
    Unbilled,
}

impl Charge {
    /// All of them, as a ledger lists them.
    pub const ALL: [Self; 4] = [Self::Paid, Self::AtRisk, Self::Open, Self::Unbilled];

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Paid => "paid",
            Self::AtRisk => "at_risk",
            Self::Open => "open",
            Self::Unbilled => "unbilled",
        }
    }
}

/// One line: an attempt, or a task that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The job.
    pub job: JobKey,
    /// Its attempt.
    pub attempt: Attempt,
    /// Its lane.
    pub lane: LaneName,
    /// When it ended, or when it was started if it hasn't, in epoch milliseconds.
    pub at_ms: Ms,
    /// Whether it is money spent.
    pub charge: Charge,
    /// The price of a render when the attempt was claimed, in millionths of the currency unit, if the lane had one.
    pub price_micros: Option<u64>,
    /// The provider's task.
    pub task: Option<TaskId>,
    /// Why, where it isn't simply paid: one sentence.
    pub note: Option<String>,
}

/// A number of attempts, and what they come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Attempts.
    pub count: u64,
    /// What they come to, in millionths of the currency unit; it stops at the largest number.
    pub micros: u64,
    /// How many of them have no price.
    pub unpriced: u64,
}

impl Sum {
    fn add(&mut self, line: &Line) {
        self.count = self.count.saturating_add(1);
        match line.price_micros {
            Some(price) => self.micros = self.micros.saturating_add(price),
            None => self.unpriced = self.unpriced.saturating_add(1),
        }
    }
}

/// An attempt for which a provider accepted more than one task: what this system is there to rule out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Twice {
    /// The job.
    pub job: JobKey,
    /// Its attempt.
    pub attempt: Attempt,
    /// The tasks.
    pub tasks: Vec<TaskId>,
}

/// What a ledger is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Only this lane.
    pub lane: Option<LaneName>,
    /// Only what ended, or started if it hasn't ended, at this time or later, in epoch milliseconds.
    pub since_ms: Ms,
}

/// Rows that a ledger is made of; rows may come in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A job.
    Job(Box<JobRow>),
    /// How an attempt ended.
    Outcome(Box<OutcomeRow>),
    /// A task that was given up.
    Orphan(Box<OrphanRow>),
}

/// Lines, by job and attempt, and what they come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// The lines.
    pub lines: Vec<Line>,
    /// For each lane the sum of each charge.
    pub lanes: BTreeMap<LaneName, BTreeMap<Charge, Sum>>,
    /// Attempts with more than one accepted task. Whatever the ledger was asked for, all lanes and times count here.
    pub twice: Vec<Twice>,
}

impl Ledger {
    /// The sum of a charge over all lanes.
    #[must_use]
    pub fn total(&self, charge: Charge) -> Sum {
        let sums = self.lanes.values().filter_map(|sums| sums.get(&charge));
        sums.fold(Sum::default(), |total, sum| Sum {
            count: total.count.saturating_add(sum.count),
            micros: total.micros.saturating_add(sum.micros),
            unpriced: total.unpriced.saturating_add(sum.unpriced),
        })
    }
}

/// Makes the ledger of some rows.
#[must_use]
pub fn ledger(entries: impl IntoIterator<Item = Entry>, wanted: &Wanted) -> Ledger {
    let (mut lines, mut ended) = (Vec::new(), BTreeSet::new());
    let mut open = Vec::new();
    let mut tasks: BTreeMap<(JobKey, Attempt), BTreeSet<TaskId>> = BTreeMap::new();
    let mut accepted = |job: &JobKey, attempt: Attempt, task: Option<&TaskId>| {
        if let Some(task) = task {
            tasks.entry((job.clone(), attempt)).or_default().insert(task.clone());
        }
    };
    for entry in entries {
        match entry {
            Entry::Job(row) => {
                accepted(&row.key, row.attempt, row.task.as_ref());
                open.extend(unfinished(&row));
            }
            Entry::Outcome(row) => {
                accepted(&row.key.job, row.key.attempt, row.task.as_ref());
                ended.insert((row.key.job.clone(), row.key.attempt));
                lines.push(closed(*row));
            }
            Entry::Orphan(row) => {
                accepted(&row.key.job, row.attempt, Some(&row.key.task));
                lines.push(given_up(*row));
            }
        }
    }
    // A job whose outcome is written and not yet followed has its line already.
    lines.extend(open.into_iter().filter(|line| !ended.contains(&(line.job.clone(), line.attempt))));
    lines.retain(|line| {
        line.at_ms >= wanted.since_ms && wanted.lane.as_ref().is_none_or(|lane| line.lane == *lane)
    });
    lines.sort_by(|a, b| (&a.job, a.attempt, &a.task).cmp(&(&b.job, b.attempt, &b.task)));
    let mut lanes: BTreeMap<LaneName, BTreeMap<Charge, Sum>> = BTreeMap::new();
    for line in &lines {
        lanes.entry(line.lane.clone()).or_default().entry(line.charge).or_default().add(line);
    }
    let twice = tasks.into_iter().filter(|(_, tasks)| tasks.len() > 1).map(|((job, attempt), tasks)| Twice {
        job,
        attempt,
        tasks: tasks.into_iter().collect(),
    });
    Ledger { lines, lanes, twice: twice.collect() }
}

fn closed(row: OutcomeRow) -> Line {
    let charge = match row.cost {
        Cost::None => Charge::Unbilled,
        Cost::Paid => Charge::Paid,
        Cost::AtRisk => Charge::AtRisk,
    };
    Line {
        job: row.key.job,
        attempt: row.key.attempt,
        lane: row.lane,
        at_ms: row.at_ms,
        charge,
        price_micros: row.price_micros,
        task: row.task,
        note: row.reason,
    }
}

fn given_up(row: OrphanRow) -> Line {
    Line {
        job: row.key.job,
        attempt: row.attempt,
        lane: row.lane,
        at_ms: row.at_ms,
        charge: Charge::AtRisk,
        price_micros: row.price_micros,
        task: Some(row.key.task),
        note: Some(format!("given up: {}; cancel: {}", row.reason, row.cancel)),
    }
}

/// The line of an attempt that has no outcome yet, if it may have reached its provider.
fn unfinished(row: &JobRow) -> Option<Line> {
    let charge = match row.status {
        Status::Rendering => Charge::Open,
        Status::Held => Charge::AtRisk,
        Status::Ready | Status::Claimed | Status::Succeeded | Status::Failed | Status::Cancelled => {
            return None;
        }
    };
    Some(Line {
        job: row.key.clone(),
        attempt: row.attempt,
        lane: row.lane.clone(),
        at_ms: row.started_ms.unwrap_or(row.created_ms),
        charge,
        price_micros: row.price_micros,
        task: row.task.clone(),
        note: row.error.clone(),
    })
}
