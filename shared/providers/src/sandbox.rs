//! The adapter for Glassline's own sandbox provider; its API and error codes are documented in `glassline-sandbox`.

use crate::answer::{completed, rejected, retry_after_ms};
use crate::callback::{Callback, CallbackError, verify_callback};
use crate::client::{Answer, Clients, NoAnswer, call};
use crate::config::SandboxLane;
use crate::hook::CallbackRequest;
use crate::secret::Secret;
use crate::text;
use glassline_protocol::ids::{LaneName, TaskId};
use glassline_protocol::provider::{
    Cancel, Capabilities, ErrorClass, Find, Media, Output, Recovery, Reference, RenderRequest, Submit,
    TaskState,
};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{RequestBuilder, StatusCode, Url};
use serde::{Deserialize, Serialize};

/// One lane's sandbox account.
#[derive(Clone)]
pub(crate) struct SandboxProvider {
    lane: LaneName,
    base: Url,
    bearer: HeaderValue,
    /// What its callbacks are signed with, if it is asked for any.
    callback_secrets: Vec<Secret>,
    clients: Clients,
    config: SandboxLane,
}

#[derive(Serialize)]
struct RenderBody<'a> {
    prompt: &'a str,
    params: &'a serde_json::Value,
    media: Media,
    reference: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    callback_url: Option<&'a str>,
}

#[derive(Deserialize)]
struct Created {
    id: TaskId,
}

#[derive(Deserialize)]
struct Task {
    id: TaskId,
    #[serde(default)]
    reference: Option<String>,
    status: String,
    #[serde(default)]
    outputs: Vec<Output>,
    #[serde(default)]
    error: Option<Problem>,
}

#[derive(Deserialize)]
struct Tasks {
    renders: Vec<Task>,
}

#[derive(Deserialize)]
struct Refused {
    error: Problem,
}

#[derive(Deserialize)]
struct Problem {
    code: String,
    #[serde(default)]
    param: Option<String>,
}

impl SandboxProvider {
    /// An adapter for a checked configuration; `None` if the key can't go into a header.
    pub(crate) fn new(
        lane: LaneName,
        base: Url,
        key: &Secret,
        clients: Clients,
        config: SandboxLane,
    ) -> Option<Self> {
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", key.expose())).ok()?;
        bearer.set_sensitive(true);
        // The key is in the header now; one copy is enough.
        let callback_secrets = match (&config.callback_url, &config.callback_secret) {
            (None, _) => Vec::new(),
            (Some(_), Some(secret)) => vec![secret.clone()],
            (Some(_), None) => vec![key.clone()],
        };
        let config = SandboxLane { api_key: None, callback_secret: None, ..config };
        Some(Self { lane, base, bearer, callback_secrets, clients, config })
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        self.config.capabilities()
    }

    /// Checks a callback.
    pub(crate) fn callback(&self, request: &CallbackRequest<'_>) -> Result<Callback, CallbackError> {
        if self.callback_secrets.is_empty() {
            return Err(CallbackError::NotExpected);
        }
        verify_callback(request.headers, request.body, request.now_ms, &self.callback_secrets)
    }

    /// Sends one POST and says what its answer proves.
    pub(crate) async fn submit(&self, request: &RenderRequest, reference: &Reference) -> Submit {
        let name = reference.to_string();
        let body = RenderBody {
            prompt: &request.prompt,
            params: &request.params,
            media: request.media,
            reference: &name,
            callback_url: self.config.callback_url.as_deref(),
        };
        let (Some(url), Ok(body)) = (self.url(&["v1", "renders"]), serde_json::to_vec(&body)) else {
            return rejected(ErrorClass::InvalidInput, "the request can't be put into JSON", None);
        };
        let json = HeaderValue::from_static("application/json");
        let mut post = self.clients.submit.post(url).header(CONTENT_TYPE, json).body(body);
        match self.config.recovery {
            Recovery::Key { .. } => post = post.header("idempotency-key", &name),
            Recovery::Lookup { .. } | Recovery::Callback { .. } | Recovery::None => {}
        }
        match call(self.with_key(post), self.config.submit_timeout_ms).await {
            Ok(answer) => self.judge(&answer, &request.prompt),
            Err(NoAnswer::NotSent) => {
                rejected(ErrorClass::Transient, "no connection to the provider; nothing was sent", None)
            }
            Err(why @ (NoAnswer::TimedOut | NoAnswer::Broken | NoAnswer::TooLong)) => {
                self.unknown_submit(why.word(), None)
            }
        }
    }

    fn judge(&self, answer: &Answer, prompt: &str) -> Submit {
        if matches!(answer.status, StatusCode::OK | StatusCode::CREATED) {
            return match serde_json::from_slice::<Created>(&answer.body) {
                Ok(created) => Submit::Accepted(created.id),
                Err(_) => self.unknown_submit("unreadable", Some(answer.status)),
            };
        }
        let problem = serde_json::from_slice::<Refused>(&answer.body).ok().map(|refused| refused.error);
        let known = problem.as_ref().and_then(|problem| documented(answer.status, &problem.code));
        let (Some(problem), Some((class, sentence))) = (problem, known) else {
            return self.unknown_submit("status", Some(answer.status));
        };
        let retry_after_ms = retry_after_ms(answer);
        match problem.param.as_deref().and_then(|name| text::field(name, prompt)) {
            Some(name) => rejected(class, &format!("{sentence} (field `{name}`)"), retry_after_ms),
            None => rejected(class, sentence, retry_after_ms),
        }
    }

    fn unknown_submit(&self, why: &'static str, status: Option<StatusCode>) -> Submit {
        let status = status.map(|status| status.as_u16());
        tracing::warn!(event = "provider_submit_unknown", lane = %self.lane, why, status);
        Submit::Unknown
    }

    /// Asks for a task.
    pub(crate) async fn status(&self, task: &TaskId) -> TaskState {
        let Some(url) = self.url(&["v1", "renders", task.as_str()]) else { return TaskState::Unknown };
        let Some(answer) = self.query(self.clients.query.get(url), "status").await else {
            return TaskState::Unknown;
        };
        match answer.status {
            StatusCode::OK => match serde_json::from_slice::<Task>(&answer.body) {
                Ok(told) if told.id == *task => self.state(told),
                Ok(_) | Err(_) => {
                    self.unclear("status", answer.status);
                    TaskState::Unknown
                }
            },
            // A gateway's 404 has no such body and says nothing about the task.
            StatusCode::NOT_FOUND if code_of(&answer).as_deref() == Some("not_found") => TaskState::Missing,
            status => {
                self.unclear("status", status);
                TaskState::Unknown
            }
        }
    }

    fn state(&self, told: Task) -> TaskState {
        match told.status.as_str() {
            "queued" | "running" => TaskState::Running,
            "cancelled" => TaskState::Cancelled,
            "succeeded" => completed(told.outputs),
            "failed" => self.failed(told.error),
            word => {
                let word = text::word(word);
                tracing::warn!(event = "provider_status_word_unknown", lane = %self.lane, task = %told.id, word);
                TaskState::Running
            }
        }
    }

    fn failed(&self, error: Option<Problem>) -> TaskState {
        let code = error.map(|problem| problem.code).unwrap_or_default();
        let (class, reason) = match code.as_str() {
            "render_failed" => (ErrorClass::Transient, "the render failed at the provider".to_owned()),
            "content_moderated" => {
                (ErrorClass::Moderated, "the provider's moderation refused the output".to_owned())
            }
            "invalid_request" => {
                (ErrorClass::InvalidInput, "the provider can't render this request".to_owned())
            }
            other => {
                let code = text::word(other);
                tracing::warn!(event = "provider_error_code_unknown", lane = %self.lane, code);
                (ErrorClass::Transient, format!("the render failed at the provider (code `{code}`)"))
            }
        };
        TaskState::Failed { class, reason }
    }

    /// Looks for a render by reference.
    pub(crate) async fn find(&self, reference: &Reference) -> Find {
        let name = reference.to_string();
        let Some(mut url) = self.url(&["v1", "renders"]) else { return Find::Unknown };
        url.query_pairs_mut().append_pair("reference", &name);
        let Some(answer) = self.query(self.clients.query.get(url), "find").await else {
            return Find::Unknown;
        };
        let told = serde_json::from_slice::<Tasks>(&answer.body).ok();
        let Some(Tasks { renders }) = told.filter(|_| answer.status == StatusCode::OK) else {
            self.unclear("find", answer.status);
            return Find::Unknown;
        };
        // A provider that ignored the filter would have us adopt somebody else's render.
        let strangers = renders.iter().any(|task| task.reference.as_ref() != Some(&name));
        let mut ours = renders.into_iter().filter(|task| task.reference.as_ref() == Some(&name));
        let oldest = ours.next();
        if ours.next().is_some() {
            tracing::error!(event = "provider_reference_paid_twice", lane = %self.lane, reference = %name);
        }
        match oldest {
            Some(task) => Find::Found(task.id),
            None if strangers => Find::Unknown,
            None => match self.config.recovery {
                Recovery::Lookup { .. } => Find::NotFound,
                // Without a declared settle time, not finding it proves nothing.
                Recovery::Key { .. } | Recovery::Callback { .. } | Recovery::None => Find::Unknown,
            },
        }
    }

    /// Asks to cancel a task.
    pub(crate) async fn cancel(&self, task: &TaskId) -> Cancel {
        let Some(url) = self.url(&["v1", "renders", task.as_str(), "cancel"]) else { return Cancel::Unknown };
        let Some(answer) = self.query(self.clients.query.post(url), "cancel").await else {
            return Cancel::Unknown;
        };
        match answer.status {
            StatusCode::OK => Cancel::Requested,
            StatusCode::CONFLICT if code_of(&answer).as_deref() == Some("already_ended") => {
                Cancel::AlreadyEnded
            }
            status => {
                self.unclear("cancel", status);
                Cancel::Unknown
            }
        }
    }

    async fn query(&self, request: RequestBuilder, what: &'static str) -> Option<Answer> {
        match call(self.with_key(request), self.config.query_timeout_ms).await {
            Ok(answer) => Some(answer),
            Err(why) => {
                tracing::warn!(event = "provider_no_answer", lane = %self.lane, call = what, why = why.word());
                None
            }
        }
    }

    fn unclear(&self, what: &'static str, status: StatusCode) {
        let status = status.as_u16();
        tracing::warn!(event = "provider_answer_unclear", lane = %self.lane, call = what, status);
    }

    fn with_key(&self, request: RequestBuilder) -> RequestBuilder {
        request.header(AUTHORIZATION, self.bearer.clone())
    }

    /// An address below the base; every segment is escaped. `None` for segments that an address can't hold: `.` and
    /// `..` would be left out, and a task's address would become that of the list.
    fn url(&self, segments: &[&str]) -> Option<Url> {
        if segments.iter().any(|segment| matches!(*segment, "." | "..")) {
            return None;
        }
        let mut url = self.base.clone();
        url.path_segments_mut().ok()?.pop_if_empty().extend(segments);
        Some(url)
    }
}

/// The refusals that are documented to come before anything is accepted. 422 `idempotency_mismatch` isn't one: it says
/// that an earlier POST under this key was.
fn documented(status: StatusCode, code: &str) -> Option<(ErrorClass, &'static str)> {
    match (status.as_u16(), code) {
        (400, "invalid_request") => {
            Some((ErrorClass::InvalidInput, "the provider can't read or use the request"))
        }
        (400, "content_moderated") => {
            Some((ErrorClass::Moderated, "the provider's moderation refused the request"))
        }
        (401, "unauthorized") => Some((ErrorClass::Unauthorized, "the provider refused the API key")),
        (402, "payment_required") => {
            Some((ErrorClass::PaymentRequired, "the provider account has no credit left"))
        }
        (413, "payload_too_large") => {
            Some((ErrorClass::InvalidInput, "the request is too large for the provider"))
        }
        (429, "rate_limited") => {
            Some((ErrorClass::Throttled, "the provider has too many requests of this account"))
        }
        _ => None,
    }
}

fn code_of(answer: &Answer) -> Option<String> {
    serde_json::from_slice::<Refused>(&answer.body).ok().map(|refused| refused.error.code)
}
