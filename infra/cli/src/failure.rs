//! What stops a command: one sentence for a person.

/// One clear sentence: what is wrong, where, what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

macro_rules! from_errors {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self { Self(error.to_string()) }
        }
    )*};
}
from_errors!(
    glassline_local::stack::StackError,
    glassline_local::stores::StoresError,
    glassline_protocol::ports::Unread,
    glassline_protocol::ids::BadName,
    glassline_protocol::intake::BadPost,
    glassline_protocol::intake::SubmitError,
    glassline_protocol::steps::CantReopen,
    glassline_assets::StoreError,
    glassline_assets::VaultConfigError,
    glassline_sqs::SqsError,
);
