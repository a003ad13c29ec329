//! The finisher: download, validate, store; outcome row; QA; and only then success. Each step is recorded or repeatable,
//! so that a crash at any point resumes at the first step that isn't recorded.

pub mod bootstrap;
use glassline_protocol::ids::TaskId;
use glassline_protocol::message::{Finish, Message, Qa};
use glassline_protocol::note::Note;
use glassline_protocol::ports::{Local, Queues, Store};
use glassline_protocol::provider::{ErrorClass, Output, Provider, TaskState};
use glassline_protocol::row::outcome::{Cost, Failure};
use glassline_protocol::row::{JobRow, OutcomeRow, Status};
use glassline_protocol::settings::Settings;
use glassline_protocol::settle::{self, Fault, Recorded, Settled};
use glassline_protocol::steps::{
    Followed, end_of, follow_ended, give_up_task, hold, parent_step, send_one, wake,
};
use glassline_protocol::transition::{JobTransition, Ours};
use glassline_protocol::vault::{Asset, Saved, Vault};

/// What the finisher needs of the world.
pub trait Ports: Store + Queues + Provider + Vault + Local {}
impl<T: Store + Queues + Provider + Vault + Local> Ports for T {}

/// Handles one message of the finish queue.
///
/// # Errors
/// [`Fault`]: the message is given back to the queue, or it is poison.
pub async fn handle<P: Ports>(ports: &P, settings: &Settings, message: Message) -> Result<Note, Fault> {
    match message {
        Message::Finish(finish) => handle_finish(ports, settings, finish).await,
        Message::Handoff(_)
        | Message::Check(_)
        | Message::Rollback(_)
        | Message::Wake(_)
        | Message::Qa(_) => Err(Fault::Poison("a message of another queue is on the finish queue".into())),
    }
}

async fn handle_finish<P: Ports>(ports: &P, settings: &Settings, finish: Finish) -> Result<Note, Fault> {
    let subject = &finish.subject;
    let Some(view) = ports.job(&subject.job()).await? else { return Ok(Note::Missing) };
    let row = view.job.clone();
    let another =
        row.attempt == subject.attempt && row.task.as_ref().is_some_and(|task| *task != finish.task);
    if another {
        let reason = "another task is recorded for its attempt";
        give_up_task(ports, settings.write_repeats, subject, &finish.task, reason).await?;
    }
    if row.status.ended() && row.attempt == subject.attempt {
        parent_step(ports, &row).await?;
        return Ok(if another { Note::Orphaned } else { Note::Ended });
    }
    if !row.owned_by(&subject.token) {
        return Ok(Note::Stale);
    }
    if another {
        return Ok(Note::Orphaned);
    }
    match row.status {
        Status::Rendering | Status::Held => {}
        Status::Ready | Status::Claimed | Status::Succeeded | Status::Failed | Status::Cancelled => {
            return Ok(Note::Stale);
        }
    }
    if let Some(outcome) = view.outcome(row.attempt) {
        return follow(ports, settings, &row, outcome).await;
    }
    if row.task.is_none() {
        // Only a recorded task is finished; the lease brings a resume that finds and records it.
        return Ok(Note::Unresolved);
    }
    match ending(ports, &row, &finish).await? {
        Ending::Running => Ok(Note::Running),
        Ending::Stored(asset) => {
            let outcome = OutcomeRow::stored(end_of(&row, ports.now_ms()), &asset);
            record(ports, settings, &row, outcome).await
        }
        Ending::Barred(reason) => {
            hold(ports, settings, &row, &reason).await?;
            Ok(Note::Held)
        }
        Ending::Failed(failure) => {
            let outcome = OutcomeRow::failed(end_of(&row, ports.now_ms()), failure);
            record(ports, settings, &row, outcome).await
        }
        Ending::Cancelled => {
            let outcome = if row.cancel_requested {
                let reason = "it was cancelled at the provider as asked";
                OutcomeRow::cancelled(end_of(&row, ports.now_ms()), reason, Cost::AtRisk)
            } else {
                let reason = "it was cancelled at the provider, and not by us";
                OutcomeRow::failed(
                    end_of(&row, ports.now_ms()),
                    bad(ErrorClass::Transient, reason, Cost::AtRisk),
                )
            };
            record(ports, settings, &row, outcome).await
        }
    }
}

/// How the attempt ends, as far as can be seen now.
enum Ending {
    Running,
    Stored(Asset),
    Failed(Failure),
    Barred(String),
    Cancelled,
}

fn bad(class: ErrorClass, reason: &str, cost: Cost) -> Failure {
    Failure { class, reason: reason.to_owned(), counted: true, retry_at_ms: None, cost }
}

/// Fetches the output; asks the provider where it is when the message doesn't say, or when its address has expired.
async fn ending<P: Ports>(ports: &P, row: &JobRow, finish: &Finish) -> Result<Ending, Fault> {
    if let Some(output) = finish.outputs.first() {
        match save(ports, row, output).await? {
            Some(ending) => return Ok(ending),
            None => return ask(ports, row, &finish.task).await,
        }
    }
    ask(ports, row, &finish.task).await
}

/// Asks the provider how the task ended and fetches its output from a fresh address.
async fn ask<P: Ports>(ports: &P, row: &JobRow, task: &TaskId) -> Result<Ending, Fault> {
    let outputs = match ports.status(&row.lane, task).await {
        TaskState::Running => return Ok(Ending::Running),
        TaskState::Completed(outputs) => outputs,
        TaskState::Failed { class, reason } => return Ok(Ending::Failed(bad(class, &reason, Cost::AtRisk))),
        TaskState::Cancelled => return Ok(Ending::Cancelled),
        TaskState::Missing | TaskState::Unknown => {
            return Err(Fault::retry(format!("the provider doesn't say how task {task} ended")));
        }
    };
    let Some(output) = outputs.first() else {
        let reason = "the provider says that it completed, and names no output";
        return Ok(Ending::Failed(bad(ErrorClass::BadOutput, reason, Cost::Paid)));
    };
    Ok(save(ports, row, output).await?.unwrap_or_else(|| {
        let reason = "its output has expired, and the provider has no fresh address for it";
        Ending::Failed(bad(ErrorClass::BadOutput, reason, Cost::Paid))
    }))
}

/// Stores an output; `None` when its address no longer works.
async fn save<P: Ports>(ports: &P, row: &JobRow, output: &Output) -> Result<Option<Ending>, Fault> {
    match ports.save(&row.lane, &row.key, row.attempt, output, row.media).await {
        Saved::Stored(asset) => match row.wrong_size(asset.width_px, asset.height_px) {
            Some(reason) => {
                ports.discard(&asset).await;
                Ok(Some(Ending::Failed(bad(ErrorClass::BadOutput, &reason, Cost::Paid))))
            }
            None => Ok(Some(Ending::Stored(asset))),
        },
        Saved::Refused { class, reason } => Ok(Some(Ending::Failed(bad(class, &reason, Cost::Paid)))),
        Saved::Barred { reason } => Ok(Some(Ending::Barred(reason))),
        Saved::Expired => Ok(None),
        Saved::Unavailable => Err(Fault::retry(format!("the output of {} can't be stored now", row.key))),
    }
}

async fn record<P: Ports>(
    ports: &P,
    settings: &Settings,
    row: &JobRow,
    outcome: OutcomeRow,
) -> Result<Note, Fault> {
    match settle::outcome(ports, settings.write_repeats, &outcome, None).await? {
        Recorded::Follow(kept) => {
            if let Some(ours) = outcome.asset().filter(|ours| kept.location.as_ref() != Some(&ours.location))
            {
                // Another was faster: what it recorded counts, whatever we stored.
                ports.discard(&ours).await;
            }
            follow(ports, settings, row, &kept).await
        }
        Recorded::Moved => Ok(Note::Stale),
    }
}

/// Follows the attempt's outcome: a stored one through QA to success, any other to its retry or end.
async fn follow<P: Ports>(
    ports: &P,
    settings: &Settings,
    row: &JobRow,
    outcome: &OutcomeRow,
) -> Result<Note, Fault> {
    match follow_ended(ports, settings, row, outcome).await? {
        Followed::Stored => succeed(ports, settings, row, outcome).await,
        Followed::Done(_) | Followed::Elsewhere => Ok(Note::Followed),
    }
}

async fn succeed<P: Ports>(
    ports: &P,
    settings: &Settings,
    row: &JobRow,
    outcome: &OutcomeRow,
) -> Result<Note, Fault> {
    let (Some(token), Some(asset)) = (row.token.clone(), outcome.asset()) else {
        return Err(Fault::Poison(format!("the stored outcome of {} is not whole", row.key)));
    };
    let qa = Qa {
        outcome: outcome.reference().to_string(),
        job: row.key.clone(),
        attempt: row.attempt,
        location: asset.location,
        sha256: asset.sha256,
        content_type: asset.content_type,
    };
    send_one(ports, settings.write_repeats, Message::Qa(qa), 0).await?;
    let succeed =
        JobTransition::Succeed { ours: Ours { attempt: row.attempt, token }, now_ms: ports.now_ms() };
    match settle::job(ports, settings.write_repeats, &row.key, &succeed).await? {
        Settled::Mine(after) => {
            wake(ports, row).await;
            parent_step(ports, &after).await?;
            Ok(Note::Succeeded)
        }
        Settled::Refused(_) => Ok(Note::Stale),
    }
}
