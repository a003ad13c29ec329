//! A text that never prints.

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny};
use std::fmt;

/// A secret such as an API key. `Debug` shows nothing of it, and it has neither `Display` nor `Serialize`, so that it
/// can't reach a log by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the one place that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Serde's own message for a number in place of a text would show the number.
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Given {
            Text(String),
            Other(IgnoredAny),
        }
        match Given::deserialize(deserializer)? {
            Given::Text(text) => Ok(Self(text)),
            Given::Other(IgnoredAny) => Err(D::Error::custom("a secret must be a text")),
        }
    }
}
