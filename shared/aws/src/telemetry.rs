//! Structured logs: one JSON object a line on standard output, as CloudWatch Logs takes them. Never a prompt, a secret, a
//! token or a signed address.

use glassline_protocol::ids::Token;
use sha2::{Digest, Sha256};
use tracing_subscriber::EnvFilter;

/// Variable with the filter of the logs, such as `info` or `glassline=debug`.
pub const LOG: &str = "GLASSLINE_LOG";

/// Starts logging. A second call changes nothing.
pub fn init() {
    let filter = EnvFilter::try_from_env(LOG).unwrap_or_else(|_| EnvFilter::new("info"));
    let _ = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_target(false)
        .with_env_filter(filter)
        .try_init();
}

/// A token as logs show it: enough to tell two apart, useless to whoever reads it.
#[must_use]
pub fn token_hash(token: &Token) -> String {
    hex::encode(Sha256::digest(token.as_str())).chars().take(12).collect()
}
