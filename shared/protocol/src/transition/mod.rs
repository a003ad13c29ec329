//! The transition tables: every write to a row that exists is declared here, and nowhere else.

mod job;
mod job_rules;
mod lane;
mod story;

pub use job::{JobTransition, Ours};
pub use job_rules::not_started;
pub use lane::{LaneSettings, LaneTransition, SlotTransition};
pub use story::{
    EpisodeTransition, MAX_STORY_FAILURES, SeriesTransition, StoryTransition, open_entry, story_entry,
};
