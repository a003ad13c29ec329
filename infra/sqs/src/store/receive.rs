//! Receiving: which messages come next, and which have been received too often.

use rusqlite::{Row, params};

use super::queues::Queue;
use super::send::sequence_number;
use super::{Effect, Store, int, uint};
use crate::checksum;
use crate::error::SqsError;
use crate::limits;
use crate::receipt::{self, Receipt};
use crate::types::Message;
use crate::validate::store_error;

/// How many messages at once go to the dead-letter queue.
const EXHAUSTED_MAX: usize = 100;
/// From how many times further back an injected disorder takes messages.
const REORDER_REACH: usize = 8;
/// Who sent a message: there is one account and no identity.
const SENDER_ID: &str = "000000000000";

/// One look of a receive; a long poll looks often.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// How many messages it may take, 1 to 10.
    pub max: usize,
    /// Their visibility; the queue's where there is none.
    pub visibility_ms: Option<u64>,
    /// How long it may wait; as the queue says where there is none.
    pub wait_ms: Option<u64>,
    /// The first look of its request: counts it.
    pub first: bool,
}

/// What a look found.
#[derive(Debug)]
pub(crate) struct Received {
    pub messages: Vec<Message>,
    /// When the next invisible message becomes visible, in epoch ms.
    pub next_visible_ms: Option<u64>,
    /// How long the request may wait altogether.
    pub wait_ms: u64,
}

/// What a receive comes upon.
struct Candidates {
    /// The messages to deliver.
    next: Vec<i64>,
    /// The messages in their way that have had all their receives.
    exhausted: Vec<i64>,
    /// Whether it stopped early because of those.
    more: bool,
}

const COLUMNS: &str = "id, message_id, sent_ms, first_received_ms, receives, group_id, deduplication_id, \
                       trace_header, source, attributes, body";

/// A message row, and the attributes still as JSON.
struct Stored {
    row: i64,
    message: Message,
    attributes: Option<String>,
}

fn stored(row: &Row<'_>, fifo: bool) -> rusqlite::Result<Stored> {
    let id: i64 = row.get(0)?;
    let receives = u32::try_from(row.get::<_, i64>(4)?).unwrap_or(u32::MAX);
    let body: String = row.get(10)?;
    let source: Option<String> = row.get(8)?;
    let mut attributes = vec![
        ("SenderId", Some(SENDER_ID.to_owned())),
        ("SentTimestamp", Some(row.get::<_, i64>(2)?.to_string())),
        ("ApproximateReceiveCount", Some(receives.to_string())),
        ("ApproximateFirstReceiveTimestamp", row.get::<_, Option<i64>>(3)?.map(|ms| ms.to_string())),
        ("MessageGroupId", row.get(5)?),
        ("MessageDeduplicationId", row.get(6)?),
        ("AWSTraceHeader", row.get(7)?),
        ("DeadLetterQueueSourceArn", source.map(|queue| crate::config::queue_arn(&queue))),
    ];
    attributes.push(("SequenceNumber", fifo.then(|| sequence_number(id))));
    let message = Message {
        id: row.get(1)?,
        receipt: String::new(),
        md5_of_body: checksum::md5_hex(body.as_bytes()),
        body,
        receives,
        attributes: attributes
            .into_iter()
            .filter_map(|(name, value)| value.map(|value| (name.to_owned(), value)))
            .collect(),
        message_attributes: Default::default(),
    };
    Ok(Stored { row: id, message, attributes: row.get(9)? })
}

fn message(stored: Stored) -> Result<Message, SqsError> {
    let mut message = stored.message;
    if let Some(attributes) = stored.attributes {
        message.message_attributes = serde_json::from_str(&attributes).map_err(store_error)?;
    }
    Ok(message)
}

impl Store {
    /// Gives up to `max` messages and makes them invisible.
    pub(crate) fn receive(&mut self, name: &str, look: Look) -> Result<Received, SqsError> {
        let queue = self.queue(name)?;
        if look.first {
            self.count_request(name, "ReceiveMessage", 1);
        }
        let now_ms = self.now_ms();
        let wait_ms = look.wait_ms.unwrap_or(queue.config.wait_ms);
        let max = look.max.min(self.room_in_flight(&queue, now_ms, wait_ms == 0)?);
        let visible_ms = now_ms + int(look.visibility_ms.unwrap_or(queue.config.settings.visibility_ms));
        let target = self.dead_letter_queue(&queue)?;
        let mut messages = Vec::new();
        // Without room nothing is looked at, so nothing is moved either.
        let mut more = max > 0;
        while messages.is_empty() && more {
            let found = self.candidates(&queue, target.as_ref(), now_ms, max)?;
            more = found.more;
            if let Some(target) = &target {
                for row in found.exhausted {
                    self.dead_letter(&queue, row, target, now_ms)?;
                }
            }
            for row in found.next {
                messages.push(self.take(&queue, row, now_ms, visible_ms)?);
            }
        }
        if !messages.is_empty() {
            let count = u64::try_from(messages.len()).unwrap_or(u64::MAX);
            self.effect(Effect::Received(queue.name.clone(), count));
        }
        let next_visible_ms = match messages.is_empty() {
            true => self.next_visible_ms(&queue, now_ms)?,
            false => None,
        };
        Ok(Received { messages, next_visible_ms, wait_ms })
    }

    /// How many more messages may be in flight. At the limit a short poll of a standard queue fails; a long poll and a
    /// FIFO queue just give none.
    fn room_in_flight(&self, queue: &Queue, now_ms: i64, short: bool) -> Result<usize, SqsError> {
        let in_flight: i64 = self
            .conn
            .prepare_cached(
                "SELECT count(*) FROM messages WHERE queue_id = ?1 AND visible_ms > ?2 AND receipt IS NOT NULL",
            )?
            .query_row([queue.id, now_ms], |row| row.get(0))?;
        let room = limits::MAX_IN_FLIGHT.saturating_sub(uint(in_flight));
        if room == 0 && short && !queue.config.settings.fifo {
            return Err(SqsError::OverLimit { queue: queue.name.clone() });
        }
        Ok(usize::try_from(room).unwrap_or(usize::MAX))
    }

    /// The rows that may be received now, and among them those that have had all their receives.
    fn candidates(
        &self,
        queue: &Queue,
        target: Option<&Queue>,
        now_ms: i64,
        max: usize,
    ) -> Result<Candidates, SqsError> {
        let fifo = queue.config.settings.fifo;
        let sql = match fifo {
            // A group waits while one of its messages is in flight.
            true => {
                "SELECT id, queue_receives FROM messages WHERE queue_id = ?1 AND visible_ms <= ?2
                 AND group_id NOT IN (SELECT group_id FROM messages
                     WHERE queue_id = ?1 AND visible_ms > ?2 AND receipt IS NOT NULL AND group_id IS NOT NULL)
                 ORDER BY id"
            }
            false => {
                "SELECT id, queue_receives FROM messages INDEXED BY messages_visible
                 WHERE queue_id = ?1 AND visible_ms <= ?2 ORDER BY visible_ms, id"
            }
        };
        let most = queue.config.settings.redrive.as_ref().filter(|_| target.is_some());
        let most = most.map_or(i64::MAX, |redrive| i64::from(redrive.max_receives));
        let reorder = !fifo && self.faults.reorder();
        let reach = if reorder { max.saturating_mul(REORDER_REACH) } else { max };
        let mut found = Candidates { next: Vec::new(), exhausted: Vec::new(), more: false };
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([queue.id, now_ms])?;
        while let Some(row) = rows.next()? {
            let (id, queue_receives): (i64, i64) = (row.get(0)?, row.get(1)?);
            match queue_receives >= most {
                true => found.exhausted.push(id),
                false => found.next.push(id),
            }
            found.more = found.exhausted.len() >= EXHAUSTED_MAX;
            if found.next.len() >= reach || found.more {
                break;
            }
        }
        if reorder {
            self.faults.shuffle(&mut found.next, max);
        }
        Ok(found)
    }

    /// The dead-letter queue. Without it (it was deleted) messages are delivered on: they must not get lost.
    fn dead_letter_queue(&self, queue: &Queue) -> Result<Option<Queue>, SqsError> {
        match &queue.config.settings.redrive {
            Some(redrive) => self.find_queue(&redrive.dead_letter_queue),
            None => Ok(None),
        }
    }

    /// Moves a message to the dead-letter queue. On a standard queue its retention goes on from when it was sent; on a
    /// FIFO queue it starts anew, and its id becomes the deduplication id.
    fn dead_letter(&mut self, queue: &Queue, row: i64, target: &Queue, now_ms: i64) -> Result<(), SqsError> {
        self.conn
            .prepare_cached(
                "INSERT INTO messages (queue_id, message_id, visible_ms, kept_from_ms, sent_ms, first_received_ms,
                     receives, group_id, deduplication_id, trace_header, source, attributes, body)
                 SELECT ?2, message_id, ?3, iif(?5, ?3, kept_from_ms), iif(?5, ?3, sent_ms), first_received_ms,
                     receives, group_id, iif(?5, message_id, deduplication_id), trace_header, ?4, attributes, body
                 FROM messages WHERE id = ?1",
            )?
            .execute(params![row, target.id, now_ms, queue.name, queue.config.settings.fifo])?;
        self.conn.prepare_cached("DELETE FROM messages WHERE id = ?1")?.execute([row])?;
        self.effect(Effect::DeadLettered(queue.name.clone(), 1));
        self.effect(Effect::Wake(target.name.clone()));
        Ok(())
    }

    fn take(&self, queue: &Queue, row: i64, now_ms: i64, visible_ms: i64) -> Result<Message, SqsError> {
        let nonce = receipt::nonce()?;
        self.conn
            .prepare_cached(
                "UPDATE messages SET visible_ms = ?2, received_ms = ?3, receipt = ?4, receives = receives + 1,
                     queue_receives = queue_receives + 1, first_received_ms = coalesce(first_received_ms, ?3)
                 WHERE id = ?1",
            )?
            .execute([row, visible_ms, now_ms, nonce])?;
        let sql = format!("SELECT {COLUMNS} FROM messages WHERE id = ?1");
        let fifo = queue.config.settings.fifo;
        let stored = self.conn.prepare_cached(&sql)?.query_row([row], |row| stored(row, fifo))?;
        let receipt = Receipt { queue_id: queue.id, message: stored.row, nonce };
        Ok(Message { receipt: receipt.to_handle(), ..message(stored)? })
    }

    fn next_visible_ms(&self, queue: &Queue, now_ms: i64) -> Result<Option<u64>, SqsError> {
        let next: Option<i64> = self
            .conn
            .prepare_cached("SELECT min(visible_ms) FROM messages WHERE queue_id = ?1 AND visible_ms > ?2")?
            .query_row([queue.id, now_ms], |row| row.get(0))?;
        Ok(next.map(uint))
    }

    /// Every stored message in the order of sending, at most `limit`, without receiving it.
    pub(crate) fn peek(&mut self, name: &str, limit: usize) -> Result<Vec<Message>, SqsError> {
        let queue = self.queue(name)?;
        let fifo = queue.config.settings.fifo;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let sql = format!("SELECT {COLUMNS} FROM messages WHERE queue_id = ?1 ORDER BY id LIMIT ?2");
        let mut statement = self.conn.prepare_cached(&sql)?;
        let rows = statement.query_map([queue.id, limit], |row| stored(row, fifo))?;
        rows.map(|row| message(row?)).collect()
    }
}
