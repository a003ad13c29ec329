//! The vault over real HTTP on loopback, with real pictures and films, in temp folders.

// clippy.toml allows these in test functions only; here the helpers between them are tests too.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods
)]

mod bucket;
mod download;
mod drive;
mod drive_site;
mod fixtures;
mod guard;
mod hostile;
mod site;
mod store;
mod valid;
