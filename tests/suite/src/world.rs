//! The engines and the adapters of one test.

use glassline_assets::{AllowedHost, AssetVault, Limits, StoreConfig, VaultConfig};
use glassline_aws::dynamo::{DynamoStore, create_table};
use glassline_aws::live::Live;
use glassline_aws::sqs::SqsQueues;
use glassline_protocol::ids::{JobKey, LaneName, Ms, Run, Token};
use glassline_protocol::intake::{Post, create_lane, parse_posts, submit_post};
use glassline_protocol::message::Queue;
use glassline_protocol::ports::{Local, Store};
use glassline_protocol::provider::Recovery;
use glassline_protocol::row::LaneRow;
use glassline_protocol::settings::Settings;
use glassline_protocol::sign::{Secret, Secrets};
use glassline_providers::{LaneConfig, Providers, ProvidersConfig, SandboxLane};
use glassline_sandbox::{AccountConfig, Sandbox, SandboxConfig};
use glassline_sqs::{
    Clock as _, Engine, EngineOptions, ManualClock, QueueSettings, Redrive, queue_url, serve,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::net::TcpListener;

/// Time and ids of a test: the clock moves when told, ids count up and differ between worlds' calls.
#[derive(Clone, Debug)]
pub struct TestClock {
    /// The clock, shared with the queues and the provider.
    pub manual: ManualClock,
    next: Arc<AtomicU64>,
}

impl Local for TestClock {
    fn now_ms(&self) -> Ms {
        self.manual.now_ms()
    }
    fn fresh_token(&self) -> Token {
        Token::new(format!("{:032x}", self.next.fetch_add(1, Ordering::Relaxed))).unwrap()
    }
    fn fresh_run(&self) -> Run {
        Run::new(format!("{:016x}", self.next.fetch_add(1, Ordering::Relaxed))).unwrap()
    }
}

/// The ports of a test.
pub type Ports = Live<Arc<Providers>, Arc<AssetVault>, TestClock>;

/// A lane of a test.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Its name.
    pub name: &'static str,
    /// Its row.
    pub row: LaneRow,
    /// What its provider offers after a lost submit.
    pub recovery: Recovery,
    /// How long a render takes, in milliseconds.
    pub render_ms: u64,
}

impl Lane {
    /// A lane whose provider takes a second.
    #[must_use]
    pub fn new(name: &'static str, capacity: u32, recovery: Recovery) -> Self {
        Self { name, row: LaneRow::new(lane_name(name), capacity), recovery, render_ms: 1_000 }
    }
}

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// Its lanes.
    pub lanes: Vec<Lane>,
    /// Times and limits.
    pub settings: Settings,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            lanes: vec![
                Lane::new("keyed", 2, Recovery::Key { lifetime_ms: 3_600_000 }),
                Lane::new("looked", 2, Recovery::Lookup { settle_ms: 60_000 }),
                Lane::new("blind", 2, Recovery::None),
            ],
            settings: Settings::default(),
        }
    }
}

/// A whole Glassline in one process.
pub struct World {
    /// The adapters.
    pub ports: Ports,
    /// Times and limits.
    pub settings: Settings,
    /// What signs handoffs.
    pub secrets: Secrets,
    /// The queues.
    pub engine: Engine,
    /// The provider.
    pub sandbox: Sandbox,
    /// DynamoDB.
    pub db: dynoxide::Database,
    /// The clock.
    pub clock: TestClock,
    /// The raw DynamoDB client, for looking and for setting the scene.
    pub dynamo: aws_sdk_dynamodb::Client,
    _storage: tempfile::TempDir,
}

/// Name of the table.
pub const TABLE: &str = "glassline";

/// A lane's name.
#[must_use]
pub fn lane_name(name: &str) -> LaneName {
    LaneName::new(name).unwrap()
}

/// A shot's key.
#[must_use]
pub fn job_key(post: &str, shot: &str) -> JobKey {
    format!("POST#{post}/SHOT#{shot}").parse().unwrap()
}

/// A post with shots s1, s2, …
#[must_use]
pub fn post(id: &str, lane: &str, shots: usize) -> Post {
    let shots: Vec<String> =
        (1..=shots).map(|n| format!(r#"{{"id":"s{n}","prompt":"shot {n} of {id}"}}"#)).collect();
    let text = format!(r#"{{"id":"{id}","lane":"{lane}","shots":[{}]}}"#, shots.join(","));
    parse_posts(&text).unwrap().remove(0).unwrap()
}

/// Its queues: name, dead-letter queue, FIFO.
const QUEUES: [(&str, Option<&str>, bool); 8] = [
    ("rollback-dlq", None, false),
    ("render-dlq", Some("rollback-dlq"), false),
    ("finish-dlq", Some("rollback-dlq"), false),
    ("render", Some("render-dlq"), false),
    ("finish", Some("finish-dlq"), false),
    ("rollback", Some("rollback-dlq"), false),
    ("wake", Some("rollback-dlq"), false),
    ("qa.fifo", None, true),
];

async fn queues(clock: &TestClock) -> (Engine, BTreeMap<Queue, String>, String) {
    let options = EngineOptions { clock: Arc::new(clock.manual.clone()), ..EngineOptions::default() };
    let engine = Engine::open_with(None, options).unwrap();
    for (name, dead_letters, fifo) in QUEUES {
        let redrive = dead_letters.map(|queue| Redrive { dead_letter_queue: queue.into(), max_receives: 5 });
        let settings = QueueSettings { visibility_ms: 30_000, fifo, redrive, ..QueueSettings::default() };
        engine.create_queue(name, settings).await.unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, engine.clone(), std::future::pending()));
    let urls = Queue::ALL
        .iter()
        .map(|queue| {
            let name = if *queue == Queue::Qa { "qa.fifo" } else { queue.name() };
            (*queue, queue_url(address, name))
        })
        .collect();
    (engine, urls, format!("http://{address}"))
}

fn credentials() -> aws_credential_types::Credentials {
    aws_credential_types::Credentials::new("test", "test", None, None, "test")
}

async fn database() -> (dynoxide::Database, aws_sdk_dynamodb::Client) {
    let db = dynoxide::Database::memory().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(dynoxide::server::serve_with_shutdown(listener, db.clone(), std::future::pending()));
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest())
        .region(aws_sdk_dynamodb::config::Region::new("us-east-1"))
        .credentials_provider(credentials())
        .endpoint_url(format!("http://{address}"))
        .build();
    let client = aws_sdk_dynamodb::Client::from_conf(config);
    create_table(&client, TABLE).await.unwrap();
    (db, client)
}

async fn provider(lanes: &[Lane], clock: &TestClock) -> (Sandbox, Providers) {
    let accounts = lanes.iter().map(|lane| AccountConfig {
        idempotency_keys: matches!(lane.recovery, Recovery::Key { .. }),
        lookup: matches!(lane.recovery, Recovery::Lookup { .. }),
        render_min_ms: lane.render_ms,
        render_max_ms: lane.render_ms,
        ..AccountConfig::new(lane.name, format!("key-of-{}", lane.name))
    });
    let manual = clock.manual.clone();
    let config = SandboxConfig {
        clock: Some(Arc::new(move || manual.now_ms())),
        ..SandboxConfig::new(accounts.collect())
    };
    let sandbox = Sandbox::start(config).await.unwrap();
    let configs = lanes.iter().map(|lane| {
        let key: glassline_providers::Secret =
            serde_json::from_value(format!("key-of-{}", lane.name).into()).unwrap();
        let lane_config = SandboxLane {
            poll_ms: 1_000,
            submit_timeout_ms: 5_000,
            ..SandboxLane::new(sandbox.url(), key, lane.recovery)
        };
        (lane_name(lane.name), LaneConfig::Sandbox(lane_config))
    });
    let providers = Providers::from_config(ProvidersConfig { lanes: configs.collect() }).unwrap();
    (sandbox, providers)
}

fn vault(lanes: &[Lane], sandbox: &Sandbox, root: &std::path::Path) -> AssetVault {
    let host = AllowedHost {
        host: "127.0.0.1".into(),
        port: Some(sandbox.address.port()),
        allow_http: true,
        allow_private: true,
    };
    AssetVault::new(VaultConfig {
        store: StoreConfig::Fs { root: root.to_owned() },
        lanes: lanes.iter().map(|lane| (lane_name(lane.name), vec![host.clone()])).collect(),
        limits: Limits::default(),
        temp_dir: None,
    })
    .unwrap()
}

impl World {
    /// Sets up everything, with its lanes created.
    pub async fn new(options: WorldOptions) -> Self {
        let clock = TestClock {
            manual: ManualClock::new(1_764_000_000_000),
            next: Arc::new(AtomicU64::new(0x1000_0000)),
        };
        let (engine, urls, sqs_endpoint) = queues(&clock).await;
        let (db, dynamo) = database().await;
        let (sandbox, providers) = provider(&options.lanes, &clock).await;
        let storage = tempfile::tempdir().unwrap();
        let vault = vault(&options.lanes, &sandbox, storage.path());
        let sqs = aws_sdk_sqs::Client::from_conf(
            aws_sdk_sqs::Config::builder()
                .behavior_version(aws_sdk_sqs::config::BehaviorVersion::latest())
                .region(aws_sdk_sqs::config::Region::new("us-east-1"))
                .credentials_provider(credentials())
                .endpoint_url(sqs_endpoint)
                .build(),
        );
        let ports = Live {
            store: DynamoStore::new(dynamo.clone(), TABLE),
            queues: SqsQueues::new(sqs, urls),
            provider: Arc::new(providers),
            vault: Arc::new(vault),
            local: clock.clone(),
        };
        for lane in &options.lanes {
            create_lane(&ports, lane.row.clone()).await.unwrap();
        }
        let secrets = Secrets { current: Secret::new("a secret for tests only").unwrap(), previous: None };
        Self {
            ports,
            settings: options.settings,
            secrets,
            engine,
            sandbox,
            db,
            clock,
            dynamo,
            _storage: storage,
        }
    }

    /// A second set of ports on the same engines, as another process has it.
    #[must_use]
    pub fn another(&self) -> Ports {
        self.ports.clone()
    }

    /// Now.
    #[must_use]
    pub fn now_ms(&self) -> Ms {
        self.clock.now_ms()
    }

    /// Submits a post.
    pub async fn submit(&self, post: &Post) {
        let lanes = self.ports.lanes().await.unwrap();
        submit_post(&self.ports, post, &lanes).await.unwrap();
    }
}
