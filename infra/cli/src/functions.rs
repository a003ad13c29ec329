//! Starting as a function: the same code as the bootstraps that are deployed.

use std::process::ExitCode;

pub(crate) fn run(name: &str) -> ExitCode {
    match name {
        "dispatch" => glassline_dispatch::bootstrap::run(),
        "worker" => glassline_worker::bootstrap::run(),
        "finisher" => glassline_finisher::bootstrap::run(),
        "rollback" => glassline_rollback::bootstrap::run(),
        "api" => glassline_api::bootstrap::run(),
        other => {
            eprintln!(
                "glassline: there is no function `{other}`; use dispatch, worker, finisher, rollback or api"
            );
            ExitCode::FAILURE
        }
    }
}
