//! One job with its history.

use super::tile::{Picture, Tile};
use glassline_protocol::ids::{Attempt, LaneName, Ms};
use glassline_protocol::row::outcome::Cost;
use glassline_protocol::row::{JobRow, OrphanRow, OutcomeRow, Verdict};

/// How one attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptView {
    /// Its number.
    pub attempt: Attempt,
    /// How it ended.
    pub verdict: Verdict,
    /// In words: the class and the reason, or what was stored.
    pub words: String,
    /// When it was started, in epoch milliseconds.
    pub started_ms: Option<Ms>,
    /// When it ended, in epoch milliseconds.
    pub at_ms: Ms,
    /// The provider's task.
    pub task: Option<String>,
    /// What it cost.
    pub cost: Cost,
    /// Its output.
    pub picture: Option<Picture>,
}

/// An accepted task that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrphanView {
    /// The task.
    pub task: String,
    /// The attempt that submitted it.
    pub attempt: Attempt,
    /// When it was found, in epoch milliseconds.
    pub at_ms: Ms,
    /// Why it isn't ours.
    pub reason: String,
    /// What the provider said to the cancel.
    pub cancel: String,
}

/// A job's page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPage {
    /// How it stands.
    pub tile: Tile,
    /// Its lane.
    pub lane: LaneName,
    /// Failures counted so far.
    pub failures: u32,
    /// When it was created, in epoch milliseconds.
    pub created_ms: Ms,
    /// The task that is known of the current attempt.
    pub task: Option<String>,
    /// Whether a person asked it to stop.
    pub cancel_requested: bool,
    /// The provider's own parameters, as JSON.
    pub params: Option<String>,
    /// Its attempts that ended, newest first.
    pub attempts: Vec<AttemptView>,
    /// Tasks that were given up.
    pub orphans: Vec<OrphanView>,
    /// In one sentence why it isn't running, or what it waits for.
    pub explained: Option<String>,
}

fn attempt(outcome: &OutcomeRow) -> AttemptView {
    let picture = Picture::of(outcome);
    let words = match outcome.verdict {
        Verdict::Stored => outcome.content_type.clone().unwrap_or_default(),
        Verdict::Failed | Verdict::Cancelled => {
            let class = outcome.class.map(|class| class.to_string().replace('_', " "));
            let parts: Vec<String> = class.into_iter().chain(outcome.reason.clone()).collect();
            parts.join(": ")
        }
    };
    AttemptView {
        attempt: outcome.key.attempt,
        verdict: outcome.verdict,
        words,
        started_ms: outcome.started_ms,
        at_ms: outcome.at_ms,
        task: outcome.task.as_ref().map(ToString::to_string),
        cost: outcome.cost,
        picture,
    }
}

impl JobPage {
    /// A job's page from its rows.
    #[must_use]
    pub fn new(
        job: &JobRow,
        outcomes: &[OutcomeRow],
        orphans: &[OrphanRow],
        spec: Option<(String, Option<String>)>,
        now_ms: Ms,
    ) -> Self {
        let mut attempts: Vec<AttemptView> =
            outcomes.iter().filter(|outcome| outcome.key.job == job.key).map(attempt).collect();
        attempts.sort_by_key(|attempt| std::cmp::Reverse(attempt.attempt));
        let orphans = orphans.iter().filter(|orphan| orphan.key.job == job.key).map(|orphan| OrphanView {
            task: orphan.key.task.to_string(),
            attempt: orphan.attempt,
            at_ms: orphan.at_ms,
            reason: orphan.reason.clone(),
            cancel: orphan.cancel.clone(),
        });
        let (prompt, params) = spec.map_or((None, None), |(prompt, params)| (Some(prompt), params));
        Self {
            tile: Tile::new(job, outcomes, prompt, now_ms),
            lane: job.lane.clone(),
            failures: job.failures,
            created_ms: job.created_ms,
            task: job.task.as_ref().map(ToString::to_string),
            cancel_requested: job.cancel_requested,
            params,
            attempts,
            orphans: orphans.collect(),
            explained: None,
        }
    }
}
