//! An accepted task that is not ours any more.

use crate::ids::TaskId;
use crate::message::Subject;
use crate::ports::{Local, Store};
use crate::provider::{Cancel, Provider};
use crate::row::{OrphanKey, OrphanRow, Verdict};
use crate::settle::Fault;

/// Cancels a task that its attempt doesn't own (any more) and keeps it for the ledger. Repeating it is harmless.
///
/// A task that its attempt's stored outcome names is no orphan, even when the row has moved on since.
///
/// # Errors
/// [`Fault`] when the row can't be read or written now.
pub async fn give_up_task<P: Store + Provider + Local>(
    ports: &P,
    repeats: u32,
    subject: &Subject,
    task: &TaskId,
    reason: &str,
) -> Result<(), Fault> {
    let job = subject.job();
    let view = ports.job(&job).await?;
    let price_micros = view.as_ref().and_then(|view| {
        let current = (view.job.attempt == subject.attempt).then_some(view.job.price_micros);
        current.or_else(|| view.outcome(subject.attempt).map(|outcome| outcome.price_micros)).flatten()
    });
    let ours = view.is_some_and(|view| {
        let recorded = view.job.attempt == subject.attempt && view.job.task.as_ref() == Some(task);
        let stored = view.outcomes.iter().any(|outcome| match outcome.verdict {
            Verdict::Stored => outcome.task.as_ref() == Some(task),
            Verdict::Failed | Verdict::Cancelled => false,
        });
        recorded || stored
    });
    if ours {
        return Ok(());
    }
    let cancel = match ports.cancel(&subject.lane, task).await {
        Cancel::Requested => "requested",
        Cancel::AlreadyEnded => "already ended",
        Cancel::Unsupported => "not offered by the provider",
        Cancel::Unknown => "no answer",
    };
    let orphan = OrphanRow {
        key: OrphanKey { job, task: task.clone() },
        attempt: subject.attempt,
        lane: subject.lane.clone(),
        at_ms: ports.now_ms(),
        reason: reason.to_owned(),
        cancel: cancel.to_owned(),
        price_micros,
    };
    for _ in 0..=repeats {
        if ports.put_orphan(&orphan).await {
            return Ok(());
        }
    }
    Err(Fault::retry(format!("the orphan row of task {task} has no answer")))
}
