//! Moving the messages of a dead-letter queue back.

use rusqlite::{Row, params};

use super::queues::Queue;
use super::{Effect, Store, uint};
use crate::error::SqsError;
use crate::receipt;

/// How many tasks of a queue a listing gives at most.
const LISTED_MAX: i64 = 10;

/// A task that moved messages; it is over when it is first seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MoveTask {
    pub id: i64,
    pub destination: Option<String>,
    pub per_second: Option<i64>,
    pub started_ms: u64,
    pub moved: u64,
    pub to_move: u64,
    pub failure: Option<String>,
}

fn task(row: &Row<'_>) -> rusqlite::Result<MoveTask> {
    Ok(MoveTask {
        id: row.get(0)?,
        destination: row.get(1)?,
        per_second: row.get(2)?,
        started_ms: uint(row.get(3)?),
        moved: uint(row.get(4)?),
        to_move: uint(row.get(5)?),
        failure: row.get(6)?,
    })
}

impl Store {
    /// Moves every visible message of a dead-letter queue at once: to `destination`, or each to where it came from. What
    /// has nowhere to go stays. Gives the task's id.
    pub(crate) fn move_messages(
        &mut self,
        source: &str,
        destination: Option<&str>,
        per_second: Option<i64>,
    ) -> Result<i64, SqsError> {
        let missing = |parameter| SqsError::ResourceNotFound { parameter };
        self.find_queue(source)?.ok_or(missing("SourceArn"))?;
        let queue = self.queue(source)?;
        self.count_request(source, "StartMessageMoveTask", 1);
        if self.sources_of(source)?.is_empty() {
            return Err(SqsError::parameter("Source queue must be configured as a Dead Letter Queue."));
        }
        let target = match destination {
            Some(name) => Some(self.find_queue(name)?.ok_or(missing("DestinationArn"))?),
            None => None,
        };
        if target.as_ref().is_some_and(|target| target.config.settings.fifo != queue.config.settings.fifo) {
            return Err(SqsError::parameter(
                "The destination queue must be of the same type as the source queue.",
            ));
        }
        let now_ms = self.now_ms();
        let rows = self.movable(&queue, now_ms)?;
        let (mut moved, mut failure) = (0_i64, None);
        for (row, from) in &rows {
            let to = match (&target, from) {
                (Some(target), _) => Some(target.clone()),
                (None, Some(from)) => self.find_queue(from)?,
                (None, None) => None,
            };
            match (to, from) {
                (Some(to), _) => {
                    self.move_one(*row, &to, now_ms)?;
                    moved += 1;
                }
                (None, Some(_)) => failure = Some("AWS.SimpleQueueService.NonExistentQueue"),
                (None, None) => failure = Some("CouldNotDetermineMessageSource"),
            }
        }
        let to_move = i64::try_from(rows.len()).unwrap_or(i64::MAX);
        self.conn.execute(
            "INSERT INTO move_tasks (source, destination, per_second, started_ms, moved, to_move, failure)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![source, destination, per_second, now_ms, moved, to_move, failure],
        )?;
        Ok(self.conn.last_insert_rowid())
    }

    fn movable(&self, queue: &Queue, now_ms: i64) -> Result<Vec<(i64, Option<String>)>, SqsError> {
        let mut statement = self.conn.prepare_cached(
            "SELECT id, source FROM messages WHERE queue_id = ?1 AND visible_ms <= ?2 ORDER BY id",
        )?;
        let rows = statement.query_map([queue.id, now_ms], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// A moved message is a new one: new id, new time, nothing received yet.
    fn move_one(&mut self, row: i64, to: &Queue, now_ms: i64) -> Result<(), SqsError> {
        self.conn
            .prepare_cached(
                "INSERT INTO messages (queue_id, message_id, visible_ms, kept_from_ms, sent_ms, group_id,
                     deduplication_id, trace_header, attributes, body)
                 SELECT ?2, ?3, ?4, ?4, ?4, group_id, deduplication_id, trace_header, attributes, body
                 FROM messages WHERE id = ?1",
            )?
            .execute(params![row, to.id, receipt::uuid()?, now_ms])?;
        self.conn.prepare_cached("DELETE FROM messages WHERE id = ?1")?.execute([row])?;
        self.effect(Effect::Wake(to.name.clone()));
        Ok(())
    }

    /// The latest tasks of a queue, the newest first.
    pub(crate) fn move_tasks(&mut self, source: &str, max: i64) -> Result<Vec<MoveTask>, SqsError> {
        if self.find_queue(source)?.is_none() {
            return Err(SqsError::ResourceNotFound { parameter: "SourceArn" });
        }
        self.count_request(source, "ListMessageMoveTasks", 1);
        let mut statement = self.conn.prepare_cached(
            "SELECT id, destination, per_second, started_ms, moved, to_move, failure FROM move_tasks
             WHERE source = ?1 ORDER BY id DESC LIMIT ?2",
        )?;
        let tasks = statement.query_map(params![source, max.min(LISTED_MAX)], task)?;
        Ok(tasks.collect::<Result<_, _>>()?)
    }
}
