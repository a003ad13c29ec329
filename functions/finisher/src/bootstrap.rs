//! The function on Lambda: configuration, ports, batches.

use crate::handle;
use glassline_assets::{Access, AssetVault};
use glassline_aws::config::{Clients, Env, PROVIDERS, STORAGE};
use glassline_aws::lambda::{self, StartError, handle_batch, records};
use glassline_aws::live::Live;
use glassline_aws::local::SystemLocal;
use glassline_aws::sqs::Redelivery;
use glassline_protocol::ids::{LaneName, Ms};
use glassline_protocol::message::{Message, Queue};
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

/// When the output of a record stops being there, in epoch milliseconds. The records of a batch are begun in this order:
/// what nobody dated comes last.
fn expiry_ms(message: Option<&Message>) -> Ms {
    let outputs = match message {
        Some(Message::Finish(finish)) => finish.outputs.as_slice(),
        Some(
            Message::Handoff(_)
            | Message::Check(_)
            | Message::Rollback(_)
            | Message::Wake(_)
            | Message::Qa(_),
        )
        | None => &[],
    };
    outputs.iter().filter_map(|output| output.expires_ms).min().unwrap_or(Ms::MAX)
}

/// Runs the function until its process ends.
#[must_use]
pub fn run() -> ExitCode {
    lambda::run("finisher", build(), |state, event| async move {
        let mut records = records(&event.payload).ok_or("the event isn't a batch of SQS records")?;
        records.sort_by_key(|record| expiry_ms(record.message.as_ref().ok()));
        let back = Redelivery { queues: &state.ports.queues, settings: &state.settings };
        let response = handle_batch("finisher", records, &back, |message| {
            handle(&state.ports, &state.settings, message)
        })
        .await;
        state.ports.log_operations("finisher");
        response
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(id: &str, expiries: &[Option<Ms>]) -> serde_json::Value {
        let outputs: Vec<_> = expiries
            .iter()
            .map(|expires_ms| serde_json::json!({"url": "https://cdn.example.com/x", "expires_ms": expires_ms}))
            .collect();
        let body = serde_json::json!({
            "v": 1, "kind": "finish", "task": "t", "outputs": outputs, "subject": {
                "parent": "POST#p1", "member": "SHOT#s1", "lane": "lane", "attempt": 1, "token": "0".repeat(32),
            },
        });
        serde_json::json!({"messageId": id, "body": body.to_string()})
    }

    #[test]
    fn a_batch_is_begun_with_what_expires_first() {
        let event = serde_json::json!({"Records": [
            finish("none", &[]), finish("late", &[Some(9_000)]), {"messageId": "poison", "body": "x"},
            finish("soon", &[None, Some(1_000)]), finish("middle", &[Some(5_000), Some(7_000)]),
        ]});
        let mut records = records(&event).unwrap();
        assert_eq!(records.iter().filter(|record| record.message.is_ok()).count(), 4);
        records.sort_by_key(|record| expiry_ms(record.message.as_ref().ok()));
        let order: Vec<_> = records.iter().map(|record| record.id.as_str()).collect();
        assert_eq!(order, ["soon", "middle", "late", "none", "poison"]);
    }
}
