//! The api over HTTP, as its Function URL gives it requests, on real engines. Every answer is held against the document.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::wildcard_enum_match_arm,
    reason = "a test stops at what it does not expect"
)]
#![allow(missing_docs)]

mod document;
mod entry;
mod events;
mod failures;
mod intake;
mod lanes;
mod ops;
mod registry;
mod support;
