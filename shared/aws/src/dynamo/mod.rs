//! The store port on DynamoDB: one table, typed rows in, typed rows out.
//!
//! Every conditional write is rendered from its transition's rule, in [`write`], and asks for the row that refused it.
//! Throttling and transaction conflicts are retried here, with jitter; they are not refusals.

mod create;
mod item;
mod read;
mod registry;
mod retry;
mod scan;
mod schema;
mod search;
mod transact;
mod write;

pub use scan::LedgerRows;
pub use schema::create_table;

use crate::meter::Meter;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnConsumedCapacity};

/// Name of the sparse index.
pub const QUEUE_INDEX: &str = "queue";

/// The store on one DynamoDB table.
#[derive(Clone, Debug)]
pub struct DynamoStore {
    client: Client,
    table: String,
    meter: Meter,
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

    fn used(&self, operation: &'static str, capacity: &[ConsumedCapacity]) {
        self.meter.add(operation, capacity.iter().filter_map(ConsumedCapacity::capacity_units).sum());
    }

    /// Counts a refused conditional write. The refusal doesn't say what it consumed; AWS charges it like the write, and
    /// our rows that are written conditionally are within one unit.
    fn refused(&self, operation: &'static str) {
        self.meter.add(operation, 1.0);
    }

    fn capacity() -> ReturnConsumedCapacity {
        ReturnConsumedCapacity::Total
    }
}
