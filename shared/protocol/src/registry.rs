//! What people look at: everything of a parent, lists, counts, and how a lane stands. Nothing here decides anything.

use crate::ids::{JobKey, LaneName, Ms, ParentKey};
use crate::ports::{Local, Read, Store};
use crate::row::{
    EpisodeRow, Field as _, HeadRow, JobRow, LaneRow, OrphanRow, OutcomeRow, PrimaryKey, Row, SeriesKey,
    Value,
};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::str::FromStr;

/// Jobs counted in a line before the count stops.
pub const COUNT_LIMIT: usize = 1_000;

/// Everything of one parent, as the registry shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParentView {
    /// The head of a post.
    pub head: Option<HeadRow>,
    /// The head of an episode.
    pub episode: Option<EpisodeRow>,
    /// Its jobs, by key.
    pub jobs: Vec<JobRow>,
    /// Its outcomes, by job and attempt.
    pub outcomes: Vec<OutcomeRow>,
    /// Its orphans.
    pub orphans: Vec<OrphanRow>,
}

impl ParentView {
    /// How many of its jobs have each status.
    #[must_use]
    pub fn statuses(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for job in &self.jobs {
            *counts.entry(job.status.word()).or_default() += 1;
        }
        counts
    }
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next page begins, if there is one: the place of this one's last item.
    pub next: Option<Mark>,
}

/// Where a page ended: the keys of its last item. Two jobs may have the same place in a line, so its sort key alone would
/// lose one of them between two pages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mark {
    /// Its sort key in the index.
    pub queue_sk: String,
    /// Its keys in the table.
    pub primary: PrimaryKey,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}\n{}", self.queue_sk, self.primary.pk, self.primary.sk)
    }
}

impl FromStr for Mark {
    type Err = BadMark;
    fn from_str(text: &str) -> Result<Self, BadMark> {
        let mut parts = text.split('\n').map(str::to_owned);
        let (Some(queue_sk), Some(pk), Some(sk), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(BadMark);
        };
        // DynamoDB takes no empty keys, and none above 1,024 bytes.
        if [&queue_sk, &pk, &sk].iter().any(|part| part.is_empty() || part.len() > 1_024) {
            return Err(BadMark);
        }
        Ok(Self { queue_sk, primary: PrimaryKey { pk, sk } })
    }
}

/// A text that isn't a [`Mark`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it isn't the end of a page")]
pub struct BadMark;

/// A partition of the index: what waits for the same thing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Line {
    /// Jobs that are ready.
    Ready(LaneName),
    /// Retries that aren't due yet, or due and not claimed.
    Later(LaneName),
    /// Held jobs.
    Held(LaneName),
    /// Stories that are eligible or locked.
    Stories(SeriesKey),
}

impl fmt::Display for Line {
    /// The partition's key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(lane) => write!(f, "READY#{lane}"),
            Self::Later(lane) => write!(f, "LATER#{lane}"),
            Self::Held(lane) => write!(f, "HELD#{lane}"),
            Self::Stories(series) => write!(f, "STORIES#{}", series.0),
        }
    }
}

/// Lists and counts of the table, beside what handlers read. The pages and counts come from the index, which may
/// lag behind.
pub trait Registry {
    /// Everything of one parent but its prompts, consistently.
    fn parent(&self, parent: &ParentKey) -> impl Future<Output = Read<Option<ParentView>>> + Send;
    /// One job as [`Registry::parent`] gives it, with its outcomes and orphans and without heads, consistently.
    fn history(&self, job: &JobKey) -> impl Future<Output = Read<Option<ParentView>>> + Send;
    /// The posts of a month (`2026-11`), newest first; from `after`, the end of the page before.
    fn posts(
        &self,
        month: &str,
        after: Option<&Mark>,
        limit: usize,
    ) -> impl Future<Output = Read<Page<ParentKey>>> + Send;
    /// The held jobs of a lane, the next to be looked at first; from `after`, the end of the page before.
    fn held_jobs(
        &self,
        lane: &LaneName,
        after: Option<&Mark>,
        limit: usize,
    ) -> impl Future<Output = Read<Page<JobKey>>> + Send;
    /// How many stand in a line, counted up to `limit`.
    fn count(&self, line: &Line, limit: usize) -> impl Future<Output = Read<usize>> + Send;
}

/// How a lane stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneView {
    /// Its row.
    pub row: LaneRow,
    /// Slots whose job is claimed or rendering under its token.
    pub in_use: usize,
    /// Ready jobs, up to [`COUNT_LIMIT`].
    pub ready: usize,
    /// Retries, up to [`COUNT_LIMIT`].
    pub later: usize,
    /// Held jobs, up to [`COUNT_LIMIT`].
    pub held: usize,
    /// The ready job that comes first.
    pub first_ready: Option<JobRow>,
}

impl LaneView {
    /// Until when it is paused, if that is still to come.
    #[must_use]
    pub fn paused_until_ms(&self, now_ms: Ms) -> Option<Ms> {
        self.row.paused_until_ms.filter(|until_ms| *until_ms > now_ms)
    }

    /// Why it is paused now, by hand or for a time.
    #[must_use]
    pub fn pause_reason(&self, now_ms: Ms) -> Option<&str> {
        let paused = self.row.paused || self.paused_until_ms(now_ms).is_some();
        self.row.pause_reason.as_deref().filter(|_| paused)
    }

    /// How long the job that comes first has been waiting since its creation, in milliseconds.
    #[must_use]
    pub fn first_ready_wait_ms(&self, now_ms: Ms) -> Option<u64> {
        self.first_ready.as_ref().map(|job| now_ms.saturating_sub(job.created_ms))
    }

    /// What was authorised on this UTC day, in millionths.
    #[must_use]
    pub fn spent_today_micros(&self, now_ms: Ms) -> u64 {
        crate::admission::spent_today(&self.row, now_ms)
    }
}

/// Looks at a lane: its slots and their jobs, what is ready, later and held.
///
/// # Errors
/// [`crate::ports::Unread`]
pub async fn lane_view<P: Store + Registry + Local>(ports: &P, row: LaneRow) -> Read<LaneView> {
    let lane = row.key.clone();
    let slots = ports.slots(&lane).await?;
    let keys: Vec<JobKey> = slots.iter().filter_map(|slot| slot.job.clone()).collect();
    let mut jobs = BTreeMap::new();
    for keys in keys.chunks(100) {
        jobs.extend(ports.jobs(keys).await?.into_iter().map(|job| (job.key.clone(), job)));
    }
    let in_use = slots.iter().filter(|slot| {
        let job = slot.job.as_ref().and_then(|key| jobs.get(key));
        job.is_some_and(|job| job.status.fills_slot() && job.token == slot.token)
    });
    let first: Vec<JobKey> =
        ports.ready(&lane, 1).await?.into_iter().map(|candidate| candidate.job).collect();
    Ok(LaneView {
        row,
        in_use: in_use.count(),
        ready: ports.count(&Line::Ready(lane.clone()), COUNT_LIMIT).await?,
        later: ports.count(&Line::Later(lane.clone()), COUNT_LIMIT).await?,
        held: ports.count(&Line::Held(lane), COUNT_LIMIT).await?,
        first_ready: ports.jobs(&first).await?.pop(),
    })
}

/// A row's fields by name, all but what gives the right to write (token, run, owner).
#[must_use]
pub fn shown<R: Row>(row: &R) -> BTreeMap<&'static str, Value> {
    let fields = R::Field::ALL.iter().filter(|field| !matches!(field.name(), "token" | "run" | "owner"));
    fields.filter_map(|field| Some((field.name(), row.get(*field)?))).collect()
}
