//! Ports that do what a [`Plan`] says: lose a request or a reply, stop, or are where the handler dies.

use crate::plan::Plan;
use glassline_protocol::ids::{Attempt, JobKey, LaneName, Ms, Run, TaskId, Token};
use glassline_protocol::ports::{
    Candidate, Created, Envelope, EpisodeView, JobView, Local, NewRow, NotStarted, OutcomePut, Part, Queues,
    Read, Sent, Store, Transacted, Unread, Written,
};
use glassline_protocol::provider::{
    Cancel, Capabilities, Find, Media, Output, Provider, Reference, RenderRequest, Submit, TaskState,
};
use glassline_protocol::row::{
    EpisodeKey, JobRow, LaneRow, OrphanRow, OutcomeRow, SeriesKey, SeriesRow, SlotKey, SlotRow, SpecRow,
    StoryKey, StoryRow, StorySpecRow,
};
use glassline_protocol::transition::{JobTransition, LaneTransition, SlotTransition, StoryTransition};
use glassline_protocol::vault::{Asset, Saved, Vault};
use std::future::Future;
use tokio::sync::Notify;

/// The ports of one invocation of a function, with faults.
pub struct Faulty<'a, P> {
    inner: &'a P,
    plan: &'a Plan,
    function: &'static str,
    crashed: Notify,
}

impl<'a, P> Faulty<'a, P> {
    /// Ports for one invocation of `function`.
    pub fn new(inner: &'a P, plan: &'a Plan, function: &'static str) -> Self {
        Self { inner, plan, function, crashed: Notify::new() }
    }

    /// Runs a handler until it returns (`Some`) or dies (`None`).
    pub async fn run<T>(&self, handler: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.crashed.notified() => None,
            done = Box::pin(handler) => Some(done),
        }
    }

    async fn call<T>(
        &self,
        name: &'static str,
        unknown: impl FnOnce() -> T,
        call: impl Future<Output = T>,
    ) -> T {
        // On the heap: handlers, adapters and the SDK nest deeply, and a test's thread has a small stack.
        let call = Box::pin(call);
        let Some(act) = self.plan.next(self.function, name) else { return call.await };
        match act.make(unknown, call).await {
            Some(done) => done,
            None => {
                self.crashed.notify_one();
                std::future::pending().await
            }
        }
    }
}

fn unread<T>() -> Read<T> {
    Err(Unread::Unavailable)
}

impl<P: Store + Sync> Store for Faulty<'_, P> {
    async fn change_job(&self, job: &JobKey, transition: &JobTransition) -> Written<JobRow> {
        self.call(transition.name(), || Written::Unknown, self.inner.change_job(job, transition)).await
    }
    async fn change_slot(&self, slot: &SlotKey, transition: &SlotTransition) -> Written<SlotRow> {
        self.call("Take", || Written::Unknown, self.inner.change_slot(slot, transition)).await
    }
    async fn change_lane(&self, lane: &LaneName, transition: &LaneTransition) -> Written<LaneRow> {
        let call = match transition {
            LaneTransition::Authorise { .. } => "Authorise",
            LaneTransition::Pause { .. } | LaneTransition::PauseByHand { .. } => "Pause",
            LaneTransition::Resume => "Resume",
            LaneTransition::Configure { .. } => "Configure",
        };
        self.call(call, || Written::Unknown, self.inner.change_lane(lane, transition)).await
    }
    async fn put_outcome(&self, outcome: &OutcomeRow, only_if: Option<&NotStarted>) -> OutcomePut {
        self.call("put outcome", || OutcomePut::Unknown, self.inner.put_outcome(outcome, only_if)).await
    }
    async fn put_orphan(&self, orphan: &OrphanRow) -> bool {
        self.call("put orphan", || false, self.inner.put_orphan(orphan)).await
    }
    async fn create(&self, row: &NewRow) -> Created {
        self.call("create", || Created::Unknown, self.inner.create(row)).await
    }
    async fn job(&self, job: &JobKey) -> Read<Option<JobView>> {
        self.call("read job", unread, self.inner.job(job)).await
    }
    async fn jobs(&self, jobs: &[JobKey]) -> Read<Vec<JobRow>> {
        self.call("read jobs", unread, self.inner.jobs(jobs)).await
    }
    async fn specs(&self, jobs: &[JobKey]) -> Read<Vec<SpecRow>> {
        self.call("read specs", unread, self.inner.specs(jobs)).await
    }
    async fn lanes(&self) -> Read<Vec<LaneRow>> {
        self.call("read lanes", unread, self.inner.lanes()).await
    }
    async fn lane(&self, lane: &LaneName) -> Read<Option<LaneRow>> {
        self.call("read lane", unread, self.inner.lane(lane)).await
    }
    async fn slots(&self, lane: &LaneName) -> Read<Vec<SlotRow>> {
        self.call("read slots", unread, self.inner.slots(lane)).await
    }
    async fn ready(&self, lane: &LaneName, limit: usize) -> Read<Vec<Candidate>> {
        self.call("query ready", unread, self.inner.ready(lane, limit)).await
    }
    async fn due(&self, lane: &LaneName, now_ms: Ms, limit: usize) -> Read<Vec<Candidate>> {
        self.call("query later", unread, self.inner.due(lane, now_ms, limit)).await
    }
    async fn held(&self, lane: &LaneName, now_ms: Ms, limit: usize) -> Read<Vec<Candidate>> {
        self.call("query held", unread, self.inner.held(lane, now_ms, limit)).await
    }
    async fn transact(&self, parts: &[Part]) -> Transacted {
        self.call("transact", || Transacted::Unknown, self.inner.transact(parts)).await
    }
    async fn change_story(&self, story: &StoryKey, transition: &StoryTransition) -> Written<StoryRow> {
        self.call("story", || Written::Unknown, self.inner.change_story(story, transition)).await
    }
    async fn all_series(&self) -> Read<Vec<SeriesKey>> {
        self.call("query series", unread, self.inner.all_series()).await
    }
    async fn series(&self, series: &SeriesKey) -> Read<Option<SeriesRow>> {
        self.call("read series", unread, self.inner.series(series)).await
    }
    async fn open_stories(&self, series: &SeriesKey) -> Read<Vec<StoryKey>> {
        self.call("query stories", unread, self.inner.open_stories(series)).await
    }
    async fn story(&self, story: &StoryKey) -> Read<Option<StoryRow>> {
        self.call("read story", unread, self.inner.story(story)).await
    }
    async fn story_spec(&self, story: &StoryKey) -> Read<Option<StorySpecRow>> {
        self.call("read story spec", unread, self.inner.story_spec(story)).await
    }
    async fn episode(&self, episode: &EpisodeKey) -> Read<Option<EpisodeView>> {
        self.call("read episode", unread, self.inner.episode(episode)).await
    }
    async fn open_episodes(&self, series: &SeriesKey, limit: usize) -> Read<Vec<EpisodeKey>> {
        self.call("query open", unread, self.inner.open_episodes(series, limit)).await
    }
}

impl<P: Queues + Local + Sync> Queues for Faulty<'_, P> {
    async fn send(&self, envelopes: Vec<Envelope>) -> Vec<Sent> {
        let count = envelopes.len();
        for envelope in &envelopes {
            self.plan.will_arrive(self.inner.now_ms(), envelope.delay_ms);
        }
        let name = envelopes.first().map_or("send", |envelope| envelope.message.queue().name());
        self.call(name, || vec![Sent::Unknown; count], self.inner.send(envelopes)).await
    }
}

impl<P: Local> Local for Faulty<'_, P> {
    fn now_ms(&self) -> Ms {
        self.inner.now_ms()
    }
    fn fresh_token(&self) -> Token {
        self.inner.fresh_token()
    }
    fn fresh_run(&self) -> Run {
        self.inner.fresh_run()
    }
    fn random_below(&self, bound: u64) -> u64 {
        self.inner.random_below(bound)
    }
}

impl<P: Provider + Sync> Provider for Faulty<'_, P> {
    fn capabilities(&self, lane: &LaneName) -> Capabilities {
        self.inner.capabilities(lane)
    }
    async fn submit(&self, lane: &LaneName, request: &RenderRequest, reference: &Reference) -> Submit {
        self.call("submit", || Submit::Unknown, self.inner.submit(lane, request, reference)).await
    }
    async fn status(&self, lane: &LaneName, task: &TaskId) -> TaskState {
        self.call("status", || TaskState::Unknown, self.inner.status(lane, task)).await
    }
    async fn find(&self, lane: &LaneName, reference: &Reference, since_ms: Ms) -> Find {
        self.call("find", || Find::Unknown, self.inner.find(lane, reference, since_ms)).await
    }
    async fn cancel(&self, lane: &LaneName, task: &TaskId) -> Cancel {
        self.call("cancel", || Cancel::Unknown, self.inner.cancel(lane, task)).await
    }
}

impl<P: Vault + Sync> Vault for Faulty<'_, P> {
    async fn save(
        &self,
        lane: &LaneName,
        job: &JobKey,
        attempt: Attempt,
        output: &Output,
        expected: Media,
    ) -> Saved {
        let call = self.inner.save(lane, job, attempt, output, expected);
        self.call("save", || Saved::Unavailable, call).await
    }
    async fn discard(&self, asset: &Asset) {
        self.call("discard", || (), self.inner.discard(asset)).await;
    }
}
