//! The transitions of slots and lanes, against a table written by hand.

use crate::fixtures::{NOW_MS, job_key, lane, run, token};
use glassline_protocol::row::{LaneField, LaneRow, SlotRow};
use glassline_protocol::rule::Then;
use glassline_protocol::transition::{LaneSettings, LaneTransition, SlotTransition};

const REV: u64 = 6;

/// A row for each combination of what lane transitions look at: 864 rows.
fn lane_rows() -> Vec<LaneRow> {
    let mut rows = vec![LaneRow { capacity: 4, day_micros: 9, ..LaneRow::new(lane(), 4) }];
    fn vary<T: Copy>(rows: Vec<LaneRow>, values: &[T], set: fn(&mut LaneRow, T)) -> Vec<LaneRow> {
        let each = |row: LaneRow| {
            values.iter().map(move |value| {
                let mut row = row.clone();
                set(&mut row, *value);
                row
            })
        };
        rows.into_iter().flat_map(each).collect()
    }
    rows = vary(rows, &[REV - 1, REV, REV + 1, REV + 2], |row, rev| row.rev = rev);
    rows = vary(rows, &[None, Some(1), Some(2)], |row, by| row.authorised_by = by.map(run));
    rows = vary(rows, &[false, true], |row, paused| row.paused = paused);
    rows =
        vary(rows, &[None, Some(99), Some(100), Some(101)], |row, until_ms| row.paused_until_ms = until_ms);
    rows = vary(rows, &[None, Some("why")], |row, why| row.pause_reason = why.map(str::to_owned));
    rows = vary(rows, &[None, Some(70)], |row, minute| row.minute = minute);
    vary(rows, &[None, Some(5)], |row, limit| {
        (row.starts_per_minute, row.price_micros) = (limit, limit.map(u64::from));
        (row.budget_micros_per_day, row.boost_ms) = (limit.map(u64::from), limit.map(u64::from));
    })
}

struct Line {
    label: &'static str,
    transition: LaneTransition,
    may: fn(&LaneRow) -> bool,
    after: fn(&mut LaneRow),
    mine: fn(&LaneRow) -> bool,
    /// Whether the guard lets its repeat through; then the repeat changes nothing.
    repeats: bool,
}

fn authorise(seen_rev: u64, by: u8) -> LaneTransition {
    let (minute, minute_starts, day, day_micros) = (71, 3, 20_717, 120);
    LaneTransition::Authorise { seen_rev, minute, minute_starts, day, day_micros, by: run(by) }
}

fn configure(seen_rev: u64, by: u8) -> LaneTransition {
    let settings =
        LaneSettings { capacity: 8, price_micros: Some(40), outside: true, ..LaneSettings::default() };
    LaneTransition::Configure { seen_rev, settings, by: run(by) }
}

fn lines() -> Vec<Line> {
    vec![
        Line {
            label: "Authorise",
            transition: authorise(REV, 1),
            may: |row| row.rev == REV,
            after: |row| {
                (row.minute, row.minute_starts, row.day, row.day_micros) = (Some(71), 3, Some(20_717), 120);
                (row.authorised_by, row.rev) = (Some(run(1)), REV + 1);
            },
            mine: |row| row.authorised_by == Some(run(1)) && row.rev == REV + 1,
            repeats: false,
        },
        Line {
            label: "Configure",
            transition: configure(REV, 1),
            may: |row| row.rev == REV,
            after: |row| {
                (row.capacity, row.price_micros) = (8, Some(40));
                (row.starts_per_minute, row.budget_micros_per_day, row.boost_ms) = (None, None, None);
                row.outside = true;
                (row.authorised_by, row.rev) = (Some(run(1)), REV + 1);
            },
            mine: |row| row.authorised_by == Some(run(1)) && row.rev == REV + 1,
            repeats: false,
        },
        Line {
            // Never shortens a pause.
            label: "Pause",
            transition: LaneTransition::Pause { until_ms: 100, reason: "x".repeat(161) },
            may: |row| row.paused_until_ms.is_none_or(|until_ms| until_ms < 100),
            after: |row| {
                row.paused_until_ms = Some(100);
                row.pause_reason = Some(format!("{}…", "x".repeat(157)));
            },
            mine: |row| row.paused_until_ms == Some(100),
            repeats: false,
        },
        Line {
            label: "Pause by hand",
            transition: LaneTransition::PauseByHand { reason: "budget talks".into() },
            may: |row| !row.paused,
            after: |row| (row.paused, row.pause_reason) = (true, Some("budget talks".into())),
            mine: |row| row.paused,
            repeats: false,
        },
        Line {
            label: "Resume",
            transition: LaneTransition::Resume,
            may: |_| true,
            after: |row| (row.paused, row.paused_until_ms, row.pause_reason) = (false, None, None),
            mine: |row| !row.paused && row.paused_until_ms.is_none(),
            repeats: true,
        },
    ]
}

#[test]
fn a_lane_changes_exactly_as_the_table_says() {
    for Line { label, transition, may, after, mine, repeats } in lines() {
        // A new transition doesn't compile here until it has its line.
        match transition {
            LaneTransition::Authorise { .. }
            | LaneTransition::Configure { .. }
            | LaneTransition::Pause { .. }
            | LaneTransition::PauseByHand { .. }
            | LaneTransition::Resume => {}
        }
        let rule = transition.rule();
        for row in lane_rows() {
            assert_eq!(rule.guard(&row), may(&row), "{label} on {row:?}");
            assert_eq!(rule.already_mine(&row), mine(&row), "{label}: mine on {row:?}");
            if !may(&row) {
                continue;
            }
            let mut wanted = row.clone();
            after(&mut wanted);
            let once = rule.apply(&row).unwrap();
            assert_eq!(once, wanted, "{label} on {row:?}");
            assert!(rule.already_mine(&once), "{label} after itself on {row:?}");
            assert_eq!(rule.guard(&once), repeats, "{label} twice on {row:?}");
            if repeats {
                assert_eq!(rule.apply(&once).unwrap(), once, "{label} twice on {row:?}");
            }
        }
    }
}

#[test]
fn equal_numbers_of_another_dispatcher_are_not_ours() {
    let row = LaneRow { rev: REV, ..LaneRow::new(lane(), 4) };
    for (ours, theirs) in [
        (authorise(REV, 1), authorise(REV, 2)),
        (configure(REV, 1), configure(REV, 2)),
        (configure(REV, 1), authorise(REV, 2)),
        (authorise(REV, 1), configure(REV, 2)),
    ] {
        let after = theirs.rule().apply(&row).unwrap();
        assert!(!ours.rule().guard(&after));
        assert!(!ours.rule().already_mine(&after), "{ours:?} isn't applied by {theirs:?}");
    }
    // Nor is this very invocation's earlier write, when it goes on from a stale read.
    let earlier = authorise(REV, 1).rule().apply(&row).unwrap();
    let later = authorise(REV + 1, 1).rule().apply(&earlier).unwrap();
    assert!(!authorise(REV, 1).rule().already_mine(&later));
    assert!(
        !authorise(REV - 1, 1).rule().guard(&earlier) && !authorise(REV - 1, 1).rule().already_mine(&earlier)
    );
}

#[test]
fn a_lost_reply_to_a_lane_is_recognised_after_a_pause_and_a_resume() {
    let row = LaneRow { rev: REV, ..LaneRow::new(lane(), 4) };
    let authorised = authorise(REV, 1).rule().apply(&row).unwrap();
    let pause = LaneTransition::Pause { until_ms: 5, reason: "throttled".into() };
    let paused = pause.rule().apply(&authorised).unwrap();
    let resumed = LaneTransition::Resume.rule().apply(&paused).unwrap();
    for row in [authorised, paused, resumed] {
        assert!(authorise(REV, 1).rule().already_mine(&row));
    }
}

#[test]
fn no_lane_transition_touches_what_another_is_for() {
    for Line { label, transition, .. } in lines() {
        let fields: Vec<LaneField> = transition
            .rule()
            .then
            .iter()
            .map(|then| match then {
                Then::Set(field, _) | Then::Clear(field) | Then::Add(field, _) => *field,
            })
            .collect();
        let counts = [LaneField::Minute, LaneField::MinuteStarts, LaneField::Day, LaneField::DayMicros];
        let settings = [
            LaneField::Capacity,
            LaneField::StartsPerMinute,
            LaneField::PriceMicros,
            LaneField::BudgetMicrosPerDay,
            LaneField::BoostMs,
        ];
        for field in counts {
            assert_eq!(fields.contains(&field), label == "Authorise", "{label}: {field:?}");
        }
        for field in settings {
            assert_eq!(fields.contains(&field), label == "Configure", "{label}: {field:?}");
        }
        let counted = label == "Authorise" || label == "Configure";
        assert_eq!(fields.contains(&LaneField::Rev), counted, "{label}: rev");
        let unique: std::collections::HashSet<_> = fields.iter().collect();
        assert_eq!(unique.len(), fields.len(), "{label}: a field twice");
    }
}

fn take(seen: Option<u8>, by: u8) -> SlotTransition {
    SlotTransition::Take {
        seen: seen.map(token),
        job: job_key(),
        attempt: 2,
        token: token(by),
        now_ms: NOW_MS,
    }
}

fn slot(holder: Option<u8>) -> SlotRow {
    let blank = SlotRow::new(lane(), 3);
    match holder {
        None => blank,
        Some(holder) => SlotRow {
            job: Some("POST#old/SHOT#old".parse().unwrap()),
            attempt: Some(1),
            token: Some(token(holder)),
            since_ms: Some(NOW_MS - 70_000),
            ..blank
        },
    }
}

/// Take matches the token seen in the slot: whoever saw an older holder loses.
#[test]
fn a_slot_is_taken_from_the_holder_that_was_seen_only() {
    for seen in [None, Some(1), Some(2)] {
        for holder in [None, Some(1), Some(2), Some(9)] {
            let (rule, row) = (take(seen, 9).rule(), slot(holder));
            assert_eq!(rule.guard(&row), seen == holder, "seen {seen:?}, holder {holder:?}");
            assert_eq!(rule.already_mine(&row), holder == Some(9), "seen {seen:?}, holder {holder:?}");
            if seen != holder {
                continue;
            }
            let taken = rule.apply(&row).unwrap();
            let wanted = SlotRow {
                key: row.key.clone(),
                job: Some(job_key()),
                attempt: Some(2),
                token: Some(token(9)),
                since_ms: Some(NOW_MS),
            };
            assert_eq!(taken, wanted);
            assert!(rule.already_mine(&taken), "its own lost reply");
            assert!(!rule.guard(&taken), "a repeat is refused");
            let other = take(seen, 8).rule();
            assert!(!other.guard(&taken) && !other.already_mine(&taken), "another dispatcher's Take lost");
        }
    }
}
