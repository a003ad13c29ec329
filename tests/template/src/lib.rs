//! `template.yaml` as a value that tests look into and change.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a template that can't be read must stop the test"
)]

use saphyr::{LoadableYamlNode as _, Scalar, Yaml};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The repository.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The template as JSON; short forms such as `!Ref A` become long ones.
#[derive(Clone, Debug)]
pub struct Template(pub Value);

fn value(yaml: &Yaml<'_>) -> Value {
    match yaml {
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(value)) => json!(value),
        Yaml::Value(Scalar::Integer(value)) => json!(value),
        Yaml::Value(Scalar::FloatingPoint(value)) => json!(value.into_inner()),
        Yaml::Value(Scalar::String(text)) => json!(text),
        Yaml::Sequence(items) => items.iter().map(value).collect(),
        Yaml::Mapping(pairs) => {
            let pair = |(name, found): (&Yaml<'_>, &Yaml<'_>)| {
                (value(name).as_str().unwrap().to_owned(), value(found))
            };
            Value::Object(pairs.iter().map(pair).collect())
        }
        Yaml::Tagged(tag, inner) => {
            let name = if tag.suffix == "Ref" { "Ref".to_owned() } else { format!("Fn::{}", tag.suffix) };
            Value::Object(Map::from_iter([(name, value(inner))]))
        }
        other => panic!("CloudFormation takes no {other:?}"),
    }
}

impl Template {
    /// The repository's template.
    #[must_use]
    pub fn read() -> Self {
        let text = std::fs::read_to_string(root().join("template.yaml")).unwrap();
        Self(value(&Yaml::load_from_str(&text).unwrap()[0]))
    }

    /// The resources of a type, by their names.
    #[must_use]
    pub fn resources(&self, kind: &str) -> BTreeMap<String, Value> {
        let all = self.0["Resources"].as_object().unwrap().iter();
        let found = all.filter(|(_, resource)| resource["Type"] == kind);
        found.map(|(name, resource)| (name.clone(), resource.clone())).collect()
    }

    /// The properties of a resource.
    #[must_use]
    pub fn properties(&self, resource: &str) -> &Value {
        &self.0["Resources"][resource]["Properties"]
    }

    /// The functions.
    #[must_use]
    pub fn functions(&self) -> BTreeMap<String, Value> {
        self.resources("AWS::Serverless::Function")
    }

    /// Properties of a function, its own before those of all functions.
    #[must_use]
    pub fn of_function<'a>(&'a self, name: &str, property: &str) -> &'a Value {
        match &self.properties(name)[property] {
            Value::Null => &self.0["Globals"]["Function"][property],
            own => own,
        }
    }

    /// What a parameter is if nothing else is given, or a number as it stands.
    #[must_use]
    pub fn number(&self, value: &Value) -> Option<u64> {
        match value["Ref"].as_str() {
            Some(parameter) => self.0["Parameters"][parameter]["Default"].as_u64(),
            None => value.as_u64(),
        }
    }

    /// The event source mappings of a function: the queue's name, and the mapping's properties.
    #[must_use]
    pub fn mappings(&self, function: &str) -> Vec<(String, &Value)> {
        let events = self.properties(function)["Events"].as_object();
        let events = events.into_iter().flat_map(Map::values).filter(|event| event["Type"] == "SQS");
        events.map(|event| (target(&event["Properties"]["Queue"]), &event["Properties"])).collect()
    }
}

/// What a value points at, as text: `Table` for its ARN, name or address, `Table/index/queue` for what lies below it.
#[must_use]
pub fn target(value: &Value) -> String {
    let text = ["Ref", "Fn::GetAtt", "Fn::Sub"].iter().find_map(|short| value[short].as_str());
    let text = text.or(value.as_str()).unwrap_or_default();
    text.replace("${", "").replace('}', "").replace(".Arn", "")
}
