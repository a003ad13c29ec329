//! The adapter for Replicate.
//!
//! Facts from:
//! - <https://replicate.com/docs/reference/http> (predictions: create, get, list, cancel)
//! - <https://replicate.com/docs/topics/predictions/lifecycle> (statuses) and
//!   <https://replicate.com/changelog/2025-10-16-prediction-deadlines> (`aborted`: its deadline came before its start)
//! - <https://replicate.com/docs/topics/predictions/data-retention> (inputs and outputs are removed after an hour)
//! - <https://replicate.com/docs/topics/predictions/rate-limits> (429 and its sentence)
//! - <https://replicate.com/docs/topics/webhooks/verify-webhook> (signature)
//!
//! There is no idempotency key. A lost submit is found by the address that we asked callbacks to: a prediction shows its
//! `webhook` (the type has it in <https://github.com/replicate/replicate-javascript> and
//! <https://github.com/replicate/replicate-go>). Not finding it counts only if every prediction since then could be read
//! and each showed somebody else's address, so a list that doesn't show the field never proves anything.

use crate::answer::{completed, failed, refusal, rejected, retry_after_ms, rfc3339_ms, to_rfc3339};
use crate::callback::{Callback, CallbackError};
use crate::client::Answer;
use crate::config::{ProvidersError, bad};
use crate::hook::{BODY_BYTES, CallbackRequest, Hook, standard_webhook, webhook_key};
use crate::lane::{Defaults, SecretSource, Setup, model_name, span, vendor_lane};
use crate::secret::Secret;
use crate::text;
use crate::wire::Wire;
use glassline_protocol::ids::{LaneName, Ms, TaskId};
use glassline_protocol::provider::{
    Cancel, Capabilities, ErrorClass, Find, Output, Recovery, Reference, RenderRequest, Submit, TaskState,
};
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Map, Value, json};

const BASE: &str = "https://api.replicate.com/v1";
const HOUR_MS: u64 = 3_600_000;
/// How far the provider's clock may be behind ours.
const CLOCKS_MS: u64 = 300_000;
/// How many pages of 100 predictions a lookup reads.
const PAGES: usize = 20;
/// How many predictions it reads one by one because the list doesn't show their callback address.
const SINGLES: usize = 20;

vendor_lane! {
    /// A lane served by a Replicate account. Give exactly one of `model` and `version`.
    ReplicateLane {
        /// An official model, `owner/name`.
        #[serde(default)]
        pub model: Option<String>,
        /// A version: its id, or `owner/name:id`.
        #[serde(default)]
        pub version: Option<String>,
        /// Where in `output` the address stands, as a JSON pointer; without it the first address anywhere in it is
        /// taken.
        #[serde(default)]
        pub output: Option<String>,
        /// Replicate's own secrets for the signatures of its callbacks (`whsec_…`).
        #[serde(default)]
        pub webhook_secrets: Vec<SecretSource>,
        /// A prediction that isn't found counts as never accepted only this long after its submit could last have been
        /// sent, in milliseconds.
        #[serde(default)]
        pub settle_ms: Option<u64>,
        /// Asks Replicate to give a prediction up after this many seconds, 5 at least (`Cancel-After`).
        #[serde(default)]
        pub cancel_after_s: Option<u64>,
    }
}

/// One lane's Replicate account.
#[derive(Clone)]
pub(crate) struct ReplicateProvider {
    wire: Wire,
    create: Url,
    version: Option<String>,
    output: Option<String>,
    cancel_after_s: Option<u64>,
    hook: Option<Hook>,
    keys: Vec<Vec<u8>>,
    settle_ms: u64,
}

#[derive(Deserialize)]
struct Prediction {
    id: TaskId,
    status: String,
    #[serde(default)]
    output: Value,
    #[serde(default)]
    error: Value,
    #[serde(default)]
    completed_at: Option<String>,
    #[serde(default)]
    webhook: Option<String>,
    #[serde(default)]
    metrics: Value,
}

#[derive(Deserialize)]
struct Created {
    id: TaskId,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    next: Option<String>,
    results: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    id: TaskId,
    #[serde(default)]
    created_at: Option<String>,
    #[serde(default)]
    webhook: Option<String>,
}

impl ReplicateLane {
    pub(crate) fn build(&self, setup: &mut Setup<'_>) -> Result<ReplicateProvider, ProvidersError> {
        let lane = setup.lane.clone();
        let common = self.common();
        let defaults = Defaults {
            base_url: Some(BASE.to_owned()),
            submit_ms: 30_000,
            poll_ms: 5_000,
            least_poll_ms: 1,
            // Runs end after 30 minutes; waiting in the queue comes on top.
            deadline_ms: HOUR_MS,
            output_lifetime_ms: Some(HOUR_MS),
        };
        let wire = common.wire(setup, &defaults, Some((AUTHORIZATION, "Bearer ")))?;
        let create = match (&self.model, &self.version) {
            (Some(model), None) if model_name(model) && model.split('/').count() == 2 => {
                let (owner, name) = model.split_once('/').unwrap_or_default();
                wire.url(&["models", owner, name, "predictions"])
            }
            (None, Some(version)) if model_name(version) => wire.url(&["predictions"]),
            (Some(_) | None, Some(_)) | (Some(_), None) | (None, None) => None,
        };
        let rule = "give exactly one of `model` (`owner/name`) and `version`";
        let create = create.ok_or_else(|| bad(&lane, rule))?;
        let hook = common.hook(setup)?;
        let mut keys = Vec::new();
        for source in &self.webhook_secrets {
            let key = webhook_key(&setup.secret(source)?);
            keys.push(key.ok_or_else(|| bad(&lane, "each of `webhook_secrets` is base64, after `whsec_`"))?);
        }
        if hook.is_some() == keys.is_empty() {
            return Err(bad(&lane, "`callback_url` and `webhook_secrets` need each other"));
        }
        if self.cancel_after_s.is_some_and(|after_s| !(5..=86_400).contains(&after_s)) {
            return Err(bad(&lane, "`cancel_after_s` must be from 5 s to a day"));
        }
        if self.output.as_ref().is_some_and(|pointer| !pointer.is_empty() && !pointer.starts_with('/')) {
            return Err(bad(&lane, "`output` must be a JSON pointer"));
        }
        let settle_ms = self.settle_ms.unwrap_or(120_000);
        let settle_ms = span(&lane, settle_ms, "`settle_ms` must be from 1 ms to a year")?;
        Ok(ReplicateProvider {
            wire,
            create,
            version: self.version.clone(),
            output: self.output.clone(),
            cancel_after_s: self.cancel_after_s,
            hook,
            keys,
            settle_ms,
        })
    }
}

impl ReplicateProvider {
    /// Without callbacks nothing at Replicate carries our reference.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.wire.capabilities(match self.hook {
            Some(_) => Recovery::Lookup { settle_ms: self.settle_ms },
            None => Recovery::None,
        })
    }

    /// Sends one POST and says what its answer proves.
    pub(crate) async fn submit(&self, request: &RenderRequest, reference: &Reference) -> Submit {
        let mut input = match &request.params {
            Value::Object(params) => params.clone(),
            Value::Null => Map::new(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return rejected(ErrorClass::InvalidInput, "params must be an object", None);
            }
        };
        input.insert("prompt".to_owned(), request.prompt.clone().into());
        let mut body = json!({ "input": input });
        if let Some(version) = &self.version {
            body["version"] = version.clone().into();
        }
        if let Some(address) = self.hook.as_ref().and_then(|hook| hook.address(reference)) {
            body["webhook"] = address.to_string().into();
            body["webhook_events_filter"] = json!(["completed"]);
        }
        let mut post = self.wire.post_json(self.create.clone(), &body);
        if let Some(after_s) = self.cancel_after_s {
            post = post.header(HeaderName::from_static("cancel-after"), HeaderValue::from(after_s));
        }
        match self.wire.submit(post).await {
            Ok(answer) => self.judge(&answer),
            Err(told) => told,
        }
    }

    fn judge(&self, answer: &Answer) -> Submit {
        if matches!(answer.status.as_u16(), 200..=202) {
            return match serde_json::from_slice::<Created>(&answer.body) {
                Ok(created) => Submit::Accepted(created.id),
                Err(_) => self.wire.unknown_submit("unreadable", Some(answer.status)),
            };
        }
        match refusal(answer.status) {
            Some((class, sentence)) => {
                let wait_ms = retry_after_ms(answer).or_else(|| resets_in_ms(answer));
                rejected(class, sentence, wait_ms)
            }
            None => self.wire.unknown_submit("status", Some(answer.status)),
        }
    }

    async fn get(&self, task: &TaskId, what: &'static str) -> Option<(StatusCode, Option<Prediction>)> {
        let url = self.wire.url(&["predictions", task.as_str()])?;
        let answer = self.wire.query(self.wire.request(Method::GET, url), what).await?;
        let told = match answer.status {
            StatusCode::OK => serde_json::from_slice(&answer.body).ok(),
            _ => None,
        };
        Some((answer.status, told.filter(|told: &Prediction| told.id == *task)))
    }

    /// Asks for a task.
    pub(crate) async fn status(&self, task: &TaskId) -> TaskState {
        match self.get(task, "status").await {
            Some((_, Some(told))) => self.state(told),
            Some((StatusCode::NOT_FOUND, None)) => TaskState::Missing,
            Some((status, None)) => {
                self.wire.unclear("status", status);
                TaskState::Unknown
            }
            None => TaskState::Unknown,
        }
    }

    fn state(&self, told: Prediction) -> TaskState {
        if let Some(seconds) = told.metrics.get("predict_time").and_then(Value::as_f64) {
            let (lane, task) = (&self.wire.lane, &told.id);
            tracing::info!(event = "provider_cost_reported", lane = %lane, task = %task, amount = seconds, unit = "predict_s");
        }
        match told.status.as_str() {
            "starting" | "processing" => TaskState::Running,
            "succeeded" => completed(self.outputs(&told)),
            "failed" => failed(class_of(&told.error), None),
            "canceled" => TaskState::Cancelled,
            // It waited too long and never started; public models aren't charged for it.
            "aborted" => failed(ErrorClass::Transient, Some("aborted")),
            word => {
                self.wire.unknown_word(&told.id, word);
                TaskState::Running
            }
        }
    }

    fn outputs(&self, told: &Prediction) -> Vec<Output> {
        let expires_ms = told.completed_at.as_deref().and_then(rfc3339_ms);
        let lifetime_ms = self.wire.times.output_lifetime_ms.unwrap_or(HOUR_MS);
        let expires_ms = expires_ms.map(|ended_ms| ended_ms.saturating_add(lifetime_ms));
        let within = match &self.output {
            Some(pointer) => told.output.pointer(pointer).unwrap_or(&Value::Null),
            None => &told.output,
        };
        let mut found = Vec::new();
        addresses(within, 4, &mut found);
        found.into_iter().map(|url| Output { url, expires_ms }).collect()
    }

    /// Looks through the predictions since the attempt's start for our callback address.
    pub(crate) async fn find(&self, reference: &Reference, since_ms: Ms) -> Find {
        let Some(hook) = &self.hook else { return Find::Unknown };
        let since_ms = since_ms.saturating_sub(CLOCKS_MS);
        let (Some(mut url), Some(since)) = (self.wire.url(&["predictions"]), to_rfc3339(since_ms)) else {
            return Find::Unknown;
        };
        url.query_pairs_mut().append_pair("created_after", &since);
        let (mut next, mut ours, mut singles) = (Some(url), Vec::new(), 0);
        for _ in 0..PAGES {
            let Some(url) = next.take() else { break };
            let Some(answer) = self.wire.query(self.wire.request(Method::GET, url), "find").await else {
                return Find::Unknown;
            };
            let page =
                (answer.status == StatusCode::OK).then(|| serde_json::from_slice::<Page>(&answer.body));
            let Some(Ok(page)) = page else {
                self.wire.unclear("find", answer.status);
                return Find::Unknown;
            };
            for listed in page.results {
                // A list that ignored the time filter ends here.
                if listed.created_at.as_deref().and_then(rfc3339_ms).is_some_and(|at_ms| at_ms < since_ms) {
                    continue;
                }
                let address = match listed.webhook {
                    Some(address) => Some(address),
                    None if singles < SINGLES => {
                        singles += 1;
                        match self.get(&listed.id, "find").await {
                            Some((_, Some(told))) => told.webhook,
                            Some((_, None)) | None => return Find::Unknown,
                        }
                    }
                    None => None,
                };
                match address {
                    Some(address) if hook.is_for(&address, reference) => ours.push(listed.id),
                    Some(_) => {}
                    // It doesn't say whose it is, so it may be ours.
                    None => return found(&self.wire, ours, reference).unwrap_or(Find::Unknown),
                }
            }
            next = match page.next {
                Some(address) => match self.own(&address) {
                    Some(url) => Some(url),
                    None => return Find::Unknown,
                },
                None => None,
            };
        }
        match (found(&self.wire, ours, reference), next) {
            (Some(found), _) => found,
            (None, None) => Find::NotFound,
            (None, Some(_)) => Find::Unknown,
        }
    }

    /// The address of a next page, if it is one of the API's own: our key goes there.
    fn own(&self, address: &str) -> Option<Url> {
        let url = self.wire.base.join(address).ok()?;
        (url.origin() == self.wire.base.origin() && url.path().starts_with(self.wire.base.path()))
            .then_some(url)
    }

    /// Asks to cancel a task.
    pub(crate) async fn cancel(&self, task: &TaskId) -> Cancel {
        let Some(url) = self.wire.url(&["predictions", task.as_str(), "cancel"]) else {
            return Cancel::Unknown;
        };
        let Some(answer) = self.wire.query(self.wire.request(Method::POST, url), "cancel").await else {
            return Cancel::Unknown;
        };
        if answer.status.is_success() {
            return Cancel::Requested;
        }
        self.wire.unclear("cancel", answer.status);
        Cancel::Unknown
    }

    /// Checks a callback: our HMAC in its address, and Replicate's signature.
    pub(crate) fn callback(&self, request: &CallbackRequest<'_>) -> Result<Callback, CallbackError> {
        let hook = self.hook.as_ref().ok_or(CallbackError::NotExpected)?;
        let reference = hook.reference(request.query)?;
        standard_webhook(request, &self.keys)?;
        if request.body.len() > BODY_BYTES {
            return Err(CallbackError::Unreadable);
        }
        let told: Created = serde_json::from_slice(request.body).map_err(|_| CallbackError::Unreadable)?;
        Ok(Callback { task: told.id, reference })
    }
}

/// The oldest of what was found: a list has the newest first.
fn found(wire: &Wire, ours: Vec<TaskId>, reference: &Reference) -> Option<Find> {
    if ours.len() > 1 {
        wire.paid_twice(&reference.to_string());
    }
    ours.into_iter().next_back().map(Find::Found)
}

/// The addresses in an output of any shape, in order.
fn addresses(value: &Value, depth: u32, found: &mut Vec<String>) {
    match value {
        Value::String(text) if text.starts_with("http://") || text.starts_with("https://") => {
            found.push(text.clone());
        }
        Value::Array(items) if depth > 0 => {
            items.iter().take(64).for_each(|item| addresses(item, depth - 1, found));
        }
        Value::Object(members) if depth > 0 => {
            members.values().take(64).for_each(|item| addresses(item, depth - 1, found));
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {}
    }
}

/// Replicate's errors are sentences of the model; moderation is known by these words in them (official models end theirs
/// with the code E005, "flagged as sensitive"; others say "NSFW").
fn class_of(error: &Value) -> ErrorClass {
    let text = error.as_str().unwrap_or_default();
    let moderated = ["E005", "NSFW", "flagged as sensitive"].iter().any(|words| text.contains(words));
    if moderated { ErrorClass::Moderated } else { ErrorClass::Transient }
}

/// The wait in "Request was throttled. Your rate limit resets in ~30s."
fn resets_in_ms(answer: &Answer) -> Option<u64> {
    let told: Value = serde_json::from_slice(&answer.body).ok()?;
    let (_, rest) = told.get("detail")?.as_str()?.split_once("resets in ~")?;
    let (seconds, _) = rest.split_once('s')?;
    text::retry_after_ms(seconds, 0)
}
