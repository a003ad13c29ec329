//! Pages of lists: how many items, and where the page before ended.

use crate::problem::{Code, Problem};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Value, json};
use std::str::FromStr;

/// Items on a page that doesn't say how many.
pub const PAGE: usize = 20;
/// Most items on a page.
pub const MAX_PAGE: usize = 100;
/// Longest cursor that is read.
const MAX_CURSOR_BYTES: usize = 4_096;

/// The query of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paging {
    /// From the page before.
    pub cursor: Option<String>,
    /// Items on the page.
    pub limit: Option<usize>,
}

impl Paging {
    /// How many items.
    ///
    /// # Errors
    /// It is out of range.
    pub fn limit(&self) -> Result<usize, Problem> {
        limit(self.limit)
    }

    /// Where the page before ended.
    ///
    /// # Errors
    /// The cursor isn't one of ours.
    pub fn after<T: FromStr>(&self) -> Result<Option<T>, Problem> {
        after(self.cursor.as_deref())
    }
}

/// How many items, of the query's field.
///
/// # Errors
/// It is out of range.
pub fn limit(limit: Option<usize>) -> Result<usize, Problem> {
    let limit = limit.unwrap_or(PAGE);
    if (1..=MAX_PAGE).contains(&limit) {
        Ok(limit)
    } else {
        Err(Problem::new(Code::BadParameter, format!("`limit` is {limit}; use 1 to {MAX_PAGE}.")))
    }
}

/// Where the page before ended, of the query's field.
///
/// # Errors
/// It isn't a cursor of ours.
pub fn after<T: FromStr>(cursor: Option<&str>) -> Result<Option<T>, Problem> {
    let read = |cursor: &str| {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok().filter(|_| cursor.len() <= MAX_CURSOR_BYTES)?;
        String::from_utf8(bytes).ok()?.parse().ok()
    };
    let bad = || Problem::new(Code::BadParameter, "`cursor` isn't one that an answer gave; leave it out.");
    cursor.map(|cursor| read(cursor).ok_or_else(bad)).transpose()
}

/// The cursor of the page after one that ends here.
#[must_use]
pub fn cursor(end: impl std::fmt::Display) -> String {
    URL_SAFE_NO_PAD.encode(end.to_string())
}

/// The schema of `limit`.
#[must_use]
pub fn limit_schema() -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": PAGE })
}

/// The schema of `cursor`.
#[must_use]
pub fn cursor_schema() -> Value {
    json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]+$", "maxLength": MAX_CURSOR_BYTES })
}
