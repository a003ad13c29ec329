//! Posts, series and episodes.

use super::tile::Tile;
use glassline_protocol::ids::{Id, JobKey, LaneName, Ms};
use glassline_protocol::row::{
    EpisodeKey, EpisodeRow, EpisodeStatus, HeadRow, JobRow, OutcomeRow, SeriesRow, Status, season_and_episode,
};
use std::collections::BTreeMap;

/// How many of each status, in words: `2 stored, 1 rendering`.
#[must_use]
pub fn summary<'a>(tiles: impl IntoIterator<Item = &'a Tile>) -> String {
    let mut counts = BTreeMap::<usize, (usize, &'static str)>::new();
    for tile in tiles {
        let (place, word) = match tile.status {
            Status::Succeeded => (0, "stored"),
            Status::Rendering => (1, "rendering"),
            Status::Claimed => (2, "claimed"),
            Status::Ready => (3, "ready"),
            Status::Held => (4, "held"),
            Status::Failed => (5, "failed"),
            Status::Cancelled => (6, "cancelled"),
        };
        counts.entry(place).or_insert((0, word)).0 += 1;
    }
    let words: Vec<String> = counts.values().map(|(count, word)| format!("{count} {word}")).collect();
    words.join(", ")
}

/// A post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostView {
    /// Its id.
    pub id: Id,
    /// Its lane.
    pub lane: LaneName,
    /// Its priority.
    pub priority: u32,
    /// When it was created, in epoch milliseconds.
    pub created_ms: Ms,
    /// Its shots, in order.
    pub tiles: Vec<Tile>,
}

/// An episode: a strip of four frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpisodeView {
    /// Its key.
    pub key: EpisodeKey,
    /// Its season, from 1.
    pub season: u32,
    /// Its number within the season, from 1.
    pub episode: u32,
    /// Where it stands.
    pub status: EpisodeStatus,
    /// Its story's key.
    pub story: Id,
    /// The lane of its frames.
    pub lane: LaneName,
    /// When it was opened, in epoch milliseconds.
    pub created_ms: Ms,
    /// When it was closed, in epoch milliseconds.
    pub closed_ms: Option<Ms>,
    /// Why it failed.
    pub reason: Option<String>,
    /// Its frames, in order.
    pub tiles: Vec<Tile>,
}

/// A series with some of its episodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesView {
    /// Its name.
    pub name: Id,
    /// How many episodes it has.
    pub episodes: u32,
    /// How many are open.
    pub open: u32,
    /// How many may be.
    pub open_limit: u32,
    /// Stories that are left, where they were counted.
    pub stories: Option<usize>,
    /// The lane of its frames.
    pub lane: LaneName,
    /// Some of its episodes, newest first.
    pub latest: Vec<EpisodeView>,
    /// The number below which there are more.
    pub before: Option<u32>,
}

fn tiles(jobs: &[JobRow], outcomes: &[OutcomeRow], prompts: &mut Prompts, now_ms: Ms) -> Vec<Tile> {
    let mut tiles: Vec<Tile> =
        jobs.iter().map(|job| Tile::new(job, outcomes, prompts.remove(&job.key), now_ms)).collect();
    // Frames by number. Shots as they were given: their ranks end in their place.
    let place: BTreeMap<_, _> = jobs.iter().map(|job| (&job.key, &job.rank)).collect();
    tiles.sort_by(|a, b| place.get(&a.job).cmp(&place.get(&b.job)).then_with(|| a.job.cmp(&b.job)));
    tiles
}

/// The prompts of jobs.
pub type Prompts = BTreeMap<JobKey, String>;

impl PostView {
    /// A post from its rows.
    #[must_use]
    pub fn new(
        id: Id,
        head: &HeadRow,
        jobs: &[JobRow],
        outcomes: &[OutcomeRow],
        mut prompts: Prompts,
        now_ms: Ms,
    ) -> Self {
        Self {
            id,
            lane: head.lane.clone(),
            priority: head.priority,
            created_ms: head.created_ms,
            tiles: tiles(jobs, outcomes, &mut prompts, now_ms),
        }
    }
}

impl EpisodeView {
    /// An episode from its rows.
    #[must_use]
    pub fn new(
        head: &EpisodeRow,
        frames: &[JobRow],
        outcomes: &[OutcomeRow],
        mut prompts: Prompts,
        now_ms: Ms,
    ) -> Self {
        let (season, episode) = season_and_episode(head.key.number);
        Self {
            key: head.key.clone(),
            season,
            episode,
            status: head.status,
            story: head.story.key.clone(),
            lane: head.lane.clone(),
            created_ms: head.created_ms,
            closed_ms: head.closed_ms,
            reason: head.reason.clone(),
            tiles: tiles(frames, outcomes, &mut prompts, now_ms),
        }
    }
}

impl SeriesView {
    /// A series from its row.
    #[must_use]
    pub fn new(row: &SeriesRow, stories: Option<usize>, latest: Vec<EpisodeView>) -> Self {
        let oldest = latest.last().map(|episode| episode.key.number);
        Self {
            name: row.key.0.clone(),
            episodes: row.next.saturating_sub(1),
            open: row.open,
            open_limit: row.open_limit,
            stories,
            lane: row.lane.clone(),
            before: oldest.filter(|number| *number > 1),
            latest,
        }
    }
}
