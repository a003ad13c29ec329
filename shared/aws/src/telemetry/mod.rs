//! Logs and metrics. Logs are one JSON object a line on standard output, as CloudWatch Logs takes them; metrics are counted
//! from them and published in lines of CloudWatch's embedded metric format beside them. Never a prompt, a secret, a token
//! or a signed address.

mod fields;
mod lines;
pub mod list;
mod metrics;
pub mod trace;

pub use metrics::{DEFAULT_NAMESPACE, Metrics, is_namespace};

use glassline_protocol::ids::Token;
use glassline_protocol::ports::Local as _;
use sha2::{Digest, Sha256};
use std::io::Write as _;
use std::sync::OnceLock;
use tracing::{Level, Metadata};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::{FilterExt as _, LevelFilter, Targets, filter_fn};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Variable with the filter of the logs, such as `info` or `glassline=debug`. Metrics don't depend on it.
pub const LOG: &str = "GLASSLINE_LOG";
/// Variable with the namespace of the metrics.
pub const METRICS_NAMESPACE: &str = "GLASSLINE_METRICS_NAMESPACE";

/// The variables that every function's telemetry reads.
pub const VARIABLES: [&str; 2] = [LOG, METRICS_NAMESPACE];

/// The metrics of this process.
static METRICS: OnceLock<Metrics> = OnceLock::new();

/// A layer that writes one flat JSON object a line, as a filter such as `info` or `glassline=debug` allows. Libraries
/// stay at `info` whatever it says, and without their spans: in more detail they write what they send and receive, prompts
/// and tokens in it.
pub fn logs<S, W>(writer: W, filter: &str) -> impl tracing_subscriber::Layer<S>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    W: for<'w> tracing_subscriber::fmt::MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = understood(filter).unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    let quiet = filter_fn(|about| is_ours(about) || (about.is_event() && *about.level() <= Level::INFO));
    // Our spans say which job a line is about: no filter takes that away.
    let spans = filter_fn(|about| about.is_span() && is_ours(about));
    lines::Lines(writer).with_filter(filter.and(quiet).or(spans))
}

/// A filter as it is written, if it is one. Targets and levels are all it knows: filters by fields bring a machine for
/// regular expressions into every function.
fn understood(filter: &str) -> Option<Targets> {
    filter.parse().ok()
}

fn is_ours(about: &Metadata<'_>) -> bool {
    about.target().starts_with("glassline")
}

/// Starts logging and counting for a function. A second call changes nothing.
pub fn init(function: &'static str) {
    let env = crate::config::Env::process();
    let filter = env.optional(LOG).unwrap_or_else(|| "info".into());
    let namespace = env.optional(METRICS_NAMESPACE);
    let metrics = METRICS.get_or_init(|| Metrics::new(function, namespace.as_deref())).clone();
    let logs = logs(std::io::stdout, &filter);
    // Without its own filter it would have every library make its most detailed events, only to leave them unread.
    let counted = filter_fn(|about| about.is_event() && is_ours(about) && *about.level() <= Level::INFO);
    if Registry::default().with(logs).with(metrics.with_filter(counted)).try_init().is_err() {
        return;
    }
    if understood(&filter).is_none() {
        let why = "a filter is a level, or targets with levels: info,glassline_worker=debug; info is used";
        tracing::error!(event = "bad_filter", variable = LOG, why);
    }
    if let Some(name) = namespace.filter(|name| !is_namespace(name)) {
        let why = "CloudWatch takes 1 to 255 letters, digits and .-_/#: for a namespace";
        tracing::error!(event = "bad_namespace", variable = METRICS_NAMESPACE, name, why);
    }
    std::panic::set_hook(Box::new(|panic| {
        // Where, and not with what: a panic's text may hold anything.
        let place = panic.location().map(ToString::to_string);
        tracing::error!(event = "panicked", place);
    }));
}

/// Publishes what was counted since the last time.
pub fn publish() {
    let Some(metrics) = METRICS.get() else { return };
    let mut out = std::io::stdout().lock();
    for line in metrics.take(crate::local::SystemLocal.now_ms()) {
        // A line that can't be written must not stop the function.
        let _ = writeln!(out, "{line}");
    }
    let _ = out.flush();
}

/// A token as logs show it: enough to tell two apart, useless to whoever reads it.
#[must_use]
pub fn token_hash(token: &Token) -> String {
    hex::encode(Sha256::digest(token.as_str())).chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_names_levels_and_targets() {
        let filter = understood("warn,glassline_worker=debug").unwrap();
        assert!(filter.would_enable("glassline_worker::check", &Level::DEBUG));
        assert!(!filter.would_enable("glassline_dispatch", &Level::INFO));
        for bad in ["glassline=loud", "a=b=c"] {
            assert!(understood(bad).is_none(), "{bad}");
        }
    }
}
