//! A person asks for another attempt, or decides on a held job.

use super::asked::{Asked, meant};
use super::cancel::look;
use super::follow::{Followed, end_of, follow_ended};
use super::send::send_one;
use crate::ids::{Attempt, JobKey, ParentKey, TaskId};
use crate::message::{Finish, Message, Subject, Wake};
use crate::note::Did;
use crate::ports::{Envelope, Local, NotStarted, Queues, Sent, Store};
use crate::rank::{held_entry, ready_entry};
use crate::row::outcome::Cost;
use crate::row::{EpisodeKey, EpisodeStatus, JobRow, OutcomeRow, Status, Verdict};
use crate::settings::Settings;
use crate::settle::{self, Fault, Recorded, Settled};
use crate::transition::{JobTransition, Ours};

/// What a person says of a held job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The provider never accepted the attempt: render it again.
    Lost,
    /// The provider accepted it under this id: look what became of it.
    Task(TaskId),
    /// Nobody will find out, and it isn't to be rendered again.
    GiveUp,
}

/// Makes a job that has ended or is held ready for another attempt. A held one's attempt is recorded as cancelled first;
/// if its output was stored meanwhile, it is finished instead. The caller owes the lane a wake ([`wake_lane`]).
///
/// # Errors
/// [`Fault::RetryAfter`] when an answer stays unknown; asking again is harmless.
pub async fn requeue<P: Store + Queues + Local>(
    ports: &P,
    settings: &Settings,
    job: &JobKey,
    attempt: Attempt,
    note: Option<String>,
) -> Result<Asked, Fault> {
    let row = match meant(ports, job, attempt).await? {
        Ok(view) => view.job,
        Err(asked) => return Ok(asked),
    };
    match row.status {
        Status::Failed | Status::Cancelled | Status::Succeeded => {}
        Status::Held => {
            // Before anything is on record: what is refused after that would not be as it was.
            if let Some(why) = closed(ports, &row).await? {
                return Ok(Asked::refused(why, row));
            }
            let reason = "a person asked for another attempt";
            if let Some(asked) = decide(ports, settings, &row, reason, Cost::AtRisk).await? {
                return Ok(asked);
            }
        }
        Status::Ready | Status::Claimed | Status::Rendering => {
            return Ok(Asked::refused(
                format!("it is {}, so there is nothing to do again yet", row.status),
                row,
            ));
        }
    }
    again(ports, settings, row, note).await
}

/// Decides on a held job as a person says. The caller owes the lane a wake ([`wake_lane`]).
///
/// # Errors
/// [`Fault::RetryAfter`] when an answer stays unknown; asking again is harmless.
pub async fn resolve<P: Store + Queues + Local>(
    ports: &P,
    settings: &Settings,
    job: &JobKey,
    attempt: Attempt,
    resolution: &Resolution,
) -> Result<Asked, Fault> {
    let row = match meant(ports, job, attempt).await? {
        Ok(view) => view.job,
        Err(asked) => return Ok(asked),
    };
    match row.status {
        Status::Held => {}
        Status::Ready
        | Status::Claimed
        | Status::Rendering
        | Status::Succeeded
        | Status::Failed
        | Status::Cancelled => {
            return Ok(Asked::refused(format!("it is {}; only a held job is resolved", row.status), row));
        }
    }
    match (resolution, &row.task) {
        (Resolution::Lost, None) => lost(ports, settings, row).await,
        (Resolution::Lost, Some(task)) => {
            let why = format!("it was accepted as task {task}, so it isn't lost; requeue it or give it up");
            Ok(Asked::refused(why, row))
        }
        (Resolution::Task(task), _) => accepted_as(ports, settings, row, task).await,
        (Resolution::GiveUp, _) => give_up(ports, settings, row).await,
    }
}

/// A person says that nothing was accepted. That is believed only while the row says nothing else: the lease is won first,
/// which voids whoever looks after the attempt now, and the outcome is put together with a check that no task was recorded
/// since, as a callback may do at any moment.
async fn lost<P: Store + Queues + Local>(
    ports: &P,
    settings: &Settings,
    row: JobRow,
) -> Result<Asked, Fault> {
    if let Some(why) = closed(ports, &row).await? {
        return Ok(Asked::refused(why, row));
    }
    let (Some(token), Some(seen_lease_ms)) = (row.token.clone(), row.lease_ms) else {
        return Ok(Asked::moved_on(Some(row)));
    };
    let (ours, run) = (Ours { attempt: row.attempt, token }, ports.fresh_run());
    let next_ms = ports.now_ms().saturating_add(settings.held_check_ms).max(seen_lease_ms.saturating_add(1));
    let renew = JobTransition::Renew {
        ours: ours.clone(),
        status: row.status,
        seen_lease_ms,
        lease_ms: next_ms,
        run: run.clone(),
        held_sk: Some(held_entry(&row.lane, next_ms, row.attempt).sk),
    };
    let row = match settle::job(ports, settings.write_repeats, &row.key, &renew).await? {
        Settled::Mine(row) => row,
        Settled::Refused(found) => return Ok(Asked::moved_on(found)),
    };
    let reason = "a person says that the provider never accepted it";
    let outcome = OutcomeRow::cancelled(end_of(&row, ports.now_ms()), reason, Cost::None);
    let only_if = NotStarted { ours, run };
    match settle::outcome(ports, settings.write_repeats, &outcome, Some(&only_if)).await? {
        Recorded::Follow(found) if found.verdict == Verdict::Stored => {
            finish(ports, settings, &row, &found).await
        }
        Recorded::Follow(_) => again(ports, settings, row, None).await,
        Recorded::Moved => Ok(Asked::moved_on(ports.job(&row.key).await?.map(|view| view.job))),
    }
}

/// Tells dispatch that the lane has work. Sent once: a lost wake costs at most the time to the next full tick.
pub async fn wake_lane<Q: Queues>(queues: &Q, lane: &crate::ids::LaneName) {
    let wake = Wake { lane: lane.clone(), freed: None };
    let _: Vec<Sent> = queues.send(vec![Envelope { message: Message::Wake(wake), delay_ms: 0 }]).await;
}

/// The one write that makes it ready again.
pub(super) async fn again<P: Store + Queues + Local>(
    ports: &P,
    settings: &Settings,
    row: JobRow,
    note: Option<String>,
) -> Result<Asked, Fault> {
    if let Some(why) = closed(ports, &row).await? {
        return Ok(Asked::refused(why, row));
    }
    let requeue = JobTransition::Requeue {
        status: row.status,
        attempt: row.attempt,
        entry: ready_entry(&row.lane, &row.rank, row.attempt.saturating_add(1)),
        note,
    };
    match settle::job(ports, settings.write_repeats, &row.key, &requeue).await? {
        Settled::Mine(after) => Ok(Asked::done(Did::Requeued, after)),
        Settled::Refused(found) => Ok(Asked::moved_on(found)),
    }
}

/// Why a frame can't have another attempt by itself: a failed episode has given its story back, so all of it is reopened.
async fn closed<S: Store>(store: &S, row: &JobRow) -> Result<Option<String>, Fault> {
    let ParentKey::Episode { series, number } = &row.key.parent else { return Ok(None) };
    let key = EpisodeKey { series: series.clone(), number: *number };
    let Some(view) = store.episode(&key).await? else { return Ok(None) };
    Ok(match (view.head.status, row.status) {
        (EpisodeStatus::Failed, _) => {
            Some(format!("its episode {key} has failed; reopen the episode instead"))
        }
        (EpisodeStatus::Open, Status::Failed | Status::Cancelled) => {
            Some(format!("its episode {key} is about to fail with it; reopen the episode then"))
        }
        (EpisodeStatus::Open | EpisodeStatus::Complete, _) => None,
    })
}

/// Puts a person's decision on record as the attempt's outcome, before anything acts on it. What came to be stored
/// meanwhile is finished instead.
async fn decide<P: Store + Queues + Local>(
    ports: &P,
    settings: &Settings,
    row: &JobRow,
    reason: &str,
    cost: Cost,
) -> Result<Option<Asked>, Fault> {
    let outcome = OutcomeRow::cancelled(end_of(row, ports.now_ms()), reason, cost);
    match settle::outcome(ports, settings.write_repeats, &outcome, None).await? {
        Recorded::Follow(found) if found.verdict == Verdict::Stored => {
            finish(ports, settings, row, &found).await.map(Some)
        }
        Recorded::Follow(_) | Recorded::Moved => Ok(None),
    }
}

async fn finish<P: Queues>(
    ports: &P,
    settings: &Settings,
    row: &JobRow,
    outcome: &OutcomeRow,
) -> Result<Asked, Fault> {
    let (Some(subject), Some(task)) = (Subject::of(row), outcome.task.clone()) else {
        return Ok(Asked::refused(
            "its stored outcome names no task; a person must mend its rows",
            row.clone(),
        ));
    };
    let finish = Finish { subject, task, outputs: Vec::new(), resumes: 0 };
    send_one(ports, settings.write_repeats, Message::Finish(finish), 0).await?;
    Ok(Asked::done(Did::Finishing, row.clone()))
}

async fn accepted_as<P: Store + Queues + Local>(
    ports: &P,
    settings: &Settings,
    row: JobRow,
    task: &TaskId,
) -> Result<Asked, Fault> {
    let Some(token) = row.token.clone() else { return Ok(Asked::moved_on(Some(row))) };
    let record = JobTransition::RecordTask {
        ours: Ours { attempt: row.attempt, token },
        task: task.clone(),
        lease_ms: ports.now_ms().saturating_add(settings.held_check_ms),
    };
    match settle::job(ports, settings.write_repeats, &row.key, &record).await? {
        Settled::Mine(after) => {
            look(ports, settings, &after).await?;
            Ok(Asked::done(Did::Checking, after))
        }
        Settled::Refused(Some(found)) => match &found.task {
            Some(recorded) => {
                Ok(Asked::refused(format!("task {recorded} is recorded for it already"), found))
            }
            None => Ok(Asked::moved_on(Some(found))),
        },
        Settled::Refused(None) => Ok(Asked::Missing),
    }
}

/// The request to cancel comes first: with it, whatever outcome the attempt has or gets without an output means its end.
async fn give_up<P: Store + Queues + Local>(
    ports: &P,
    settings: &Settings,
    row: JobRow,
) -> Result<Asked, Fault> {
    let request = JobTransition::RequestCancel { attempt: row.attempt };
    let row = match settle::job(ports, settings.write_repeats, &row.key, &request).await? {
        Settled::Mine(asked) => asked,
        Settled::Refused(found) => return Ok(Asked::moved_on(found)),
    };
    let outcome = OutcomeRow::cancelled(end_of(&row, ports.now_ms()), "a person gave it up", Cost::AtRisk);
    let outcome = match settle::outcome(ports, settings.write_repeats, &outcome, None).await? {
        Recorded::Follow(outcome) => outcome,
        Recorded::Moved => return Ok(Asked::moved_on(Some(row))),
    };
    match follow_ended(ports, settings, &row, &outcome).await? {
        Followed::Stored => finish(ports, settings, &row, &outcome).await,
        Followed::Done(_) | Followed::Elsewhere => {
            let Some(view) = ports.job(&row.key).await? else { return Ok(Asked::Missing) };
            match view.job.status {
                Status::Cancelled => Ok(Asked::done(Did::Cancelled, view.job)),
                Status::Ready
                | Status::Claimed
                | Status::Rendering
                | Status::Held
                | Status::Succeeded
                | Status::Failed => Ok(Asked::moved_on(Some(view.job))),
            }
        }
    }
}
