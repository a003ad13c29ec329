//! Schemas of words: enums of the protocol, which know nothing of JSON schemas.

use crate::problem::Code;
use glassline_protocol::note::Did;
use glassline_protocol::row::outcome::Cost;
use glassline_protocol::row::{EpisodeStatus, QaState, Status, StoryStatus, Verdict};
use schemars::{Schema, SchemaGenerator, json_schema};

fn one_of<'a>(words: impl Iterator<Item = &'a str>) -> Schema {
    json_schema!({ "type": "string", "enum": words.collect::<Vec<_>>() })
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident of $kind:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(_: &mut SchemaGenerator) -> Schema {
            one_of(<$kind>::ALL.iter().map(|value| value.word()))
        }
    )*};
}

words! {
    /// Codes of problems.
    code of Code;
    /// Where a job stands.
    status of Status;
    /// Where an episode stands.
    episode_status of EpisodeStatus;
    /// Where a story stands.
    story_status of StoryStatus;
    /// What QA said.
    qa of QaState;
    /// What an attempt cost.
    cost of Cost;
    /// How an attempt ended.
    verdict of Verdict;
    /// What was done about a request.
    did of Did;
}

/// An id, a lane's name: 1 to 64 letters, digits, dots, underscores or hyphens.
#[must_use]
pub fn name() -> serde_json::Value {
    serde_json::json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$" })
}

/// As [`name`], as the schema of a field.
pub fn id(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$" })
}
