//! From the text of a description to an [`Api`] that can be used; every mistake is one sentence with its place.

use super::api::{
    Api, Call, CallbackRule, CancelCall, FindCall, OutputRule, Path, RefusedRule, StatusCall, Word,
};
use super::options::{fill_options, options};
use super::pointer::Pointer;
use super::spec::{CancelSpec, FindSpec, OutputSpec, RecoverySpec, Spec, StatusSpec};
use super::template::Template;
use glassline_protocol::provider::{ErrorClass, Recovery};
use reqwest::Method;
use reqwest::header::{HeaderName, HeaderValue};
use serde::de::{DeserializeOwned, IntoDeserializer, value::StrDeserializer};
use std::collections::BTreeMap;

/// What is wrong with a description.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// Where, such as `submit.path` or `line 12`.
    pub(crate) place: String,
    /// What is wrong and what to do, one sentence.
    pub(crate) rule: String,
}

pub(super) fn mistake(place: impl Into<String>, rule: impl Into<String>) -> Mistake {
    Mistake { place: place.into(), rule: rule.into() }
}

/// The longest description, in bytes.
const TEXT_BYTES: usize = 256 * 1024;

const SUBMIT: &[&str] =
    &["prompt", "params", "media", "reference", "reference_hash", "reference_uuid", "callback_url"];
const SUBMIT_PATH: &[&str] = &["reference", "reference_hash", "reference_uuid"];
const FIND: &[&str] = SUBMIT_PATH;
const TASK: &[&str] = &["task"];
const OUTPUT: &[&str] = &["task", "item:"];

/// Reads a description and puts the lane's options in.
pub(crate) fn read(text: &str, given: &BTreeMap<String, String>) -> Result<Api, Mistake> {
    if text.len() > TEXT_BYTES {
        return Err(mistake("the file", "it is longer than 256 KiB"));
    }
    let mut table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        mistake(format!("line {line}"), one_line(error.message()))
    })?;
    let options = options(&table, given)?;
    for (name, value) in &mut table {
        fill_options(name, value, &options)?;
    }
    let spec: Spec = serde_path_to_error::deserialize(toml::Value::Table(table)).map_err(|error| {
        let place = match error.path().to_string() {
            root if root == "." => "the file".to_owned(),
            path => path,
        };
        mistake(place, one_line(error.inner().message()))
    })?;
    build(spec)
}

pub(super) fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect()
}

fn build(spec: Spec) -> Result<Api, Mistake> {
    let auth = spec
        .auth
        .as_ref()
        .map(|auth| Ok::<_, Mistake>((header_name("auth.header", &auth.header)?, auth.prefix.clone())))
        .transpose()?;
    if spec.output.with_key && auth.is_none() {
        return Err(mistake("output.with_key", "there is no `[auth]` whose key could be sent"));
    }
    let (recovery, key_header) = recovery(&spec)?;
    let callback = spec
        .callback
        .as_ref()
        .map(|callback| {
            Ok::<_, Mistake>(CallbackRule {
                task: one("callback.task", &callback.task)?,
                signature: callback.signature,
            })
        })
        .transpose()?;
    let cost = spec
        .cost
        .as_ref()
        .map(|cost| Ok::<_, Mistake>((one("cost.pointer", &cost.pointer)?, cost.unit.clone())))
        .transpose()?;
    let cancel =
        spec.cancel.iter().enumerate().map(|(at, call)| cancel(at, call)).collect::<Result<_, _>>()?;
    let output = output(&spec.output)?;
    let submit = submit(&spec, key_header)?;
    let status = status(&spec.status)?;
    let placed = submit.uses("callback_url");
    if callback.is_some() != placed {
        let rule = "`[callback]` and `{callback_url}` somewhere in `[submit]` need each other";
        return Err(mistake("callback", rule));
    }
    Ok(Api {
        name: spec.name,
        base_url: spec.base_url,
        output_lifetime_ms: spec.output_lifetime_ms,
        auth,
        times: spec.times,
        recovery,
        find: spec.find.as_ref().map(find).transpose()?,
        submit,
        status,
        output,
        cancel,
        callback,
        cost,
    })
}

type KeyHeader = Option<(HeaderName, Template)>;

fn recovery(spec: &Spec) -> Result<(Recovery, KeyHeader), Mistake> {
    let span = |span_ms: u64, place: &str| {
        if (1..=366 * 86_400_000).contains(&span_ms) {
            Ok(span_ms)
        } else {
            Err(mistake(format!("recovery.{place}"), "it must be from 1 ms to a year"))
        }
    };
    match &spec.recovery {
        RecoverySpec::Key { lifetime_ms, header, value } => {
            let lifetime_ms = span(*lifetime_ms, "lifetime_ms")?;
            let value = template("recovery.value", value, SUBMIT_PATH)?;
            if value.names().next().is_none() {
                return Err(mistake("recovery.value", "a key must hold `{reference}` or one of its forms"));
            }
            let header = header_name("recovery.header", header)?;
            Ok((Recovery::Key { lifetime_ms }, Some((header, value))))
        }
        RecoverySpec::Lookup { settle_ms } => {
            if spec.find.is_none() {
                return Err(mistake("recovery.tier", "`lookup` needs a `[find]`"));
            }
            Ok((Recovery::Lookup { settle_ms: span(*settle_ms, "settle_ms")? }, None))
        }
        RecoverySpec::Callback { deadline_ms } => {
            if spec.callback.is_none() {
                return Err(mistake("recovery.tier", "`callback` needs a `[callback]`"));
            }
            Ok((Recovery::Callback { deadline_ms: span(*deadline_ms, "deadline_ms")? }, None))
        }
        RecoverySpec::None {} => Ok((Recovery::None, None)),
    }
}

fn submit(spec: &Spec, key: KeyHeader) -> Result<Call, Mistake> {
    let submit = &spec.submit;
    let mut headers = Vec::new();
    for (name, value) in &submit.headers {
        let place = format!("submit.headers.{name}");
        let name = header_name(&place, name)?;
        headers.push((name, template(&place, value, SUBMIT_PATH)?));
    }
    headers.extend(key);
    let mut place = Vec::new();
    for (pointer, value) in &submit.place {
        let at = format!("submit.place.\"{pointer}\"");
        let value = template(&at, value, SUBMIT)?;
        if value.has("params") && value.whole() != Some("params") {
            return Err(mistake(at, "`{params}` is an object and can't stand within a text"));
        }
        place.push((one(&at, pointer)?, value));
    }
    if !place.iter().any(|(_, value)| value.has("prompt")) {
        return Err(mistake("submit.place", "`{prompt}` must be placed somewhere"));
    }
    // Params first: whatever is placed after them can't be replaced by them.
    place.sort_by_key(|(_, value)| value.whole() != Some("params"));
    let mut refused = Vec::new();
    for (at, rule) in submit.refused.iter().enumerate() {
        let place = format!("submit.refused[{at}]");
        if rule.http.is_none() && rule.code.is_none() {
            return Err(mistake(place, "it needs `http`, `code` or both"));
        }
        if rule.code.is_some() && submit.error_code.is_empty() {
            return Err(mistake(place, "`code` needs `submit.error_code` to say where codes stand"));
        }
        if rule.http.is_some_and(|status| submit.accepted.contains(&status)) && rule.code.is_none() {
            return Err(mistake(place, "this status is in `submit.accepted`"));
        }
        let class = match rule.class.as_str() {
            "unknown" => None,
            name => Some(class(&place, name)?),
        };
        refused.push(RefusedRule { http: rule.http, code: rule.code.clone(), class });
    }
    statuses("submit.accepted", &submit.accepted)?;
    Ok(Call {
        path: path("submit.path", &submit.path, SUBMIT_PATH)?,
        query: query("submit.query", &submit.query, SUBMIT)?,
        headers,
        format: submit.format,
        accepted: submit.accepted.clone(),
        task: one("submit.task", &submit.task)?,
        error_code: pointers("submit.error_code", &submit.error_code)?,
        body: json("submit.body", &submit.body)?,
        place,
        refused,
        wait_s: submit.wait_s.as_deref().map(|text| one("submit.wait_s", text)).transpose()?,
    })
}

fn json(place: &str, table: &toml::Table) -> Result<serde_json::Value, Mistake> {
    let text = "it must be something that JSON can say: no dates, no infinite numbers";
    serde_json::to_value(table).map_err(|_| mistake(place, text)).and_then(|value| {
        let odd = table.to_string().contains("inf") && value.to_string().contains("null");
        if odd { Err(mistake(place, text)) } else { Ok(value) }
    })
}

fn status(spec: &StatusSpec) -> Result<StatusCall, Mistake> {
    let mut words = BTreeMap::new();
    for (name, value) in &spec.words {
        words.insert(name.clone(), word(&format!("status.words.{name}"), value)?);
    }
    let mut http = BTreeMap::new();
    for (name, value) in &spec.http {
        let place = format!("status.http.{name}");
        let code: u16 = name.parse().map_err(|_| mistake(&place, "it must be an HTTP status such as 404"))?;
        statuses(&place, &[code])?;
        http.insert(code, word(&place, value)?);
    }
    if spec.word.is_none() && !spec.words.is_empty() {
        return Err(mistake("status.words", "`status.word` must say where the word stands"));
    }
    let mut both = words.values().chain(http.values());
    if !both.any(|word| *word == Word::Completed) {
        return Err(mistake("status", "no word or HTTP status means `completed`"));
    }
    let mut errors = BTreeMap::new();
    for (name, value) in &spec.errors {
        errors.insert(name.clone(), class(&format!("status.errors.{name}"), value)?);
    }
    Ok(StatusCall {
        path: path("status.path", &spec.path, TASK)?,
        query: query("status.query", &spec.query, TASK)?,
        word: spec.word.as_deref().map(|text| one("status.word", text)).transpose()?,
        words,
        http,
        error_code: pointers("status.error_code", &spec.error_code)?,
        errors,
    })
}

fn output(spec: &OutputSpec) -> Result<OutputRule, Mistake> {
    let items = pointers("output.items", &spec.items)?;
    if spec.url.is_some() == spec.path.is_some() {
        return Err(mistake("output", "give exactly one of `url` and `path`"));
    }
    if items.is_empty() && (spec.url.is_some() || !spec.keep.is_empty() || spec.expires.is_some()) {
        return Err(mistake("output.items", "it must say where the outputs stand in the status answer"));
    }
    if spec.path.is_none() && !spec.query.is_empty() {
        return Err(mistake("output.query", "it belongs to `output.path`"));
    }
    if spec.path.is_none() && (spec.with_key || spec.accept.is_some()) {
        let rule = "only outputs on the API itself, those with a `path`, are fetched with headers";
        return Err(mistake("output.with_key", rule));
    }
    let mut keep = Vec::new();
    for (name, values) in &spec.keep {
        keep.push((one(&format!("output.keep.\"{name}\""), name)?, values.clone()));
    }
    let accept = spec.accept.as_deref().map(HeaderValue::from_str).transpose();
    let rule = OutputRule {
        items,
        url: spec.url.as_deref().map(|text| one("output.url", text)).transpose()?,
        path: spec.path.as_deref().map(|text| path("output.path", text, OUTPUT)).transpose()?,
        query: query("output.query", &spec.query, OUTPUT)?,
        keep,
        expires: spec.expires.as_deref().map(|text| one("output.expires", text)).transpose()?,
        with_key: spec.with_key,
        accept: accept.map_err(|_| mistake("output.accept", "it can't be sent in a header"))?,
    };
    let names =
        rule.path.iter().flat_map(Path::names).chain(rule.query.iter().flat_map(|(_, text)| text.names()));
    for name in names {
        if let Some(text) = name.strip_prefix("item:") {
            one("output.path", text)?;
            if rule.items.is_empty() {
                return Err(mistake("output.items", "`{item:…}` needs it"));
            }
        }
    }
    Ok(rule)
}

fn cancel(at: usize, spec: &CancelSpec) -> Result<CancelCall, Mistake> {
    let place = format!("cancel[{at}]");
    let method = match spec.method.as_str() {
        "POST" => Method::POST,
        "PUT" => Method::PUT,
        "DELETE" => Method::DELETE,
        _ => return Err(mistake(format!("{place}.method"), "it must be `POST`, `PUT` or `DELETE`")),
    };
    statuses(&format!("{place}.ok"), &spec.ok)?;
    let mut placed = Vec::new();
    for (pointer, value) in &spec.place {
        let at = format!("{place}.place.\"{pointer}\"");
        placed.push((one(&at, pointer)?, template(&at, value, TASK)?));
    }
    let path = path(&format!("{place}.path"), &spec.path, TASK)?;
    if !path.names().any(|name| name == "task") && !placed.iter().any(|(_, value)| value.has("task")) {
        return Err(mistake(place, "`{task}` must stand in its path or be placed in its body"));
    }
    Ok(CancelCall { method, path, place: placed, ok: spec.ok.clone(), ended: spec.ended.clone() })
}

fn find(spec: &FindSpec) -> Result<FindCall, Mistake> {
    let equals = template("find.equals", &spec.equals, FIND)?;
    if equals.names().next().is_none() {
        return Err(mistake("find.equals", "it must hold `{reference}` or one of its forms"));
    }
    Ok(FindCall {
        path: path("find.path", &spec.path, FIND)?,
        query: query("find.query", &spec.query, FIND)?,
        items: pointer("find.items", &spec.items)?,
        task: one("find.task", &spec.task)?,
        reference: one("find.reference", &spec.reference)?,
        equals,
        absent: spec.absent.clone(),
    })
}

fn template(place: &str, text: &str, allowed: &[&str]) -> Result<Template, Mistake> {
    Template::parse(text, allowed).map_err(|rule| mistake(place, rule))
}

fn query(
    place: &str,
    pairs: &BTreeMap<String, String>,
    allowed: &[&str],
) -> Result<Vec<(String, Template)>, Mistake> {
    let pair = |(name, text): (&String, &String)| {
        Ok((name.clone(), template(&format!("{place}.{name}"), text, allowed)?))
    };
    pairs.iter().map(pair).collect()
}

fn path(place: &str, text: &str, allowed: &[&str]) -> Result<Path, Mistake> {
    let Some(rest) = text.strip_prefix('/') else {
        return Err(mistake(place, "a path starts with `/`"));
    };
    // A pointer within `{item:/…}` has slashes too.
    let mut inside = false;
    let parts: Vec<&str> = rest
        .split(|letter| {
            inside = (inside || letter == '{') && letter != '}';
            letter == '/' && !inside
        })
        .collect();
    if rest.contains(['?', '#', '%', ' ', '\\']) {
        return Err(mistake(place, "a path has no query and no escapes: use `query`, and write it plainly"));
    }
    if parts.iter().any(|part| matches!(*part, "" | "." | "..")) {
        return Err(mistake(place, "no part of a path may be empty, `.` or `..`"));
    }
    parts.into_iter().map(|part| template(place, part, allowed)).collect::<Result<_, _>>().map(Path)
}

fn pointer(place: &str, text: &str) -> Result<Pointer, Mistake> {
    Pointer::parse(text).map_err(|rule| mistake(place, rule))
}

/// A pointer to one value.
fn one(place: &str, text: &str) -> Result<Pointer, Mistake> {
    let read = pointer(place, text)?;
    if read.many() { Err(mistake(place, "`*` can't be used here")) } else { Ok(read) }
}

fn pointers(place: &str, texts: &[String]) -> Result<Vec<Pointer>, Mistake> {
    texts.iter().map(|text| pointer(place, text)).collect()
}

fn header_name(place: &str, text: &str) -> Result<HeaderName, Mistake> {
    let name: HeaderName = text.parse().map_err(|_| mistake(place, "it is not a header's name"))?;
    let ours = ["host", "content-length", "content-type", "transfer-encoding", "connection"];
    if ours.contains(&name.as_str()) {
        return Err(mistake(place, "this header is set by the client itself"));
    }
    Ok(name)
}

fn statuses(place: &str, codes: &[u16]) -> Result<(), Mistake> {
    if !codes.is_empty() && codes.iter().all(|code| (200..600).contains(code)) {
        Ok(())
    } else {
        Err(mistake(place, "it must be HTTP statuses from 200 to 599, at least one"))
    }
}

fn named<T: DeserializeOwned>(name: &str) -> Option<T> {
    let reader: StrDeserializer<'_, serde::de::value::Error> = name.into_deserializer();
    T::deserialize(reader).ok()
}

fn class(place: &str, name: &str) -> Result<ErrorClass, Mistake> {
    named(name).ok_or_else(|| {
        let rule = "it must be `throttled`, `transient`, `invalid_input`, `moderated`, `payment_required`, \
                    `unauthorized` or `bad_output`";
        mistake(place, rule)
    })
}

fn word(place: &str, name: &str) -> Result<Word, Mistake> {
    match name {
        "running" => Ok(Word::Running),
        "completed" => Ok(Word::Completed),
        "cancelled" => Ok(Word::Cancelled),
        "missing" => Ok(Word::Missing),
        "failed" => Ok(Word::Failed),
        name => match named(name) {
            Some(class) => Ok(Word::FailedAs(class)),
            None => {
                let rule =
                    "it must be `running`, `completed`, `cancelled`, `missing`, `failed` or an error class";
                Err(mistake(place, rule))
            }
        },
    }
}
