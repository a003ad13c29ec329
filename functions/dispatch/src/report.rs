//! What a tick of a lane came to, for people and for the metrics.

use crate::Ticked;
use glassline_protocol::ids::LaneName;

pub(crate) fn report(lane: &LaneName, ticked: &Ticked) {
    let Ticked { started, unsent, leases_over, held, voided, seen } = ticked;
    let look = if seen.is_some() { "full" } else { "freed" };
    let seen = seen.as_ref();
    tracing::info!(
        event = "ticked",
        function = "dispatch",
        lane = %lane,
        look,
        started,
        unsent,
        leases_over = seen.map(|_| leases_over),
        held_looks = seen.map(|_| held),
        voided,
        held_jobs = seen.map(|seen| seen.held),
        // None waiting is an age, too: an alarm must see that it is over.
        oldest_ready_s = seen.map(|seen| seen.oldest_ready_ms.unwrap_or(0) / 1_000),
        paused = seen.and_then(|seen| seen.paused).map(|class| class.to_string()),
    );
}
