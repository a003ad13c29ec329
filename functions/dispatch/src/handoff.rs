//! Handing claims to the worker. A claim whose handoff isn't queued for certain goes to rollback; if that can't be
//! reached, the claim's lease brings it back.

use crate::Ports;
use glassline_protocol::ids::{JobKey, LaneName};
use glassline_protocol::message::{Handoff, Message, Rollback, RollbackCause};
use glassline_protocol::ports::{Envelope, Sent};
use glassline_protocol::row::{JobRow, SpecRow};
use glassline_protocol::settings::Settings;
use glassline_protocol::sign::Secrets;
use glassline_protocol::steps::send_all;
use std::collections::HashMap;

/// Most specs read at once.
const READ_LIMIT: usize = 100;

/// Sends the handoffs of claimed jobs; how many were sent, and how many went to rollback.
pub(crate) async fn hand_over<P: Ports>(
    ports: &P,
    settings: &Settings,
    secrets: &Secrets,
    lane: &LaneName,
    claimed: Vec<JobRow>,
) -> (usize, usize) {
    let specs = read_specs(ports, settings, &claimed).await;
    let mut handoffs = Vec::new();
    let mut unsent = Vec::new();
    for job in claimed {
        let handoff = specs.get(&job.key).and_then(|spec| handoff(secrets, lane, &job, spec));
        match handoff {
            Some(handoff) => handoffs.push(handoff),
            None => unsent.extend(unsent_claim(lane, &job)),
        }
    }
    let envelopes =
        handoffs.iter().map(|handoff| Envelope { message: Message::Handoff(handoff.clone()), delay_ms: 0 });
    let sent = send_all(ports, envelopes.collect()).await;
    let mut started = 0;
    for (handoff, sent) in handoffs.iter().zip(sent) {
        match sent {
            Sent::Accepted => started += 1,
            // Perhaps it is queued all the same: then its Start finds the claim given back, and nothing is submitted.
            Sent::Refused | Sent::Unknown => {
                unsent.push(Rollback { subject: handoff.subject(), cause: RollbackCause::Unsent })
            }
        }
    }
    let count = unsent.len();
    let rollbacks =
        unsent.into_iter().map(|rollback| Envelope { message: Message::Rollback(rollback), delay_ms: 0 });
    send_all(ports, rollbacks.collect()).await;
    (started, count)
}

pub(crate) async fn read_specs<P: Ports>(
    ports: &P,
    settings: &Settings,
    claimed: &[JobRow],
) -> HashMap<JobKey, SpecRow> {
    let keys: Vec<JobKey> = claimed.iter().map(|job| job.key.clone()).collect();
    let mut specs = HashMap::new();
    for keys in keys.chunks(READ_LIMIT) {
        for _ in 0..=settings.write_repeats {
            if let Ok(read) = ports.specs(keys).await {
                specs.extend(read.into_iter().map(|spec| (spec.key.0.clone(), spec)));
                break;
            }
        }
    }
    specs
}

fn handoff(secrets: &Secrets, lane: &LaneName, job: &JobRow, spec: &SpecRow) -> Option<Handoff> {
    let params = match spec.params.as_deref() {
        None => serde_json::Value::Null,
        Some(text) => serde_json::from_str(text).ok()?,
    };
    let handoff = Handoff {
        parent: job.key.parent.clone(),
        member: job.key.member.clone(),
        lane: lane.clone(),
        attempt: job.attempt,
        token: job.token.clone()?,
        slot: job.slot?,
        prompt: spec.prompt.clone(),
        params,
        media: spec.media,
        mac: String::new(),
    };
    Some(secrets.sign(handoff))
}

pub(crate) fn unsent_claim(lane: &LaneName, job: &JobRow) -> Option<Rollback> {
    let subject = glassline_protocol::message::Subject {
        parent: job.key.parent.clone(),
        member: job.key.member.clone(),
        lane: lane.clone(),
        attempt: job.attempt,
        token: job.token.clone()?,
    };
    Some(Rollback { subject, cause: RollbackCause::Unsent })
}
