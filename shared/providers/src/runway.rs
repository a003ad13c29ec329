//! The adapter for Runway.
//!
//! Facts from:
//! - <https://docs.dev.runwayml.com/api> (tasks: create, get, cancel; the version header)
//! - <https://docs.dev.runwayml.com/errors/errors> (which answers may be retried; 504 says nothing about acceptance)
//! - <https://docs.dev.runwayml.com/errors/task-failures> (failure codes)
//! - <https://docs.dev.runwayml.com/assets/outputs> (addresses last 24 to 48 hours, asking again gives fresh ones)
//! - <https://docs.dev.runwayml.com/usage/tiers> (429 refuses a request; `THROTTLED` is a task that was accepted and waits)
//!
//! There is no idempotency key, no list and no callback: after a lost answer a person decides.

use crate::answer::{completed, failed, refusal, rejected, retry_after_ms};
use crate::client::Answer;
use crate::config::{ProvidersError, bad};
use crate::lane::{Defaults, Setup, model_name, vendor_lane};
use crate::secret::Secret;
use crate::wire::Wire;
use glassline_protocol::ids::{LaneName, TaskId};
use glassline_protocol::provider::{
    Cancel, Capabilities, ErrorClass, Output, Recovery, RenderRequest, Submit, TaskState,
};
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value};

const BASE: &str = "https://api.dev.runwayml.com";
const VERSION: &str = "2024-11-06";

vendor_lane! {
    /// A lane served by a Runway organisation.
    RunwayLane {
        /// What is made: `text_to_image`, `text_to_video`, `image_to_video`, …
        pub endpoint: String,
        /// The model.
        pub model: String,
    }
}

/// One lane's Runway organisation.
#[derive(Clone)]
pub(crate) struct RunwayProvider {
    wire: Wire,
    endpoint: String,
    model: String,
}

#[derive(Deserialize)]
struct Created {
    id: TaskId,
}

#[derive(Deserialize)]
struct Task {
    id: TaskId,
    status: String,
    #[serde(default)]
    output: Vec<String>,
    #[serde(default, rename = "failureCode")]
    failure_code: Option<String>,
}

impl RunwayLane {
    pub(crate) fn build(&self, setup: &mut Setup<'_>) -> Result<RunwayProvider, ProvidersError> {
        let lane = setup.lane.clone();
        let common = self.common();
        let defaults = Defaults {
            base_url: Some(BASE.to_owned()),
            submit_ms: 30_000,
            poll_ms: 5_000,
            // More often than every five seconds isn't allowed.
            least_poll_ms: 5_000,
            deadline_ms: 3_600_000,
            output_lifetime_ms: Some(86_400_000),
        };
        let mut wire = common.wire(setup, &defaults, Some((AUTHORIZATION, "Bearer ")))?;
        if !model_name(&self.endpoint) || self.endpoint.contains('/') || !model_name(&self.model) {
            return Err(bad(&lane, "`endpoint` and `model` must be names as Runway writes them"));
        }
        if common.callback_url.is_some() || !common.polled {
            return Err(bad(&lane, "Runway sends no callbacks: leave `callback_url` out and keep it polled"));
        }
        let version = HeaderName::from_static("x-runway-version");
        wire.headers.insert(version, HeaderValue::from_static(VERSION));
        Ok(RunwayProvider { wire, endpoint: self.endpoint.clone(), model: self.model.clone() })
    }
}

impl RunwayProvider {
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.wire.capabilities(Recovery::None)
    }

    /// Sends one POST and says what its answer proves.
    pub(crate) async fn submit(&self, request: &RenderRequest) -> Submit {
        let mut body = match &request.params {
            Value::Object(params) => params.clone(),
            Value::Null => Map::new(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return rejected(ErrorClass::InvalidInput, "params must be an object", None);
            }
        };
        body.insert("model".to_owned(), self.model.clone().into());
        body.insert("promptText".to_owned(), request.prompt.clone().into());
        let Some(url) = self.wire.url(&["v1", &self.endpoint]) else {
            return rejected(ErrorClass::Unauthorized, "the lane's `endpoint` is no address", None);
        };
        match self.wire.submit(self.wire.post_json(url, &Value::Object(body))).await {
            Ok(answer) => self.judge(&answer),
            Err(told) => told,
        }
    }

    fn judge(&self, answer: &Answer) -> Submit {
        if matches!(answer.status.as_u16(), 200 | 201) {
            return match serde_json::from_slice::<Created>(&answer.body) {
                Ok(created) => Submit::Accepted(created.id),
                Err(_) => self.wire.unknown_submit("unreadable", Some(answer.status)),
            };
        }
        match refusal(answer.status) {
            Some((class, sentence)) => rejected(class, sentence, retry_after_ms(answer)),
            None => self.wire.unknown_submit("status", Some(answer.status)),
        }
    }

    /// What Runway says of a task; `Err` is what it means when it says nothing.
    async fn get(&self, task: &TaskId) -> Result<Task, TaskState> {
        let unknown = TaskState::Unknown;
        let Some(url) = self.wire.url(&["v1", "tasks", task.as_str()]) else { return Err(unknown) };
        let Some(answer) = self.wire.query(self.wire.request(Method::GET, url), "status").await else {
            return Err(unknown);
        };
        match answer.status {
            StatusCode::OK => {
                let told = self.wire.read::<Task>(&answer, "status");
                told.filter(|told| told.id == *task).ok_or(unknown)
            }
            StatusCode::NOT_FOUND => Err(TaskState::Missing),
            status => {
                self.wire.unclear("status", status);
                Err(unknown)
            }
        }
    }

    /// Asks for a task.
    pub(crate) async fn status(&self, task: &TaskId) -> TaskState {
        match self.get(task).await {
            Ok(told) => self.state(told),
            Err(state) => state,
        }
    }

    fn state(&self, told: Task) -> TaskState {
        match told.status.as_str() {
            word if under_way(word) => TaskState::Running,
            "SUCCEEDED" => {
                completed(told.output.into_iter().map(|url| Output { url, expires_ms: None }).collect())
            }
            "CANCELLED" => TaskState::Cancelled,
            "FAILED" => {
                let code = told.failure_code.unwrap_or_default();
                let class = class_of(&code).unwrap_or_else(|| {
                    self.wire.unknown_code(&code.to_ascii_lowercase());
                    ErrorClass::Transient
                });
                failed(class, Some(&code.to_ascii_lowercase()))
            }
            word => {
                self.wire.unknown_word(&told.id, &word.to_ascii_lowercase());
                TaskState::Running
            }
        }
    }

    /// Asks to cancel a task. DELETE cancels a task under way and *deletes* one that has ended, output and all, so it is
    /// only sent to one that was just seen under way; a status word that nobody documented may be an end.
    pub(crate) async fn cancel(&self, task: &TaskId) -> Cancel {
        match self.get(task).await {
            Ok(told) if under_way(&told.status) => {}
            Ok(told) if matches!(told.status.as_str(), "SUCCEEDED" | "FAILED" | "CANCELLED") => {
                return Cancel::AlreadyEnded;
            }
            Ok(_) | Err(_) => return Cancel::Unknown,
        }
        let Some(url) = self.wire.url(&["v1", "tasks", task.as_str()]) else { return Cancel::Unknown };
        let Some(answer) = self.wire.query(self.wire.request(Method::DELETE, url), "cancel").await else {
            return Cancel::Unknown;
        };
        if answer.status.is_success() {
            return Cancel::Requested;
        }
        self.wire.unclear("cancel", answer.status);
        Cancel::Unknown
    }
}

/// The statuses of a task that goes on. THROTTLED is one that was accepted and waits for its turn.
fn under_way(word: &str) -> bool {
    matches!(word, "PENDING" | "THROTTLED" | "RUNNING")
}

/// Codes are paths of words with dots. SAFETY anywhere is moderation, of the input or the output.
fn class_of(code: &str) -> Option<ErrorClass> {
    if code.split('.').any(|word| word == "SAFETY") {
        return Some(ErrorClass::Moderated);
    }
    match code.split('.').next().unwrap_or_default() {
        "INTERNAL" if code.starts_with("INTERNAL.BAD_OUTPUT") => Some(ErrorClass::BadOutput),
        "" | "INTERNAL" | "THIRD_PARTY" => Some(ErrorClass::Transient),
        "ASSET" => Some(ErrorClass::InvalidInput),
        "INPUT_PREPROCESSING" if code.starts_with("INPUT_PREPROCESSING.INTERNAL") => {
            Some(ErrorClass::Transient)
        }
        _ => None,
    }
}
