//! Queues: creating, finding, changing, deleting, measuring them.

use rusqlite::{OptionalExtension, Row, params};

use super::{Store, int, uint};
use crate::config::{Attributes, QueueConfig, queue_arn};
use crate::error::SqsError;
use crate::limits;
use crate::types::Depth;
use crate::validate::{check_queue_name, store_error};

/// A queue as stored.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    pub id: i64,
    pub name: String,
    pub config: QueueConfig,
    pub created_ms: i64,
    pub modified_ms: i64,
    pub purged_ms: Option<i64>,
}

const COLUMNS: &str = "id, name, config, created_ms, modified_ms, purged_ms";

type Raw = (Queue, String);

fn raw(row: &Row<'_>) -> rusqlite::Result<Raw> {
    let queue = Queue {
        id: row.get(0)?,
        name: row.get(1)?,
        config: QueueConfig::from(crate::types::QueueSettings::default()),
        created_ms: row.get(3)?,
        modified_ms: row.get(4)?,
        purged_ms: row.get(5)?,
    };
    Ok((queue, row.get(2)?))
}

fn parsed((mut queue, config): Raw) -> Result<Queue, SqsError> {
    queue.config = serde_json::from_str(&config).map_err(store_error)?;
    Ok(queue)
}

impl Store {
    pub(super) fn find_queue(&self, name: &str) -> Result<Option<Queue>, SqsError> {
        let sql = format!("SELECT {COLUMNS} FROM queues WHERE name = ?1");
        self.conn.prepare_cached(&sql)?.query_row([name], raw).optional()?.map(parsed).transpose()
    }

    /// A queue that has to exist, without the messages whose retention is over.
    pub(super) fn queue(&mut self, name: &str) -> Result<Queue, SqsError> {
        let queue =
            self.find_queue(name)?.ok_or_else(|| SqsError::QueueDoesNotExist { queue: name.to_owned() })?;
        let oldest_ms = self.now_ms() - int(queue.config.settings.retention_ms);
        self.conn
            .prepare_cached("DELETE FROM messages WHERE queue_id = ?1 AND kept_from_ms <= ?2")?
            .execute([queue.id, oldest_ms])?;
        Ok(queue)
    }

    fn all_queues(&self) -> Result<Vec<Queue>, SqsError> {
        let sql = format!("SELECT {COLUMNS} FROM queues ORDER BY name");
        let mut statement = self.conn.prepare_cached(&sql)?;
        let queues = statement.query_map([], raw)?.collect::<Result<Vec<_>, _>>()?;
        queues.into_iter().map(parsed).collect()
    }

    /// Creates a queue, or finds it with the same settings: all of them, or those `named`.
    pub(crate) fn create_queue(
        &mut self,
        name: &str,
        config: &QueueConfig,
        named: Option<&Attributes>,
    ) -> Result<(), SqsError> {
        check_queue_name(name, config.settings.fifo)?;
        config.check()?;
        let now_ms = self.now_ms();
        if let Some(found) = self.find_queue(name)? {
            self.count_request(name, "CreateQueue", 1);
            return match found.config.difference(config, named) {
                None => Ok(()),
                Some(attribute) => Err(SqsError::QueueNameExists { queue: name.to_owned(), attribute }),
            };
        }
        let deleted_ms: Option<i64> = self
            .conn
            .prepare_cached("SELECT deleted_ms FROM deleted_queues WHERE name = ?1")?
            .query_row([name], |row| row.get(0))
            .optional()?;
        if deleted_ms.is_some_and(|deleted_ms| now_ms - deleted_ms < int(limits::PAUSE_MS)) {
            return Err(SqsError::QueueDeletedRecently { queue: name.to_owned() });
        }
        self.check_redrive(name, config)?;
        let config = serde_json::to_string(config).map_err(store_error)?;
        self.conn.execute(
            "INSERT INTO queues (name, config, created_ms, modified_ms) VALUES (?1, ?2, ?3, ?3)",
            params![name, config, now_ms],
        )?;
        self.conn.execute("DELETE FROM deleted_queues WHERE name = ?1", [name])?;
        self.count_request(name, "CreateQueue", 1);
        Ok(())
    }

    /// The dead-letter queue exists, is another queue and of the same type.
    fn check_redrive(&self, name: &str, config: &QueueConfig) -> Result<(), SqsError> {
        let Some(redrive) = &config.settings.redrive else { return Ok(()) };
        let wrong = |reason: &str| {
            Err(SqsError::parameter(format!(
                "The value for parameter RedrivePolicy is invalid. Reason: {reason}"
            )))
        };
        let target = &redrive.dead_letter_queue;
        if target == name {
            return wrong("A queue can't be its own dead-letter queue.");
        }
        match self.find_queue(target)? {
            None => wrong("Dead letter target does not exist."),
            Some(found) if found.config.settings.fifo != config.settings.fifo => {
                wrong("Dead-letter queue must be same type of queue as the source.")
            }
            Some(_) => Ok(()),
        }
    }

    /// The name of a queue that has to exist.
    pub(crate) fn queue_exists(&mut self, name: &str, operation: &'static str) -> Result<(), SqsError> {
        self.queue(name)?;
        self.count_request(name, operation, 1);
        Ok(())
    }

    /// Names after `after` that begin with `prefix`, in order, at most `limit`.
    pub(crate) fn queue_names(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<String>, SqsError> {
        let mut statement = self.conn.prepare_cached(
            "SELECT name FROM queues WHERE name > ?1 AND substr(name, 1, length(?2)) = ?2 ORDER BY name LIMIT ?3",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let names = statement.query_map(params![after, prefix, limit], |row| row.get(0))?;
        Ok(names.collect::<Result<_, _>>()?)
    }

    /// The queues whose redrive policy names this queue, in order.
    pub(crate) fn dead_letter_sources(&mut self, name: &str) -> Result<Vec<String>, SqsError> {
        self.queue_exists(name, "ListDeadLetterSourceQueues")?;
        self.sources_of(name)
    }

    pub(super) fn sources_of(&self, name: &str) -> Result<Vec<String>, SqsError> {
        let feeds = |queue: &Queue| {
            queue.config.settings.redrive.as_ref().is_some_and(|redrive| redrive.dead_letter_queue == name)
        };
        Ok(self.all_queues()?.into_iter().filter(feeds).map(|queue| queue.name).collect())
    }

    /// Deletes a queue with its messages.
    pub(crate) fn delete_queue(&mut self, name: &str) -> Result<(), SqsError> {
        let queue = self.queue(name)?;
        self.count_request(name, "DeleteQueue", 1);
        let now_ms = self.now_ms();
        self.conn.execute("DELETE FROM messages WHERE queue_id = ?1", [queue.id])?;
        self.conn.execute("DELETE FROM deduplication WHERE queue_id = ?1", [queue.id])?;
        self.conn.execute("DELETE FROM queues WHERE id = ?1", [queue.id])?;
        self.conn
            .execute("DELETE FROM deleted_queues WHERE deleted_ms <= ?1", [now_ms - int(limits::PAUSE_MS)])?;
        self.conn.execute(
            "INSERT OR REPLACE INTO deleted_queues (name, deleted_ms) VALUES (?1, ?2)",
            params![name, now_ms],
        )?;
        self.effect(super::Effect::Wake(queue.name));
        Ok(())
    }

    /// Deletes all messages of a queue.
    pub(crate) fn purge_queue(&mut self, name: &str) -> Result<(), SqsError> {
        let queue = self.queue(name)?;
        self.count_request(name, "PurgeQueue", 1);
        let now_ms = self.now_ms();
        if queue.purged_ms.is_some_and(|purged_ms| now_ms - purged_ms < int(limits::PAUSE_MS)) {
            return Err(SqsError::PurgeQueueInProgress { queue: name.to_owned() });
        }
        self.conn.execute("DELETE FROM messages WHERE queue_id = ?1", [queue.id])?;
        self.conn.execute("UPDATE queues SET purged_ms = ?2 WHERE id = ?1", [queue.id, now_ms])?;
        Ok(())
    }

    /// All attributes of a queue.
    pub(crate) fn queue_attributes(&mut self, name: &str) -> Result<Attributes, SqsError> {
        let queue = self.queue(name)?;
        self.count_request(name, "GetQueueAttributes", 1);
        let depth = self.depth_of(&queue)?;
        let mut attributes = queue.config.attributes();
        let mut put = |name: &str, value: String| attributes.insert(name.to_owned(), value);
        put("QueueArn", queue_arn(name));
        put("CreatedTimestamp", (queue.created_ms / 1_000).to_string());
        put("LastModifiedTimestamp", (queue.modified_ms / 1_000).to_string());
        put("ApproximateNumberOfMessages", depth.visible.to_string());
        put("ApproximateNumberOfMessagesNotVisible", depth.in_flight.to_string());
        put("ApproximateNumberOfMessagesDelayed", depth.delayed.to_string());
        Ok(attributes)
    }

    /// Changes attributes of a queue.
    pub(crate) fn set_queue_attributes(
        &mut self,
        name: &str,
        attributes: &Attributes,
    ) -> Result<(), SqsError> {
        let queue = self.queue(name)?;
        self.count_request(name, "SetQueueAttributes", 1);
        let mut config = queue.config.clone();
        config.change(attributes)?;
        if config.settings.redrive != queue.config.settings.redrive {
            self.check_redrive(name, &config)?;
        }
        let now_ms = self.now_ms();
        if config.settings.fifo && config.settings.delay_ms != queue.config.settings.delay_ms {
            // On a FIFO queue a changed delay is also that of the messages already sent.
            self.conn.execute(
                "UPDATE messages SET visible_ms = sent_ms + ?2 WHERE queue_id = ?1 AND receipt IS NULL AND receives = 0",
                [queue.id, int(config.settings.delay_ms)],
            )?;
        }
        let config = serde_json::to_string(&config).map_err(store_error)?;
        self.conn.execute(
            "UPDATE queues SET config = ?2, modified_ms = ?3 WHERE id = ?1",
            params![queue.id, config, now_ms],
        )?;
        self.effect(super::Effect::Wake(queue.name));
        Ok(())
    }

    /// How many messages the queue holds.
    pub(crate) fn depth(&mut self, name: &str) -> Result<Depth, SqsError> {
        let queue = self.queue(name)?;
        self.depth_of(&queue)
    }

    fn depth_of(&mut self, queue: &Queue) -> Result<Depth, SqsError> {
        let now_ms = self.now_ms();
        let mut statement = self.conn.prepare_cached(
            "SELECT count(*) FILTER (WHERE visible_ms <= ?2),
                    count(*) FILTER (WHERE visible_ms > ?2 AND receipt IS NOT NULL),
                    count(*) FILTER (WHERE visible_ms > ?2 AND receipt IS NULL),
                    min(sent_ms)
             FROM messages WHERE queue_id = ?1",
        )?;
        let depth = statement.query_row([queue.id, now_ms], |row| {
            Ok(Depth {
                visible: uint(row.get(0)?),
                in_flight: uint(row.get(1)?),
                delayed: uint(row.get(2)?),
                oldest_sent_ms: row.get::<_, Option<i64>>(3)?.map(uint),
            })
        })?;
        Ok(depth)
    }
}
