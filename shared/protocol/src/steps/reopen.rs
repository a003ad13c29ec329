//! Reopening a failed episode: its frames that did not succeed are asked for again, under its own number.

use super::parent::not_succeeded;
use crate::ids::Ms;
use crate::ports::{EpisodeView, Local, Part, Store, Transacted};
use crate::rank::ready_entry;
use crate::row::{EpisodeKey, EpisodeStatus, SeriesKey, Status, StoryRow, StoryStatus};
use crate::settle::Fault;
use crate::transition::{EpisodeTransition, JobTransition, SeriesTransition, StoryTransition};

/// Tries of the transaction.
const TRIES: usize = 10;

/// Why an episode can't be reopened, one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CantReopen {
    /// There is none.
    #[error("there is no episode {0}")]
    Missing(EpisodeKey),
    /// It isn't failed.
    #[error("episode {key} is {status}; only a failed one can be reopened")]
    NotFailed {
        /// Which.
        key: EpisodeKey,
        /// How it stands.
        status: EpisodeStatus,
    },
    /// Its story is in use elsewhere.
    #[error("episode {key} can't be reopened: its story {story} {now}")]
    StoryElsewhere {
        /// Which.
        key: EpisodeKey,
        /// Its story.
        story: crate::row::StoryKey,
        /// Where the story is now.
        now: String,
    },
    /// A frame is still under way from before the failure.
    #[error("episode {key} can't be reopened yet: {frame} is still {status}; wait until it has ended")]
    FrameUnderWay {
        /// Which.
        key: EpisodeKey,
        /// The frame.
        frame: String,
        /// How it stands.
        status: Status,
    },
    /// Not now.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl From<crate::ports::Unread> for CantReopen {
    fn from(unread: crate::ports::Unread) -> Self {
        Self::Fault(unread.into())
    }
}

/// The story's part: it becomes this episode's again, if no other episode has it and nobody is making one of it.
fn take_back(view: &EpisodeView, story: Option<StoryRow>, now_ms: Ms) -> Result<Part, CantReopen> {
    let key = view.head.key.clone();
    let elsewhere = |now: String| {
        Err(CantReopen::StoryElsewhere { key: key.clone(), story: view.head.story.clone(), now })
    };
    let Some(story) = story else { return elsewhere("is missing".into()) };
    match story.status {
        StoryStatus::Eligible | StoryStatus::Exhausted => Ok(Part::Story(
            story.key.clone(),
            StoryTransition::Reuse {
                owner: view.head.owner.clone(),
                episode: key.number,
                status: story.status,
            },
        )),
        StoryStatus::Locked => match story.owner {
            // Whoever locked it is gone; whoever takes such a lock over would match the same owner.
            Some(seen) if story.expires_ms.is_some_and(|expires_ms| expires_ms < now_ms) => Ok(Part::Story(
                story.key,
                StoryTransition::ReuseExpired {
                    owner: view.head.owner.clone(),
                    episode: key.number,
                    seen,
                    now_ms,
                },
            )),
            Some(_) | None => elsewhere("is being made into another episode".into()),
        },
        StoryStatus::Used => {
            let number = story.episode.unwrap_or(0);
            let other = EpisodeKey { series: key.series.clone(), number };
            elsewhere(format!("is in episode {other} now"))
        }
    }
}

fn requeue(view: &EpisodeView) -> Result<Vec<Part>, CantReopen> {
    let mut parts = Vec::new();
    for frame in not_succeeded(view) {
        match frame.status {
            Status::Failed | Status::Cancelled => parts.push(Part::Job(
                frame.key.clone(),
                JobTransition::Requeue {
                    status: frame.status,
                    attempt: frame.attempt,
                    entry: ready_entry(&frame.lane, &frame.rank, frame.attempt.saturating_add(1)),
                    note: None,
                },
            )),
            Status::Ready | Status::Claimed | Status::Rendering | Status::Held | Status::Succeeded => {
                return Err(CantReopen::FrameUnderWay {
                    key: view.head.key.clone(),
                    frame: frame.key.member.to_string(),
                    status: frame.status,
                });
            }
        }
    }
    Ok(parts)
}

/// Reopens a failed episode: head, story, open count and its frames that did not succeed, all in one transaction.
/// Repeating it after an unknown answer is safe.
///
/// # Errors
/// [`CantReopen`]
pub async fn reopen<S: Store + Local>(store: &S, key: &EpisodeKey) -> Result<(), CantReopen> {
    let mut tried = None;
    for _ in 0..TRIES {
        let view = store.episode(key).await?.ok_or_else(|| CantReopen::Missing(key.clone()))?;
        // Our own transaction, whose answer was lost: it was reopened since we tried, whatever became of it then.
        if tried.is_some_and(|opened| view.head.opened > opened) {
            return Ok(());
        }
        match view.head.status {
            EpisodeStatus::Failed => {}
            status @ (EpisodeStatus::Open | EpisodeStatus::Complete) => {
                return Err(CantReopen::NotFailed { key: key.clone(), status });
            }
        }
        let series_key = SeriesKey(key.series.clone());
        let series = store
            .series(&series_key)
            .await?
            .ok_or_else(|| Fault::Poison(format!("the series of {key} is missing")))?;
        let mut parts = vec![
            Part::Episode(
                key.clone(),
                EpisodeTransition::Reopen { key: key.clone(), opened: view.head.opened },
            ),
            Part::Series(series_key, SeriesTransition::Reopened { open: series.open }),
            take_back(&view, store.story(&view.head.story).await?, store.now_ms())?,
        ];
        parts.extend(requeue(&view)?);
        tried = Some(view.head.opened);
        match store.transact(&parts).await {
            Transacted::Done => return Ok(()),
            Transacted::Refused(_) | Transacted::Unknown => {}
        }
    }
    Err(Fault::retry(format!("{key} can't be reopened now")).into())
}
