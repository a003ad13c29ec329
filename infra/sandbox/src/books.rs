//! The books: every render that was ever accepted, and the views of them.

use crate::faults::FaultKind;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The kind of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputKind {
    /// A PNG, drawn for the prompt.
    Image,
    /// An MP4 of two seconds.
    Video,
}

/// Where a render stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RenderState {
    /// Accepted, not begun.
    Queued,
    /// Begun.
    Running,
    /// Ended with an output.
    Succeeded,
    /// Ended without.
    Failed,
    /// Ended on request.
    Cancelled,
}

impl RenderState {
    /// Whether nothing more will happen.
    #[must_use]
    pub const fn ended(self) -> bool {
        match self {
            Self::Queued | Self::Running => false,
            Self::Succeeded | Self::Failed | Self::Cancelled => true,
        }
    }

    /// Its word in answers.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// How a render will end if nobody cancels it; decided when it is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ending {
    Succeeds,
    Fails,
    Moderated,
    Never,
}

/// An accepted render. The prompt itself isn't kept: its seed is all that the picture needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Render {
    pub(crate) id: String,
    pub(crate) account: String,
    pub(crate) reference: String,
    pub(crate) key: Option<String>,
    /// SHA-256 of the canonical request, to tell a repeat from another request under the same key.
    pub(crate) fingerprint: String,
    pub(crate) media: OutputKind,
    pub(crate) seed: u64,
    pub(crate) width_px: u32,
    pub(crate) height_px: u32,
    pub(crate) accepted_ms: u64,
    pub(crate) finish_ms: u64,
    pub(crate) ending: Ending,
    pub(crate) callback_url: Option<String>,
    #[serde(skip)]
    pub(crate) cancelled_ms: Option<u64>,
    #[serde(skip)]
    pub(crate) callbacks_sent: u32,
    /// No callback is owed any more: delivered, or given up.
    #[serde(skip)]
    pub(crate) called_back: bool,
}

impl Render {
    /// Its state at a time.
    pub(crate) fn state(&self, now_ms: u64) -> RenderState {
        if self.cancelled_ms.is_some() {
            return RenderState::Cancelled;
        }
        let begins_ms = self.accepted_ms + self.finish_ms.saturating_sub(self.accepted_ms) / 4;
        if now_ms < self.finish_ms || self.ending == Ending::Never {
            return if now_ms < begins_ms { RenderState::Queued } else { RenderState::Running };
        }
        match self.ending {
            Ending::Succeeds => RenderState::Succeeded,
            Ending::Fails | Ending::Moderated => RenderState::Failed,
            Ending::Never => RenderState::Running,
        }
    }
}

/// The renders, found by id, by key and by reference.
#[derive(Debug, Default)]
pub(crate) struct Books {
    renders: Vec<Render>,
    by_id: HashMap<String, usize>,
    by_key: HashMap<(String, String), usize>,
    by_reference: HashMap<(String, String), Vec<usize>>,
    open: HashMap<String, Vec<usize>>,
    pub(crate) posts: u64,
    pub(crate) replays: u64,
    pub(crate) rejected: BTreeMap<String, u64>,
}

impl Books {
    /// Enters a render.
    pub(crate) fn enter(&mut self, render: Render) {
        let index = self.renders.len();
        let account = render.account.clone();
        self.by_id.insert(render.id.clone(), index);
        if let Some(key) = &render.key {
            self.by_key.insert((account.clone(), key.clone()), index);
        }
        self.by_reference.entry((account.clone(), render.reference.clone())).or_default().push(index);
        self.open.entry(account).or_default().push(index);
        self.renders.push(render);
    }

    /// A render of an account.
    pub(crate) fn get(&self, account: &str, id: &str) -> Option<&Render> {
        self.by_id.get(id).map(|index| &self.renders[*index]).filter(|render| render.account == account)
    }

    /// Any account's render.
    pub(crate) fn any(&self, id: &str) -> Option<&Render> {
        self.by_id.get(id).map(|index| &self.renders[*index])
    }

    /// Any account's render, to change it.
    pub(crate) fn any_mut(&mut self, id: &str) -> Option<&mut Render> {
        self.by_id.get(id).map(|index| &mut self.renders[*index])
    }

    /// The latest render under a key.
    pub(crate) fn by_key(&self, account: &str, key: &str) -> Option<&Render> {
        self.by_key.get(&(account.to_owned(), key.to_owned())).map(|index| &self.renders[*index])
    }

    /// The renders with a reference, oldest first.
    pub(crate) fn by_reference(&self, account: &str, reference: &str) -> Vec<&Render> {
        let found = self.by_reference.get(&(account.to_owned(), reference.to_owned()));
        found.into_iter().flatten().map(|index| &self.renders[*index]).collect()
    }

    /// How many renders of an account have not ended.
    pub(crate) fn running(&mut self, account: &str, now_ms: u64) -> usize {
        let renders = &self.renders;
        let Some(open) = self.open.get_mut(account) else { return 0 };
        open.retain(|index| !renders[*index].state(now_ms).ended());
        open.len()
    }

    /// The ids of the renders that still owe a callback.
    pub(crate) fn owing(&self) -> Vec<String> {
        let owing = |render: &&Render| render.callback_url.is_some() && !render.called_back;
        self.renders.iter().filter(owing).map(|render| render.id.clone()).collect()
    }

    /// Counts a refusal.
    pub(crate) fn reject(&mut self, code: &str) {
        *self.rejected.entry(code.to_owned()).or_default() += 1;
    }

    /// What `GET /books` shows.
    pub(crate) fn view(&self, now_ms: u64, faults: BTreeMap<FaultKind, u64>) -> BooksView {
        let mut totals = BookTotals { posts: self.posts, replays: self.replays, ..BookTotals::default() };
        let mut references = HashSet::new();
        let mut renders = Vec::with_capacity(self.renders.len());
        for render in &self.renders {
            let state = render.state(now_ms);
            totals.accepted += 1;
            match state {
                RenderState::Queued | RenderState::Running => totals.running += 1,
                RenderState::Succeeded => totals.succeeded += 1,
                RenderState::Failed => totals.failed += 1,
                RenderState::Cancelled => totals.cancelled += 1,
            }
            references.insert((&render.account, &render.reference));
            renders.push(BookEntry {
                id: render.id.clone(),
                account: render.account.clone(),
                reference: render.reference.clone(),
                accepted_ms: render.accepted_ms,
                state,
                media: render.media,
                idempotency_key: render.key.clone(),
                callbacks_sent: render.callbacks_sent,
            });
        }
        totals.references = references.len() as u64;
        totals.paid_again = totals.accepted - totals.references;
        BooksView { renders, totals, rejected: self.rejected.clone(), faults }
    }
}

/// The books as `GET /books` shows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BooksView {
    /// Every accepted render, in the order of acceptance.
    pub renders: Vec<BookEntry>,
    /// Sums.
    pub totals: BookTotals,
    /// POSTs refused, by error code (since the start of the process).
    pub rejected: BTreeMap<String, u64>,
    /// Faults done, by kind (since the start of the process).
    pub faults: BTreeMap<FaultKind, u64>,
}

/// One accepted, paid render.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookEntry {
    /// The sandbox's id.
    pub id: String,
    /// Who pays.
    pub account: String,
    /// The client's reference.
    pub reference: String,
    /// When it was accepted, in milliseconds since the epoch.
    pub accepted_ms: u64,
    /// Where it stands now.
    pub state: RenderState,
    /// What it makes.
    pub media: OutputKind,
    /// The idempotency key that it was accepted under, if the account honours keys.
    pub idempotency_key: Option<String>,
    /// Callback requests sent (since the start of the process), repeats included.
    pub callbacks_sent: u32,
}

/// Sums over the books.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookTotals {
    /// Renders accepted: each is paid for.
    pub accepted: u64,
    /// Different (account, reference) pairs among them.
    pub references: u64,
    /// `accepted - references`: renders paid for again under a reference already accepted.
    pub paid_again: u64,
    /// Not ended now.
    pub running: u64,
    /// Ended with an output.
    pub succeeded: u64,
    /// Ended without.
    pub failed: u64,
    /// Ended on request.
    pub cancelled: u64,
    /// POSTs to `/v1/renders` that arrived whole, whatever became of them (since the start of the process).
    pub posts: u64,
    /// POSTs answered with an earlier render by their idempotency key (since the start of the process).
    pub replays: u64,
}

impl BooksView {
    /// The entries of one reference, whatever the account.
    #[must_use]
    pub fn of(&self, reference: &str) -> Vec<&BookEntry> {
        self.renders.iter().filter(|entry| entry.reference == reference).collect()
    }
}
