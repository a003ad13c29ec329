//! The function on Lambda: configuration, ports, requests of its Function URL.

use crate::{Api, Config, router, url};
use glassline_aws::config::{Clients, Env};
use glassline_aws::lambda::{self, StartError};
use glassline_aws::live::Live;
use glassline_aws::local::SystemLocal;
use glassline_protocol::message::Queue;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// The queues that the function sends to.
const QUEUES: [Queue; 1] = [Queue::Wake];

struct State {
    api: Api<Live>,
    router: axum::Router,
}

/// What the function is configured with.
pub struct Configured {
    table: String,
    config: Config,
    urls: BTreeMap<Queue, String>,
}

/// Reads all that the function is configured with.
///
/// # Errors
/// [`StartError`] naming the first variable that is missing or can't be used.
pub fn configure(env: &Env<'_>) -> Result<Configured, StartError> {
    let table = env.table()?;
    let config =
        Config { settings: env.settings()?, entry: env.api_secrets()?, handoff: env.handoff_secrets()? };
    Ok(Configured { table, config, urls: env.queues(&QUEUES)? })
}

async fn build() -> Result<State, StartError> {
    let Configured { table, config, urls } = configure(&Env::process())?;
    let clients = Clients::from_env().await;
    let ports = Live {
        store: clients.store(table),
        queues: clients.queues(urls),
        provider: (),
        vault: (),
        local: SystemLocal,
    };
    let api = Api::new(ports, config);
    Ok(State { router: router(api.clone()), api })
}

/// Runs the function until its process ends.
#[must_use]
pub fn run() -> ExitCode {
    lambda::run("api", build(), |state, event| async move {
        let answer = url::serve(&state.router, event.payload).await;
        state.api.ports().log_operations("api");
        answer
    })
}
