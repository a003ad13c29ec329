//! The store port on DynamoDB: one table, typed rows in, typed rows out.
//!
//! Every conditional write is rendered from its transition's rule, in [`write`], and asks for the row that refused it.
//! Throttling and transaction conflicts are retried here, with jitter; they are not refusals.

mod create;
mod item;
mod read;
mod retry;
mod schema;
mod write;

pub use read::ParentView;
pub use schema::create_table;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnConsumedCapacity};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Name of the sparse index.
pub const QUEUE_INDEX: &str = "queue";

/// The store on one DynamoDB table.
#[derive(Clone, Debug)]
pub struct DynamoStore {
    client: Client,
    table: String,
    meter: Meter,
}

/// Operations of one kind and the capacity they consumed, as the store itself reported it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// Requests answered.
    pub requests: u64,
    /// Capacity units.
    pub units: f64,
}

/// Counts operations and consumed capacity, by operation name.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<Mutex<BTreeMap<&'static str, Used>>>);

impl Meter {
    fn add(&self, operation: &'static str, capacity: &[ConsumedCapacity]) {
        let units: f64 = capacity.iter().filter_map(ConsumedCapacity::capacity_units).sum();
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

impl DynamoStore {
    /// The store on `table`.
    #[must_use]
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self { client, table: table.into(), meter: Meter::default() }
    }

    /// What this store's operations consumed.
    #[must_use]
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    fn capacity() -> ReturnConsumedCapacity {
        ReturnConsumedCapacity::Total
    }
}
