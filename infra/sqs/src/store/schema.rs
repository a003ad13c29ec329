//! The tables.

use rusqlite::{Connection, ErrorCode};

use crate::engine::Durability;
use crate::error::SqsError;

/// The version of the tables, in `user_version`.
const VERSION: i64 = 1;

/// Times are epoch ms. A message is in flight while it has a receipt and is invisible, delayed while it has none and is
/// invisible. `kept_from_ms` starts its retention. Row ids are never reused, so an old receipt never hits a new message;
/// they also are the order of a FIFO queue.
const TABLES: &str = "
CREATE TABLE queues (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    config TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    modified_ms INTEGER NOT NULL,
    purged_ms INTEGER
);
CREATE TABLE deleted_queues (
    name TEXT PRIMARY KEY,
    deleted_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue_id INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    visible_ms INTEGER NOT NULL,
    kept_from_ms INTEGER NOT NULL,
    sent_ms INTEGER NOT NULL,
    received_ms INTEGER,
    first_received_ms INTEGER,
    receives INTEGER NOT NULL DEFAULT 0,
    queue_receives INTEGER NOT NULL DEFAULT 0,
    receipt INTEGER,
    group_id TEXT,
    deduplication_id TEXT,
    trace_header TEXT,
    source TEXT,
    attributes TEXT,
    body TEXT NOT NULL
);
CREATE INDEX messages_visible ON messages (queue_id, visible_ms, id);
CREATE INDEX messages_order ON messages (queue_id, id);
CREATE INDEX messages_kept ON messages (queue_id, kept_from_ms);
CREATE INDEX messages_in_flight ON messages (queue_id, visible_ms, group_id) WHERE receipt IS NOT NULL;
CREATE TABLE deduplication (
    queue_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    message_id TEXT NOT NULL,
    message INTEGER NOT NULL,
    until_ms INTEGER NOT NULL,
    PRIMARY KEY (queue_id, key)
) WITHOUT ROWID;
CREATE INDEX deduplication_until ON deduplication (until_ms);
CREATE TABLE move_tasks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source TEXT NOT NULL,
    destination TEXT,
    per_second INTEGER,
    started_ms INTEGER NOT NULL,
    moved INTEGER NOT NULL,
    to_move INTEGER NOT NULL,
    failure TEXT
);
";

/// Sets the connection up and creates the tables in an empty file.
///
/// # Errors
/// `Storage`: in use by another process, of another version, or not a store at all.
pub(super) fn prepare(conn: &Connection, durability: Durability) -> Result<(), SqsError> {
    set_up(conn, durability).map_err(|error| match error {
        Failure::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
            SqsError::Storage { detail: "the file is in use: close the engine that has it open".to_owned() }
        }
        Failure::Sqlite(error) => error.into(),
        Failure::Version => {
            let detail = format!("the file is no queue store of version {VERSION}: move it away");
            SqsError::Storage { detail }
        }
    })
}

enum Failure {
    Sqlite(rusqlite::Error),
    Version,
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

fn set_up(conn: &Connection, durability: Durability) -> Result<(), Failure> {
    // Exclusive: receipts, long polls and counts live in one process, so a second one would quietly go wrong.
    conn.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    // In memory the answer is `memory`, which is right too.
    conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0))?;
    let synchronous = match durability {
        Durability::PowerLoss => "FULL",
        Durability::ProcessCrash => "NORMAL",
    };
    conn.pragma_update(None, "synchronous", synchronous)?;
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let version: i64 = conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (version, tables) {
        (0, 0) => {
            conn.execute_batch(TABLES)?;
            conn.pragma_update(None, "user_version", VERSION)?;
        }
        (VERSION, _) => {}
        _ => return Err(Failure::Version),
    }
    conn.execute_batch("COMMIT")?;
    Ok(())
}
