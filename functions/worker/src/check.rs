//! A check: a look at an attempt under way. What it may do depends on why it was sent, so that chains of checks never
//! multiply and a slow invocation's right to act is void before anyone acts in its place.

use crate::Ports;
use crate::resolve::resolve;
use glassline_protocol::ids::{Ms, TaskId};
use glassline_protocol::message::{Check, CheckCause, Finish, Message};
use glassline_protocol::note::Note;
use glassline_protocol::ports::JobView;
use glassline_protocol::provider::{ErrorClass, TaskState};
use glassline_protocol::rank::held_entry;
use glassline_protocol::row::outcome::{Cost, Failure};
use glassline_protocol::row::{JobRow, OutcomeRow, Status};
use glassline_protocol::settings::Settings;
use glassline_protocol::settle::{self, Fault, Recorded, Settled};
use glassline_protocol::steps::{Followed, end_of, follow_ended, hold, parent_step, send_one};
use glassline_protocol::transition::{JobTransition, Ours};

pub(crate) async fn handle<P: Ports>(ports: &P, settings: &Settings, check: Check) -> Result<Note, Fault> {
    let Some(view) = ports.job(&check.subject.job()).await? else { return Ok(Note::Missing) };
    if let Some(note) = settled_already(ports, settings, &check, &view).await? {
        return Ok(note);
    }
    let row = view.job;
    match (&check.cause, row.task.clone()) {
        (CheckCause::Callback, None) => Ok(Note::NotLeader),
        (CheckCause::Callback, Some(task)) => poll(ports, settings, &check, &row, &task).await,
        (CheckCause::Resume, _) => resume(ports, settings, check, row).await,
        (CheckCause::Chain { lease_ms }, _) if row.lease_ms != Some(*lease_ms) => Ok(Note::NotLeader),
        (CheckCause::Chain { .. }, Some(task)) => poll(ports, settings, &check, &row, &task).await,
        // A lost submit is resolved only by whoever wins its lease, so this look becomes a resume.
        (CheckCause::Chain { .. }, None) => resume(ports, settings, check, row).await,
    }
}

/// Ends the look at a job that has ended, moved on, or whose outcome only wants to be followed.
async fn settled_already<P: Ports>(
    ports: &P,
    settings: &Settings,
    check: &Check,
    view: &JobView,
) -> Result<Option<Note>, Fault> {
    let row = &view.job;
    if row.status.ended() && row.attempt == check.subject.attempt {
        parent_step(ports, row).await?;
        return Ok(Some(Note::Ended));
    }
    if !row.owned_by(&check.subject.token) {
        return Ok(Some(Note::Stale));
    }
    match row.status {
        Status::Rendering | Status::Held => {}
        Status::Ready | Status::Claimed | Status::Succeeded | Status::Failed | Status::Cancelled => {
            return Ok(Some(Note::Stale));
        }
    }
    match view.outcome(row.attempt) {
        Some(outcome) => follow(ports, settings, check, row, outcome).await.map(Some),
        None => Ok(None),
    }
}

/// Follows an outcome; a stored one is the finisher's.
pub(crate) async fn follow<P: Ports>(
    ports: &P,
    settings: &Settings,
    check: &Check,
    row: &JobRow,
    outcome: &OutcomeRow,
) -> Result<Note, Fault> {
    match follow_ended(ports, settings, row, outcome).await? {
        Followed::Done(_) | Followed::Elsewhere => Ok(Note::Followed),
        Followed::Stored => {
            let task = outcome.task.clone().or_else(|| row.task.clone());
            let Some(task) = task else {
                return Err(Fault::Poison(format!("the stored outcome of {} names no task", row.key)));
            };
            finish(ports, settings, check, task, Vec::new()).await
        }
    }
}

async fn finish<P: Ports>(
    ports: &P,
    settings: &Settings,
    check: &Check,
    task: TaskId,
    outputs: Vec<glassline_protocol::provider::Output>,
) -> Result<Note, Fault> {
    let finish = Finish { subject: check.subject.clone(), task, outputs, resumes: check.resumes };
    send_one(ports, settings.write_repeats, Message::Finish(finish), 0).await?;
    Ok(Note::Completed)
}

/// A resume acts only after it won the lease that it read; winning voids the run of whoever had it.
async fn resume<P: Ports>(ports: &P, settings: &Settings, check: Check, row: JobRow) -> Result<Note, Fault> {
    let now_ms = ports.now_ms();
    let seen_lease_ms = row.lease_ms.unwrap_or(0);
    if row.status == Status::Rendering && row.task.is_none() && !row.lease_over(now_ms) {
        // Whoever has the lease may be about to submit, so nobody acts before its end. Then the full tick asks again: a
        // message that waited for it here, too, would find the next lease taken and wait again, and such messages add up.
        return Ok(Note::NotLeader);
    }
    let Some(row) = renew(ports, settings, &check, &row, seen_lease_ms).await? else {
        return Ok(Note::NotLeader);
    };
    resume_now(ports, settings, check, row).await
}

/// What whoever won the lease does: follow an outcome that was recorded meanwhile, resolve a lost submit, or poll.
async fn resume_now<P: Ports>(
    ports: &P,
    settings: &Settings,
    check: Check,
    row: JobRow,
) -> Result<Note, Fault> {
    // Whoever had the lease may have recorded an outcome between our read and our Renew.
    let Some(view) = ports.job(&row.key).await? else { return Ok(Note::Missing) };
    if let Some(note) = settled_already(ports, settings, &check, &view).await? {
        return Ok(note);
    }
    let won = row;
    let row = view.job;
    if row.run != won.run {
        // Somebody won the next lease, or recorded the task and started a chain of polls under a lease of its own: to go
        // on would be a second chain under a lease that isn't ours.
        return Ok(Note::NotLeader);
    }
    match row.task.clone() {
        Some(task) => poll(ports, settings, &check, &row, &task).await,
        None => resolve(ports, settings, check, row).await,
    }
}

async fn renew<P: Ports>(
    ports: &P,
    settings: &Settings,
    check: &Check,
    row: &JobRow,
    seen_lease_ms: Ms,
) -> Result<Option<JobRow>, Fault> {
    let now_ms = ports.now_ms();
    let (length_ms, held) = match row.status {
        Status::Held => (settings.held_check_ms, true),
        Status::Rendering if row.task.is_none() => (settings.submit_lease_ms, false),
        Status::Rendering => (settings.render_lease_ms, false),
        Status::Ready | Status::Claimed | Status::Succeeded | Status::Failed | Status::Cancelled => {
            return Ok(None);
        }
    };
    // Never the lease that was seen, or two who renew in the same millisecond both think that the chain is theirs.
    let lease_ms = now_ms.saturating_add(length_ms).max(seen_lease_ms.saturating_add(1));
    let renew = JobTransition::Renew {
        ours: Ours { attempt: check.subject.attempt, token: check.subject.token.clone() },
        status: row.status,
        seen_lease_ms,
        lease_ms,
        run: ports.fresh_run(),
        held_sk: held.then(|| held_entry(&row.lane, lease_ms, row.attempt).sk),
    };
    match settle::job(ports, settings.write_repeats, &row.key, &renew).await? {
        Settled::Mine(row) => Ok(Some(row)),
        Settled::Refused(_) => Ok(None),
    }
}

/// Asks the provider how the task stands, and acts on it.
async fn poll<P: Ports>(
    ports: &P,
    settings: &Settings,
    check: &Check,
    row: &JobRow,
    task: &TaskId,
) -> Result<Note, Fault> {
    let capabilities = ports.capabilities(&row.lane);
    let deadline_ms = row.started_ms.unwrap_or(row.created_ms).saturating_add(capabilities.deadline_ms);
    let past_deadline = ports.now_ms() >= deadline_ms;
    if row.cancel_requested || past_deadline {
        return stop(ports, settings, check, row, task, past_deadline).await;
    }
    match ports.status(&row.lane, task).await {
        TaskState::Running | TaskState::Unknown | TaskState::Missing => {
            look_again(ports, settings, check, row, capabilities.poll_ms).await
        }
        TaskState::Completed(outputs) => finish(ports, settings, check, task.clone(), outputs).await,
        TaskState::Failed { class, reason } => {
            ended(ports, settings, check, row, Some((class, reason))).await
        }
        TaskState::Cancelled => ended(ports, settings, check, row, None).await,
    }
}

/// Asked to cancel, or past the provider's own deadline: ask it to stop, and believe only what its state then is.
async fn stop<P: Ports>(
    ports: &P,
    settings: &Settings,
    check: &Check,
    row: &JobRow,
    task: &TaskId,
    past_deadline: bool,
) -> Result<Note, Fault> {
    let _ = ports.cancel(&row.lane, task).await;
    match ports.status(&row.lane, task).await {
        // It is paid for: finish it.
        TaskState::Completed(outputs) => finish(ports, settings, check, task.clone(), outputs).await,
        TaskState::Failed { class, reason } => {
            ended(ports, settings, check, row, Some((class, reason))).await
        }
        TaskState::Cancelled if past_deadline && !row.cancel_requested => {
            let reason = "it was cancelled at the provider after its deadline".to_owned();
            ended(ports, settings, check, row, Some((ErrorClass::Transient, reason))).await
        }
        TaskState::Cancelled => ended(ports, settings, check, row, None).await,
        TaskState::Running | TaskState::Missing | TaskState::Unknown => {
            let why = if row.cancel_requested { "a cancel was asked for" } else { "its deadline has passed" };
            let reason = format!("{why}, and the provider has not ended task {task}");
            hold(ports, settings, row, &reason).await?;
            Ok(Note::Held)
        }
    }
}

/// The next link of a poll chain. A callback's check and a held job's have no next link.
async fn look_again<P: Ports>(
    ports: &P,
    settings: &Settings,
    check: &Check,
    row: &JobRow,
    poll_ms: u64,
) -> Result<Note, Fault> {
    if row.status == Status::Held || check.cause == CheckCause::Callback {
        return Ok(Note::Running);
    }
    let mut lease_ms = row.lease_ms.unwrap_or(0);
    if lease_ms.saturating_sub(ports.now_ms()) < settings.renew_below_ms {
        match renew(ports, settings, check, row, lease_ms).await? {
            Some(renewed) => lease_ms = renewed.lease_ms.unwrap_or(0),
            None => return Ok(Note::NotLeader),
        }
    }
    let next =
        Check { subject: check.subject.clone(), cause: CheckCause::Chain { lease_ms }, ..check.clone() };
    send_one(ports, settings.write_repeats, Message::Check(next), poll_ms).await?;
    Ok(Note::Running)
}

/// The task ended without success (`None`: it was cancelled): record it, follow it.
async fn ended<P: Ports>(
    ports: &P,
    settings: &Settings,
    check: &Check,
    row: &JobRow,
    failure: Option<(ErrorClass, String)>,
) -> Result<Note, Fault> {
    let end = end_of(row, ports.now_ms());
    let outcome = match failure {
        Some((class, reason)) => OutcomeRow::failed(
            end,
            Failure { class, reason, counted: true, retry_at_ms: None, cost: Cost::AtRisk },
        ),
        None if row.cancel_requested => {
            OutcomeRow::cancelled(end, "it was cancelled at the provider as asked", Cost::AtRisk)
        }
        None => OutcomeRow::failed(
            end,
            Failure {
                class: ErrorClass::Transient,
                reason: "it was cancelled at the provider, and not by us".into(),
                counted: true,
                retry_at_ms: None,
                cost: Cost::AtRisk,
            },
        ),
    };
    match settle::outcome(ports, settings.write_repeats, &outcome, None).await? {
        Recorded::Follow(outcome) => follow(ports, settings, check, row, &outcome).await,
        Recorded::Moved => Ok(Note::Stale),
    }
}
