//! The engines and the adapters of one test.

use aws_sdk_dynamodb::types::{StreamSpecification, StreamViewType};
use futures_util::FutureExt as _;
use futures_util::future::Shared;
use glassline_assets::{AllowedHost, AssetVault, Limits, S3Keys, StoreConfig, VaultConfig};
use glassline_aws::dynamo::{DynamoStore, create_table};
use glassline_aws::live::Live;
use glassline_aws::sqs::SqsQueues;
use glassline_protocol::ids::{JobKey, LaneName, Ms, Run, Token};
use glassline_protocol::intake::{Post, create_lane, parse_posts, submit_post};
use glassline_protocol::message::{Message, Queue};
use glassline_protocol::ports::{Local, Store};
use glassline_protocol::provider::Recovery;
use glassline_protocol::row::LaneRow;
use glassline_protocol::settings::Settings;
use glassline_protocol::sign::{Secret, Secrets};
use glassline_providers::{LaneConfig, Providers, ProvidersConfig, SandboxLane};
use glassline_sandbox::{AccountConfig, FaultRule, Sandbox, SandboxConfig};
use glassline_sqs::{
    Clock as _, Engine, EngineOptions, ManualClock, QueueSettings, Redrive, queue_url, serve,
};
use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

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
    fn random_below(&self, bound: u64) -> u64 {
        glassline_aws::local::SystemLocal.random_below(bound)
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
    /// Whether its tasks are polled; else the provider calls back, which is the test's part.
    pub polled: bool,
    /// How long a render takes, in milliseconds.
    pub render_ms: u64,
    /// How long a render may take before it is cancelled, in milliseconds.
    pub deadline_ms: u64,
    /// How many renders its provider runs at once; one more is refused with 429.
    pub max_concurrent: Option<u32>,
    /// How long after a submit its provider's lookup finds it, in milliseconds.
    pub lookup_delay_ms: u64,
    /// How long an output is kept, in milliseconds.
    pub output_lifetime_ms: u64,
    /// How long one address of an output works, in milliseconds.
    pub address_lifetime_ms: Option<u64>,
}

impl Lane {
    /// A lane whose provider takes a second.
    #[must_use]
    pub fn new(name: &'static str, capacity: u32, recovery: Recovery) -> Self {
        Self {
            name,
            row: LaneRow::new(lane_name(name), capacity),
            recovery,
            polled: true,
            render_ms: 1_000,
            deadline_ms: 900_000,
            max_concurrent: None,
            lookup_delay_ms: 0,
            output_lifetime_ms: 24 * 3_600_000,
            address_lifetime_ms: None,
        }
    }

    /// `keyed`: a lane whose provider takes idempotency keys, for an hour.
    #[must_use]
    pub fn keyed(capacity: u32) -> Self {
        Self::new("keyed", capacity, Recovery::Key { lifetime_ms: 3_600_000 })
    }

    /// `looked`: a lane whose provider finds a render by our reference; a negative answer counts after a minute.
    #[must_use]
    pub fn looked(capacity: u32) -> Self {
        Self::new("looked", capacity, Recovery::Lookup { settle_ms: 60_000 })
    }

    /// `blind`: a lane whose provider offers nothing after a lost submit.
    #[must_use]
    pub fn blind(capacity: u32) -> Self {
        Self::new("blind", capacity, Recovery::None)
    }

    /// A lane by its name, of those three.
    #[must_use]
    pub fn named(name: &str, capacity: u32) -> Self {
        match name {
            "keyed" => Self::keyed(capacity),
            "looked" => Self::looked(capacity),
            "blind" => Self::blind(capacity),
            other => panic!("no lane is called {other}"),
        }
    }
}

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// Its lanes.
    pub lanes: Vec<Lane>,
    /// Times and limits.
    pub settings: Settings,
    /// Whether outputs are stored in a bucket of S3; else in a folder.
    pub bucket: bool,
}

impl Default for WorldOptions {
    fn default() -> Self {
        let lanes = vec![Lane::keyed(2), Lane::looked(2), Lane::blind(2)];
        Self { lanes, settings: Settings::default(), bucket: false }
    }
}

impl WorldOptions {
    /// A world with one lane.
    #[must_use]
    pub fn one(lane: Lane) -> Self {
        Self { lanes: vec![lane], ..Self::default() }
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
    pub sandbox: Arc<Sandbox>,
    /// DynamoDB.
    pub db: dynoxide::Database,
    /// The clock.
    pub clock: TestClock,
    /// The raw DynamoDB client, for looking and for setting the scene.
    pub dynamo: aws_sdk_dynamodb::Client,
    /// The store as a test looks at it: what that reads isn't counted as the handlers'.
    pub look: DynamoStore,
    /// Every message that was delivered, in order.
    pub delivered: Mutex<Vec<Message>>,
    lanes: Vec<Lane>,
    outside: Outside,
    _open: oneshot::Sender<()>,
}

/// What lies outside of Glassline, and the adapters to it. It takes long to set up, so worlds may share it one after the
/// other, with posts of their own.
#[derive(Clone)]
struct Outside {
    clock: TestClock,
    sandbox: Arc<Sandbox>,
    providers: Arc<Providers>,
    vault: Arc<AssetVault>,
    bucket: Option<Arc<glassline_s3::Server>>,
    _storage: Arc<tempfile::TempDir>,
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

/// A post with shots s1, s2, …, small pictures.
#[must_use]
pub fn post(id: &str, lane: &str, shots: usize) -> Post {
    let shots: Vec<String> = (1..=shots)
        .map(|n| {
            format!(r#"{{"id":"s{n}","prompt":"shot {n} of {id}","params":{{"width":64,"height":64}}}}"#)
        })
        .collect();
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

/// A listener on a free port, and when its server is to stop.
async fn listen(stop: &Stop) -> (TcpListener, SocketAddr, impl Future<Output = ()> + Send + 'static) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = stop.clone();
    (listener, address, stop)
}

type Stop = Shared<futures_util::future::BoxFuture<'static, ()>>;

async fn queues(clock: &TestClock, stop: &Stop) -> (Engine, BTreeMap<Queue, String>, String) {
    let options = EngineOptions { clock: Arc::new(clock.manual.clone()), ..EngineOptions::default() };
    let engine = Engine::open_with(None, options).unwrap();
    for (name, dead_letters, fifo) in QUEUES {
        let redrive = dead_letters.map(|queue| Redrive { dead_letter_queue: queue.into(), max_receives: 5 });
        let settings = QueueSettings { visibility_ms: 30_000, fifo, redrive, ..QueueSettings::default() };
        engine.create_queue(name, settings).await.unwrap();
    }
    let (listener, address, stop) = listen(stop).await;
    tokio::spawn(serve(listener, engine.clone(), stop));
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

/// The SDK's own HTTP client, but for reading the system's certificates, which takes longer than many a test.
fn http_client() -> aws_sdk_dynamodb::config::SharedHttpClient {
    aws_smithy_http_client::Builder::new().build_http()
}

async fn database(stop: &Stop) -> (dynoxide::Database, aws_sdk_dynamodb::Client) {
    let db = dynoxide::Database::memory().unwrap();
    let (listener, address, stop) = listen(stop).await;
    tokio::spawn(dynoxide::server::serve_with_shutdown(listener, db.clone(), stop));
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest())
        .region(aws_sdk_dynamodb::config::Region::new("us-east-1"))
        .credentials_provider(credentials())
        .http_client(http_client())
        .endpoint_url(format!("http://{address}"))
        .build();
    let client = aws_sdk_dynamodb::Client::from_conf(config);
    create_table(&client, TABLE).await.unwrap();
    // For `World::check_history`.
    let stream = StreamSpecification::builder().stream_enabled(true);
    let stream = stream.stream_view_type(StreamViewType::NewAndOldImages).build().unwrap();
    client.update_table().table_name(TABLE).stream_specification(stream).send().await.unwrap();
    (db, client)
}

async fn provider(lanes: &[Lane], clock: &TestClock) -> (Sandbox, Providers) {
    let accounts = lanes.iter().map(|lane| AccountConfig {
        idempotency_keys: matches!(lane.recovery, Recovery::Key { .. }),
        lookup: matches!(lane.recovery, Recovery::Lookup { .. }),
        lookup_delay_ms: lane.lookup_delay_ms,
        callbacks: false,
        render_min_ms: lane.render_ms,
        render_max_ms: lane.render_ms,
        max_concurrent: lane.max_concurrent,
        output_lifetime_ms: lane.output_lifetime_ms,
        address_lifetime_ms: lane.address_lifetime_ms,
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
        let called = !lane.polled || matches!(lane.recovery, Recovery::Callback { .. });
        let lane_config = SandboxLane {
            polled: lane.polled,
            callback_url: called.then(|| "https://glassline.example/callback".to_owned()),
            poll_ms: 1_000,
            submit_timeout_ms: 5_000,
            deadline_ms: lane.deadline_ms,
            ..SandboxLane::new(sandbox.url(), key, lane.recovery)
        };
        (lane_name(lane.name), LaneConfig::Sandbox(lane_config))
    });
    let providers = Providers::from_config(ProvidersConfig { lanes: configs.collect() }).unwrap();
    (sandbox, providers)
}

/// The bucket of a test.
const BUCKET: &str = "assets";

fn vault(lanes: &[Lane], sandbox: &Sandbox, store: StoreConfig) -> AssetVault {
    let host = AllowedHost {
        host: "127.0.0.1".into(),
        port: Some(sandbox.address.port()),
        allow_http: true,
        allow_private: true,
    };
    AssetVault::new(VaultConfig {
        store,
        lanes: lanes.iter().map(|lane| (lane_name(lane.name), vec![host.clone()])).collect(),
        limits: Limits::default(),
        temp_dir: None,
    })
    .unwrap()
}

impl Outside {
    async fn new(lanes: &[Lane], bucket: bool) -> Self {
        let clock = TestClock {
            manual: ManualClock::new(1_764_000_000_000),
            next: Arc::new(AtomicU64::new(0x1000_0000)),
        };
        let (sandbox, providers) = provider(lanes, &clock).await;
        let storage = tempfile::tempdir().unwrap();
        let bucket = match bucket {
            true => Some(Arc::new(glassline_s3::Server::start(storage.path(), BUCKET).await.unwrap())),
            false => None,
        };
        let store = match &bucket {
            Some(server) => StoreConfig::S3 {
                bucket: BUCKET.into(),
                region: "us-east-1".into(),
                endpoint: Some(server.endpoint().into()),
                keys: Some(S3Keys { id: glassline_s3::KEY_ID.into(), secret: glassline_s3::SECRET.into() }),
            },
            None => StoreConfig::Fs { root: storage.path().to_owned() },
        };
        let vault = vault(lanes, &sandbox, store);
        Self {
            clock,
            sandbox: Arc::new(sandbox),
            providers: Arc::new(providers),
            vault: Arc::new(vault),
            bucket,
            _storage: Arc::new(storage),
        }
    }
}

impl World {
    /// Sets up everything, with its lanes created.
    pub async fn new(options: WorldOptions) -> Self {
        let outside = Outside::new(&options.lanes, options.bucket).await;
        Self::inside(outside, options).await
    }

    /// A world with a new table and new queues around the same provider, storage and clock.
    pub async fn again(&self) -> Self {
        let bucket = self.outside.bucket.is_some();
        let options = WorldOptions { lanes: self.lanes.clone(), settings: self.settings.clone(), bucket };
        Self::inside(self.outside.clone(), options).await
    }

    async fn inside(outside: Outside, options: WorldOptions) -> Self {
        let WorldOptions { lanes, settings, bucket: _ } = options;
        let (open, closed) = oneshot::channel::<()>();
        let stop: Stop = async move { closed.await.unwrap_or_default() }.boxed().shared();
        let (engine, urls, sqs_endpoint) = queues(&outside.clock, &stop).await;
        let (db, dynamo) = database(&stop).await;
        let sqs = aws_sdk_sqs::Client::from_conf(
            aws_sdk_sqs::Config::builder()
                .behavior_version(aws_sdk_sqs::config::BehaviorVersion::latest())
                .region(aws_sdk_sqs::config::Region::new("us-east-1"))
                .credentials_provider(credentials())
                .http_client(http_client())
                .endpoint_url(sqs_endpoint)
                .build(),
        );
        let ports = Live {
            store: DynamoStore::new(dynamo.clone(), TABLE),
            queues: SqsQueues::new(sqs, urls),
            provider: Arc::clone(&outside.providers),
            vault: Arc::clone(&outside.vault),
            local: outside.clock.clone(),
        };
        for lane in &lanes {
            create_lane(&ports, lane.row.clone()).await.unwrap();
        }
        Self {
            ports,
            settings,
            secrets: Secrets { current: Secret::new("a secret for tests only").unwrap(), previous: None },
            engine,
            sandbox: Arc::clone(&outside.sandbox),
            db,
            clock: outside.clock.clone(),
            look: DynamoStore::new(dynamo.clone(), TABLE),
            dynamo,
            delivered: Mutex::default(),
            lanes,
            outside,
            _open: open,
        }
    }

    /// The bucket that outputs are stored in, if they are.
    #[must_use]
    pub fn bucket(&self) -> Option<&glassline_s3::Server> {
        self.outside.bucket.as_deref()
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

    /// What the provider does wrong from now on.
    pub fn provider_faults(&self, rules: Vec<FaultRule>) {
        self.sandbox.set_faults(rules).unwrap();
    }
}
