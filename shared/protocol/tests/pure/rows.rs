//! Rows: what is put is what is read, and what can't be read is named.

use crate::arbitrary::{class, id, job_key, lane, media, receipt, run, task, text, token};
use crate::fixtures::cases;
use glassline_protocol::ids::{JobKey, LaneName};
use glassline_protocol::row::outcome::Cost;
use glassline_protocol::row::{
    BadRow, Field, HeadKey, HeadRow, JobRow, LaneRow, OrphanKey, OrphanRow, OutcomeKey, OutcomeRow,
    PrimaryKey, QaState, Row, RowKey, SlotKey, SlotRow, SpecKey, SpecRow, Status, Value, Verdict,
};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use std::collections::{BTreeMap, HashSet};

prop_compose! {
    pub(crate) fn job_row()(
        (key, status, attempt, failures) in (job_key(), select(Status::ALL), any::<u32>(), any::<u32>()),
        (token, run, slot, price_micros) in (of(token()), of(run()), any::<Option<u32>>(), any::<Option<u64>>()),
        (lease_ms, accepted_ms, started_ms, ended_ms) in any::<(Option<u64>, Option<u64>, Option<u64>, Option<u64>)>(),
        receipt in of(receipt()),
        (lane, rank, created_ms, media) in (lane(), text(), any::<u64>(), media()),
        (width_px, height_px) in any::<(Option<u32>, Option<u32>)>(),
        (task, error_class, error) in (of(task()), of(class()), of(text())),
        (cancel_requested, qa) in (any::<bool>(), of(select(QaState::ALL))),
        (queue_pk, queue_sk) in (of(text()), of(text())),
    ) -> JobRow {
        JobRow {
            key, status, attempt, failures, token, run, slot, price_micros, lease_ms, accepted_ms, receipt, started_ms,
            lane, rank, created_ms, media, width_px, height_px, task, error_class, error, cancel_requested, qa, ended_ms, queue_pk, queue_sk,
        }
    }
}

prop_compose! {
    fn outcome_row()(
        (job, attempt, verdict) in (job_key(), any::<u32>(), select(Verdict::ALL)),
        (lane, at_ms, started_ms, task) in (lane(), any::<u64>(), any::<Option<u64>>(), of(task())),
        (cost, price_micros, location, sha256) in (select(Cost::ALL), any::<Option<u64>>(), of(text()), of(text())),
        (size_bytes, content_type) in (any::<Option<u64>>(), of(text())),
        (width_px, height_px) in any::<(Option<u32>, Option<u32>)>(),
        (duration_ms, frames) in any::<(Option<u64>, Option<u64>)>(),
        (class, reason, counted, retry_at_ms) in (of(class()), of(text()), any::<bool>(), any::<Option<u64>>()),
    ) -> OutcomeRow {
        OutcomeRow {
            key: OutcomeKey { job, attempt }, verdict, lane, at_ms, started_ms, task, cost, price_micros, location, sha256, size_bytes,
            content_type, width_px, height_px, duration_ms, frames, class, reason, counted, retry_at_ms,
        }
    }
}

prop_compose! {
    pub(crate) fn lane_row()(
        (key, capacity, starts_per_minute) in (lane(), any::<u32>(), any::<Option<u32>>()),
        (price_micros, budget_micros_per_day, boost_ms) in any::<(Option<u64>, Option<u64>, Option<u64>)>(),
        (outside, paused, paused_until_ms, pause_reason) in
            (any::<bool>(), any::<bool>(), any::<Option<u64>>(), of(text())),
        (minute, minute_starts, day, day_micros) in any::<(Option<u64>, u32, Option<u64>, u64)>(),
        (authorised_by, rev) in (of(run()), any::<u64>()),
    ) -> LaneRow {
        LaneRow {
            key, capacity, starts_per_minute, price_micros, budget_micros_per_day, boost_ms, outside, paused,
            paused_until_ms, pause_reason, minute, minute_starts, day, day_micros, authorised_by, rev,
        }
    }
}

prop_compose! {
    fn slot_row()(
        (lane, number, job) in (lane(), any::<u32>(), of(job_key())),
        (attempt, token, since_ms) in (any::<Option<u32>>(), of(token()), any::<Option<u64>>()),
    ) -> SlotRow {
        SlotRow { key: SlotKey { lane, number }, job, attempt, token, since_ms }
    }
}

prop_compose! {
    fn head_row()(
        (job, lane, jobs, priority) in (job_key(), lane(), any::<u32>(), any::<u32>()),
        (created_ms, fingerprint, queue_pk, queue_sk) in (any::<u64>(), text(), of(text()), of(text())),
    ) -> HeadRow {
        HeadRow { key: HeadKey(job.parent), jobs, lane, priority, created_ms, fingerprint, queue_pk, queue_sk }
    }
}

prop_compose! {
    fn spec_row()(
        (job, prompt, params, media) in (job_key(), text(), of(text()), media()),
    ) -> SpecRow {
        SpecRow { key: SpecKey(job), prompt, params, media }
    }
}

prop_compose! {
    fn orphan_row()(
        (job, task, attempt, lane) in (job_key(), task(), any::<u32>(), lane()),
        (at_ms, reason, cancel, price_micros) in (any::<u64>(), text(), text(), any::<Option<u64>>()),
    ) -> OrphanRow {
        OrphanRow { key: OrphanKey { job, task }, attempt, lane, at_ms, reason, cancel, price_micros }
    }
}

/// The attributes of a row, as stored.
pub(crate) fn attributes<R: Row>(row: &R) -> BTreeMap<&'static str, Value> {
    R::Field::ALL.iter().filter_map(|field| Some((field.name(), row.get(*field)?))).collect()
}

pub(crate) fn round_trip<R: Row>(row: &R, other: R) -> Result<(), TestCaseError> {
    let stored = attributes(row);
    let read = R::read(row.key().clone(), |name| stored.get(name).cloned());
    prop_assert_eq!(read.as_ref(), Ok(row));
    prop_assert_eq!(&R::Key::parse(&row.key().primary()), &Ok(row.key().clone()));
    let mut copy = other;
    for field in R::Field::ALL {
        copy.put(*field, row.get(*field).as_ref()).unwrap();
    }
    prop_assert_eq!(attributes(&copy), stored);
    Ok(())
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn a_job_is_read_as_it_was_put((row, other) in (job_row(), job_row())) { round_trip(&row, other)?; }
    #[test]
    fn an_outcome_is_read_as_it_was_put((row, other) in (outcome_row(), outcome_row())) { round_trip(&row, other)?; }
    #[test]
    fn a_lane_is_read_as_it_was_put((row, other) in (lane_row(), lane_row())) { round_trip(&row, other)?; }
    #[test]
    fn a_slot_is_read_as_it_was_put((row, other) in (slot_row(), slot_row())) { round_trip(&row, other)?; }
    #[test]
    fn a_head_is_read_as_it_was_put((row, other) in (head_row(), head_row())) { round_trip(&row, other)?; }
    #[test]
    fn a_spec_is_read_as_it_was_put((row, other) in (spec_row(), spec_row())) { round_trip(&row, other)?; }
    #[test]
    fn an_orphan_is_read_as_it_was_put((row, other) in (orphan_row(), orphan_row())) { round_trip(&row, other)?; }

    #[test]
    fn a_key_that_is_none_is_refused_without_ado((pk, sk) in (text(), text()), member in id()) {
        for (pk, sk) in [(pk.clone(), sk.clone()), (format!("POST#{member}"), sk), (pk, format!("SHOT#{member}"))] {
            let key = PrimaryKey { pk, sk };
            // Whatever is taken is the one text of its key.
            prop_assert!(JobKey::parse(&key).map_or(true, |read| read.primary() == key));
            prop_assert!(SlotKey::parse(&key).map_or(true, |read| read.primary() == key));
            prop_assert!(OutcomeKey::parse(&key).map_or(true, |read| read.primary() == key));
            prop_assert!(OrphanKey::parse(&key).map_or(true, |read| read.primary() == key));
            prop_assert!(SpecKey::parse(&key).map_or(true, |read| read.primary() == key));
            prop_assert!(HeadKey::parse(&key).map_or(true, |read| read.primary() == key));
            prop_assert!(LaneName::parse(&key).map_or(true, |read| read.primary() == key));
        }
    }
}

/// A row with every field present.
pub(crate) fn whole<R: Row>(strategy: impl Strategy<Value = R>) -> R {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..100_000 {
        let row = strategy.new_tree(&mut runner).unwrap().current();
        if attributes(&row).len() == R::Field::ALL.len() {
            return row;
        }
    }
    panic!("no whole row came up");
}

/// What a row's fields ask for, by hand.
pub(crate) struct Asks {
    /// May not be absent.
    pub(crate) required: &'static [&'static str],
    /// Texts with a rule of their own.
    pub(crate) ruled: &'static [&'static str],
    /// Numbers below 2^32.
    pub(crate) small: &'static [&'static str],
}

/// Puts and reads one field with another value; both must agree, and a refusal must name row and field.
fn check<R: Row>(row: &R, field: R::Field, value: Option<Value>, fits: bool) {
    let (name, key) = (field.name(), row.key().primary());
    let mut changed = row.clone();
    let put = changed.put(field, value.as_ref());
    let mut stored = attributes(row);
    stored.remove(name);
    stored.extend(value.clone().map(|value| (name, value)));
    let read = R::read(row.key().clone(), |name| stored.get(name).cloned());
    assert_eq!(put.is_ok(), fits, "put {name} = {value:?}: {put:?}");
    assert_eq!(read.is_ok(), fits, "read {name} = {value:?}: {read:?}");
    if fits {
        assert_eq!(read.unwrap(), changed);
        return;
    }
    assert_eq!(changed, *row, "a refused put changes nothing");
    for BadRow { pk, sk, what } in [put.unwrap_err(), read.unwrap_err()] {
        assert_eq!((pk, sk), (key.pk.clone(), key.sk.clone()));
        assert!(what.starts_with(&format!("{name}: ")), "{what}");
    }
}

pub(crate) fn check_all<R: Row>(row: R, asks: &Asks) {
    for field in R::Field::ALL {
        let name = field.name();
        let kind = row.get(*field).unwrap();
        check(&row, *field, None, !asks.required.contains(&name));
        let (text, number, flag) = match kind {
            Value::Text(_) => (true, false, false),
            Value::Number(_) => (false, true, false),
            Value::Flag(_) => (false, false, true),
        };
        check(&row, *field, Some(Value::Text("no such word!".into())), text && !asks.ruled.contains(&name));
        check(&row, *field, Some(Value::Text(String::new())), text && !asks.ruled.contains(&name));
        check(&row, *field, Some(Value::Number(7)), number);
        check(&row, *field, Some(Value::Number(1 << 32)), number && !asks.small.contains(&name));
        check(&row, *field, Some(Value::Flag(true)), flag);
        check(&row, *field, Some(Value::Flag(false)), flag);
    }
}

#[test]
fn a_value_of_a_wrong_type_is_refused_by_row_and_field() {
    check_all(
        whole(job_row()),
        &Asks {
            required: &["status", "attempt", "failures", "lane", "rank", "created_ms", "media"],
            ruled: &["status", "token", "run", "receipt", "lane", "media", "task", "error_class", "qa"],
            small: &["attempt", "failures", "slot", "width_px", "height_px"],
        },
    );
    check_all(
        whole(outcome_row()),
        &Asks {
            required: &["verdict", "lane", "at_ms", "cost"],
            ruled: &["verdict", "lane", "task", "cost", "class"],
            small: &["width_px", "height_px"],
        },
    );
    check_all(
        whole(lane_row()),
        &Asks {
            required: &["capacity", "minute_starts", "day_micros", "rev"],
            ruled: &["authorised_by"],
            small: &["capacity", "starts_per_minute", "minute_starts"],
        },
    );
    check_all(whole(slot_row()), &Asks { required: &[], ruled: &["job", "token"], small: &["attempt"] });
    check_all(
        whole(head_row()),
        &Asks {
            required: &["jobs", "lane", "priority", "created_ms", "fingerprint"],
            ruled: &["lane"],
            small: &["jobs", "priority"],
        },
    );
    check_all(whole(spec_row()), &Asks { required: &["prompt", "media"], ruled: &["media"], small: &[] });
    check_all(
        whole(orphan_row()),
        &Asks {
            required: &["attempt", "lane", "at_ms", "reason", "cancel"],
            ruled: &["lane"],
            small: &["attempt"],
        },
    );
}

#[test]
fn a_refusal_is_one_sentence_that_says_where_and_what() {
    let mut row = whole(slot_row());
    row.key = SlotKey { lane: LaneName::new("luma").unwrap(), number: 7 };
    let error =
        row.put(glassline_protocol::row::SlotField::SinceMs, Some(&Value::Text("x".into()))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "row LANE#luma / SLOT#00007 can't be read: since_ms: a number was expected; it was written by another \
         version or by hand"
    );
    // A token that isn't one is a secret still.
    let almost = "0123456789ABCDEF0123456789ABCDEF";
    let error =
        row.put(glassline_protocol::row::SlotField::Token, Some(&Value::Text(almost.into()))).unwrap_err();
    assert!(!error.to_string().contains("6789ABCDEF"), "{error}");
}

pub(crate) fn names<R: Row>() {
    let names: Vec<&str> = R::Field::ALL.iter().map(|field| field.name()).collect();
    let unique: HashSet<&str> = names.iter().copied().chain(["pk", "sk"]).collect();
    assert_eq!(unique.len(), names.len() + 2, "{names:?}");
    // They become placeholders of expressions.
    assert!(
        names.iter().all(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')),
        "{names:?}"
    );
}

#[test]
fn attribute_names_are_unique_plain_and_not_the_keys() {
    names::<JobRow>();
    names::<SpecRow>();
    names::<OutcomeRow>();
    names::<OrphanRow>();
    names::<HeadRow>();
    names::<LaneRow>();
    names::<SlotRow>();
}

/// Keys as they are stored, and which row each is of. By hand, from the table of rows.
#[test]
fn a_key_is_of_one_kind_of_row() {
    for (pk, sk, kind) in [
        ("LANES", "luma", "lane"),
        ("LANE#luma", "SLOT#00007", "slot"),
        ("LANE#luma", "SLOT#100007", "slot"),
        ("POST#p1", "SHOT#s1", "job"),
        ("EPISODE#main#000013", "FRAME#2", "job"),
        ("POST#p1", "SHOT#s1#SPEC", "spec"),
        ("POST#p1", "SHOT#s1#OUTCOME#000003", "outcome"),
        ("POST#p1", "SHOT#s1#ORPHAN#t#ORPHAN#1", "orphan"),
        ("EPISODE#main#000013", "FRAME#2#OUTCOME#1000003", "outcome"),
        ("POST#p1", "HEAD", "head"),
        ("EPISODE#main#000013", "HEAD", "head"),
        ("LANE#luma", "SLOT#7", "none"),
        ("LANE#luma", "SLOT#+0007", "none"),
        ("LANE#luma", "SLOT#4294967296", "none"),
        ("LANE#lu ma", "SLOT#00007", "none"),
        ("POST#p1", "SHOT#s1#OUTCOME#3", "none"),
        ("POST#p1", "SHOT#s1#OUTCOME#+00003", "none"),
        ("POST#p1", "FRAME#2#OUTCOME#000003", "none"),
        ("POST#p1", "SHOT#s1#ORPHAN#", "none"),
        ("POST#p1", "FRAME#2", "none"),
        ("EPISODE#main#13", "FRAME#2", "none"),
        ("POST#p1", "head", "none"),
        ("LANES", "a lane", "none"),
        ("STORY#main#k", "STORY", "none"),
        ("", "", "none"),
    ] {
        let key = PrimaryKey { pk: pk.into(), sk: sk.into() };
        let kinds = [
            ("lane", LaneName::parse(&key).map(|read| read.primary())),
            ("slot", SlotKey::parse(&key).map(|read| read.primary())),
            ("job", JobKey::parse(&key).map(|read| read.primary())),
            ("spec", SpecKey::parse(&key).map(|read| read.primary())),
            ("outcome", OutcomeKey::parse(&key).map(|read| read.primary())),
            ("orphan", OrphanKey::parse(&key).map(|read| read.primary())),
            ("head", HeadKey::parse(&key).map(|read| read.primary())),
        ];
        for (name, read) in kinds {
            assert_eq!(read.is_ok(), name == kind, "{pk} / {sk} as {name}: {read:?}");
            assert!(read.is_err() || read == Ok(key.clone()), "{pk} / {sk} as {name}: {read:?}");
        }
    }
}
