//! An HTTP API described in TOML, so that a provider can be added without code. `docs/providers.md` says how.
//!
//! Descriptions of four vendors come with Glassline (`shared/providers/apis`); each names the documentation that it was
//! written from.

mod adapter;
mod api;
mod body;
mod options;
mod pointer;
mod read;
mod spec;
mod template;

pub(crate) use adapter::GenericProvider;
pub(crate) use pointer::merge;

/// Puts a value where a JSON pointer says; `None` if it isn't one.
pub(crate) fn put(root: &mut serde_json::Value, pointer: &str, value: serde_json::Value) -> Option<()> {
    pointer::Pointer::parse(pointer).ok()?.put(root, value);
    Some(())
}

use crate::config::{ProvidersError, bad};
use crate::hook::webhook_key;
use crate::lane::{Defaults, Setup, vendor_lane};
use crate::secret::Secret;
use glassline_protocol::ids::LaneName;
use glassline_protocol::provider::Recovery;
use read::{Mistake, mistake};
use serde::Deserialize;
use spec::Signature;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The descriptions that come with Glassline, by name.
pub(crate) const BUILT_IN: [(&str, &str); 4] = [
    ("comfyui", include_str!("../../apis/comfyui.toml")),
    ("higgsfield", include_str!("../../apis/higgsfield.toml")),
    ("luma-agents", include_str!("../../apis/luma-agents.toml")),
    ("stability", include_str!("../../apis/stability.toml")),
];

vendor_lane! {
    /// A lane served by an HTTP API that is described in TOML. Give exactly one of `api`, `file` and `toml`.
    GenericLane {
        /// The name of a description that comes with Glassline: `comfyui`, `higgsfield`, `luma-agents`, `stability`.
        #[serde(default)]
        pub api: Option<String>,
        /// The path of a description.
        #[serde(default)]
        pub file: Option<PathBuf>,
        /// A description itself, for functions that have no file of yours.
        #[serde(default)]
        pub toml: Option<String>,
        /// The options that the description asks for.
        #[serde(default)]
        pub options: BTreeMap<String, String>,
        /// Goes into every request's body, over the description's own constants and under a job's params.
        #[serde(default)]
        pub body: serde_json::Map<String, serde_json::Value>,
        /// The vendor's secrets for the signatures of its callbacks, where the description asks for them.
        #[serde(default)]
        pub webhook_secrets: Vec<crate::lane::SecretSource>,
    }
}

impl GenericLane {
    /// Reads the description and sets the lane up.
    pub(crate) fn build(&self, setup: &mut Setup<'_>) -> Result<GenericProvider, ProvidersError> {
        let lane = setup.lane.clone();
        let named = |mistake: Mistake| described(&lane, mistake);
        let text = self.text().map_err(named)?;
        let api = read::read(&text, &self.options).map_err(named)?;
        let common = self.common();
        let defaults = Defaults {
            base_url: api.base_url.clone(),
            submit_ms: api.times.submit_timeout_ms.unwrap_or(30_000),
            poll_ms: api.times.poll_ms.unwrap_or(5_000),
            least_poll_ms: api.times.least_poll_ms.unwrap_or(1),
            deadline_ms: api.times.deadline_ms.unwrap_or(1_800_000),
            output_lifetime_ms: api.output_lifetime_ms,
        };
        let auth = api.auth.as_ref().map(|(name, prefix)| (name.clone(), prefix.as_str()));
        if auth.is_none() && (self.api_key.is_some() || self.api_key_env.is_some()) {
            return Err(bad(&lane, "its description has no `[auth]`, so it takes no key"));
        }
        let wire = common.wire(setup, &defaults, auth)?;
        let hook = common.hook(setup)?;
        if hook.is_some() && api.callback.is_none() {
            return Err(bad(&lane, "its description has no `[callback]`, so it takes no `callback_url`"));
        }
        let by_callback = match api.recovery {
            Recovery::Callback { .. } => true,
            Recovery::Key { .. } | Recovery::Lookup { .. } | Recovery::None => false,
        };
        if by_callback && hook.is_none() {
            return Err(bad(&lane, "its lost submits are found by callback, so it needs a `callback_url`"));
        }
        let mut keys = Vec::new();
        for source in &self.webhook_secrets {
            let key = webhook_key(&setup.secret(source)?);
            keys.push(key.ok_or_else(|| bad(&lane, "each of `webhook_secrets` is base64, after `whsec_`"))?);
        }
        let signed = api.callback.as_ref().is_some_and(|rule| rule.signature == Signature::StandardWebhooks);
        if signed && hook.is_some() && keys.is_empty() {
            return Err(bad(&lane, "its callbacks are signed, so it needs `webhook_secrets`"));
        }
        tracing::debug!(lane = %lane, api = api.name, "provider described in TOML");
        let body = serde_json::Value::Object(self.body.clone());
        Ok(GenericProvider::new(wire, api, common.namespace.to_owned(), body, hook, keys))
    }

    fn text(&self) -> Result<String, Mistake> {
        match (&self.api, &self.file, &self.toml) {
            (Some(name), None, None) => {
                let found = BUILT_IN.iter().find(|(known, _)| known == name);
                let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
                found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| {
                    mistake("`api`", format!("there is no such description; there are: {}", names.join(", ")))
                })
            }
            (None, Some(path), None) => std::fs::read_to_string(path).map_err(|error| {
                mistake("`file`", format!("`{}` can't be read: {}", path.display(), error.kind()))
            }),
            (None, None, Some(text)) => Ok(text.clone()),
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) | (_, Some(_), Some(_)) | (None, None, None) => {
                Err(mistake("the lane", "give exactly one of `api`, `file` and `toml`"))
            }
        }
    }
}

fn described(lane: &LaneName, mistake: Mistake) -> ProvidersError {
    ProvidersError::Description { lane: lane.clone(), place: mistake.place, rule: mistake.rule }
}

#[cfg(test)]
mod tests;
