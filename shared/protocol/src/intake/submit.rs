//! Writing posts and lanes.

use super::MAX_CAPACITY;
use super::parse::{Post, Shot};
use crate::ids::{JobKey, LaneName, Ms, ParentKey};
use crate::message::{Message, Wake};
use crate::ports::{Created, Envelope, Local, NewRow, Part, Queues, Sent, Store, Transacted, Unread};
use crate::provider::Media;
use crate::rank::{rank, ready_entry};
use crate::row::{HeadKey, HeadRow, JobRow, LaneRow, SlotRow, SpecKey, SpecRow, Status};
use futures_util::stream::{self, StreamExt as _};
use std::collections::BTreeSet;

/// Rows written at the same time.
const CONCURRENCY: usize = 16;
/// Slots of one transaction. It costs twice the units and a hundredth of the time, which counts for thousands of them.
const SLOTS_AT_ONCE: usize = 100;
/// Tries of one put whose answer is lost.
const TRIES: usize = 4;

/// What became of a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// It is new; this many jobs wait in its lane.
    New(usize),
    /// It was there already, the same; this many jobs of it were missing and are there now.
    Already(usize),
}

/// A post that could not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// Another post has this id.
    #[error("post {0} exists with other contents; choose another id, or send the same post again")]
    Conflict(crate::ids::Id),
    /// No such lane.
    #[error("post {post}: there is no lane `{lane}`; {known}")]
    NoLane {
        /// The post.
        post: crate::ids::Id,
        /// The lane it names.
        lane: LaneName,
        /// What lanes there are.
        known: String,
    },
    /// A series that can't be created.
    #[error("series {series}: {what}")]
    BadSeries {
        /// Which.
        series: crate::ids::Id,
        /// What is wrong.
        what: String,
    },
    /// Another story has this key.
    #[error("{0}: it exists with other contents; choose another key, or send the same story again")]
    StoryConflict(crate::row::StoryKey),
    /// A story that can't be taken.
    #[error("{story}: {what}")]
    BadStory {
        /// Which.
        story: crate::row::StoryKey,
        /// What is wrong.
        what: String,
    },
    /// The table did not answer; sending the same again is safe.
    #[error("{0}: the table doesn't answer; nothing is lost, send the same again")]
    Unavailable(String),
    /// A row that can't be understood.
    #[error(transparent)]
    Unread(#[from] Unread),
}

/// The rows of a post: its head, and for each shot its spec and its job.
#[must_use]
pub fn rows_of(post: &Post, lane: &LaneRow, now_ms: Ms, month: &str) -> (HeadRow, Vec<(SpecRow, JobRow)>) {
    let parent = ParentKey::Post(post.id.clone());
    let head = HeadRow {
        key: HeadKey(parent),
        jobs: u32::try_from(post.shots.len()).unwrap_or(u32::MAX),
        lane: post.lane.clone(),
        priority: post.priority,
        created_ms: now_ms,
        fingerprint: post.fingerprint(),
        queue_pk: Some(format!("POSTS#{month}")),
        queue_sk: Some(format!("{now_ms:014}#{}", post.id)),
    };
    let jobs = post.shots.iter().enumerate().map(|(place, shot)| {
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        job_rows(post, shot, rank(post.priority, now_ms, place, lane.boost_ms), now_ms)
    });
    (head, jobs.collect())
}

fn job_rows(post: &Post, shot: &Shot, rank: String, now_ms: Ms) -> (SpecRow, JobRow) {
    let key = JobKey::shot(post.id.clone(), shot.id.clone());
    let spec = SpecRow {
        key: SpecKey(key.clone()),
        prompt: shot.prompt.clone(),
        params: shot.params_text(),
        media: shot.media,
    };
    let mut job = new_job(key, post.lane.clone(), rank, shot.media, now_ms);
    if let Some((width_px, height_px)) = asked_size(shot) {
        (job.width_px, job.height_px) = (Some(width_px), Some(height_px));
    }
    (spec, job)
}

/// The size of a picture that a shot's parameters ask for: `width` and `height`, as whole numbers. Films are left out,
/// for what providers make of a film's size differs too much to refuse a paid one for it.
fn asked_size(shot: &Shot) -> Option<(u32, u32)> {
    let side = |name: &str| {
        let side = shot.params.as_ref()?.get(name)?.as_u64()?;
        u32::try_from(side).ok().filter(|side| *side > 0)
    };
    match shot.media {
        Media::Image => side("width").zip(side("height")),
        Media::Video => None,
    }
}

/// A job that was never claimed.
pub(crate) fn new_job(key: JobKey, lane: LaneName, rank: String, media: Media, now_ms: Ms) -> JobRow {
    let entry = ready_entry(&lane, &rank, 0);
    JobRow {
        key,
        status: Status::Ready,
        attempt: 0,
        failures: 0,
        token: None,
        run: None,
        slot: None,
        lease_ms: None,
        accepted_ms: None,
        receipt: None,
        started_ms: None,
        price_micros: None,
        lane,
        rank,
        created_ms: now_ms,
        media,
        width_px: None,
        height_px: None,
        task: None,
        error_class: None,
        error: None,
        cancel_requested: false,
        qa: None,
        ended_ms: None,
        queue_pk: Some(entry.pk),
        queue_sk: Some(entry.sk),
    }
}

/// The UTC month of a time, `2026-11`: the partition in which the registry lists a post. A time beyond the calendar
/// (after the year 9999) counts as the first month, `1970-01`: a broken clock must not stop intake.
#[must_use]
pub fn month_of(now_ms: Ms) -> String {
    let timestamp = i64::try_from(now_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    timestamp.unwrap_or_default().strftime("%Y-%m").to_string()
}

/// The month before one, `2026-01` to `2025-12`; `None` when it isn't a month.
#[must_use]
pub fn month_before(month: &str) -> Option<String> {
    let (year, month) = month.split_once('-')?;
    let (year, month): (u32, u32) = (year.parse().ok()?, month.parse().ok()?);
    Some(if month <= 1 {
        format!("{:04}-12", year.checked_sub(1)?)
    } else {
        format!("{year:04}-{:02}", month - 1)
    })
}

pub(super) async fn create<S: Store>(store: &S, row: &NewRow, what: &str) -> Result<Created, SubmitError> {
    for _ in 0..TRIES {
        match store.create(row).await {
            Created::Unknown => {}
            done @ (Created::Created | Created::Exists(_)) => return Ok(done),
        }
    }
    Err(SubmitError::Unavailable(what.to_owned()))
}

/// Writes a post, idempotently: head, then for each shot its spec and then its job, so that a job never lacks its spec.
/// Sending the same post again completes what an interruption left out.
///
/// # Errors
/// [`SubmitError`]
pub async fn submit_post<P: Store + Queues + Local>(
    ports: &P,
    post: &Post,
    lanes: &[LaneRow],
) -> Result<Submitted, SubmitError> {
    let Some(lane) = lanes.iter().find(|lane| lane.key == post.lane) else {
        let names: Vec<_> = lanes.iter().map(|lane| lane.key.as_str()).collect();
        let known = if names.is_empty() {
            "no lane is set up yet".to_owned()
        } else {
            format!("the lanes are {}", names.join(", "))
        };
        return Err(SubmitError::NoLane { post: post.id.clone(), lane: post.lane.clone(), known });
    };
    let now_ms = ports.now_ms();
    let (mut head, mut jobs) = rows_of(post, lane, now_ms, &month_of(now_ms));
    let what = format!("post {}", post.id);
    let mut is_new = true;
    if let Created::Exists(found) = create(ports, &NewRow::Head(head.clone()), &what).await? {
        let NewRow::Head(found) = *found else { return Err(SubmitError::Conflict(post.id.clone())) };
        if found.fingerprint != head.fingerprint {
            return Err(SubmitError::Conflict(post.id.clone()));
        }
        is_new = found == head;
        (head, jobs) = rows_of(post, lane, found.created_ms, &month_of(found.created_ms));
    }
    let created = stream::iter(jobs)
        .map(|(spec, job)| {
            let what = format!("post {}, job {}", post.id, job.key);
            async move {
                create(ports, &NewRow::Spec(spec), &what).await?;
                match create(ports, &NewRow::Job(job), &what).await? {
                    Created::Created => Ok(1),
                    Created::Exists(_) | Created::Unknown => Ok::<usize, SubmitError>(0),
                }
            }
        })
        .buffer_unordered(CONCURRENCY)
        .collect::<Vec<_>>()
        .await
        .into_iter()
        .sum::<Result<usize, _>>()?;
    if created > 0 {
        // A lost wake costs at most the time to the next scheduled tick, so its answer isn't needed.
        let wake = Message::Wake(Wake { lane: head.lane.clone(), freed: None });
        let _: Vec<Sent> = ports.send(vec![Envelope { message: wake, delay_ms: 0 }]).await;
    }
    Ok(if is_new { Submitted::New(head.jobs as usize) } else { Submitted::Already(created) })
}

/// Creates a lane with its slots, idempotently. An existing lane's settings stay as they are; missing slots are added.
///
/// # Errors
/// [`SubmitError`]
pub async fn create_lane<S: Store>(store: &S, lane: LaneRow) -> Result<(), SubmitError> {
    create(store, &NewRow::Lane(lane.clone()), &format!("lane {}", lane.key)).await?;
    create_slots(store, &lane.key, lane.capacity).await
}

/// Creates the slots of a lane below its capacity that aren't there.
pub(super) async fn create_slots<S: Store>(
    store: &S,
    lane: &LaneName,
    capacity: u32,
) -> Result<(), SubmitError> {
    let there: BTreeSet<u32> = store.slots(lane).await?.into_iter().map(|slot| slot.key.number).collect();
    let missing = (0..capacity.min(MAX_CAPACITY)).filter(|number| !there.contains(number));
    let missing: Vec<u32> = missing.collect();
    let chunks: Vec<Vec<u32>> = missing.chunks(SLOTS_AT_ONCE).map(<[u32]>::to_vec).collect();
    let new = |number: u32| NewRow::Slot(SlotRow::new(lane.clone(), number));
    let slots = stream::iter(chunks)
        .map(|numbers| async move {
            if numbers.len() > 25 {
                let parts: Vec<Part> = numbers.iter().map(|one| Part::Create(Box::new(new(*one)))).collect();
                match store.transact(&parts).await {
                    Transacted::Done => return Ok(()),
                    // Some are there by now, or all: each is looked at below.
                    Transacted::Refused(_) | Transacted::Unknown => {}
                }
            }
            for number in numbers {
                create(store, &new(number), &format!("lane {lane}")).await?;
            }
            Ok(())
        })
        .buffer_unordered(CONCURRENCY)
        .collect::<Vec<Result<(), SubmitError>>>()
        .await;
    slots.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_month_before_is_the_month_before() {
        for (month, before) in [("2026-01", "2025-12"), ("2026-05", "2026-04"), ("2026-12", "2026-11")] {
            assert_eq!(month_before(month).as_deref(), Some(before));
        }
        assert_eq!(month_before("May"), None);
    }
}
