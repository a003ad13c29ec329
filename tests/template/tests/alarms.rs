//! Alarms and dashboard: what they watch is what the code counts, and what they say to do is written down.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use glassline_aws::telemetry::METRICS_NAMESPACE;
use glassline_aws::telemetry::list::{METRICS, Metric};
use glassline_template::{Template, root};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A metric as an alarm names it: namespace, name, dimensions, statistic.
struct Watched {
    namespace: Value,
    name: String,
    dimensions: BTreeMap<String, Value>,
    statistic: String,
}

fn one(metric: &Value, statistic: &Value) -> Watched {
    let dimensions = metric["Dimensions"].as_array().unwrap();
    let pair =
        |dimension: &Value| (dimension["Name"].as_str().unwrap().to_owned(), dimension["Value"].clone());
    Watched {
        namespace: metric["Namespace"].clone(),
        name: metric["MetricName"].as_str().unwrap().to_owned(),
        dimensions: dimensions.iter().map(pair).collect(),
        statistic: statistic.as_str().unwrap().to_owned(),
    }
}

/// What an alarm watches: a metric, or several that an expression adds up.
fn watched(alarm: &Value) -> Vec<Watched> {
    let properties = &alarm["Properties"];
    match properties["Metrics"].as_array() {
        None => vec![one(properties, &properties["Statistic"])],
        Some(metrics) => metrics
            .iter()
            .filter_map(|metric| metric.get("MetricStat"))
            .map(|stat| one(&stat["Metric"], &stat["Stat"]))
            .collect(),
    }
}

fn namespace() -> Value {
    json!({ "Fn::Sub": "Glassline/${AWS::StackName}" })
}

fn listed(name: &str) -> &'static Metric {
    METRICS.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("nobody counts {name}"))
}

fn alarms() -> BTreeMap<String, Value> {
    Template::read().resources("AWS::CloudWatch::Alarm")
}

#[test]
fn every_alarm_names_a_metric_that_the_code_emits_with_just_those_dimensions() {
    let functions: BTreeSet<String> =
        Template::read().functions().into_keys().map(|name| name.to_lowercase()).collect();
    let mut rung = BTreeSet::new();
    for (name, alarm) in alarms() {
        let watched = watched(&alarm);
        assert!(!watched.is_empty(), "{name}");
        for metric in watched {
            if metric.namespace != namespace() {
                let own =
                    metric.namespace.as_str().is_some_and(|text| ["AWS/SQS", "AWS/Lambda"].contains(&text));
                assert!(own, "{name} watches {}", metric.namespace);
                continue;
            }
            let counted = listed(&metric.name);
            let set: Vec<&str> = metric.dimensions.keys().map(String::as_str).collect();
            assert!(counted.dimensions.contains(&set.as_slice()), "{name}: {set:?}");
            let function = metric.dimensions["function"].as_str().unwrap();
            assert!(functions.contains(function), "{name}: {function}");
            assert!(["Sum", "Maximum"].contains(&metric.statistic.as_str()), "{name}");
            rung.insert(metric.name);
        }
    }
    let needed = [
        "OldestReadyAge",
        "HeldJobs",
        "LeaseExpiries",
        "FullTicks",
        "LanePausedPayment",
        "LanePausedCredentials",
        "ProviderStatusUnknown",
        "ReferencesPaidTwice",
        "SignaturesRefused",
        "SecretsRefused",
    ];
    assert_eq!(rung, needed.map(str::to_owned).into());
}

#[test]
fn a_function_that_fails_rings() {
    let watched: BTreeSet<String> = alarms()
        .values()
        .flat_map(watched)
        .filter(|metric| metric.namespace == "AWS/Lambda" && metric.name == "Errors")
        .map(|metric| metric.dimensions["FunctionName"].clone())
        .map(|value| value["Ref"].as_str().unwrap().to_owned())
        .collect();
    let functions: BTreeSet<String> = Template::read().functions().into_keys().collect();
    assert_eq!(watched, functions);
}

/// Nothing is counted where nobody looks: functions publish into the namespace that alarms and dashboard read.
#[test]
fn every_function_publishes_into_the_stacks_own_namespace() {
    let template = Template::read();
    for name in template.functions().into_keys() {
        let variables = &template.properties(&name)["Environment"]["Variables"];
        assert_eq!(variables[METRICS_NAMESPACE], namespace(), "{name}");
    }
}

/// Only one alarm takes silence for trouble, and it says so for all that are silent then.
#[test]
fn only_missing_ticks_ring_for_missing_data() {
    for (name, alarm) in alarms() {
        let silent = &alarm["Properties"]["TreatMissingData"];
        let expected = if name == "TicksStoppedAlarm" { "breaching" } else { "notBreaching" };
        assert_eq!(silent, expected, "{name}");
    }
}

#[test]
fn every_page_says_what_it_must_and_belongs_to_an_alarm() {
    let linked: BTreeSet<String> = alarms()
        .iter()
        .map(|(name, alarm)| {
            let text = alarm["Properties"]["AlarmDescription"].as_str().unwrap();
            let (_, page) =
                text.split_once("See infra/runbooks/").unwrap_or_else(|| panic!("{name}: {text}"));
            page.to_owned()
        })
        .collect();
    let folder = root().join("infra/runbooks");
    let pages: BTreeSet<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "README.md")
        .collect();
    assert_eq!(linked, pages);
    let index = std::fs::read_to_string(folder.join("README.md")).unwrap();
    for page in pages {
        let text = std::fs::read_to_string(folder.join(&page)).unwrap();
        for part in ["**What it means.**", "**How to look.**", "**What to do.**", "**How it ends.**"] {
            assert!(text.contains(part), "{page} lacks {part}");
        }
        assert!(index.contains(&format!("({page})")), "{page} isn't in the list");
    }
}

#[test]
fn the_dashboard_shows_what_is_counted() {
    let template = Template::read();
    let body = template.properties("Dashboard")["DashboardBody"]["Fn::Sub"].as_str().unwrap();
    // As CloudFormation would: `${!` stays for CloudWatch, everything else is a name or a value without quotes.
    let mut text = String::new();
    let mut rest = body;
    while let Some((before, after)) = rest.split_once("${") {
        text += before;
        let (name, after) = after.split_once('}').unwrap();
        match name.strip_prefix('!') {
            Some(kept) => text += &format!("${{{kept}}}"),
            None => {
                let resource = name.split('.').next().unwrap();
                let known = template.0["Resources"][resource].is_object() || resource.starts_with("AWS::");
                assert!(known, "there is no {name}");
                text += "value";
            }
        }
        rest = after;
    }
    text += rest;
    let board: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let mut shown = BTreeSet::new();
    for widget in board["widgets"].as_array().unwrap() {
        for row in widget["properties"]["metrics"].as_array().unwrap() {
            let Some(expression) = row[0]["expression"].as_str() else { continue };
            let (_, search) = expression.split_once("SEARCH('{\"Glassline/value\",").unwrap();
            let (schema, search) = search.split_once("} MetricName=\"").unwrap();
            let (name, _) = search.split_once('"').unwrap();
            let schema: Vec<&str> = schema.split(',').collect();
            assert!(listed(name).dimensions.contains(&schema.as_slice()), "{name}: {schema:?}");
            shown.insert(name.to_owned());
        }
    }
    for name in [
        "OldestReadyAge",
        "HeldJobs",
        "RendersStarted",
        "RendersSucceeded",
        "RendersFailed",
        "TableWriteUnits",
    ] {
        assert!(shown.contains(name), "{name} isn't shown");
    }
}

/// Chains of polls come back to the worker on purpose; by default Lambda would stop them.
#[test]
fn lambda_lets_messages_come_back() {
    assert_eq!(Template::read().0["Globals"]["Function"]["RecursiveLoop"], "Allow");
}

/// Each queue of dead letters rings at its first one, by mail if an address is given.
#[test]
fn a_single_dead_letter_rings_and_every_alarm_is_mailed() {
    let template = Template::read();
    let dead: BTreeSet<String> = template
        .resources("AWS::SQS::Queue")
        .values()
        .map(|queue| &queue["Properties"]["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"])
        .filter_map(|target| Some(target.as_str()?.replace(".Arn", ".QueueName")))
        .collect();
    let topic = json!([{ "Fn::If": ["HasAlarmEmail", { "Ref": "AlarmTopic" }, { "Ref": "AWS::NoValue" }] }]);
    let mut rung = BTreeSet::new();
    for (name, alarm) in alarms() {
        let properties = &alarm["Properties"];
        assert_eq!((&properties["AlarmActions"], &properties["OKActions"]), (&topic, &topic), "{name}");
        if properties["Namespace"] == "AWS/SQS" {
            assert_eq!(properties["MetricName"], "ApproximateNumberOfMessagesVisible", "{name}");
            assert_eq!(
                (&properties["Threshold"], &properties["Statistic"]),
                (&json!(0), &json!("Maximum")),
                "{name}"
            );
            rung.insert(properties["Dimensions"][0]["Value"]["Fn::GetAtt"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(rung, dead);
}
