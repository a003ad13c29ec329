//! The adapter for Amazon Bedrock's asynchronous invocations.
//!
//! Facts from:
//! - <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_StartAsyncInvoke.html> (client request token:
//!   1 to 256 visible ASCII characters; errors and their statuses)
//! - <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_GetAsyncInvoke.html> (statuses)
//! - <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ListAsyncInvokes.html> (each summary shows its
//!   client request token; filter by time of submit)
//! - <https://docs.aws.amazon.com/nova/latest/userguide/video-gen-access.html> (the output is `output.mp4` under the
//!   address that the answer names)
//!
//! The client request token is our reference, so a submit that AWS sees twice runs once. How long it remembers a token
//! isn't published, so by default a lost submit is found in the list, which shows the token, and the token is a second
//! guard. The output goes straight into our own bucket: its address is `s3://bucket/key` and doesn't expire.

use crate::answer::{completed, failed, refusal, rejected, retry_after_ms, to_rfc3339};
use crate::client::Answer;
use crate::config::{ProvidersError, bad};
use crate::lane::{Defaults, Setup, span, vendor_lane};
use crate::name::Name;
use crate::secret::Secret;
use crate::sigv4::Signer;
use crate::wire::Wire;
use glassline_protocol::ids::{LaneName, Ms, TaskId};
use glassline_protocol::provider::{
    Cancel, Capabilities, ErrorClass, Find, Output, Recovery, Reference, RenderRequest, Submit, TaskState,
};
use reqwest::{Method, RequestBuilder, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Value, json};

/// How far AWS's clock may be behind ours.
const CLOCKS_MS: u64 = 300_000;
/// How many pages of a lookup are read.
const PAGES: usize = 20;

vendor_lane! {
    /// A lane served by Amazon Bedrock. Requests are signed with the credentials in the environment
    /// (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`), as a function on Lambda has them.
    BedrockLane {
        /// The region, such as `us-east-1`.
        pub region: String,
        /// The model, such as `amazon.nova-reel-v1:1`.
        pub model_id: String,
        /// Where outputs go: `s3://bucket` or `s3://bucket/prefix`.
        pub output_s3: String,
        /// The AWS account that owns the bucket, if another's.
        #[serde(default)]
        pub bucket_owner: Option<String>,
        /// The file that the model writes.
        #[serde(default = "output_file")]
        pub output_file: String,
        /// Where in `modelInput` the prompt goes, as a JSON pointer.
        #[serde(default = "prompt_at")]
        pub prompt_at: String,
        /// What every `modelInput` has, under a job's params.
        #[serde(default)]
        pub model_input: serde_json::Map<String, Value>,
        /// What to do after a lost answer, if not the lookup with its two minutes: `key` with a lifetime that you know
        /// of, `lookup` with another settle time, or `none`.
        #[serde(default)]
        pub recovery: Option<Recovery>,
    }
}

fn output_file() -> String {
    "output.mp4".to_owned()
}
fn prompt_at() -> String {
    "/textToVideoParams/text".to_owned()
}

/// One lane's Bedrock account.
#[derive(Clone)]
pub(crate) struct BedrockProvider {
    wire: Wire,
    signer: Signer,
    config: Box<BedrockLane>,
    recovery: Recovery,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Started {
    invocation_arn: TaskId,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Invocation {
    invocation_arn: TaskId,
    status: String,
    #[serde(default)]
    failure_message: Option<String>,
    #[serde(default)]
    output_data_config: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    #[serde(default)]
    async_invoke_summaries: Vec<Summary>,
    #[serde(default)]
    next_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    invocation_arn: TaskId,
    #[serde(default)]
    client_request_token: Option<String>,
}

impl BedrockLane {
    pub(crate) fn build(&self, setup: &mut Setup<'_>) -> Result<BedrockProvider, ProvidersError> {
        let lane = setup.lane.clone();
        let common = self.common();
        let region = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|byte| byte.is_ascii_lowercase() || b"-0123456789".contains(&byte))
        };
        if !region(&self.region) {
            return Err(bad(&lane, "`region` must be a region's name such as `us-east-1`"));
        }
        if self.api_key.is_some() || self.api_key_env.is_some() {
            return Err(bad(
                &lane,
                "Bedrock takes AWS credentials from the environment: leave the API key out",
            ));
        }
        if common.callback_url.is_some() || !common.polled {
            return Err(bad(
                &lane,
                "Bedrock sends no callbacks: leave `callback_url` out and keep it polled",
            ));
        }
        let defaults = Defaults {
            base_url: Some(format!("https://bedrock-runtime.{}.amazonaws.com", self.region)),
            submit_ms: 30_000,
            poll_ms: 15_000,
            least_poll_ms: 1,
            deadline_ms: 3_600_000,
            output_lifetime_ms: None,
        };
        let wire = common.wire(setup, &defaults, None)?;
        let file = &self.output_file;
        if bucket_of(&self.output_s3).is_none() || file.is_empty() || file.contains(['/', '?', '#']) {
            return Err(bad(
                &lane,
                "`output_s3` must be `s3://bucket/prefix`, and `output_file` a file's name",
            ));
        }
        if !self.prompt_at.starts_with('/') {
            return Err(bad(&lane, "`prompt_at` must be a JSON pointer"));
        }
        let recovery = match self.recovery.unwrap_or(Recovery::Lookup { settle_ms: 120_000 }) {
            Recovery::Key { lifetime_ms } => Recovery::Key {
                lifetime_ms: span(&lane, lifetime_ms, "`lifetime_ms` must be at most a year")?,
            },
            Recovery::Lookup { settle_ms } => {
                Recovery::Lookup { settle_ms: span(&lane, settle_ms, "`settle_ms` must be at most a year")? }
            }
            Recovery::None => Recovery::None,
            Recovery::Callback { .. } => return Err(bad(&lane, "Bedrock sends no callbacks to recover by")),
        };
        let signer = Signer::from_environment(setup, &self.region)?;
        Ok(BedrockProvider { wire, signer, config: Box::new(self.clone()), recovery })
    }
}

impl BedrockProvider {
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.wire.capabilities(self.recovery)
    }

    fn signed(&self, method: Method, url: Url, body: String) -> Option<RequestBuilder> {
        let headers = self.signer.sign(method.as_str(), url.as_str(), body.as_bytes())?;
        let client =
            if method == Method::POST { &self.wire.clients.submit } else { &self.wire.clients.query };
        Some(client.request(method, url).headers(headers).body(body))
    }

    fn namespace(&self) -> &str {
        self.config.namespace.as_ref().map_or("", |name| name.as_str())
    }

    /// Sends one POST and says what its answer proves.
    pub(crate) async fn submit(&self, request: &RenderRequest, reference: &Reference) -> Submit {
        let name = Name::new(self.namespace(), reference);
        let Some(input) = self.input(request) else {
            return rejected(ErrorClass::InvalidInput, "params must be an object", None);
        };
        let mut place =
            json!({ "s3Uri": format!("{}/{}", self.config.output_s3.trim_end_matches('/'), name.hash()) });
        if let Some(owner) = &self.config.bucket_owner {
            place["bucketOwner"] = owner.clone().into();
        }
        let body = json!({
            "clientRequestToken": name.text(),
            "modelId": self.config.model_id,
            "modelInput": input,
            "outputDataConfig": { "s3OutputDataConfig": place },
        });
        let url = self.wire.url(&["async-invoke"]);
        let Some(post) = url.and_then(|url| self.signed(Method::POST, url, body.to_string())) else {
            return rejected(
                ErrorClass::Unauthorized,
                "the request can't be signed with these credentials",
                None,
            );
        };
        match self.wire.submit(post).await {
            Ok(answer) => self.judge(&answer),
            Err(told) => told,
        }
    }

    fn input(&self, request: &RenderRequest) -> Option<Value> {
        let mut input = Value::Object(self.config.model_input.clone());
        match &request.params {
            Value::Null => {}
            params @ Value::Object(_) => crate::generic::merge(&mut input, params.clone()),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => return None,
        }
        crate::generic::put(&mut input, &self.config.prompt_at, request.prompt.clone().into())?;
        Some(input)
    }

    fn judge(&self, answer: &Answer) -> Submit {
        if answer.status.is_success() {
            return match serde_json::from_slice::<Started>(&answer.body) {
                Ok(started) => Submit::Accepted(started.invocation_arn),
                Err(_) => self.wire.unknown_submit("unreadable", Some(answer.status)),
            };
        }
        let code = error_code(answer);
        let class = match code.as_str() {
            "ThrottlingException" | "ServiceQuotaExceededException" => {
                Some((ErrorClass::Throttled, "AWS has too many requests or invocations of this account"))
            }
            "AccessDeniedException"
            | "ExpiredTokenException"
            | "UnrecognizedClientException"
            | "InvalidSignatureException"
            | "MissingAuthenticationTokenException"
            | "IncompleteSignatureException" => {
                Some((ErrorClass::Unauthorized, "AWS refused the credentials or the role's permissions"))
            }
            "ResourceNotFoundException" => Some((
                ErrorClass::Unauthorized,
                "AWS doesn't know this model here; correct the lane's configuration",
            )),
            "ValidationException" if filtered(&answer.body) => {
                Some((ErrorClass::Moderated, "Bedrock's content filters refused the request"))
            }
            "ValidationException" => Some((ErrorClass::InvalidInput, "the model can't use this request")),
            // Another request with this token: something was started by it.
            "ConflictException" => None,
            "" => refusal(answer.status),
            _ => None,
        };
        match class {
            Some((class, sentence)) => rejected(class, sentence, retry_after_ms(answer)),
            None => self.wire.unknown_submit("status", Some(answer.status)),
        }
    }

    async fn get(&self, url: Url, what: &'static str) -> Option<Answer> {
        let request = self.signed(Method::GET, url, String::new())?;
        self.wire.query(request, what).await
    }

    /// Asks for a task.
    pub(crate) async fn status(&self, task: &TaskId) -> TaskState {
        let Some(url) = self.wire.url(&["async-invoke", task.as_str()]) else { return TaskState::Unknown };
        let Some(answer) = self.get(url, "status").await else { return TaskState::Unknown };
        match answer.status {
            StatusCode::OK => match self.wire.read::<Invocation>(&answer, "status") {
                Some(told) if told.invocation_arn == *task => self.state(told),
                Some(_) | None => TaskState::Unknown,
            },
            StatusCode::NOT_FOUND if error_code(&answer) == "ResourceNotFoundException" => TaskState::Missing,
            status => {
                self.wire.unclear("status", status);
                TaskState::Unknown
            }
        }
    }

    fn state(&self, told: Invocation) -> TaskState {
        match told.status.as_str() {
            "InProgress" => TaskState::Running,
            "Completed" => completed(self.output(&told).into_iter().collect()),
            "Failed" => {
                let message = told.failure_message.unwrap_or_default();
                let moderated = filtered(message.as_bytes());
                failed(if moderated { ErrorClass::Moderated } else { ErrorClass::Transient }, None)
            }
            word => {
                self.wire.unknown_word(&told.invocation_arn, &word.to_ascii_lowercase());
                TaskState::Running
            }
        }
    }

    /// The output's address, only if it lies where we asked for it.
    fn output(&self, told: &Invocation) -> Option<Output> {
        let place = told.output_data_config.pointer("/s3OutputDataConfig/s3Uri")?.as_str()?;
        let place = place.trim_end_matches('/');
        let ours = format!("{}/", self.config.output_s3.trim_end_matches('/'));
        if !place.starts_with(&ours) {
            return None;
        }
        Some(Output { url: format!("{place}/{}", self.config.output_file), expires_ms: None })
    }

    /// Looks through the invocations since the attempt's start for our token.
    pub(crate) async fn find(&self, reference: &Reference, since_ms: Ms) -> Find {
        let name = Name::new(self.namespace(), reference);
        let Some(since) = to_rfc3339(since_ms.saturating_sub(CLOCKS_MS)) else { return Find::Unknown };
        let (mut token, mut ours) = (None::<String>, Vec::new());
        for _ in 0..PAGES {
            let Some(mut url) = self.wire.url(&["async-invoke"]) else { return Find::Unknown };
            url.query_pairs_mut()
                .append_pair("maxResults", "1000")
                .append_pair("sortBy", "SubmissionTime")
                .append_pair("sortOrder", "Ascending")
                .append_pair("submitTimeAfter", &since);
            if let Some(token) = &token {
                url.query_pairs_mut().append_pair("nextToken", token);
            }
            let Some(answer) = self.get(url, "find").await else { return Find::Unknown };
            let page =
                (answer.status == StatusCode::OK).then(|| serde_json::from_slice::<Page>(&answer.body));
            let Some(Ok(page)) = page else {
                self.wire.unclear("find", answer.status);
                return Find::Unknown;
            };
            let mine = |one: &Summary| one.client_request_token.as_deref() == Some(name.text());
            ours.extend(page.async_invoke_summaries.into_iter().filter(mine).map(|one| one.invocation_arn));
            token = page.next_token;
            if token.is_none() {
                break;
            }
        }
        if ours.len() > 1 {
            self.wire.paid_twice(name.text());
        }
        match ours.into_iter().next() {
            Some(task) => Find::Found(task),
            None => match self.recovery {
                Recovery::Lookup { .. } if token.is_none() => Find::NotFound,
                // Without a declared settle time, or with pages left, not finding it proves nothing.
                Recovery::Lookup { .. }
                | Recovery::Key { .. }
                | Recovery::Callback { .. }
                | Recovery::None => Find::Unknown,
            },
        }
    }

    /// There is no way to cancel an invocation.
    pub(crate) fn cancel() -> Cancel {
        Cancel::Unsupported
    }
}

/// The bucket of `s3://bucket/prefix`.
fn bucket_of(address: &str) -> Option<&str> {
    let rest = address.strip_prefix("s3://")?;
    let bucket = rest.split('/').next()?;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
    let key = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-=".contains(&byte);
    ((3..=63).contains(&bucket.len()) && bucket.bytes().all(plain) && rest.bytes().all(key)).then_some(bucket)
}

/// An AWS error's code: a header, or a member of the body, each perhaps with an address around it
/// (<https://smithy.io/2.0/aws/protocols/aws-restjson1-protocol.html#operation-error-serialization>).
fn error_code(answer: &Answer) -> String {
    let header = answer.headers.get("x-amzn-errortype").and_then(|value| value.to_str().ok());
    let body = || {
        let told: Value = serde_json::from_slice(&answer.body).ok()?;
        let code = told.get("__type").or_else(|| told.get("code"))?;
        Some(code.as_str()?.to_owned())
    };
    let code = header.map(str::to_owned).or_else(body).unwrap_or_default();
    let code = code.split(':').next().unwrap_or_default();
    code.rsplit('#').next().unwrap_or_default().to_owned()
}

/// "This request has been blocked by our content filters", of Nova models, in the request's refusal or the task's end.
fn filtered(text: &[u8]) -> bool {
    let words = b"content filter";
    text.windows(words.len()).any(|window| window.eq_ignore_ascii_case(words))
}
