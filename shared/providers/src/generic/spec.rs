//! The description of an HTTP API, as its TOML has it. `docs/providers.md` explains it to users.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The whole description.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    /// Its name, for people.
    pub(crate) name: String,
    /// Where its facts come from: addresses of the vendor's documentation.
    #[serde(default)]
    #[expect(dead_code, reason = "for readers; read so that a misspelt field is found")]
    pub(crate) docs: Vec<String>,
    pub(crate) base_url: Option<String>,
    pub(crate) output_lifetime_ms: Option<u64>,
    pub(crate) auth: Option<AuthSpec>,
    #[serde(default)]
    pub(crate) times: TimesSpec,
    /// Options are put in before this is read.
    #[serde(default)]
    #[expect(dead_code, reason = "read by `options`")]
    pub(crate) options: BTreeMap<String, OptionSpec>,
    pub(crate) recovery: RecoverySpec,
    pub(crate) submit: SubmitSpec,
    pub(crate) status: StatusSpec,
    pub(crate) output: OutputSpec,
    #[serde(default)]
    pub(crate) cancel: Vec<CancelSpec>,
    pub(crate) find: Option<FindSpec>,
    pub(crate) callback: Option<CallbackSpec>,
    pub(crate) cost: Option<CostSpec>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuthSpec {
    pub(crate) header: String,
    #[serde(default)]
    pub(crate) prefix: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimesSpec {
    pub(crate) submit_timeout_ms: Option<u64>,
    pub(crate) poll_ms: Option<u64>,
    pub(crate) least_poll_ms: Option<u64>,
    pub(crate) deadline_ms: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OptionSpec {
    /// Absent: the lane must give it.
    pub(crate) default: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "tier", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum RecoverySpec {
    Key { lifetime_ms: u64, header: String, value: String },
    Lookup { settle_ms: u64 },
    Callback { deadline_ms: u64 },
    None {},
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    #[default]
    Json,
    Multipart,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubmitSpec {
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) query: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) format: Format,
    #[serde(default = "ok_statuses")]
    pub(crate) accepted: Vec<u16>,
    pub(crate) task: String,
    #[serde(default)]
    pub(crate) error_code: Vec<String>,
    #[serde(default)]
    pub(crate) body: toml::Table,
    #[serde(default)]
    pub(crate) place: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) refused: Vec<RefusedSpec>,
    /// Seconds to wait, in the body of a refusal.
    pub(crate) wait_s: Option<String>,
}

pub(crate) fn ok_statuses() -> Vec<u16> {
    vec![200, 201, 202]
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RefusedSpec {
    pub(crate) http: Option<u16>,
    pub(crate) code: Option<String>,
    /// An error class, or `unknown` where the answer proves nothing.
    pub(crate) class: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatusSpec {
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) word: Option<String>,
    #[serde(default)]
    pub(crate) words: BTreeMap<String, String>,
    /// By HTTP status, as text, for TOML's keys are texts.
    #[serde(default)]
    pub(crate) http: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) error_code: Vec<String>,
    #[serde(default)]
    pub(crate) errors: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutputSpec {
    #[serde(default)]
    pub(crate) items: Vec<String>,
    pub(crate) url: Option<String>,
    pub(crate) path: Option<String>,
    #[serde(default)]
    pub(crate) query: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) keep: BTreeMap<String, Vec<String>>,
    pub(crate) expires: Option<String>,
    #[serde(default)]
    pub(crate) with_key: bool,
    pub(crate) accept: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelSpec {
    pub(crate) method: String,
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) place: BTreeMap<String, String>,
    #[serde(default = "ok_statuses")]
    pub(crate) ok: Vec<u16>,
    #[serde(default)]
    pub(crate) ended: Vec<u16>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FindSpec {
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) query: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) items: String,
    pub(crate) task: String,
    pub(crate) reference: String,
    pub(crate) equals: String,
    #[serde(default)]
    pub(crate) absent: Vec<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Signature {
    /// The vendor signs nothing; our own HMAC in the address is the proof.
    Address,
    /// The Standard Webhooks' headers, on top of it.
    StandardWebhooks,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallbackSpec {
    pub(crate) task: String,
    pub(crate) signature: Signature,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CostSpec {
    pub(crate) pointer: String,
    pub(crate) unit: String,
}
