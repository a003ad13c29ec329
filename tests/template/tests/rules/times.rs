//! Batches, and how long what they hold stays invisible.

use super::Findings;
use glassline_template::{Template, target};

/// Lambda's longest time, in seconds.
const LONGEST_S: u64 = 900;
/// The most messages that SQS hands over at once without a longer window.
const MOST_MESSAGES: u64 = 10;
/// The fewest invocations at once that AWS takes for a mapping.
const FEWEST_AT_ONCE: u64 = 2;
/// Concurrency that dispatch needs beside its mapping: the schedule.
const SCHEDULES: u64 = 1;

pub(crate) fn rule(template: &Template) -> Findings {
    let mut found = Findings::new();
    for name in template.functions().into_keys() {
        let timeout_s = template.of_function(&name, "Timeout").as_u64().unwrap_or_default();
        if !(1..=LONGEST_S).contains(&timeout_s) {
            found.push(format!("{name} has a timeout of {timeout_s} s"));
        }
        for (queue, mapping) in template.mappings(&name) {
            let window_s = mapping["MaximumBatchingWindowInSeconds"].as_u64().unwrap_or(u64::MAX / 2);
            let visible_s = template.properties(&queue)["VisibilityTimeout"].as_u64().unwrap_or(30);
            if visible_s < (timeout_s * 6).saturating_add(window_s) {
                found.push(format!(
                    "{queue} is visible again after {visible_s} s, while {name} takes {timeout_s} s"
                ));
            }
            if mapping["FunctionResponseTypes"] != serde_json::json!(["ReportBatchItemFailures"]) {
                found.push(format!("{name} can't report single messages of {queue} as failed"));
            }
            let batch = mapping["BatchSize"].as_u64().unwrap_or_default();
            if !(1..=MOST_MESSAGES).contains(&batch) {
                found.push(format!("{name} takes {batch} messages of {queue} at once"));
            }
            found.extend(at_once(template, &name, &queue, mapping));
        }
    }
    found
}

fn at_once(template: &Template, name: &str, queue: &str, mapping: &serde_json::Value) -> Findings {
    let mut found = Findings::new();
    let most = &mapping["ScalingConfig"]["MaximumConcurrency"];
    let Some(number) = template.number(most) else {
        return vec![format!("{name} may run at any number for {queue}")];
    };
    let fewest = match most["Ref"].as_str() {
        Some(parameter) => template.0["Parameters"][parameter]["MinValue"].as_u64().unwrap_or_default(),
        None => number,
    };
    if fewest < FEWEST_AT_ONCE {
        found.push(format!(
            "{name} may have {fewest} at once for {queue}, and AWS takes {FEWEST_AT_ONCE} or more"
        ));
    }
    let reserved = &template.properties(name)["ReservedConcurrentExecutions"];
    // `!If [condition, number, nothing]`
    let reserved = reserved["Fn::If"].as_array().and_then(|parts| parts.get(1)).unwrap_or(reserved);
    if let Some(reserved) = template.number(reserved)
        && reserved < number + SCHEDULES
    {
        found.push(format!("{name} reserves {reserved}, fewer than {queue} and its schedule take"));
    }
    let dispatch =
        template.mappings(name).iter().any(|(queue, _)| target(&serde_json::json!(queue)) == "WakeQueue");
    if dispatch && reserved.is_null() {
        found.push(format!("{name} reserves no concurrency, so a burst of others starves it"));
    }
    found
}
