//! Episodes: opening, closing and reopening them, on real engines and with faults.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]
#![allow(clippy::large_futures, reason = "a test's own future may be large")]

mod closing;
mod concurrent;
mod crashes;
mod draw;
mod input;
mod moderated;
mod ownership;
mod races;
mod reopen;
mod support;
