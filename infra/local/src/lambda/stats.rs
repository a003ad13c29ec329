//! What a host counts, per function.

use std::collections::VecDeque;

use serde::Serialize;

/// Start times kept for the median; older ones are forgotten.
const INIT_SAMPLES: usize = 1_024;

/// What became of a function's invocations and processes since the host started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FunctionStats {
    /// Invocations admitted, however they ended.
    pub invocations: u64,
    /// Invocations that failed: the function's own errors, timeouts, exits and failed inits.
    pub errors: u64,
    /// Of those, the ones that ran out of time.
    pub timeouts: u64,
    /// Invocations refused because a concurrency limit was reached; not among `invocations`.
    pub throttles: u64,
    /// Processes killed on request, by `kill` or `kill_any_busy`.
    pub kills: u64,
    /// Processes started.
    pub cold_starts: u64,
    /// Processes that ended before their first `next`.
    pub init_failures: u64,
    /// From a process's start to its first `next`; nothing before the first process got there.
    pub init_ms: Option<InitTimes>,
}

/// The spread of the last 1,024 start times, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct InitTimes {
    /// The shortest.
    pub min: u64,
    /// The median.
    pub median: u64,
    /// The longest.
    pub max: u64,
}

/// The counters behind [`FunctionStats`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) counts: FunctionStats,
    init_ms: VecDeque<u64>,
}

impl Counters {
    pub(super) fn record_init(&mut self, init_ms: u64) {
        if self.init_ms.len() == INIT_SAMPLES {
            self.init_ms.pop_front();
        }
        self.init_ms.push_back(init_ms);
    }

    pub(super) fn snapshot(&self) -> FunctionStats {
        let mut sorted: Vec<u64> = self.init_ms.iter().copied().collect();
        sorted.sort_unstable();
        let init_ms = match (sorted.first(), sorted.get(sorted.len() / 2), sorted.last()) {
            (Some(&min), Some(&median), Some(&max)) => Some(InitTimes { min, median, max }),
            _ => None,
        };
        FunctionStats { init_ms, ..self.counts.clone() }
    }
}
