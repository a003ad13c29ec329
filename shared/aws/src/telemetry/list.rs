//! Every metric there is. A metric is counted from a log event that is written anyway, so that whatever raises an alarm
//! can be read in the log, too.
//!
//! The dimensions are few and bounded: the function, and where the event names one that was read from a row or from
//! configuration, the lane. Never a job, and never a lane that a message only claims to be about: whoever can send
//! messages could make as many as he likes, and each one is charged.

/// What a metric's numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Seconds.
    Seconds,
}

impl Unit {
    /// As CloudWatch writes it
    /// (<https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_MetricDatum.html>).
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Count => "Count",
            Self::Seconds => "Seconds",
        }
    }
}

/// What a metric is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// How often an event came; with a pair, only where this field has this text.
    Events(&'static str, Option<(&'static str, &'static str)>),
    /// The sum of a field of an event.
    Sum(&'static str, &'static str),
    /// A field of an event as it was last.
    Last(&'static str, &'static str),
}

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// The sets of dimensions that it is published under. Alarms use the set without a lane, so that they cover lanes
    /// that are added later.
    pub dimensions: &'static [&'static [&'static str]],
    /// Where it comes from.
    pub source: Source,
}

/// By function.
pub const BY_FUNCTION: &[&[&str]] = &[&["function"]];
/// By function and lane, and over all lanes by function.
pub const BY_LANE: &[&[&str]] = &[&["function", "lane"], &["function"]];

const fn by_lane(name: &'static str, source: Source) -> Metric {
    Metric { name, unit: Unit::Count, dimensions: BY_LANE, source }
}

const fn by_function(name: &'static str, source: Source) -> Metric {
    Metric { name, unit: Unit::Count, dimensions: BY_FUNCTION, source }
}

const fn changed(name: &'static str, transition: &'static str) -> Metric {
    by_lane(name, Source::Events("job_changed", Some(("transition", transition))))
}

const fn paused(name: &'static str, class: &'static str) -> Metric {
    by_lane(name, Source::Events("ticked", Some(("paused", class))))
}

/// All of them.
pub const METRICS: &[Metric] = &[
    // Dispatch's full ticks, of each lane.
    Metric {
        name: "OldestReadyAge",
        unit: Unit::Seconds,
        dimensions: BY_LANE,
        source: Source::Last("ticked", "oldest_ready_s"),
    },
    by_lane("HeldJobs", Source::Last("ticked", "held_jobs")),
    by_lane("LeaseExpiries", Source::Sum("ticked", "leases_over")),
    paused("LanePausedPayment", "payment_required"),
    paused("LanePausedCredentials", "unauthorized"),
    paused("LanePausedThrottled", "throttled"),
    by_function("FullTicks", Source::Events("full_tick", None)),
    // What became of attempts. A write whose reply was lost and that is found done later is counted by nobody.
    changed("RendersStarted", "RecordTask"),
    changed("RendersSucceeded", "Succeed"),
    changed("RendersRetried", "Retry"),
    changed("RendersFailed", "Fail"),
    changed("RendersHeld", "Hold"),
    by_lane("TasksGivenUp", Source::Events("task_given_up", None)),
    // Providers.
    by_lane("ProviderStatusUnknown", Source::Events("provider_status_word_unknown", None)),
    by_lane("ProviderErrorUnknown", Source::Events("provider_error_code_unknown", None)),
    by_lane("ProviderNoAnswer", Source::Events("provider_no_answer", None)),
    by_lane("SubmitsUnknown", Source::Events("provider_submit_unknown", None)),
    by_lane("ReferencesPaidTwice", Source::Events("provider_reference_paid_twice", None)),
    // Messages.
    by_function("SignaturesRefused", Source::Events("signature_refused", None)),
    by_function("SecretsRefused", Source::Events("secret_refused", None)),
    by_function("PoisonMessages", Source::Events("not_handled", Some(("code", "poison")))),
    by_function("MessagesGivenBack", Source::Events("not_handled", Some(("code", "retry_after")))),
    // What is asked of AWS, and what it refused.
    by_function("TableRequests", Source::Sum("operations", "table_requests")),
    by_function("TableReadUnits", Source::Sum("operations", "table_read_units")),
    by_function("TableWriteUnits", Source::Sum("operations", "table_write_units")),
    by_function("QueueRequests", Source::Sum("operations", "queue_requests")),
    by_function("MessagesSent", Source::Sum("operations", "messages_sent")),
    by_function("StoreErrors", Source::Events("store_error", None)),
    by_function("BadRows", Source::Events("bad_row", None)),
    by_function("SendsFailed", Source::Events("send_failed", None)),
    by_function("StartsFailed", Source::Events("start_failed", None)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// All source text under a folder, tests left out.
    fn source(folder: &Path, text: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path.file_name().is_none_or(|name| name != "tests") {
                source(&path, text);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text.push_str(&std::fs::read_to_string(&path).unwrap());
            }
        }
    }

    #[test]
    fn every_metric_comes_from_an_event_that_is_logged() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut text = String::new();
        for folder in ["shared", "functions"] {
            source(&root.join(folder), &mut text);
        }
        for metric in METRICS {
            let (event, field) = match metric.source {
                Source::Events(event, None) => (event, None),
                Source::Events(event, Some((field, _)))
                | Source::Sum(event, field)
                | Source::Last(event, field) => (event, Some(field)),
            };
            let logged = text.split(&format!("event = \"{event}\"")).nth(1);
            let logged = logged.unwrap_or_else(|| panic!("{}: nothing logs {event}", metric.name));
            let end = logged.find(");").unwrap_or(logged.len());
            let fields = logged.get(..end).unwrap_or_default();
            assert!(field.is_none_or(|field| fields.contains(field)), "{}: {fields}", metric.name);
        }
    }

    #[test]
    fn names_are_unique_and_lines_stay_within_what_the_format_allows() {
        let names: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len());
        // At most 100 metrics and 30 dimensions a directive; one line has one directive.
        assert!(METRICS.len() <= 100);
        assert!(METRICS.iter().all(|metric| [BY_FUNCTION, BY_LANE].contains(&metric.dimensions)));
    }
}
