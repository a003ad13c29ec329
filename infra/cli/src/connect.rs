//! Finding the stack: one in AWS by its name, a running one by its file of addresses, or the stores of one that isn't
//! running.

use crate::args::Options;
use crate::failure::Failure;
use crate::stack::describe;
use glassline_assets::StoreConfig;
use glassline_aws::config::{Clients, sdk_config};
use glassline_aws::live::Live;
use glassline_aws::local::SystemLocal;
use glassline_local::stack::VISIBILITY_MS;
use glassline_local::stores::{QUEUES, Stores, TABLE, queue_urls};
use glassline_protocol::message::Queue;
use glassline_protocol::ports::Local as _;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// How often a command looks whether another one still has the stores, or a stack has come up: for 20 seconds.
const LOOKS: u32 = 400;
/// The time between two of these looks.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(50);

/// Where a running stack listens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Addresses {
    pub(crate) pid: u32,
    pub(crate) dynamo: SocketAddr,
    pub(crate) sqs: SocketAddr,
    pub(crate) provider: SocketAddr,
    /// The API and the registry page.
    pub(crate) api: SocketAddr,
}

/// The sole right to a data folder, for as long as it lives (also when its process is killed).
pub(crate) struct Lock {
    file: File,
    addresses: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.addresses);
        let _ = self.file.unlock();
    }
}

fn addresses_file(data: &Path) -> PathBuf {
    data.join("stack.json")
}

/// Takes a data folder; `None` when another process has it.
fn try_lock(data: &Path) -> Result<Option<Lock>, Failure> {
    let fail = |what: &str, error: &std::io::Error| {
        Failure::new(format!("the data folder {} can't be {what}: {error}", data.display()))
    };
    std::fs::create_dir_all(data).map_err(|error| fail("created", &error))?;
    let path = data.join("lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|error| fail("written", &error))?;
    match file.try_lock() {
        Ok(()) => {
            // Whoever had it and was killed listens nowhere any more.
            let addresses = addresses_file(data);
            let _ = std::fs::remove_file(&addresses);
            Ok(Some(Lock { file, addresses }))
        }
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(fail("locked", &error)),
    }
}

/// Takes a data folder for a stack.
pub(crate) fn lock(data: &Path) -> Result<Lock, Failure> {
    try_lock(data)?.ok_or_else(|| {
        Failure::new(format!(
            "a stack is running on {} already; stop it, or name another folder with --data",
            data.display()
        ))
    })
}

impl Lock {
    /// Tells other commands where the stack listens.
    pub(crate) fn publish(&self, addresses: &Addresses) -> Result<(), Failure> {
        let text = serde_json::to_string(addresses).unwrap_or_default();
        let partial = self.addresses.with_extension("part");
        std::fs::write(&partial, text)
            .and_then(|()| std::fs::rename(&partial, &self.addresses))
            .map_err(|error| Failure::new(format!("{} can't be written: {error}", self.addresses.display())))
    }
}

/// A way to the table and the queues.
pub(crate) struct Connection {
    pub(crate) ports: Live,
    pub(crate) clients: Clients,
    /// Every queue: its name, and its address.
    pub(crate) queues: Vec<(String, String)>,
    /// Where the outputs are, if that is known.
    pub(crate) storage: Option<StoreConfig>,
    /// Whether functions are running.
    pub(crate) running: bool,
    _stores: Option<(Stores, Lock)>,
}

fn ports(
    clients: &Clients,
    table: String,
    urls: BTreeMap<Queue, String>,
    queues: &[(String, String)],
) -> Live {
    let dead_letters = queues.iter().filter(|(name, _)| name.ends_with("-dlq")).cloned().collect();
    Live {
        store: clients.store(table),
        queues: clients.queues(urls).with_dead_letters(dead_letters),
        provider: (),
        vault: (),
        local: SystemLocal,
    }
}

fn connected(clients: Clients, sqs: SocketAddr, data: &Path, stores: Option<(Stores, Lock)>) -> Connection {
    let queues = QUEUES.iter().map(|spec| (spec.name.to_owned(), glassline_sqs::queue_url(sqs, spec.name)));
    let queues: Vec<_> = queues.collect();
    let ports = ports(&clients, TABLE.into(), queue_urls(sqs), &queues);
    let storage = Some(StoreConfig::Fs { root: data.join("storage") });
    Connection { ports, clients, queues, storage, running: stores.is_none(), _stores: stores }
}

/// Connects to the stack that the options name.
pub(crate) async fn connect(options: &Options) -> Result<Connection, Failure> {
    let Some(stack) = &options.stack else { return connect_local(&options.data).await };
    let config = sdk_config(options.region.clone(), options.endpoint_url.clone()).await;
    let found = describe(&config, stack, SystemLocal.now_ms()).await?;
    let clients = Clients::new(&config);
    let ports = ports(&clients, found.table, found.urls, &found.queues);
    let region = config.region().map(ToString::to_string);
    let storage = found.bucket.zip(region).map(|(bucket, region)| StoreConfig::S3 {
        bucket,
        region,
        endpoint: options.endpoint_url.clone(),
        keys: None,
    });
    Ok(Connection { ports, clients, queues: found.queues, storage, running: true, _stores: None })
}

/// Where the stack on a data folder listens; `None` when none is ready.
fn running(data: &Path) -> Result<Option<Addresses>, Failure> {
    let path = addresses_file(data);
    match std::fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| Failure::new(format!("{} can't be understood: {error}", path.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::new(format!("{} can't be read: {error}", path.display()))),
    }
}

/// Connects to the stack on a data folder; when none is running, opens its stores alone.
async fn connect_local(data: &Path) -> Result<Connection, Failure> {
    if !data.is_dir() {
        return Err(Failure::new(format!(
            "there is no data in {}; start a stack with `glassline local`, or name its folder with --data",
            data.display()
        )));
    }
    let mut looks = 0;
    let addresses = loop {
        if let Some(lock) = try_lock(data)? {
            let stores = Stores::open(Some(data), VISIBILITY_MS).await?;
            let (clients, sqs) = (stores.clients(), stores.sqs);
            return Ok(connected(clients, sqs, data, Some((stores, lock))));
        }
        if let Some(addresses) = running(data)? {
            break addresses;
        }
        // Another command has the stores for a moment, or a stack is just coming up.
        if looks >= LOOKS {
            return Err(Failure::new(format!(
                "{} is in use by another command, or its stack isn't ready yet; try again",
                data.display()
            )));
        }
        looks += 1;
        tokio::time::sleep(LOOK_EVERY).await;
    };
    let clients =
        Clients::local(&format!("http://{}", addresses.dynamo), &format!("http://{}", addresses.sqs));
    Ok(connected(clients, addresses.sqs, data, None))
}

/// The address of the registry page of the running stack that the options name.
pub(crate) fn page(options: &Options) -> Result<String, Failure> {
    if let Some(stack) = &options.stack {
        return Err(Failure::new(format!("the address of {stack} is its output ApiUrl; name it with --url")));
    }
    match running(&options.data)? {
        Some(addresses) if try_lock(&options.data)?.is_none() => Ok(format!("http://{}/", addresses.api)),
        Some(_) | None => Err(Failure::new(format!(
            "no stack is running on {}; `glassline local` starts one",
            options.data.display()
        ))),
    }
}

impl Connection {
    /// How many messages of a queue are visible, in flight and delayed.
    pub(crate) async fn depth(&self, queue: &str, url: &str) -> Result<[u64; 3], Failure> {
        glassline_aws::sqs::depth(&self.clients.sqs, url)
            .await
            .map_err(|why| Failure::new(format!("the queue {queue} can't be looked at: {why}")))
    }
}
