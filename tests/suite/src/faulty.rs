//! Faults at port calls: the nth call of a run loses its request, loses its reply, or is where the handler dies.

use glassline_protocol::ids::{Attempt, JobKey, LaneName, Ms, Run, TaskId, Token};
use glassline_protocol::ports::{
    Candidate, Created, Envelope, JobView, Local, NewRow, NotStarted, OutcomePut, Queues, Read, Sent, Store,
    Unread, Written,
};
use glassline_protocol::provider::{
    Cancel, Capabilities, Find, Media, Output, Provider, Reference, RenderRequest, Submit, TaskState,
};
use glassline_protocol::row::{JobRow, LaneRow, OrphanRow, OutcomeRow, SlotKey, SlotRow, SpecRow};
use glassline_protocol::transition::{JobTransition, LaneTransition, SlotTransition};
use glassline_protocol::vault::{Saved, Vault};
use std::future::Future;
use std::sync::Mutex;
use tokio::sync::Notify;

/// What goes wrong at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It never arrives; the caller can't tell.
    LostRequest,
    /// It is done; the caller can't tell.
    LostReply,
    /// The caller dies before it.
    CrashBefore,
    /// It is done, and the caller dies before it learns that.
    CrashAfter,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 4] = [Self::LostRequest, Self::LostReply, Self::CrashBefore, Self::CrashAfter];
}

#[derive(Debug, Default)]
struct State {
    calls: usize,
    fault: Option<(usize, Fault)>,
    fired: Option<&'static str>,
    log: Vec<&'static str>,
}

/// Counts the calls of all handlers of a world, and says at which one what goes wrong.
#[derive(Debug, Default)]
pub struct Plan {
    state: Mutex<State>,
    crashed: Notify,
}

impl Plan {
    /// Nothing goes wrong.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// `fault` at call number `at`, from 0.
    #[must_use]
    pub fn at(at: usize, fault: Fault) -> Self {
        let state = State { fault: Some((at, fault)), ..State::default() };
        Self { state: Mutex::new(state), crashed: Notify::new() }
    }

    /// The name of the call at which the fault was done, if it was.
    pub fn fired(&self) -> Option<&'static str> {
        self.state.lock().unwrap().fired
    }

    /// The calls so far, by name.
    pub fn log(&self) -> Vec<&'static str> {
        self.state.lock().unwrap().log.clone()
    }

    fn next(&self, name: &'static str) -> Option<Fault> {
        let mut state = self.state.lock().unwrap();
        let number = state.calls;
        state.calls += 1;
        state.log.push(name);
        let fault = state.fault.filter(|(at, _)| *at == number).map(|(_, fault)| fault);
        if fault.is_some() {
            state.fired = Some(name);
        }
        fault
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
        match self.next(name) {
            None => call.await,
            Some(Fault::LostRequest) => unknown(),
            Some(Fault::LostReply) => {
                call.await;
                unknown()
            }
            Some(Fault::CrashBefore) => self.die().await,
            Some(Fault::CrashAfter) => {
                call.await;
                self.die().await
            }
        }
    }

    async fn die<T>(&self) -> T {
        self.crashed.notify_one();
        std::future::pending().await
    }
}

/// Ports with faults.
pub struct Faulty<'a, P> {
    /// The real ones.
    pub inner: &'a P,
    /// What goes wrong.
    pub plan: &'a Plan,
}

fn unread<T>() -> Read<T> {
    Err(Unread::Unavailable)
}

impl<P: Store + Sync> Store for Faulty<'_, P> {
    async fn change_job(&self, job: &JobKey, transition: &JobTransition) -> Written<JobRow> {
        self.plan.call(transition.name(), || Written::Unknown, self.inner.change_job(job, transition)).await
    }
    async fn change_slot(&self, slot: &SlotKey, transition: &SlotTransition) -> Written<SlotRow> {
        self.plan.call("Take", || Written::Unknown, self.inner.change_slot(slot, transition)).await
    }
    async fn change_lane(&self, lane: &LaneName, transition: &LaneTransition) -> Written<LaneRow> {
        self.plan.call("lane", || Written::Unknown, self.inner.change_lane(lane, transition)).await
    }
    async fn put_outcome(&self, outcome: &OutcomeRow, only_if: Option<&NotStarted>) -> OutcomePut {
        self.plan.call("put outcome", || OutcomePut::Unknown, self.inner.put_outcome(outcome, only_if)).await
    }
    async fn put_orphan(&self, orphan: &OrphanRow) -> bool {
        self.plan.call("put orphan", || false, self.inner.put_orphan(orphan)).await
    }
    async fn create(&self, row: &NewRow) -> Created {
        self.plan.call("create", || Created::Unknown, self.inner.create(row)).await
    }
    async fn job(&self, job: &JobKey) -> Read<Option<JobView>> {
        self.plan.call("read job", unread, self.inner.job(job)).await
    }
    async fn jobs(&self, jobs: &[JobKey]) -> Read<Vec<JobRow>> {
        self.plan.call("read jobs", unread, self.inner.jobs(jobs)).await
    }
    async fn specs(&self, jobs: &[JobKey]) -> Read<Vec<SpecRow>> {
        self.plan.call("read specs", unread, self.inner.specs(jobs)).await
    }
    async fn lanes(&self) -> Read<Vec<LaneRow>> {
        self.plan.call("read lanes", unread, self.inner.lanes()).await
    }
    async fn lane(&self, lane: &LaneName) -> Read<Option<LaneRow>> {
        self.plan.call("read lane", unread, self.inner.lane(lane)).await
    }
    async fn slots(&self, lane: &LaneName) -> Read<Vec<SlotRow>> {
        self.plan.call("read slots", unread, self.inner.slots(lane)).await
    }
    async fn ready(&self, lane: &LaneName, limit: usize) -> Read<Vec<Candidate>> {
        self.plan.call("query ready", unread, self.inner.ready(lane, limit)).await
    }
    async fn due(&self, lane: &LaneName, now_ms: Ms, limit: usize) -> Read<Vec<Candidate>> {
        self.plan.call("query later", unread, self.inner.due(lane, now_ms, limit)).await
    }
    async fn held(&self, lane: &LaneName, now_ms: Ms, limit: usize) -> Read<Vec<Candidate>> {
        self.plan.call("query held", unread, self.inner.held(lane, now_ms, limit)).await
    }
}

impl<P: Queues + Sync> Queues for Faulty<'_, P> {
    async fn send(&self, envelopes: Vec<Envelope>) -> Vec<Sent> {
        let count = envelopes.len();
        let name = envelopes.first().map_or("send", |envelope| envelope.message.queue().name());
        self.plan.call(name, || vec![Sent::Unknown; count], self.inner.send(envelopes)).await
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
}

impl<P: Provider + Sync> Provider for Faulty<'_, P> {
    fn capabilities(&self, lane: &LaneName) -> Capabilities {
        self.inner.capabilities(lane)
    }
    async fn submit(&self, lane: &LaneName, request: &RenderRequest, reference: &Reference) -> Submit {
        self.plan.call("submit", || Submit::Unknown, self.inner.submit(lane, request, reference)).await
    }
    async fn status(&self, lane: &LaneName, task: &TaskId) -> TaskState {
        self.plan.call("status", || TaskState::Unknown, self.inner.status(lane, task)).await
    }
    async fn find(&self, lane: &LaneName, reference: &Reference) -> Find {
        self.plan.call("find", || Find::Unknown, self.inner.find(lane, reference)).await
    }
    async fn cancel(&self, lane: &LaneName, task: &TaskId) -> Cancel {
        self.plan.call("cancel", || Cancel::Unknown, self.inner.cancel(lane, task)).await
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
        self.plan.call("save", || Saved::Unavailable, call).await
    }
}
