//! Agreement: what a transition's rule says in memory and what its rendered write does on a real engine are the same, for
//! random rows and random transitions of every kind.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::wildcard_enum_match_arm,
    reason = "a test stops at what it does not expect"
)]
#![allow(missing_docs)]

mod outcomes;
mod random;
mod rows;
mod transitions;
