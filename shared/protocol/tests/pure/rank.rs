//! Ranks and index entries: their text order is the wanted order.

use crate::arbitrary::{lane, text};
use crate::fixtures::cases;
use glassline_protocol::rank::{
    MAX_PRIORITY, due_bound, held_entry, later_entry, next_attempt, parse_entry, rank, ready_entry,
};
use proptest::prelude::*;
use std::cmp::Reverse;

/// Times up to the year 5138, which is as far as fourteen digits go; ten thousand places.
fn place_in_lane() -> impl Strategy<Value = (u32, u64, u32)> {
    let created_ms =
        prop_oneof![0u64..100, 1_700_000_000_000u64..1_900_000_000_000, 0u64..100_000_000_000_000];
    (0u32..=MAX_PRIORITY, created_ms, 0u32..10_000)
}

/// Two that often share what comes first in the order.
fn two_places() -> impl Strategy<Value = [(u32, u64, u32); 2]> {
    (place_in_lane(), place_in_lane(), any::<[bool; 3]>()).prop_map(|(one, mut two, same)| {
        if same[0] {
            two.0 = one.0;
        }
        if same[1] {
            two.1 = one.1;
        }
        if same[2] {
            two.2 = one.2;
        }
        [one, two]
    })
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn ranks_sort_by_priority_then_age_then_place(places in two_places()) {
        let wanted = places.map(|(priority, created_ms, place)| (Reverse(priority), created_ms, place));
        let ranks = places.map(|(priority, created_ms, place)| rank(priority, created_ms, place, None));
        prop_assert_eq!(ranks[0].cmp(&ranks[1]), wanted[0].cmp(&wanted[1]));
    }

    #[test]
    fn with_aging_ranks_sort_by_boosted_age_then_place(
        places in two_places(),
        boost_ms in prop_oneof![0u64..10_000, any::<u64>()],
    ) {
        let boosted = |(priority, created_ms, place): (u32, u64, u32)| {
            (u128::from(created_ms).saturating_sub(u128::from(priority) * u128::from(boost_ms)), place)
        };
        let ranks = places.map(|(priority, created_ms, place)| rank(priority, created_ms, place, Some(boost_ms)));
        prop_assert_eq!(ranks[0].cmp(&ranks[1]), boosted(places[0]).cmp(&boosted(places[1])));
    }

    #[test]
    fn with_aging_only_jobs_created_within_a_bounded_time_overtake(
        (one, two) in (place_in_lane(), place_in_lane()),
        boost_ms in 0u64..10_000,
    ) {
        let later_ms = one.1 + u64::from(MAX_PRIORITY) * boost_ms + 1;
        prop_assume!(later_ms < 100_000_000_000_000);
        prop_assert!(rank(one.0, one.1, one.2, Some(boost_ms)) < rank(two.0, later_ms, two.2, Some(boost_ms)));
    }

    #[test]
    fn entries_sort_by_rank_or_time_first_and_say_what_was_seen(
        places in two_places(),
        times in any::<[u32; 2]>(),
        attempts in [0u32..1_000_000, 0u32..1_000_000],
        lane in lane(),
    ) {
        let ranks = places.map(|(priority, created_ms, place)| rank(priority, created_ms, place, None));
        let at = |index: usize| (ranks[index].as_str(), u64::from(times[index]) * 20_000, attempts[index]);
        let [(rank_0, ms_0, attempt_0), (rank_1, ms_1, attempt_1)] = [at(0), at(1)];
        let ready = [ready_entry(&lane, rank_0, attempt_0), ready_entry(&lane, rank_1, attempt_1)];
        prop_assert_eq!(ready[0].sk.cmp(&ready[1].sk), (rank_0, attempt_0).cmp(&(rank_1, attempt_1)));
        let later = [later_entry(&lane, ms_0, rank_0, attempt_0), later_entry(&lane, ms_1, rank_1, attempt_1)];
        prop_assert_eq!(later[0].sk.cmp(&later[1].sk), (ms_0, rank_0, attempt_0).cmp(&(ms_1, rank_1, attempt_1)));
        let held = [held_entry(&lane, ms_0, attempt_0), held_entry(&lane, ms_1, attempt_1)];
        prop_assert_eq!(held[0].sk.cmp(&held[1].sk), (ms_0, attempt_0).cmp(&(ms_1, attempt_1)));
        for entry in [&ready[0], &later[0]] {
            prop_assert_eq!(parse_entry(&entry.pk, &entry.sk), Some((rank_0.to_owned(), attempt_0)));
        }
        prop_assert_eq!(next_attempt(&ready[0].sk), Some(ready_entry(&lane, rank_0, attempt_0 + 1).sk));
        prop_assert_eq!(next_attempt(&later[0].sk), Some(later_entry(&lane, ms_0, rank_0, attempt_0 + 1).sk));
        // What is due at a time is what sorts below its bound.
        for entry in [&later[0].sk, &held[0].sk] {
            prop_assert_eq!(entry.as_str() < due_bound(ms_1).as_str(), ms_0 <= ms_1);
            prop_assert!(entry.as_str() < due_bound(ms_0).as_str(), "due at that very millisecond");
            prop_assert!(ms_0 == 0 || entry.as_str() > due_bound(ms_0.saturating_sub(1)).as_str());
        }
        prop_assert_eq!(ready[0].pk.clone(), format!("READY#{lane}"));
        prop_assert_eq!(later[0].pk.clone(), format!("LATER#{lane}"));
        prop_assert_eq!(held[0].pk.clone(), format!("HELD#{lane}"));
    }

    #[test]
    fn a_sort_key_that_is_none_is_refused_without_ado((pk, sk) in (text(), text())) {
        let _ = next_attempt(&sk);
        for pk in [pk.as_str(), "READY#a", "LATER#a", "HELD#a"] {
            if let Some((rank, _)) = parse_entry(pk, &sk) {
                prop_assert!(sk.contains(&rank));
            }
        }
    }
}

#[test]
fn a_priority_beyond_the_highest_counts_as_the_highest() {
    for boost_ms in [None, Some(1_000)] {
        assert_eq!(rank(u32::MAX, 5_000_000, 0, boost_ms), rank(MAX_PRIORITY, 5_000_000, 0, boost_ms));
    }
}

#[test]
fn after_the_last_attempt_there_is_no_next() {
    assert_eq!(next_attempt("0500#01789000000000#0000#4294967295"), None);
    assert_eq!(next_attempt("no attempt"), None);
    assert_eq!(next_attempt("0500#"), None);
}

/// A retry that is due when time ends is never due.
#[test]
fn a_time_beyond_fourteen_digits_is_not_due_now() {
    let entry = later_entry(&"a".parse().unwrap(), u64::MAX, "0500#01789000000000#0000", 1);
    assert!(entry.sk.as_str() > due_bound(1_790_000_000_000).as_str());
}
