//! A description that was read and checked.

use super::pointer::Pointer;
use super::spec::{Format, Signature, TimesSpec};
use super::template::Template;
use glassline_protocol::provider::{ErrorClass, Recovery};
use reqwest::Method;
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::Value;
use std::collections::BTreeMap;

pub(crate) struct Api {
    pub(crate) name: String,
    pub(crate) base_url: Option<String>,
    pub(crate) output_lifetime_ms: Option<u64>,
    pub(crate) auth: Option<(HeaderName, String)>,
    pub(crate) times: TimesSpec,
    pub(crate) recovery: Recovery,
    pub(crate) find: Option<FindCall>,
    pub(crate) submit: Call,
    pub(crate) status: StatusCall,
    pub(crate) output: OutputRule,
    pub(crate) cancel: Vec<CancelCall>,
    pub(crate) callback: Option<CallbackRule>,
    pub(crate) cost: Option<(Pointer, String)>,
}

/// The parts of a path, each with placeholders.
pub(crate) struct Path(pub(crate) Vec<Template>);

impl Path {
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(Template::names)
    }

    /// The filled parts, not yet escaped.
    pub(crate) fn fill(&self, value: &dyn Fn(&str) -> Option<String>) -> Option<Vec<String>> {
        self.0.iter().map(|part| part.fill(value)).collect()
    }
}

/// The submit.
pub(crate) struct Call {
    pub(crate) path: Path,
    pub(crate) query: Vec<(String, Template)>,
    pub(crate) headers: Vec<(HeaderName, Template)>,
    pub(crate) format: Format,
    pub(crate) accepted: Vec<u16>,
    pub(crate) task: Pointer,
    pub(crate) error_code: Vec<Pointer>,
    pub(crate) body: Value,
    /// Params first.
    pub(crate) place: Vec<(Pointer, Template)>,
    pub(crate) refused: Vec<RefusedRule>,
    pub(crate) wait_s: Option<Pointer>,
}

impl Call {
    /// Whether a placeholder stands anywhere in it.
    pub(crate) fn uses(&self, name: &str) -> bool {
        self.query.iter().any(|(_, value)| value.has(name))
            || self.place.iter().any(|(_, value)| value.has(name))
    }
}

/// What a refusal means; without a class it proves nothing.
pub(crate) struct RefusedRule {
    pub(crate) http: Option<u16>,
    pub(crate) code: Option<String>,
    pub(crate) class: Option<ErrorClass>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Running,
    Completed,
    Cancelled,
    Missing,
    /// The error's code says more.
    Failed,
    FailedAs(ErrorClass),
}

pub(crate) struct StatusCall {
    pub(crate) path: Path,
    pub(crate) query: Vec<(String, Template)>,
    pub(crate) word: Option<Pointer>,
    pub(crate) words: BTreeMap<String, Word>,
    pub(crate) http: BTreeMap<u16, Word>,
    pub(crate) error_code: Vec<Pointer>,
    pub(crate) errors: BTreeMap<String, ErrorClass>,
}

pub(crate) struct OutputRule {
    pub(crate) items: Vec<Pointer>,
    pub(crate) url: Option<Pointer>,
    pub(crate) path: Option<Path>,
    pub(crate) query: Vec<(String, Template)>,
    pub(crate) keep: Vec<(Pointer, Vec<String>)>,
    pub(crate) expires: Option<Pointer>,
    pub(crate) with_key: bool,
    pub(crate) accept: Option<HeaderValue>,
}

pub(crate) struct CancelCall {
    pub(crate) method: Method,
    pub(crate) path: Path,
    pub(crate) place: Vec<(Pointer, Template)>,
    pub(crate) ok: Vec<u16>,
    pub(crate) ended: Vec<u16>,
}

pub(crate) struct FindCall {
    pub(crate) path: Path,
    pub(crate) query: Vec<(String, Template)>,
    pub(crate) items: Pointer,
    pub(crate) task: Pointer,
    pub(crate) reference: Pointer,
    pub(crate) equals: Template,
    pub(crate) absent: Vec<u16>,
}

pub(crate) struct CallbackRule {
    pub(crate) task: Pointer,
    pub(crate) signature: Signature,
}
