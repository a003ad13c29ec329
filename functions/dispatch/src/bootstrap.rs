//! The function on Lambda: wakes from the queue, full ticks from the schedule.

use crate::{answer, looks, tick_all};
use glassline_aws::config::{Clients, Env};
use glassline_aws::lambda::{self, StartError, handle_groups, records};
use glassline_aws::live::Live;
use glassline_aws::local::SystemLocal;
use glassline_aws::sqs::Redelivery;
use glassline_protocol::ids::Ms;
use glassline_protocol::message::{Message, Queue};
use glassline_protocol::settings::Settings;
use glassline_protocol::sign::Secrets;
use lambda_runtime::{Error, LambdaEvent};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// The queues that dispatch sends to; wakes go to the lane that renders the frames of an episode just opened.
const QUEUES: [Queue; 3] = [Queue::Render, Queue::Rollback, Queue::Wake];
/// What is left of an invocation's time when no new round of claims is begun: enough to hand over those made.
const RESERVE_MS: u64 = 5_000;

struct State {
    ports: Live,
    settings: Settings,
    secrets: Secrets,
}

/// What the function is configured with.
pub struct Config {
    table: String,
    settings: Settings,
    secrets: Secrets,
    urls: BTreeMap<Queue, String>,
}

/// Reads all that the function is configured with.
///
/// # Errors
/// [`StartError`] naming the first variable that is missing or can't be used.
pub fn configure(env: &Env<'_>) -> Result<Config, StartError> {
    Ok(Config {
        table: env.table()?,
        settings: env.settings()?,
        secrets: env.handoff_secrets()?,
        urls: env.queues(&QUEUES)?,
    })
}

async fn build() -> Result<State, StartError> {
    let Config { table, settings, secrets, urls } = configure(&Env::process())?;
    let clients = Clients::from_env().await;
    let ports = Live {
        store: clients.store(table),
        queues: clients.queues(urls),
        provider: (),
        vault: (),
        local: SystemLocal,
    };
    Ok(State { ports, settings, secrets })
}

async fn handle(state: &'static State, event: LambdaEvent<Value>) -> Result<Value, Error> {
    let until_ms: Ms = event.context.deadline.saturating_sub(RESERVE_MS);
    let State { ports, settings, secrets } = state;
    let Some(records) = records(&event.payload) else {
        let ticked = tick_all(ports, settings, secrets, until_ms).await?;
        tracing::info!(event = "full_tick", function = "dispatch", lanes = ticked.len());
        return Ok(json!({ "lanes": ticked.len() }));
    };
    let lane = |message: &Message| match message {
        Message::Wake(wake) => Some(wake.lane.clone()),
        Message::Handoff(_)
        | Message::Check(_)
        | Message::Finish(_)
        | Message::Rollback(_)
        | Message::Qa(_) => None,
    };
    let back = Redelivery { queues: &ports.queues, settings };
    handle_groups("dispatch", records, &back, lane, |lane, wakes| async move {
        let Some(look) = looks(wakes).remove(&lane) else { return Ok(()) };
        answer(ports, settings, secrets, &lane, look, until_ms).await.map(|_| ())
    })
    .await
}

/// Runs the function until its process ends.
#[must_use]
pub fn run() -> ExitCode {
    lambda::run("dispatch", build(), |state, event| async move {
        let response = handle(state, event).await;
        state.ports.log_operations("dispatch");
        response
    })
}
