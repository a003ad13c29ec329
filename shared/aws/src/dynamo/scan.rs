//! Scans of the whole table, for what a person asks now and then. No handler makes one.

use super::DynamoStore;
use super::item::{Item, from_item, key_of};
use aws_sdk_dynamodb::types::AttributeValue;
use glassline_protocol::ledger::Entry;
use glassline_protocol::ports::{Read, Unread};
use glassline_protocol::row::{BadRow, Status};

/// What a ledger is made of, and the rows that couldn't be understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerRows {
    /// The rows.
    pub entries: Vec<Entry>,
    /// What is wrong with others, one sentence each.
    pub bad: Vec<String>,
}

impl DynamoStore {
    /// All outcomes, orphans, and jobs that are rendering or held, consistently page by page. It costs a read unit for
    /// every 4 KB of the table, whatever it finds.
    ///
    /// # Errors
    /// [`Unread::Unavailable`] when a page can't be read. A row that can't be understood is told, not an error.
    pub async fn ledger_rows(&self) -> Read<LedgerRows> {
        let (mut rows, mut start) = (LedgerRows::default(), None);
        loop {
            let output = self
                .client
                .scan()
                .table_name(&self.table)
                .consistent_read(true)
                .filter_expression(
                    "attribute_exists(#verdict) OR attribute_exists(#cancel) OR #status IN (:rendering, :held)",
                )
                .expression_attribute_names("#verdict", "verdict")
                .expression_attribute_names("#cancel", "cancel")
                .expression_attribute_names("#status", "status")
                .expression_attribute_values(":rendering", word(Status::Rendering))
                .expression_attribute_values(":held", word(Status::Held))
                .set_exclusive_start_key(start)
                .return_consumed_capacity(Self::capacity())
                .send()
                .await
                .map_err(|error| self.unread("Scan", &error))?;
            self.used("Scan", output.consumed_capacity.as_slice());
            for item in output.items.unwrap_or_default() {
                match entry(&item) {
                    Ok(entry) => rows.entries.push(entry),
                    Err(bad) => rows.bad.push(Unread::from(bad).to_string()),
                }
            }
            start = output.last_evaluated_key;
            if start.is_none() {
                return Ok(rows);
            }
        }
    }
}

fn word(status: Status) -> AttributeValue {
    AttributeValue::S(status.word().to_owned())
}

fn entry(item: &Item) -> Result<Entry, BadRow> {
    let sk = key_of(item)?.sk;
    // Ids hold no `#`, so these stand in no member's own key.
    Ok(if sk.contains("#OUTCOME#") {
        Entry::Outcome(Box::new(from_item(item)?))
    } else if sk.contains("#ORPHAN#") {
        Entry::Orphan(Box::new(from_item(item)?))
    } else {
        Entry::Job(Box::new(from_item(item)?))
    })
}
