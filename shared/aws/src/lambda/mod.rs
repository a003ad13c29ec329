//! Running a handler on Lambda: batches of SQS records, each parsed and handled on its own, and the start of a function.

mod batch;
mod given_back;

pub use batch::{Handled, Record, handle_batch, handle_groups, records};
pub use given_back::{GiveBack, GivenBack};

use crate::config::ConfigError;
use crate::telemetry::{self, trace};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::Value;
use std::future::Future;
use std::process::ExitCode;
use tracing::Instrument as _;

/// Why a function can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Something that it is built from.
    #[error("{0}")]
    Build(String),
}

/// Runs a function: builds what it needs, then handles events until the process ends. When it can't be built, it stops
/// with one line that names what is wrong.
pub fn run<S, B, F, H>(function: &'static str, build: B, handle: H) -> ExitCode
where
    S: Send + Sync + 'static,
    B: Future<Output = Result<S, StartError>>,
    H: Fn(&'static S, LambdaEvent<Value>) -> F,
    F: Future<Output = Result<Value, Error>>,
{
    telemetry::init(function);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return stop(function, &format!("no runtime can be started: {error}")),
    };
    runtime.block_on(async {
        let state: &'static S = match build.await {
            // One per process, for its whole life.
            Ok(state) => Box::leak(Box::new(state)),
            Err(error) => return stop(function, &error.to_string()),
        };
        let service = service_fn(|event: LambdaEvent<Value>| {
            // What has no trace of its own belongs to the invocation's.
            let trace = event.context.xray_trace_id.as_deref().and_then(trace::Trace::parse);
            let trace_id = trace.as_ref().map(|trace| trace.id().to_owned());
            let request_id = event.context.request_id.clone();
            let span = tracing::error_span!("invocation", function, request_id, trace_id);
            let handled = trace::scope(trace, handle(state, event)).instrument(span);
            async {
                let response = handled.await;
                telemetry::publish();
                response
            }
        });
        match lambda_runtime::run(service).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => stop(function, &error.to_string()),
        }
    })
}

fn stop(function: &str, why: &str) -> ExitCode {
    tracing::error!(event = "start_failed", function, why, "the function can't start");
    eprintln!("{function} can't start: {why}");
    telemetry::publish();
    ExitCode::FAILURE
}
