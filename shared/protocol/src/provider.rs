//! The provider port: what the coordinator asks of a render provider, and every answer it must be ready for.
//!
//! An adapter sends one POST per intent and classifies what came back: accepted, provably not started, or unknown.
//! It never retries a submit by itself, at any layer: the protocol decides what an unknown submit means.

use crate::ids::{Attempt, JobKey, Ms, TaskId};
use serde::{Deserialize, Serialize};
use std::future::Future;

/// Our name for one paid intent: a job's attempt. The same reference is never used for two intents, and it is what an
/// idempotency key, a lookup and a callback address carry. Text form: `parent/member/attempt`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reference {
    /// The job.
    pub job: JobKey,
    /// Its attempt, from 1.
    pub attempt: Attempt,
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.job, self.attempt)
    }
}

/// The kind of output that was asked for; an output of another kind is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Media {
    /// A still picture.
    Image,
    /// A film.
    Video,
}

/// What to render: the part of a job's spec that goes to the provider.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RenderRequest {
    /// What to draw, 1 to 32,768 bytes.
    pub prompt: String,
    /// The provider's own parameters, passed through; an object or null.
    pub params: serde_json::Value,
    /// The kind of output expected.
    pub media: Media,
}

impl std::fmt::Debug for RenderRequest {
    /// Without prompt and params, which never reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RenderRequest").field("media", &self.media).finish_non_exhaustive()
    }
}

/// Why a provider or an output said no. It decides whether an attempt counts as a failure and whether the lane pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// Too many requests: the lane pauses until the given time, no failure is counted.
    Throttled,
    /// Their fault and passing: retried, counted.
    Transient,
    /// The request can never work: failed at once.
    InvalidInput,
    /// Refused by moderation: failed at once.
    Moderated,
    /// No credit: the lane pauses instead of burning jobs.
    PaymentRequired,
    /// Bad credentials: the lane pauses instead of burning jobs.
    Unauthorized,
    /// The render or its output was bad (empty, truncated, wrong type, gone): retried, counted.
    BadOutput,
}

/// The answer to a submit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Submit {
    /// The provider took it; this is its own id for the render. It is paid for.
    Accepted(TaskId),
    /// Proven not started: nothing was accepted by this POST.
    Rejected {
        /// Why.
        class: ErrorClass,
        /// How long the provider asks us to wait before any other submit, in milliseconds.
        retry_after_ms: Option<u64>,
        /// One sentence for a person, free of prompts and secrets.
        reason: String,
    },
    /// Nobody can tell (timeout, reset, 5xx or an unreadable body after the request was sent).
    Unknown,
}

/// Where an output can be fetched.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Output {
    /// Its address. May be signed: never log it.
    pub url: String,
    /// When the address stops working, in milliseconds since the epoch, if the provider says so.
    pub expires_ms: Option<u64>,
}

impl std::fmt::Debug for Output {
    /// Without the address, which may be signed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").field("expires_ms", &self.expires_ms).finish_non_exhaustive()
    }
}

/// The state of a task at the provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TaskState {
    /// Not ended (an unknown status word counts as this and raises a metric).
    Running,
    /// Ended well; outputs in the order in which they expire.
    Completed(Vec<Output>),
    /// Ended without success.
    Failed {
        /// Why.
        class: ErrorClass,
        /// One sentence for a person.
        reason: String,
    },
    /// Ended because we asked.
    Cancelled,
    /// The provider does not know this task.
    Missing,
    /// Nobody can tell now: ask again.
    Unknown,
}

/// The answer to a lookup by reference.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Find {
    /// A render with this reference was accepted as this task.
    Found(TaskId),
    /// None is known now; it counts only after the declared settle time.
    NotFound,
    /// Nobody can tell now: ask again.
    Unknown,
}

/// The answer to a request to cancel. Whatever it says, the task's state is asked for again before anyone acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cancel {
    /// The provider took the request.
    Requested,
    /// The task had already ended.
    AlreadyEnded,
    /// The provider has no way to cancel.
    Unsupported,
    /// Nobody can tell.
    Unknown,
}

/// What a provider offers to find out about a submit whose answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "tier", rename_all = "lowercase")]
pub enum Recovery {
    /// An idempotency key: the same POST with the same key within its lifetime returns the first task.
    Key {
        /// How long the provider remembers a key, in milliseconds.
        lifetime_ms: u64,
    },
    /// A lookup by our reference.
    Lookup {
        /// A negative answer counts only this long after the submit could last have been sent, in milliseconds. It must
        /// cover a worker paused between its lease check and its POST.
        settle_ms: u64,
    },
    /// A signed callback that names our reference.
    Callback {
        /// How long to wait for it, in milliseconds after the submit.
        deadline_ms: u64,
    },
    /// Nothing: a person decides.
    None,
}

/// What an adapter declares about its provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Capabilities {
    /// What is offered after a lost submit answer.
    pub recovery: Recovery,
    /// Whether the end of a task must be polled for (no callback).
    pub polled: bool,
    /// The longest a submit may take before it counts as unknown, in milliseconds.
    pub submit_timeout_ms: u64,
    /// Time between two polls, in milliseconds.
    pub poll_ms: u64,
    /// The longest a render may take before we ask to cancel it, in milliseconds.
    pub deadline_ms: u64,
    /// How long an output stays available, in milliseconds, if known.
    pub output_lifetime_ms: Option<u64>,
}

/// A callback as it came in. Nothing of it is believed before it is verified.
#[derive(Clone, Default)]
pub struct CallbackCall {
    /// The query of its address, as sent, without the `?`.
    pub query: String,
    /// Its headers, each value as sent.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Its body, byte for byte.
    pub body: Vec<u8>,
    /// Now, in epoch milliseconds.
    pub now_ms: Ms,
}

impl std::fmt::Debug for CallbackCall {
    /// Without what it carries.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallbackCall").field("body", &self.body.len()).finish_non_exhaustive()
    }
}

/// What a verified callback is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalledBack {
    /// Our reference.
    pub reference: Reference,
    /// The provider's id of the render.
    pub task: TaskId,
}

/// Who can tell a provider's callback from a forged one.
pub trait Callbacks {
    /// Checks a callback to a lane by what its provider (named as in the lane's configuration) signs. `None`: it is
    /// refused, and why is logged and not told.
    fn verify(
        &self,
        provider: &str,
        lane: &crate::ids::LaneName,
        call: &CallbackCall,
    ) -> impl Future<Output = Option<CalledBack>> + Send;
}

/// Nobody: every callback is refused.
impl Callbacks for () {
    async fn verify(&self, _: &str, _: &crate::ids::LaneName, _: &CallbackCall) -> Option<CalledBack> {
        None
    }
}

/// Without providers, every callback is refused.
impl<C: Callbacks + Send + Sync> Callbacks for Option<C> {
    async fn verify(
        &self,
        provider: &str,
        lane: &crate::ids::LaneName,
        call: &CallbackCall,
    ) -> Option<CalledBack> {
        self.as_ref()?.verify(provider, lane, call).await
    }
}

impl<C: Callbacks + Send + Sync> Callbacks for std::sync::Arc<C> {
    async fn verify(
        &self,
        provider: &str,
        lane: &crate::ids::LaneName,
        call: &CallbackCall,
    ) -> Option<CalledBack> {
        (**self).verify(provider, lane, call).await
    }
}

/// A render provider for one lane. Implemented by the adapters and, in the model, by recorded replies.
pub trait Provider {
    /// What the provider of this lane offers. Pure: no call is made.
    fn capabilities(&self, lane: &crate::ids::LaneName) -> Capabilities;
    /// Submits one render, with exactly one POST.
    fn submit(
        &self,
        lane: &crate::ids::LaneName,
        request: &RenderRequest,
        reference: &Reference,
    ) -> impl Future<Output = Submit> + Send;
    /// Asks for the state of a task.
    fn status(&self, lane: &crate::ids::LaneName, task: &TaskId) -> impl Future<Output = TaskState> + Send;
    /// Looks for a render by our reference. It can't have been accepted before `since_ms` (the attempt's start, epoch
    /// milliseconds by our clock): a provider that only lists renders by time is asked from there on, less a margin for
    /// the difference of two clocks.
    fn find(
        &self,
        lane: &crate::ids::LaneName,
        reference: &Reference,
        since_ms: Ms,
    ) -> impl Future<Output = Find> + Send;
    /// Asks to cancel a task.
    fn cancel(&self, lane: &crate::ids::LaneName, task: &TaskId) -> impl Future<Output = Cancel> + Send;
}

impl<T: Provider + Send + Sync> Provider for std::sync::Arc<T> {
    fn capabilities(&self, lane: &crate::ids::LaneName) -> Capabilities {
        (**self).capabilities(lane)
    }
    async fn submit(
        &self,
        lane: &crate::ids::LaneName,
        request: &RenderRequest,
        reference: &Reference,
    ) -> Submit {
        (**self).submit(lane, request, reference).await
    }
    async fn status(&self, lane: &crate::ids::LaneName, task: &TaskId) -> TaskState {
        (**self).status(lane, task).await
    }
    async fn find(&self, lane: &crate::ids::LaneName, reference: &Reference, since_ms: Ms) -> Find {
        (**self).find(lane, reference, since_ms).await
    }
    async fn cancel(&self, lane: &crate::ids::LaneName, task: &TaskId) -> Cancel {
        (**self).cancel(lane, task).await
    }
}
