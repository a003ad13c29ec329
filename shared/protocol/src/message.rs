//! Messages between the functions: one Rust type each, JSON with a version and a kind.
//!
//! A message of a newer version is left for newer code ([`BadBody::Newer`]); anything else that doesn't fit is poison:
//! it goes the way of the dead letter, and its neighbours don't notice.

use crate::body::{self, BadBody};
use crate::ids::{Attempt, JobKey, LaneName, MemberKey, Ms, ParentKey, SlotNo, TaskId, Token};
use crate::provider::{Media, Output};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of the messages that this code writes, and the newest that it reads.
pub const VERSION: u64 = 1;

/// The queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Queue {
    /// Handoffs and checks, to the worker.
    Render,
    /// Completed tasks, to the finisher.
    Finish,
    /// Claims to give back, leases that ran out, held jobs to look at, to the rollback function.
    Rollback,
    /// Freed slots and new work, to dispatch.
    Wake,
    /// Succeeded outputs, to quality assurance (FIFO).
    Qa,
}

impl Queue {
    /// Every queue.
    pub const ALL: &'static [Self] = &[Self::Render, Self::Finish, Self::Rollback, Self::Wake, Self::Qa];

    /// Its short name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Render => "render",
            Self::Finish => "finish",
            Self::Rollback => "rollback",
            Self::Wake => "wake",
            Self::Qa => "qa",
        }
    }
}

/// dispatch → worker: render this, under this token.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handoff {
    /// The post or episode.
    pub parent: ParentKey,
    /// The shot or frame.
    pub member: MemberKey,
    /// The job's lane.
    pub lane: LaneName,
    /// The attempt that was claimed.
    pub attempt: Attempt,
    /// The claim's token.
    pub token: Token,
    /// The slot it fills.
    pub slot: SlotNo,
    /// What to draw.
    pub prompt: String,
    /// The provider's own parameters: an object or null.
    #[serde(default)]
    pub params: serde_json::Value,
    /// The kind of output expected.
    pub media: Media,
    /// HMAC-SHA256 of all of the above, hex.
    #[serde(default)]
    pub mac: String,
}

impl std::fmt::Debug for Handoff {
    /// Without prompt, params and mac, which never reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handoff")
            .field("job", &self.job())
            .field("attempt", &self.attempt)
            .field("token", &self.token)
            .field("slot", &self.slot)
            .finish_non_exhaustive()
    }
}

/// A claim as an outside dispatcher gets it and hands it over. What it says of the render, if anything, must be what the
/// job's spec says: that is what is rendered.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutsideClaim {
    /// The post or episode.
    pub parent: ParentKey,
    /// The shot or frame.
    pub member: MemberKey,
    /// The attempt that was claimed.
    pub attempt: Attempt,
    /// The claim's token.
    pub token: Token,
    /// The job's lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneName>,
    /// The slot that it fills.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<SlotNo>,
    /// Until when it must be handed over, in epoch milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<Ms>,
    /// What to draw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The provider's own parameters: an object or null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<serde_json::Value>,
    /// The kind of output expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<Media>,
}

impl std::fmt::Debug for OutsideClaim {
    /// Without prompt and params, which never reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutsideClaim")
            .field("job", &self.job())
            .field("attempt", &self.attempt)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

impl OutsideClaim {
    /// The job.
    #[must_use]
    pub fn job(&self) -> JobKey {
        JobKey { parent: self.parent.clone(), member: self.member.clone() }
    }
}

/// The attempt that a message is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// The post or episode.
    pub parent: ParentKey,
    /// The shot or frame.
    pub member: MemberKey,
    /// The job's lane.
    pub lane: LaneName,
    /// The attempt.
    pub attempt: Attempt,
    /// Its token.
    pub token: Token,
}

/// Why a check was sent, which is what it may do.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "as", rename_all = "snake_case", try_from = "CauseFields")]
pub enum CheckCause {
    /// A link of the poll chain of the lease that it names; once another lease is written, the chain is over.
    Chain {
        /// The lease it belongs to.
        lease_ms: Ms,
    },
    /// A resume: it acts only after it won the lease that it reads.
    Resume,
    /// A callback: it polls once and starts nothing.
    Callback,
}

/// A cause as it is on the wire. Read by way of this type, for an enum's variant without fields takes unknown ones
/// whatever `deny_unknown_fields` says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CauseFields {
    r#as: CauseName,
    #[serde(default)]
    lease_ms: Option<Ms>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum CauseName {
    Chain,
    Resume,
    Callback,
}

impl TryFrom<CauseFields> for CheckCause {
    type Error = &'static str;
    fn try_from(fields: CauseFields) -> Result<Self, Self::Error> {
        match (fields.r#as, fields.lease_ms) {
            (CauseName::Chain, Some(lease_ms)) => Ok(Self::Chain { lease_ms }),
            (CauseName::Chain, None) => Err("missing field `lease_ms`"),
            (CauseName::Resume, None) => Ok(Self::Resume),
            (CauseName::Callback, None) => Ok(Self::Callback),
            (CauseName::Resume | CauseName::Callback, Some(_)) => Err("unknown field `lease_ms`"),
        }
    }
}

/// A delayed look at an attempt, to the worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The attempt.
    pub subject: Subject,
    /// Why.
    pub cause: CheckCause,
    /// How often this attempt was resumed after a dead letter.
    #[serde(default)]
    pub resumes: u32,
    /// How often its lost submit was tried to be resolved.
    #[serde(default)]
    pub tries: u32,
}

/// worker, api → finisher: the task completed.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finish {
    /// The attempt.
    pub subject: Subject,
    /// The completed task.
    pub task: TaskId,
    /// Its outputs, if they are known.
    #[serde(default, deserialize_with = "strict_outputs")]
    pub outputs: Vec<Output>,
    /// How often this attempt was resumed after a dead letter.
    #[serde(default)]
    pub resumes: u32,
}

/// An output as our own messages have it. A provider's answer may say more about one, so [`Output`] itself is lenient.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StrictOutput {
    url: String,
    #[serde(default)]
    expires_ms: Option<Ms>,
}

fn strict_outputs<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Vec<Output>, D::Error> {
    let outputs = Vec::<StrictOutput>::deserialize(reader)?;
    Ok(outputs.into_iter().map(|StrictOutput { url, expires_ms }| Output { url, expires_ms }).collect())
}

impl std::fmt::Debug for Finish {
    /// Without the outputs' addresses, which may be signed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Finish")
            .field("subject", &self.subject)
            .field("task", &self.task)
            .field("outputs", &self.outputs.len())
            .finish_non_exhaustive()
    }
}

/// Why a rollback was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RollbackCause {
    /// Its handoff wasn't queued for certain.
    Unsent,
    /// Its lease ran out.
    LeaseOver,
    /// It is held, and it is time to look again.
    Held,
}

/// dispatch → rollback.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rollback {
    /// The attempt.
    pub subject: Subject,
    /// Why.
    pub cause: RollbackCause,
}

/// A slot whose job has just ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FreedSlot {
    /// Its number.
    pub slot: SlotNo,
    /// The token of the attempt that ended.
    pub token: Token,
}

/// worker, finisher, rollback, intake → dispatch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wake {
    /// The lane.
    pub lane: LaneName,
    /// The slot that is free; without one the whole lane is looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freed: Option<FreedSlot>,
}

/// finisher → QA: look at this output. Sent at least once, always under the same deduplication id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Qa {
    /// The outcome's id: `parent/member/attempt`.
    pub outcome: String,
    /// The job.
    pub job: JobKey,
    /// The attempt.
    pub attempt: Attempt,
    /// Where the output lies.
    pub location: String,
    /// Its SHA-256, hex.
    pub sha256: String,
    /// Its type by content.
    pub content_type: String,
}

impl Handoff {
    /// The job.
    #[must_use]
    pub fn job(&self) -> JobKey {
        JobKey { parent: self.parent.clone(), member: self.member.clone() }
    }
    /// The attempt it is about.
    #[must_use]
    pub fn subject(&self) -> Subject {
        Subject {
            parent: self.parent.clone(),
            member: self.member.clone(),
            lane: self.lane.clone(),
            attempt: self.attempt,
            token: self.token.clone(),
        }
    }
}

impl Subject {
    /// The current attempt of a job; `None` when nobody owns it.
    #[must_use]
    pub fn of(row: &crate::row::JobRow) -> Option<Self> {
        Some(Self {
            parent: row.key.parent.clone(),
            member: row.key.member.clone(),
            lane: row.lane.clone(),
            attempt: row.attempt,
            token: row.token.clone()?,
        })
    }

    /// The job.
    #[must_use]
    pub fn job(&self) -> JobKey {
        JobKey { parent: self.parent.clone(), member: self.member.clone() }
    }
}

/// Any message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// See [`Handoff`].
    Handoff(Handoff),
    /// See [`Check`].
    Check(Check),
    /// See [`Finish`].
    Finish(Finish),
    /// See [`Rollback`].
    Rollback(Rollback),
    /// See [`Wake`].
    Wake(Wake),
    /// See [`Qa`].
    Qa(Qa),
}

impl Message {
    /// The queue it is sent to.
    #[must_use]
    pub fn queue(&self) -> Queue {
        match self {
            Self::Handoff(_) | Self::Check(_) => Queue::Render,
            Self::Finish(_) => Queue::Finish,
            Self::Rollback(_) => Queue::Rollback,
            Self::Wake(_) => Queue::Wake,
            Self::Qa(_) => Queue::Qa,
        }
    }

    /// Its JSON text.
    #[must_use]
    pub fn to_body(&self) -> String {
        let (kind, value) = match self {
            Self::Handoff(message) => ("handoff", serde_json::to_value(message)),
            Self::Check(message) => ("check", serde_json::to_value(message)),
            Self::Finish(message) => ("finish", serde_json::to_value(message)),
            Self::Rollback(message) => ("rollback", serde_json::to_value(message)),
            Self::Wake(message) => ("wake", serde_json::to_value(message)),
            Self::Qa(message) => ("qa", serde_json::to_value(message)),
        };
        // These types have string keys and no custom serialisers, so the conversion can't fail; if it ever did, the
        // reader would refuse the body by its missing fields.
        let mut value = value.unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            object.insert("v".into(), VERSION.into());
            object.insert("kind".into(), kind.into());
        }
        sendable(value.to_string())
    }

    /// Reads a body.
    ///
    /// # Errors
    /// [`BadBody`]: newer than this code, or not one of ours.
    pub fn from_body(text: &str) -> Result<Self, BadBody> {
        let mut object = body::object(text)?;
        let version = object.remove("v").ok_or_else(|| BadBody::Fields("`v` is missing".into()))?;
        let version = version.as_u64().ok_or_else(|| BadBody::Fields("`v` isn't a whole number".into()))?;
        if version > VERSION {
            return Err(BadBody::Newer(version));
        }
        if version == 0 {
            return Err(BadBody::Fields("`v` is 0; versions begin at 1".into()));
        }
        let kind = object.remove("kind").ok_or_else(|| BadBody::Fields("`kind` is missing".into()))?;
        let message = match kind.as_str() {
            Some("handoff") => Self::Handoff(checked_handoff(body::fields(object)?)?),
            Some("check") => Self::Check(keyed(body::fields(object)?, |check: &Check| check.subject.job())?),
            Some("finish") => {
                Self::Finish(keyed(body::fields(object)?, |finish: &Finish| finish.subject.job())?)
            }
            Some("rollback") => {
                Self::Rollback(keyed(body::fields(object)?, |message: &Rollback| message.subject.job())?)
            }
            Some("wake") => Self::Wake(body::fields(object)?),
            Some("qa") => Self::Qa(body::fields(object)?),
            Some(_) | None => return Err(BadBody::Fields("`kind` isn't one that this code knows".into())),
        };
        Ok(message)
    }
}

/// Escapes the two characters that JSON takes as they are and SQS refuses
/// (<https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>).
fn sendable(json: String) -> String {
    if json.contains(['\u{fffe}', '\u{ffff}']) {
        return json.replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff");
    }
    json
}

/// A post's frame and an episode's shot are not jobs, though each half of the key is well formed.
fn keyed<T: DeserializeOwned>(message: T, job: impl Fn(&T) -> JobKey) -> Result<T, BadBody> {
    job(&message)
        .to_string()
        .parse::<JobKey>()
        .map(|_| message)
        .map_err(|error| BadBody::Fields(error.to_string()))
}

fn checked_handoff(handoff: Handoff) -> Result<Handoff, BadBody> {
    let handoff = keyed(handoff, Handoff::job)?;
    if !(handoff.params.is_object() || handoff.params.is_null()) {
        return Err(BadBody::Fields("`params` is neither an object nor null".into()));
    }
    if handoff.prompt.is_empty() || handoff.prompt.len() > crate::intake::MAX_PROMPT_BYTES {
        return Err(BadBody::Fields(format!(
            "`prompt` has {} bytes; 1 to {} are allowed",
            handoff.prompt.len(),
            crate::intake::MAX_PROMPT_BYTES
        )));
    }
    Ok(handoff)
}
