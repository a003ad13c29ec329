//! What is done to a received message: deleting it and changing its visibility.

use rusqlite::{OptionalExtension, params};

use super::queues::Queue;
use super::{Effect, Store, int};
use crate::error::SqsError;
use crate::limits;
use crate::receipt::Receipt;

/// What a receipt handle finds.
enum Found {
    /// The message, under its latest receipt.
    Current { visible_ms: i64, received_ms: i64 },
    /// The message, but it was received again (or moved on) since.
    Stale,
    /// No message: deleted, purged, expired or moved to another queue.
    Gone,
}

impl Store {
    fn find(&self, queue: &Queue, receipt: Receipt) -> Result<Found, SqsError> {
        if receipt.queue_id != queue.id {
            return Err(SqsError::ReceiptHandleIsInvalid);
        }
        let row: Option<(Option<i64>, i64, Option<i64>)> = self
            .conn
            .prepare_cached(
                "SELECT receipt, visible_ms, received_ms FROM messages WHERE id = ?1 AND queue_id = ?2",
            )?
            .query_row(params![receipt.message, queue.id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        Ok(match row {
            None => Found::Gone,
            Some((Some(nonce), visible_ms, Some(received_ms))) if nonce == receipt.nonce => {
                Found::Current { visible_ms, received_ms }
            }
            Some(_) => Found::Stale,
        })
    }

    /// Deletes messages by their receipt handles, each by itself.
    ///
    /// On a standard queue a handle that isn't the latest one succeeds without deleting; on a FIFO queue such a handle,
    /// and one whose visibility has ended, is refused. Deleting a message that is gone succeeds.
    pub(crate) fn delete(
        &mut self,
        name: &str,
        requests: (&'static str, u64),
        handles: &[String],
    ) -> Result<Vec<Result<(), SqsError>>, SqsError> {
        let queue = self.queue(name)?;
        self.count_request(name, requests.0, requests.1);
        let mut results = Vec::with_capacity(handles.len());
        let mut deleted = 0;
        for handle in handles {
            results.push(match self.delete_one(&queue, handle) {
                Ok(done) => {
                    deleted += u64::from(done);
                    Ok(())
                }
                Err(error) if error.is_sender_fault() => Err(error),
                Err(error) => return Err(error),
            });
        }
        self.effect(Effect::Deleted(queue.name.clone(), deleted));
        if queue.config.settings.fifo {
            // The group's next message may be received now.
            self.effect(Effect::Wake(queue.name));
        }
        Ok(results)
    }

    fn delete_one(&mut self, queue: &Queue, handle: &str) -> Result<bool, SqsError> {
        let receipt = Receipt::from_handle(handle)?;
        let now_ms = self.now_ms();
        let fifo = queue.config.settings.fifo;
        match self.find(queue, receipt)? {
            Found::Current { visible_ms, .. } if !fifo || visible_ms > now_ms => {
                self.conn.prepare_cached("DELETE FROM messages WHERE id = ?1")?.execute([receipt.message])?;
                Ok(true)
            }
            Found::Current { .. } | Found::Stale if fifo => Err(SqsError::parameter(
                "The value for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.",
            )),
            Found::Current { .. } | Found::Stale | Found::Gone => Ok(false),
        }
    }

    /// Changes when messages become visible again, counted from now, each by itself. On a standard queue this also works
    /// after the visibility has ended, as long as nobody received the message again (as SQS does).
    pub(crate) fn change_visibility(
        &mut self,
        name: &str,
        operation: &'static str,
        changes: &[(String, u64)],
    ) -> Result<Vec<Result<(), SqsError>>, SqsError> {
        let queue = self.queue(name)?;
        self.count_request(name, operation, 1);
        let mut results = Vec::with_capacity(changes.len());
        for (handle, visibility_ms) in changes {
            results.push(match self.change_one(&queue, handle, *visibility_ms) {
                Err(error) if !error.is_sender_fault() => return Err(error),
                result => result,
            });
        }
        self.effect(Effect::Wake(queue.name));
        Ok(results)
    }

    fn change_one(&mut self, queue: &Queue, handle: &str, visibility_ms: u64) -> Result<(), SqsError> {
        let receipt = Receipt::from_handle(handle)?;
        let now_ms = self.now_ms();
        let until_ms = now_ms + int(visibility_ms);
        match self.find(queue, receipt)? {
            Found::Current { visible_ms, .. } if queue.config.settings.fifo && visible_ms <= now_ms => {
                Err(SqsError::MessageNotInflight)
            }
            Found::Current { received_ms, .. } if until_ms - received_ms > int(limits::MAX_VISIBILITY_MS) => {
                Err(SqsError::parameter(
                    "The value for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the \
                     message is beyond the limit [43200 seconds]",
                ))
            }
            Found::Current { .. } => {
                self.conn
                    .prepare_cached("UPDATE messages SET visible_ms = ?2 WHERE id = ?1")?
                    .execute([receipt.message, until_ms])?;
                Ok(())
            }
            Found::Stale => Err(SqsError::MessageNotInflight),
            Found::Gone => Err(SqsError::parameter(
                "The value for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available \
                 for visibility timeout change.",
            )),
        }
    }
}
