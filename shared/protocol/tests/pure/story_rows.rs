//! Rows of series, stories and episodes: what is put is what is read, what can't be read is named, and each takes one
//! write unit.

use crate::arbitrary::{id, lane, text, token};
use crate::fixtures::{NOW_MS, cases};
use crate::rows::{Asks, check_all, names, round_trip, whole};
use crate::sizes::{WRITE_UNIT_BYTES, size_bytes};
use glassline_protocol::ids::{Id, LaneName, Token};
use glassline_protocol::row::{
    EpisodeKey, EpisodeRow, EpisodeStatus, PrimaryKey, RowKey as _, SeriesKey, SeriesRow, StoryKey, StoryRow,
    StorySpecKey, StorySpecRow, StoryStatus,
};
use glassline_protocol::transition::{open_entry, story_entry};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

fn story_key() -> impl Strategy<Value = StoryKey> {
    (id(), id()).prop_map(|(series, key)| StoryKey { series, key })
}

prop_compose! {
    fn series_row()(
        (name, next, open, open_limit) in (id(), any::<u32>(), any::<u32>(), any::<u32>()),
        (lane, priority, template, created_ms) in (lane(), any::<u32>(), of(text()), any::<u64>()),
        (queue_pk, queue_sk) in (of(text()), of(text())),
    ) -> SeriesRow {
        let key = SeriesKey(name);
        SeriesRow { key, next, open, open_limit, lane, priority, template, created_ms, queue_pk, queue_sk }
    }
}

prop_compose! {
    fn story_row()(
        (key, status, owner) in (story_key(), select(StoryStatus::ALL), of(token())),
        (expires_ms, episode, failures) in any::<(Option<u64>, Option<u32>, u32)>(),
        (lane, priority, score) in (of(lane()), any::<Option<u32>>(), of(text())),
        (created_ms, fingerprint, queue_pk, queue_sk) in (any::<u64>(), text(), of(text()), of(text())),
    ) -> StoryRow {
        StoryRow {
            key, status, owner, expires_ms, episode, failures, lane, priority, score, created_ms, fingerprint,
            queue_pk, queue_sk,
        }
    }
}

prop_compose! {
    fn story_spec_row()(
        (key, frame_1, frame_2, frame_3, frame_4) in (story_key(), text(), text(), text(), text()),
    ) -> StorySpecRow {
        StorySpecRow { key: StorySpecKey(key), frame_1, frame_2, frame_3, frame_4 }
    }
}

prop_compose! {
    fn episode_row()(
        (series, number, status) in (id(), 1..=u32::MAX, select(EpisodeStatus::ALL)),
        (story, owner, lane, priority) in (story_key(), token(), lane(), any::<u32>()),
        (created_ms, opened, closed_ms, reason) in (any::<u64>(), any::<u32>(), any::<Option<u64>>(), of(text())),
        (queue_pk, queue_sk) in (of(text()), of(text())),
    ) -> EpisodeRow {
        let key = EpisodeKey { series, number };
        EpisodeRow {
            key, status, story, owner, lane, priority, created_ms, opened, closed_ms, reason, queue_pk, queue_sk,
        }
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn a_series_is_read_as_it_was_put((row, other) in (series_row(), series_row())) { round_trip(&row, other)?; }
    #[test]
    fn a_story_is_read_as_it_was_put((row, other) in (story_row(), story_row())) { round_trip(&row, other)?; }
    #[test]
    fn prompts_are_read_as_they_were_put((row, other) in (story_spec_row(), story_spec_row())) {
        round_trip(&row, other)?;
    }
    #[test]
    fn an_episode_is_read_as_it_was_put((row, other) in (episode_row(), episode_row())) {
        round_trip(&row, other)?;
    }

    /// Open heads are looked at by number; the text order must be it.
    #[test]
    fn open_heads_sort_by_number(one in 1u32..1_000_000, two in 1u32..1_000_000) {
        let key = |number| EpisodeKey { series: Id::new("main").unwrap(), number };
        let (one_entry, two_entry) = (open_entry(&key(one)), open_entry(&key(two)));
        prop_assert_eq!(one_entry.1.cmp(&two_entry.1), one.cmp(&two));
        prop_assert_eq!(one_entry.0, "OPEN#main");
    }
}

#[test]
fn a_value_of_a_wrong_type_is_refused_by_row_and_field() {
    check_all(
        whole(series_row()),
        &Asks {
            required: &["next", "open", "open_limit", "lane", "priority", "created_ms"],
            ruled: &["lane"],
            small: &["next", "open", "open_limit", "priority"],
        },
    );
    check_all(
        whole(story_row()),
        &Asks {
            required: &["status", "failures", "created_ms", "fingerprint"],
            ruled: &["status", "owner", "lane"],
            small: &["episode", "failures", "priority"],
        },
    );
    let prompts = &["frame_1", "frame_2", "frame_3", "frame_4"];
    check_all(whole(story_spec_row()), &Asks { required: prompts, ruled: &[], small: &[] });
    check_all(
        whole(episode_row()),
        &Asks {
            required: &["status", "story", "owner", "lane", "priority", "created_ms", "opened"],
            ruled: &["status", "story", "owner", "lane"],
            small: &["priority", "opened"],
        },
    );
    names::<SeriesRow>();
    names::<StoryRow>();
    names::<StorySpecRow>();
    names::<EpisodeRow>();
}

/// Keys as they are stored, and which row each is of. By hand, from the table of rows.
#[test]
fn a_key_is_of_one_kind_of_row() {
    for (pk, sk, kind) in [
        ("SERIES#main", "COUNTER", "series"),
        ("STORY#main#k1", "STORY", "story"),
        ("STORY#main#k1", "STORY#SPEC", "prompts"),
        ("EPISODE#main#000013", "HEAD", "episode"),
        ("POST#p1", "HEAD", "none"),
        ("EPISODE#main#13", "HEAD", "none"),
        ("EPISODE#main#000000", "HEAD", "none"),
        ("EPISODE#main#000013", "FRAME#2", "none"),
        ("SERIES#main", "STORY", "none"),
        ("SERIES#ma in", "COUNTER", "none"),
        ("SERIES#main#x", "COUNTER", "none"),
        ("STORY#main", "STORY", "none"),
        ("STORY#main#k1#x", "STORY", "none"),
        ("STORY##k1", "STORY", "none"),
        ("STORY#main#k1", "SPEC", "none"),
        ("", "", "none"),
    ] {
        let key = PrimaryKey { pk: pk.into(), sk: sk.into() };
        for (name, read) in [
            ("series", SeriesKey::parse(&key).map(|read| read.primary())),
            ("story", StoryKey::parse(&key).map(|read| read.primary())),
            ("prompts", StorySpecKey::parse(&key).map(|read| read.primary())),
            ("episode", EpisodeKey::parse(&key).map(|read| read.primary())),
        ] {
            assert_eq!(read.is_ok(), name == kind, "{pk} / {sk} as {name}: {read:?}");
            assert!(read.is_err() || read == Ok(key.clone()), "{pk} / {sk} as {name}: {read:?}");
        }
    }
}

#[test]
fn the_longest_story_series_and_episode_take_one_write_unit() {
    let long = || Id::new("p".repeat(64)).unwrap();
    let lane = || LaneName::new("l".repeat(64)).unwrap();
    let owner = Token::new("a".repeat(64)).unwrap();
    let story = StoryKey { series: long(), key: long() };
    let (queue_pk, queue_sk) = story_entry(&story);
    let row = StoryRow {
        key: story.clone(),
        status: StoryStatus::Eligible,
        owner: Some(owner.clone()),
        expires_ms: Some(NOW_MS),
        episode: Some(u32::MAX),
        failures: 3,
        lane: Some(lane()),
        priority: Some(1_000),
        score: Some("9".repeat(40)),
        created_ms: NOW_MS,
        fingerprint: "f".repeat(64),
        queue_pk: Some(queue_pk),
        queue_sk: Some(queue_sk),
    };
    assert!(size_bytes(&row) < WRITE_UNIT_BYTES, "story: {} bytes", size_bytes(&row));
    let key = EpisodeKey { series: long(), number: u32::MAX };
    let (queue_pk, queue_sk) = open_entry(&key);
    let row = EpisodeRow {
        key,
        status: EpisodeStatus::Complete,
        story,
        owner,
        lane: lane(),
        priority: 1_000,
        created_ms: NOW_MS,
        opened: u32::MAX,
        closed_ms: Some(NOW_MS),
        reason: Some("r".repeat(160)),
        queue_pk: Some(queue_pk),
        queue_sk: Some(queue_sk),
    };
    assert!(size_bytes(&row) < WRITE_UNIT_BYTES, "episode: {} bytes", size_bytes(&row));
}

#[test]
fn prompts_and_templates_never_print() {
    let words = || "PROMPT of a pear".to_owned();
    let mut spec = whole(story_spec_row());
    (spec.frame_1, spec.frame_2, spec.frame_3, spec.frame_4) = (words(), words(), words(), words());
    let series = SeriesRow { template: Some(words()), ..whole(series_row()) };
    let print = format!("{spec:?}{spec:#?}{series:?}{series:#?}");
    assert!(
        !print.contains("PROMPT") && print.contains("StorySpecRow") && print.contains("SeriesRow"),
        "{print}"
    );
}
