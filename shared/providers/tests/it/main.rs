//! The adapters against real servers on the loopback interface: the sandbox, and raw ones that misbehave.

// Clippy's allowance for tests doesn't reach the helpers of an integration test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

mod answers;
mod callback;
mod config;
mod hostile;
mod once;
mod support;
