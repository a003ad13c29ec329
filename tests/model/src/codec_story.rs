//! Series, stories and episodes, as `codec` does for jobs.

use crate::codec::{lane_name, ms, series_id, small, time, token, token_of};
use crate::state::{Head, Series, Story};
use glassline_protocol::ids::Id;
use glassline_protocol::row::{
    EpisodeKey, EpisodeRow, EpisodeStatus, SeriesKey, SeriesRow, StoryKey, StoryRow, StorySpecKey,
    StorySpecRow,
};
use glassline_protocol::transition::{open_entry, story_entry};

pub(crate) fn series_row(series: &Series, open_limit: u8) -> SeriesRow {
    SeriesRow {
        key: SeriesKey(series_id()),
        next: u32::from(series.next),
        open: u32::from(series.open),
        open_limit: u32::from(open_limit),
        lane: lane_name(),
        priority: 500,
        template: None,
        created_ms: 1,
        queue_pk: Some("SERIES".into()),
        queue_sk: Some("m".into()),
    }
}

pub(crate) fn series_from(row: &SeriesRow) -> Series {
    Series { next: small(row.next), open: small(row.open) }
}

pub(crate) fn story_key(story: u8) -> StoryKey {
    StoryKey { series: series_id(), key: Id::new(format!("s{story}")).unwrap() }
}

pub(crate) fn story_of(key: &StoryKey) -> u8 {
    key.key.as_str()[1..].parse().unwrap()
}

pub(crate) fn story_row(story: &Story) -> StoryRow {
    let key = story_key(story.key);
    let entry = story.listed.then(|| story_entry(&key));
    let (queue_pk, queue_sk) = entry.map_or((None, None), |(pk, sk)| (Some(pk), Some(sk)));
    StoryRow {
        key,
        status: story.status,
        owner: token(story.owner),
        expires_ms: story.expires.map(ms),
        episode: story.episode.map(u32::from),
        failures: u32::from(story.failures),
        lane: None,
        priority: None,
        score: None,
        created_ms: 1,
        fingerprint: "f".into(),
        queue_pk,
        queue_sk,
    }
}

pub(crate) fn story_from(row: &StoryRow) -> Story {
    Story {
        key: story_of(&row.key),
        status: row.status,
        owner: token_of(row.owner.as_ref()),
        expires: row.expires_ms.map(time),
        episode: row.episode.map(small),
        failures: small(row.failures),
        listed: row.queue_pk.is_some(),
    }
}

pub(crate) fn story_spec(key: &StoryKey) -> StorySpecRow {
    let text = || "draw".to_owned();
    StorySpecRow {
        key: StorySpecKey(key.clone()),
        frame_1: text(),
        frame_2: text(),
        frame_3: text(),
        frame_4: text(),
    }
}

pub(crate) fn episode_key(number: u8) -> EpisodeKey {
    EpisodeKey { series: series_id(), number: u32::from(number) }
}

pub(crate) fn head_row(head: &Head) -> EpisodeRow {
    let key = episode_key(head.number);
    let entry = (head.status == EpisodeStatus::Open).then(|| open_entry(&key));
    let (queue_pk, queue_sk) = entry.map_or((None, None), |(pk, sk)| (Some(pk), Some(sk)));
    EpisodeRow {
        key,
        status: head.status,
        story: story_key(head.story),
        owner: token(head.owner).unwrap(),
        lane: lane_name(),
        priority: 500,
        created_ms: 1,
        opened: u32::from(head.opened),
        closed_ms: (head.status != EpisodeStatus::Open).then_some(1),
        reason: head.reason.then(|| "why".to_owned()),
        queue_pk,
        queue_sk,
    }
}

pub(crate) fn head_from(row: &EpisodeRow) -> Head {
    Head {
        number: small(row.key.number),
        status: row.status,
        story: story_of(&row.story),
        owner: token_of(Some(&row.owner)),
        opened: small(row.opened),
        reason: row.reason.is_some(),
    }
}
