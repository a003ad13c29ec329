//! What a local stack keeps: the table, the queues and the folder of outputs, with the servers that SDK clients talk to.

use dynoxide::Database;
use glassline_aws::config::Clients;
use glassline_aws::dynamo::create_table;
use glassline_protocol::message::Queue;
use glassline_sqs::{Engine, EngineOptions, QueueSettings, Redrive, SqsError, queue_url, serve};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Name of the table.
pub const TABLE: &str = "glassline";
/// Receives of a message before it goes to the dead letters.
const MAX_RECEIVES: u32 = 5;

/// A queue of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSpec {
    /// Its name.
    pub name: &'static str,
    /// Where its undeliverable messages go.
    pub dead_letters: Option<&'static str>,
    /// Whether it is FIFO.
    pub fifo: bool,
}

const fn queue(name: &'static str, dead_letters: Option<&'static str>) -> QueueSpec {
    QueueSpec { name, dead_letters, fifo: false }
}

/// Every queue, dead letters first. The dead letters of render and finish are read by the rollback function; what even
/// that can't handle waits for a person in `rollback-dlq`, undeliverable wakes in `wake-dlq`.
pub const QUEUES: [QueueSpec; 9] = [
    queue("rollback-dlq", None),
    queue("wake-dlq", None),
    queue("render-dlq", Some("rollback-dlq")),
    queue("finish-dlq", Some("rollback-dlq")),
    queue("render", Some("render-dlq")),
    queue("finish", Some("finish-dlq")),
    queue("rollback", Some("rollback-dlq")),
    queue("wake", Some("wake-dlq")),
    QueueSpec { name: "qa.fifo", dead_letters: None, fifo: true },
];

/// The SQS name of one of our queues.
#[must_use]
pub fn queue_name(queue: Queue) -> &'static str {
    match queue {
        Queue::Render => "render",
        Queue::Finish => "finish",
        Queue::Rollback => "rollback",
        Queue::Wake => "wake",
        Queue::Qa => "qa.fifo",
    }
}

/// Why the stores can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoresError {
    /// A folder.
    #[error("the folder {} can't be used: {source}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The table's file.
    #[error("the table in {place} can't be opened: {why}")]
    Table {
        /// Where it is.
        place: String,
        /// Why.
        why: String,
    },
    /// The queues' file.
    #[error("the queues can't be opened: {0}")]
    Queues(#[from] SqsError),
    /// A port.
    #[error("no loopback port can be opened: {0}")]
    Listen(std::io::Error),
}

/// The table and the queues, served on loopback. Dropping it stops the servers.
pub struct Stores {
    /// The queues, in process.
    pub engine: Engine,
    /// Where DynamoDB listens.
    pub dynamo: SocketAddr,
    /// Where SQS listens.
    pub sqs: SocketAddr,
    servers: Vec<JoinHandle<()>>,
}

impl Drop for Stores {
    fn drop(&mut self) {
        for server in &self.servers {
            server.abort();
        }
    }
}

async fn listen() -> Result<(TcpListener, SocketAddr), StoresError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(StoresError::Listen)?;
    let address = listener.local_addr().map_err(StoresError::Listen)?;
    Ok((listener, address))
}

impl Stores {
    /// Opens the stores in a folder, or in memory, and serves them. `visibility_ms` is the queues' visibility timeout.
    ///
    /// # Errors
    /// [`StoresError`]
    pub async fn open(folder: Option<&Path>, visibility_ms: u64) -> Result<Self, StoresError> {
        if let Some(path) = folder {
            std::fs::create_dir_all(path)
                .map_err(|source| StoresError::Folder { path: path.to_owned(), source })?;
        }
        let table_file = folder.map(|folder| folder.join("table.sqlite"));
        let place =
            table_file.as_ref().map_or_else(|| "memory".to_owned(), |path| path.display().to_string());
        let opened = match &table_file {
            Some(path) => Database::new(&path.to_string_lossy()),
            None => Database::memory(),
        };
        let table_error = |why: String| StoresError::Table { place: place.clone(), why };
        let database = opened.map_err(|error| table_error(error.to_string()))?;
        let queues_file = folder.map(|folder| folder.join("queues.sqlite"));
        let engine = Engine::open_with(queues_file.as_deref(), EngineOptions::default())?;
        for spec in QUEUES {
            let redrive = spec
                .dead_letters
                .map(|name| Redrive { dead_letter_queue: name.into(), max_receives: MAX_RECEIVES });
            let settings =
                QueueSettings { visibility_ms, fifo: spec.fifo, redrive, ..QueueSettings::default() };
            engine.create_queue(spec.name, settings).await?;
        }
        let ((dynamo_listener, dynamo), (sqs_listener, sqs)) = (listen().await?, listen().await?);
        let dynamo_server = tokio::spawn(async move {
            let served =
                dynoxide::server::serve_with_shutdown(dynamo_listener, database, std::future::pending());
            if let Err(error) = served.await {
                tracing::error!(event = "table_server", error = %error, "the table's server stopped");
            }
        });
        let served_engine = engine.clone();
        let sqs_server = tokio::spawn(async move {
            if let Err(error) = serve(sqs_listener, served_engine, std::future::pending()).await {
                tracing::error!(event = "queue_server", error = %error, "the queues' server stopped");
            }
        });
        let stores = Self { engine, dynamo, sqs, servers: vec![dynamo_server, sqs_server] };
        create_table(&stores.clients().dynamo, TABLE)
            .await
            .map_err(|error| table_error(error.to_string()))?;
        Ok(stores)
    }

    /// SDK clients for these stores.
    #[must_use]
    pub fn clients(&self) -> Clients {
        Clients::local(&format!("http://{}", self.dynamo), &format!("http://{}", self.sqs))
    }

    /// The queues' addresses.
    #[must_use]
    pub fn urls(&self) -> BTreeMap<Queue, String> {
        queue_urls(self.sqs)
    }
}

/// The addresses of our queues at an SQS endpoint of the local stack.
#[must_use]
pub fn queue_urls(sqs: SocketAddr) -> BTreeMap<Queue, String> {
    Queue::ALL.iter().map(|queue| (*queue, queue_url(sqs, queue_name(*queue)))).collect()
}

/// The dead-letter queues at an SQS endpoint of the local stack: name and address.
#[must_use]
pub fn dead_letters(sqs: SocketAddr) -> BTreeMap<String, String> {
    let named: std::collections::BTreeSet<&str> =
        QUEUES.iter().filter_map(|spec| spec.dead_letters).collect();
    named.into_iter().map(|name| (name.to_owned(), queue_url(sqs, name))).collect()
}
