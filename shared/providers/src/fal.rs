//! The adapter for fal's queue.
//!
//! Facts from:
//! - <https://fal.ai/docs/documentation/model-apis/inference/queue> (submit, status, response, cancel)
//! - <https://docs.fal.ai/model-apis/model-endpoints/reliability> (the queue repeats a failed run up to ten times by
//!   itself: `x-fal-no-retry: 1` keeps it from that)
//! - <https://docs.fal.ai/model-apis/errors> (error types)
//! - <https://fal.ai/docs/documentation/model-apis/inference/webhooks> (callbacks and their signature)
//!
//! There is no idempotency key, and the list of requests shows neither our callback address nor what still runs. So a
//! lost submit is found by its callback or not at all.
//!
//! The queue's addresses are those of the app, the first two parts of a model's name, as fal's own clients have them
//! (<https://github.com/fal-ai/fal-js>, `parseEndpointId`). A submit's answer names them too. A task is known by the
//! request's id alone, for a callback carries no more; so where the answer names others, that is logged as an error.

use crate::answer::{completed, failed, refusal, rejected, retry_after_ms};
use crate::callback::{Callback, CallbackError};
use crate::client::Answer;
use crate::config::{ProvidersError, bad};
use crate::hook::{BODY_BYTES, CallbackRequest, Hook};
use crate::jwks::Keys;
use crate::lane::{Defaults, Setup, model_name, span, vendor_lane};
use crate::secret::Secret;
use crate::wire::Wire;
use glassline_protocol::ids::{LaneName, TaskId};
use glassline_protocol::provider::{
    Cancel, Capabilities, ErrorClass, Output, Recovery, Reference, RenderRequest, Submit, TaskState,
};
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Map, Value};

const BASE: &str = "https://queue.fal.run";
const JWKS: &str = "https://rest.fal.ai/.well-known/jwks.json";
/// fal repeats a callback for two hours.
const CALLBACK_MS: u64 = 3 * 3_600_000;

vendor_lane! {
    /// A lane served by a fal account.
    FalLane {
        /// The model, such as `fal-ai/flux/dev`.
        pub model: String,
        /// Where fal's public keys are, if not where fal has them.
        #[serde(default)]
        pub jwks_url: Option<String>,
        /// Where in the response the address of the output stands, as JSON pointers; the first that leads to an address
        /// counts.
        #[serde(default = "outputs")]
        pub outputs: Vec<String>,
        /// How long fal keeps the output's file, in seconds (`x-fal-object-lifecycle-preference`).
        #[serde(default)]
        pub keep_output_s: Option<u64>,
    }
}

fn outputs() -> Vec<String> {
    ["/video/url", "/videos/0/url", "/images/0/url", "/image/url"].map(str::to_owned).into()
}

/// One lane's fal account.
#[derive(Clone)]
pub(crate) struct FalProvider {
    wire: Wire,
    model: String,
    outputs: Vec<String>,
    hook: Option<(Hook, Keys)>,
}

#[derive(Deserialize)]
struct Queued {
    request_id: TaskId,
    #[serde(default)]
    response_url: Option<String>,
}

#[derive(Deserialize)]
struct Status {
    status: String,
    #[serde(default)]
    error: Value,
    #[serde(default)]
    error_type: Option<String>,
}

#[derive(Deserialize)]
struct Told {
    request_id: TaskId,
}

impl FalLane {
    pub(crate) fn build(&self, setup: &mut Setup<'_>) -> Result<FalProvider, ProvidersError> {
        let lane = setup.lane.clone();
        let common = self.common();
        let defaults = Defaults {
            base_url: Some(BASE.to_owned()),
            submit_ms: 30_000,
            poll_ms: 5_000,
            least_poll_ms: 1,
            deadline_ms: 3_600_000,
            output_lifetime_ms: self.keep_output_s.map(|keep_s| keep_s.saturating_mul(1_000)),
        };
        let mut wire = common.wire(setup, &defaults, Some((AUTHORIZATION, "Key ")))?;
        if !model_name(&self.model) || self.model.split('/').count() < 2 {
            return Err(bad(&lane, "`model` must be a name such as `fal-ai/flux/dev`"));
        }
        if self.outputs.is_empty() || self.outputs.iter().any(|pointer| !pointer.starts_with('/')) {
            return Err(bad(&lane, "`outputs` must be JSON pointers, at least one"));
        }
        if let Some(keep_s) = self.keep_output_s {
            span(&lane, keep_s.saturating_mul(1_000), "`keep_output_s` must be from 1 s to a year")?;
            let text = format!("{{\"expiration_duration_seconds\": {keep_s}}}");
            let value =
                HeaderValue::from_str(&text).map_err(|_| bad(&lane, "`keep_output_s` can't be sent"))?;
            wire.headers.insert(HeaderName::from_static("x-fal-object-lifecycle-preference"), value);
        }
        let hook = match common.hook(setup)? {
            Some(hook) => {
                let url = self.jwks_url.as_deref().unwrap_or(JWKS);
                let keys = Keys::new(&wire, url)
                    .ok_or_else(|| bad(&lane, "`jwks_url` must be https, or http on this machine"))?;
                Some((hook, keys))
            }
            None => None,
        };
        Ok(FalProvider { wire, model: self.model.clone(), outputs: self.outputs.clone(), hook })
    }
}

impl FalProvider {
    /// Without callbacks nothing at fal carries our reference.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.wire.capabilities(match self.hook {
            Some(_) => Recovery::Callback { deadline_ms: CALLBACK_MS },
            None => Recovery::None,
        })
    }

    /// The address of a request, or of something of it.
    fn request_url(&self, task: &TaskId, what: Option<&str>) -> Option<Url> {
        let mut parts: Vec<&str> = self.model.split('/').take(2).collect();
        parts.extend(["requests", task.as_str()]);
        parts.extend(what);
        self.wire.url(&parts)
    }

    /// Sends one POST and says what its answer proves.
    pub(crate) async fn submit(&self, request: &RenderRequest, reference: &Reference) -> Submit {
        let mut body = match &request.params {
            Value::Object(params) => params.clone(),
            Value::Null => Map::new(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return rejected(ErrorClass::InvalidInput, "params must be an object", None);
            }
        };
        body.insert("prompt".to_owned(), request.prompt.clone().into());
        let parts: Vec<&str> = self.model.split('/').collect();
        let Some(mut url) = self.wire.url(&parts) else {
            return rejected(ErrorClass::Unauthorized, "the lane's `model` is no address", None);
        };
        if let Some(address) = self.hook.as_ref().and_then(|(hook, _)| hook.address(reference)) {
            url.query_pairs_mut().append_pair("fal_webhook", address.as_str());
        }
        let post = self.wire.post_json(url, &Value::Object(body));
        // A run that failed is ours to repeat or not: it may have cost already.
        let post = post.header(HeaderName::from_static("x-fal-no-retry"), HeaderValue::from_static("1"));
        match self.wire.submit(post).await {
            Ok(answer) => self.judge(&answer),
            Err(told) => told,
        }
    }

    fn judge(&self, answer: &Answer) -> Submit {
        if matches!(answer.status.as_u16(), 200..=202) {
            let Ok(queued) = serde_json::from_slice::<Queued>(&answer.body) else {
                return self.wire.unknown_submit("unreadable", Some(answer.status));
            };
            let ours = self.request_url(&queued.request_id, None);
            let differs = queued.response_url.is_some_and(|url| Url::parse(&url).ok() != ours);
            if differs {
                tracing::error!(event = "provider_address_differs", lane = %self.wire.lane, task = %queued.request_id);
            }
            return Submit::Accepted(queued.request_id);
        }
        let class = match (answer.status.as_u16(), refusal(answer.status)) {
            // "User is locked. Reason: Exhausted balance."
            (403, _) if says(&answer.body, "balance") => {
                Some((ErrorClass::PaymentRequired, "the provider account has no credit left"))
            }
            (422, _) if moderated(&answer.body) => {
                Some((ErrorClass::Moderated, "the provider's moderation refused the request"))
            }
            (_, class) => class,
        };
        match class {
            Some((class, sentence)) => rejected(class, sentence, retry_after_ms(answer)),
            None => self.wire.unknown_submit("status", Some(answer.status)),
        }
    }

    /// Asks for a task.
    pub(crate) async fn status(&self, task: &TaskId) -> TaskState {
        let Some(url) = self.request_url(task, Some("status")) else { return TaskState::Unknown };
        let Some(answer) = self.wire.query(self.wire.request(Method::GET, url), "status").await else {
            return TaskState::Unknown;
        };
        let told = match answer.status {
            StatusCode::OK | StatusCode::ACCEPTED => self.wire.read::<Status>(&answer, "status"),
            StatusCode::NOT_FOUND => return TaskState::Missing,
            status => {
                self.wire.unclear("status", status);
                None
            }
        };
        let Some(told) = told else { return TaskState::Unknown };
        match told.status.as_str() {
            "IN_QUEUE" | "IN_PROGRESS" => TaskState::Running,
            // COMPLETED says only that it ended: an error makes it a failure.
            "COMPLETED" => match (told.error_type, told.error) {
                (None, Value::Null) => self.response(task).await,
                (kind, _) => self.ended(&kind.unwrap_or_default(), &answer.body),
            },
            word => {
                self.wire.unknown_word(task, &word.to_ascii_lowercase());
                TaskState::Running
            }
        }
    }

    /// Fetches the response of a request that has ended.
    async fn response(&self, task: &TaskId) -> TaskState {
        let Some(url) = self.request_url(task, None) else { return TaskState::Unknown };
        let Some(answer) = self.wire.query(self.wire.request(Method::GET, url), "response").await else {
            return TaskState::Unknown;
        };
        if let Some(units) = answer.headers.get("x-fal-billable-units").and_then(|value| value.to_str().ok())
        {
            let (lane, amount) = (&self.wire.lane, crate::text::word(units));
            tracing::info!(event = "provider_cost_reported", lane = %lane, task = %task, amount, unit = "billable_units");
        }
        match answer.status.as_u16() {
            200 => match self.wire.read::<Value>(&answer, "response") {
                Some(told) => completed(self.output(&told)),
                None => TaskState::Unknown,
            },
            // The request's own failure, repeated as the answer's status.
            400 | 422 => {
                let kind = answer.headers.get("x-fal-error-type").and_then(|value| value.to_str().ok());
                self.ended(kind.unwrap_or("bad_request"), &answer.body)
            }
            404 => TaskState::Missing,
            _ => {
                self.wire.unclear("response", answer.status);
                TaskState::Unknown
            }
        }
    }

    fn output(&self, told: &Value) -> Vec<Output> {
        let address = |pointer: &String| told.pointer(pointer).and_then(Value::as_str);
        let found = self.outputs.iter().find_map(address);
        found.map(|url| Output { url: url.to_owned(), expires_ms: None }).into_iter().collect()
    }

    fn ended(&self, kind: &str, body: &[u8]) -> TaskState {
        if moderated(body) {
            return failed(ErrorClass::Moderated, Some("content_policy_violation"));
        }
        let class = match kind {
            "client_cancelled" => return TaskState::Cancelled,
            "bad_request" => ErrorClass::InvalidInput,
            ""
            | "request_timeout"
            | "startup_timeout"
            | "runner_scheduling_failure"
            | "runner_connection_timeout"
            | "runner_disconnected"
            | "runner_connection_refused"
            | "runner_connection_error"
            | "runner_incomplete_response"
            | "runner_server_error"
            | "client_disconnected"
            | "internal_error" => ErrorClass::Transient,
            other => {
                self.wire.unknown_code(other);
                ErrorClass::Transient
            }
        };
        failed(class, Some(kind))
    }

    /// Asks to cancel a task.
    pub(crate) async fn cancel(&self, task: &TaskId) -> Cancel {
        let Some(url) = self.request_url(task, Some("cancel")) else { return Cancel::Unknown };
        let Some(answer) = self.wire.query(self.wire.request(Method::PUT, url), "cancel").await else {
            return Cancel::Unknown;
        };
        match answer.status.as_u16() {
            200 | 202 => Cancel::Requested,
            400 if says(&answer.body, "ALREADY_COMPLETED") => Cancel::AlreadyEnded,
            _ => {
                self.wire.unclear("cancel", answer.status);
                Cancel::Unknown
            }
        }
    }

    /// Checks a callback: our HMAC in its address, and fal's signature.
    pub(crate) async fn callback(&self, request: &CallbackRequest<'_>) -> Result<Callback, CallbackError> {
        let (hook, keys) = self.hook.as_ref().ok_or(CallbackError::NotExpected)?;
        let reference = hook.reference(request.query)?;
        if request.body.len() > BODY_BYTES {
            return Err(CallbackError::Unreadable);
        }
        keys.verify(&self.wire, request).await?;
        let told: Told = serde_json::from_slice(request.body).map_err(|_| CallbackError::Unreadable)?;
        Ok(Callback { task: told.request_id, reference })
    }
}

fn says(body: &[u8], words: &str) -> bool {
    let words = words.as_bytes();
    body.windows(words.len()).any(|window| window.eq_ignore_ascii_case(words))
}

/// Validation errors are a list under `detail`, each with a `type`; moderation is one of them.
fn moderated(body: &[u8]) -> bool {
    let told: Value = serde_json::from_slice(body).unwrap_or_default();
    let details = ["/detail", "/error"].iter().filter_map(|pointer| told.pointer(pointer)?.as_array());
    details
        .flatten()
        .any(|detail| detail.get("type").and_then(Value::as_str) == Some("content_policy_violation"))
}
