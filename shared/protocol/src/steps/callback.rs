//! A provider's callback, after its signature was found right. It is a hint: it makes somebody ask the provider.

use super::send::send_one;
use crate::ids::{LaneName, TaskId};
use crate::message::{Finish, Message, Subject};
use crate::note::Note;
use crate::ports::{Local, Queues, Store};
use crate::provider::Reference;
use crate::row::Status;
use crate::settings::Settings;
use crate::settle::{self, Fault, Settled};
use crate::transition::{JobTransition, Ours};

/// Acts on a verified callback: a lost submit's task is recorded, and the finisher is told to ask for it. Nothing that
/// the callback says of the render's end is believed, so a duplicate, or one out of order, changes nothing.
///
/// # Errors
/// [`Fault::RetryAfter`] when an answer stays unknown: the provider sends it again.
pub async fn called_back<P: Store + Queues + Local>(
    ports: &P,
    settings: &Settings,
    lane: &LaneName,
    reference: &Reference,
    task: &TaskId,
) -> Result<Note, Fault> {
    let Some(view) = ports.job(&reference.job).await? else { return Ok(Note::Missing) };
    let row = view.job;
    if row.attempt != reference.attempt || row.lane != *lane {
        return Ok(Note::Stale);
    }
    let Some(subject) = Subject::of(&row) else {
        return Ok(if row.status.ended() { Note::Ended } else { Note::Stale });
    };
    match row.status {
        Status::Rendering | Status::Held => {}
        Status::Ready | Status::Claimed | Status::Succeeded | Status::Failed | Status::Cancelled => {
            return Ok(Note::Stale);
        }
    }
    if row.task.is_none() {
        let record = JobTransition::RecordTask {
            ours: Ours { attempt: subject.attempt, token: subject.token.clone() },
            task: task.clone(),
            lease_ms: ports.now_ms().saturating_add(settings.render_lease_ms),
        };
        // Refused: another task was recorded meanwhile, or the attempt has ended; the finisher sees which.
        let _: Settled<_> = settle::job(ports, settings.write_repeats, &row.key, &record).await?;
    }
    let finish = Finish { subject, task: task.clone(), outputs: Vec::new(), resumes: 0 };
    send_one(ports, settings.write_repeats, Message::Finish(finish), 0).await?;
    Ok(Note::Completed)
}
