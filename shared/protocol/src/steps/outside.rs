//! What an outside dispatcher asks: to take the handoff of a claim, to give a claim back, and whether a handoff was taken.

use super::send::{send_one, wake};
use crate::ids::{JobKey, Receipt, Token};
use crate::message::{Handoff, Message, OutsideClaim};
use crate::ports::{Local, Queues, Store};
use crate::rank::ready_entry;
use crate::row::{JobRow, SpecRow, Status};
use crate::settings::Settings;
use crate::settle::{self, Fault, Settled};
use crate::sign::{Secrets, receipt_of};
use crate::transition::{JobTransition, Ours};

fn ours(claim: &OutsideClaim) -> Ours {
    Ours { attempt: claim.attempt, token: claim.token.clone() }
}

/// Whether a row, of whatever status, is or was under this claim: its receipt outlives its token.
fn known(claim: &OutsideClaim, row: &JobRow) -> bool {
    row.attempt == claim.attempt && (row.owned_by(&claim.token) || taken(row, &claim.token).is_some())
}

/// The receipt of a row whose handoff was taken under this token, be it there still or gone with the attempt's end.
fn taken(row: &JobRow, token: &Token) -> Option<Receipt> {
    let receipt = receipt_of(token);
    let under = row.owned_by(token) || row.receipt.as_ref() == Some(&receipt);
    (under && row.accepted_ms.is_some()).then_some(receipt)
}

/// What handing over came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandedOver {
    /// It was taken, now or before: it is queued, or has been.
    Taken(Receipt, Box<JobRow>),
    /// It says something else than the job's spec; this field.
    Differs(&'static str, Box<JobRow>),
    /// The job isn't claimed under this token and attempt; as it is.
    NotClaimed(Box<JobRow>),
    /// There is no such job.
    Missing,
}

/// Takes the handoff of a claim: that is recorded first, and then it is queued. The same handoff again gets the same
/// receipt; it is queued again while the claim isn't started, which its one Start makes harmless.
///
/// # Errors
/// [`Fault`]: nobody can tell whether it was taken. Handing it over again, or reading it back, tells.
pub async fn hand_over<P: Store + Queues + Local>(
    ports: &P,
    settings: &Settings,
    secrets: &Secrets,
    claim: &OutsideClaim,
) -> Result<HandedOver, Fault> {
    let Some(view) = ports.job(&claim.job()).await? else { return Ok(HandedOver::Missing) };
    let row = view.job;
    if !known(claim, &row) {
        return Ok(HandedOver::NotClaimed(Box::new(row)));
    }
    let Some(spec) = ports.specs(std::slice::from_ref(&row.key)).await?.pop() else {
        return Err(Fault::Poison(format!("the spec of {} is missing", row.key)));
    };
    let params = params_of(&spec)?;
    if let Some(field) = differs(claim, &row, &spec, &params) {
        return Ok(HandedOver::Differs(field, Box::new(row)));
    }
    let accept = JobTransition::Accept { ours: ours(claim), now_ms: ports.now_ms() };
    let row = match settle::job(ports, settings.write_repeats, &row.key, &accept).await? {
        Settled::Mine(row) => row,
        Settled::Refused(Some(row)) => {
            // It has ended, or goes on under another token: what was taken stays taken.
            let taken = taken(&row, &claim.token).filter(|_| row.attempt == claim.attempt);
            return Ok(match taken {
                Some(receipt) => HandedOver::Taken(receipt, Box::new(row)),
                None => HandedOver::NotClaimed(Box::new(row)),
            });
        }
        Settled::Refused(None) => return Ok(HandedOver::Missing),
    };
    if let (Status::Claimed, Some(slot)) = (row.status, row.slot) {
        let handoff = secrets.sign(Handoff {
            parent: row.key.parent.clone(),
            member: row.key.member.clone(),
            lane: row.lane.clone(),
            attempt: row.attempt,
            token: claim.token.clone(),
            slot,
            prompt: spec.prompt,
            params,
            media: spec.media,
            mac: String::new(),
        });
        send_one(ports, settings.write_repeats, Message::Handoff(handoff), 0).await?;
    }
    Ok(HandedOver::Taken(receipt_of(&claim.token), Box::new(row)))
}

/// A spec's params as a handoff carries them.
///
/// # Errors
/// [`Fault::Poison`] when they aren't JSON.
pub fn params_of(spec: &SpecRow) -> Result<serde_json::Value, Fault> {
    let Some(text) = spec.params.as_deref() else { return Ok(serde_json::Value::Null) };
    serde_json::from_str(text)
        .map_err(|_| Fault::Poison(format!("the params of {} can't be read", spec.key.0)))
}

/// The first thing that a claim says otherwise than the table.
fn differs(
    claim: &OutsideClaim,
    row: &JobRow,
    spec: &SpecRow,
    params: &serde_json::Value,
) -> Option<&'static str> {
    let other_lane = claim.lane.as_ref().is_some_and(|lane| *lane != row.lane);
    let other_prompt = claim.prompt.as_ref().is_some_and(|prompt| *prompt != spec.prompt);
    let other_params = claim.params.as_ref().is_some_and(|given| given != params);
    let other_media = claim.media.is_some_and(|media| media != spec.media);
    [("lane", other_lane), ("prompt", other_prompt), ("params", other_params), ("media", other_media)]
        .into_iter()
        .find_map(|(field, other)| other.then_some(field))
}

/// What giving a claim back came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GivenBack {
    /// The job is ready again, now or by an equal request before.
    Released(Box<JobRow>),
    /// Somebody had asked to cancel it: it is cancelled.
    Cancelled(Box<JobRow>),
    /// Its handoff was taken: it isn't the dispatcher's to give back any more.
    Accepted(Receipt, Box<JobRow>),
    /// The job isn't claimed under this token; as it is.
    NotClaimed(Box<JobRow>),
    /// There is no such job.
    Missing,
}

/// Gives back a claim whose handoff was not taken: the narrow rollback.
///
/// # Errors
/// [`Fault::RetryAfter`] when an answer stays unknown; asking again is harmless.
pub async fn give_back<P: Store + Queues + Local>(
    ports: &P,
    settings: &Settings,
    job: &JobKey,
    ours: &Ours,
) -> Result<GivenBack, Fault> {
    for _ in 0..3 {
        let Some(view) = ports.job(job).await? else { return Ok(GivenBack::Missing) };
        let row = view.job;
        if row.attempt == ours.attempt
            && let Some(receipt) = taken(&row, &ours.token)
        {
            return Ok(GivenBack::Accepted(receipt, Box::new(row)));
        }
        if !row.owned_by(&ours.token) || row.attempt != ours.attempt {
            return Ok(gone(row, ours));
        }
        let transition = if row.cancel_requested {
            JobTransition::CancelClaimed { ours: ours.clone(), now_ms: ports.now_ms() }
        } else {
            JobTransition::Release {
                ours: ours.clone(),
                entry: ready_entry(&row.lane, &row.rank, row.attempt),
                unless_accepted: true,
                failing_below: None,
            }
        };
        // A refusal may mean that its handoff was just taken, or a cancel asked for: look again.
        if let Settled::Mine(after) = settle::job(ports, settings.write_repeats, job, &transition).await? {
            wake(ports, &row).await;
            super::parent::parent_step(ports, &after).await?;
            return Ok(if after.status.ended() {
                GivenBack::Cancelled(Box::new(after))
            } else {
                GivenBack::Released(Box::new(after))
            });
        }
    }
    Err(Fault::retry(format!("{job} keeps changing while it is given back")))
}

/// A row that isn't under the claim any more. Ready at the claim's attempt means that the claim was given back, by
/// whomever, for a claim whose handoff was taken leaves its receipt.
fn gone(row: JobRow, ours: &Ours) -> GivenBack {
    if row.status == Status::Ready && row.attempt == ours.attempt {
        GivenBack::Released(Box::new(row))
    } else {
        GivenBack::NotClaimed(Box::new(row))
    }
}

/// Whether a handoff was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// It was: the attempt is ours to end, whatever becomes of it.
    Accepted(Receipt),
    /// It was not, and can still be handed over or given back.
    NotAccepted,
    /// The claim is over: another has the job, or nobody.
    Superseded,
}

/// Whether the handoff under this token was taken, by a row that was read consistently.
#[must_use]
pub fn acceptance(row: &JobRow, token: &Token) -> Acceptance {
    match taken(row, token) {
        Some(receipt) => Acceptance::Accepted(receipt),
        None if row.owned_by(token) && row.status == Status::Claimed => Acceptance::NotAccepted,
        None => Acceptance::Superseded,
    }
}
