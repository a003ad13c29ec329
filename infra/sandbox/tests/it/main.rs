//! The sandbox over real HTTP on the loopback interface.

// Clippy's allowance for tests doesn't reach the helpers of an integration test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod callbacks;
mod faults;
mod renders;
mod restart;
mod support;
