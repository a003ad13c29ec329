//! A render provider with books of its own and faults on demand, for tests and the local stack.
//!
//! It speaks HTTP on the loopback interface like a vendor does, draws a real picture for every prompt, and writes down
//! every render that it accepted, so that a test can ask the provider itself what was paid for. What goes wrong, and for
//! which references, is told by fault rules and counted.
//!
//! | call | what it does |
//! | --- | --- |
//! | `POST /v1/renders` | bearer key; `{prompt, params, media, reference, callback_url?}`; header `Idempotency-Key`; 201 `{id, status}`, or 200 for a repeat under the same key |
//! | `GET /v1/renders/{id}` | `{id, reference, status, created_ms, ended_ms?, outputs?, error?}`; status queued, running, succeeded, failed, cancelled |
//! | `GET /v1/renders?reference=` | `{renders: [...]}`, oldest first |
//! | `POST /v1/renders/{id}/cancel` | 200 `{id, status}`, or 409 `already_ended` |
//! | `GET /v1/outputs/{id}?expires&signature` | the bytes; 403 `bad_signature`, 410 `output_gone` |
//! | `GET /books`, `GET /faults`, `PUT /faults` | for tests, without a key: [`BooksView`], [`FaultsView`], `{rules: [FaultRule]}` |
//!
//! Refusals of a POST that prove that nothing was accepted: 400 `invalid_request`, 400 `content_moderated`, 401
//! `unauthorized`, 402 `payment_required`, 413 `payload_too_large`, 429 `rate_limited`. 422 `idempotency_mismatch` means
//! that the key is taken by another body: this POST started nothing, an earlier one did.

mod answer;
mod books;
mod callback;
mod config;
mod faults;
mod http;
mod journal;
mod line;
mod output;
mod picture;
mod request;
mod state;

pub use books::{BookEntry, BookTotals, BooksView, OutputKind, RenderState};
pub use callback::{SIGNATURE_HEADER, TIMESTAMP_HEADER, sign_callback};
pub use config::{AcceptEvent, AcceptHook, AccountConfig, Clock, ConfigError, SandboxConfig};
pub use faults::{FaultKind, FaultRule, FaultsView, check_rules};
pub use journal::JournalError;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A running sandbox. Dropping it stops the server, closes its connections and lets go of the books file; what was
/// accepted stays accepted there.
pub struct Sandbox {
    /// Where it listens.
    pub address: SocketAddr,
    /// The server's task; aborted when the sandbox is dropped.
    pub handle: JoinHandle<()>,
    shared: Arc<state::Shared>,
}

/// A sandbox that can't start.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The books on disk.
    #[error(transparent)]
    Books(#[from] JournalError),
    /// The port.
    #[error("the sandbox can't listen on 127.0.0.1:{port}: {source}; give another port, or 0 for a free one")]
    Listen {
        /// Which.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// The client for callbacks.
    #[error("the sandbox can't set up its HTTP client: {0}; check the system's certificates")]
    Client(reqwest::Error),
}

impl Sandbox {
    /// Starts a sandbox on the loopback interface. It answers when this returns.
    ///
    /// # Errors
    /// [`SandboxError`] when the configuration, the books file or the port can't be used.
    pub async fn start(config: SandboxConfig) -> Result<Self, SandboxError> {
        config.check()?;
        let port = config.port;
        let listen = |source| SandboxError::Listen { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let kept = match &config.books_file {
            Some(path) => journal::Journal::open(path)?,
            None => Default::default(),
        };
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(Duration::from_secs(10))
            .no_proxy()
            .build()
            .map_err(SandboxError::Client)?;
        let owing = kept.1.owing();
        let url = format!("http://{address}");
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(state::Shared::new(config, url, client, stop, kept));
        for id in owing {
            callback::schedule(&shared, id);
        }
        let service = http::router(Arc::clone(&shared)).into_make_service_with_connect_info::<line::Line>();
        let lines = line::Lines { tcp: listener, stopped };
        let handle = tokio::spawn(async move {
            // It only ends by being aborted: this listener never fails for good.
            let _ = axum::serve(lines, service).await;
        });
        Ok(Self { address, handle, shared })
    }

    /// Its address as clients are told it, `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        self.shared.url.clone()
    }

    /// The books now.
    #[must_use]
    pub fn books(&self) -> BooksView {
        self.shared.books()
    }

    /// The rules in force and what was done.
    #[must_use]
    pub fn faults(&self) -> FaultsView {
        self.shared.lock().faults.view()
    }

    /// Replaces the fault rules; the counts stay.
    ///
    /// # Errors
    /// [`ConfigError::Fault`] names the first rule that can't be used; then nothing is changed.
    pub fn set_faults(&self, rules: Vec<FaultRule>) -> Result<(), ConfigError> {
        check_rules(&rules)?;
        self.shared.lock().faults.set(rules);
        Ok(())
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.handle.abort();
        self.shared.stop();
    }
}
