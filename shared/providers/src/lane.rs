//! What the lanes of all vendors have in common: address, key, times, callbacks.

use crate::client::Clients;
use crate::config::{DAY_MS, ProvidersError, address, bad, this_machine};
use crate::hook::Hook;
use crate::secret::Secret;
use crate::wire::{Times, Wire};
use glassline_protocol::ids::LaneName;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use std::collections::HashMap;

/// Where a secret comes from: the text itself, or `{"env": "NAME"}` for the environment variable that holds it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum SecretSource {
    /// The name of a variable.
    Env(EnvSecret),
    /// The secret.
    Text(Secret),
}

/// The name of the environment variable that holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvSecret {
    /// The variable.
    pub env: String,
}

/// Declares a lane's configuration: its own fields, and those that every vendor's lane has.
macro_rules! vendor_lane {
    ($(#[$doc:meta])* $name:ident { $($own:tt)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($own)*
            /// Where the API is, if not where the vendor has it. https, unless the host is this machine or
            /// `allow_plain_http` is set.
            #[serde(default)]
            pub base_url: Option<String>,
            /// Lets the key go over plain http to another machine, such as one in a test network.
            #[serde(default)]
            pub allow_plain_http: bool,
            /// The account's key. Give this or `api_key_env`.
            #[serde(default)]
            pub api_key: Option<Secret>,
            /// The name of the environment variable that holds the account's key.
            #[serde(default)]
            pub api_key_env: Option<String>,
            /// 1 to 64 letters, digits, dots, underscores or hyphens that go before our references at this provider.
            /// Set it where two installations share an account: their references may be equal.
            #[serde(default)]
            pub namespace: Option<LaneName>,
            /// Whether the end of a task must be polled for. `false` needs a `callback_url`.
            #[serde(default = "crate::lane::yes")]
            pub polled: bool,
            /// Where the provider sends its callbacks: an address of ours, to which our reference and its HMAC are
            /// added as a query.
            #[serde(default)]
            pub callback_url: Option<String>,
            /// Our own secrets for the HMAC in that address: the first signs, each verifies.
            #[serde(default)]
            pub callback_secrets: Vec<crate::lane::SecretSource>,
            /// The longest a connection may take, in milliseconds.
            #[serde(default)]
            pub connect_timeout_ms: Option<u64>,
            /// The longest a submit may take, connecting included, in milliseconds; then it is unknown.
            #[serde(default)]
            pub submit_timeout_ms: Option<u64>,
            /// The longest any other call may take, in milliseconds.
            #[serde(default)]
            pub query_timeout_ms: Option<u64>,
            /// Time between two polls, in milliseconds.
            #[serde(default)]
            pub poll_ms: Option<u64>,
            /// The longest a render may take before it is cancelled, in milliseconds.
            #[serde(default)]
            pub deadline_ms: Option<u64>,
            /// How long an output stays available, in milliseconds, if the account differs from the vendor's rule.
            #[serde(default)]
            pub output_lifetime_ms: Option<u64>,
        }

        impl $name {
            /// The fields that every vendor's lane has.
            pub(crate) fn common(&self) -> crate::lane::Common<'_> {
                crate::lane::Common {
                    base_url: self.base_url.as_deref(),
                    allow_plain_http: self.allow_plain_http,
                    api_key: self.api_key.as_ref(),
                    api_key_env: self.api_key_env.as_deref(),
                    namespace: self.namespace.as_ref().map_or("", |name| name.as_str()),
                    polled: self.polled,
                    callback_url: self.callback_url.as_deref(),
                    callback_secrets: &self.callback_secrets,
                    connect_ms: self.connect_timeout_ms,
                    submit_ms: self.submit_timeout_ms,
                    query_ms: self.query_timeout_ms,
                    poll_ms: self.poll_ms,
                    deadline_ms: self.deadline_ms,
                    output_lifetime_ms: self.output_lifetime_ms,
                }
            }
        }
    };
}
pub(crate) use vendor_lane;

pub(crate) const fn yes() -> bool {
    true
}

/// A view of the common fields.
pub(crate) struct Common<'a> {
    pub(crate) base_url: Option<&'a str>,
    pub(crate) allow_plain_http: bool,
    pub(crate) api_key: Option<&'a Secret>,
    pub(crate) api_key_env: Option<&'a str>,
    pub(crate) namespace: &'a str,
    pub(crate) polled: bool,
    pub(crate) callback_url: Option<&'a str>,
    pub(crate) callback_secrets: &'a [SecretSource],
    pub(crate) connect_ms: Option<u64>,
    pub(crate) submit_ms: Option<u64>,
    pub(crate) query_ms: Option<u64>,
    pub(crate) poll_ms: Option<u64>,
    pub(crate) deadline_ms: Option<u64>,
    pub(crate) output_lifetime_ms: Option<u64>,
}

/// What a vendor has where a lane says nothing.
#[derive(Clone)]
pub(crate) struct Defaults {
    /// `None`: the lane must say it.
    pub(crate) base_url: Option<String>,
    pub(crate) submit_ms: u64,
    pub(crate) poll_ms: u64,
    pub(crate) least_poll_ms: u64,
    pub(crate) deadline_ms: u64,
    pub(crate) output_lifetime_ms: Option<u64>,
}

/// What setting up a lane needs of the world.
pub(crate) struct Setup<'a> {
    pub(crate) lane: &'a LaneName,
    pub(crate) environment: &'a dyn Fn(&str) -> Option<String>,
    pub(crate) clients: &'a mut ClientCache,
}

/// Clients by connect timeout: setting up TLS reads the system's certificates, so lanes share what they can.
#[derive(Default)]
pub(crate) struct ClientCache(HashMap<u64, Clients>);

impl ClientCache {
    pub(crate) fn get(&mut self, connect_ms: u64) -> Result<Clients, ProvidersError> {
        if let Some(clients) = self.0.get(&connect_ms) {
            return Ok(clients.clone());
        }
        let clients = Clients::new(connect_ms)?;
        self.0.insert(connect_ms, clients.clone());
        Ok(clients)
    }
}

impl Setup<'_> {
    /// A secret, from the configuration or the environment.
    pub(crate) fn secret(&self, source: &SecretSource) -> Result<Secret, ProvidersError> {
        let secret = match source {
            SecretSource::Text(secret) => secret.clone(),
            SecretSource::Env(EnvSecret { env }) => self.variable(env)?,
        };
        if secret.expose().is_empty() {
            return Err(bad(self.lane, "a secret must not be empty"));
        }
        Ok(secret)
    }

    fn variable(&self, name: &str) -> Result<Secret, ProvidersError> {
        match (self.environment)(name).filter(|text| !text.is_empty()) {
            Some(text) => Ok(Secret::new(text)),
            None => {
                let variable = name.chars().take(80).collect();
                Err(ProvidersError::NoKey { lane: self.lane.clone(), variable })
            }
        }
    }
}

impl Common<'_> {
    /// The key; `None` where the lane names none.
    pub(crate) fn key(&self, setup: &Setup<'_>) -> Result<Option<Secret>, ProvidersError> {
        let key = match (self.api_key, self.api_key_env) {
            (Some(key), None) => key.clone(),
            (None, Some(variable)) => setup.variable(variable)?,
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => {
                return Err(bad(setup.lane, "give exactly one of `api_key` and `api_key_env`"));
            }
        };
        let text = key.expose();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(bad(setup.lane, "its API key must be visible ASCII characters without white space"));
        }
        Ok(Some(key))
    }

    /// The lane's way to its provider, with the key in a header as `prefix key`.
    pub(crate) fn wire(
        &self,
        setup: &mut Setup<'_>,
        defaults: &Defaults,
        auth: Option<(HeaderName, &str)>,
    ) -> Result<Wire, ProvidersError> {
        let lane = setup.lane;
        let base = self.base_url.or(defaults.base_url.as_deref());
        let base = base.ok_or_else(|| bad(lane, "it needs a `base_url`"))?;
        let base = address(base)
            .filter(|url| url.query().is_none())
            .ok_or_else(|| bad(lane, "`base_url` must be an http or https address without user or query"))?;
        if base.scheme() != "https" && !self.allow_plain_http && !this_machine(&base) {
            return Err(bad(lane, "`base_url` must be https, or set `allow_plain_http` in a test network"));
        }
        let mut headers = HeaderMap::new();
        if let Some((name, prefix)) = auth {
            let key = self.key(setup)?;
            let key = key.ok_or_else(|| bad(lane, "give exactly one of `api_key` and `api_key_env`"))?;
            let value = HeaderValue::from_str(&format!("{prefix}{}", key.expose()));
            let mut value = value.map_err(|_| bad(lane, "its API key can't be sent in a header"))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let times = self.times(lane, defaults)?;
        let connect_ms = self.connect_ms.unwrap_or(3_000);
        if connect_ms == 0 || connect_ms > times.submit_ms {
            return Err(bad(lane, "`connect_timeout_ms` must be from 1 to `submit_timeout_ms`"));
        }
        let clients = setup.clients.get(connect_ms)?;
        Ok(Wire { lane: lane.clone(), base, headers, clients, times, polled: self.polled })
    }

    fn times(&self, lane: &LaneName, defaults: &Defaults) -> Result<Times, ProvidersError> {
        let times = Times {
            submit_ms: self.submit_ms.unwrap_or(defaults.submit_ms),
            query_ms: self.query_ms.unwrap_or(10_000),
            poll_ms: self.poll_ms.unwrap_or(defaults.poll_ms),
            deadline_ms: self.deadline_ms.unwrap_or(defaults.deadline_ms),
            output_lifetime_ms: self.output_lifetime_ms.or(defaults.output_lifetime_ms),
        };
        if times.submit_ms > 600_000 || !(1..=600_000).contains(&times.query_ms) {
            return Err(bad(lane, "its timeouts must be from 1 ms to ten minutes"));
        }
        if times.poll_ms < defaults.least_poll_ms {
            return Err(bad(lane, "`poll_ms` is shorter than its provider allows"));
        }
        if !(1..=DAY_MS).contains(&times.poll_ms) || !(1..=30 * DAY_MS).contains(&times.deadline_ms) {
            return Err(bad(
                lane,
                "`poll_ms` must be at most a day and `deadline_ms` at most 30 days, none 0",
            ));
        }
        Ok(times)
    }

    /// Where callbacks come in; `None` without a `callback_url`.
    pub(crate) fn hook(&self, setup: &Setup<'_>) -> Result<Option<Hook>, ProvidersError> {
        let Some(url) = self.callback_url else {
            if !self.polled {
                return Err(bad(setup.lane, "without polling it needs a `callback_url`"));
            }
            return Ok(None);
        };
        let url =
            address(url).filter(|url| url.query().is_none() && url.as_str().len() <= 1_024).ok_or_else(
                || bad(setup.lane, "`callback_url` must be an http or https address without a query"),
            )?;
        let secrets: Vec<Secret> =
            self.callback_secrets.iter().map(|source| setup.secret(source)).collect::<Result<_, _>>()?;
        if secrets.is_empty() || secrets.iter().any(|secret| secret.expose().len() < 16) {
            return Err(bad(
                setup.lane,
                "with a `callback_url` it needs `callback_secrets` of at least 16 bytes",
            ));
        }
        Ok(Some(Hook::new(url, setup.lane.clone(), secrets)))
    }
}

/// Checks a span of time: 1 ms to a year.
pub(crate) fn span(lane: &LaneName, span_ms: u64, rule: &'static str) -> Result<u64, ProvidersError> {
    if (1..=366 * DAY_MS).contains(&span_ms) { Ok(span_ms) } else { Err(bad(lane, rule)) }
}

/// The text of a model name as vendors write it: `owner/name` and deeper, of letters, digits and `._:-`, no empty part.
pub(crate) fn model_name(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && !matches!(part, "." | "..")
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte))
    };
    text.len() <= 256 && text.split('/').all(part)
}
