//! Looking through the whole table for jobs, a bounded part at a time.

use super::DynamoStore;
use super::item::{from_item, key_item, key_of};
use aws_sdk_dynamodb::types::AttributeValue;
use glassline_protocol::ports::{JobFilter, JobPage, JobScan, Read, ScanCursor};
use glassline_protocol::row::{JobRow, Row as _, RowKey as _};
use std::collections::HashMap;

/// Most pages of one call, 1 MB each: 512 read units at most.
const MAX_PAGES: usize = 4;

/// The condition of a filter and its values. Only jobs have a rank.
fn condition(filter: &JobFilter) -> (String, HashMap<String, AttributeValue>) {
    let mut values = HashMap::from([(":lane".to_owned(), AttributeValue::S(filter.lane.to_string()))]);
    let names: Vec<String> = filter
        .statuses
        .iter()
        .map(|status| {
            let name = format!(":{}", status.word());
            values.insert(name.clone(), AttributeValue::S(status.word().to_owned()));
            name
        })
        .collect();
    let mut text = format!("attribute_exists(#rank) AND #lane = :lane AND #status IN ({})", names.join(", "));
    if let Some(class) = filter.class {
        text.push_str(" AND error_class = :class");
        values.insert(":class".to_owned(), AttributeValue::S(class.to_string()));
    }
    (text, values)
}

impl JobScan for DynamoStore {
    async fn scan_jobs(
        &self,
        filter: &JobFilter,
        cursor: Option<&ScanCursor>,
        limit: usize,
    ) -> Read<JobPage> {
        let (condition, values) = condition(filter);
        let mut start = cursor.map(|cursor| key_item(&cursor.0));
        let mut jobs: Vec<JobRow> = Vec::new();
        for _ in 0..MAX_PAGES {
            let output = self
                .client
                .scan()
                .table_name(&self.table)
                .filter_expression(&condition)
                .expression_attribute_names("#rank", "rank")
                .expression_attribute_names("#lane", "lane")
                .expression_attribute_names("#status", "status")
                .set_expression_attribute_values(Some(values.clone()))
                .set_exclusive_start_key(start)
                .return_consumed_capacity(Self::capacity())
                .send()
                .await
                .map_err(|error| self.unread("Scan", &error))?;
            self.used("Scan", output.consumed_capacity.as_slice());
            for item in output.items.unwrap_or_default() {
                // One row that can't be understood must not keep the others waiting.
                match from_item::<JobRow>(&item) {
                    Ok(job) => jobs.push(job),
                    Err(bad) => {
                        tracing::error!(event = "bad_row", error = %bad, "a row can't be understood");
                    }
                }
                if jobs.len() == limit {
                    let cursor = jobs.last().map(|job| ScanCursor(job.key().primary()));
                    return Ok(JobPage { jobs, cursor });
                }
            }
            start = output.last_evaluated_key;
            if start.is_none() {
                return Ok(JobPage { jobs, cursor: None });
            }
        }
        let cursor = start.as_ref().map(key_of).transpose()?.map(ScanCursor);
        Ok(JobPage { jobs, cursor })
    }
}
