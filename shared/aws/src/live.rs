//! The ports of one function, put together.

use crate::dynamo::DynamoStore;
use crate::local::SystemLocal;
use crate::meter::Used;
use crate::sqs::SqsQueues;
use crate::telemetry::token_hash;
use glassline_protocol::ids::{Attempt, JobKey, LaneName, Ms, ParentKey, Run, TaskId, Token};
use glassline_protocol::ports::{
    Candidate, Created, DeadLetters, Envelope, EpisodeView, JobFilter, JobPage, JobScan, JobView, Local,
    NewRow, NotStarted, OutcomePut, Part, Queues, Read, Redriven, ScanCursor, Sent, Store, Transacted,
    Written,
};
use glassline_protocol::provider::{
    CallbackCall, Callbacks, CalledBack, Cancel, Capabilities, Find, Media, Output, Provider, Reference,
    RenderRequest, Submit, TaskState,
};
use glassline_protocol::registry::{Line, Mark, Page, ParentView, Registry};
use glassline_protocol::row::{
    EpisodeKey, JobRow, LaneRow, OrphanRow, OutcomeRow, SeriesKey, SeriesRow, SlotKey, SlotRow, SpecRow,
    StoryKey, StoryRow, StorySpecRow,
};
use glassline_protocol::transition::{JobTransition, LaneTransition, SlotTransition, StoryTransition};
use glassline_protocol::vault::{Asset, Saved, Vault};
use std::collections::BTreeMap;

/// A store, queues, a provider and a vault (`()` where a function has none), with time and randomness, the system's unless a
/// test gives its own.
#[derive(Clone, Debug)]
pub struct Live<P = (), V = (), L = SystemLocal> {
    /// The table.
    pub store: DynamoStore,
    /// The queues.
    pub queues: SqsQueues,
    /// The providers.
    pub provider: P,
    /// Storage.
    pub vault: V,
    /// Time and fresh ids.
    pub local: L,
}

impl<P, V, L> Live<P, V, L> {
    /// Logs what the table and the queues were asked for since the last time: one line an invocation.
    pub fn log_operations(&self, function: &'static str) {
        let as_json = |used: &BTreeMap<&'static str, Used>| {
            let used = used.iter().map(|(name, used)| (name, (used.requests, used.units)));
            serde_json::to_string(&used.collect::<BTreeMap<_, _>>()).unwrap_or_default()
        };
        let (store, queues) = (self.store.meter().take(), self.queues.meter().take());
        if store.is_empty() && queues.is_empty() {
            return;
        }
        let sum = |used: &BTreeMap<&'static str, Used>, only: fn(&str) -> bool| {
            let used = used.iter().filter(|(name, _)| only(name)).map(|(_, used)| *used);
            used.fold((0, 0.0), |(requests, units), used| (requests + used.requests, units + used.units))
        };
        let (table_requests, _) = sum(&store, |_| true);
        let (_, table_read_units) = sum(&store, is_read);
        let (_, table_write_units) = sum(&store, |operation| !is_read(operation));
        let (queue_requests, messages_sent) = sum(&queues, |_| true);
        let (store, queues) = (as_json(&store), as_json(&queues));
        tracing::info!(
            event = "operations",
            function,
            store,
            queues,
            table_requests,
            table_read_units,
            table_write_units,
            queue_requests,
            messages_sent
        );
    }
}

/// Whether an operation of the table consumes read units; the others consume write units.
fn is_read(operation: &str) -> bool {
    ["GetItem", "BatchGetItem", "Query", "Scan"].contains(&operation)
}

/// Says that a job changed: the lines that tell a job's story, and what renders are counted by.
fn log_changed(job: &JobKey, transition: &JobTransition, row: &JobRow) {
    let token = transition.token().or(row.token.as_ref()).map(token_hash);
    let (job, lane) = (job.to_string(), row.lane.to_string());
    tracing::info!(
        event = "job_changed",
        transition = transition.name(),
        job,
        lane,
        attempt = row.attempt,
        token,
        status = row.status.word(),
    );
}

impl<P: Send + Sync, V: Send + Sync, L: Send + Sync> Store for Live<P, V, L> {
    async fn change_job(&self, job: &JobKey, transition: &JobTransition) -> Written<JobRow> {
        let written = self.store.change_job(job, transition).await;
        match &written {
            Written::Applied(row) => log_changed(job, transition, row),
            Written::Refused(_) | Written::Unknown => {}
        }
        written
    }
    async fn change_slot(&self, slot: &SlotKey, transition: &SlotTransition) -> Written<SlotRow> {
        self.store.change_slot(slot, transition).await
    }
    async fn change_lane(&self, lane: &LaneName, transition: &LaneTransition) -> Written<LaneRow> {
        let written = self.store.change_lane(lane, transition).await;
        if let (Written::Applied(_), LaneTransition::Pause { until_ms, reason }) = (&written, transition) {
            tracing::warn!(event = "lane_paused", lane = %lane, until_ms, reason);
        }
        written
    }
    async fn put_outcome(&self, outcome: &OutcomeRow, only_if: Option<&NotStarted>) -> OutcomePut {
        self.store.put_outcome(outcome, only_if).await
    }
    async fn put_orphan(&self, orphan: &OrphanRow) -> bool {
        let put = self.store.put_orphan(orphan).await;
        if put {
            let OrphanRow { key, attempt, lane, reason, .. } = orphan;
            tracing::warn!(
                event = "task_given_up",
                job = %key.job,
                lane = %lane,
                attempt,
                task = %key.task,
                reason,
            );
        }
        put
    }
    async fn create(&self, row: &NewRow) -> Created {
        self.store.create(row).await
    }
    async fn job(&self, job: &JobKey) -> Read<Option<JobView>> {
        self.store.job(job).await
    }
    async fn jobs(&self, jobs: &[JobKey]) -> Read<Vec<JobRow>> {
        self.store.jobs(jobs).await
    }
    async fn specs(&self, jobs: &[JobKey]) -> Read<Vec<SpecRow>> {
        self.store.specs(jobs).await
    }
    async fn lanes(&self) -> Read<Vec<LaneRow>> {
        self.store.lanes().await
    }
    async fn lane(&self, lane: &LaneName) -> Read<Option<LaneRow>> {
        self.store.lane(lane).await
    }
    async fn slots(&self, lane: &LaneName) -> Read<Vec<SlotRow>> {
        self.store.slots(lane).await
    }
    async fn ready(&self, lane: &LaneName, limit: usize) -> Read<Vec<Candidate>> {
        self.store.ready(lane, limit).await
    }
    async fn due(&self, lane: &LaneName, now_ms: Ms, limit: usize) -> Read<Vec<Candidate>> {
        self.store.due(lane, now_ms, limit).await
    }
    async fn held(&self, lane: &LaneName, now_ms: Ms, limit: usize) -> Read<Vec<Candidate>> {
        self.store.held(lane, now_ms, limit).await
    }
    async fn transact(&self, parts: &[Part]) -> Transacted {
        self.store.transact(parts).await
    }
    async fn change_story(&self, story: &StoryKey, transition: &StoryTransition) -> Written<StoryRow> {
        self.store.change_story(story, transition).await
    }
    async fn all_series(&self) -> Read<Vec<SeriesKey>> {
        self.store.all_series().await
    }
    async fn series(&self, series: &SeriesKey) -> Read<Option<SeriesRow>> {
        self.store.series(series).await
    }
    async fn open_stories(&self, series: &SeriesKey) -> Read<Vec<StoryKey>> {
        self.store.open_stories(series).await
    }
    async fn story(&self, story: &StoryKey) -> Read<Option<StoryRow>> {
        self.store.story(story).await
    }
    async fn story_spec(&self, story: &StoryKey) -> Read<Option<StorySpecRow>> {
        self.store.story_spec(story).await
    }
    async fn episode(&self, episode: &EpisodeKey) -> Read<Option<EpisodeView>> {
        self.store.episode(episode).await
    }
    async fn open_episodes(&self, series: &SeriesKey, limit: usize) -> Read<Vec<EpisodeKey>> {
        self.store.open_episodes(series, limit).await
    }
}

impl<P: Send + Sync, V: Send + Sync, L: Send + Sync> Registry for Live<P, V, L> {
    async fn parent(&self, parent: &ParentKey) -> Read<Option<ParentView>> {
        self.store.parent(parent).await
    }
    async fn history(&self, job: &JobKey) -> Read<Option<ParentView>> {
        self.store.history(job).await
    }
    async fn posts(&self, month: &str, after: Option<&Mark>, limit: usize) -> Read<Page<ParentKey>> {
        self.store.posts(month, after, limit).await
    }
    async fn held_jobs(&self, lane: &LaneName, after: Option<&Mark>, limit: usize) -> Read<Page<JobKey>> {
        self.store.held_jobs(lane, after, limit).await
    }
    async fn count(&self, line: &Line, limit: usize) -> Read<usize> {
        self.store.count(line, limit).await
    }
}

impl<P: Send + Sync, V: Send + Sync, L: Send + Sync> JobScan for Live<P, V, L> {
    async fn scan_jobs(
        &self,
        filter: &JobFilter,
        cursor: Option<&ScanCursor>,
        limit: usize,
    ) -> Read<JobPage> {
        self.store.scan_jobs(filter, cursor, limit).await
    }
}

impl<P: Send + Sync, V: Send + Sync, L: Send + Sync> DeadLetters for Live<P, V, L> {
    fn names(&self) -> Vec<String> {
        self.queues.names()
    }
    async fn redrive(&self, queue: &str) -> Redriven {
        self.queues.redrive(queue).await
    }
}

impl<P: Callbacks + Send + Sync, V: Send + Sync, L: Send + Sync> Callbacks for Live<P, V, L> {
    async fn verify(&self, provider: &str, lane: &LaneName, call: &CallbackCall) -> Option<CalledBack> {
        self.provider.verify(provider, lane, call).await
    }
}

impl<P: Send + Sync, V: Send + Sync, L: Send + Sync> Queues for Live<P, V, L> {
    async fn send(&self, envelopes: Vec<Envelope>) -> Vec<Sent> {
        self.queues.send(envelopes).await
    }
}

impl<P, V, L: Local> Local for Live<P, V, L> {
    fn now_ms(&self) -> Ms {
        self.local.now_ms()
    }
    fn fresh_token(&self) -> Token {
        self.local.fresh_token()
    }
    fn fresh_run(&self) -> Run {
        self.local.fresh_run()
    }
    fn random_below(&self, bound: u64) -> u64 {
        self.local.random_below(bound)
    }
}

impl<P: Provider + Send + Sync, V: Send + Sync, L: Send + Sync> Provider for Live<P, V, L> {
    fn capabilities(&self, lane: &LaneName) -> Capabilities {
        self.provider.capabilities(lane)
    }
    async fn submit(&self, lane: &LaneName, request: &RenderRequest, reference: &Reference) -> Submit {
        self.provider.submit(lane, request, reference).await
    }
    async fn status(&self, lane: &LaneName, task: &TaskId) -> TaskState {
        self.provider.status(lane, task).await
    }
    async fn find(&self, lane: &LaneName, reference: &Reference, since_ms: Ms) -> Find {
        self.provider.find(lane, reference, since_ms).await
    }
    async fn cancel(&self, lane: &LaneName, task: &TaskId) -> Cancel {
        self.provider.cancel(lane, task).await
    }
}

impl<P: Send + Sync, V: Vault + Send + Sync, L: Send + Sync> Vault for Live<P, V, L> {
    async fn save(
        &self,
        lane: &LaneName,
        job: &JobKey,
        attempt: Attempt,
        output: &Output,
        expected: Media,
    ) -> Saved {
        self.vault.save(lane, job, attempt, output, expected).await
    }
    async fn discard(&self, asset: &Asset) {
        self.vault.discard(asset).await;
    }
}
