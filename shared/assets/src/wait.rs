//! Waits before something is tried again.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// The longest wait before the first repeat, in milliseconds; it doubles with each.
const WAIT_MS: u64 = 200;

/// Waits anything up to a time that doubles with each round, so that racers don't meet again.
pub(crate) async fn wait(round: u32) {
    // Seeded at random by the standard library; nothing that a replay needs to see again hangs on it.
    let random = RandomState::new().build_hasher().finish();
    let most_ms = WAIT_MS << round.min(6);
    tokio::time::sleep(Duration::from_millis(random % most_ms)).await;
}
