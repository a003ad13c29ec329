//! Model check of the deployed handlers.
//!
//! The real `async` handlers run against ports that answer from a record; the record is part of the state, and replaying
//! it finds the handler's next call. The checker goes through every order in which messages are delivered, calls are
//! made, renders end, the clock moves and things go wrong, within the bounds of a [`Config`], and looks after every step
//! whether the invariants I1 to I10 hold. See `docs/model.md` for what that proves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants,
    clippy::indexing_slicing,
    reason = "a check that can't go on must stop"
)]

mod action;
mod budget;
mod check;
mod choices;
mod codec;
mod codec_story;
mod config;
mod configs;
mod env;
mod handlers;
mod live;
mod model;
mod mutants;
mod norm;
mod people;
mod ports;
mod properties;
mod provider;
mod queues;
mod replay;
mod run;
mod seen;
mod state;
mod story;

#[allow(
    missing_docs,
    unused,
    unreachable_pub,
    clippy::all,
    clippy::too_many_lines,
    clippy::large_futures,
    clippy::cast_possible_truncation,
    reason = "a copy of other crates' source"
)]
mod mutated {
    include!(concat!(env!("OUT_DIR"), "/mutated.rs"));
}

pub use action::{Action, FrameEnd, How};
pub use budget::Budget;
pub use config::{Config, Tier};
pub use configs::{standard, walks, wide};
pub use env::Answer;
pub use mutants::{MUTANTS, Mutant};
pub use run::{Bounds, Report, check, simulate};
pub use seen::Goal;
pub use story::{replay, tell, written};
