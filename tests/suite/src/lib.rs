//! A whole Glassline in one process for tests: real engines behind real adapters, a clock that moves when told, and
//! faults at any port call.
//!
//! [`World`] holds the engines and drives the handlers message by message, as SQS and Lambda would. [`Faulty`] stands
//! between a handler and its ports; a [`Plan`] says at which call a request or a reply is lost, the handler dies, or it
//! stops at a [`Gate`] while others go on.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants,
    reason = "a test that can't set up must stop"
)]

mod check;
mod drive;
mod episodes;
mod faulty;
mod history;
mod plan;
mod raw;
mod world;

pub use drive::{Driven, MINUTE_MS};
pub use episodes::{Scan, episode_key, series_key, story_key};
pub use faulty::Faulty;
pub use plan::{Fault, Gate, Plan, Spot};
pub use raw::{Item, item_of, row_of};
pub use world::{Lane, Ports, TABLE, TestClock, World, WorldOptions, job_key, lane_name, post};
