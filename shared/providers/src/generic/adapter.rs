//! The adapter that does what a description says.

use super::api::{Api, CancelCall, Path, Word};
use super::body::{Encoded, body, encode};
use super::pointer::Pointer;
use super::spec::Signature;
use super::template::Template;
use crate::answer::{completed, failed, refusal, refused_as, rejected, retry_after_ms, rfc3339_ms};
use crate::callback::{Callback, CallbackError};
use crate::client::Answer;
use crate::hook::{BODY_BYTES, CallbackRequest, Hook, standard_webhook};
use crate::name::Name;
use crate::text;
use crate::wire::Wire;
use glassline_protocol::ids::TaskId;
use glassline_protocol::provider::{
    Cancel, Capabilities, ErrorClass, Find, Output, Recovery, Reference, RenderRequest, Submit, TaskState,
};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde_json::Value;
use std::sync::Arc;

/// One lane's provider, as described.
#[derive(Clone)]
pub(crate) struct GenericProvider {
    wire: Wire,
    api: Arc<Api>,
    namespace: String,
    body: Value,
    hook: Option<Hook>,
    webhook_keys: Vec<Vec<u8>>,
}

impl GenericProvider {
    pub(super) fn new(
        wire: Wire,
        api: Api,
        namespace: String,
        body: Value,
        hook: Option<Hook>,
        webhook_keys: Vec<Vec<u8>>,
    ) -> Self {
        Self { wire, api: Arc::new(api), namespace, body, hook, webhook_keys }
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        self.wire.capabilities(self.api.recovery)
    }

    /// Where outputs are that are fetched from the API itself, and with what headers.
    pub(crate) fn output_headers(&self) -> Option<(Url, HeaderMap)> {
        let rule = &self.api.output;
        rule.path.as_ref()?;
        let mut headers = HeaderMap::new();
        if rule.with_key {
            headers.extend(self.wire.headers.clone());
        }
        if let Some(accept) = &rule.accept {
            headers.insert(ACCEPT, accept.clone());
        }
        Some((self.wire.base.clone(), headers))
    }

    fn address(
        &self,
        path: &Path,
        query: &[(String, Template)],
        value: &dyn Fn(&str) -> Option<String>,
    ) -> Option<Url> {
        let segments = path.fill(value)?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let mut url = self.wire.url(&segments)?;
        for (name, text) in query {
            // One without a value, such as the address of callbacks that aren't asked for, is left out.
            if let Some(text) = text.fill(value) {
                url.query_pairs_mut().append_pair(name, &text);
            }
        }
        Some(url)
    }

    /// Sends one POST and says what its answer proves.
    pub(crate) async fn submit(&self, request: &RenderRequest, reference: &Reference) -> Submit {
        let call = &self.api.submit;
        let name = Name::new(&self.namespace, reference);
        let hook = self.hook.as_ref().and_then(|hook| hook.address(reference));
        let value = |placeholder: &str| match placeholder {
            "prompt" => Some(request.prompt.clone()),
            "media" => Some(request.media.to_string()),
            "callback_url" => hook.as_ref().map(Url::to_string),
            other => reference_form(&name, other),
        };
        let impossible = || rejected(ErrorClass::InvalidInput, "the request can't be put into a body", None);
        let Some(url) = self.address(&call.path, &call.query, &value) else { return impossible() };
        let Some(body) = body(call, &self.body, &request.params, &value) else { return impossible() };
        let mut post = self.wire.post(url);
        for (header, text) in &call.headers {
            let text = text.fill(&value).and_then(|text| HeaderValue::from_str(&text).ok());
            let Some(text) = text else { return impossible() };
            post = post.header(header, text);
        }
        post = match encode(call.format, &body) {
            Some(Encoded::Json(text)) => post.header(CONTENT_TYPE, "application/json").body(text),
            Some(Encoded::Multipart(form)) => post.multipart(form),
            None => return impossible(),
        };
        match self.wire.submit(post).await {
            Ok(answer) => self.judge(&answer),
            Err(told) => told,
        }
    }

    fn judge(&self, answer: &Answer) -> Submit {
        let call = &self.api.submit;
        let status = answer.status.as_u16();
        let told: Value = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
        let code = first_text(&call.error_code, &told);
        let rule = call.refused.iter().find(|rule| {
            rule.http.is_none_or(|http| http == status)
                && rule.code.as_ref().is_none_or(|wanted| code.as_ref() == Some(wanted))
        });
        let class = match rule {
            Some(rule) => rule.class.map(|class| (class, refused_as(class))),
            None if call.accepted.contains(&status) => {
                let task = call.task.text(&told).and_then(|text| TaskId::new(text).ok());
                return match task {
                    Some(task) => Submit::Accepted(task),
                    None => self.wire.unknown_submit("unreadable", Some(answer.status)),
                };
            }
            None => refusal(answer.status),
        };
        let Some((class, sentence)) = class else {
            return self.wire.unknown_submit("status", Some(answer.status));
        };
        let wait_ms = call.wait_s.as_ref().and_then(|pointer| pointer.text(&told));
        let wait_ms = wait_ms.and_then(|seconds| text::retry_after_ms(&seconds, 0));
        let wait_ms = retry_after_ms(answer).or(wait_ms);
        match code {
            Some(code) => rejected(class, &format!("{sentence} (code `{}`)", text::word(&code)), wait_ms),
            None => rejected(class, sentence, wait_ms),
        }
    }

    /// Asks for a task.
    pub(crate) async fn status(&self, task: &TaskId) -> TaskState {
        let call = &self.api.status;
        let value = |name: &str| (name == "task").then(|| task.to_string());
        let Some(url) = self.address(&call.path, &call.query, &value) else { return TaskState::Unknown };
        // The answer to a status that says all may be the output itself.
        let film = |status: reqwest::StatusCode| call.http.get(&status.as_u16()) == Some(&Word::Completed);
        let request = self.wire.request(Method::GET, url);
        let Some(answer) = self.wire.query_unless(request, "status", film).await else {
            return TaskState::Unknown;
        };
        let told: Value = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
        let word = match call.http.get(&answer.status.as_u16()) {
            Some(word) => *word,
            None if answer.status.is_success() => {
                match call.word.as_ref().and_then(|pointer| pointer.text(&told)) {
                    Some(text) => match call.words.get(&text) {
                        Some(word) => *word,
                        None => {
                            self.wire.unknown_word(task, &text);
                            Word::Running
                        }
                    },
                    None => {
                        self.wire.unclear("status", answer.status);
                        return TaskState::Unknown;
                    }
                }
            }
            None => {
                self.wire.unclear("status", answer.status);
                return TaskState::Unknown;
            }
        };
        self.state(task, word, &told)
    }

    fn state(&self, task: &TaskId, word: Word, told: &Value) -> TaskState {
        let call = &self.api.status;
        let cost = self.api.cost.as_ref().and_then(|(pointer, unit)| Some((pointer.first(told)?, unit)));
        if let Some((amount, unit)) = cost {
            let amount = amount.to_string();
            let (amount, lane) = (text::word(amount.trim_matches('"')), &self.wire.lane);
            tracing::info!(event = "provider_cost_reported", lane = %lane, task = %task, amount, unit);
        }
        match word {
            Word::Running => TaskState::Running,
            Word::Cancelled => TaskState::Cancelled,
            Word::Missing => TaskState::Missing,
            Word::Completed => completed(self.outputs(task, told)),
            Word::FailedAs(class) => failed(class, None),
            Word::Failed => {
                let code = first_text(&call.error_code, told);
                let class = code.as_ref().and_then(|code| call.errors.get(code)).copied();
                if let (Some(code), None) = (&code, class) {
                    self.wire.unknown_code(code);
                }
                failed(class.unwrap_or(ErrorClass::Transient), code.as_deref())
            }
        }
    }

    fn outputs(&self, task: &TaskId, told: &Value) -> Vec<Output> {
        let rule = &self.api.output;
        let items: Vec<&Value> = if rule.items.is_empty() {
            vec![&Value::Null]
        } else {
            rule.items.iter().flat_map(|items| items.all(told)).collect()
        };
        let kept = |item: &&Value| {
            let fits = |(pointer, values): &(Pointer, Vec<String>)| {
                pointer.text(item).is_some_and(|text| values.contains(&text))
            };
            rule.keep.iter().all(fits)
        };
        let output = |item: &Value| {
            let url = match (&rule.url, &rule.path) {
                (Some(pointer), _) => pointer.text(item)?,
                (None, Some(path)) => {
                    let value = |name: &str| match name.strip_prefix("item:") {
                        Some(pointer) => Pointer::parse(pointer).ok()?.text(item),
                        None => (name == "task").then(|| task.to_string()),
                    };
                    self.address(path, &rule.query, &value)?.to_string()
                }
                (None, None) => return None,
            };
            let expires =
                rule.expires.as_ref().and_then(|pointer| pointer.text(item).or_else(|| pointer.text(told)));
            Some(Output { url, expires_ms: expires.and_then(|text| expiry_ms(&text)) })
        };
        items.into_iter().filter(kept).take(64).filter_map(output).collect()
    }

    /// Looks for a render by reference.
    pub(crate) async fn find(&self, reference: &Reference) -> Find {
        let Some(call) = &self.api.find else { return Find::Unknown };
        let name = Name::new(&self.namespace, reference);
        let value = |placeholder: &str| reference_form(&name, placeholder);
        let (Some(url), Some(wanted)) =
            (self.address(&call.path, &call.query, &value), call.equals.fill(&value))
        else {
            return Find::Unknown;
        };
        let Some(answer) = self.wire.query(self.wire.request(Method::GET, url), "find").await else {
            return Find::Unknown;
        };
        if call.absent.contains(&answer.status.as_u16()) {
            return self.not_found();
        }
        let told: Option<Value> = serde_json::from_slice(&answer.body).ok();
        let Some(told) = told.filter(|_| answer.status.is_success()) else {
            self.wire.unclear("find", answer.status);
            return Find::Unknown;
        };
        let items = call.items.all(&told);
        let ours = |item: &&&Value| call.reference.text(item).as_ref() == Some(&wanted);
        let tasks: Vec<TaskId> =
            items.iter().filter(ours).filter_map(|item| TaskId::new(call.task.text(item)?).ok()).collect();
        if tasks.len() > 1 {
            self.wire.paid_twice(name.text());
        }
        match tasks.into_iter().next() {
            Some(task) => Find::Found(task),
            None if items.is_empty() && call.items.many() => self.not_found(),
            // Somebody else's renders: a provider that ignored the filter. It may have left ours out.
            None => Find::Unknown,
        }
    }

    /// Not finding it proves nothing where no settle time is declared.
    fn not_found(&self) -> Find {
        match self.api.recovery {
            Recovery::Lookup { .. } => Find::NotFound,
            Recovery::Key { .. } | Recovery::Callback { .. } | Recovery::None => Find::Unknown,
        }
    }

    /// Asks to cancel a task.
    pub(crate) async fn cancel(&self, task: &TaskId) -> Cancel {
        let mut told = Cancel::Unsupported;
        for call in &self.api.cancel {
            told = self.cancel_by(call, task).await;
            if told == Cancel::Unknown {
                return told;
            }
        }
        told
    }

    async fn cancel_by(&self, call: &CancelCall, task: &TaskId) -> Cancel {
        let value = |name: &str| (name == "task").then(|| task.to_string());
        let Some(url) = self.address(&call.path, &[], &value) else { return Cancel::Unknown };
        let mut request = self.wire.request(call.method.clone(), url);
        if !call.place.is_empty() {
            let mut body = Value::Null;
            for (pointer, template) in &call.place {
                let text = template.fill(&value).unwrap_or_default();
                pointer.put(&mut body, Value::String(text));
            }
            request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let Some(answer) = self.wire.query(request, "cancel").await else { return Cancel::Unknown };
        let status = answer.status.as_u16();
        if call.ended.contains(&status) {
            Cancel::AlreadyEnded
        } else if call.ok.contains(&status) {
            Cancel::Requested
        } else {
            self.wire.unclear("cancel", answer.status);
            Cancel::Unknown
        }
    }

    /// Checks a callback.
    pub(crate) fn callback(&self, request: &CallbackRequest<'_>) -> Result<Callback, CallbackError> {
        let (Some(hook), Some(rule)) = (&self.hook, &self.api.callback) else {
            return Err(CallbackError::NotExpected);
        };
        let reference = hook.reference(request.query)?;
        match rule.signature {
            Signature::Address => {}
            Signature::StandardWebhooks => standard_webhook(request, &self.webhook_keys)?,
        }
        if request.body.len() > BODY_BYTES {
            return Err(CallbackError::Unreadable);
        }
        let told: Value = serde_json::from_slice(request.body).map_err(|_| CallbackError::Unreadable)?;
        let task = rule.task.text(&told).and_then(|text| TaskId::new(text).ok());
        Ok(Callback { task: task.ok_or(CallbackError::Unreadable)?, reference })
    }
}

fn reference_form(name: &Name, form: &str) -> Option<String> {
    match form {
        "reference" => Some(name.text().to_owned()),
        "reference_hash" => Some(name.hash()),
        "reference_uuid" => Some(name.uuid()),
        _ => None,
    }
}

fn first_text(pointers: &[Pointer], told: &Value) -> Option<String> {
    pointers.iter().find_map(|pointer| pointer.text(told).filter(|text| !text.is_empty()))
}

/// A time as RFC 3339, or as seconds or milliseconds since 1970 in digits.
fn expiry_ms(text: &str) -> Option<u64> {
    match text.parse::<u64>() {
        // Seconds reach this in the year 5138, milliseconds passed it in 1973.
        Ok(number) if number < 100_000_000_000 => number.checked_mul(1_000),
        Ok(number) => Some(number),
        Err(_) => rfc3339_ms(text),
    }
}
