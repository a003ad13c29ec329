//! Counting what a function asked of AWS, so that cost is measured and not guessed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Operations of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// Requests answered.
    pub requests: u64,
    /// DynamoDB: capacity units, as the store itself reported them. SQS: messages.
    pub units: f64,
}

/// Counts operations by name.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<Mutex<BTreeMap<&'static str, Used>>>);

impl Meter {
    /// Counts one request.
    pub(crate) fn add(&self, operation: &'static str, units: f64) {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = used.entry(operation).or_default();
        entry.requests += 1;
        entry.units += units;
    }

    /// What was counted so far.
    #[must_use]
    pub fn read(&self) -> BTreeMap<&'static str, Used> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What was counted so far; counting starts anew.
    #[must_use]
    pub fn take(&self) -> BTreeMap<&'static str, Used> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
