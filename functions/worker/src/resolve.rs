//! A lost submit: what the provider offers to find out what became of it. Only whoever won the lease gets here.

use crate::Ports;
use crate::check::follow;
use crate::handoff::record;
use glassline_protocol::ids::Ms;
use glassline_protocol::message::{Check, CheckCause, Message};
use glassline_protocol::note::Note;
use glassline_protocol::ports::NotStarted;
use glassline_protocol::provider::{ErrorClass, Find, Recovery, Reference, RenderRequest, Submit};
use glassline_protocol::row::outcome::{Cost, Failure};
use glassline_protocol::row::{JobRow, OutcomeRow, Status};
use glassline_protocol::settings::Settings;
use glassline_protocol::settle::{self, Fault, Recorded};
use glassline_protocol::steps::{end_of, hold, send_one};
use glassline_protocol::transition::Ours;

pub(crate) async fn resolve<P: Ports>(
    ports: &P,
    settings: &Settings,
    check: Check,
    row: JobRow,
) -> Result<Note, Fault> {
    let capabilities = ports.capabilities(&row.lane);
    let started_ms = row.started_ms.unwrap_or(row.created_ms);
    let now_ms = ports.now_ms();
    match capabilities.recovery {
        Recovery::Key { lifetime_ms } => {
            // The repeat must reach the provider while it still knows the key.
            let needed_ms = capabilities.submit_timeout_ms.saturating_add(settings.submit_margin_ms);
            let last_ms = started_ms.saturating_add(lifetime_ms).saturating_sub(needed_ms);
            if now_ms < last_ms && check.tries < settings.max_tries {
                repeat(ports, settings, check, row).await
            } else {
                give_up(
                    ports,
                    settings,
                    &row,
                    "its submit was lost, and repeating it with its key gave no task",
                )
                .await
            }
        }
        Recovery::Lookup { settle_ms } => {
            let settled_ms = started_ms.saturating_add(settings.submit_lease_ms).saturating_add(settle_ms);
            look_up(ports, settings, check, row, settled_ms).await
        }
        Recovery::Callback { deadline_ms } => {
            if now_ms < started_ms.saturating_add(deadline_ms) {
                again(ports, settings, check, &row, 0).await
            } else {
                give_up(
                    ports,
                    settings,
                    &row,
                    "its submit was lost, and no callback came before the deadline",
                )
                .await
            }
        }
        Recovery::None => {
            give_up(ports, settings, &row, "its submit was lost, and the provider offers no way to find it")
                .await
        }
    }
}

/// Tier key: the very same POST under the same key. Whatever it says against the render says nothing of the first one.
async fn repeat<P: Ports>(ports: &P, settings: &Settings, check: Check, row: JobRow) -> Result<Note, Fault> {
    let mut specs = ports.specs(std::slice::from_ref(&row.key)).await?;
    let Some(spec) = specs.pop() else {
        return give_up(ports, settings, &row, "its submit was lost, and its spec is missing").await;
    };
    let params = match spec.params.as_deref().map(serde_json::from_str) {
        None => serde_json::Value::Null,
        Some(Ok(params)) => params,
        Some(Err(_)) => return give_up(ports, settings, &row, "its spec's params can't be read").await,
    };
    let request = RenderRequest { prompt: spec.prompt, params, media: spec.media };
    let reference = Reference { job: row.key.clone(), attempt: row.attempt };
    match ports.submit(&row.lane, &request, &reference).await {
        Submit::Accepted(task) => record(ports, settings, &check.subject, &task).await,
        Submit::Rejected { .. } | Submit::Unknown => again(ports, settings, check, &row, 1).await,
    }
}

/// Tier lookup: find our reference. That it isn't there counts only once nothing can be on its way any more.
async fn look_up<P: Ports>(
    ports: &P,
    settings: &Settings,
    check: Check,
    row: JobRow,
    settled_ms: Ms,
) -> Result<Note, Fault> {
    let reference = Reference { job: row.key.clone(), attempt: row.attempt };
    // Taken before the question: an answer is as old as its question.
    let asked_ms = ports.now_ms();
    match ports.find(&row.lane, &reference, row.started_ms.unwrap_or(row.created_ms)).await {
        Find::Found(task) => record(ports, settings, &check.subject, &task).await,
        Find::NotFound if asked_ms >= settled_ms => not_accepted(ports, settings, &check, &row).await,
        Find::NotFound | Find::Unknown => again(ports, settings, check, &row, 0).await,
    }
}

/// Proven: the provider never accepted this attempt.
async fn not_accepted<P: Ports>(
    ports: &P,
    settings: &Settings,
    check: &Check,
    row: &JobRow,
) -> Result<Note, Fault> {
    let (Some(token), Some(run)) = (row.token.clone(), row.run.clone()) else { return Ok(Note::Stale) };
    let end = end_of(row, ports.now_ms());
    let outcome = if row.cancel_requested {
        OutcomeRow::cancelled(
            end,
            "its submit was lost and never accepted, and a cancel was asked for",
            Cost::None,
        )
    } else {
        OutcomeRow::failed(
            end,
            Failure {
                class: ErrorClass::Transient,
                reason: "its submit was lost and never accepted".into(),
                counted: true,
                retry_at_ms: None,
                cost: Cost::None,
            },
        )
    };
    let only_if = NotStarted { ours: Ours { attempt: row.attempt, token }, run };
    match settle::outcome(ports, settings.write_repeats, &outcome, Some(&only_if)).await? {
        Recorded::Follow(outcome) => follow(ports, settings, check, row, &outcome).await,
        Recorded::Moved => Ok(Note::Stale),
    }
}

/// Not known yet: the next try when the lease that was just won ends. A held job waits for dispatch's slow sweep.
async fn again<P: Ports>(
    ports: &P,
    settings: &Settings,
    check: Check,
    row: &JobRow,
    tries: u32,
) -> Result<Note, Fault> {
    if row.status == Status::Held {
        return Ok(Note::Unresolved);
    }
    let delay_ms = row.lease_ms.unwrap_or(0).saturating_sub(ports.now_ms());
    let next = Check { cause: CheckCause::Resume, tries: check.tries.saturating_add(tries), ..check };
    send_one(ports, settings.write_repeats, Message::Check(next), delay_ms).await?;
    Ok(Note::Unresolved)
}

async fn give_up<P: Ports>(
    ports: &P,
    settings: &Settings,
    row: &JobRow,
    reason: &str,
) -> Result<Note, Fault> {
    hold(ports, settings, row, reason).await?;
    Ok(Note::Held)
}
