//! What can't be read from the template or the code: what each function asks of the table and the bucket, and how it reads
//! its configuration. `tests/deploy` shows on enforced roles that it is enough.

use glassline_aws::config::Env;

/// A function: its name in the template, what it asks of table, index and bucket, and its configuration.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) table: &'static [&'static str],
    pub(crate) index: bool,
    pub(crate) bucket: &'static [&'static str],
    /// The dead-letter queues whose messages it may move back.
    pub(crate) redrives: &'static [&'static str],
    pub(crate) configure: fn(&Env<'_>) -> Result<(), String>,
}

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "Dispatch",
        table: &["GetItem", "BatchGetItem", "Query", "UpdateItem", "PutItem"],
        index: true,
        bucket: &[],
        redrives: &[],
        configure: |env| unless_wrong(glassline_dispatch::bootstrap::configure(env)),
    },
    Function {
        name: "Worker",
        table: &["GetItem", "BatchGetItem", "Query", "UpdateItem", "PutItem", "ConditionCheckItem"],
        index: false,
        bucket: &[],
        redrives: &[],
        configure: |env| unless_wrong(glassline_worker::bootstrap::configure(env)),
    },
    Function {
        name: "Finisher",
        table: &["GetItem", "BatchGetItem", "Query", "UpdateItem", "PutItem"],
        index: false,
        bucket: &["PutObject", "GetObject", "AbortMultipartUpload"],
        redrives: &[],
        configure: |env| unless_wrong(glassline_finisher::bootstrap::configure(env)),
    },
    Function {
        name: "Rollback",
        table: &["GetItem", "BatchGetItem", "Query", "UpdateItem", "PutItem", "ConditionCheckItem"],
        index: false,
        bucket: &[],
        redrives: &[],
        configure: |env| unless_wrong(glassline_rollback::bootstrap::configure(env)),
    },
    Function {
        name: "Api",
        table: &["GetItem", "BatchGetItem", "Query", "UpdateItem", "PutItem", "ConditionCheckItem", "Scan"],
        index: true,
        bucket: &["GetObject"],
        redrives: &["RenderDeadLetters", "FinishDeadLetters", "RollbackDeadLetters", "WakeDeadLetters"],
        configure: |env| unless_wrong(glassline_api::bootstrap::configure(env)),
    },
];

/// Where to add what is missing.
pub(crate) fn unknown(function: &str) -> String {
    format!("{function} isn't in tests/template/tests/rules/expected.rs: add what it may do")
}

fn unless_wrong<T, E: ToString>(configured: Result<T, E>) -> Result<(), String> {
    configured.map(|_| ()).map_err(|error| error.to_string())
}
