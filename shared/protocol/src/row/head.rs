//! The head of a parent.

use super::{BadRow, PrimaryKey, RowKey, row};
use crate::ids::{LaneName, Ms, ParentKey};

row! {
    /// The head of a post: what the registry lists.
    HeadRow, HeadField, HeadKey {
        /// How many jobs it owns.
        jobs: u32 = Jobs "jobs",
        /// Their lane.
        lane: LaneName = Lane "lane",
        /// Their priority, 0 to 1000.
        priority: u32 = Priority "priority",
        /// When it was created, in epoch milliseconds.
        created_ms: Ms = CreatedMs "created_ms",
        /// SHA-256 of what was submitted: the same id with another body is refused.
        fingerprint: String = Fingerprint "fingerprint",
        /// Partition of the index `queue`: `POSTS#2026-11`.
        queue_pk: Option<String> = QueuePk "queue_pk",
        /// Sort key of the index `queue`: creation time and id.
        queue_sk: Option<String> = QueueSk "queue_sk",
    }
}

/// The key of a head: its parent's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeadKey(
    /// The parent.
    pub ParentKey,
);

impl RowKey for HeadKey {
    fn primary(&self) -> PrimaryKey {
        PrimaryKey { pk: self.0.to_string(), sk: "HEAD".into() }
    }
    fn parse(key: &PrimaryKey) -> Result<Self, BadRow> {
        if key.sk != "HEAD" {
            return Err(BadRow::new(key, "its sk isn't HEAD"));
        }
        key.pk.parse().map(Self).map_err(|error| BadRow::new(key, format!("{error}")))
    }
}
