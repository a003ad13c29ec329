//! Every queue has a queue of dead letters or is one, and something rings.

use super::Findings;
use glassline_template::{Template, target};
use std::collections::BTreeSet;

/// A message that was given back five times came again over half an hour; fewer would give up in a short outage.
const FEWEST_RECEIVES: u64 = 5;

pub(crate) fn rule(template: &Template) -> Findings {
    let mut found = Findings::new();
    let queues = template.resources("AWS::SQS::Queue");
    let dead_of = |name: &str| target(&template.properties(name)["RedrivePolicy"]["deadLetterTargetArn"]);
    let dead: BTreeSet<String> =
        queues.keys().map(|name| dead_of(name)).filter(|name| !name.is_empty()).collect();
    let rung: BTreeSet<String> = template
        .resources("AWS::CloudWatch::Alarm")
        .values()
        .filter(|alarm| alarm["Properties"]["Namespace"] == "AWS/SQS")
        .flat_map(|alarm| alarm["Properties"]["Dimensions"].as_array().cloned().unwrap_or_default())
        .map(|dimension| target(&dimension["Value"]).replace(".QueueName", ""))
        .collect();
    for (name, queue) in &queues {
        let properties = &queue["Properties"];
        if properties["SqsManagedSseEnabled"] != true {
            found.push(format!("{name} isn't encrypted"));
        }
        let keeps_s = properties["MessageRetentionPeriod"].as_u64().unwrap_or_default();
        let own = dead_of(name);
        if own.is_empty() {
            if !dead.contains(name) {
                found.push(format!("{name} has no dead letters and holds none"));
            }
            if !rung.contains(name) {
                found.push(format!("no alarm rings for {name}"));
            }
            continue;
        }
        if !rung.contains(&own) {
            found.push(format!("no alarm rings for {own}"));
        }
        let receives = properties["RedrivePolicy"]["maxReceiveCount"].as_u64().unwrap_or_default();
        if receives < FEWEST_RECEIVES {
            found.push(format!("{name} gives up after {receives} receives"));
        }
        let visible_s = properties["VisibilityTimeout"].as_u64().unwrap_or(30);
        if keeps_s <= visible_s * receives {
            found
                .push(format!("{name} forgets a message after {keeps_s} s, before it becomes a dead letter"));
        }
        let theirs = template.properties(&own);
        // Both are counted from the first send.
        if theirs["MessageRetentionPeriod"].as_u64().unwrap_or_default() < keeps_s {
            found.push(format!("{own} forgets sooner than {name}"));
        }
        if theirs["FifoQueue"] != properties["FifoQueue"] {
            found.push(format!("{own} isn't of the kind of {name}"));
        }
    }
    let qa = template.properties("QaQueue");
    let wanted = [
        ("FifoQueue", serde_json::json!(true)),
        ("ContentBasedDeduplication", serde_json::json!(false)),
        ("DeduplicationScope", serde_json::json!("messageGroup")),
        ("FifoThroughputLimit", serde_json::json!("perMessageGroupId")),
    ];
    found.extend(
        wanted
            .iter()
            .filter(|(key, value)| qa[key] != *value)
            .map(|(key, value)| format!("QaQueue's {key} isn't {value}")),
    );
    found
}
