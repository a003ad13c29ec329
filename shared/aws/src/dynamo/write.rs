//! Conditional writes: the one place where a transition becomes a request.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the store's adapter: the one place that writes the table"
)]

use super::DynamoStore;
use super::item::{Item, from_item, key_item, to_attribute, to_item};
use super::retry::{BUSY_TRIES, Trouble, log, pause, trouble};
use super::transact::{Together, failed};
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, CancellationReason, ConditionCheck, Put, ReturnValue,
    ReturnValuesOnConditionCheckFailure, TransactWriteItem,
};
use glassline_protocol::ports::{NotStarted, OutcomePut, Written};
use glassline_protocol::row::{OutcomeRow, Row, RowKey};
use glassline_protocol::rule::{ConditionalWrite, Rule};
use std::collections::HashMap;

const ALL_OLD: ReturnValuesOnConditionCheckFailure = ReturnValuesOnConditionCheckFailure::AllOld;

pub(super) fn names(write: &ConditionalWrite) -> Option<HashMap<String, String>> {
    // DynamoDB refuses an empty map of names or values.
    (!write.names.is_empty()).then(|| write.names.clone().into_iter().collect())
}

pub(super) fn values(write: &ConditionalWrite) -> Option<HashMap<String, AttributeValue>> {
    (!write.values.is_empty())
        .then(|| write.values.iter().map(|(name, value)| (name.clone(), to_attribute(value))).collect())
}

fn refused<R: Row>(item: Option<&Item>) -> Written<R> {
    match item.map(from_item).transpose() {
        Ok(row) => Written::Refused(row),
        Err(bad) => {
            tracing::error!(event = "bad_row", error = %bad, "a row can't be understood");
            Written::Unknown
        }
    }
}

impl DynamoStore {
    /// Makes a transition on the table: the rendered rule, with the row that it left or that refused it.
    pub(super) async fn change<R: Row>(&self, key: &R::Key, rule: &Rule<R::Field>) -> Written<R> {
        let write = rule.render(key.primary());
        for attempt in 0..BUSY_TRIES {
            let request = self
                .client
                .update_item()
                .table_name(&self.table)
                .set_key(Some(key_item(&write.key)))
                .update_expression(&write.update)
                .condition_expression(&write.condition)
                .set_expression_attribute_names(names(&write))
                .set_expression_attribute_values(values(&write))
                .return_values(ReturnValue::AllNew)
                .return_values_on_condition_check_failure(ALL_OLD)
                .return_consumed_capacity(Self::capacity());
            let error = match request.send().await {
                Ok(output) => {
                    self.used("UpdateItem", output.consumed_capacity.as_slice());
                    return output.attributes.as_ref().map_or(Written::Unknown, |item| {
                        match from_item(item) {
                            Ok(row) => Written::Applied(row),
                            Err(bad) => {
                                tracing::error!(event = "bad_row", error = %bad, "a row can't be understood");
                                Written::Unknown
                            }
                        }
                    });
                }
                Err(error) => error,
            };
            if let Some(UpdateItemError::ConditionalCheckFailedException(failed)) = error.as_service_error() {
                self.refused("UpdateItem refused");
                return refused(failed.item());
            }
            match trouble(&error) {
                Trouble::Busy => pause(attempt).await,
                Trouble::Unknown => return Written::Unknown,
                Trouble::Broken => {
                    log("UpdateItem", &self.table, &error);
                    return Written::Unknown;
                }
            }
        }
        Written::Unknown
    }

    fn outcome_put(&self, outcome: &OutcomeRow) -> Option<Put> {
        Put::builder()
            .table_name(&self.table)
            .set_item(Some(to_item(outcome)))
            .condition_expression("attribute_not_exists(pk)")
            .return_values_on_condition_check_failure(ALL_OLD)
            .build()
            .ok()
    }

    fn not_started_check(&self, outcome: &OutcomeRow, only_if: &NotStarted) -> Option<ConditionCheck> {
        let rule = Rule { when: only_if.when(), then: Vec::new(), mine: Vec::new() };
        let check = rule.render(outcome.key.job.primary());
        ConditionCheck::builder()
            .table_name(&self.table)
            .set_key(Some(key_item(&check.key)))
            .condition_expression(&check.condition)
            .set_expression_attribute_names(names(&check))
            .set_expression_attribute_values(values(&check))
            .return_values_on_condition_check_failure(ALL_OLD)
            .build()
            .ok()
    }

    /// Puts an outcome if the attempt has none and the attempt is still the caller's, both or neither.
    pub(super) async fn put_outcome_if(&self, outcome: &OutcomeRow, only_if: &NotStarted) -> OutcomePut {
        let (Some(put), Some(check)) = (self.outcome_put(outcome), self.not_started_check(outcome, only_if))
        else {
            return OutcomePut::Unknown;
        };
        let items = [
            TransactWriteItem::builder().put(put).build(),
            TransactWriteItem::builder().condition_check(check).build(),
        ];
        match self.send_together(&items).await {
            Together::Done => OutcomePut::Recorded,
            Together::Refused(reasons) => refused_put(&reasons, outcome),
            Together::Unknown => OutcomePut::Unknown,
        }
    }

    /// Puts an outcome if the attempt has none.
    pub(super) async fn put_outcome_always(&self, outcome: &OutcomeRow) -> OutcomePut {
        match self.put_new("PutItem outcome", outcome).await {
            super::create::Put::Created => OutcomePut::Recorded,
            super::create::Put::Exists(found) if *found == *outcome => OutcomePut::Recorded,
            super::create::Put::Exists(found) => OutcomePut::Exists(found),
            super::create::Put::Unknown => OutcomePut::Unknown,
        }
    }
}

/// What a refused transaction says: the reasons are in the order of its items.
fn refused_put(reasons: &[CancellationReason], outcome: &OutcomeRow) -> OutcomePut {
    match reasons.first().filter(|reason| failed(reason)) {
        Some(reason) => match reason.item().map(from_item::<OutcomeRow>) {
            Some(Ok(found)) if found == *outcome => OutcomePut::Recorded,
            Some(Ok(found)) => OutcomePut::Exists(Box::new(found)),
            Some(Err(_)) | None => OutcomePut::Unknown,
        },
        None => OutcomePut::Moved,
    }
}
