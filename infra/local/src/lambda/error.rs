//! How an invocation ends when it doesn't end well, in Lambda's own words where Lambda has them.

/// Why an invocation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvokeError {
    /// No function has that name.
    #[error("no function named {function:?} is hosted here: declare it when the host starts")]
    UnknownFunction {
        /// The name that was asked for.
        function: String,
    },
    /// The payload isn't JSON, or is longer than Lambda takes. The function was not run.
    #[error("the payload for function {function} was refused: {reason}")]
    Payload {
        /// The function.
        function: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A concurrency limit is reached. The function was not run; try again later.
    #[error("function {function}: Rate Exceeded: {limit} is reached, try again later")]
    Throttled {
        /// The function.
        function: String,
        /// Which limit.
        limit: &'static str,
    },
    /// The invocation took longer than the function's timeout; its process was killed.
    #[error("RequestId: {request_id} Error: Task timed out after {}.{:02} seconds", timeout_ms / 1_000, timeout_ms % 1_000 / 10)]
    Timeout {
        /// The invocation.
        request_id: String,
        /// The function's timeout.
        timeout_ms: u64,
    },
    /// The function ran and answered with an error.
    #[error("{error_type}: {message}")]
    Function {
        /// Its `errorType`.
        error_type: String,
        /// Its `errorMessage`.
        message: String,
    },
    /// The process ended while the invocation ran; how far it came is unknown.
    #[error("RequestId: {request_id} Error: {reason}")]
    Exited {
        /// The invocation.
        request_id: String,
        /// `Runtime exited with error: signal: killed`, `… exit status 1`, or `Runtime exited without providing a
        /// reason`.
        reason: String,
        /// Its exit code, if it exited.
        code: Option<i32>,
        /// The signal that ended it, if one did.
        signal: Option<i32>,
    },
    /// No process could be brought to its first `next`. The function was not run.
    #[error("{error_type}: {message}")]
    InitFailed {
        /// What it reported to `init/error`, or `Runtime.ExitError`, `Runtime.InvalidEntrypoint`, `Sandbox.Timedout`.
        error_type: String,
        /// The reported message, or how the process ended and the last line it wrote.
        message: String,
    },
    /// The host is shutting down. The function was not run.
    #[error("the host is shutting down and takes no more invocations")]
    ShuttingDown,
}

impl InvokeError {
    /// The `errorType` a caller of Lambda would see, or the name of the API error for an invocation that was refused.
    pub fn error_type(&self) -> &str {
        match self {
            Self::UnknownFunction { .. } => "ResourceNotFoundException",
            Self::Payload { .. } => "InvalidRequestContentException",
            Self::Throttled { .. } => "TooManyRequestsException",
            Self::Timeout { .. } => "Sandbox.Timedout",
            Self::Function { error_type, .. } | Self::InitFailed { error_type, .. } => error_type,
            Self::Exited { .. } => "Runtime.ExitError",
            Self::ShuttingDown => "ServiceException",
        }
    }

    /// Whether the function can't have run at all, so that trying again repeats nothing.
    pub fn not_run(&self) -> bool {
        match self {
            Self::UnknownFunction { .. }
            | Self::Payload { .. }
            | Self::Throttled { .. }
            | Self::InitFailed { .. }
            | Self::ShuttingDown => true,
            Self::Timeout { .. } | Self::Function { .. } | Self::Exited { .. } => false,
        }
    }
}
