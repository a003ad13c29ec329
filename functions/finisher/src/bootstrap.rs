//! The function on Lambda: configuration, ports, batches.

use crate::handle;
use glassline_assets::{Access, AssetVault};
use glassline_aws::config::{Clients, Env, PROVIDERS, STORAGE};
use glassline_aws::lambda::{self, StartError, handle_batch, records};
use glassline_aws::live::Live;
use glassline_aws::local::SystemLocal;
use glassline_aws::sqs::Redelivery;
use glassline_protocol::ids::LaneName;
use glassline_protocol::message::Queue;
use glassline_protocol::settings::Settings;
use glassline_providers::Providers;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// The queues that the finisher sends to.
const QUEUES: [Queue; 2] = [Queue::Qa, Queue::Wake];

struct State {
    ports: Live<Providers, AssetVault>,
    settings: Settings,
}

/// What the function is configured with.
pub struct Config {
    table: String,
    settings: Settings,
    urls: BTreeMap<Queue, String>,
    providers: Providers,
    vault: AssetVault,
}

/// Reads all that the function is configured with, and opens its storage; nothing is asked of that yet.
///
/// # Errors
/// [`StartError`] naming the first variable that is missing or can't be used.
pub fn configure(env: &Env<'_>) -> Result<Config, StartError> {
    let (table, settings) = (env.table()?, env.settings()?);
    let urls = env.queues(&QUEUES)?;
    let providers = Providers::from_config(env.json(PROVIDERS, "the lanes' providers as JSON")?)
        .map_err(|error| StartError::Build(format!("{PROVIDERS} can't be used: {error}")))?;
    let access = |lane: &LaneName| {
        providers.output_access(lane).map(|access| Access { base: access.base, headers: access.headers })
    };
    let vault = AssetVault::with_access(env.json(STORAGE, "storage and download limits as JSON")?, access)
        .map_err(|error| StartError::Build(format!("{STORAGE} can't be used: {error}")))?;
    Ok(Config { table, settings, urls, providers, vault })
}

async fn build() -> Result<State, StartError> {
    let Config { table, settings, urls, providers, vault } = configure(&Env::process())?;
    let clients = Clients::from_env().await;
    let ports = Live {
        store: clients.store(table),
        queues: clients.queues(urls),
        provider: providers,
        vault,
        local: SystemLocal,
    };
    Ok(State { ports, settings })
}

/// Runs the function until its process ends.
#[must_use]
pub fn run() -> ExitCode {
    lambda::run("finisher", build(), |state, event| async move {
        let records = records(&event.payload).ok_or("the event isn't a batch of SQS records")?;
        let back = Redelivery { queues: &state.ports.queues, settings: &state.settings };
        let response = handle_batch("finisher", records, &back, |message| {
            handle(&state.ports, &state.settings, message)
        })
        .await;
        state.ports.log_operations("finisher");
        response
    })
}
