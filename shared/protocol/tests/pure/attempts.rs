//! Every row that a job can become by transitions from its creation on, within a few attempts: each must be whole.

use crate::fixtures::{NEW_LEASE_MS, NOW_MS, RANK, job, job_key, lane, run, task, token};
use glassline_protocol::ids::{Run, TaskId, Token};
use glassline_protocol::provider::ErrorClass;
use glassline_protocol::rank::{held_entry, later_entry, next_attempt, ready_entry};
use glassline_protocol::row::{JobRow, QaState, Status};
use glassline_protocol::transition::{JobTransition, Ours};
use std::collections::HashSet;

/// What the transitions of an exploration write.
pub(crate) struct Texts {
    pub(crate) token: fn(u32) -> Token,
    pub(crate) run: Run,
    pub(crate) task: TaskId,
    pub(crate) reason: String,
    pub(crate) class: ErrorClass,
    pub(crate) slot: u32,
}

/// The last attempt of an exploration.
const LAST_ATTEMPT: u32 = 3;
/// A job fails at this many failures.
const MAX_FAILURES: u32 = 2;

/// More rows than a sound set of rules makes of one job within these attempts.
const MOST_ROWS: usize = 50_000;

/// Every transition that anybody could try on a row, as its owner or as a person.
fn tries(row: &JobRow, texts: &Texts) -> Vec<JobTransition> {
    let attempt = row.attempt;
    let token = row.token.clone().unwrap_or_else(|| (texts.token)(attempt));
    let ours = Ours { attempt, token };
    let (now_ms, lease_ms, class) = (NOW_MS, NEW_LEASE_MS, texts.class);
    let reason = texts.reason.clone();
    let ready = ready_entry(&row.lane, &row.rank, attempt);
    let next = ready_entry(&row.lane, &row.rank, attempt + 1);
    let held = held_entry(&row.lane, lease_ms, attempt);
    let later = later_entry(&row.lane, lease_ms, &row.rank, attempt);
    let seen_lease_ms = row.lease_ms.unwrap_or(0);
    let failing = [None, Some(MAX_FAILURES - 1)];
    let mut tries = vec![
        JobTransition::Claim {
            seen: attempt,
            token: (texts.token)(attempt + 1),
            slot: texts.slot,
            lease_ms,
            price_micros: None,
        },
        JobTransition::Void {
            seen: attempt,
            queue_sk: row.queue_sk.as_deref().and_then(next_attempt).unwrap_or_default(),
        },
        JobTransition::Accept { ours: ours.clone(), now_ms },
        JobTransition::Start { ours: ours.clone(), run: texts.run.clone(), now_ms, lease_ms },
        JobTransition::RecordTask { ours: ours.clone(), task: texts.task.clone(), lease_ms },
        JobTransition::Renew {
            ours: ours.clone(),
            status: row.status,
            seen_lease_ms,
            lease_ms,
            run: texts.run.clone(),
            held_sk: Some(held.sk.clone()),
        },
        JobTransition::Hold {
            ours: ours.clone(),
            next_check_ms: lease_ms,
            entry: held,
            reason: reason.clone(),
        },
        JobTransition::Succeed { ours: ours.clone(), now_ms },
        JobTransition::Fail { ours: ours.clone(), now_ms, class, reason: reason.clone() },
        JobTransition::RequestCancel { attempt },
        JobTransition::CancelReady { attempt, now_ms },
        JobTransition::CancelClaimed { ours: ours.clone(), now_ms },
        JobTransition::CancelEnded { ours: ours.clone(), now_ms },
        JobTransition::Requeue { status: row.status, attempt, entry: next, note: None },
        JobTransition::Review { attempt, verdict: QaState::Approved },
        JobTransition::Review { attempt, verdict: QaState::Rejected },
    ];
    for failing_below in failing {
        let (ours, entry, reason) = (ours.clone(), later.clone(), reason.clone());
        tries.push(JobTransition::Retry { ours: ours.clone(), entry, failing_below, class, reason });
        let entry = ready.clone();
        tries.push(JobTransition::Release { ours, entry, unless_accepted: true, failing_below });
    }
    tries
}

/// Every row that transitions make of `first`, `first` included.
pub(crate) fn reachable(first: JobRow, texts: &Texts) -> HashSet<JobRow> {
    let mut seen = HashSet::from([first.clone()]);
    let mut open = vec![first];
    while let Some(row) = open.pop() {
        for transition in tries(&row, texts) {
            let rule = transition.rule();
            if !rule.guard(&row) {
                continue;
            }
            let next = rule.apply(&row).unwrap_or_else(|error| panic!("{transition:?}: {error}"));
            // A broken rule could make rows without end.
            assert!(seen.len() < MOST_ROWS, "{} after {row:?} makes ever more rows", transition.name());
            if next.attempt <= LAST_ATTEMPT && seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    seen
}

/// A job as intake creates it.
pub(crate) fn created() -> JobRow {
    let entry = ready_entry(&lane(), RANK, 0);
    JobRow {
        key: job_key(),
        attempt: 0,
        failures: 0,
        error: None,
        queue_pk: Some(entry.pk),
        queue_sk: Some(entry.sk),
        ..job(Status::Ready)
    }
}

/// Whether a row is whole: what must be there in its status, and what must not.
fn flaw(row: &JobRow) -> Option<&'static str> {
    let status = row.status;
    let owned = matches!(status, Status::Claimed | Status::Rendering | Status::Held);
    let started = matches!(status, Status::Rendering | Status::Held);
    let ended = matches!(status, Status::Succeeded | Status::Failed | Status::Cancelled);
    let (pk, sk) = (row.queue_pk.as_deref(), row.queue_sk.as_deref());
    let entry_fits = match status {
        Status::Ready => matches!(pk, Some("READY#luma" | "LATER#luma")),
        Status::Held => pk == Some("HELD#luma"),
        Status::Claimed | Status::Rendering | Status::Succeeded | Status::Failed | Status::Cancelled => {
            pk.is_none() && sk.is_none()
        }
    };
    let sk_fits = sk.is_none_or(|sk| sk.ends_with(&format!("#{:06}", row.attempt)));
    [
        (row.token.is_some() == owned, "a token exactly while an attempt has an owner"),
        (row.lease_ms.is_some() == owned, "a lease exactly while an attempt has an owner"),
        (row.slot.is_some() == status.fills_slot(), "a slot exactly while it is filled"),
        (row.run.is_none() || started, "a run only of a started attempt"),
        (row.started_ms.is_some() || !started, "the time of the start"),
        (row.ended_ms.is_some() == ended, "the time of the end exactly when it ended"),
        (row.qa.is_some() == (status == Status::Succeeded), "QA's word exactly of a success"),
        (!row.cancel_requested || owned || ended, "no cancel asked of a ready job"),
        (row.task.is_none() || status != Status::Claimed, "no task of an earlier attempt"),
        (row.error.is_some() || status != Status::Failed, "why it failed"),
        (entry_fits, "an entry exactly in ready and held"),
        (sk_fits, "the attempt in the entry"),
    ]
    .into_iter()
    .find_map(|(holds, what)| (!holds).then_some(what))
}

#[test]
fn every_reachable_row_is_whole() {
    let texts = Texts {
        token: |attempt| token(u8::try_from(attempt).unwrap()),
        run: run(1),
        task: task("t1"),
        reason: "why".into(),
        class: ErrorClass::BadOutput,
        slot: 2,
    };
    let rows = reachable(created(), &texts);
    for row in &rows {
        assert_eq!(flaw(row), None, "{row:?}");
        assert!(row.failures <= MAX_FAILURES, "{row:?}");
    }
    let statuses: HashSet<Status> = rows.iter().map(|row| row.status).collect();
    assert_eq!(statuses.len(), 7, "every status is reached");
}

#[test]
fn a_size_is_wrong_only_where_it_is_far_from_what_was_asked() {
    let asked = |width_px, height_px| JobRow { width_px, height_px, ..job(Status::Rendering) };
    let row = asked(Some(1_024), Some(768));
    for (width, height) in [(1_024, 768), (1_024, 672), (1_152, 864), (896, 768)] {
        assert_eq!(row.wrong_size(Some(width), Some(height)), None, "{width} × {height}");
    }
    for (width, height) in [(768, 1_024), (512, 384), (1_024, 671), (1_153, 768), (2_048, 1_536), (1, 1)] {
        assert!(row.wrong_size(Some(width), Some(height)).is_some(), "{width} × {height}");
    }
    assert_eq!(row.wrong_size(None, Some(768)), None, "what isn't known isn't wrong");
    assert_eq!(asked(Some(1_024), None).wrong_size(Some(1), Some(1)), None);
    let said = row.wrong_size(Some(512), Some(384)).unwrap();
    assert_eq!(said, "the output has 512 × 384 pixels, but 1024 × 768 were asked for");
}
