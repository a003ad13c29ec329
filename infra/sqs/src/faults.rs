//! Faults injected on purpose, so that tests meet what a distributed queue may do.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which faults to inject, each at a rate in percent (0 to 100; more counts as 100). The default injects none.
///
/// Each kind draws from its own stream of the seed, so for the same calls in the same order the same faults come, and
/// switching one kind on or off doesn't change the others. Copies, delays and disorder come on standard queues only: a
/// FIFO queue has none of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// A sent message is stored twice with the same `MessageId`, so it is delivered twice.
    pub duplicate_percent: u8,
    /// HTTP `SendMessage`, `SendMessageBatch`, `DeleteMessage`, `DeleteMessageBatch`: done, but the connection closes
    /// without an answer.
    pub lost_reply_percent: u8,
    /// An entry of a send, delete or visibility batch is answered as failed (`InternalError`) and not done.
    pub refuse_entry_percent: u8,
    /// A sent message (and, drawn separately, its injected copy) waits 0 to this many ms longer. 0: never.
    pub extra_delay_ms_max: u64,
    /// A receive takes random messages from further back instead of the next ones.
    pub reorder_percent: u8,
    /// Where the streams start.
    pub seed: u64,
}

/// How often each fault was injected since the engine started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Messages stored twice.
    pub duplicated: u64,
    /// Answers not given.
    pub lost_replies: u64,
    /// Batch entries refused.
    pub refused_entries: u64,
    /// Messages (and copies) delayed by more than 0 ms.
    pub delayed: u64,
    /// Receives that gave messages out of order.
    pub reordered: u64,
}

/// The kinds, each with its own stream.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Duplicate,
    LostReply,
    RefuseEntry,
    Delay,
    Reorder,
}

const KINDS: usize = 5;

#[derive(Debug, Default)]
struct State {
    faults: Faults,
    streams: [u64; KINDS],
    counts: FaultCounts,
}

/// Draws the faults of one engine.
#[derive(Debug, Default)]
pub(crate) struct FaultInjector {
    state: Mutex<State>,
}

impl FaultInjector {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the faults and starts their streams again; the counts go on.
    pub(crate) fn set(&self, faults: Faults) {
        let mut state = self.state();
        state.faults = faults;
        let mut start = faults.seed;
        state.streams = std::array::from_fn(|_| next(&mut start));
    }

    pub(crate) fn counts(&self) -> FaultCounts {
        self.state().counts
    }

    /// Whether to store the next message twice.
    pub(crate) fn duplicate(&self) -> bool {
        let mut state = self.state();
        let hit = state.hit(Kind::Duplicate, |faults| faults.duplicate_percent);
        state.counts.duplicated += u64::from(hit);
        hit
    }

    /// Whether to close the connection instead of answering.
    pub(crate) fn lose_reply(&self) -> bool {
        let mut state = self.state();
        let hit = state.hit(Kind::LostReply, |faults| faults.lost_reply_percent);
        state.counts.lost_replies += u64::from(hit);
        hit
    }

    /// Whether to refuse the next batch entry.
    pub(crate) fn refuse_entry(&self) -> bool {
        let mut state = self.state();
        let hit = state.hit(Kind::RefuseEntry, |faults| faults.refuse_entry_percent);
        state.counts.refused_entries += u64::from(hit);
        hit
    }

    /// How much longer the next message waits, in ms.
    pub(crate) fn extra_delay_ms(&self) -> u64 {
        let mut state = self.state();
        let max_ms = state.faults.extra_delay_ms_max;
        if max_ms == 0 {
            return 0;
        }
        let delay_ms = state.below(Kind::Delay, max_ms.saturating_add(1));
        state.counts.delayed += u64::from(delay_ms > 0);
        delay_ms
    }

    /// Whether the next receive takes its messages out of order.
    pub(crate) fn reorder(&self) -> bool {
        let mut state = self.state();
        state.hit(Kind::Reorder, |faults| faults.reorder_percent)
    }

    /// Shuffles and keeps `keep`; counts where this changed what would have been given.
    pub(crate) fn shuffle<T: Clone + PartialEq>(&self, items: &mut Vec<T>, keep: usize) {
        let mut state = self.state();
        let in_order = items.iter().take(keep).cloned().collect::<Vec<_>>();
        for last in (1..items.len()).rev() {
            let drawn = state.below(Kind::Reorder, u64::try_from(last + 1).unwrap_or(1));
            items.swap(last, usize::try_from(drawn).unwrap_or(last));
        }
        items.truncate(keep);
        state.counts.reordered += u64::from(*items != in_order);
    }
}

impl State {
    fn hit(&mut self, kind: Kind, rate: impl FnOnce(&Faults) -> u8) -> bool {
        let percent = rate(&self.faults);
        percent > 0 && self.below(kind, 100) < u64::from(percent)
    }

    fn below(&mut self, kind: Kind, bound: u64) -> u64 {
        next(&mut self.streams[kind as usize]) % bound.max(1)
    }
}

/// `SplitMix64` (<https://prng.di.unimi.it/splitmix64.c>).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(faults: Faults) -> (Vec<bool>, Vec<u64>) {
        let injector = FaultInjector::default();
        injector.set(faults);
        let delays = (0..50).map(|_| injector.extra_delay_ms()).collect();
        ((0..200).map(|_| injector.duplicate()).collect(), delays)
    }

    #[test]
    fn the_same_seed_draws_the_same_and_kinds_dont_mix() {
        let faults = Faults { duplicate_percent: 30, seed: 7, ..Faults::default() };
        let more = Faults { extra_delay_ms_max: 9, ..faults };
        assert_eq!(draws(faults), draws(faults));
        assert_eq!(draws(faults).0, draws(more).0);
        assert_ne!(draws(faults).0, draws(Faults { seed: 8, ..faults }).0);
        assert!(draws(more).1.iter().all(|ms| *ms <= 9));
        assert!(draws(more).1.contains(&9) && draws(more).1.contains(&0));
        let hits = draws(faults).0.iter().filter(|hit| **hit).count();
        assert!((30..=90).contains(&hits), "{hits} of 200 at 30 %");
    }

    #[test]
    fn none_and_all() {
        assert!(draws(Faults::default()).0.iter().all(|hit| !hit));
        assert!(draws(Faults { duplicate_percent: 100, ..Faults::default() }).0.iter().all(|hit| *hit));
    }
}
