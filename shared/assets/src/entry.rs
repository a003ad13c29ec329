//! What a store says it holds.

/// A stored object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path under the store's root: a location, if it is one of ours.
    pub path: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// SHA-256 of its bytes, hex, where the store keeps it.
    pub sha256: Option<String>,
    /// When it was last written, in epoch milliseconds, when known.
    pub modified_ms: Option<u64>,
    /// What the store itself calls it, where a path may name several.
    pub id: Option<String>,
}

/// The epoch milliseconds of an RFC 3339 text.
pub(crate) fn time_of(text: &str) -> Option<u64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}
