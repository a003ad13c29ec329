//! Series, stories and episodes of a world: making them, and what must always hold of them (design: I7 and I8).

use crate::faulty::Faulty;
use crate::plan::Plan;
use crate::world::{Ports, TABLE, World, lane_name};
use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::stream::{self, StreamExt as _};
use glassline_dispatch::{Opened, open_episodes};
use glassline_protocol::ids::Id;
use glassline_protocol::intake::{NewSeries, create_series, parse_stories, submit_story};
use glassline_protocol::ports::{EpisodeView, Store as _};
use glassline_protocol::row::{
    EpisodeKey, EpisodeStatus, RowKey as _, SeriesKey, SeriesRow, Status, StoryKey, StoryRow, StoryStatus,
};
use glassline_protocol::settle::Fault as HandlerFault;
use std::collections::{BTreeMap, BTreeSet};

/// Every attribute of every row as text, by key.
pub type Scan = BTreeMap<(String, String), BTreeMap<String, String>>;

/// The key of a series.
#[must_use]
pub fn series_key(name: &str) -> SeriesKey {
    SeriesKey(Id::new(name).unwrap())
}

/// The key of an episode.
#[must_use]
pub fn episode_key(series: &str, number: u32) -> EpisodeKey {
    EpisodeKey { series: Id::new(series).unwrap(), number }
}

/// The key of a story.
#[must_use]
pub fn story_key(series: &str, key: &str) -> StoryKey {
    StoryKey { series: Id::new(series).unwrap(), key: Id::new(key).unwrap() }
}

impl World {
    /// Creates a series whose frames this lane renders.
    pub async fn add_series(&self, name: &str, lane: &str, open_limit: u32) {
        let series = NewSeries {
            name: Id::new(name).unwrap(),
            lane: lane_name(lane),
            priority: 500,
            open_limit,
            template: None,
        };
        create_series(&self.ports, series).await.unwrap();
    }

    /// Submits a story with four prompts of its own.
    pub async fn add_story(&self, series: &str, key: &str) {
        let frames: Vec<String> = (1..=4).map(|frame| format!(r#""{key}, frame {frame}""#)).collect();
        let text = format!(r#"{{"series":"{series}","key":"{key}","frames":[{}]}}"#, frames.join(","));
        let story = parse_stories(&text).unwrap().remove(0).unwrap();
        let lanes = self.look.lanes().await.unwrap();
        submit_story(&self.ports, &story, &lanes).await.unwrap();
    }

    /// Submits stories `s001`, `s002`, …
    pub async fn add_stories(&self, series: &str, count: usize) {
        let keys: Vec<String> = (1..=count).map(|number| format!("s{number:03}")).collect();
        let added = stream::iter(keys).map(|key| async move { self.add_story(series, &key).await });
        added.buffer_unordered(8).collect::<Vec<()>>().await;
    }

    /// Dispatch's look at one series, with faults. `None`: the dispatcher died.
    pub async fn open_with(&self, plan: &Plan, series: &str) -> Option<Result<Opened, HandlerFault>> {
        let ports: Faulty<'_, Ports> = Faulty::new(&self.ports, plan, "dispatch");
        let key = series_key(series);
        ports.run(Box::pin(open_episodes(&ports, &self.settings, &key))).await
    }

    /// Dispatch's look at one series, without faults: the numbers of the episodes it opened.
    pub async fn open(&self, series: &str) -> Vec<u32> {
        let opened = self.open_with(&Plan::none(), series).await.unwrap().unwrap();
        opened.episodes.into_iter().map(|episode| episode.number).collect()
    }

    /// An episode with its frames.
    pub async fn episode(&self, series: &str, number: u32) -> EpisodeView {
        self.look.episode(&episode_key(series, number)).await.unwrap().expect("the episode exists")
    }

    /// A series' row.
    pub async fn series(&self, series: &str) -> SeriesRow {
        self.look.series(&series_key(series)).await.unwrap().expect("the series exists")
    }

    /// A story's row.
    pub async fn story(&self, series: &str, key: &str) -> StoryRow {
        self.look.story(&story_key(series, key)).await.unwrap().expect("the story exists")
    }

    /// The whole table.
    pub async fn scan(&self) -> Scan {
        let mut items = self.dynamo.scan().table_name(TABLE).into_paginator().items().send();
        let mut rows = Scan::new();
        while let Some(item) = items.next().await {
            let mut item = item.unwrap();
            let mut text = |name: &str| match item.remove(name) {
                Some(AttributeValue::S(text)) => text,
                other => panic!("{name} is {other:?}"),
            };
            let key = (text("pk"), text("sk"));
            rows.insert(key, item.into_iter().map(|(name, value)| (name, format!("{value:?}"))).collect());
        }
        rows
    }

    /// What must hold of a series at any moment, whatever failed before. Its episodes, by number.
    ///
    /// I7: the numbers from `first` on are dense and unique, each with a head, four frames and four specs and nothing
    /// else, and none beyond the counter; as many heads are open as the counter says and the index shows. I8: a story
    /// is in at most one episode that hasn't failed, and says so itself.
    pub async fn check_series_from(&self, name: &str, first: u32) -> Vec<EpisodeView> {
        let rows = self.scan().await;
        let series = self.series(name).await;
        let mut members: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (pk, sk) in rows.keys().filter(|(pk, _)| pk.starts_with(&format!("EPISODE#{name}#"))) {
            members.entry(pk).or_default().insert(sk);
        }
        let parents: Vec<String> =
            (first..series.next).map(|number| episode_key(name, number).primary().pk).collect();
        let found: Vec<&str> = members.keys().copied().collect();
        assert_eq!(found, parents, "the numbers aren't dense, or sort wrong; next is {}", series.next);
        for (parent, mut rows) in members {
            rows.retain(|sk| !sk.contains("#OUTCOME#") && !sk.contains("#ORPHAN#"));
            let whole =
                "FRAME#1 FRAME#1#SPEC FRAME#2 FRAME#2#SPEC FRAME#3 FRAME#3#SPEC FRAME#4 FRAME#4#SPEC HEAD";
            assert_eq!(rows.into_iter().collect::<Vec<_>>().join(" "), whole, "{parent}");
        }
        let mut views = Vec::new();
        for number in first..series.next {
            views.push(self.episode(name, number).await);
        }
        let open: Vec<String> = views
            .iter()
            .filter(|view| view.head.status == EpisodeStatus::Open)
            .map(|view| view.head.key.primary().pk)
            .collect();
        assert_eq!(series.open as usize, open.len(), "open heads: {open:?}");
        let entries = self.index(&format!("OPEN#{name}")).await;
        assert_eq!(entries.into_iter().map(|(pk, ..)| pk).collect::<Vec<_>>(), open);
        self.check_stories(name, &rows, &views).await;
        views
    }

    /// As [`World::check_series_from`] number 1.
    pub async fn check_series(&self, name: &str) -> Vec<EpisodeView> {
        self.check_series_from(name, 1).await
    }

    async fn check_stories(&self, name: &str, rows: &Scan, views: &[EpisodeView]) {
        let mut taken: BTreeMap<&StoryKey, u32> = BTreeMap::new();
        for view in views.iter().filter(|view| view.head.status != EpisodeStatus::Failed) {
            let (story, number) = (&view.head.story, view.head.key.number);
            let other = taken.insert(story, number);
            assert_eq!(other, None, "{story} is in episodes {other:?} and {number}");
        }
        let (mut used, mut eligible) = (BTreeMap::new(), Vec::new());
        let prefix = format!("STORY#{name}#");
        for (pk, _) in rows.keys().filter(|(pk, sk)| pk.starts_with(&prefix) && sk == "STORY") {
            let key: StoryKey = pk.parse().unwrap();
            let story = self.story(name, key.key.as_str()).await;
            match story.status {
                StoryStatus::Used => {
                    let number = story.episode.unwrap();
                    let view = views.iter().find(|view| view.head.key.number == number).unwrap();
                    assert_eq!((&view.head.story, Some(&view.head.owner)), (&key, story.owner.as_ref()));
                    used.insert(key, number);
                }
                StoryStatus::Eligible | StoryStatus::Locked => eligible.push(pk.clone()),
                StoryStatus::Exhausted => {}
            }
        }
        let taken: BTreeMap<StoryKey, u32> =
            taken.into_iter().map(|(story, number)| (story.clone(), number)).collect();
        assert_eq!(used, taken, "what the stories say and what the heads say");
        let entries = self.index(&format!("STORIES#{name}")).await;
        assert_eq!(entries.into_iter().map(|(pk, ..)| pk).collect::<Vec<_>>(), eligible);
    }

    /// As [`World::check_series`], and no head is open whose frames have ended: what holds when nothing is under way.
    pub async fn check_series_at_rest(&self, name: &str) -> Vec<EpisodeView> {
        let views = self.check_series(name).await;
        for view in views.iter().filter(|view| view.head.status == EpisodeStatus::Open) {
            let all = view.frames.iter().all(|frame| frame.status == Status::Succeeded);
            let lost = view.frames.iter().any(|f| matches!(f.status, Status::Failed | Status::Cancelled));
            assert!(!all && !lost, "{} was left open: {:?}", view.head.key, view.frames);
        }
        views
    }
}
