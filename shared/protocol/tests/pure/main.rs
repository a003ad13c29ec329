//! The rules without a world: transitions, messages, signatures, rows, ranks and intake, against tables written by hand
//! and against random input.

// Clippy's allowance for tests doesn't reach the helpers of an integration test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod arbitrary;
mod attempts;
mod bodies;
mod callers;
mod explained;
mod fixtures;
mod intake;
mod job_table;
mod lanes;
mod ledger;
mod messages;
mod rank;
mod rows;
mod rules;
mod sign;
mod sizes;
mod stories;
mod story_rows;
mod transitions;
