//! A job's place in its lane, and the sort keys of the index `queue`, which carry the attempt that was seen.
//!
//! Every number is padded so that text order is number order.

use crate::ids::{Attempt, LaneName, Ms};

/// Highest priority; 0 is the lowest.
pub const MAX_PRIORITY: u32 = 1000;

/// Where a job stands in its lane: priority (higher first), then age, then its place within its parent. With aging
/// (`boost_ms`), each step of priority counts as that much age instead, so that a job is overtaken only by jobs created
/// within `MAX_PRIORITY * boost_ms` after it.
#[must_use]
pub fn rank(priority: u32, created_ms: Ms, place: u32, boost_ms: Option<u64>) -> String {
    let priority = priority.min(MAX_PRIORITY);
    match boost_ms {
        None => format!("{:04}#{created_ms:014}#{place:04}", MAX_PRIORITY - priority),
        Some(boost_ms) => {
            let boosted_ms = created_ms.saturating_sub(u64::from(priority).saturating_mul(boost_ms));
            format!("0000#{boosted_ms:014}#{place:04}")
        }
    }
}

/// An entry of the index `queue`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueueEntry {
    /// Partition.
    pub pk: String,
    /// Sort key.
    pub sk: String,
}

/// A ready job: `READY#lane`, rank, attempt.
#[must_use]
pub fn ready_entry(lane: &LaneName, rank: &str, attempt: Attempt) -> QueueEntry {
    QueueEntry { pk: format!("READY#{lane}"), sk: format!("{rank}#{attempt:06}") }
}

/// A retry that isn't due yet: `LATER#lane`, due time, rank, attempt.
#[must_use]
pub fn later_entry(lane: &LaneName, due_ms: Ms, rank: &str, attempt: Attempt) -> QueueEntry {
    QueueEntry { pk: format!("LATER#{lane}"), sk: format!("{due_ms:014}#{rank}#{attempt:06}") }
}

/// A held job: `HELD#lane`, when it is next looked at, attempt.
#[must_use]
pub fn held_entry(lane: &LaneName, next_ms: Ms, attempt: Attempt) -> QueueEntry {
    QueueEntry { pk: format!("HELD#{lane}"), sk: format!("{next_ms:014}#{attempt:06}") }
}

/// The upper end of what is due in `LATER#lane` or `HELD#lane` at `now_ms`, for a sort key comparison.
#[must_use]
pub fn due_bound(now_ms: Ms) -> String {
    format!("{now_ms:014}#~")
}

/// What the sort key of a `READY#lane` or `LATER#lane` entry says: the rank and the attempt that was seen.
#[must_use]
pub fn parse_entry(pk: &str, sk: &str) -> Option<(String, Attempt)> {
    let (rest, attempt) = sk.rsplit_once('#')?;
    let rank = if pk.starts_with("LATER#") { rest.split_once('#')?.1 } else { rest };
    Some((rank.to_owned(), attempt.parse().ok()?))
}

/// When the job of a rank was created, in epoch milliseconds; `None` for a rank with aging, which doesn't say.
#[must_use]
pub fn rank_created_ms(rank: &str, boost_ms: Option<u64>) -> Option<Ms> {
    match boost_ms {
        None => rank.split('#').nth(1)?.parse().ok(),
        Some(_) => None,
    }
}

/// When a held job is next looked at, from its candidate's rank.
#[must_use]
pub fn held_due_ms(rank: &str) -> Option<Ms> {
    rank.parse().ok()
}

/// The same entry for the next attempt, so that a voided reservation's key can't be mistaken for the new one.
#[must_use]
pub fn next_attempt(sk: &str) -> Option<String> {
    let (rest, attempt) = sk.rsplit_once('#')?;
    let attempt: Attempt = attempt.parse().ok()?;
    Some(format!("{rest}#{:06}", attempt.checked_add(1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_priority_then_age_then_place() {
        let mut ranks = vec![
            ("old low", rank(0, 1_000, 0, None)),
            ("new high", rank(1000, 2_000_000_000_000, 5, None)),
            ("old high second", rank(1000, 1_000, 1, None)),
            ("old high first", rank(1000, 1_000, 0, None)),
            ("middle", rank(500, 1_000, 0, None)),
        ];
        ranks.sort_by(|a, b| a.1.cmp(&b.1));
        let names: Vec<_> = ranks.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["old high first", "old high second", "new high", "middle", "old low"]);
    }

    #[test]
    fn aging_bounds_how_long_a_job_is_overtaken() {
        let boost_ms = Some(1_000);
        let old = rank(0, 10_000_000, 0, boost_ms);
        assert!(rank(1000, 10_999_999, 0, boost_ms) < old);
        assert!(rank(1000, 11_000_001, 0, boost_ms) > old);
    }

    #[test]
    fn entries_say_rank_and_attempt() {
        let lane = LaneName::new("a").unwrap();
        let rank = rank(3, 77, 0, None);
        let ready = ready_entry(&lane, &rank, 4);
        let later = later_entry(&lane, 99, &rank, 4);
        assert_eq!(parse_entry(&ready.pk, &ready.sk), Some((rank.clone(), 4)));
        assert_eq!(parse_entry(&later.pk, &later.sk), Some((rank.clone(), 4)));
        assert_eq!(next_attempt(&later.sk), Some(later_entry(&lane, 99, &rank, 5).sk));
        assert!(later.sk.as_str() < due_bound(99).as_str() && later.sk.as_str() > due_bound(98).as_str());
        assert_eq!(parse_entry("READY#a", "nonsense"), None);
        assert_eq!((rank_created_ms(&rank, None), rank_created_ms(&rank, Some(1))), (Some(77), None));
        assert_eq!((rank_created_ms("nonsense", None), held_due_ms("nonsense")), (None, None));
    }
}
