//! A served engine with a clock that stands still, and the SDK's client for it.

use std::net::SocketAddr;
use std::sync::Arc;

use aws_credential_types::Credentials;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::{BehaviorVersion, Region};
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::QueueAttributeName;
use glassline_sqs::{Engine, EngineOptions, ManualClock, QueueSettings, queue_url, serve};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// When the clock of every test starts.
pub(crate) const START_MS: u64 = 1_800_000_000_000;

pub(crate) struct Service {
    pub(crate) engine: Engine,
    pub(crate) clock: ManualClock,
    pub(crate) client: Client,
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

pub(crate) fn engine(clock: &ManualClock) -> Engine {
    let options = EngineOptions { clock: Arc::new(clock.clone()), ..EngineOptions::default() };
    Engine::open_with(None, options).unwrap()
}

pub(crate) fn client(address: SocketAddr) -> Client {
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .endpoint_url(format!("http://{address}"))
        .retry_config(RetryConfig::disabled())
        .build();
    Client::from_conf(config)
}

impl Service {
    pub(crate) async fn start() -> Self {
        let clock = ManualClock::new(START_MS);
        let engine = engine(&clock);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(serve(listener, engine.clone(), async move {
            let _ = stopped.await;
        }));
        Self { engine, clock, client: client(address), address, stop, served }
    }

    /// Stops the server and waits for it.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.served.await.unwrap().unwrap();
    }

    /// Creates a queue over HTTP; gives its URL.
    pub(crate) async fn create(&self, name: &str, attributes: &[(QueueAttributeName, &str)]) -> String {
        let mut request = self.client.create_queue().queue_name(name);
        for (name, value) in attributes {
            request = request.attributes(name.clone(), *value);
        }
        let url = request.send().await.unwrap().queue_url.unwrap();
        assert_eq!(url, queue_url(self.address, name));
        url
    }

    /// The bodies that one receive of up to ten messages gives.
    pub(crate) async fn receive_bodies(&self, queue: &str) -> Vec<String> {
        let messages = self.engine.receive(queue, 10, 0, None).await.unwrap();
        messages.into_iter().map(|message| message.body).collect()
    }
}

/// The SQS error code of a refused call.
pub(crate) fn code<T: std::fmt::Debug, E: ProvideErrorMetadata + std::fmt::Debug>(
    result: Result<T, SdkError<E>>,
) -> String {
    let error = result.expect_err("the call should be refused");
    error.code().unwrap_or_else(|| panic!("no code in {error:?}")).to_owned()
}

/// A FIFO queue's settings.
pub(crate) fn fifo() -> QueueSettings {
    QueueSettings { fifo: true, ..QueueSettings::default() }
}
