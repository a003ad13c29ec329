//! Each adapter against a local server that behaves as its vendor documents, with books of its own.

// Clippy's allowance for tests doesn't reach the helpers of an integration test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::wildcard_enum_match_arm)]
#![allow(clippy::too_many_arguments, reason = "a signature has that many parts")]

mod bedrock;
mod callbacks;
mod described;
mod desk;
mod drive;
mod fal;
mod props;
mod replicate;
mod runway;
mod single;
mod stand;
mod suite;
