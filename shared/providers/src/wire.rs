//! The HTTP that all adapters share: one POST for a submit, repeatable queries, and the log events of both.

use crate::answer::rejected;
use crate::client::{Answer, Clients, NoAnswer, QUERY_BYTES, call_within};
use crate::text;
use glassline_protocol::ids::{LaneName, TaskId};
use glassline_protocol::provider::{Capabilities, ErrorClass, Recovery, Submit};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The times of a lane, checked.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) submit_ms: u64,
    pub(crate) query_ms: u64,
    pub(crate) poll_ms: u64,
    pub(crate) deadline_ms: u64,
    pub(crate) output_lifetime_ms: Option<u64>,
}

/// One lane's way to its provider.
#[derive(Clone)]
pub(crate) struct Wire {
    pub(crate) lane: LaneName,
    pub(crate) base: Url,
    /// What every request carries; credentials among it are marked sensitive.
    pub(crate) headers: HeaderMap,
    pub(crate) clients: Clients,
    pub(crate) times: Times,
    pub(crate) polled: bool,
}

impl Wire {
    /// What the lane declares, with what its provider offers after a lost answer.
    pub(crate) fn capabilities(&self, recovery: Recovery) -> Capabilities {
        Capabilities {
            recovery,
            polled: self.polled,
            submit_timeout_ms: self.times.submit_ms,
            poll_ms: self.times.poll_ms,
            deadline_ms: self.times.deadline_ms,
            output_lifetime_ms: self.times.output_lifetime_ms,
        }
    }

    /// An address below the base; every segment is escaped. `None` for segments that an address can't hold: `.` and
    /// `..` would be left out, and a task's address would become that of the list.
    pub(crate) fn url(&self, segments: &[&str]) -> Option<Url> {
        if segments.iter().any(|segment| matches!(*segment, "." | ".." | "")) {
            return None;
        }
        let mut url = self.base.clone();
        url.path_segments_mut().ok()?.pop_if_empty().extend(segments);
        Some(url)
    }

    /// A submit's POST with a JSON body.
    pub(crate) fn post_json(&self, url: Url, body: &Value) -> RequestBuilder {
        // A `Value` has text keys only, so it can always be written.
        let json = HeaderValue::from_static("application/json");
        self.post(url).header(CONTENT_TYPE, json).body(body.to_string())
    }

    /// A submit's POST, over a connection of its own.
    pub(crate) fn post(&self, url: Url) -> RequestBuilder {
        self.clients.submit.post(url).headers(self.headers.clone())
    }

    /// Any other request.
    pub(crate) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.clients.query.request(method, url).headers(self.headers.clone())
    }

    /// Sends a submit's POST, once. `Err` is what an answer that never came means. Some vendors echo the whole input, so
    /// the limit is that of queries.
    pub(crate) async fn submit(&self, post: RequestBuilder) -> Result<Answer, Submit> {
        match call_within(post, self.times.submit_ms, QUERY_BYTES, |_| false).await {
            Ok(answer) => Ok(answer),
            Err(NoAnswer::NotSent) => {
                let reason = "no connection to the provider; nothing was sent";
                Err(rejected(ErrorClass::Transient, reason, None))
            }
            Err(why @ (NoAnswer::TimedOut | NoAnswer::Broken | NoAnswer::TooLong)) => {
                Err(self.unknown_submit(why.word(), None))
            }
        }
    }

    /// Sends a request that may be repeated.
    pub(crate) async fn query(&self, request: RequestBuilder, what: &'static str) -> Option<Answer> {
        self.query_unless(request, what, |_| false).await
    }

    /// The same; the body of a status that is to be `skipped` is left unread.
    pub(crate) async fn query_unless(
        &self,
        request: RequestBuilder,
        what: &'static str,
        skipped: impl Fn(StatusCode) -> bool,
    ) -> Option<Answer> {
        match call_within(request, self.times.query_ms, QUERY_BYTES, skipped).await {
            Ok(answer) => Some(answer),
            Err(why) => {
                tracing::warn!(event = "provider_no_answer", lane = %self.lane, call = what, why = why.word());
                None
            }
        }
    }

    /// The JSON of an answer; one that can't be read is logged.
    pub(crate) fn read<T: DeserializeOwned>(&self, answer: &Answer, what: &'static str) -> Option<T> {
        let read = serde_json::from_slice(&answer.body).ok();
        if read.is_none() {
            self.unclear(what, answer.status);
        }
        read
    }

    /// Nobody can tell what became of a submit.
    pub(crate) fn unknown_submit(&self, why: &'static str, status: Option<StatusCode>) -> Submit {
        let status = status.map(|status| status.as_u16());
        tracing::warn!(event = "provider_submit_unknown", lane = %self.lane, why, status);
        Submit::Unknown
    }

    /// An answer that is not in the documented form.
    pub(crate) fn unclear(&self, what: &'static str, status: StatusCode) {
        let status = status.as_u16();
        tracing::warn!(event = "provider_answer_unclear", lane = %self.lane, call = what, status);
    }

    /// A status word that isn't documented: the task counts as running.
    pub(crate) fn unknown_word(&self, task: &TaskId, word: &str) {
        let word = text::word(word);
        tracing::warn!(event = "provider_status_word_unknown", lane = %self.lane, task = %task, word);
    }

    /// An error code that isn't documented: the failure counts as passing.
    pub(crate) fn unknown_code(&self, code: &str) {
        let code = text::word(code);
        tracing::warn!(event = "provider_error_code_unknown", lane = %self.lane, code);
    }

    /// Two renders were accepted under one of our references.
    pub(crate) fn paid_twice(&self, reference: &str) {
        tracing::error!(event = "provider_reference_paid_twice", lane = %self.lane, reference);
    }
}
