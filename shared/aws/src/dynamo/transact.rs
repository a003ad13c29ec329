//! Transactions: transitions and new rows, all or none.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the store's adapter: the one place that writes the table"
)]

use super::DynamoStore;
use super::item::{key_item, to_item};
use super::retry::{BUSY_TRIES, Trouble, log, pause, trouble};
use super::write::{names, values};
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{CancellationReason, Put, TransactWriteItem, Update};
use glassline_protocol::ports::{NewRow, Part, Transacted};
use glassline_protocol::row::RowKey as _;
use glassline_protocol::rule::ConditionalWrite;

fn rendered(part: &Part) -> Option<ConditionalWrite> {
    match part {
        Part::Job(key, transition) => Some(transition.rule().render(key.primary())),
        Part::Story(key, transition) => Some(transition.rule().render(key.primary())),
        Part::Series(key, transition) => Some(transition.rule().render(key.primary())),
        Part::Episode(key, transition) => Some(transition.rule().render(key.primary())),
        Part::Create(_) => None,
    }
}

impl DynamoStore {
    fn new_row(&self, row: &NewRow) -> Option<TransactWriteItem> {
        let item = match row {
            NewRow::Job(row) => to_item(row),
            NewRow::Spec(row) => to_item(row),
            NewRow::Head(row) => to_item(row),
            NewRow::Lane(row) => to_item(row),
            NewRow::Slot(row) => to_item(row),
            NewRow::Series(row) => to_item(row),
            NewRow::Story(row) => to_item(row),
            NewRow::StorySpec(row) => to_item(row),
            NewRow::Episode(row) => to_item(row),
        };
        let put = Put::builder()
            .table_name(&self.table)
            .set_item(Some(item))
            .condition_expression("attribute_not_exists(pk)")
            .build()
            .ok()?;
        Some(TransactWriteItem::builder().put(put).build())
    }

    fn part(&self, part: &Part) -> Option<TransactWriteItem> {
        if let Part::Create(row) = part {
            return self.new_row(row);
        }
        let write = rendered(part)?;
        let update = Update::builder()
            .table_name(&self.table)
            .set_key(Some(key_item(&write.key)))
            .update_expression(&write.update)
            .condition_expression(&write.condition)
            .set_expression_attribute_names(names(&write))
            .set_expression_attribute_values(values(&write))
            .build()
            .ok()?;
        Some(TransactWriteItem::builder().update(update).build())
    }

    /// Makes all parts happen, or none. A conflict with another writer is tried again here, with jitter.
    ///
    /// No client token: it would protect for ten minutes only, and what a lost reply did is read from the rows.
    pub(super) async fn transact_parts(&self, parts: &[Part]) -> Transacted {
        let Some(items) = parts.iter().map(|part| self.part(part)).collect::<Option<Vec<_>>>() else {
            return Transacted::Refused(Vec::new());
        };
        match self.send_together(&items).await {
            Together::Done => Transacted::Done,
            Together::Refused(reasons) => Transacted::Refused(
                reasons
                    .iter()
                    .enumerate()
                    .filter(|(_, reason)| failed(reason))
                    .map(|(place, _)| place)
                    .collect(),
            ),
            Together::Unknown => Transacted::Unknown,
        }
    }

    /// Sends a transaction until it is done, refused by a condition, or nobody can tell. A conflict and throttling are
    /// tried again.
    pub(super) async fn send_together(&self, items: &[TransactWriteItem]) -> Together {
        for attempt in 0..BUSY_TRIES {
            let request = self
                .client
                .transact_write_items()
                .set_transact_items(Some(items.to_vec()))
                .return_consumed_capacity(Self::capacity());
            let error = match request.send().await {
                Ok(output) => {
                    self.used("TransactWriteItems", output.consumed_capacity());
                    return Together::Done;
                }
                Err(error) => error,
            };
            if let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) =
                error.as_service_error()
            {
                self.used("TransactWriteItems refused", &[]);
                let reasons = cancelled.cancellation_reasons();
                if reasons.iter().any(failed) {
                    return Together::Refused(reasons.to_vec());
                }
                pause(attempt).await;
                continue;
            }
            match trouble(&error) {
                Trouble::Busy => pause(attempt).await,
                Trouble::Unknown => return Together::Unknown,
                Trouble::Broken => {
                    log("TransactWriteItems", &self.table, &error);
                    return Together::Unknown;
                }
            }
        }
        Together::Unknown
    }
}

/// What became of a transaction.
pub(super) enum Together {
    /// All of it happened.
    Done,
    /// None of it happened: the reasons, in the order of the items, at least one a failed condition.
    Refused(Vec<CancellationReason>),
    /// Nobody can tell.
    Unknown,
}

/// Whether it was this item's condition that refused.
pub(super) fn failed(reason: &CancellationReason) -> bool {
    reason.code() == Some("ConditionalCheckFailed")
}
