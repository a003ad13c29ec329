//! Small values that the tests share.

use glassline_protocol::ids::{Id, JobKey, LaneName, Run, TaskId, Token};
use glassline_protocol::provider::Media;
use glassline_protocol::rank::{QueueEntry, held_entry, later_entry, ready_entry};
use glassline_protocol::row::{JobRow, Status};
use glassline_protocol::transition::Ours;
use proptest::test_runner::Config;

/// The attempt that the tests act for.
pub(crate) const ATTEMPT: u32 = 3;
/// The time at which they act.
pub(crate) const NOW_MS: u64 = 1_790_000_000_000;
/// The lease on the row before a transition.
pub(crate) const SEEN_LEASE_MS: u64 = NOW_MS + 60_000;
/// The lease that a transition writes.
pub(crate) const NEW_LEASE_MS: u64 = NOW_MS + 120_000;

/// A token of 32 hex digits; each number gives another.
pub(crate) fn token(number: u8) -> Token {
    Token::new(format!("{number:02x}").repeat(16)).unwrap()
}

/// A run of 16 hex digits; each number gives another.
pub(crate) fn run(number: u8) -> Run {
    Run::new(format!("{number:02x}").repeat(8)).unwrap()
}

/// A task.
pub(crate) fn task(name: &str) -> TaskId {
    TaskId::new(name).unwrap()
}

/// The lane of the tests.
pub(crate) fn lane() -> LaneName {
    LaneName::new("luma").unwrap()
}

/// The job of the tests.
pub(crate) fn job_key() -> JobKey {
    JobKey::shot(Id::new("p1").unwrap(), Id::new("s1").unwrap())
}

/// The rank of the job of the tests.
pub(crate) const RANK: &str = "0500#01789000000000#0000";

/// Our ownership: [`ATTEMPT`] under token 1.
pub(crate) fn ours() -> Ours {
    Ours { attempt: ATTEMPT, token: token(1) }
}

/// The job's entry in `READY#luma` at an attempt.
pub(crate) fn ready_at(attempt: u32) -> QueueEntry {
    ready_entry(&lane(), RANK, attempt)
}

/// The job's entry in `LATER#luma`.
pub(crate) fn later_at(due_ms: u64, attempt: u32) -> QueueEntry {
    later_entry(&lane(), due_ms, RANK, attempt)
}

/// The job's entry in `HELD#luma`.
pub(crate) fn held_at(next_ms: u64, attempt: u32) -> QueueEntry {
    held_entry(&lane(), next_ms, attempt)
}

/// Every status, by hand: the table of the tests doesn't take it from the code.
pub(crate) const STATUSES: [Status; 7] = [
    Status::Ready,
    Status::Claimed,
    Status::Rendering,
    Status::Held,
    Status::Succeeded,
    Status::Failed,
    Status::Cancelled,
];

/// A job as a row of its status looks, at [`ATTEMPT`]: owned statuses under token 1 with a lease, ready and held ones in
/// the index, ended ones with the time of their end.
pub(crate) fn job(status: Status) -> JobRow {
    let owned = matches!(status, Status::Claimed | Status::Rendering | Status::Held);
    let started = owned && status != Status::Claimed;
    let entry = match status {
        Status::Ready => Some(ready_at(ATTEMPT)),
        Status::Held => Some(held_at(SEEN_LEASE_MS, ATTEMPT)),
        Status::Claimed | Status::Rendering | Status::Succeeded | Status::Failed | Status::Cancelled => None,
    };
    JobRow {
        key: job_key(),
        status,
        attempt: ATTEMPT,
        failures: 1,
        token: owned.then(|| token(1)),
        run: None,
        price_micros: None,
        slot: (owned && status != Status::Held).then_some(4),
        lease_ms: owned.then_some(SEEN_LEASE_MS),
        accepted_ms: None,
        receipt: None,
        started_ms: started.then_some(NOW_MS - 5_000),
        lane: lane(),
        rank: RANK.into(),
        created_ms: 1_789_000_000_000,
        media: Media::Video,
        width_px: Some(1_024),
        height_px: None,
        task: None,
        error_class: None,
        error: Some("an earlier failure".into()),
        cancel_requested: false,
        qa: None,
        ended_ms: (!owned && status != Status::Ready).then_some(NOW_MS - 1_000),
        queue_pk: entry.as_ref().map(|entry| entry.pk.clone()),
        queue_sk: entry.map(|entry| entry.sk),
    }
}

/// Settings of the random tests: no file of past failures is written beside the sources.
pub(crate) fn cases(cases: u32) -> Config {
    Config { cases, failure_persistence: None, ..Config::default() }
}
