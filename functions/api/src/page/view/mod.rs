//! What the pages show, as plain structs built from rows and the time. No HTML here, and nothing that reads or writes.

mod age;
mod held;
mod job;
mod lane;
mod parent;
mod tile;

pub use age::{Ages, span, time};
pub use held::HeldJob;
pub use job::{AttemptView, JobPage, OrphanView};
pub use lane::{LaneCard, Pause, counted, money};
pub use parent::{EpisodeView, PostView, Prompts, SeriesView, summary};
pub use tile::{Picture, Tile, media_path, member_name};

use crate::keys::in_address;
use glassline_protocol::ids::{JobKey, ParentKey};

/// The path of a job's page; in addresses keys have `:` where the table has `#`.
#[must_use]
pub fn job_path(job: &JobKey) -> String {
    format!("/jobs/{}", in_address(job))
}

/// The path of a parent's page.
#[must_use]
pub fn parent_path(parent: &ParentKey) -> String {
    match parent {
        ParentKey::Post(id) => format!("/posts/{id}"),
        ParentKey::Episode { series, number } => format!("/series/{series}/episodes/{number}"),
    }
}

/// A parent as people call it.
#[must_use]
pub fn parent_name(parent: &ParentKey) -> String {
    match parent {
        ParentKey::Post(id) => format!("post {id}"),
        ParentKey::Episode { series, number } => format!("{series}, episode {number}"),
    }
}
