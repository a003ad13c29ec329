//! What a dispatcher outside of AWS does: claim, hand over, read back, release.

use super::Served;
use crate::Ports;

/// What is served.
#[must_use]
pub fn routes<P: Ports>() -> Vec<Served<P>> {
    Vec::new()
}
