//! One role a function, with exactly the actions on exactly the resources that it uses.

use super::Findings;
use super::expected::{FUNCTIONS, Function, unknown};
use glassline_template::{Template, target};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Actions on resources, as `sqs:SendMessage on RenderQueue`.
type Grants = BTreeSet<String>;

const READ_QUEUE: [&str; 4] =
    ["ReceiveMessage", "DeleteMessage", "GetQueueAttributes", "ChangeMessageVisibility"];

const MOVE_MESSAGES: [&str; 5] =
    ["StartMessageMoveTask", "GetQueueAttributes", "ReceiveMessage", "DeleteMessage", "SendMessage"];

/// A value that may be one or a list.
fn many(value: &Value) -> Vec<&Value> {
    value.as_array().map_or_else(|| vec![value], |values| values.iter().collect())
}

/// What a role allows.
fn granted(role: &Value, found: &mut Findings, name: &str) -> Grants {
    let mut grants = Grants::new();
    for key in ["ManagedPolicyArns", "PermissionsBoundary"] {
        if !role[key].is_null() {
            found.push(format!("{name} has {key}, which say more than the template shows"));
        }
    }
    for policy in many(&role["Policies"]) {
        for statement in many(&policy["PolicyDocument"]["Statement"]) {
            if statement["Effect"] != "Allow"
                || statement.get("NotAction").is_some()
                || statement.get("NotResource").is_some()
            {
                found.push(format!("{name} has a statement that doesn't simply allow"));
            }
            for action in many(&statement["Action"]) {
                for resource in many(&statement["Resource"]) {
                    let (action, resource) = (action.as_str().unwrap_or_default(), target(resource));
                    if action.contains('*') || resource == "*" || resource.is_empty() {
                        found.push(format!("{name} allows {action} on {resource}: a wildcard"));
                    }
                    grants.insert(format!("{action} on {resource}"));
                }
            }
        }
    }
    grants
}

/// The queues whose addresses a function is given: it sends to each.
fn sends(template: &Template, function: &str) -> Vec<String> {
    let variables = template.properties(function)["Environment"]["Variables"].as_object();
    let variables = variables.into_iter().flatten();
    variables.filter(|(name, _)| name.ends_with("_QUEUE_URL")).map(|(_, url)| target(url)).collect()
}

/// What a function needs.
fn needed(template: &Template, function: &Function) -> Grants {
    let Function { name, table, index, bucket, redrives, .. } = function;
    let mut grants = Grants::new();
    let mut grant = |service: &str, actions: &[&str], resource: &str| {
        grants.extend(actions.iter().map(|action| format!("{service}:{action} on {resource}")));
    };
    grant(
        "logs",
        &["CreateLogStream", "PutLogEvents"],
        &target(&template.properties(name)["LoggingConfig"]["LogGroup"]),
    );
    grant("dynamodb", table, "Table");
    if *index {
        grant("dynamodb", &["Query"], "Table/index/queue");
    }
    grant("s3", bucket, "Assets/*");
    // SQS moves them with the caller's rights.
    for queue in *redrives {
        grant("sqs", &MOVE_MESSAGES, queue);
    }
    for (queue, _) in template.mappings(name) {
        grant("sqs", &READ_QUEUE, &queue);
    }
    for queue in sends(template, name) {
        grant("sqs", &["SendMessage"], &queue);
    }
    grants
}

fn compare(name: &str, granted: &Grants, needed: &Grants, found: &mut Findings) {
    found.extend(
        granted.difference(needed).map(|grant| format!("{name} allows {grant}, which it doesn't need")),
    );
    found.extend(needed.difference(granted).map(|grant| format!("{name} doesn't allow {grant}")));
}

pub(crate) fn rule(template: &Template) -> Findings {
    let mut found = Findings::new();
    let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in template.functions().into_keys() {
        let properties = template.properties(&name);
        let role = target(&properties["Role"]);
        for key in ["Policies", "ManagedPolicyArns"] {
            if !properties[key].is_null() {
                found.push(format!("{name} has {key} beside its role"));
            }
        }
        let trust = &template.properties(&role)["AssumeRolePolicyDocument"]["Statement"];
        let trusted = json!([{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}]);
        if *trust != trusted {
            found.push(format!("{role} may be taken by others than Lambda"));
        }
        match FUNCTIONS.iter().find(|function| function.name == name) {
            Some(function) => {
                let grants = granted(template.properties(&role), &mut found, &role);
                compare(&role, &grants, &needed(template, function), &mut found);
            }
            None => found.push(unknown(&name)),
        }
        users.entry(role).or_default().push(name);
    }
    found.extend(
        users.iter().filter(|(_, users)| users.len() > 1).map(|(role, _)| format!("{role} is shared")),
    );
    for (name, role) in template.resources("AWS::IAM::Role") {
        if users.contains_key(&name) {
            continue;
        }
        // The schedules': each may start dispatch and nothing else.
        let grants = granted(&role["Properties"], &mut found, &name);
        compare(&name, &grants, &Grants::from(["lambda:InvokeFunction on Dispatch".to_owned()]), &mut found);
    }
    for kind in
        ["AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::SQS::QueuePolicy", "AWS::Lambda::Permission"]
    {
        found.extend(
            template.resources(kind).keys().map(|name| format!("{name} gives rights that no rule looks at")),
        );
    }
    found
}
