//! Why a job isn't running, or what it waits for: one sentence, for people. Pure; [`scene`] reads what it needs.

use crate::admission::{Limit, SlotState, judge, room};
use crate::ids::{JobKey, Ms};
use crate::ports::{JobView, Read, Store};
use crate::row::{JobRow, LaneRow, QaState, Status};
use std::collections::HashMap;

/// Most jobs of a lane that are looked through for a job's place in line.
pub const LINE_LIMIT: usize = 1_000;

/// What a sentence about a job is made of, besides its own rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    /// Its lane; `None` when there is none.
    pub lane: Option<LaneRow>,
    /// Slots of the lane that are filled or reserved.
    pub busy: u32,
    /// Ready jobs before it, by the index; `None` when it isn't among the first [`LINE_LIMIT`].
    pub before: Option<usize>,
}

/// A time as people read it, UTC.
fn time(ms: Ms) -> String {
    i64::try_from(ms)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .map_or_else(|| "an unknown time".into(), |time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// A span of time as people read it.
fn span(ms: u64) -> String {
    match ms {
        0..1_000 => "less than a second".into(),
        1_000..120_000 => format!("{} s", ms / 1_000),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        _ => format!("{} h", ms / 3_600_000),
    }
}

/// The sentence.
#[must_use]
pub fn explain(view: &JobView, scene: &Scene, now_ms: Ms) -> String {
    let job = &view.job;
    let since = |ms: Option<Ms>| span(now_ms.saturating_sub(ms.unwrap_or(job.created_ms)));
    let error = job.error.as_deref().unwrap_or("no reason was recorded");
    let asked = if job.cancel_requested { " A cancel was asked for." } else { "" };
    match job.status {
        Status::Ready => ready(job, scene, now_ms),
        Status::Claimed if job.accepted_ms.is_some() => {
            format!("Its handoff was taken from an outside dispatcher, and it waits for a worker.{asked}")
        }
        Status::Claimed if scene.lane.as_ref().is_some_and(|lane| lane.outside) => format!(
            "An outside dispatcher has claimed it until {}, and hasn't handed it over yet.{asked}",
            time(job.lease_ms.unwrap_or(now_ms))
        ),
        Status::Claimed => format!("It is claimed and waits for a worker.{asked}"),
        Status::Rendering => match &job.task {
            Some(task) => format!(
                "The provider has been rendering it for {} as task {task}.{asked}",
                since(job.started_ms)
            ),
            None => format!(
                "It was sent to the provider {} ago, and its answer isn't known yet; that is looked into when its \
                 lease ends at {}.{asked}",
                since(job.started_ms),
                time(job.lease_ms.unwrap_or(now_ms))
            ),
        },
        Status::Held => held(job, error, asked),
        Status::Succeeded => match job.qa {
            Some(QaState::Approved) => "It has succeeded, and QA approved it.".into(),
            Some(QaState::Rejected) => format!(
                "It has succeeded, and QA rejected it; `glassline requeue '{}' --attempt {}` renders it again.",
                job.key, job.attempt
            ),
            Some(QaState::Pending) | None => format!(
                "It has succeeded and needs QA: `glassline review '{}/{}' --approve`, or `--reject WHY`.",
                job.key, job.attempt
            ),
        },
        Status::Failed => {
            let class = job.error_class.map(|class| format!(" ({class})")).unwrap_or_default();
            format!(
                "It has failed for good{class}: {error}; `glassline requeue '{}' --attempt {}` tries again.",
                job.key, job.attempt
            )
        }
        Status::Cancelled => {
            format!(
                "It was cancelled; `glassline requeue '{}' --attempt {}` renders it after all.",
                job.key, job.attempt
            )
        }
    }
}

/// A held job: why, and the commands that end it.
fn held(job: &JobRow, error: &str, asked: &str) -> String {
    let (key, attempt) = (&job.key, job.attempt);
    let next = job.lease_ms.map(|ms| format!(" It is looked at again at {}.", time(ms))).unwrap_or_default();
    let command = format!("glassline resolve '{key}' --attempt {attempt}");
    match &job.task {
        Some(task) => format!(
            "It is held with task {task}: {error}.{next}{asked} To end it by hand: `{command} --as give-up`, or \
             `glassline requeue '{key}' --attempt {attempt}`, which may pay for it twice."
        ),
        None => format!(
            "It is held: {error}.{next}{asked} Look it up at the provider by the reference {key}/{attempt}, then: \
             `{command} --as lost` if it was never accepted, `{command} --as task --task ID` if it was, or `{command} --as give-up`."
        ),
    }
}

/// A ready job: the first thing that keeps it from being claimed.
fn ready(job: &JobRow, scene: &Scene, now_ms: Ms) -> String {
    let note = match (&job.error, job.failures) {
        (Some(error), 0) => format!(" It was last sent back because: {error}."),
        (Some(error), failures) => format!(" It failed {failures} time(s), last because: {error}."),
        (None, _) => String::new(),
    };
    let Some(lane) = &scene.lane else {
        return format!("Its lane {} doesn't exist.{note}", job.lane);
    };
    let name = &lane.key;
    let reason = lane.pause_reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let limit = room(lane, now_ms, 1).limit;
    match limit {
        Some(Limit::Paused) => {
            return format!(
                "Its lane {name} is paused by hand{reason}; `glassline resume {name}` ends that.{note}"
            );
        }
        Some(Limit::PausedUntil(until_ms)) => {
            return format!("Its lane {name} is paused until {}{reason}.{note}", time(until_ms));
        }
        Some(Limit::Rate | Limit::Budget) | None => {}
    }
    if let Some(due_ms) = due_ms(job).filter(|due_ms| *due_ms > now_ms) {
        return format!("It is to be tried again at {}.{note}", time(due_ms));
    }
    let place = match scene.before {
        Some(0) => "It is the next in line".to_owned(),
        Some(before) => format!("{before} job(s) are before it in line"),
        None if job.queue_pk.as_ref().is_some_and(|pk| pk.starts_with("LATER#")) => {
            "Its retry is due".to_owned()
        }
        None => format!("{LINE_LIMIT} jobs or more are before it in line"),
    };
    let why = match limit {
        Some(Limit::Budget) => format!("and the lane {name} has used up its budget until midnight UTC"),
        Some(Limit::Rate) => format!("and the lane {name} has used up its starts of this minute"),
        Some(Limit::Paused | Limit::PausedUntil(_)) | None if scene.busy >= lane.capacity => {
            format!("and all {} slots of the lane {name} are in use", lane.capacity)
        }
        Some(Limit::Paused | Limit::PausedUntil(_)) | None if lane.outside => {
            format!("and the lane {name} waits for its outside dispatcher to claim")
        }
        Some(Limit::Paused | Limit::PausedUntil(_)) | None => {
            let free = lane.capacity - scene.busy;
            format!(
                "and {free} of {} slots of the lane {name} are free: the next tick starts it",
                lane.capacity
            )
        }
    };
    format!("{place}, {why}.{note}")
}

/// When a retry is due, by its entry in the index.
fn due_ms(job: &JobRow) -> Option<Ms> {
    job.queue_pk.as_ref().filter(|pk| pk.starts_with("LATER#"))?;
    job.queue_sk.as_ref()?.split_once('#')?.0.parse().ok()
}

/// Reads what the sentence needs besides the job: of a job that isn't ready, only its lane.
///
/// # Errors
/// [`crate::ports::Unread`]
pub async fn scene<S: Store>(store: &S, job: &JobRow, now_ms: Ms, reservation_ms: u64) -> Read<Scene> {
    let mut scene = Scene { lane: store.lane(&job.lane).await?, busy: 0, before: None };
    if job.status != Status::Ready {
        return Ok(scene);
    }
    let Some(capacity) = scene.lane.as_ref().map(|lane| lane.capacity) else { return Ok(scene) };
    let slots = store.slots(&job.lane).await?;
    let keys: Vec<JobKey> = slots.iter().filter_map(|slot| slot.job.clone()).collect();
    let mut jobs = HashMap::new();
    for keys in keys.chunks(100) {
        jobs.extend(store.jobs(keys).await?.into_iter().map(|row| (row.key.clone(), row)));
    }
    let busy = slots.iter().filter(|slot| slot.key.number < capacity).filter(|slot| {
        let row = slot.job.as_ref().and_then(|key| jobs.get(key));
        match judge(slot, row, now_ms, reservation_ms) {
            SlotState::Free | SlotState::Stale => false,
            SlotState::Busy | SlotState::LeaseOver | SlotState::Reserved => true,
        }
    });
    scene.busy = u32::try_from(busy.count()).unwrap_or(u32::MAX);
    let line = store.ready(&job.lane, LINE_LIMIT).await?;
    scene.before = line.iter().position(|candidate| candidate.job == job.key);
    Ok(scene)
}
