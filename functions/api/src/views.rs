//! What the registry answers: rows as the JSON that people and programs read. Never a token, a run or an owner.

use crate::keys;
use crate::words;
use glassline_protocol::ids::Ms;
use glassline_protocol::registry::{COUNT_LIMIT, LaneView, ParentView};
use glassline_protocol::row::outcome::Cost;
use glassline_protocol::row::{
    EpisodeRow, EpisodeStatus, HeadRow, JobRow, LaneRow, OrphanRow, OutcomeRow, QaState, SeriesRow, Status,
    Verdict, season_and_episode,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// How an attempt ended.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Outcome {
    /// The attempt.
    pub attempt: u32,
    /// How it ended.
    #[schemars(schema_with = "words::verdict")]
    pub verdict: Verdict,
    /// When.
    pub at_ms: Ms,
    /// When its submit was about to be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<Ms>,
    /// The provider's id of the render.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// What it cost: nothing, its price, or nobody can tell.
    #[schemars(schema_with = "words::cost")]
    pub cost: Cost,
    /// The price of a render when it was claimed, in millionths, if its lane had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_micros: Option<u64>,
    /// Where the output lies in storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Its SHA-256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Its size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Its media type, from its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Width in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width_px: Option<u32>,
    /// Height in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height_px: Option<u32>,
    /// Length in milliseconds, of a film.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The class of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Why it failed or was cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl From<&OutcomeRow> for Outcome {
    fn from(row: &OutcomeRow) -> Self {
        Self {
            attempt: row.key.attempt,
            verdict: row.verdict,
            at_ms: row.at_ms,
            started_ms: row.started_ms,
            task: row.task.as_ref().map(ToString::to_string),
            cost: row.cost,
            price_micros: row.price_micros,
            location: row.location.clone(),
            sha256: row.sha256.clone(),
            size_bytes: row.size_bytes,
            content_type: row.content_type.clone(),
            width_px: row.width_px,
            height_px: row.height_px,
            duration_ms: row.duration_ms,
            class: row.class.map(|class| class.to_string()),
            reason: row.reason.clone(),
        }
    }
}

/// A task that was given up: accepted by the provider, and not ours any more when its answer came.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Orphan {
    /// The provider's id of the render.
    pub task: String,
    /// The attempt that submitted it.
    pub attempt: u32,
    /// When it was found.
    pub at_ms: Ms,
    /// Why it was given up.
    pub reason: String,
    /// What the provider said to the cancel.
    pub cancel: String,
}

impl From<&OrphanRow> for Orphan {
    fn from(row: &OrphanRow) -> Self {
        Self {
            task: row.key.task.to_string(),
            attempt: row.attempt,
            at_ms: row.at_ms,
            reason: row.reason.clone(),
            cancel: row.cancel.clone(),
        }
    }
}

/// A job: a shot or a frame, with its history.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Job {
    /// Its key: `POST#morning/SHOT#s1`.
    pub key: String,
    /// Where it is found: `/v1/jobs/POST:morning/SHOT:s1`.
    pub path: String,
    /// Where it stands.
    #[schemars(schema_with = "words::status")]
    pub status: Status,
    /// The current or last attempt; 0 before the first claim.
    pub attempt: u32,
    /// Failures counted so far.
    pub failures: u32,
    /// Its lane.
    #[schemars(schema_with = "words::id")]
    pub lane: String,
    /// What it is expected to be: `image` or `video`.
    pub media: String,
    /// When it was created.
    pub created_ms: Ms,
    /// The slot it fills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<u32>,
    /// When its owner's lease ends; of a held job, when it is next looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<Ms>,
    /// When an outside dispatcher's handoff was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_ms: Option<Ms>,
    /// When the submit of this attempt was about to be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<Ms>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<Ms>,
    /// The provider's id of the render.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The class of the last failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_class: Option<String>,
    /// The last failure, or why it is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether somebody asked to cancel it.
    pub cancel_requested: bool,
    /// What QA said, once it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "words::qa")]
    pub qa: Option<QaState>,
    /// How its attempts ended, in their order.
    pub outcomes: Vec<Outcome>,
    /// Tasks of it that were given up.
    pub orphans: Vec<Orphan>,
}

impl Job {
    /// A job with what its parent's view holds of it.
    #[must_use]
    pub fn of(row: &JobRow, outcomes: &[OutcomeRow], orphans: &[OrphanRow]) -> Self {
        let mut outcomes: Vec<Outcome> =
            outcomes.iter().filter(|one| one.key.job == row.key).map(Outcome::from).collect();
        outcomes.sort_by_key(|outcome| outcome.attempt);
        Self {
            key: row.key.to_string(),
            path: keys::job_path(&row.key),
            status: row.status,
            attempt: row.attempt,
            failures: row.failures,
            lane: row.lane.to_string(),
            media: row.media.to_string(),
            created_ms: row.created_ms,
            slot: row.slot,
            lease_ms: row.lease_ms,
            accepted_ms: row.accepted_ms,
            started_ms: row.started_ms,
            ended_ms: row.ended_ms,
            task: row.task.as_ref().map(ToString::to_string),
            error_class: row.error_class.map(|class| class.to_string()),
            error: row.error.clone(),
            cancel_requested: row.cancel_requested,
            qa: row.qa,
            outcomes,
            orphans: orphans.iter().filter(|one| one.key.job == row.key).map(Orphan::from).collect(),
        }
    }

    /// The jobs of a parent, in the order of their keys.
    #[must_use]
    pub fn all(view: &ParentView) -> Vec<Self> {
        view.jobs.iter().map(|row| Self::of(row, &view.outcomes, &view.orphans)).collect()
    }
}

/// A post in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PostLine {
    /// Its id.
    #[schemars(schema_with = "words::id")]
    pub id: String,
    /// Its lane.
    #[schemars(schema_with = "words::id")]
    pub lane: String,
    /// Its priority.
    pub priority: u32,
    /// When it was created.
    pub created_ms: Ms,
    /// How many jobs it has.
    pub jobs: u32,
    /// How many of its jobs have each status.
    pub statuses: BTreeMap<&'static str, usize>,
}

impl PostLine {
    /// A post by its head, and what its jobs came to.
    #[must_use]
    pub fn of(head: &HeadRow, view: &ParentView) -> Self {
        let id = match &head.key.0 {
            glassline_protocol::ids::ParentKey::Post(id) => id.to_string(),
            other @ glassline_protocol::ids::ParentKey::Episode { .. } => other.to_string(),
        };
        Self {
            id,
            lane: head.lane.to_string(),
            priority: head.priority,
            created_ms: head.created_ms,
            jobs: head.jobs,
            statuses: view.statuses(),
        }
    }
}

/// A post with its jobs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Post {
    /// What the list says of it.
    #[serde(flatten)]
    pub line: PostLine,
    /// Its shots.
    pub shots: Vec<Job>,
}

/// A page of posts, newest first.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Posts {
    /// The month, UTC.
    pub month: String,
    /// The posts.
    pub posts: Vec<PostLine>,
    /// For the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// An episode in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EpisodeLine {
    /// Its key: `EPISODE#main#000013`.
    pub key: String,
    /// Its number within the series, from 1.
    pub number: u32,
    /// Its season, from 1.
    pub season: u32,
    /// Its number within the season, from 1.
    pub episode: u32,
    /// Where it stands.
    #[schemars(schema_with = "words::episode_status")]
    pub status: EpisodeStatus,
    /// Its story: `STORY#main#the-lamp`.
    pub story: String,
    /// The lane of its frames.
    #[schemars(schema_with = "words::id")]
    pub lane: String,
    /// When it was opened.
    pub created_ms: Ms,
    /// When it was closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_ms: Option<Ms>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many of its frames have each status.
    pub statuses: BTreeMap<&'static str, usize>,
}

impl EpisodeLine {
    /// An episode by its head, and what its frames came to.
    #[must_use]
    pub fn of(head: &EpisodeRow, view: &ParentView) -> Self {
        let (season, episode) = season_and_episode(head.key.number);
        Self {
            key: head.key.to_string(),
            number: head.key.number,
            season,
            episode,
            status: head.status,
            story: head.story.to_string(),
            lane: head.lane.to_string(),
            created_ms: head.created_ms,
            closed_ms: head.closed_ms,
            reason: head.reason.clone(),
            statuses: view.statuses(),
        }
    }
}

/// An episode with its four frames.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Episode {
    /// What the list says of it.
    #[serde(flatten)]
    pub line: EpisodeLine,
    /// Its frames, in order.
    pub frames: Vec<Job>,
}

/// A series in the list of all.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SeriesLine {
    /// Its name.
    #[schemars(schema_with = "words::id")]
    pub series: String,
    /// The lane of its frames.
    #[schemars(schema_with = "words::id")]
    pub lane: String,
    /// Their priority.
    pub priority: u32,
    /// Episodes it has.
    pub episodes: u32,
    /// Episodes that are open.
    pub open: u32,
    /// Episodes that may be open at once.
    pub open_limit: u32,
    /// Stories that may still become episodes, counted up to 1,000.
    #[schemars(range(max = COUNT_LIMIT))]
    pub stories_left: usize,
    /// When it was created.
    pub created_ms: Ms,
}

impl SeriesLine {
    /// A series by its row.
    #[must_use]
    pub fn of(row: &SeriesRow, stories_left: usize) -> Self {
        Self {
            series: row.key.0.to_string(),
            lane: row.lane.to_string(),
            priority: row.priority,
            episodes: row.next.saturating_sub(1),
            open: row.open,
            open_limit: row.open_limit,
            stories_left,
            created_ms: row.created_ms,
        }
    }
}

/// All series.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AllSeries {
    /// The series.
    pub series: Vec<SeriesLine>,
}

/// A series with its episodes, newest first.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Series {
    /// What the list says of it.
    #[serde(flatten)]
    pub line: SeriesLine,
    /// A page of its episodes.
    pub page: Vec<EpisodeLine>,
    /// For the next page: the number before which it begins; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A lane: its settings, and how it stands.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Lane {
    /// Its name.
    #[schemars(schema_with = "words::id")]
    pub lane: String,
    /// Jobs at once.
    pub capacity: u32,
    /// Starts a minute; absent for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts_per_minute: Option<u32>,
    /// Price of a render in millionths; absent when it isn't tracked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_micros: Option<u64>,
    /// Most that is spent on a UTC day, in millionths; absent for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_micros_per_day: Option<u64>,
    /// Aging: how much earlier one step of priority ranks a job, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boost_ms: Option<u64>,
    /// Whether an outside dispatcher makes its claims.
    pub outside: bool,
    /// Whether a person paused it.
    pub paused: bool,
    /// Until when it is paused by itself, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_until_ms: Option<Ms>,
    /// Why it is paused, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_reason: Option<String>,
    /// Slots whose job is claimed or rendering.
    pub slots_in_use: usize,
    /// Ready jobs, counted up to 1,000.
    #[schemars(range(max = COUNT_LIMIT))]
    pub ready: usize,
    /// Retries that wait, counted up to 1,000.
    #[schemars(range(max = COUNT_LIMIT))]
    pub later: usize,
    /// Held jobs, counted up to 1,000.
    #[schemars(range(max = COUNT_LIMIT))]
    pub held: usize,
    /// How long the best ready job has been waiting since its creation, in milliseconds; absent when none is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_ready_wait_ms: Option<u64>,
    /// Spend authorised on this UTC day, in millionths.
    pub spent_today_micros: u64,
}

impl Lane {
    /// A lane as it stands now.
    #[must_use]
    pub fn of(view: &LaneView, now_ms: Ms) -> Self {
        let LaneRow { key, capacity, starts_per_minute, price_micros, .. } = &view.row;
        Self {
            lane: key.to_string(),
            capacity: *capacity,
            starts_per_minute: *starts_per_minute,
            price_micros: *price_micros,
            budget_micros_per_day: view.row.budget_micros_per_day,
            boost_ms: view.row.boost_ms,
            outside: view.row.outside,
            paused: view.row.paused,
            paused_until_ms: view.paused_until_ms(now_ms),
            pause_reason: view.pause_reason(now_ms).map(str::to_owned),
            slots_in_use: view.in_use,
            ready: view.ready,
            later: view.later,
            held: view.held,
            best_ready_wait_ms: view.first_ready_wait_ms(now_ms),
            spent_today_micros: view.spent_today_micros(now_ms),
        }
    }
}

/// All lanes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Lanes {
    /// The lanes, by name.
    pub lanes: Vec<Lane>,
}

/// A page of held jobs, the next to be looked at first.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Held {
    /// The jobs, with their history.
    pub jobs: Vec<Job>,
    /// For the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
