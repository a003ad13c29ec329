//! Sending.

use rusqlite::{OptionalExtension, params};

use super::queues::Queue;
use super::{Effect, Store, int};
use crate::checksum;
use crate::config::DeduplicationScope;
use crate::error::SqsError;
use crate::limits;
use crate::receipt;
use crate::types::Sent;
use crate::validate::{Prepared, check_size};

/// The sequence number of a FIFO message: 20 digits, as SQS's have, growing with its row.
pub(super) fn sequence_number(row: i64) -> String {
    const START: u64 = 10_000_000_000_000_000_000;
    format!("{:020}", START.saturating_add(super::uint(row)))
}

impl Store {
    /// Sends messages, each by itself: the outer error refuses all, an inner one its message.
    pub(crate) fn send(
        &mut self,
        name: &str,
        operation: &'static str,
        messages: Vec<Prepared>,
    ) -> Result<Vec<Result<Sent, SqsError>>, SqsError> {
        let queue = self.queue(name)?;
        self.count_request(name, operation, 1);
        for message in &messages {
            check_fifo(&queue, message)?;
        }
        let mut sent = Vec::with_capacity(messages.len());
        for message in messages {
            sent.push(match check_message(&queue, &message) {
                Ok(()) => Ok(self.send_one(&queue, message)?),
                Err(error) => Err(error),
            });
        }
        self.effect(Effect::Wake(queue.name));
        Ok(sent)
    }

    fn send_one(&mut self, queue: &Queue, mut message: Prepared) -> Result<Sent, SqsError> {
        let now_ms = self.now_ms();
        let fifo = queue.config.settings.fifo;
        let mut answer = Sent {
            id: receipt::uuid()?,
            md5_of_body: message.md5_of_body.clone(),
            md5_of_message_attributes: message.md5_of_attributes.clone(),
            md5_of_system_attributes: message.md5_of_system_attributes.clone(),
            sequence_number: None,
        };
        if !fifo {
            let copies = 1 + u32::from(self.faults.duplicate());
            for _ in 0..copies {
                let delay_ms = message.outgoing.delay_ms.unwrap_or(queue.config.settings.delay_ms);
                let delay_ms = int(delay_ms.saturating_add(self.faults.extra_delay_ms()));
                self.insert(queue, &answer.id, &message, now_ms, delay_ms)?;
            }
            self.effect(Effect::Sent(queue.name.clone(), 1));
            return Ok(answer);
        }
        let id = message
            .outgoing
            .deduplication_id
            .get_or_insert_with(|| checksum::sha256_hex(message.outgoing.body.as_bytes()))
            .clone();
        let key = match queue.config.scope {
            DeduplicationScope::Queue => id,
            // Neither id has a space, so no other pair gives the same key.
            DeduplicationScope::MessageGroup => {
                format!("{} {id}", message.outgoing.group_id.as_deref().unwrap_or_default())
            }
        };
        if let Some((first, row)) = self.deduplicated(queue, &key, now_ms)? {
            self.effect(Effect::Deduplicated(queue.name.clone(), 1));
            answer.id = first;
            answer.sequence_number = Some(sequence_number(row));
            return Ok(answer);
        }
        let row = self.insert(queue, &answer.id, &message, now_ms, int(queue.config.settings.delay_ms))?;
        self.conn
            .prepare_cached("INSERT INTO deduplication VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![queue.id, key, answer.id, row, now_ms + int(limits::DEDUPLICATION_MS)])?;
        answer.sequence_number = Some(sequence_number(row));
        self.effect(Effect::Sent(queue.name.clone(), 1));
        Ok(answer)
    }

    /// The first message with this key, also if it was received and deleted since.
    fn deduplicated(&self, queue: &Queue, key: &str, now_ms: i64) -> Result<Option<(String, i64)>, SqsError> {
        self.conn.prepare_cached("DELETE FROM deduplication WHERE until_ms <= ?1")?.execute([now_ms])?;
        let mut statement = self.conn.prepare_cached(
            "SELECT message_id, message FROM deduplication WHERE queue_id = ?1 AND key = ?2",
        )?;
        let found = statement.query_row(params![queue.id, key], |row| Ok((row.get(0)?, row.get(1)?)));
        Ok(found.optional()?)
    }

    fn insert(
        &self,
        queue: &Queue,
        message_id: &str,
        message: &Prepared,
        now_ms: i64,
        delay_ms: i64,
    ) -> Result<i64, SqsError> {
        let outgoing = &message.outgoing;
        self.conn
            .prepare_cached(
                "INSERT INTO messages (queue_id, message_id, visible_ms, kept_from_ms, sent_ms, group_id,
                                       deduplication_id, trace_header, attributes, body)
                 VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
                queue.id,
                message_id,
                now_ms.saturating_add(delay_ms),
                now_ms,
                outgoing.group_id,
                outgoing.deduplication_id,
                outgoing.trace_header,
                message.attributes_json,
                outgoing.body,
            ])?;
        Ok(self.conn.last_insert_rowid())
    }
}

/// What a FIFO queue needs; without it, SQS refuses the whole batch.
fn check_fifo(queue: &Queue, message: &Prepared) -> Result<(), SqsError> {
    let settings = &queue.config.settings;
    if !settings.fifo {
        return Ok(());
    }
    if message.outgoing.group_id.is_none() {
        return Err(SqsError::MissingParameter { name: "MessageGroupId" });
    }
    if message.outgoing.deduplication_id.is_none() && !settings.content_based_deduplication {
        return Err(SqsError::parameter(
            "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided \
             explicitly",
        ));
    }
    Ok(())
}

fn check_message(queue: &Queue, message: &Prepared) -> Result<(), SqsError> {
    let fifo = queue.config.settings.fifo;
    let not_here = |parameter: &str| {
        Err(SqsError::parameter(format!(
            "The value for parameter {parameter} is invalid. Reason: The request include parameter that is not valid \
             for this queue type."
        )))
    };
    if fifo && message.outgoing.delay_ms.is_some_and(|delay_ms| delay_ms > 0) {
        return not_here("DelaySeconds");
    }
    if !fifo && message.outgoing.deduplication_id.is_some() {
        return not_here("MessageDeduplicationId");
    }
    check_size(message.size_bytes, queue.config.max_message_bytes)
}
