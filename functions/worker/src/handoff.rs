//! A handoff: start the claim, submit exactly once, record the task.

use crate::Ports;
use glassline_protocol::admission::pause_reason;
use glassline_protocol::ids::{Run, TaskId};
use glassline_protocol::message::{Check, CheckCause, Handoff, Message, Subject};
use glassline_protocol::note::Note;
use glassline_protocol::ports::NotStarted;
use glassline_protocol::provider::{ErrorClass, Reference, RenderRequest, Submit};
use glassline_protocol::row::outcome::{Cost, Failure};
use glassline_protocol::row::{JobRow, OutcomeRow, Status};
use glassline_protocol::settings::Settings;
use glassline_protocol::settle::{self, Fault, Recorded, Settled};
use glassline_protocol::sign::Secrets;
use glassline_protocol::steps::{end_of, follow_ended, give_up_task, parent_step, send_one, wake};
use glassline_protocol::transition::{JobTransition, LaneTransition, Ours};

pub(crate) async fn handle<P: Ports>(
    ports: &P,
    settings: &Settings,
    secrets: &Secrets,
    handoff: Handoff,
) -> Result<Note, Fault> {
    if !secrets.verify(&handoff) {
        tracing::warn!(event = "signature_refused", what = "handoff");
        return Err(Fault::Poison(format!(
            "the handoff of {} isn't signed with a secret in force",
            handoff.job()
        )));
    }
    let subject = handoff.subject();
    let ours = Ours { attempt: subject.attempt, token: subject.token.clone() };
    let run = ports.fresh_run();
    let now_ms = ports.now_ms();
    let start = JobTransition::Start {
        ours,
        run: run.clone(),
        now_ms,
        lease_ms: now_ms.saturating_add(settings.submit_lease_ms),
    };
    match settle::job(ports, settings.write_repeats, &subject.job(), &start).await? {
        Settled::Mine(row) => submit(ports, settings, &subject, row, run, handoff).await,
        Settled::Refused(row) => not_ours(ports, settings, &subject, row).await,
    }
}

/// The claim can't be started: a duplicate, a stale owner, or a claim that was asked to stop.
async fn not_ours<P: Ports>(
    ports: &P,
    settings: &Settings,
    subject: &Subject,
    row: Option<JobRow>,
) -> Result<Note, Fault> {
    let Some(row) = row else { return Ok(Note::Missing) };
    if !row.owned_by(&subject.token) {
        return Ok(if row.attempt == subject.attempt && row.status.ended() {
            Note::Replay
        } else {
            Note::Stale
        });
    }
    match row.status {
        Status::Claimed if row.cancel_requested => cancel_claimed(ports, settings, &row).await,
        Status::Rendering if row.task.is_none() => {
            // Perhaps the invocation that started it is gone: look when its lease ends.
            let lease_ms = row.lease_ms.unwrap_or(0);
            let check = Check {
                subject: subject.clone(),
                cause: CheckCause::Chain { lease_ms },
                resumes: 0,
                tries: 0,
            };
            let delay_ms = lease_ms.saturating_sub(ports.now_ms());
            send_one(ports, settings.write_repeats, Message::Check(check), delay_ms).await?;
            Ok(Note::Replay)
        }
        Status::Claimed | Status::Rendering | Status::Held => Ok(Note::Replay),
        Status::Ready | Status::Succeeded | Status::Failed | Status::Cancelled => Ok(Note::Stale),
    }
}

async fn cancel_claimed<P: Ports>(ports: &P, settings: &Settings, row: &JobRow) -> Result<Note, Fault> {
    let Some(token) = row.token.clone() else { return Ok(Note::Stale) };
    let cancel =
        JobTransition::CancelClaimed { ours: Ours { attempt: row.attempt, token }, now_ms: ports.now_ms() };
    match settle::job(ports, settings.write_repeats, &row.key, &cancel).await? {
        Settled::Mine(after) => {
            wake(ports, row).await;
            parent_step(ports, &after).await?;
            Ok(Note::Cancelled)
        }
        Settled::Refused(_) => Ok(Note::Stale),
    }
}

/// The intent is written: submit, exactly once, if enough of the lease is left.
async fn submit<P: Ports>(
    ports: &P,
    settings: &Settings,
    subject: &Subject,
    row: JobRow,
    run: Run,
    handoff: Handoff,
) -> Result<Note, Fault> {
    let needed_ms =
        ports.capabilities(&subject.lane).submit_timeout_ms.saturating_add(settings.submit_margin_ms);
    // The lease of this very invocation's Start: with less left, somebody else may act for the attempt while the POST
    // is under way.
    if row.lease_ms.unwrap_or(0).saturating_sub(ports.now_ms()) < needed_ms {
        let failure = Failure {
            class: ErrorClass::Transient,
            reason: "too little of the lease was left to submit it safely".into(),
            counted: false,
            retry_at_ms: None,
            cost: Cost::None,
        };
        reject(ports, settings, &row, run, failure).await?;
        return Ok(Note::TooLate);
    }
    let request = RenderRequest { prompt: handoff.prompt, params: handoff.params, media: handoff.media };
    let reference = Reference { job: row.key.clone(), attempt: row.attempt };
    match ports.submit(&subject.lane, &request, &reference).await {
        Submit::Accepted(task) => {
            let note = record(ports, settings, subject, &task).await?;
            Ok(if note == Note::Resolved { Note::Submitted } else { note })
        }
        Submit::Rejected { class, retry_after_ms, reason } => {
            let failure = rejection(ports, settings, &row, class, retry_after_ms, reason).await;
            reject(ports, settings, &row, run, failure).await?;
            Ok(Note::Rejected)
        }
        Submit::Unknown => Ok(Note::SubmitUnknown),
    }
}

/// Classes that say something about the account, not about the job: the lane pauses, no failure is counted.
fn pauses_lane(class: ErrorClass) -> bool {
    match class {
        ErrorClass::Throttled | ErrorClass::PaymentRequired | ErrorClass::Unauthorized => true,
        ErrorClass::Transient | ErrorClass::InvalidInput | ErrorClass::Moderated | ErrorClass::BadOutput => {
            false
        }
    }
}

/// What a rejected submit means, with its lane paused where the account is what was refused.
async fn rejection<P: Ports>(
    ports: &P,
    settings: &Settings,
    row: &JobRow,
    class: ErrorClass,
    retry_after_ms: Option<u64>,
    reason: String,
) -> Failure {
    let counted = !pauses_lane(class);
    let fallback_ms =
        if class == ErrorClass::Throttled { settings.throttle_pause_ms } else { settings.refused_pause_ms };
    let wait_ms = if counted { retry_after_ms.unwrap_or(0) } else { retry_after_ms.unwrap_or(fallback_ms) };
    let retry_at_ms = ports.now_ms().saturating_add(wait_ms);
    if !counted {
        let pause = LaneTransition::Pause { until_ms: retry_at_ms, reason: pause_reason(class, &reason) };
        // A longer pause refuses a shorter one, which is right; an unknown answer costs one more refused submit.
        let _ = settle::lane(ports, settings.write_repeats, &row.lane, &pause).await;
    }
    Failure { class, reason, counted, retry_at_ms: Some(retry_at_ms), cost: Cost::None }
}

/// Proven not started: the outcome is put together with the proof that the attempt is still this invocation's.
async fn reject<P: Ports>(
    ports: &P,
    settings: &Settings,
    row: &JobRow,
    run: Run,
    failure: Failure,
) -> Result<(), Fault> {
    let Some(token) = row.token.clone() else { return Ok(()) };
    let outcome = OutcomeRow::failed(end_of(row, ports.now_ms()), failure);
    let only_if = NotStarted { ours: Ours { attempt: row.attempt, token }, run };
    match settle::outcome(ports, settings.write_repeats, &outcome, Some(&only_if)).await? {
        Recorded::Follow(outcome) => follow_ended(ports, settings, row, &outcome).await.map(|_| ()),
        Recorded::Moved => Ok(()),
    }
}

/// Records an accepted task and starts its poll chain; a task that comes too late is given up.
pub(crate) async fn record<P: Ports>(
    ports: &P,
    settings: &Settings,
    subject: &Subject,
    task: &TaskId,
) -> Result<Note, Fault> {
    let lease_ms = ports.now_ms().saturating_add(settings.render_lease_ms);
    let record = JobTransition::RecordTask {
        ours: Ours { attempt: subject.attempt, token: subject.token.clone() },
        task: task.clone(),
        lease_ms,
    };
    match settle::job(ports, settings.write_repeats, &subject.job(), &record).await? {
        Settled::Mine(row) => {
            let capabilities = ports.capabilities(&subject.lane);
            // Whoever recorded it starts its chain of polls; another who learned of the same task finds another lease.
            let recorded = row.lease_ms == Some(lease_ms);
            // A held job is looked at by dispatch's slow sweep instead of a chain.
            if capabilities.polled && row.status == Status::Rendering && recorded {
                let check = Check {
                    subject: subject.clone(),
                    cause: CheckCause::Chain { lease_ms },
                    resumes: 0,
                    tries: 0,
                };
                send_one(ports, settings.write_repeats, Message::Check(check), capabilities.poll_ms).await?;
            }
            Ok(Note::Resolved)
        }
        Settled::Refused(_) => {
            give_up_task(ports, settings.write_repeats, subject, task, "its attempt had moved on").await?;
            Ok(Note::Orphaned)
        }
    }
}
