//! The rollback function: gives back claims that were never started, and has somebody look at everything else that is
//! stuck. It touches only what the message's token still owns.

pub mod bootstrap;
use glassline_protocol::ids::Ms;
use glassline_protocol::message::{Check, CheckCause, Message, RollbackCause, Subject};
use glassline_protocol::note::Note;
use glassline_protocol::ports::{JobView, Local, NotStarted, Queues, Store};
use glassline_protocol::provider::{ErrorClass, Provider, TaskState};
use glassline_protocol::rank::{QueueEntry, later_entry, ready_entry};
use glassline_protocol::row::outcome::{Cost, Failure};
use glassline_protocol::row::{JobRow, OutcomeRow, Status};
use glassline_protocol::settings::Settings;
use glassline_protocol::settle::{self, Fault, Recorded, Settled};
use glassline_protocol::steps::{end_of, follow_ended, hold, parent_step, send_one, wake};
use glassline_protocol::transition::{JobTransition, Ours};

/// What the rollback function needs of the world.
pub trait Ports: Store + Queues + Provider + Local {}
impl<T: Store + Queues + Provider + Local> Ports for T {}

/// What is asked about an attempt.
struct Request {
    subject: Subject,
    resumes: u32,
    dead: bool,
    cause: Option<RollbackCause>,
}

/// Handles one message: of the rollback queue, or any other from a dead-letter queue, where it went because it was
/// received too often without being handled.
///
/// # Errors
/// [`Fault`]: the message is given back to the queue, or it is poison.
pub async fn handle<P: Ports>(ports: &P, settings: &Settings, message: Message) -> Result<Note, Fault> {
    let dead = |subject, resumes: u32| Request {
        subject,
        resumes: resumes.saturating_add(1),
        dead: true,
        cause: None,
    };
    let request = match message {
        Message::Rollback(rollback) => {
            Request { subject: rollback.subject, resumes: 0, dead: false, cause: Some(rollback.cause) }
        }
        Message::Handoff(handoff) => dead(handoff.subject(), 0),
        Message::Check(check) => dead(check.subject, check.resumes),
        Message::Finish(finish) => dead(finish.subject, finish.resumes),
        Message::Wake(_) | Message::Qa(_) => {
            return Err(Fault::Poison("a message of another queue is on the rollback queue".into()));
        }
    };
    look(ports, settings, &request).await
}

async fn look<P: Ports>(ports: &P, settings: &Settings, request: &Request) -> Result<Note, Fault> {
    let subject = &request.subject;
    let Some(view) = ports.job(&subject.job()).await? else { return Ok(Note::Missing) };
    let row = &view.job;
    if row.status.ended() && row.attempt == subject.attempt {
        parent_step(ports, row).await?;
        return Ok(Note::Ended);
    }
    if !row.owned_by(&subject.token) {
        return Ok(Note::Stale);
    }
    match row.status {
        Status::Claimed => give_back(ports, settings, request, row).await,
        Status::Rendering | Status::Held if request.dead && request.resumes > settings.max_resumes => {
            match view.outcome(row.attempt) {
                Some(_) => resume(ports, settings, request).await,
                None => last_resort(ports, settings, row).await,
            }
        }
        Status::Rendering if unresolved(settings, &view, ports.now_ms()) => {
            let reason = "its submit was lost, and nobody could find out in time what became of it";
            hold(ports, settings, row, reason).await?;
            Ok(Note::Held)
        }
        Status::Rendering | Status::Held => resume(ports, settings, request).await,
        Status::Ready | Status::Succeeded | Status::Failed | Status::Cancelled => Ok(Note::Stale),
    }
}

/// Whether the attempt has waited for its lost submit to be resolved for as long as a held job waits between two looks:
/// then it is one. Whoever should have resolved it may die of it each time, without a dead letter, and keep its slot.
fn unresolved(settings: &Settings, view: &JobView, now_ms: Ms) -> bool {
    let row = &view.job;
    let since_ms = row.started_ms.unwrap_or(row.created_ms);
    let long = now_ms >= since_ms.saturating_add(settings.held_check_ms);
    row.task.is_none() && row.lease_over(now_ms) && long && view.outcome(row.attempt).is_none()
}

async fn resume<P: Ports>(ports: &P, settings: &Settings, request: &Request) -> Result<Note, Fault> {
    let check = Check {
        subject: request.subject.clone(),
        cause: CheckCause::Resume,
        resumes: request.resumes,
        tries: 0,
    };
    send_one(ports, settings.write_repeats, Message::Check(check), 0).await?;
    Ok(Note::Resuming)
}

/// Where a claim that is given back waits. One whose handoff wasn't queued waits a moment: whatever refused it may well
/// refuse it again at once, and nothing counts these tries.
fn back_entry(settings: &Settings, request: &Request, row: &JobRow, now_ms: Ms) -> QueueEntry {
    match request.cause {
        Some(RollbackCause::Unsent) => {
            let due_ms = now_ms.saturating_add(settings.retry_base_ms);
            later_entry(&row.lane, due_ms, &row.rank, row.attempt)
        }
        Some(RollbackCause::LeaseOver | RollbackCause::Held) | None => {
            ready_entry(&row.lane, &row.rank, row.attempt)
        }
    }
}

/// A claim that was never started: the narrow rollback. Nothing was submitted, for only a started attempt submits.
async fn give_back<P: Ports>(
    ports: &P,
    settings: &Settings,
    request: &Request,
    row: &JobRow,
) -> Result<Note, Fault> {
    if request.cause == Some(RollbackCause::LeaseOver) && !row.lease_over(ports.now_ms()) {
        return Ok(Note::Stale);
    }
    let Some(token) = row.token.clone() else { return Ok(Note::Stale) };
    let ours = Ours { attempt: row.attempt, token: token.clone() };
    let now_ms = ports.now_ms();
    let transition = if row.cancel_requested {
        JobTransition::CancelClaimed { ours, now_ms }
    } else {
        JobTransition::Release {
            ours,
            entry: back_entry(settings, request, row, now_ms),
            unless_accepted: false,
            failing_below: request.dead.then(|| settings.max_failures.saturating_sub(1)),
        }
    };
    match settle::job(ports, settings.write_repeats, &row.key, &transition).await? {
        Settled::Mine(after) => {
            wake(ports, row).await;
            parent_step(ports, &after).await?;
            Ok(if after.status.ended() { Note::Cancelled } else { Note::Released })
        }
        Settled::Refused(Some(found)) if found.owned_by(&token) && found.status == Status::Claimed => {
            if found.cancel_requested {
                return Err(Fault::retry(format!("{} was just asked to cancel", row.key)));
            }
            fail_unstarted(ports, settings, &found).await
        }
        Settled::Refused(_) => Ok(Note::Stale),
    }
}

/// A claim whose handoff died too often, with no failures left. It is taken from every worker first, by starting it
/// here without ever submitting it: from then on this run is the proof that nothing was.
async fn fail_unstarted<P: Ports>(ports: &P, settings: &Settings, row: &JobRow) -> Result<Note, Fault> {
    let Some(token) = row.token.clone() else { return Ok(Note::Stale) };
    let ours = Ours { attempt: row.attempt, token };
    let run = ports.fresh_run();
    let now_ms = ports.now_ms();
    let start = JobTransition::Start {
        ours: ours.clone(),
        run: run.clone(),
        now_ms,
        lease_ms: now_ms.saturating_add(settings.submit_lease_ms),
    };
    let started = match settle::job(ports, settings.write_repeats, &row.key, &start).await? {
        Settled::Mine(started) => started,
        Settled::Refused(_) => return Ok(Note::Stale),
    };
    let failure = Failure {
        class: ErrorClass::Transient,
        reason: "no worker could start it".into(),
        counted: true,
        retry_at_ms: None,
        cost: Cost::None,
    };
    let outcome = OutcomeRow::failed(end_of(&started, ports.now_ms()), failure);
    let only_if = NotStarted { ours, run };
    match settle::outcome(ports, settings.write_repeats, &outcome, Some(&only_if)).await? {
        Recorded::Follow(outcome) => {
            follow_ended(ports, settings, &started, &outcome).await?;
            Ok(Note::Followed)
        }
        Recorded::Moved => Ok(Note::Stale),
    }
}

/// Resumes are used up. Without proof that nothing usable was or will be rendered, the attempt is held, never failed.
async fn last_resort<P: Ports>(ports: &P, settings: &Settings, row: &JobRow) -> Result<Note, Fault> {
    let Some(task) = row.task.clone() else {
        let reason = "looking at it failed too often, and nobody can tell whether it was accepted";
        hold(ports, settings, row, reason).await?;
        return Ok(Note::Held);
    };
    match ports.status(&row.lane, &task).await {
        TaskState::Failed { class, reason } => {
            let failure = Failure { class, reason, counted: true, retry_at_ms: None, cost: Cost::AtRisk };
            record(ports, settings, row, OutcomeRow::failed(end_of(row, ports.now_ms()), failure)).await
        }
        TaskState::Cancelled if row.cancel_requested => {
            let reason = "it was cancelled at the provider as asked";
            let outcome = OutcomeRow::cancelled(end_of(row, ports.now_ms()), reason, Cost::AtRisk);
            record(ports, settings, row, outcome).await
        }
        TaskState::Cancelled => {
            let reason = "it was cancelled at the provider, and not by us".to_owned();
            let failure = Failure {
                class: ErrorClass::Transient,
                reason,
                counted: true,
                retry_at_ms: None,
                cost: Cost::AtRisk,
            };
            record(ports, settings, row, OutcomeRow::failed(end_of(row, ports.now_ms()), failure)).await
        }
        TaskState::Running | TaskState::Completed(_) | TaskState::Missing | TaskState::Unknown => {
            let reason = format!("finishing task {task} failed too often; it is looked at again slowly");
            hold(ports, settings, row, &reason).await?;
            Ok(Note::Held)
        }
    }
}

/// Records how the attempt ended, and follows it.
async fn record<P: Ports>(
    ports: &P,
    settings: &Settings,
    row: &JobRow,
    outcome: OutcomeRow,
) -> Result<Note, Fault> {
    match settle::outcome(ports, settings.write_repeats, &outcome, None).await? {
        Recorded::Follow(outcome) => {
            follow_ended(ports, settings, row, &outcome).await?;
            Ok(Note::Followed)
        }
        Recorded::Moved => Ok(Note::Stale),
    }
}
