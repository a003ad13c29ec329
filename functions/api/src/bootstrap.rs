//! The function on Lambda: configuration, ports, requests of its Function URL.

use crate::{Api, Config, router, url};
use glassline_assets::{Shelf, VaultConfig};
use glassline_aws::config::{Clients, DEAD_LETTER_QUEUES, Env, PROVIDERS, STORAGE};
use glassline_aws::lambda::{self, StartError};
use glassline_aws::live::Live;
use glassline_aws::local::SystemLocal;
use glassline_protocol::message::Queue;
use glassline_providers::{Providers, ProvidersConfig};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// The queues that the function sends to.
const QUEUES: [Queue; 4] = [Queue::Render, Queue::Finish, Queue::Rollback, Queue::Wake];

/// Without providers every callback is refused.
type Ports = Live<Option<Providers>>;

struct State {
    api: Api<Ports>,
    router: axum::Router,
}

/// What the function is configured with.
pub struct Configured {
    table: String,
    config: Config,
    urls: BTreeMap<Queue, String>,
    dead_letters: BTreeMap<String, String>,
    providers: Option<Providers>,
    shelf: Option<Shelf>,
}

/// Reads all that the function is configured with.
///
/// # Errors
/// [`StartError`] naming the first variable that is missing or can't be used.
pub fn configure(env: &Env<'_>) -> Result<Configured, StartError> {
    let table = env.table()?;
    let config =
        Config { settings: env.settings()?, entry: env.api_secrets()?, handoff: env.handoff_secrets()? };
    let dead_letters: Option<BTreeMap<String, String>> =
        env.json_if_given(DEAD_LETTER_QUEUES, "names and URLs of dead-letter queues as JSON")?;
    let providers: Option<ProvidersConfig> = env.json_if_given(PROVIDERS, "the lanes' providers as JSON")?;
    let providers = providers
        .map(Providers::for_callbacks)
        .transpose()
        .map_err(|error| StartError::Build(format!("{PROVIDERS} can't be used: {error}")))?;
    let dead_letters = dead_letters.unwrap_or_default();
    Ok(Configured { table, config, urls: env.queues(&QUEUES)?, dead_letters, providers, shelf: shelf(env)? })
}

async fn build() -> Result<State, StartError> {
    let Configured { table, config, urls, dead_letters, providers, shelf } = configure(&Env::process())?;
    let clients = Clients::from_env().await;
    let ports = Live {
        store: clients.store(table),
        queues: clients.queues(urls).with_dead_letters(dead_letters),
        provider: providers,
        vault: (),
        local: SystemLocal,
    };
    let api = Api::with_shelf(ports, config, shelf);
    Ok(State { router: router(api.clone()), api })
}

/// Where the page reads stored outputs; without the variable it shows none.
fn shelf(env: &Env<'_>) -> Result<Option<Shelf>, StartError> {
    let Some(storage) = env.json_if_given::<VaultConfig>(STORAGE, "storage as JSON")? else {
        return Ok(None);
    };
    let shelf = Shelf::open(&storage.store);
    shelf.map(Some).map_err(|error| StartError::Build(format!("{STORAGE} can't be used: {error}")))
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
