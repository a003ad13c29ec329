//! The whole stack in one process: stores, sandbox provider, functions as child processes, mappings and schedule.

use crate::lambda::{FunctionSpec, Host, HostError, HostOptions};
use crate::lanes::{LaneSetup, default_series};
use crate::logs::Logs;
use crate::mapping::{Mapping, MappingError, MappingHandle, spawn};
use crate::schedule::{Rate, Schedule, ScheduleSpec};
use crate::stores::{Stores, StoresError, TABLE, dead_letters};
use crate::url::FunctionUrl;
use glassline_aws::config::{self, queue_variable};
use glassline_aws::live::Live;
use glassline_aws::local::SystemLocal;
use glassline_protocol::intake::{SubmitError, create_lane, create_series};
use glassline_protocol::settings::Settings;
use glassline_sandbox::{AcceptHook, FaultRule, Sandbox, SandboxConfig, SandboxError};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use tokio::net::TcpListener;

/// Time limit of one invocation, in milliseconds.
const FUNCTION_TIMEOUT_MS: u64 = 30_000;
/// Visibility timeout of the queues: six times the functions' limit, as AWS advises.
pub const VISIBILITY_MS: u64 = 6 * FUNCTION_TIMEOUT_MS;
/// The longest a submit may take, in milliseconds.
const SUBMIT_TIMEOUT_MS: u64 = 4_000;

/// What a stack is made of.
#[derive(Clone)]
pub struct StackConfig {
    /// Where it keeps its data; in memory without one.
    pub data: Option<PathBuf>,
    /// The program that can start as any function, and the arguments before the function's name.
    pub program: PathBuf,
    /// Arguments that make it start as a function; the function's name follows.
    pub arguments: Vec<OsString>,
    /// Its lanes.
    pub lanes: Vec<LaneSetup>,
    /// Times and limits.
    pub settings: Settings,
    /// How often the schedule makes a full tick, in milliseconds.
    pub tick_ms: u64,
    /// The port of the api on loopback; without one the folder's own, which it keeps as long as it is free.
    pub port: Option<u16>,
    /// What goes wrong at the provider.
    pub faults: Vec<FaultRule>,
    /// Called when the provider has accepted a render, before it answers.
    pub on_accept: Option<AcceptHook>,
}

/// Times for a stack on one machine, where a minute is long.
#[must_use]
pub fn local_settings() -> Settings {
    Settings {
        claim_lease_ms: 30_000,
        submit_lease_ms: 8_000,
        render_lease_ms: 60_000,
        renew_below_ms: 20_000,
        submit_margin_ms: 1_000,
        reservation_ms: 10_000,
        held_check_ms: 20_000,
        retry_base_ms: 1_000,
        retry_max_ms: 60_000,
        throttle_pause_ms: 2_000,
        refused_pause_ms: 30_000,
        ..Settings::default()
    }
}

impl StackConfig {
    /// A stack with the default lanes and times, no faults.
    #[must_use]
    pub fn new(data: Option<PathBuf>, program: PathBuf, arguments: Vec<OsString>) -> Self {
        Self {
            data,
            program,
            arguments,
            lanes: crate::lanes::default_lanes(),
            settings: local_settings(),
            tick_ms: 3_000,
            port: None,
            faults: Vec::new(),
            on_accept: None,
        }
    }
}

/// Why a stack can't start.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// The stores.
    #[error(transparent)]
    Stores(#[from] StoresError),
    /// The provider.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The functions.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A mapping.
    #[error(transparent)]
    Mapping(#[from] MappingError),
    /// A lane or series.
    #[error("a lane or series can't be created: {0}")]
    Lane(#[from] SubmitError),
    /// The port of the api.
    #[error("port {port} can't be opened for the api: {source}; choose another one with --port")]
    Port {
        /// Which.
        port: u16,
        /// Why.
        source: std::io::Error,
    },
    /// A file of the data folder.
    #[error("{} can't be written: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// A running stack.
pub struct Stack {
    /// Table and queues.
    pub stores: Stores,
    /// The provider.
    pub sandbox: Sandbox,
    /// The functions.
    pub host: Host,
    /// Their logs.
    pub logs: Logs,
    /// Where outputs are stored.
    pub storage: PathBuf,
    /// The api, on loopback.
    pub api: FunctionUrl,
    /// The secret that its callers present.
    pub api_secret: String,
    /// Ports without provider and vault: for submitting and looking.
    pub ports: Live,
    mappings: Vec<MappingHandle>,
    schedule: Schedule,
    _temporary: Option<Temporary>,
}

/// A folder that goes with the stack.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> StackError + use<'_> {
    move |source| StackError::File { path: path.to_owned(), source }
}

#[allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "without randomness there is no secret; better no stack than a guessable one"
)]
fn fresh_secret() -> String {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    hex::encode(bytes)
}

/// A secret of the folder, made with it. The one that signs handoffs is kept with the queues, because the messages on them
/// are signed with it; the api's is kept so that who has it need not ask again.
fn secret(folder: &Path, name: &str) -> Result<String, StackError> {
    let path = folder.join(name);
    if let Ok(secret) = std::fs::read_to_string(&path)
        && secret.len() >= glassline_protocol::sign::MIN_SECRET_BYTES
    {
        return Ok(secret);
    }
    let secret = fresh_secret();
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&path).map_err(file_error(&path))?;
    std::io::Write::write_all(&mut file, secret.as_bytes()).map_err(file_error(&path))?;
    Ok(secret)
}

/// A listener for the api: on the port asked for, or on the folder's own, or on a free one, which becomes the folder's.
async fn api_listener(folder: &Path, port: Option<u16>) -> Result<TcpListener, StackError> {
    if let Some(port) = port {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        return listener.map_err(|source| StackError::Port { port, source });
    }
    let path = folder.join("api-port");
    let own = std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
    if let Some(port) = own
        && let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await
    {
        return Ok(listener);
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.map_err(|source| StackError::Port { port: 0, source })?;
    let address = listener.local_addr().map_err(|source| StackError::Port { port: 0, source })?;
    std::fs::write(&path, address.port().to_string()).map_err(file_error(&path))?;
    Ok(listener)
}

/// The providers' configuration, as the functions read it.
fn providers(lanes: &[LaneSetup], url: &str, api: SocketAddr) -> Value {
    let lanes = lanes.iter().map(|lane| {
        let called = format!("http://{api}/v1/callbacks/sandbox/{}", lane.name);
        let provider = json!({
            "adapter": "sandbox",
            "base_url": url,
            "api_key": lane.api_key(),
            "recovery": lane.recovery,
            "polled": lane.polled(),
            "callback_url": (!lane.polled()).then_some(called),
            "submit_timeout_ms": SUBMIT_TIMEOUT_MS,
            "poll_ms": 1_000,
            "deadline_ms": 300_000,
        });
        (lane.name.to_string(), provider)
    });
    Value::Object(lanes.collect())
}

/// The dead-letter queues, as the api reads them.
fn dead_letter_urls(sqs: SocketAddr) -> String {
    serde_json::to_string(&dead_letters(sqs)).unwrap_or_default()
}

/// The vault's configuration, as the finisher reads it.
#[must_use]
pub fn storage_config(lanes: &[LaneSetup], sandbox_port: u16, root: &Path) -> Value {
    let host =
        json!({ "host": "127.0.0.1", "port": sandbox_port, "allow_http": true, "allow_private": true });
    let lanes = lanes.iter().map(|lane| (lane.name.to_string(), json!([host])));
    json!({
        "store": { "kind": "fs", "root": root },
        "lanes": Value::Object(lanes.collect()),
        "limits": { "deadline_ms": FUNCTION_TIMEOUT_MS - 5_000 },
    })
}

/// The functions, with reserved concurrency and the most environments of each.
const FUNCTIONS: [(&str, Option<u32>, u32); 5] = [
    ("dispatch", Some(2), 2),
    ("worker", None, 8),
    ("finisher", None, 4),
    ("rollback", None, 2),
    (API, None, 4),
];
/// The function behind the address.
const API: &str = "api";

/// Queue, function, batch size, concurrency.
const MAPPINGS: [(&str, &str, u32, u32); 6] = [
    ("wake", "dispatch", 10, 2),
    ("render", "worker", 1, 8),
    ("finish", "finisher", 1, 4),
    ("rollback", "rollback", 5, 2),
    ("render-dlq", "rollback", 5, 2),
    ("finish-dlq", "rollback", 5, 2),
];

fn specs(config: &StackConfig, env: &[(String, String)]) -> Vec<FunctionSpec> {
    let specs = FUNCTIONS.iter().map(|(name, reserved_concurrency, max_environments)| {
        let mut args = config.arguments.clone();
        args.push((*name).into());
        FunctionSpec {
            name: (*name).to_owned(),
            program: config.program.clone(),
            args,
            env: env.to_vec(),
            timeout_ms: FUNCTION_TIMEOUT_MS,
            memory_mb: 256,
            reserved_concurrency: *reserved_concurrency,
            max_environments: *max_environments,
        }
    });
    specs.collect()
}

/// The secrets of a folder.
struct Secrets {
    handoff: String,
    api: String,
}

fn environment(
    config: &StackConfig,
    stores: &Stores,
    sandbox: &Sandbox,
    secrets: &Secrets,
    storage: &Path,
    api: SocketAddr,
) -> Vec<(String, String)> {
    let pair = |name: &str, value: String| (name.to_owned(), value);
    let mut env = vec![
        pair("AWS_ENDPOINT_URL_DYNAMODB", format!("http://{}", stores.dynamo)),
        pair("AWS_ENDPOINT_URL_SQS", format!("http://{}", stores.sqs)),
        pair("AWS_ACCESS_KEY_ID", "local".into()),
        pair("AWS_SECRET_ACCESS_KEY", "local".into()),
        // A person's own AWS profile must have no say in a local stack.
        pair("AWS_CONFIG_FILE", "/dev/null".into()),
        pair("AWS_SHARED_CREDENTIALS_FILE", "/dev/null".into()),
        pair("AWS_EC2_METADATA_DISABLED", "true".into()),
        pair(config::TABLE, TABLE.into()),
        pair(config::HANDOFF_SECRET, secrets.handoff.clone()),
        pair(config::API_SECRET, secrets.api.clone()),
        pair(config::SETTINGS, serde_json::to_string(&config.settings).unwrap_or_default()),
        pair(config::PROVIDERS, providers(&config.lanes, &sandbox.url(), api).to_string()),
        pair(config::STORAGE, storage_config(&config.lanes, sandbox.address.port(), storage).to_string()),
    ];
    env.push(pair(config::DEAD_LETTER_QUEUES, dead_letter_urls(stores.sqs)));
    env.extend(stores.urls().into_iter().map(|(queue, url)| pair(queue_variable(queue), url)));
    env
}

fn folder_of(config: &StackConfig) -> (PathBuf, Option<Temporary>) {
    match &config.data {
        Some(path) => (path.clone(), None),
        None => {
            let name = format!("glassline-{}", fresh_secret().get(..12).unwrap_or("memory"));
            let path = std::env::temp_dir().join(name);
            (path.clone(), Some(Temporary(path)))
        }
    }
}

/// Gives the queues' messages to their functions.
fn map_queues(stores: &Stores, host: &Host) -> Result<Vec<MappingHandle>, StackError> {
    let mut mappings = Vec::new();
    for (queue, function, batch_size, concurrency) in MAPPINGS {
        let mapping = Mapping {
            queue: queue.into(),
            function: function.into(),
            batch_size,
            window_ms: 0,
            max_concurrency: Some(concurrency),
            report_failures: true,
            visibility_ms: VISIBILITY_MS,
        };
        mappings.push(spawn(stores.engine.clone(), host.clone(), mapping)?);
    }
    Ok(mappings)
}

impl Stack {
    /// Starts everything. Functions start when they are first needed.
    ///
    /// # Errors
    /// [`StackError`]; nothing is left running.
    pub async fn start(config: StackConfig) -> Result<Self, StackError> {
        let (folder, temporary) = folder_of(&config);
        let (storage, log_folder) = (folder.join("storage"), folder.join("logs"));
        for path in [&storage, &log_folder] {
            std::fs::create_dir_all(path).map_err(file_error(path))?;
        }
        // The functions run in a folder of their own, where a relative path would be another place.
        let storage = storage.canonicalize().map_err(file_error(&storage))?;
        let stores = Stores::open(config.data.as_deref(), VISIBILITY_MS).await?;
        let sandbox = Sandbox::start(SandboxConfig {
            faults: config.faults.clone(),
            books_file: config.data.as_ref().map(|data| data.join("provider-books.jsonl")),
            on_accept: config.on_accept.clone(),
            ..SandboxConfig::new(config.lanes.iter().map(LaneSetup::account).collect())
        })
        .await?;
        let clients = stores.clients();
        let ports = Live {
            store: clients.store(TABLE.into()),
            queues: clients.queues(stores.urls()),
            provider: (),
            vault: (),
            local: SystemLocal,
        };
        for lane in &config.lanes {
            create_lane(&ports, lane.row()).await?;
        }
        for series in default_series(&config.lanes) {
            create_series(&ports, series).await?;
        }
        let secrets =
            Secrets { handoff: secret(&folder, "handoff-secret")?, api: secret(&folder, "api-secret")? };
        let listener = api_listener(&folder, config.port).await?;
        let api = listener.local_addr().map_err(|source| StackError::Port { port: 0, source })?;
        let env = environment(&config, &stores, &sandbox, &secrets, &storage, api);
        let logs = Logs::new(Some(log_folder));
        let options = HostOptions { logs: logs.sink(), ..HostOptions::default() };
        let host = Host::start(specs(&config, &env), options).await?;
        let api = FunctionUrl::serve(listener, host.clone(), API)
            .map_err(|source| StackError::Port { port: config.port.unwrap_or(0), source })?;
        let mappings = map_queues(&stores, &host)?;
        let schedule = Schedule::spawn(
            host.clone(),
            ScheduleSpec {
                name: "tick".into(),
                function: "dispatch".into(),
                rate: Rate { every_ms: config.tick_ms },
                input: r#"{"tick":"<aws.scheduler.scheduled-time>"}"#.into(),
                retries: 0,
                retry_ms: 1_000,
            },
        );
        Ok(Self {
            stores,
            sandbox,
            host,
            logs,
            storage,
            api,
            api_secret: secrets.api,
            ports,
            mappings,
            schedule,
            _temporary: temporary,
        })
    }

    /// Stops everything, letting running invocations end for a moment. What is stored stays.
    pub async fn stop(self) {
        drop(self.api);
        self.schedule.stop(2_000).await;
        for mapping in &self.mappings {
            mapping.stop(3_000).await;
        }
        self.host.shutdown().await;
    }
}
