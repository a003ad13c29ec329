//! What the server knows, and the decision on one POST.
#![allow(
    clippy::disallowed_methods,
    reason = "the sandbox is another party: its clock and its ids are its own"
)]

use crate::answer::Refusal;
use crate::books::{Books, BooksView, Ending, Render, RenderState};
use crate::config::{AccountConfig, Clock, SandboxConfig};
use crate::faults::{self, FaultKind, Faults};
use crate::journal::{Journal, Line};
use crate::request::RenderCall;
use axum::http::StatusCode;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::watch;

/// Shared by all handlers.
pub(crate) struct Shared {
    pub(crate) config: SandboxConfig,
    /// The server's own address, `http://127.0.0.1:PORT`.
    pub(crate) url: String,
    pub(crate) client: reqwest::Client,
    stopped: watch::Sender<bool>,
    accounts: HashMap<String, Arc<AccountConfig>>,
    clock: Clock,
    inner: Mutex<Inner>,
}

/// What changes.
pub(crate) struct Inner {
    pub(crate) books: Books,
    pub(crate) faults: Faults,
    journal: Journal,
}

/// What became of a POST.
pub(crate) enum Posted {
    /// Entered in the books.
    Accepted { id: String, accepted_ms: u64, answer: AnswerFaults },
    /// An earlier render has this key.
    Replayed { id: String, state: RenderState, answer: AnswerFaults },
    /// Not accepted.
    Refused(Refusal),
    /// Not accepted, and nothing is said.
    Dropped,
}

/// What is to happen to the answer of an accepted POST.
#[derive(Clone, Copy)]
pub(crate) struct AnswerFaults {
    pub(crate) slow_ms: Option<u64>,
    pub(crate) dropped: bool,
    pub(crate) error: bool,
}

impl Shared {
    pub(crate) fn new(
        config: SandboxConfig,
        url: String,
        client: reqwest::Client,
        stopped: watch::Sender<bool>,
        (journal, books): (Journal, Books),
    ) -> Self {
        let mut faults = Faults::default();
        faults.set(config.faults.clone());
        let by_key = |account: &AccountConfig| (account.api_key.clone(), Arc::new(account.clone()));
        let accounts = config.accounts.iter().map(by_key).collect();
        let clock = config.clock.clone().unwrap_or_else(|| Arc::new(epoch_ms));
        let inner = Mutex::new(Inner { books, faults, journal });
        Self { config, url, client, stopped, accounts, clock, inner }
    }

    /// Ends connections and callbacks, accepts nothing any more and lets go of the books file.
    pub(crate) fn stop(&self) {
        self.stopped.send_replace(true);
        self.lock().journal.close();
    }

    /// Told when the server stops.
    pub(crate) fn stopped(&self) -> watch::Receiver<bool> {
        self.stopped.subscribe()
    }

    pub(crate) fn now_ms(&self) -> u64 {
        (self.clock)()
    }

    /// The books and rules. A panic elsewhere can't leave them half changed in a way that matters here.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The account of a bearer key.
    pub(crate) fn account(&self, api_key: &str) -> Option<Arc<AccountConfig>> {
        self.accounts.get(api_key).cloned()
    }

    /// The account with a name.
    pub(crate) fn account_named(&self, name: &str) -> Option<Arc<AccountConfig>> {
        self.accounts.values().find(|account| account.name == name).cloned()
    }

    pub(crate) fn books(&self) -> BooksView {
        let inner = self.lock();
        inner.books.view(self.now_ms(), inner.faults.view().fired)
    }

    /// Decides on a POST and, if it is accepted, enters it in the books, on disk first.
    pub(crate) fn post(&self, account: &AccountConfig, key: Option<String>, call: RenderCall) -> Posted {
        let mut inner = self.lock();
        let now_ms = self.now_ms();
        let reference = call.reference.clone();
        if let Some(posted) = inner.fault_before(account, &reference) {
            return posted;
        }
        let key = key.filter(|_| account.idempotency_keys);
        if let Some(key) = &key
            && let Some(first) = inner.books.by_key(&account.name, key)
            && now_ms.saturating_sub(first.accepted_ms) < account.key_lifetime_ms
        {
            if first.fingerprint != call.fingerprint {
                let message = "this idempotency key was used with another body";
                let status = StatusCode::UNPROCESSABLE_ENTITY;
                return inner.refuse(Refusal::new(status, "idempotency_mismatch", message));
            }
            let (id, state) = (first.id.clone(), first.state(now_ms));
            inner.books.replays += 1;
            let answer = inner.answer_faults(account, &reference);
            return Posted::Replayed { id, state, answer };
        }
        let running = inner.books.running(&account.name, now_ms);
        if account.max_concurrent.is_some_and(|most| running >= most as usize) {
            return inner.refuse(Refusal::throttled(1));
        }
        let Some(id) = fresh_id() else { return inner.refuse(Refusal::internal()) };
        let ending = inner.ending(account, &reference);
        let render = Render {
            id: id.clone(),
            account: account.name.clone(),
            finish_ms: now_ms + render_ms(account, self.config.seed, &reference),
            reference,
            key,
            fingerprint: call.fingerprint,
            media: call.media,
            seed: call.seed,
            width_px: call.width_px,
            height_px: call.height_px,
            accepted_ms: now_ms,
            ending,
            callback_url: call.callback_url.filter(|_| account.callbacks),
            cancelled_ms: None,
            callbacks_sent: 0,
            called_back: false,
        };
        let reference = render.reference.clone();
        if let Err(fault) = inner.journal.write(&Line::Accept { render: Box::new(render.clone()) }) {
            tracing::error!(event = "sandbox_books_not_written", kind = ?fault.kind());
            return inner.refuse(Refusal::internal());
        }
        inner.books.enter(render);
        let answer = inner.answer_faults(account, &reference);
        Posted::Accepted { id, accepted_ms: now_ms, answer }
    }
}

impl Inner {
    fn refuse(&mut self, refusal: Refusal) -> Posted {
        self.books.reject(refusal.code);
        Posted::Refused(refusal)
    }

    fn fault_before(&mut self, account: &AccountConfig, reference: &str) -> Option<Posted> {
        let (fault, value) = self.faults.fire(&account.name, reference, faults::BEFORE_ACCEPT)?;
        let refusal = match fault {
            FaultKind::DropRequest => return Some(Posted::Dropped),
            FaultKind::RejectThrottled => Refusal::throttled(value.unwrap_or(1)),
            FaultKind::RejectModeration => Refusal::moderated(),
            FaultKind::RejectPayment => Refusal::unpaid(),
            FaultKind::RejectUnauthorized => Refusal::unauthorized(),
            FaultKind::RejectInvalid => Refusal::invalid("params", "the model doesn't support them"),
            FaultKind::ErrorBefore
            | FaultKind::SlowAnswerMs
            | FaultKind::DropAnswer
            | FaultKind::ErrorAfter
            | FaultKind::NeverFinish
            | FaultKind::FailRender
            | FaultKind::FailModeration
            | FaultKind::UnknownStatusWord
            | FaultKind::CancelIgnored
            | FaultKind::TruncatedOutput
            | FaultKind::HtmlOutput
            | FaultKind::EmptyOutput
            | FaultKind::OutputGone
            | FaultKind::DuplicateCallbacks => Refusal::internal(),
        };
        Some(self.refuse(refusal))
    }

    fn ending(&mut self, account: &AccountConfig, reference: &str) -> Ending {
        match self.faults.fire(&account.name, reference, faults::ENDINGS) {
            Some((FaultKind::NeverFinish, _)) => Ending::Never,
            Some((FaultKind::FailRender, _)) => Ending::Fails,
            Some((FaultKind::FailModeration, _)) => Ending::Moderated,
            Some(_) | None => Ending::Succeeds,
        }
    }

    fn answer_faults(&mut self, account: &AccountConfig, reference: &str) -> AnswerFaults {
        let slow = self.faults.fire(&account.name, reference, &[FaultKind::SlowAnswerMs]);
        let fault = self.faults.fire(&account.name, reference, faults::AFTER_ACCEPT);
        AnswerFaults {
            slow_ms: slow.map(|(_, value)| value.unwrap_or(1_000)),
            dropped: matches!(fault, Some((FaultKind::DropAnswer, _))),
            error: matches!(fault, Some((FaultKind::ErrorAfter, _))),
        }
    }

    /// Cancels a render that has not ended; `false` when that could not be put on disk.
    pub(crate) fn cancel(&mut self, id: &str, now_ms: u64) -> bool {
        if self.journal.write(&Line::Cancel { id: id.to_owned(), at_ms: now_ms }).is_err() {
            return false;
        }
        if let Some(render) = self.books.any_mut(id) {
            render.cancelled_ms = Some(now_ms);
        }
        true
    }

    /// No callback is owed for this render any more. If that can't be put on disk, a restart sends it again.
    pub(crate) fn called_back(&mut self, id: &str) {
        let _ = self.journal.write(&Line::Called { id: id.to_owned() });
        if let Some(render) = self.books.any_mut(id) {
            render.called_back = true;
        }
    }
}

/// The time of the system, in milliseconds since the epoch.
fn epoch_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn fresh_id() -> Option<String> {
    let mut bytes = [0u8; 12];
    getrandom::fill(&mut bytes).ok()?;
    Some(format!("rnd_{}", hex::encode(bytes)))
}

/// How long a render takes: the same for the same seed and reference.
fn render_ms(account: &AccountConfig, seed: u64, reference: &str) -> u64 {
    let digest = Sha256::digest(format!("time/{seed}/{reference}").as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[..8]);
    account.render_min_ms + u64::from_be_bytes(bytes) % (account.render_max_ms - account.render_min_ms + 1)
}
