//! Which adapter serves which lane, and what its provider offers there.

use crate::bedrock::BedrockLane;
use crate::fal::FalLane;
use crate::generic::GenericLane;
use crate::replicate::ReplicateLane;
use crate::runway::RunwayLane;
use crate::secret::Secret;
use glassline_protocol::ids::LaneName;
use glassline_protocol::provider::{Capabilities, Recovery};
use reqwest::Url;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The providers of all lanes, as JSON by lane:
///
/// ```json
/// {"main": {"adapter": "sandbox", "base_url": "http://127.0.0.1:4600", "api_key_env": "SANDBOX_KEY",
///           "recovery": {"tier": "key", "lifetime_ms": 86400000}, "polled": true,
///           "submit_timeout_ms": 20000, "poll_ms": 5000, "deadline_ms": 900000}}
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct ProvidersConfig {
    /// By lane.
    pub lanes: BTreeMap<LaneName, LaneConfig>,
}

/// The provider of one lane.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "adapter", rename_all = "lowercase")]
pub enum LaneConfig {
    /// The sandbox that comes with Glassline.
    Sandbox(SandboxLane),
    /// An HTTP API that is described in TOML: one that comes with Glassline, or your own.
    Generic(Box<GenericLane>),
    /// Replicate.
    Replicate(Box<ReplicateLane>),
    /// fal.
    Fal(Box<FalLane>),
    /// Runway.
    Runway(Box<RunwayLane>),
    /// Amazon Bedrock, asynchronous invocations.
    Bedrock(Box<BedrockLane>),
}

/// A lane served by a sandbox account.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxLane {
    /// Where it is, without the `/v1`. https, unless the host is this machine or `allow_plain_http` is set.
    pub base_url: String,
    /// The account's key. Give this or `api_key_env`.
    #[serde(default)]
    pub api_key: Option<Secret>,
    /// The name of the environment variable that holds the account's key.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// What the account offers after a lost submit answer.
    pub recovery: Recovery,
    /// Whether the end of a task must be polled for. `false` needs a `callback_url`.
    #[serde(default = "yes")]
    pub polled: bool,
    /// Where the provider sends its callbacks. It goes into every request: while a key may still be repeated it must
    /// not change, or the provider takes the repeat for another request.
    #[serde(default)]
    pub callback_url: Option<String>,
    /// What the provider signs its callbacks with; absent: the account's key.
    #[serde(default)]
    pub callback_secret: Option<Secret>,
    /// The longest a connection may take, in milliseconds.
    #[serde(default = "connect_ms")]
    pub connect_timeout_ms: u64,
    /// The longest a submit may take, connecting included, in milliseconds; then it is unknown.
    #[serde(default = "submit_ms")]
    pub submit_timeout_ms: u64,
    /// The longest any other call may take, in milliseconds.
    #[serde(default = "query_ms")]
    pub query_timeout_ms: u64,
    /// Time between two polls, in milliseconds.
    #[serde(default = "poll_ms")]
    pub poll_ms: u64,
    /// The longest a render may take before it is cancelled, in milliseconds.
    #[serde(default = "deadline_ms")]
    pub deadline_ms: u64,
    /// How long an output stays available, in milliseconds, if known.
    #[serde(default)]
    pub output_lifetime_ms: Option<u64>,
    /// Lets the key go over plain http to another machine, such as one in a test network.
    #[serde(default)]
    pub allow_plain_http: bool,
}

const fn yes() -> bool {
    true
}
const fn connect_ms() -> u64 {
    3_000
}
const fn submit_ms() -> u64 {
    30_000
}
const fn query_ms() -> u64 {
    10_000
}
const fn poll_ms() -> u64 {
    5_000
}
const fn deadline_ms() -> u64 {
    900_000
}
pub(crate) const DAY_MS: u64 = 86_400_000;

impl LaneConfig {
    /// The variable that holds the account's key, if it is named.
    pub(crate) fn api_key_env(&self) -> Option<&str> {
        match self {
            Self::Sandbox(lane) => lane.api_key_env.as_deref(),
            Self::Generic(lane) => lane.api_key_env.as_deref(),
            Self::Replicate(lane) => lane.api_key_env.as_deref(),
            Self::Fal(lane) => lane.api_key_env.as_deref(),
            Self::Runway(lane) => lane.api_key_env.as_deref(),
            Self::Bedrock(lane) => lane.api_key_env.as_deref(),
        }
    }
}

impl SandboxLane {
    /// A polled lane with the default times.
    #[must_use]
    pub fn new(base_url: impl Into<String>, api_key: Secret, recovery: Recovery) -> Self {
        Self {
            base_url: base_url.into(),
            api_key: Some(api_key),
            api_key_env: None,
            recovery,
            polled: true,
            callback_url: None,
            callback_secret: None,
            connect_timeout_ms: connect_ms(),
            submit_timeout_ms: submit_ms(),
            query_timeout_ms: query_ms(),
            poll_ms: poll_ms(),
            deadline_ms: deadline_ms(),
            output_lifetime_ms: None,
            allow_plain_http: false,
        }
    }

    /// What this lane declares.
    pub(crate) fn capabilities(&self) -> Capabilities {
        Capabilities {
            recovery: self.recovery,
            polled: self.polled,
            submit_timeout_ms: self.submit_timeout_ms,
            poll_ms: self.poll_ms,
            deadline_ms: self.deadline_ms,
            output_lifetime_ms: self.output_lifetime_ms,
        }
    }

    /// The key, from the configuration or the environment.
    pub(crate) fn key(
        &self,
        lane: &LaneName,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Secret, ProvidersError> {
        let key = match (&self.api_key, &self.api_key_env) {
            (Some(key), None) => key.clone(),
            (None, Some(variable)) => match environment(variable).filter(|text| !text.is_empty()) {
                Some(text) => Secret::new(text),
                None => {
                    let variable = variable.chars().take(80).collect();
                    return Err(ProvidersError::NoKey { lane: lane.clone(), variable });
                }
            },
            (Some(_), Some(_)) | (None, None) => {
                return Err(bad(lane, "give exactly one of `api_key` and `api_key_env`"));
            }
        };
        let text = key.expose();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(bad(lane, "its API key must be visible ASCII characters without white space"));
        }
        Ok(key)
    }

    /// Checks what the types don't say, and reads the address.
    pub(crate) fn check(&self, lane: &LaneName) -> Result<Url, ProvidersError> {
        let base = address(&self.base_url)
            .filter(|url| url.query().is_none())
            .ok_or_else(|| bad(lane, "`base_url` must be an http or https address without user or query"))?;
        if base.scheme() != "https" && !self.allow_plain_http && !this_machine(&base) {
            return Err(bad(lane, "`base_url` must be https, or set `allow_plain_http` in a test network"));
        }
        if self.callback_url.as_ref().is_some_and(|url| url.len() > 2_048 || address(url).is_none()) {
            return Err(bad(lane, "`callback_url` must be an http or https address of at most 2048 bytes"));
        }
        let told = match self.recovery {
            Recovery::Callback { .. } => true,
            Recovery::Key { .. } | Recovery::Lookup { .. } | Recovery::None => !self.polled,
        };
        if told && self.callback_url.is_none() {
            return Err(bad(
                lane,
                "without polling, or with recovery by callback, it needs a `callback_url`",
            ));
        }
        let span_ms = match self.recovery {
            Recovery::Key { lifetime_ms } => lifetime_ms,
            Recovery::Lookup { settle_ms } => settle_ms,
            Recovery::Callback { deadline_ms } => deadline_ms,
            Recovery::None => 1,
        };
        if span_ms == 0 || span_ms > 366 * DAY_MS {
            return Err(bad(lane, "the time of its `recovery` must be from 1 ms to a year"));
        }
        if self.connect_timeout_ms == 0 || self.connect_timeout_ms > self.submit_timeout_ms {
            return Err(bad(lane, "`connect_timeout_ms` must be from 1 to `submit_timeout_ms`"));
        }
        if self.submit_timeout_ms > 600_000 || !(1..=600_000).contains(&self.query_timeout_ms) {
            return Err(bad(lane, "its timeouts must be from 1 ms to ten minutes"));
        }
        if !(1..=DAY_MS).contains(&self.poll_ms) || !(1..=30 * DAY_MS).contains(&self.deadline_ms) {
            return Err(bad(
                lane,
                "`poll_ms` must be at most a day and `deadline_ms` at most 30 days, none 0",
            ));
        }
        Ok(base)
    }
}

/// An http(s) address that holds no credentials (it may be shown) and no fragment.
pub(crate) fn address(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    (plain && url.has_host() && matches!(url.scheme(), "http" | "https")).then_some(url)
}

pub(crate) fn this_machine(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

pub(crate) fn bad(lane: &LaneName, rule: &'static str) -> ProvidersError {
    ProvidersError::Lane { lane: lane.clone(), rule }
}

/// Providers that can't be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProvidersError {
    /// A lane's configuration breaks a rule.
    #[error("the provider of lane `{lane}` can't be used: {rule}")]
    Lane {
        /// Which.
        lane: LaneName,
        /// The rule.
        rule: &'static str,
    },
    /// A description in TOML breaks a rule.
    #[error("the description of the provider of lane `{lane}` can't be used: {place}: {rule}")]
    Description {
        /// Which lane.
        lane: LaneName,
        /// Where in the description, such as `submit.path` or `line 12`.
        place: String,
        /// What is wrong there and what to do.
        rule: String,
    },
    /// The variable that should hold the key is missing or empty.
    #[error("the provider of lane `{lane}` has no key: set the environment variable `{variable}`")]
    NoKey {
        /// Which.
        lane: LaneName,
        /// The variable.
        variable: String,
    },
    /// The HTTP client.
    #[error("the HTTP client can't be set up: {reason}; check the system's certificates")]
    Client {
        /// What it said.
        reason: String,
    },
}
