//! What a person's request does to a job, step by step as ARCHITECTURE.md has it. The functions that make these
//! transitions for people follow the same steps.

use crate::config::Config;
use crate::ports::Ports;
use glassline_protocol::ids::JobKey;
use glassline_protocol::message::{Finish, Message, Subject};
use glassline_protocol::ports::{Local as _, Store as _};
use glassline_protocol::rank::ready_entry;
use glassline_protocol::row::outcome::Cost;
use glassline_protocol::row::{JobRow, OutcomeRow, Status, Verdict};
use glassline_protocol::settle::{self, Fault, Recorded, Settled};
use glassline_protocol::steps::{end_of, send_one};
use glassline_protocol::transition::JobTransition;

/// Another attempt of a job that has ended or is held. Of a held one, only after its attempt is recorded as cancelled:
/// if it was stored meanwhile, it is finished instead.
pub(crate) async fn requeue(ports: &Ports<'_>, config: &Config, key: &JobKey) -> Result<&'static str, Fault> {
    let Some(view) = ports.job(key).await? else { return Ok("missing") };
    let row = view.job;
    match row.status {
        Status::Failed | Status::Cancelled | Status::Succeeded => {}
        Status::Held if config.is("requeue of a held job puts no outcome first") => {}
        Status::Held => {
            let outcome =
                OutcomeRow::cancelled(end_of(&row, ports.now_ms()), "a person decided", Cost::AtRisk);
            match settle::outcome(ports, config.settings.write_repeats, &outcome, None).await? {
                Recorded::Follow(found) if found.verdict == Verdict::Stored => {
                    return finish(ports, config, &row, &found).await;
                }
                Recorded::Follow(_) | Recorded::Moved => {}
            }
        }
        Status::Ready | Status::Claimed | Status::Rendering => return Ok("not now"),
    }
    let requeue = JobTransition::Requeue {
        status: row.status,
        attempt: row.attempt,
        entry: ready_entry(&row.lane, &row.rank, row.attempt.saturating_add(1)),
    };
    match settle::job(ports, config.settings.write_repeats, key, &requeue).await? {
        Settled::Mine(_) => Ok("requeued"),
        Settled::Refused(_) => Ok("it moved on"),
    }
}

async fn finish(
    ports: &Ports<'_>,
    config: &Config,
    row: &JobRow,
    outcome: &OutcomeRow,
) -> Result<&'static str, Fault> {
    let (Some(token), Some(task)) = (row.token.clone(), outcome.task.clone()) else {
        return Ok("it moved on");
    };
    let subject = Subject {
        parent: row.key.parent.clone(),
        member: row.key.member.clone(),
        lane: row.lane.clone(),
        attempt: row.attempt,
        token,
    };
    let finish = Finish { subject, task, outputs: Vec::new(), resumes: 0 };
    send_one(ports, config.settings.write_repeats, Message::Finish(finish), 0).await?;
    Ok("it is stored, and is finished instead")
}
