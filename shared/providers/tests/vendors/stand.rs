//! The trait that the shared scenarios run over: one vendor, as its documentation has it.

use crate::desk::{Desk, Phase, Refusal, Render, serve};
use axum::Router;
use glassline_protocol::ids::{Id, JobKey, LaneName, TaskId};
use glassline_protocol::provider::{ErrorClass, Media, Recovery, Reference, RenderRequest};
use glassline_providers::{Providers, ProvidersConfig};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) const KEY: &str = "id-1:sk-very-secret-key";
pub(crate) const NOW_MS: u64 = 1_800_000_000_000;
pub(crate) const HOOK: &str = "https://hooks.example/callback/main";
pub(crate) const OUR_SECRET: &str = "our own callback secret";

/// How a task should be told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Expect {
    Failed(ErrorClass),
    Cancelled,
}

/// A callback as the vendor would send it.
pub(crate) struct Sent {
    pub(crate) address: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// A vendor.
pub(crate) trait Stand: Send + Sync {
    fn name(&self) -> &'static str;
    /// Whether the vendor honours a key.
    fn idempotent(&self) -> bool {
        false
    }
    /// Its API over the books.
    fn router(&self, desk: Arc<Desk>) -> Router;
    /// The lane's configuration; with callbacks where it has them.
    fn lane(&self, url: &str) -> Value;
    /// What the adapter must declare.
    fn recovery(&self) -> Recovery;
    /// Refusals before acceptance that the vendor documents.
    fn refusals(&self) -> Vec<(Refusal, ErrorClass)>;
    /// A refusal for too many requests, and the wait that it asks for in milliseconds.
    fn throttled(&self) -> (Refusal, Option<u64>);
    /// Every terminal status but success.
    fn terminals(&self) -> Vec<(Phase, Expect)>;
    /// The task id of a render.
    fn task(&self, render: &Render) -> TaskId {
        TaskId::new(render.id.clone()).unwrap()
    }
    /// Whether asking again gives a fresh address for an output.
    fn renews(&self) -> bool {
        true
    }
    /// Whether the vendor can cancel.
    fn cancels(&self) -> bool {
        true
    }
    /// The callback of a render at a time; `None` for vendors without.
    fn callback(&self, _desk: &Desk, _render: &Render, _now_ms: u64) -> Option<Sent> {
        None
    }
}

/// A vendor at work, and a lane to it.
pub(crate) struct Scene {
    pub(crate) desk: Arc<Desk>,
    pub(crate) providers: Providers,
}

impl Scene {
    pub(crate) async fn new(stand: &dyn Stand) -> Self {
        Self::with(stand, |_| {}).await
    }

    /// The same with another configuration.
    pub(crate) async fn with(stand: &dyn Stand, change: impl FnOnce(&mut Value)) -> Self {
        let desk = Arc::new(Desk { idempotent: stand.idempotent(), ..Desk::default() });
        serve(&desk, stand.router(Arc::clone(&desk))).await;
        let mut config = stand.lane(&desk.url());
        change(&mut config);
        let providers = build(&config).unwrap_or_else(|error| panic!("{}: {error}", stand.name()));
        Self { desk, providers }
    }
}

/// Sets up the lane `main`.
pub(crate) fn build(lane: &Value) -> Result<Providers, String> {
    let config: ProvidersConfig =
        serde_json::from_value(json!({ "main": lane })).map_err(|error| error.to_string())?;
    let environment = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" => Some("AKIDEXAMPLE".to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned()),
        "THE_KEY" => Some(KEY.to_owned()),
        _ => None,
    };
    Providers::from_config_with(config, &environment).map_err(|error| error.to_string())
}

pub(crate) fn main_lane() -> LaneName {
    LaneName::new("main").unwrap()
}

pub(crate) fn reference(shot: &str, attempt: u32) -> Reference {
    Reference { job: JobKey::shot(Id::new("p1").unwrap(), Id::new(shot).unwrap()), attempt }
}

/// A request whose prompt names its reference, so that the vendor's books can be read by (job, attempt).
pub(crate) fn request(reference: &Reference, params: &Value) -> RenderRequest {
    RenderRequest { prompt: prompt(reference), params: params.clone(), media: Media::Image }
}

pub(crate) fn prompt(reference: &Reference) -> String {
    format!("a heron for {reference}")
}

/// A lane's JSON with what all of them have.
pub(crate) fn lane_json(adapter: &str, url: &str, own: Value) -> Value {
    let mut lane = json!({"adapter": adapter, "base_url": url, "api_key": KEY,
        "connect_timeout_ms": 5_000, "submit_timeout_ms": 20_000, "query_timeout_ms": 20_000});
    for (name, value) in own.as_object().unwrap() {
        lane[name] = value.clone();
    }
    lane
}

pub(crate) fn hooked(mut lane: Value) -> Value {
    lane["callback_url"] = HOOK.into();
    lane["callback_secrets"] = json!([OUR_SECRET]);
    lane
}
