//! The transitions of stories, series and episode heads, against a table written by hand.

use crate::fixtures::{NOW_MS, lane, token};
use glassline_protocol::ids::Id;
use glassline_protocol::row::{
    EpisodeKey, EpisodeRow, EpisodeStatus, SeriesKey, SeriesRow, StoryKey, StoryRow, StoryStatus,
};
use glassline_protocol::transition::{EpisodeTransition, SeriesTransition, StoryTransition};

use StoryStatus::{Eligible, Exhausted, Locked, Used};

const EXPIRES_MS: u64 = NOW_MS + 60_000;
const EPISODE: u32 = 13;

fn id(text: &str) -> Id {
    Id::new(text).unwrap()
}

/// A row for each combination of what story transitions look at, possible or not: 288 rows.
fn stories() -> Vec<StoryRow> {
    let mut rows = Vec::new();
    for status in [Eligible, Locked, Used, Exhausted] {
        for owner in [Some(token(1)), Some(token(2)), None] {
            for expires_ms in [None, Some(NOW_MS - 1), Some(NOW_MS), Some(EXPIRES_MS)] {
                for episode in [None, Some(EPISODE), Some(EPISODE + 1)] {
                    for failures in [0, 2] {
                        let listed = matches!(status, Eligible | Locked);
                        rows.push(StoryRow {
                            key: StoryKey { series: id("main"), key: id("k1") },
                            status,
                            owner: owner.clone(),
                            expires_ms,
                            episode,
                            failures,
                            lane: None,
                            priority: Some(7),
                            score: Some("0.5".into()),
                            created_ms: 5,
                            fingerprint: "f".into(),
                            queue_pk: listed.then(|| "STORIES#main".into()),
                            queue_sk: listed.then(|| "k1".into()),
                        });
                    }
                }
            }
        }
    }
    rows
}

struct Line {
    label: &'static str,
    transition: StoryTransition,
    may: fn(&StoryRow) -> bool,
    after: fn(&mut StoryRow),
    /// Rows that show this caller's own effect; never, where a transaction is settled by reading.
    mine: fn(&StoryRow) -> bool,
}

fn owned(row: &StoryRow, status: StoryStatus) -> bool {
    row.status == status && row.owner == Some(token(1))
}
fn used(row: &StoryRow) -> bool {
    owned(row, Used) && row.episode == Some(EPISODE)
}
fn lock(row: &mut StoryRow) {
    (row.status, row.owner, row.expires_ms) = (Locked, Some(token(1)), Some(EXPIRES_MS));
}
fn become_used(row: &mut StoryRow) {
    (row.status, row.owner, row.episode) = (Used, Some(token(1)), Some(EPISODE));
    (row.expires_ms, row.queue_pk, row.queue_sk) = (None, None, None);
}

#[allow(clippy::too_many_lines, reason = "it is a table, a line a transition")]
fn lines() -> Vec<Line> {
    let (owner, expires_ms, episode) = (token(1), EXPIRES_MS, EPISODE);
    let line = |label, transition, may, after, mine| Line { label, transition, may, after, mine };
    let entry = ("STORIES#main".to_owned(), "k1".to_owned());
    let reuse = |status| StoryTransition::Reuse { owner: token(1), episode: EPISODE, status };
    vec![
        line(
            "Lock",
            StoryTransition::Lock { owner: owner.clone(), expires_ms },
            |row| row.status == Eligible,
            lock,
            |row| owned(row, Locked),
        ),
        line(
            "Lock, expired",
            StoryTransition::TakeOver { seen: token(2), now_ms: NOW_MS, owner: owner.clone(), expires_ms },
            |row| {
                let expired = row.expires_ms.is_some_and(|expires_ms| expires_ms < NOW_MS);
                row.status == Locked && row.owner == Some(token(2)) && expired
            },
            lock,
            |row| owned(row, Locked),
        ),
        line(
            "Use",
            StoryTransition::Use { owner: owner.clone(), episode },
            |row| owned(row, Locked),
            become_used,
            used,
        ),
        line(
            "Unlock",
            StoryTransition::Unlock { owner: owner.clone() },
            |row| owned(row, Locked),
            |row| (row.status, row.owner, row.expires_ms) = (Eligible, None, None),
            |row| row.status == Eligible && row.owner.is_none(),
        ),
        line(
            "Release",
            StoryTransition::Release { owner: owner.clone(), episode, entry },
            used,
            |row| {
                (row.status, row.owner, row.episode) = (Eligible, None, None);
                row.failures += 1;
                (row.queue_pk, row.queue_sk) = (Some("STORIES#main".into()), Some("k1".into()));
            },
            |_| false,
        ),
        line(
            "Exhaust",
            StoryTransition::Exhaust { owner, episode },
            used,
            |row| {
                (row.status, row.owner, row.episode) = (Exhausted, None, None);
                row.failures += 1;
            },
            |_| false,
        ),
        line("Reuse, eligible", reuse(Eligible), |row| row.status == Eligible, become_used, used),
        line("Reuse, exhausted", reuse(Exhausted), |row| row.status == Exhausted, become_used, used),
        // A story in another's hands is never taken back.
        line("Reuse, locked", reuse(Locked), |_| false, |_| (), used),
        line("Reuse, used", reuse(Used), |_| false, |_| (), used),
        line(
            "Reuse, expired",
            StoryTransition::ReuseExpired {
                owner: token(1),
                episode: EPISODE,
                seen: token(2),
                now_ms: NOW_MS,
            },
            |row| {
                let expired = row.expires_ms.is_some_and(|expires_ms| expires_ms < NOW_MS);
                row.status == Locked && row.owner == Some(token(2)) && expired
            },
            become_used,
            used,
        ),
    ]
}

#[test]
fn a_story_changes_exactly_as_the_table_says() {
    for Line { label, transition, may, after, mine } in lines() {
        // A new transition doesn't compile here until it has its line.
        match transition {
            StoryTransition::Lock { .. }
            | StoryTransition::TakeOver { .. }
            | StoryTransition::Use { .. }
            | StoryTransition::Unlock { .. }
            | StoryTransition::Release { .. }
            | StoryTransition::Exhaust { .. }
            | StoryTransition::Reuse { .. }
            | StoryTransition::ReuseExpired { .. } => {}
        }
        let rule = transition.rule();
        for row in stories() {
            assert_eq!(rule.guard(&row), may(&row), "{label} on {row:?}");
            assert_eq!(rule.already_mine(&row), mine(&row), "{label}: mine on {row:?}");
            if !may(&row) {
                continue;
            }
            let mut wanted = row.clone();
            after(&mut wanted);
            let once = rule.apply(&row).unwrap();
            assert_eq!(once, wanted, "{label} on {row:?}");
            assert!(!rule.guard(&once), "{label} twice on {row:?}");
            let recognised = !matches!(label, "Release" | "Exhaust");
            assert_eq!(rule.already_mine(&once), recognised, "{label} after itself on {row:?}");
            let listed = matches!(once.status, Eligible | Locked);
            assert_eq!(
                once.queue_pk.is_some(),
                listed,
                "{label}: in the index exactly while it may be chosen"
            );
        }
    }
}

/// Another opening locks, takes over or uses the story first: its effect isn't ours, and we write nothing.
#[test]
fn another_openings_story_is_not_ours() {
    let row = |status, owner: Option<u8>| StoryRow {
        status,
        owner: owner.map(token),
        expires_ms: Some(NOW_MS - 1),
        episode: None,
        ..stories().remove(0)
    };
    let lock = |by| StoryTransition::Lock { owner: token(by), expires_ms: EXPIRES_MS };
    let take_over = |by| StoryTransition::TakeOver {
        seen: token(3),
        now_ms: NOW_MS,
        owner: token(by),
        expires_ms: EXPIRES_MS,
    };
    for (ours, theirs, before) in
        [(lock(1), lock(2), row(Eligible, None)), (take_over(1), take_over(2), row(Locked, Some(3)))]
    {
        let after = theirs.rule().apply(&before).unwrap();
        let used = StoryTransition::Use { owner: token(2), episode: EPISODE }.rule().apply(&after).unwrap();
        for row in [after, used] {
            assert!(!ours.rule().guard(&row) && !ours.rule().already_mine(&row), "{ours:?} on {row:?}");
            // The loser of a lock can't open, give back or close anything.
            for late in [
                StoryTransition::Use { owner: token(1), episode: EPISODE },
                StoryTransition::Unlock { owner: token(1) },
                StoryTransition::Exhaust { owner: token(1), episode: EPISODE },
            ] {
                assert!(!late.rule().guard(&row), "{late:?} on {row:?}");
            }
        }
    }
}

#[test]
fn a_series_counts_only_what_was_read() {
    for next in [12, 13, 14] {
        for open in [0, 1, 2] {
            let row = SeriesRow {
                key: SeriesKey(id("main")),
                next,
                open,
                open_limit: 2,
                lane: lane(),
                priority: 500,
                template: None,
                created_ms: 5,
                queue_pk: Some("SERIES".into()),
                queue_sk: Some("main".into()),
            };
            for (transition, may, wanted) in [
                (
                    SeriesTransition::Number { number: 13, open_below: 2 },
                    next == 13 && open < 2,
                    SeriesRow { next: next + 1, open: open + 1, ..row.clone() },
                ),
                (
                    SeriesTransition::Closed { open: 1 },
                    open == 1,
                    SeriesRow { open: open.saturating_sub(1), ..row.clone() },
                ),
                (
                    SeriesTransition::Reopened { open: 1 },
                    open == 1,
                    SeriesRow { open: open + 1, ..row.clone() },
                ),
            ] {
                let rule = transition.rule();
                assert_eq!(rule.guard(&row), may, "{transition:?} on {row:?}");
                assert!(!rule.already_mine(&row), "part of a transaction: settled by reading");
                if may {
                    let once = rule.apply(&row).unwrap();
                    assert_eq!(once, wanted, "{transition:?} on {row:?}");
                    assert!(!rule.guard(&once), "{transition:?} twice");
                }
            }
        }
    }
}

fn episode(status: EpisodeStatus) -> EpisodeRow {
    let open = status == EpisodeStatus::Open;
    EpisodeRow {
        key: EpisodeKey { series: id("main"), number: EPISODE },
        status,
        story: StoryKey { series: id("main"), key: id("k1") },
        owner: token(1),
        lane: lane(),
        priority: 500,
        created_ms: 5,
        opened: 1,
        closed_ms: (!open).then_some(9),
        reason: (status == EpisodeStatus::Failed).then(|| "FRAME#2 failed".into()),
        queue_pk: open.then(|| "OPEN#main".into()),
        queue_sk: open.then(|| "000013".into()),
    }
}

#[test]
fn a_head_changes_exactly_as_the_table_says() {
    use EpisodeStatus::{Complete, Failed, Open};
    let closed = |status| EpisodeRow {
        status,
        closed_ms: Some(NOW_MS),
        queue_pk: None,
        queue_sk: None,
        ..episode(Open)
    };
    let key = episode(Open).key;
    for (transition, from, wanted) in [
        (EpisodeTransition::Complete { opened: 1, now_ms: NOW_MS }, Open, closed(Complete)),
        (
            EpisodeTransition::Fail { opened: 1, now_ms: NOW_MS, reason: "x".repeat(161) },
            Open,
            EpisodeRow { reason: Some(format!("{}…", "x".repeat(157))), ..closed(Failed) },
        ),
        (EpisodeTransition::Reopen { key, opened: 1 }, Failed, EpisodeRow { opened: 2, ..episode(Open) }),
    ] {
        let rule = transition.rule();
        for status in [Open, Complete, Failed] {
            let row = episode(status);
            assert_eq!(rule.guard(&row), status == from, "{transition:?} on {row:?}");
            assert!(!rule.already_mine(&row), "part of a transaction: settled by reading");
            // Whoever read it before it was reopened can't change it any more.
            assert!(
                !rule.guard(&EpisodeRow { opened: 2, ..row.clone() }),
                "{transition:?} on a reopened row"
            );
            if status == from {
                let once = rule.apply(&row).unwrap();
                assert_eq!(once, wanted, "{transition:?}");
                assert!(!rule.guard(&once), "{transition:?} twice");
            }
        }
    }
}
