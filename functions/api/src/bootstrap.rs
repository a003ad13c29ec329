//! The function on Lambda: configuration, ports, requests of its Function URL.

use crate::{Api, Config, router, url};
use glassline_aws::config::{Clients, DEAD_LETTER_QUEUES, Env, PROVIDERS};
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
    Ok(Configured { table, config, urls: env.queues(&QUEUES)?, dead_letters, providers })
}

async fn build() -> Result<State, StartError> {
    let Configured { table, config, urls, dead_letters, providers } = configure(&Env::process())?;
    let clients = Clients::from_env().await;
    let ports = Live {
        store: clients.store(table),
        queues: clients.queues(urls).with_dead_letters(dead_letters),
        provider: providers,
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
