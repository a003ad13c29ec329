//! The providers of all lanes behind the one port.
#![allow(clippy::disallowed_methods, reason = "a key may be given by the name of its variable")]

use crate::client::Clients;
use crate::config::{LaneConfig, ProvidersConfig, ProvidersError};
use crate::sandbox::SandboxProvider;
use glassline_protocol::ids::{LaneName, TaskId};
use glassline_protocol::provider::{
    Cancel, Capabilities, ErrorClass, Find, Provider, Recovery, Reference, RenderRequest, Submit, TaskState,
};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

/// The adapter of one lane.
enum Adapter {
    Sandbox(SandboxProvider),
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
        // Setting up TLS reads the system's certificates: once for all lanes with the same timeout.
        let mut clients: HashMap<u64, Clients> = HashMap::new();
        let mut lanes = BTreeMap::new();
        for (lane, config) in config.lanes {
            let adapter = match config {
                LaneConfig::Sandbox(config) => {
                    let base = config.check(&lane)?;
                    let key = config.key(&lane, environment)?;
                    let timeout_ms = config.connect_timeout_ms;
                    let clients = match clients.get(&timeout_ms) {
                        Some(clients) => clients.clone(),
                        None => clients.entry(timeout_ms).or_insert(Clients::new(timeout_ms)?).clone(),
                    };
                    let rule = "its API key can't be sent in a header";
                    SandboxProvider::new(lane.clone(), base, &key, clients, config)
                        .map(Adapter::Sandbox)
                        .ok_or_else(|| ProvidersError::Lane { lane: lane.clone(), rule })?
                }
            };
            lanes.insert(lane, adapter);
        }
        Ok(Self { lanes: Arc::new(lanes) })
    }

    /// The lanes that have a provider, sorted.
    pub fn lanes(&self) -> impl Iterator<Item = &LaneName> {
        self.lanes.keys()
    }

    fn adapter(&self, lane: &LaneName) -> Option<&Adapter> {
        let adapter = self.lanes.get(lane);
        if adapter.is_none() {
            tracing::error!(event = "provider_not_configured", lane = %lane);
        }
        adapter
    }
}

impl Provider for Providers {
    fn capabilities(&self, lane: &LaneName) -> Capabilities {
        match self.lanes.get(lane) {
            Some(Adapter::Sandbox(provider)) => provider.capabilities(),
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
            None => TaskState::Unknown,
        }
    }

    async fn find(&self, lane: &LaneName, reference: &Reference) -> Find {
        match self.adapter(lane) {
            Some(Adapter::Sandbox(provider)) => provider.find(reference).await,
            None => Find::Unknown,
        }
    }

    async fn cancel(&self, lane: &LaneName, task: &TaskId) -> Cancel {
        match self.adapter(lane) {
            Some(Adapter::Sandbox(provider)) => provider.cancel(task).await,
            None => Cancel::Unknown,
        }
    }
}
