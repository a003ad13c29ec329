//! Held jobs.

use super::tile::Tile;
use glassline_protocol::ids::{LaneName, Ms, TaskId};
use glassline_protocol::row::JobRow;

/// A job that waits for evidence or a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldJob {
    /// The job.
    pub tile: Tile,
    /// Its lane.
    pub lane: LaneName,
    /// The task that is known of it.
    pub task: Option<TaskId>,
    /// When it is next looked at, in epoch milliseconds.
    pub next_look_ms: Option<Ms>,
    /// Why it is held.
    pub error: String,
    /// A person asked it to stop.
    pub cancel_requested: bool,
}

impl HeldJob {
    /// A held job from its row.
    #[must_use]
    pub fn new(job: &JobRow, now_ms: Ms) -> Self {
        Self {
            tile: Tile::new(job, &[], None, now_ms),
            lane: job.lane.clone(),
            task: job.task.clone(),
            next_look_ms: job.lease_ms,
            error: job.error.clone().unwrap_or_default(),
            cancel_requested: job.cancel_requested,
        }
    }
}
