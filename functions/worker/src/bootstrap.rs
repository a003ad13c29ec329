//! The function on Lambda: configuration, ports, batches.

use crate::handle;
use glassline_aws::config::{Clients, Env, PROVIDERS, SETTINGS};
use glassline_aws::lambda::{self, StartError, handle_batch, records};
use glassline_aws::live::Live;
use glassline_aws::local::SystemLocal;
use glassline_aws::sqs::Redelivery;
use glassline_protocol::message::Queue;
use glassline_protocol::provider::Provider as _;
use glassline_protocol::settings::Settings;
use glassline_protocol::sign::Secrets;
use glassline_providers::Providers;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// The queues that the worker sends to.
const QUEUES: [Queue; 3] = [Queue::Render, Queue::Finish, Queue::Wake];

struct State {
    ports: Live<Providers>,
    settings: Settings,
    secrets: Secrets,
}

/// What the function is configured with.
pub struct Config {
    table: String,
    settings: Settings,
    secrets: Secrets,
    urls: BTreeMap<Queue, String>,
    providers: Providers,
}

/// Reads all that the function is configured with.
///
/// # Errors
/// [`StartError`] naming the first variable that is missing or can't be used.
pub fn configure(env: &Env<'_>) -> Result<Config, StartError> {
    let (table, settings) = (env.table()?, env.settings()?);
    let urls = env.queues(&QUEUES)?;
    let secrets = env.handoff_secrets()?;
    let providers = Providers::from_config(env.json(PROVIDERS, "the lanes' providers as JSON")?)
        .map_err(|error| StartError::Build(format!("{PROVIDERS} can't be used: {error}")))?;
    for lane in providers.lanes() {
        settings
            .check(lane, &providers.capabilities(lane))
            .map_err(|misfit| StartError::Build(format!("{SETTINGS} can't be used: {misfit}")))?;
    }
    Ok(Config { table, settings, secrets, urls, providers })
}

async fn build() -> Result<State, StartError> {
    let Config { table, settings, secrets, urls, providers } = configure(&Env::process())?;
    let clients = Clients::from_env().await;
    let ports = Live {
        store: clients.store(table),
        queues: clients.queues(urls),
        provider: providers,
        vault: (),
        local: SystemLocal,
    };
    Ok(State { ports, settings, secrets })
}

/// Runs the function until its process ends.
#[must_use]
pub fn run() -> ExitCode {
    lambda::run("worker", build(), |state, event| async move {
        let records = records(&event.payload).ok_or("the event isn't a batch of SQS records")?;
        let back = Redelivery { queues: &state.ports.queues, settings: &state.settings };
        let response = handle_batch("worker", records, &back, |message| {
            handle(&state.ports, &state.settings, &state.secrets, message)
        })
        .await;
        state.ports.log_operations("worker");
        response
    })
}
