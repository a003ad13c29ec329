//! Puts of rows that must not exist yet.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the store's adapter: the one place that writes the table"
)]

use super::DynamoStore;
use super::item::{from_item, to_item};
use super::retry::{BUSY_TRIES, Trouble, log, pause, trouble};
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;
use glassline_protocol::ports::{Created, NewRow};
use glassline_protocol::row::Row;

/// The answer to a put of a new row.
pub(super) enum Put<R> {
    Created,
    Exists(Box<R>),
    Unknown,
}

impl DynamoStore {
    /// Puts a row unless one with its key is there; that one is returned.
    pub(super) async fn put_new<R: Row>(&self, what: &'static str, row: &R) -> Put<R> {
        for attempt in 0..BUSY_TRIES {
            let request = self
                .client
                .put_item()
                .table_name(&self.table)
                .set_item(Some(to_item(row)))
                .condition_expression("attribute_not_exists(pk)")
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
                .return_consumed_capacity(Self::capacity());
            let error = match request.send().await {
                Ok(output) => {
                    self.used(what, output.consumed_capacity.as_slice());
                    return Put::Created;
                }
                Err(error) => error,
            };
            if let Some(PutItemError::ConditionalCheckFailedException(failed)) = error.as_service_error() {
                self.refused("PutItem refused");
                return match failed.item().map(from_item) {
                    Some(Ok(found)) => Put::Exists(Box::new(found)),
                    Some(Err(_)) | None => Put::Unknown,
                };
            }
            match trouble(&error) {
                Trouble::Busy => pause(attempt).await,
                Trouble::Unknown => return Put::Unknown,
                Trouble::Broken => {
                    log("PutItem", &self.table, &error);
                    return Put::Unknown;
                }
            }
        }
        Put::Unknown
    }

    /// Puts a new row of any kind.
    pub(super) async fn create_row(&self, row: &NewRow) -> Created {
        fn answer<R>(put: Put<R>, wrap: impl FnOnce(R) -> NewRow) -> Created {
            match put {
                Put::Created => Created::Created,
                Put::Exists(found) => Created::Exists(Box::new(wrap(*found))),
                Put::Unknown => Created::Unknown,
            }
        }
        match row {
            NewRow::Job(row) => answer(self.put_new("PutItem job", row).await, NewRow::Job),
            NewRow::Spec(row) => answer(self.put_new("PutItem spec", row).await, NewRow::Spec),
            NewRow::Head(row) => answer(self.put_new("PutItem head", row).await, NewRow::Head),
            NewRow::Lane(row) => answer(self.put_new("PutItem lane", row).await, NewRow::Lane),
            NewRow::Slot(row) => answer(self.put_new("PutItem slot", row).await, NewRow::Slot),
            NewRow::Series(row) => answer(self.put_new("PutItem series", row).await, NewRow::Series),
            NewRow::Story(row) => answer(self.put_new("PutItem story", row).await, NewRow::Story),
            NewRow::StorySpec(row) => {
                answer(self.put_new("PutItem story spec", row).await, NewRow::StorySpec)
            }
            NewRow::Episode(row) => answer(self.put_new("PutItem episode", row).await, NewRow::Episode),
        }
    }

    /// Puts a row whatever is there: for rows that are the same whoever writes them. `false` when nobody can tell.
    pub(super) async fn put_same<R: Row>(&self, row: &R) -> bool {
        for attempt in 0..BUSY_TRIES {
            let request = self
                .client
                .put_item()
                .table_name(&self.table)
                .set_item(Some(to_item(row)))
                .return_consumed_capacity(Self::capacity());
            match request.send().await {
                Ok(output) => {
                    self.used("PutItem", output.consumed_capacity.as_slice());
                    return true;
                }
                Err(error) => match trouble(&error) {
                    Trouble::Busy => pause(attempt).await,
                    Trouble::Unknown => return false,
                    Trouble::Broken => {
                        log("PutItem", &self.table, &error);
                        return false;
                    }
                },
            }
        }
        false
    }
}
