//! The providers of all lanes behind the one port.
#![allow(clippy::disallowed_methods, reason = "a key may be given by the name of its variable")]

use crate::bedrock::BedrockProvider;
use crate::callback::{Callback, CallbackError};
use crate::config::{LaneConfig, ProvidersConfig, ProvidersError};
use crate::fal::FalProvider;
use crate::generic::GenericProvider;
use crate::hook::CallbackRequest;
use crate::lane::{ClientCache, Setup};
use crate::replicate::ReplicateProvider;
use crate::runway::RunwayProvider;
use crate::sandbox::SandboxProvider;
use glassline_protocol::ids::{LaneName, Ms, TaskId};
use glassline_protocol::provider::{
    CallbackCall, Callbacks, CalledBack, Cancel, Capabilities, ErrorClass, Find, Provider, Recovery,
    Reference, RenderRequest, Submit, TaskState,
};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// The adapter of one lane.
enum Adapter {
    Sandbox(Box<SandboxProvider>),
    Generic(Box<GenericProvider>),
    Replicate(Box<ReplicateProvider>),
    Fal(Box<FalProvider>),
    Runway(Box<RunwayProvider>),
    Bedrock(Box<BedrockProvider>),
}

impl Adapter {
    /// The adapter's name, as a lane's configuration has it.
    fn name(&self) -> &'static str {
        match self {
            Self::Sandbox(_) => "sandbox",
            Self::Generic(_) => "generic",
            Self::Replicate(_) => "replicate",
            Self::Fal(_) => "fal",
            Self::Runway(_) => "runway",
            Self::Bedrock(_) => "bedrock",
        }
    }
}

/// Where a lane's outputs are fetched from with headers of the account, and which. An output anywhere else is fetched
/// without them.
#[derive(Clone)]
pub struct OutputAccess {
    /// Only addresses with this scheme, host, port and path before them.
    pub base: Url,
    /// The headers; a key among them is marked sensitive.
    pub headers: HeaderMap,
}

impl fmt::Debug for OutputAccess {
    /// Without the headers' values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.keys().map(|name| name.as_str()).collect();
        f.debug_struct("OutputAccess").field("base", &self.base.as_str()).field("headers", &names).finish()
    }
}

/// The render providers, by lane. Cheap to clone.
///
/// A lane that isn't configured has no provider: a submit is refused as [`ErrorClass::Unauthorized`] (not started, and
/// the lane pauses instead of burning jobs), and every question about a task that it once had is answered with
/// "nobody can tell", so that its jobs are held for a person.
#[derive(Clone)]
pub struct Providers {
    lanes: Arc<BTreeMap<LaneName, Adapter>>,
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Providers").field("lanes", &self.lanes.keys()).finish()
    }
}

impl Providers {
    /// Sets up every lane's adapter; keys named by `api_key_env` are read from the environment.
    ///
    /// # Errors
    /// [`ProvidersError`] names the first lane that can't be used and why.
    pub fn from_config(config: ProvidersConfig) -> Result<Self, ProvidersError> {
        Self::from_config_with(config, &|variable| std::env::var(variable).ok())
    }

    /// The same with another environment.
    ///
    /// # Errors
    /// As [`Providers::from_config`].
    pub fn from_config_with(
        config: ProvidersConfig,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ProvidersError> {
        let mut clients = ClientCache::default();
        let mut lanes = BTreeMap::new();
        for (lane, config) in config.lanes {
            let mut setup = Setup { lane: &lane, environment, clients: &mut clients };
            let adapter = match config {
                LaneConfig::Sandbox(config) => {
                    let base = config.check(&lane)?;
                    let key = config.key(&lane, environment)?;
                    let clients = clients.get(config.connect_timeout_ms)?;
                    let rule = "its API key can't be sent in a header";
                    SandboxProvider::new(lane.clone(), base, &key, clients, config)
                        .map(|provider| Adapter::Sandbox(Box::new(provider)))
                        .ok_or_else(|| ProvidersError::Lane { lane: lane.clone(), rule })?
                }
                LaneConfig::Generic(config) => Adapter::Generic(Box::new(config.build(&mut setup)?)),
                LaneConfig::Replicate(config) => Adapter::Replicate(Box::new(config.build(&mut setup)?)),
                LaneConfig::Fal(config) => Adapter::Fal(Box::new(config.build(&mut setup)?)),
                LaneConfig::Runway(config) => Adapter::Runway(Box::new(config.build(&mut setup)?)),
                LaneConfig::Bedrock(config) => Adapter::Bedrock(Box::new(config.build(&mut setup)?)),
            };
            lanes.insert(lane, adapter);
        }
        Ok(Self { lanes: Arc::new(lanes) })
    }

    /// Sets up every lane's adapter to check callbacks by, in a function that isn't trusted with the accounts' keys: a key
    /// whose variable is missing is replaced by one that nobody knows.
    ///
    /// # Errors
    /// As [`Providers::from_config`].
    pub fn for_callbacks(config: ProvidersConfig) -> Result<Self, ProvidersError> {
        let keys = config.lanes.values().filter_map(LaneConfig::api_key_env).map(str::to_owned);
        let keys: BTreeSet<String> = keys.collect();
        let mut nobodys = [0_u8; 32];
        let random = aws_lc_rs::rand::fill(&mut nobodys).is_ok();
        let nobodys = hex::encode(nobodys);
        Self::from_config_with(config, &|variable| {
            let known = std::env::var(variable).ok();
            known.or_else(|| (random && keys.contains(variable)).then(|| nobodys.clone()))
        })
    }

    /// The lanes that have a provider, sorted.
    pub fn lanes(&self) -> impl Iterator<Item = &LaneName> {
        self.lanes.keys()
    }

    /// Where a lane's outputs are fetched from with headers of the account; `None` where they need none.
    #[must_use]
    pub fn output_access(&self, lane: &LaneName) -> Option<OutputAccess> {
        match self.lanes.get(lane)? {
            Adapter::Generic(provider) => {
                provider.output_headers().map(|(base, headers)| OutputAccess { base, headers })
            }
            Adapter::Sandbox(_)
            | Adapter::Replicate(_)
            | Adapter::Fal(_)
            | Adapter::Runway(_)
            | Adapter::Bedrock(_) => None,
        }
    }

    /// Checks a callback to a lane whose provider is given an address with our HMAC in it: that HMAC, the provider's own
    /// signature where it has one, and the time. A callback that is right is a hint, nothing more: ask the provider.
    ///
    /// # Errors
    /// [`CallbackError`] says what is wrong with it.
    pub async fn callback(
        &self,
        lane: &LaneName,
        request: &CallbackRequest<'_>,
    ) -> Result<Callback, CallbackError> {
        match self.adapter(lane) {
            Some(Adapter::Generic(provider)) => provider.callback(request),
            Some(Adapter::Replicate(provider)) => provider.callback(request),
            Some(Adapter::Fal(provider)) => provider.callback(request).await,
            Some(Adapter::Sandbox(provider)) => provider.callback(request),
            Some(Adapter::Runway(_) | Adapter::Bedrock(_)) | None => Err(CallbackError::NotExpected),
        }
    }

    fn adapter(&self, lane: &LaneName) -> Option<&Adapter> {
        let adapter = self.lanes.get(lane);
        if adapter.is_none() {
            tracing::error!(event = "provider_not_configured", lane = %lane);
        }
        adapter
    }
}

impl Callbacks for Providers {
    async fn verify(&self, provider: &str, lane: &LaneName, call: &CallbackCall) -> Option<CalledBack> {
        let mut headers = HeaderMap::new();
        for (name, value) in &call.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            headers.append(name, HeaderValue::from_bytes(value).ok()?);
        }
        let request =
            CallbackRequest { query: &call.query, headers: &headers, body: &call.body, now_ms: call.now_ms };
        let named = self.lanes.get(lane).is_some_and(|adapter| adapter.name() == provider);
        let checked =
            if named { self.callback(lane, &request).await } else { Err(CallbackError::NotExpected) };
        match checked {
            Ok(Callback { task, reference }) => Some(CalledBack { reference, task }),
            Err(why) => {
                // The lane is named by whoever sent it; only one that is configured is said.
                let lane = self.lanes.get_key_value(lane).map(|(lane, _)| lane.to_string());
                tracing::warn!(event = "signature_refused", what = "callback", lane, why = %why);
                None
            }
        }
    }
}

impl Provider for Providers {
    fn capabilities(&self, lane: &LaneName) -> Capabilities {
        match self.lanes.get(lane) {
            Some(Adapter::Sandbox(provider)) => provider.capabilities(),
            Some(Adapter::Generic(provider)) => provider.capabilities(),
            Some(Adapter::Replicate(provider)) => provider.capabilities(),
            Some(Adapter::Fal(provider)) => provider.capabilities(),
            Some(Adapter::Runway(provider)) => provider.capabilities(),
            Some(Adapter::Bedrock(provider)) => provider.capabilities(),
            None => Capabilities {
                recovery: Recovery::None,
                polled: true,
                submit_timeout_ms: 1_000,
                poll_ms: 900_000,
                deadline_ms: 86_400_000,
                output_lifetime_ms: None,
            },
        }
    }

    async fn submit(&self, lane: &LaneName, request: &RenderRequest, reference: &Reference) -> Submit {
        match self.adapter(lane) {
            Some(Adapter::Sandbox(provider)) => provider.submit(request, reference).await,
            Some(Adapter::Generic(provider)) => provider.submit(request, reference).await,
            Some(Adapter::Replicate(provider)) => provider.submit(request, reference).await,
            Some(Adapter::Fal(provider)) => provider.submit(request, reference).await,
            Some(Adapter::Runway(provider)) => provider.submit(request).await,
            Some(Adapter::Bedrock(provider)) => provider.submit(request, reference).await,
            None => Submit::Rejected {
                class: ErrorClass::Unauthorized,
                retry_after_ms: None,
                reason: "no provider is configured for this lane; add it and resume the lane".to_owned(),
            },
        }
    }

    async fn status(&self, lane: &LaneName, task: &TaskId) -> TaskState {
        match self.adapter(lane) {
            Some(Adapter::Sandbox(provider)) => provider.status(task).await,
            Some(Adapter::Generic(provider)) => provider.status(task).await,
            Some(Adapter::Replicate(provider)) => provider.status(task).await,
            Some(Adapter::Fal(provider)) => provider.status(task).await,
            Some(Adapter::Runway(provider)) => provider.status(task).await,
            Some(Adapter::Bedrock(provider)) => provider.status(task).await,
            None => TaskState::Unknown,
        }
    }

    async fn find(&self, lane: &LaneName, reference: &Reference, since_ms: Ms) -> Find {
        match self.adapter(lane) {
            Some(Adapter::Sandbox(provider)) => provider.find(reference).await,
            Some(Adapter::Generic(provider)) => provider.find(reference).await,
            Some(Adapter::Replicate(provider)) => provider.find(reference, since_ms).await,
            Some(Adapter::Bedrock(provider)) => provider.find(reference, since_ms).await,
            Some(Adapter::Fal(_) | Adapter::Runway(_)) | None => Find::Unknown,
        }
    }

    async fn cancel(&self, lane: &LaneName, task: &TaskId) -> Cancel {
        match self.adapter(lane) {
            Some(Adapter::Sandbox(provider)) => provider.cancel(task).await,
            Some(Adapter::Generic(provider)) => provider.cancel(task).await,
            Some(Adapter::Replicate(provider)) => provider.cancel(task).await,
            Some(Adapter::Fal(provider)) => provider.cancel(task).await,
            Some(Adapter::Runway(provider)) => provider.cancel(task).await,
            Some(Adapter::Bedrock(_)) => BedrockProvider::cancel(),
            None => Cancel::Unknown,
        }
    }
}
