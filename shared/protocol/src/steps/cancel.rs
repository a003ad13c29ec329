//! A person asks to cancel a job.

use super::asked::{Asked, meant};
use super::parent::parent_step;
use super::send::{send_one, wake};
use crate::ids::{Attempt, JobKey};
use crate::message::{Check, CheckCause, Message, Subject};
use crate::note::Did;
use crate::ports::{Local, Queues, Store};
use crate::row::{JobRow, Status};
use crate::settings::Settings;
use crate::settle::{self, Fault, Settled};
use crate::transition::{JobTransition, Ours};

/// Looks at a job that keeps changing.
const TRIES: usize = 4;

/// Cancels a job at an attempt. One that nobody has, or that isn't started, is cancelled at once; whoever renders it is
/// asked to stop, and only what the provider then says ends it: what has completed is paid for and is finished.
///
/// # Errors
/// [`Fault::RetryAfter`] when an answer stays unknown; asking again is harmless.
pub async fn cancel<P: Store + Queues + Local>(
    ports: &P,
    settings: &Settings,
    job: &JobKey,
    attempt: Attempt,
) -> Result<Asked, Fault> {
    for _ in 0..TRIES {
        let row = match meant(ports, job, attempt).await? {
            Ok(view) => view.job,
            Err(asked) => return Ok(asked),
        };
        let asked = match row.status {
            Status::Ready => cancel_ready(ports, settings, &row).await?,
            Status::Claimed => cancel_claimed(ports, settings, &row).await?,
            Status::Rendering | Status::Held => ask_to_stop(ports, settings, &row).await?,
            Status::Cancelled => Some(Asked::done(Did::Cancelled, row)),
            Status::Succeeded | Status::Failed => {
                Some(Asked::refused(format!("it has ended already: it is {}", row.status), row))
            }
        };
        if let Some(asked) = asked {
            return Ok(asked);
        }
    }
    Err(Fault::retry(format!("{job} keeps changing while it is cancelled")))
}

/// `None`: somebody was faster, look again.
async fn cancel_ready<P: Store + Queues + Local>(
    ports: &P,
    settings: &Settings,
    row: &JobRow,
) -> Result<Option<Asked>, Fault> {
    let cancel = JobTransition::CancelReady { attempt: row.attempt, now_ms: ports.now_ms() };
    match settle::job(ports, settings.write_repeats, &row.key, &cancel).await? {
        Settled::Mine(after) => {
            parent_step(ports, &after).await?;
            Ok(Some(Asked::done(Did::Cancelled, after)))
        }
        Settled::Refused(_) => Ok(None),
    }
}

/// With the request on the row nobody can start it any more, so it can be cancelled right away.
async fn cancel_claimed<P: Store + Queues + Local>(
    ports: &P,
    settings: &Settings,
    row: &JobRow,
) -> Result<Option<Asked>, Fault> {
    let request = JobTransition::RequestCancel { attempt: row.attempt };
    let asked = match settle::job(ports, settings.write_repeats, &row.key, &request).await? {
        Settled::Mine(asked) => asked,
        Settled::Refused(_) => return Ok(None),
    };
    let (Status::Claimed, Some(token)) = (asked.status, asked.token.clone()) else { return Ok(None) };
    let ours = Ours { attempt: asked.attempt, token };
    let cancel = JobTransition::CancelClaimed { ours, now_ms: ports.now_ms() };
    match settle::job(ports, settings.write_repeats, &row.key, &cancel).await? {
        Settled::Mine(after) => {
            wake(ports, &asked).await;
            parent_step(ports, &after).await?;
            Ok(Some(Asked::done(Did::Cancelled, after)))
        }
        Settled::Refused(_) => Ok(None),
    }
}

/// The request, and a look by the worker, which then asks the provider to stop. Without a task there is nothing to ask
/// yet; whoever resolves the lost submit finds the request.
async fn ask_to_stop<P: Store + Queues + Local>(
    ports: &P,
    settings: &Settings,
    row: &JobRow,
) -> Result<Option<Asked>, Fault> {
    let request = JobTransition::RequestCancel { attempt: row.attempt };
    let asked = match settle::job(ports, settings.write_repeats, &row.key, &request).await? {
        Settled::Mine(asked) => asked,
        Settled::Refused(_) => return Ok(None),
    };
    if asked.task.is_some() {
        look(ports, settings, &asked).await?;
    }
    Ok(Some(Asked::done(Did::CancelRequested, asked)))
}

/// Has the worker ask the provider for the task once, and do nothing more.
pub(super) async fn look<P: Queues>(ports: &P, settings: &Settings, row: &JobRow) -> Result<(), Fault> {
    let Some(subject) = Subject::of(row) else { return Ok(()) };
    let check = Check { subject, cause: CheckCause::Callback, resumes: 0, tries: 0 };
    send_one(ports, settings.write_repeats, Message::Check(check), 0).await
}
