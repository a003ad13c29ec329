//! The parent step: what an episode owes when one of its frames has ended. Idempotent, made by whoever ends a frame or
//! finds one ended, and by the full tick for heads that a crash left open.

use crate::ids::ParentKey;
use crate::ports::{EpisodeView, Local, Part, Store, Transacted};
use crate::row::{
    EpisodeKey, EpisodeRow, EpisodeStatus, FRAMES, JobRow, SeriesKey, SeriesRow, Status, StoryRow,
    StoryStatus,
};
use crate::settle::{self, Fault, Settled};
use crate::transition::{
    EpisodeTransition, JobTransition, MAX_STORY_FAILURES, SeriesTransition, StoryTransition, story_entry,
};

/// Tries of one closing transaction before the message is given back.
const TRIES: usize = 10;
/// Repeats of one write whose reply was lost.
const REPEATS: u32 = 3;

/// What a parent owes when one of its jobs has ended. A post owes nothing: its jobs stand for themselves.
///
/// # Errors
/// [`Fault`] when the parent's rows can't be read or written now.
pub async fn parent_step<P: Store + Local>(ports: &P, row: &JobRow) -> Result<(), Fault> {
    match &row.key.parent {
        ParentKey::Post(_) => Ok(()),
        ParentKey::Episode { series, number } if row.status.ended() => {
            let key = EpisodeKey { series: series.clone(), number: *number };
            close_if_ended(ports, &key).await.map(|_| ())
        }
        ParentKey::Episode { .. } => Ok(()),
    }
}

/// How an episode stands by its frames.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// A frame is still under way, and none ended without success.
    Open,
    /// All four succeeded.
    Complete,
    /// One ended without success: which and why.
    Failed(String),
}

fn verdict(frames: &[JobRow]) -> Verdict {
    let lost = frames.iter().find(|frame| match frame.status {
        Status::Failed | Status::Cancelled => true,
        Status::Ready | Status::Claimed | Status::Rendering | Status::Held | Status::Succeeded => false,
    });
    if let Some(frame) = lost {
        let why = frame.error.clone().unwrap_or_else(|| frame.status.to_string());
        return Verdict::Failed(format!("{}: {why}", frame.key.member));
    }
    let done = frames.iter().filter(|frame| frame.status == Status::Succeeded).count();
    if done == usize::from(FRAMES) { Verdict::Complete } else { Verdict::Open }
}

/// Closes an episode whose frames say so: complete when all four succeeded; failed when one ended without success, its
/// other frames asked to stop and its story given back. The status the head has afterwards; `None` when there is none.
///
/// # Errors
/// [`Fault`] when a row can't be read or written now.
pub async fn close_if_ended<P: Store + Local>(
    ports: &P,
    key: &EpisodeKey,
) -> Result<Option<EpisodeStatus>, Fault> {
    for _ in 0..TRIES {
        let Some(view) = ports.episode(key).await? else { return Ok(None) };
        if view.head.status != EpisodeStatus::Open {
            return Ok(Some(view.head.status));
        }
        let verdict = verdict(&view.frames);
        if let Verdict::Failed(_) = &verdict {
            // Before the head is closed: whoever comes after a crash finds it open and asks again.
            if !stop_frames(ports, &view.frames).await? {
                // A frame moved on since it was read, and perhaps the whole episode with it: look again.
                continue;
            }
        }
        let Some(series) = ports.series(&SeriesKey(key.series.clone())).await? else {
            return Err(Fault::Poison(format!("the series of {key} is missing")));
        };
        let parts = match &verdict {
            Verdict::Open => return Ok(Some(EpisodeStatus::Open)),
            Verdict::Complete => closing(
                key,
                EpisodeTransition::Complete { opened: view.head.opened, now_ms: ports.now_ms() },
                &series,
            ),
            Verdict::Failed(reason) => {
                let fail = EpisodeTransition::Fail {
                    opened: view.head.opened,
                    now_ms: ports.now_ms(),
                    reason: reason.clone(),
                };
                let mut parts = closing(key, fail, &series);
                let story = ports.story(&view.head.story).await?;
                parts.extend(story.and_then(|story| give_back(&view.head, key, &story)));
                parts
            }
        };
        match ports.transact(&parts).await {
            Transacted::Done => {
                return Ok(Some(match verdict {
                    Verdict::Complete => EpisodeStatus::Complete,
                    Verdict::Open | Verdict::Failed(_) => EpisodeStatus::Failed,
                }));
            }
            // Another closed it, the open count moved, or our own reply was lost: what is there now decides.
            Transacted::Refused(_) | Transacted::Unknown => {}
        }
    }
    Err(Fault::retry(format!("{key} can't be closed now")))
}

fn closing(key: &EpisodeKey, head: EpisodeTransition, series: &SeriesRow) -> Vec<Part> {
    vec![
        Part::Episode(key.clone(), head),
        Part::Series(series.key.clone(), SeriesTransition::Closed { open: series.open }),
    ]
}

/// The story's part of a failure: only if it still is this very episode's.
fn give_back(head: &EpisodeRow, key: &EpisodeKey, story: &StoryRow) -> Option<Part> {
    let ours = story.status == StoryStatus::Used
        && story.owner.as_ref() == Some(&head.owner)
        && story.episode == Some(key.number);
    let (owner, episode) = (head.owner.clone(), key.number);
    let transition = if story.failures.saturating_add(1) >= MAX_STORY_FAILURES {
        StoryTransition::Exhaust { owner, episode }
    } else {
        StoryTransition::Release { owner, episode, entry: story_entry(&story.key) }
    };
    ours.then(|| Part::Story(story.key.clone(), transition))
}

/// Asks every frame that is under way to stop; one that nobody owns is cancelled on the spot. `false` when a frame had
/// moved on since it was read: then nothing more may be done on the strength of that reading.
async fn stop_frames<P: Store + Local>(ports: &P, frames: &[JobRow]) -> Result<bool, Fault> {
    for frame in frames {
        if !stop_frame(ports, frame).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn stop_frame<P: Store + Local>(ports: &P, frame: &JobRow) -> Result<bool, Fault> {
    let transition = match frame.status {
        Status::Ready => JobTransition::CancelReady { attempt: frame.attempt, now_ms: ports.now_ms() },
        Status::Claimed | Status::Rendering | Status::Held if !frame.cancel_requested => {
            JobTransition::RequestCancel { attempt: frame.attempt }
        }
        Status::Claimed
        | Status::Rendering
        | Status::Held
        | Status::Succeeded
        | Status::Failed
        | Status::Cancelled => return Ok(true),
    };
    match settle::job(ports, REPEATS, &frame.key, &transition).await? {
        Settled::Mine(_) | Settled::Refused(None) => Ok(true),
        Settled::Refused(Some(_)) => Ok(false),
    }
}

/// The frames of a view that did not succeed.
pub(super) fn not_succeeded(view: &EpisodeView) -> impl Iterator<Item = &JobRow> {
    view.frames.iter().filter(|frame| frame.status != Status::Succeeded)
}
