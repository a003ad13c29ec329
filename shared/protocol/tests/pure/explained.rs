//! Why a job isn't running, in one sentence each.

use crate::fixtures::{ATTEMPT, NOW_MS, job, later_at, task};
use glassline_protocol::explain::{Scene, explain};
use glassline_protocol::ports::{JobView, ScanCursor};
use glassline_protocol::provider::ErrorClass;
use glassline_protocol::row::{JobRow, LaneRow, PrimaryKey, QaState, Status};

fn scene(row: &JobRow, change: fn(&mut LaneRow)) -> Scene {
    let mut lane = LaneRow::new(row.lane.clone(), 2);
    change(&mut lane);
    Scene { lane: Some(lane), busy: 0, before: Some(0) }
}

fn said(row: &JobRow, scene: &Scene) -> String {
    explain(&JobView { job: row.clone(), outcomes: Vec::new() }, scene, NOW_MS)
}

fn with(status: Status, change: fn(&mut JobRow)) -> JobRow {
    let mut row = job(status);
    change(&mut row);
    row
}

#[test]
fn a_ready_job_waits_for_the_first_thing_that_keeps_it() {
    let row = with(Status::Ready, |row| (row.error, row.failures) = (None, 0));
    let plain = scene(&row, |_| ());
    for (scene, part) in [
        (
            scene(&row, |lane| (lane.paused, lane.pause_reason) = (true, Some("lunch".into()))),
            "is paused by hand: lunch;",
        ),
        (scene(&row, |lane| lane.paused_until_ms = Some(NOW_MS + 1_000)), "is paused until "),
        (
            scene(&row, |lane| (lane.price_micros, lane.budget_micros_per_day) = (Some(2), Some(1))),
            "used up its budget",
        ),
        (
            Scene { busy: 2, before: Some(3), ..plain.clone() },
            "3 job(s) are before it in line, and all 2 slots",
        ),
        (Scene { before: None, ..plain.clone() }, "1000 jobs or more are before it"),
        (scene(&row, |lane| lane.outside = true), "waits for its outside dispatcher to claim"),
        (plain.clone(), "It is the next in line, and 2 of 2 slots"),
        (Scene { lane: None, ..plain.clone() }, "doesn't exist"),
    ] {
        let said = said(&row, &scene);
        assert!(said.contains(part), "{said}");
    }
    let entry = later_at(NOW_MS + 60_000, ATTEMPT);
    let mut retry = row.clone();
    (retry.queue_pk, retry.queue_sk) = (Some(entry.pk), Some(entry.sk));
    (retry.error, retry.failures) = (Some("the render failed".into()), 1);
    let sentence = said(&retry, &plain);
    assert!(sentence.starts_with("It is to be tried again at "), "{sentence}");
    assert!(sentence.ends_with("It failed 1 time(s), last because: the render failed."), "{sentence}");
}

#[test]
fn every_other_status_has_its_sentence_and_the_command_that_ends_it() {
    let key = job(Status::Held).key.to_string();
    for (row, part) in [
        (
            with(Status::Claimed, |row| row.accepted_ms = None),
            "It is claimed and waits for a worker.".to_owned(),
        ),
        (with(Status::Claimed, |row| row.accepted_ms = Some(NOW_MS)), "Its handoff was taken".into()),
        (with(Status::Rendering, |row| row.task = Some(task("t1"))), "as task t1".into()),
        (with(Status::Rendering, |row| row.task = None), "its answer isn't known yet".into()),
        (
            with(Status::Held, |row| row.task = None),
            format!("`glassline resolve '{key}' --attempt {ATTEMPT} --as lost`"),
        ),
        (with(Status::Held, |row| row.task = Some(task("t1"))), "held with task t1".into()),
        (
            with(Status::Succeeded, |row| row.qa = Some(QaState::Pending)),
            format!("`glassline review '{key}/{ATTEMPT}'"),
        ),
        (with(Status::Succeeded, |row| row.qa = Some(QaState::Approved)), "QA approved it".into()),
        (with(Status::Succeeded, |row| row.qa = Some(QaState::Rejected)), "QA rejected it".into()),
        (
            with(Status::Failed, |row| {
                (row.error_class, row.error) = (Some(ErrorClass::Moderated), Some("refused".into()));
            }),
            "failed for good (moderated): refused".into(),
        ),
        (job(Status::Cancelled), "It was cancelled".into()),
    ] {
        let scene = scene(&row, |_| ());
        let said = said(&row, &scene);
        assert!(said.contains(&part), "{said}");
    }
}

#[test]
fn a_cursor_is_read_as_it_was_written_and_nothing_else_is() {
    let cursor = ScanCursor(PrimaryKey { pk: "POST#p1".into(), sk: "SHOT#s1".into() });
    assert_eq!(cursor.to_string().parse(), Ok(cursor));
    for bad in ["", "zz", "00", "504f5354", "0a41", "410a"] {
        assert!(bad.parse::<ScanCursor>().is_err(), "{bad}");
    }
    let long = hex::encode(format!("{}\nb", "a".repeat(2_049)));
    assert!(long.parse::<ScanCursor>().is_err());
}
