//! Sizes of rows, by the rules of
//! <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html>: the bytes of each
//! attribute's name and value, a number taking a byte for every two digits and one more, a boolean one. A row that
//! changes often stays under 1,024 bytes, so that each of its writes costs one unit.

use crate::attempts::{Texts, created, reachable};
use crate::fixtures::{NOW_MS, run, task, token};
use crate::rows::attributes;
use glassline_protocol::ids::{Id, JobKey, LaneName, Run, TaskId, Token};
use glassline_protocol::provider::ErrorClass;
use glassline_protocol::rank::{rank, ready_entry};
use glassline_protocol::row::outcome::{AttemptEnd, Cost, Failure};
use glassline_protocol::row::{
    HeadKey, HeadRow, JobRow, LaneRow, OrphanKey, OrphanRow, OutcomeKey, OutcomeRow, PrimaryKey, Row,
    RowKey as _, SlotKey, SlotRow, Status, Value,
};
use glassline_protocol::vault::Asset;
use std::collections::BTreeMap;

pub(crate) const WRITE_UNIT_BYTES: usize = 1_024;
/// Room that is left for a field to come.
const SPARE_BYTES: usize = 16;

pub(crate) fn size_bytes<R: Row>(row: &R) -> usize {
    let PrimaryKey { pk, sk } = row.key().primary();
    let key_bytes = "pk".len() + pk.len() + "sk".len() + sk.len();
    let value_bytes = |value: &Value| match value {
        Value::Text(text) => text.len(),
        Value::Number(number) => number.to_string().len().div_ceil(2) + 1,
        Value::Flag(_) => 1,
    };
    key_bytes + attributes(row).iter().map(|(name, value)| name.len() + value_bytes(value)).sum::<usize>()
}

/// What a row's entry in the index takes: its key and the index's own.
fn entry_bytes(row: &JobRow) -> usize {
    let PrimaryKey { pk, sk } = row.key.primary();
    let keys = ["pk", &pk, "sk", &sk, "queue_pk", "queue_sk"].iter().map(|text| text.len()).sum::<usize>();
    keys + row.queue_pk.as_ref().map_or(0, String::len) + row.queue_sk.as_ref().map_or(0, String::len)
}

fn long_id() -> Id {
    Id::new("p".repeat(64)).unwrap()
}

fn long_lane() -> LaneName {
    LaneName::new("l".repeat(64)).unwrap()
}

fn long_key() -> JobKey {
    JobKey::shot(long_id(), long_id())
}

fn long_task() -> TaskId {
    TaskId::new("t".repeat(256)).unwrap()
}

fn long_reason() -> String {
    "r".repeat(1_000)
}

/// A job with the longest ids, created as intake would.
fn long_job() -> JobRow {
    let rank = rank(0, NOW_MS, 999, None);
    let entry = ready_entry(&long_lane(), &rank, 0);
    let (queue_pk, queue_sk) = (Some(entry.pk), Some(entry.sk));
    let (width_px, height_px) = (Some(16_384), Some(16_384));
    JobRow { key: long_key(), lane: long_lane(), rank, width_px, height_px, queue_pk, queue_sk, ..created() }
}

fn largest(first: JobRow, texts: &Texts) -> BTreeMap<Status, JobRow> {
    let mut largest: BTreeMap<Status, JobRow> = BTreeMap::new();
    for row in reachable(first, texts) {
        let best = largest.entry(row.status).or_insert_with(|| row.clone());
        if size_bytes(&row) > size_bytes(best) {
            *best = row;
        }
    }
    largest
}

/// The longest of everything that can come together: ids and lane of 64 characters, a task of 256, an error of 160
/// bytes, the longest class, tokens and runs as they are made (128 and 64 bits), in every status that a job goes through.
#[test]
fn the_longest_job_takes_one_write_unit_in_every_status() {
    let texts = Texts {
        token: |attempt| token(u8::try_from(attempt).unwrap()),
        run: run(1),
        task: long_task(),
        reason: long_reason(),
        class: ErrorClass::PaymentRequired,
        slot: 9_999,
    };
    let largest = largest(long_job(), &texts);
    assert_eq!(largest.len(), 7);
    for (status, row) in largest {
        let size_bytes = size_bytes(&row);
        assert!(size_bytes + SPARE_BYTES < WRITE_UNIT_BYTES, "{status}: {size_bytes} bytes: {row:?}");
        assert!(entry_bytes(&row) < WRITE_UNIT_BYTES, "{status}");
        if status == Status::Held {
            assert!(
                row.error.as_ref().is_some_and(|error| error.len() == 160) && row.task.is_some(),
                "{row:?}"
            );
        }
    }
}

/// Ids as producers give them: a word and a number, and a task that is a UUID.
#[test]
fn a_usual_job_takes_half_a_write_unit() {
    let texts = Texts {
        token: |attempt| token(u8::try_from(attempt).unwrap()),
        run: run(1),
        task: task("0b5f9f2e-53c8-4b57-8f0e-0d7f3bb0f0a1"),
        reason: "the provider answered 503".into(),
        class: ErrorClass::Transient,
        slot: 12,
    };
    for (status, row) in largest(created(), &texts) {
        let size_bytes = size_bytes(&row);
        assert!(size_bytes < WRITE_UNIT_BYTES / 2, "{status}: {size_bytes} bytes");
    }
}

/// The size rules themselves, on a row counted by hand.
#[test]
fn a_row_counted_by_hand() {
    let slot = SlotRow {
        key: SlotKey { lane: "a".parse().unwrap(), number: 0 },
        job: Some("POST#p/SHOT#s".parse().unwrap()),
        attempt: Some(12),
        token: Some(Token::new("01234567").unwrap()),
        since_ms: Some(1_790_000_000_000),
    };
    let key = 2 + "LANE#a".len() + 2 + "SLOT#00000".len();
    assert_eq!(size_bytes(&slot), key + (3 + 13) + (7 + 2) + (5 + 8) + (8 + 8));
}

/// A slot, a lane, a head, an orphan and an outcome with the longest of everything.
#[test]
fn every_other_row_of_a_job_takes_one_write_unit() {
    let token = Token::new("a".repeat(64)).unwrap();
    let (attempt, job, number) = (u32::MAX, Some(long_key()), 9_999);
    let slot = SlotRow {
        job,
        attempt: Some(attempt),
        token: Some(token),
        since_ms: Some(NOW_MS),
        ..SlotRow::new(long_lane(), number)
    };
    let lane = LaneRow {
        starts_per_minute: Some(u32::MAX),
        price_micros: Some(u64::MAX),
        budget_micros_per_day: Some(u64::MAX),
        boost_ms: Some(u64::MAX),
        outside: true,
        paused: true,
        paused_until_ms: Some(u64::MAX),
        pause_reason: Some("r".repeat(160)),
        minute: Some(u64::MAX),
        minute_starts: u32::MAX,
        day: Some(u64::MAX),
        day_micros: u64::MAX,
        authorised_by: Some(Run::new("b".repeat(64)).unwrap()),
        rev: u64::MAX,
        ..LaneRow::new(long_lane(), u32::MAX)
    };
    let head = HeadRow {
        key: HeadKey(long_key().parent),
        jobs: 1_000,
        lane: long_lane(),
        priority: 1_000,
        created_ms: NOW_MS,
        fingerprint: "f".repeat(64),
        queue_pk: Some("POSTS#2026-11".into()),
        queue_sk: Some(format!("{NOW_MS:014}#{}", long_id())),
    };
    let orphan = OrphanRow {
        key: OrphanKey { job: long_key(), task: long_task() },
        attempt,
        lane: long_lane(),
        at_ms: NOW_MS,
        reason: "r".repeat(160),
        cancel: "not offered by the provider".into(),
        price_micros: Some(u64::MAX),
    };
    let sizes = [
        ("slot", size_bytes(&slot)),
        ("lane", size_bytes(&lane)),
        ("head", size_bytes(&head)),
        ("orphan", size_bytes(&orphan)),
    ];
    for (name, size_bytes) in sizes {
        assert!(size_bytes < WRITE_UNIT_BYTES, "{name}: {size_bytes} bytes");
    }
}

#[test]
fn an_outcome_takes_one_write_unit_whatever_the_verdict() {
    let end = || AttemptEnd {
        key: OutcomeKey { job: long_key(), attempt: 999_999 },
        lane: long_lane(),
        at_ms: NOW_MS,
        started_ms: Some(NOW_MS),
        task: Some(long_task()),
        price_micros: Some(u64::MAX),
    };
    let sha256 = "f".repeat(64);
    let asset = Asset {
        location: format!("{}/{}/999999-{sha256}.webm", long_key().parent, long_key().member),
        sha256,
        size_bytes: u64::MAX,
        content_type: "video/x-matroska".into(),
        width_px: Some(u32::MAX),
        height_px: Some(u32::MAX),
        duration_ms: Some(u64::MAX),
        frames: Some(u64::MAX),
    };
    let failure = Failure {
        class: ErrorClass::PaymentRequired,
        reason: long_reason(),
        counted: true,
        retry_at_ms: Some(NOW_MS),
        cost: Cost::AtRisk,
    };
    for outcome in [
        OutcomeRow::stored(end(), &asset),
        OutcomeRow::failed(end(), failure),
        OutcomeRow::cancelled(end(), &long_reason(), Cost::AtRisk),
    ] {
        let size_bytes = size_bytes(&outcome);
        assert!(size_bytes < WRITE_UNIT_BYTES, "{:?}: {size_bytes} bytes", outcome.verdict);
        assert_eq!(outcome.asset().is_some(), outcome.location.is_some());
    }
    assert_eq!(OutcomeRow::stored(end(), &asset).asset(), Some(asset));
}
