//! The configurations.

use crate::config::{Config, Tier};
use crate::seen::Goal;

/// What `cargo test` checks.
#[must_use]
pub fn standard() -> Vec<Config> {
    vec![Config::new("key", Tier::Key).with("crash=1 lost=1 submit=1")]
}

/// What takes hours.
#[must_use]
pub fn wide() -> Vec<Config> {
    standard()
}
