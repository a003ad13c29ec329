//! What a host is told: the functions it runs and its own limits.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::path::PathBuf;

use super::logs::LogSink;

/// The longest timeout a function may have, 15 minutes, as on AWS
/// (<https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>).
pub const MAX_TIMEOUT_MS: u64 = 900_000;

/// Variables the host sets itself. A function's own value for one of them is refused, as AWS refuses a reserved key
/// (<https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html>). Credentials are left open: AWS takes
/// them from the role, a local stack from the function's own variables.
pub(super) const RESERVED_VARIABLES: [&str; 15] = [
    "_HANDLER",
    "_X_AMZN_TRACE_ID",
    "AWS_DEFAULT_REGION",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
    "AWS_LAMBDA_FUNCTION_NAME",
    "AWS_LAMBDA_FUNCTION_VERSION",
    "AWS_LAMBDA_INITIALIZATION_TYPE",
    "AWS_LAMBDA_LOG_GROUP_NAME",
    "AWS_LAMBDA_LOG_STREAM_NAME",
    "AWS_LAMBDA_RUNTIME_API",
    "AWS_REGION",
    "HOME",
    "LAMBDA_TASK_ROOT",
    "PATH",
    "TMPDIR",
];

/// One function: the program that serves it and the limits it runs under.
#[derive(Debug, Clone)]
pub struct FunctionSpec {
    /// Its name: 1 to 64 letters, digits, `-` or `_`, as on AWS; also the name of its log file.
    pub name: String,
    /// The executable; it speaks the Runtime API, like any `bootstrap`.
    pub program: PathBuf,
    /// Arguments of the program; a `bootstrap` on AWS has none.
    pub args: Vec<OsString>,
    /// Its environment variables, beside those that the host sets. Nothing else is inherited but `PATH`, `TMPDIR`
    /// and `HOME`.
    pub env: Vec<(String, String)>,
    /// How long one invocation may take, 1 to [`MAX_TIMEOUT_MS`].
    pub timeout_ms: u64,
    /// What the function is told of its memory, in MB; the host doesn't enforce it.
    pub memory_mb: u32,
    /// Invocations of this function that may run at once, taken out of the host's total; 0 throttles every one.
    pub reserved_concurrency: Option<u32>,
    /// Processes of this function at once, at least 1; an invocation that would need one more is throttled.
    pub max_environments: u32,
}

/// The host's own limits and the words it describes itself with.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// The region that functions are told and that ARNs carry.
    pub region: String,
    /// The account number that ARNs carry.
    pub account: String,
    /// Invocations of all functions that may run at once.
    pub total_concurrency: u32,
    /// How long an environment may sit idle before it is ended, in milliseconds.
    pub idle_ms: u64,
    /// How long a process may take from its start to its first `next`, in milliseconds; AWS gives 10 seconds.
    pub init_timeout_ms: u64,
    /// The pause after a function's first failed init, in milliseconds; it doubles with each further failure.
    pub init_backoff_ms: u64,
    /// The longest such pause, in milliseconds.
    pub init_backoff_max_ms: u64,
    /// How long [`Host::shutdown`](super::Host::shutdown) lets running invocations go on, in milliseconds.
    pub shutdown_grace_ms: u64,
    /// The longest line of a function's output that is kept, in bytes; the rest of the line is cut.
    pub max_line_bytes: usize,
    /// Where the functions' output goes.
    pub logs: LogSink,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            region: "us-east-1".to_owned(),
            account: "000000000000".to_owned(),
            total_concurrency: 1_000,
            idle_ms: 300_000,
            init_timeout_ms: 10_000,
            init_backoff_ms: 100,
            init_backoff_max_ms: 5_000,
            shutdown_grace_ms: 2_000,
            max_line_bytes: 16_384,
            logs: LogSink::Discard,
        }
    }
}

/// Why a host can't start. Nothing has been started when it is returned.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A function's name isn't one that AWS would take.
    #[error("function name {name:?} is not 1 to 64 letters, digits, '-' or '_': rename it")]
    Name {
        /// The name as given.
        name: String,
    },
    /// Two functions share a name.
    #[error("two functions are named {name:?}: give each its own name")]
    Duplicate {
        /// The shared name.
        name: String,
    },
    /// The program can't be found.
    #[error("function {function}: its program {} can't be used: build it or correct the path", program.display())]
    Program {
        /// The function.
        function: String,
        /// The path as given.
        program: PathBuf,
        /// What the file system said.
        source: std::io::Error,
    },
    /// A limit is out of its range.
    #[error("function {function}: {what}")]
    Limit {
        /// The function, or `(host)`.
        function: String,
        /// Which limit, and what it must be.
        what: String,
    },
    /// A variable that the host sets itself, or one that no process can have.
    #[error(
        "function {function}: environment variable {variable:?} {why}: remove it from the function's variables"
    )]
    Variable {
        /// The function.
        function: String,
        /// The variable's name.
        variable: String,
        /// Why it is refused.
        why: &'static str,
    },
    /// The reserved concurrencies add up to more than the total.
    #[error(
        "the reserved concurrencies add up to {reserved}, more than the total of {total}: lower one or raise it"
    )]
    Reserved {
        /// Their sum.
        reserved: u64,
        /// [`HostOptions::total_concurrency`].
        total: u32,
    },
    /// The folder of the log files can't be made.
    #[error("the log folder {} can't be made: check the path and its permissions", folder.display())]
    Logs {
        /// The folder as given.
        folder: PathBuf,
        /// What the file system said.
        source: std::io::Error,
    },
}

/// Whether `name` is a function name that AWS would take.
pub(super) fn is_function_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// Checks every function and returns them with absolute program paths: a child starts in its program's folder, where
/// a relative path would mean something else.
pub(super) fn checked(
    specs: Vec<FunctionSpec>,
    options: &HostOptions,
) -> Result<Vec<FunctionSpec>, HostError> {
    let mut names = BTreeSet::new();
    let mut reserved = 0_u64;
    let mut done = Vec::with_capacity(specs.len());
    for mut spec in specs {
        if !is_function_name(&spec.name) {
            return Err(HostError::Name { name: spec.name });
        }
        if !names.insert(spec.name.clone()) {
            return Err(HostError::Duplicate { name: spec.name });
        }
        check_limits(&spec)?;
        check_variables(&spec)?;
        reserved += u64::from(spec.reserved_concurrency.unwrap_or(0));
        spec.program = match spec.program.canonicalize() {
            Ok(program) => program,
            Err(source) => {
                return Err(HostError::Program { function: spec.name, program: spec.program, source });
            }
        };
        done.push(spec);
    }
    if reserved > u64::from(options.total_concurrency) {
        return Err(HostError::Reserved { reserved, total: options.total_concurrency });
    }
    Ok(done)
}

fn check_limits(spec: &FunctionSpec) -> Result<(), HostError> {
    let refuse = |what: String| Err(HostError::Limit { function: spec.name.clone(), what });
    if !(1..=MAX_TIMEOUT_MS).contains(&spec.timeout_ms) {
        return refuse(format!("timeout_ms is {}, it must be 1 to {MAX_TIMEOUT_MS}", spec.timeout_ms));
    }
    if spec.max_environments == 0 {
        return refuse("max_environments is 0, it must be at least 1".to_owned());
    }
    if spec.memory_mb == 0 {
        return refuse("memory_mb is 0, it must be at least 1".to_owned());
    }
    Ok(())
}

fn check_variables(spec: &FunctionSpec) -> Result<(), HostError> {
    let mut seen = HashSet::new();
    for (variable, value) in &spec.env {
        let refuse =
            |why| Err(HostError::Variable { function: spec.name.clone(), variable: variable.clone(), why });
        if RESERVED_VARIABLES.contains(&variable.as_str()) {
            return refuse("is set by the host");
        }
        if variable.is_empty() || variable.contains(['=', '\0']) || value.contains('\0') {
            return refuse("can't be given to a process (empty, or '=' or NUL in it)");
        }
        if !seen.insert(variable.as_str()) {
            return refuse("is given twice");
        }
    }
    Ok(())
}
