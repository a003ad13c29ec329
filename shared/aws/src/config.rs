//! Configuration from the environment. A function that lacks something stops at its start with one line that names it.

use crate::dynamo::DynamoStore;
use crate::sqs::SqsQueues;
pub use aws_config::SdkConfig;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region};
use glassline_protocol::message::Queue;
use glassline_protocol::settings::Settings;
use glassline_protocol::sign::{MIN_SECRET_BYTES, Secret, Secrets};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::time::Duration;

/// Name of the DynamoDB table.
pub const TABLE: &str = "GLASSLINE_TABLE";
/// Secret that signs handoffs, at least 16 bytes.
pub const HANDOFF_SECRET: &str = "GLASSLINE_HANDOFF_SECRET";
/// The secret before it, which still verifies during a rotation.
pub const HANDOFF_SECRET_PREVIOUS: &str = "GLASSLINE_HANDOFF_SECRET_PREVIOUS";
/// Secret that callers of the API present, at least 16 bytes.
pub const API_SECRET: &str = "GLASSLINE_API_SECRET";
/// The secret before it, which is still taken during a rotation.
pub const API_SECRET_PREVIOUS: &str = "GLASSLINE_API_SECRET_PREVIOUS";
/// The dead-letter queues that people may empty, as a JSON object of names and URLs.
pub const DEAD_LETTER_QUEUES: &str = "GLASSLINE_DEAD_LETTER_QUEUES";
/// Times and limits that differ from the defaults, as JSON of [`Settings`].
pub const SETTINGS: &str = "GLASSLINE_SETTINGS";
/// The lanes' providers, as JSON.
pub const PROVIDERS: &str = "GLASSLINE_PROVIDERS";
/// Storage and download limits, as JSON.
pub const STORAGE: &str = "GLASSLINE_STORAGE";

/// The variable that holds a queue's address.
#[must_use]
pub fn queue_variable(queue: Queue) -> &'static str {
    match queue {
        Queue::Render => "GLASSLINE_RENDER_QUEUE_URL",
        Queue::Finish => "GLASSLINE_FINISH_QUEUE_URL",
        Queue::Rollback => "GLASSLINE_ROLLBACK_QUEUE_URL",
        Queue::Wake => "GLASSLINE_WAKE_QUEUE_URL",
        Queue::Qa => "GLASSLINE_QA_QUEUE_URL",
    }
}

/// What is wrong with the configuration, one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Not set, or empty.
    #[error("{variable} is not set: it must hold {meaning}")]
    Missing {
        /// The variable.
        variable: &'static str,
        /// What it holds.
        meaning: &'static str,
    },
    /// Set to something that can't be used. Never quotes the value: it may be a secret.
    #[error("{variable} can't be used: {why}")]
    Unusable {
        /// The variable.
        variable: &'static str,
        /// Why.
        why: String,
    },
}

/// Reads variables; tests give their own.
pub struct Env<'a>(Box<Reader<'a>>);

/// Gives a variable's value by its name.
type Reader<'a> = dyn Fn(&str) -> Option<String> + Send + Sync + 'a;

impl Env<'static> {
    /// The process's environment.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "configuration is read here and nowhere else")]
    pub fn process() -> Self {
        Self(Box::new(|name| std::env::var(name).ok()))
    }
}

impl<'a> Env<'a> {
    /// Variables from a function.
    pub fn new(read: impl Fn(&str) -> Option<String> + Send + Sync + 'a) -> Self {
        Self(Box::new(read))
    }

    /// A variable that may be set; `None` also when it is blank.
    pub(crate) fn optional(&self, variable: &str) -> Option<String> {
        (self.0)(variable).filter(|value| !value.trim().is_empty())
    }

    /// A variable that must be set.
    ///
    /// # Errors
    /// [`ConfigError::Missing`]
    pub fn required(&self, variable: &'static str, meaning: &'static str) -> Result<String, ConfigError> {
        self.optional(variable).ok_or(ConfigError::Missing { variable, meaning })
    }

    /// A variable that must be set to JSON of a type.
    ///
    /// # Errors
    /// [`ConfigError`]
    pub fn json<T: DeserializeOwned>(
        &self,
        variable: &'static str,
        meaning: &'static str,
    ) -> Result<T, ConfigError> {
        let text = self.required(variable, meaning)?;
        serde_json::from_str(&text)
            .map_err(|error| ConfigError::Unusable { variable, why: position_or_field(&error) })
    }

    /// The table's name.
    ///
    /// # Errors
    /// [`ConfigError`]
    pub fn table(&self) -> Result<String, ConfigError> {
        self.required(TABLE, "the name of the DynamoDB table")
    }

    /// The addresses of these queues.
    ///
    /// # Errors
    /// [`ConfigError`] naming the first that is missing.
    pub fn queues(&self, queues: &[Queue]) -> Result<BTreeMap<Queue, String>, ConfigError> {
        queues
            .iter()
            .map(|queue| {
                let variable = queue_variable(*queue);
                let url = self.required(variable, "the URL of that SQS queue")?;
                if url.starts_with("https://") || url.starts_with("http://") {
                    Ok((*queue, url))
                } else {
                    Err(ConfigError::Unusable { variable, why: "it isn't a URL".into() })
                }
            })
            .collect()
    }

    /// JSON of a variable that may be absent.
    ///
    /// # Errors
    /// [`ConfigError`] when it is there and can't be used.
    pub fn json_if_given<T: DeserializeOwned>(
        &self,
        variable: &'static str,
        meaning: &'static str,
    ) -> Result<Option<T>, ConfigError> {
        if self.optional(variable).is_none() {
            return Ok(None);
        }
        self.json(variable, meaning).map(Some)
    }

    /// The secrets that sign handoffs.
    ///
    /// # Errors
    /// [`ConfigError`]
    pub fn handoff_secrets(&self) -> Result<Secrets, ConfigError> {
        self.secrets(HANDOFF_SECRET, HANDOFF_SECRET_PREVIOUS, "the secret that signs handoffs")
    }

    /// The secrets that callers of the API present.
    ///
    /// # Errors
    /// [`ConfigError`]
    pub fn api_secrets(&self) -> Result<Secrets, ConfigError> {
        self.secrets(API_SECRET, API_SECRET_PREVIOUS, "the secret that callers of the API present")
    }

    fn secrets(
        &self,
        current: &'static str,
        previous: &'static str,
        meaning: &'static str,
    ) -> Result<Secrets, ConfigError> {
        let secret = |variable: &'static str, text: String| {
            let why = format!("a secret has at least {MIN_SECRET_BYTES} bytes");
            Secret::new(text).ok_or(ConfigError::Unusable { variable, why })
        };
        let required = self.required(current, meaning)?;
        let before = self.optional(previous);
        Ok(Secrets {
            current: secret(current, required)?,
            previous: before.map(|text| secret(previous, text)).transpose()?,
        })
    }

    /// Times and limits: the defaults, with what is set.
    ///
    /// # Errors
    /// [`ConfigError`]
    pub fn settings(&self) -> Result<Settings, ConfigError> {
        match self.optional(SETTINGS) {
            None => Ok(Settings::default()),
            Some(_) => self.json(SETTINGS, "times and limits as JSON"),
        }
    }
}

/// Where JSON is wrong, without its values.
fn position_or_field(error: &serde_json::Error) -> String {
    if error.is_data() {
        // serde names fields and expected types; a value appears only where it is of the wrong type, which no secret is.
        format!("its JSON doesn't fit: {error}")
    } else {
        format!("it isn't JSON from line {}, column {}", error.line(), error.column())
    }
}

/// SDK clients as this project sets them.
#[derive(Clone, Debug)]
pub struct Clients {
    /// DynamoDB.
    pub dynamo: aws_sdk_dynamodb::Client,
    /// SQS.
    pub sqs: aws_sdk_sqs::Client,
}

/// Region, credentials and endpoints as the SDK reads them from environment and profile, or as they are given here, with
/// this project's retries and timeouts.
pub async fn sdk_config(region: Option<String>, endpoint_url: Option<String>) -> SdkConfig {
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        // The SDK retries three times; conditional writes recognise their own lost replies, and every receiver of
        // a message takes duplicates. It has no timeouts of its own: an answer that never comes must end, too.
        .retry_config(RetryConfig::standard().with_max_attempts(3))
        .timeout_config(
            TimeoutConfig::builder()
                .connect_timeout(Duration::from_secs(2))
                .operation_attempt_timeout(Duration::from_secs(5))
                .operation_timeout(Duration::from_secs(12))
                .build(),
        );
    if let Some(region) = region {
        loader = loader.region(Region::new(region));
    }
    if let Some(url) = endpoint_url {
        loader = loader.endpoint_url(url);
    }
    loader.load().await
}

impl Clients {
    /// Clients from the environment.
    pub async fn from_env() -> Self {
        Self::new(&sdk_config(None, None).await)
    }

    /// Clients as configured.
    #[must_use]
    pub fn new(config: &SdkConfig) -> Self {
        Self { dynamo: aws_sdk_dynamodb::Client::new(config), sqs: aws_sdk_sqs::Client::new(config) }
    }

    /// Clients for a local stack, whatever the environment says.
    #[must_use]
    pub fn local(dynamo_url: &str, sqs_url: &str) -> Self {
        let credentials =
            || aws_credential_types::Credentials::new("local", "local", None, None, "local stack");
        let region = "us-east-1";
        let dynamo = aws_sdk_dynamodb::Config::builder()
            .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest())
            .region(aws_sdk_dynamodb::config::Region::new(region))
            .credentials_provider(credentials())
            .endpoint_url(dynamo_url)
            .build();
        let sqs = aws_sdk_sqs::Config::builder()
            .behavior_version(aws_sdk_sqs::config::BehaviorVersion::latest())
            .region(aws_sdk_sqs::config::Region::new(region))
            .credentials_provider(credentials())
            .endpoint_url(sqs_url)
            .build();
        Self { dynamo: aws_sdk_dynamodb::Client::from_conf(dynamo), sqs: aws_sdk_sqs::Client::from_conf(sqs) }
    }

    /// The store on a table.
    #[must_use]
    pub fn store(&self, table: String) -> DynamoStore {
        DynamoStore::new(self.dynamo.clone(), table)
    }

    /// The queues with these addresses.
    #[must_use]
    pub fn queues(&self, urls: BTreeMap<Queue, String>) -> SqsQueues {
        SqsQueues::new(self.sqs.clone(), urls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &'static [(&'static str, &'static str)]) -> Env<'static> {
        Env::new(move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn what_is_missing_is_named_in_one_line() {
        let error = env(&[]).table().unwrap_err().to_string();
        assert_eq!(error, "GLASSLINE_TABLE is not set: it must hold the name of the DynamoDB table");
        let error = env(&[(TABLE, " ")]).table().unwrap_err();
        assert!(matches!(error, ConfigError::Missing { variable: TABLE, .. }));
        let error = env(&[]).queues(&[Queue::Finish]).unwrap_err().to_string();
        assert!(error.starts_with("GLASSLINE_FINISH_QUEUE_URL is not set"), "{error}");
        let error = env(&[]).handoff_secrets().unwrap_err().to_string();
        assert!(error.starts_with("GLASSLINE_HANDOFF_SECRET is not set"), "{error}");
    }

    #[test]
    fn what_is_unusable_is_named_without_its_value() {
        let error = env(&[(HANDOFF_SECRET, "hunter2")]).handoff_secrets().unwrap_err().to_string();
        assert!(error.contains("at least 16 bytes") && !error.contains("hunter2"), "{error}");
        let error = env(&[(SETTINGS, "{\"max_failures\":3,\"nope\":1}")]).settings().unwrap_err().to_string();
        assert!(error.contains("unknown field `nope`"), "{error}");
        let error = env(&[("GLASSLINE_QA_QUEUE_URL", "qa")]).queues(&[Queue::Qa]).unwrap_err().to_string();
        assert!(error.contains("isn't a URL"), "{error}");
    }

    #[test]
    fn settings_are_defaults_with_what_is_set() {
        let settings = env(&[(SETTINGS, "{\"max_failures\":7}")]).settings().unwrap();
        assert_eq!(settings, Settings { max_failures: 7, ..Settings::default() });
    }
}
