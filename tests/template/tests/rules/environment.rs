//! Every variable that the code reads is set to something that it takes, and no other is set.

use super::Findings;
use super::expected::{FUNCTIONS, unknown};
use glassline_aws::config::Env;
use glassline_aws::telemetry::VARIABLES;
use glassline_template::Template;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// What a secret holds in this test.
fn secret(reference: &str) -> String {
    let providers = r#"{"main": {"adapter": "sandbox", "base_url": "https://sandbox.example",
        "api_key": "k", "recovery": {"tier": "none"}}}"#;
    match reference.rsplit(':').next() {
        Some("current") => "sixteen bytes and more".to_owned(),
        Some("previous") => String::new(),
        _ => providers.to_owned(),
    }
}

/// A name as CloudFormation would fill it in.
fn filled(template: &Template, name: &str) -> String {
    let resource = &template.0["Resources"][name.trim_end_matches(".Arn")];
    match resource["Type"].as_str() {
        Some("AWS::SQS::Queue") => format!("https://sqs.eu-west-1.amazonaws.com/123456789012/{name}"),
        Some(_) => name.to_lowercase(),
        None => match &template.0["Parameters"][name]["Default"] {
            Value::String(text) => text.clone(),
            Value::Null => name.rsplit("::").next().unwrap_or_default().to_lowercase(),
            default @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                default.to_string()
            }
        },
    }
}

/// A value as CloudFormation would give it to the function.
fn given(template: &Template, value: &Value) -> String {
    if let Some(name) = value["Ref"].as_str() {
        return filled(template, name);
    }
    let Some(text) = value["Fn::Sub"].as_str().or(value.as_str()) else { return value.to_string() };
    let mut given = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').unwrap();
        given += before;
        given += &filled(template, name);
        rest = after;
    }
    given += rest;
    match given.strip_prefix("{{resolve:secretsmanager:").and_then(|text| text.strip_suffix("}}")) {
        Some(reference) => secret(reference),
        None => given,
    }
}

pub(crate) fn rule(template: &Template) -> Findings {
    let mut found = Findings::new();
    for name in template.functions().into_keys() {
        let Some(function) = FUNCTIONS.iter().find(|function| function.name == name) else {
            found.push(unknown(&name));
            continue;
        };
        let variables =
            template.properties(&name)["Environment"]["Variables"].as_object().cloned().unwrap_or_default();
        let set: BTreeMap<String, String> =
            variables.iter().map(|(name, value)| (name.clone(), given(template, value))).collect();
        let read: Mutex<BTreeSet<String>> = Mutex::new(VARIABLES.map(str::to_owned).into());
        let configured = (function.configure)(&Env::new(|variable| {
            read.lock().unwrap().insert(variable.to_owned());
            set.get(variable).cloned()
        }));
        if let Err(error) = configured {
            found.push(format!("{name} can't start: {error}"));
        }
        let read = read.into_inner().unwrap();
        let own = set.keys().cloned().collect::<BTreeSet<_>>();
        found.extend(
            read.difference(&own).map(|variable| format!("{name} reads {variable}, which isn't set")),
        );
        found.extend(
            own.difference(&read).map(|variable| format!("{name} has {variable}, which it never reads")),
        );
        found.extend(
            set.iter()
                .filter(|(key, _)| key.contains("SECRET") || key.contains("PROVIDERS"))
                .filter(|(key, _)| !variables[*key].to_string().contains("{{resolve:secretsmanager:"))
                .map(|(key, _)| format!("{name}'s {key} doesn't come from Secrets Manager")),
        );
    }
    found
}
