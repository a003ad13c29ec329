//! Writing series and stories, and the rows of an episode.

use super::story::Story;
use super::submit::{SubmitError, create, new_job};
use super::{MAX_PROMPT_BYTES, Submitted};
use crate::ids::{Id, LaneName, Ms, Token};
use crate::message::{Message, Wake};
use crate::ports::{Created, Envelope, Local, NewRow, Queues, Store};
use crate::provider::Media;
use crate::rank::rank;
use crate::row::{
    EpisodeKey, EpisodeRow, EpisodeStatus, JobRow, LaneRow, SeriesKey, SeriesRow, SpecKey, SpecRow, StoryRow,
    StorySpecKey, StorySpecRow, StoryStatus,
};
use crate::transition::{open_entry, story_entry};

/// The prompts that a premise becomes where the series has no template of its own.
const TEMPLATE: [&str; 4] = [
    "{premise} Opening frame: the place, wide, before anything happens.",
    "{premise} Second frame: what sets it going, seen close.",
    "{premise} Third frame: the moment on which it turns.",
    "{premise} Last frame: what is left afterwards, quiet.",
];
/// What a template's prompts have where the premise goes.
const PREMISE: &str = "{premise}";

/// What a new series is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSeries {
    /// Its name.
    pub name: Id,
    /// The lane that renders its frames.
    pub lane: LaneName,
    /// Priority of its frames, 0 to 1000.
    pub priority: u32,
    /// Most episodes that may be open at once, at least 1.
    pub open_limit: u32,
    /// Four prompts with `{premise}` in each; `None` for the built-in ones.
    pub template: Option<[String; 4]>,
}

/// Creates a series, unless it is there; an existing one stays as it is.
///
/// # Errors
/// [`SubmitError`]
pub async fn create_series<P: Store + Local>(ports: &P, series: NewSeries) -> Result<(), SubmitError> {
    let bad = |what: &str| Err(SubmitError::BadSeries { series: series.name.clone(), what: what.to_owned() });
    if ports.lane(&series.lane).await?.is_none() {
        return bad(&format!("there is no lane `{}`", series.lane));
    }
    if series.open_limit == 0 {
        return bad("at least one episode must be allowed to be open");
    }
    if series.template.as_ref().is_some_and(|prompts| prompts.iter().any(|p| !p.contains(PREMISE))) {
        return bad("each of the template's four prompts needs {premise} where the premise goes");
    }
    let row = SeriesRow {
        key: SeriesKey(series.name.clone()),
        next: 1,
        open: 0,
        open_limit: series.open_limit,
        lane: series.lane.clone(),
        priority: series.priority.min(crate::rank::MAX_PRIORITY),
        template: series.template.as_ref().and_then(|prompts| serde_json::to_string(prompts).ok()),
        created_ms: ports.now_ms(),
        queue_pk: Some("SERIES".into()),
        queue_sk: Some(series.name.to_string()),
    };
    create(ports, &NewRow::Series(row), &format!("series {}", series.name)).await.map(|_| ())
}

pub(super) fn prompts(story: &Story, series: &SeriesRow) -> Result<[String; 4], SubmitError> {
    let bad = |what: String| SubmitError::BadStory { story: story.story_key(), what };
    let prompts: Vec<String> = match (&story.frames, &story.premise) {
        (Some(frames), _) => frames.clone(),
        (None, premise) => {
            let premise = premise.as_deref().unwrap_or_default();
            let own: Option<[String; 4]> =
                series.template.as_deref().and_then(|text| serde_json::from_str(text).ok());
            let template = own.unwrap_or(TEMPLATE.map(str::to_owned));
            template.iter().map(|prompt| prompt.replace(PREMISE, premise)).collect()
        }
    };
    if let Some(long) = prompts.iter().find(|prompt| prompt.len() > MAX_PROMPT_BYTES) {
        let bytes = long.len();
        return Err(bad(format!(
            "its premise makes a prompt of {bytes} bytes; {MAX_PROMPT_BYTES} are allowed"
        )));
    }
    prompts.try_into().map_err(|_| bad("it doesn't have four frames".into()))
}

/// Writes a story, idempotently: its prompts, then the story itself.
///
/// # Errors
/// [`SubmitError`]
pub async fn submit_story<P: Store + Queues + Local>(
    ports: &P,
    story: &Story,
    lanes: &[LaneRow],
) -> Result<Submitted, SubmitError> {
    let key = story.story_key();
    let bad = |what: String| SubmitError::BadStory { story: key.clone(), what };
    let series = ports.series(&SeriesKey(story.series.clone())).await?;
    let series = series.ok_or_else(|| bad(format!("there is no series `{}`", story.series)))?;
    if let Some(lane) = story.lane.as_ref().filter(|lane| !lanes.iter().any(|row| row.key == **lane)) {
        return Err(bad(format!("there is no lane `{lane}`")));
    }
    let fingerprint = story.fingerprint();
    if let Some(found) = ports.story(&key).await? {
        return if found.fingerprint == fingerprint {
            Ok(Submitted::Already(0))
        } else {
            Err(SubmitError::StoryConflict(key))
        };
    }
    let [frame_1, frame_2, frame_3, frame_4] = prompts(story, &series)?;
    let spec = StorySpecRow { key: StorySpecKey(key.clone()), frame_1, frame_2, frame_3, frame_4 };
    let (queue_pk, queue_sk) = story_entry(&key);
    let row = StoryRow {
        key: key.clone(),
        status: StoryStatus::Eligible,
        owner: None,
        expires_ms: None,
        episode: None,
        failures: 0,
        lane: story.lane.clone(),
        priority: story.priority,
        score: story.score.as_ref().map(ToString::to_string),
        created_ms: ports.now_ms(),
        fingerprint: fingerprint.clone(),
        queue_pk: Some(queue_pk),
        queue_sk: Some(queue_sk),
    };
    let what = key.to_string();
    if let Created::Exists(found) = create(ports, &NewRow::StorySpec(spec.clone()), &what).await?
        && *found != NewRow::StorySpec(spec)
    {
        return Err(bad("another story with its key is being written; choose another key".into()));
    }
    match create(ports, &NewRow::Story(row.clone()), &what).await? {
        Created::Created | Created::Unknown => {}
        Created::Exists(found) => match *found {
            NewRow::Story(found) if found.fingerprint == fingerprint => {}
            NewRow::Story(_)
            | NewRow::Job(_)
            | NewRow::Spec(_)
            | NewRow::Head(_)
            | NewRow::Lane(_)
            | NewRow::Slot(_)
            | NewRow::Series(_)
            | NewRow::StorySpec(_)
            | NewRow::Episode(_) => {
                return Err(SubmitError::StoryConflict(key));
            }
        },
    }
    Ok(Submitted::New(1))
}

/// Tells dispatch that a series may have something to open.
pub async fn wake_series<P: Store + Queues>(ports: &P, series: &Id) {
    if let Ok(Some(row)) = ports.series(&SeriesKey(series.clone())).await {
        let message = Message::Wake(Wake { lane: row.lane, freed: None });
        let _ = ports.send(vec![Envelope { message, delay_ms: 0 }]).await;
    }
}

/// The rows that become an episode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpisodeRows {
    /// Its head, open.
    pub head: EpisodeRow,
    /// Its four frames, each with its spec.
    pub frames: Vec<(SpecRow, JobRow)>,
}

/// The rows of the series' next episode, made of this story.
#[must_use]
pub fn episode_rows(
    series: &SeriesRow,
    story: &StoryRow,
    spec: &StorySpecRow,
    lane: &LaneRow,
    owner: &Token,
    now_ms: Ms,
) -> EpisodeRows {
    let key = EpisodeKey { series: series.key.0.clone(), number: series.next };
    let priority = story.priority.unwrap_or(series.priority);
    let (queue_pk, queue_sk) = open_entry(&key);
    let frames = key.frames().into_iter().zip(spec.prompts()).zip(0u32..).map(|((job, prompt), place)| {
        let rank = rank(priority, now_ms, place, lane.boost_ms);
        let spec = SpecRow {
            key: SpecKey(job.clone()),
            prompt: prompt.to_owned(),
            params: None,
            media: Media::Image,
        };
        (spec, new_job(job, lane.key.clone(), rank, Media::Image, now_ms))
    });
    EpisodeRows {
        frames: frames.collect(),
        head: EpisodeRow {
            key,
            status: EpisodeStatus::Open,
            story: story.key.clone(),
            owner: owner.clone(),
            lane: lane.key.clone(),
            priority,
            created_ms: now_ms,
            opened: 1,
            closed_ms: None,
            reason: None,
            queue_pk: Some(queue_pk),
            queue_sk: Some(queue_sk),
        },
    }
}
