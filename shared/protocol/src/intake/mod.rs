//! Intake: from what a producer sends to rows. Parsing is strict and says what is wrong, where, and what to do; writing
//! is idempotent by id, and nothing renders before its rows are whole.

mod any;
mod differ;
mod lane;
mod parse;
mod story;
mod story_submit;
mod submit;

pub use any::{Submission, parse_submissions};
pub use differ::{post_differences, story_differences};
pub use lane::{
    CantSet, LaneChange, LaneSet, MAX_BOOST_MS, MAX_MICROS, MAX_STARTS_PER_MINUTE, set_lane, settings_tag,
};
pub use parse::{BadPost, Post, Shot, parse_posts};
pub use story::{Story, parse_stories, parse_stories_csv};
pub use story_submit::{EpisodeRows, NewSeries, create_series, episode_rows, submit_story, wake_series};
pub use submit::{SubmitError, Submitted, create_lane, month_before, month_of, rows_of, submit_post};

/// Longest prompt, in bytes.
pub const MAX_PROMPT_BYTES: usize = 32_768;
/// Longest params, in bytes of JSON.
pub const MAX_PARAMS_BYTES: usize = 32_768;
/// Longest score of a story, in bytes of its JSON.
pub const MAX_SCORE_BYTES: usize = 32;
/// Most shots of one post.
pub const MAX_SHOTS: usize = 1_000;
/// Priority of a post that gives none.
pub const DEFAULT_PRIORITY: u32 = 500;
/// Highest number of slots of a lane.
pub const MAX_CAPACITY: u32 = 10_000;
