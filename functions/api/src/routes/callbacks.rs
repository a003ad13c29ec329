//! What providers call.

use super::Served;
use crate::Ports;

/// What is served.
#[must_use]
pub fn routes<P: Ports>() -> Vec<Served<P>> {
    Vec::new()
}
