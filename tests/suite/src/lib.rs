//! A whole Glassline in one process for tests: real engines behind real adapters, a clock that moves when told, and
//! faults at any port call.
//!
//! [`World`] holds the engines and drives the handlers message by message, as SQS and Lambda would. [`Faulty`] stands
//! between a handler and its ports and loses a request, loses a reply or crashes the handler at the nth call.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't set up must stop"
)]

mod check;
mod drive;
mod faulty;
mod world;

pub use drive::Driven;
pub use faulty::{Fault, Faulty, Plan};
pub use world::{Lane, Ports, TestClock, World, WorldOptions, job_key, lane_name, post};
