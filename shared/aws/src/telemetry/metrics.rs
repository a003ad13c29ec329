//! Counting log events, and publishing the counts in CloudWatch's embedded metric format: one JSON line per lane and one
//! for what has no lane, at the end of each invocation.
//!
//! The format: <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>.

use super::fields::Fields;
use super::list::{METRICS, Metric, Source};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// The namespace when none is configured.
pub const DEFAULT_NAMESPACE: &str = "Glassline";

/// Numbers by lane (none: of no lane), then by metric.
type Numbers = BTreeMap<Option<String>, BTreeMap<&'static str, f64>>;

/// Counts the log events of one function. Clones share their counts.
#[derive(Clone, Debug)]
pub struct Metrics {
    function: &'static str,
    namespace: String,
    numbers: Arc<Mutex<Numbers>>,
}

/// Whether CloudWatch takes a namespace: 1 to 255 of these characters
/// (<https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_concepts.html>), and not one of AWS's own.
#[must_use]
pub fn is_namespace(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_/#: ".contains(&byte);
    (1..=255).contains(&name.len())
        && name.bytes().all(fits)
        && !name.trim().is_empty()
        && !name.starts_with("AWS/")
        && !name.starts_with(':')
}

impl Metrics {
    /// Counts for a function, published in a namespace; in the default one where CloudWatch wouldn't take this one.
    #[must_use]
    pub fn new(function: &'static str, namespace: Option<&str>) -> Self {
        let namespace = namespace.filter(|name| is_namespace(name)).unwrap_or(DEFAULT_NAMESPACE).to_owned();
        Self { function, namespace, numbers: Arc::default() }
    }

    fn count(&self, fields: &Fields) {
        let Some(event) = fields.text("event") else { return };
        for metric in METRICS {
            let number = match metric.source {
                Source::Events(name, None) if name == event => Some(1.0),
                Source::Events(name, Some((field, word))) if name == event => {
                    (fields.text(field) == Some(word)).then_some(1.0)
                }
                Source::Sum(name, field) | Source::Last(name, field) if name == event => fields.number(field),
                Source::Events(..) | Source::Sum(..) | Source::Last(..) => None,
            };
            let Some(number) = number else { continue };
            let by_lane = metric.dimensions.iter().any(|set| set.contains(&"lane"));
            let lane = if by_lane { fields.text("lane").map(str::to_owned) } else { None };
            let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
            let entry = numbers.entry(lane).or_default().entry(metric.name).or_default();
            match metric.source {
                Source::Last(..) => *entry = number,
                Source::Events(..) | Source::Sum(..) => *entry += number,
            }
        }
    }

    /// The lines for what was counted since the last time; counting starts anew. `now_ms` is the time that the numbers
    /// are given, in epoch milliseconds.
    #[must_use]
    pub fn take(&self, now_ms: u64) -> Vec<String> {
        let numbers = std::mem::take(&mut *self.numbers.lock().unwrap_or_else(PoisonError::into_inner));
        numbers.iter().map(|(lane, numbers)| self.line(now_ms, lane.as_deref(), numbers)).collect()
    }

    fn line(&self, now_ms: u64, lane: Option<&str>, numbers: &BTreeMap<&'static str, f64>) -> String {
        let published: Vec<&Metric> =
            METRICS.iter().filter(|metric| numbers.contains_key(metric.name)).collect();
        let about: Vec<Value> = published
            .iter()
            .map(|metric| json!({ "Name": metric.name, "Unit": metric.unit.word() }))
            .collect();
        // All metrics of a lane's line have the same sets; where no lane is known, the sets that don't need one.
        let sets = published.first().map_or(&[][..], |metric| metric.dimensions);
        let sets: Vec<_> = sets.iter().filter(|set| lane.is_some() || !set.contains(&"lane")).collect();
        let mut line = Map::new();
        line.insert(
            "_aws".into(),
            json!({
                "Timestamp": now_ms,
                "CloudWatchMetrics": [{ "Namespace": self.namespace, "Dimensions": sets, "Metrics": about }],
            }),
        );
        line.insert("function".into(), self.function.into());
        if let Some(lane) = lane {
            line.insert("lane".into(), lane.into());
        }
        line.extend(numbers.iter().map(|(name, number)| ((*name).to_owned(), (*number).into())));
        Value::Object(line).to_string()
    }
}

impl<S: Subscriber> Layer<S> for Metrics {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // Every event that counts says its name; anything else (the SDK's own, say) isn't worth reading.
        if event.metadata().fields().field("event").is_some() {
            self.count(&Fields::of(event));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_cloudwatch_refuses_is_not_used() {
        assert_eq!(Metrics::new("f", Some("Glassline/my-stack")).namespace, "Glassline/my-stack");
        for bad in ["", " ", "AWS/Lambda", ":a", "a\"b", "gl\u{e4}s", &"x".repeat(256)] {
            assert_eq!(Metrics::new("f", Some(bad)).namespace, DEFAULT_NAMESPACE, "{bad}");
        }
    }
}
