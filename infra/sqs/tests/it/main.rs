//! The queue service from outside: through the unmodified AWS SDK, over plain HTTP, and in process.

// Clippy takes only functions marked as tests for tests, not their helpers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
mod durability;
mod faults;
mod fifo;
mod limits;
mod load;
mod long_poll;
mod malformed;
mod model;
mod queue_limits;
mod queues;
mod redrive;
mod standard;
