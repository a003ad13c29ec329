//! What a sandbox is told at its start: its accounts, what each of them offers, and where the books are kept.

use crate::faults::FaultRule;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// A render has just been entered in the books; its answer has not been sent yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptEvent {
    /// The account that pays.
    pub account: String,
    /// The sandbox's id of the render.
    pub id: String,
    /// The client's reference.
    pub reference: String,
    /// When it was accepted, in milliseconds since the epoch.
    pub accepted_ms: u64,
}

/// Called after a render is in the books and before its answer is sent, on a thread where it may block.
pub type AcceptHook = Arc<dyn Fn(&AcceptEvent) + Send + Sync>;

/// The time, in milliseconds since the epoch.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The configuration of one sandbox server. `SandboxConfig::default()` has one account, `sandbox`, whose key is
/// `sandbox-key`, and picks a free port. As JSON (everything but an account's name and key may be left out):
///
/// ```json
/// {"port": 4600, "seed": 1, "books_file": "books.jsonl",
///  "accounts": [{"name": "main", "api_key": "k1", "render_min_ms": 500, "render_max_ms": 3000, "max_concurrent": 8},
///               {"name": "nokeys", "api_key": "k2", "idempotency_keys": false, "lookup_delay_ms": 2000}],
///  "faults": [{"fault": "drop_answer", "percent": 10, "seed": 7}, {"fault": "error_before", "next": 2},
///             {"fault": "never_finish", "references": ["POST#p1/SHOT#s1/1"]}]}
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxConfig {
    /// The port on 127.0.0.1; 0 picks a free one.
    pub port: u16,
    /// Decides the render times, together with each reference.
    pub seed: u64,
    /// The accounts, each with a name and an API key of its own; at least one.
    pub accounts: Vec<AccountConfig>,
    /// The faults to start with; `PUT /faults` replaces them.
    pub faults: Vec<FaultRule>,
    /// Where the books are kept (JSON lines, only ever appended to); absent: in memory only.
    pub books_file: Option<PathBuf>,
    /// For tests in the same process: see [`AcceptHook`].
    #[serde(skip)]
    pub on_accept: Option<AcceptHook>,
    /// For tests in the same process: the clock that decides states and expiries. Callbacks wait in real time.
    #[serde(skip)]
    pub clock: Option<Clock>,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self::new(vec![AccountConfig::new("sandbox", "sandbox-key")])
    }
}

impl fmt::Debug for SandboxConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxConfig")
            .field("port", &self.port)
            .field("seed", &self.seed)
            .field("accounts", &self.accounts)
            .field("faults", &self.faults)
            .field("books_file", &self.books_file)
            .finish_non_exhaustive()
    }
}

impl SandboxConfig {
    /// A configuration with these accounts, a free port, no faults, and books in memory.
    #[must_use]
    pub fn new(accounts: Vec<AccountConfig>) -> Self {
        Self {
            port: 0,
            seed: 0,
            accounts,
            faults: Vec::new(),
            books_file: None,
            on_accept: None,
            clock: None,
        }
    }

    /// Checks what the types don't say.
    ///
    /// # Errors
    /// [`ConfigError`] names the account or fault rule and the rule that it breaks.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.accounts.is_empty() {
            return Err(ConfigError::NoAccounts);
        }
        let (mut names, mut keys) = (HashSet::new(), HashSet::new());
        for account in &self.accounts {
            account.check()?;
            if !names.insert(account.name.as_str()) || !keys.insert(account.api_key.as_str()) {
                return Err(ConfigError::Twice { account: account.name.clone() });
            }
        }
        crate::faults::check_rules(&self.faults)
    }
}

/// One account: an API key and what the provider offers to its holder.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountConfig {
    /// Its name in the books, 1 to 64 letters, digits, dots, underscores or hyphens.
    pub name: String,
    /// Its bearer key, 1 to 256 visible ASCII characters. It never prints.
    pub api_key: String,
    /// Whether `Idempotency-Key` is honoured: the same key with the same body returns the first render without a
    /// second charge, with another body it is refused with 422. Off: the header is ignored.
    #[serde(default = "yes")]
    pub idempotency_keys: bool,
    /// How long a key is remembered, in milliseconds; after that the same key starts a new render.
    #[serde(default = "day_ms")]
    pub key_lifetime_ms: u64,
    /// Whether `GET /v1/renders?reference=` exists. Off: 404 `no_such_endpoint`.
    #[serde(default = "yes")]
    pub lookup: bool,
    /// How long after its acceptance a render first shows in a lookup, in milliseconds.
    #[serde(default)]
    pub lookup_delay_ms: u64,
    /// Whether callbacks are sent. Off: a `callback_url` is accepted and never called.
    #[serde(default = "yes")]
    pub callbacks: bool,
    /// The key of the callbacks' signatures; absent: the API key is used. It never prints.
    #[serde(default)]
    pub callback_secret: Option<String>,
    /// How often a callback is tried again after an answer other than 2xx.
    #[serde(default = "three")]
    pub callback_retries: u32,
    /// The wait before a callback is tried again, in milliseconds; it doubles each time.
    #[serde(default = "half_second_ms")]
    pub callback_retry_ms: u64,
    /// The shortest render, in milliseconds.
    #[serde(default = "hundred_ms")]
    pub render_min_ms: u64,
    /// The longest render, in milliseconds.
    #[serde(default = "hundred_ms")]
    pub render_max_ms: u64,
    /// How many renders may run at once; one more is refused with 429 and `Retry-After: 1`. Absent: no limit.
    #[serde(default)]
    pub max_concurrent: Option<u32>,
    /// How long an output is kept after its render ended, in milliseconds; then it is gone (410).
    #[serde(default = "hour_ms")]
    pub output_lifetime_ms: u64,
    /// How long one signed address of an output works, in milliseconds; asking for the render again gives a fresh one.
    /// Absent: as long as the output is kept.
    #[serde(default)]
    pub address_lifetime_ms: Option<u64>,
}

const fn yes() -> bool {
    true
}
const fn three() -> u32 {
    3
}
const fn hundred_ms() -> u64 {
    100
}
const fn half_second_ms() -> u64 {
    500
}
const fn hour_ms() -> u64 {
    3_600_000
}
const fn day_ms() -> u64 {
    86_400_000
}

impl fmt::Debug for AccountConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountConfig").field("name", &self.name).finish_non_exhaustive()
    }
}

impl AccountConfig {
    /// An account with idempotency keys, lookup and callbacks on, renders of 100 ms and outputs kept for an hour.
    #[must_use]
    pub fn new(name: impl Into<String>, api_key: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            api_key: api_key.into(),
            idempotency_keys: true,
            key_lifetime_ms: day_ms(),
            lookup: true,
            lookup_delay_ms: 0,
            callbacks: true,
            callback_secret: None,
            callback_retries: three(),
            callback_retry_ms: half_second_ms(),
            render_min_ms: hundred_ms(),
            render_max_ms: hundred_ms(),
            max_concurrent: None,
            output_lifetime_ms: hour_ms(),
            address_lifetime_ms: None,
        }
    }

    /// The key of the callbacks' signatures.
    pub(crate) fn callback_key(&self) -> &str {
        self.callback_secret.as_deref().unwrap_or(&self.api_key)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let bad = |rule| Err(ConfigError::Account { account: self.name.chars().take(80).collect(), rule });
        let named = self.name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        if !named || !(1..=64).contains(&self.name.len()) {
            return bad("its name must be 1 to 64 letters, digits, dots, underscores or hyphens");
        }
        let key = &self.api_key;
        if !(1..=256).contains(&key.len()) || !key.bytes().all(|b| b.is_ascii_graphic()) {
            return bad("its api_key must be 1 to 256 visible ASCII characters");
        }
        if self.callback_secret.as_ref().is_some_and(String::is_empty) {
            return bad("its callback_secret is empty; leave it out to use the api_key");
        }
        if self.render_min_ms > self.render_max_ms || self.render_max_ms > day_ms() {
            return bad("its render_min_ms must be at most render_max_ms, and that at most a day");
        }
        let lives = [Some(self.output_lifetime_ms), self.address_lifetime_ms, Some(self.key_lifetime_ms)];
        if lives.iter().flatten().any(|ms| *ms > 366 * day_ms()) || self.lookup_delay_ms > day_ms() {
            return bad("its lifetimes must be at most a year and its lookup_delay_ms at most a day");
        }
        if self.callback_retries > 10 || self.callback_retry_ms > hour_ms() {
            return bad("its callback_retries must be at most 10 and its callback_retry_ms at most an hour");
        }
        Ok(())
    }
}

/// A configuration that can't be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No account.
    #[error("the sandbox has no account; add at least one to `accounts`")]
    NoAccounts,
    /// Two accounts share a name or a key.
    #[error("the account `{account}` shares its name or its api_key with another one; give each its own")]
    Twice {
        /// The second of them.
        account: String,
    },
    /// An account breaks a rule.
    #[error("the account `{account}` can't be used: {rule}")]
    Account {
        /// Which.
        account: String,
        /// The rule.
        rule: &'static str,
    },
    /// A fault rule breaks a rule.
    #[error("the fault rule {position} can't be used: {rule}")]
    Fault {
        /// Its place in the list, from 1.
        position: usize,
        /// The rule.
        rule: &'static str,
    },
}
