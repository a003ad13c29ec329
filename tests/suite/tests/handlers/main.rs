//! The handlers on real engines: the table on dynoxide, the queues on our SQS, the provider our sandbox over HTTP.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::wildcard_enum_match_arm,
    reason = "a test stops at what it does not expect"
)]
#![allow(missing_docs)]

mod admission;
mod backlog;
mod bad_rows;
mod batch;
mod bucket;
mod callbacks;
mod cancel;
mod claims;
mod cost;
mod dead;
mod intake;
mod late;
mod lost;
mod metrics;
mod mine;
mod outcomes;
mod outside;
mod people;
mod race;
mod replays;
mod rollback;
mod support;
