//! The ports of a replayed invocation: each call is answered from what was recorded, or noted as wanted.

use crate::codec::{
    SECRETS, job_of, job_row, key, lane_name, lane_row, ms, outcome_row, output, rank, run, series_id,
    slot_row, task, token,
};
use crate::codec_story::{episode_key, head_row, series_row, story_key, story_row, story_spec};
use crate::config::Config;
use crate::state::{Entry, Kind, Reply, T, TaskAt};
use glassline_protocol::ids::{Attempt, JobKey, LaneName, Ms, Run, TaskId, Token};
use glassline_protocol::message::Message;
use glassline_protocol::ports::{
    Candidate, Created, Envelope, EpisodeView, JobView, Local, NewRow, NotStarted, OutcomePut, Part, Queues,
    Read, Sent, Store, Transacted, Unread, Written,
};
use glassline_protocol::provider::{
    Cancel, Capabilities, ErrorClass, Find, Media, Output, Provider, Reference, RenderRequest, Submit,
    TaskState,
};
use glassline_protocol::row::{
    EpisodeKey, JobRow, LaneRow, OrphanRow, OutcomeRow, SeriesKey, SeriesRow, SlotKey, SlotRow, SpecKey,
    SpecRow, StoryKey, StoryRow, StorySpecRow,
};
use glassline_protocol::transition::{JobTransition, LaneTransition, SlotTransition, StoryTransition};
use glassline_protocol::vault::{Asset, Saved, Vault};
use std::future::{Future, poll_fn};
use std::sync::{Mutex, MutexGuard};
use std::task::{Poll, Waker};

/// A call, with what was asked.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Job(JobKey, JobTransition),
    Slot(SlotKey, SlotTransition),
    Lane(LaneTransition),
    Story(StoryKey, StoryTransition),
    Outcome(Box<OutcomeRow>, Option<NotStarted>),
    Orphan(u8, u8),
    View(u8),
    Jobs(Vec<u8>),
    Specs,
    LaneRow,
    Slots,
    Ready,
    Due(Ms),
    Held(Ms),
    Transact(Vec<Part>),
    Series,
    Stories,
    StoryRow(u8),
    Episode(u8),
    Episodes,
    Send(Vec<Envelope>),
    Submit(u8, u8),
    Status(u8),
    Find(u8, u8),
    Cancel(u8),
    Save(u8, u8),
}

impl Op {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Job(..) | Self::Slot(..) | Self::Lane(_) | Self::Story(..) | Self::Outcome(..) => {
                Kind::Write
            }
            Self::Orphan(..) => Kind::Orphan,
            Self::Ready => Kind::Query,
            Self::Stories => Kind::Draw,
            Self::View(_)
            | Self::Jobs(_)
            | Self::LaneRow
            | Self::Slots
            | Self::Due(_)
            | Self::Held(_)
            | Self::Series
            | Self::StoryRow(_)
            | Self::Episode(_)
            | Self::Episodes => Kind::Read,
            Self::Specs => Kind::Specs,
            Self::Transact(_) => Kind::Tx,
            Self::Send(envelopes) => match envelopes.first().map(|envelope| &envelope.message) {
                Some(Message::Handoff(_)) => Kind::Handoffs,
                _ => Kind::Send,
            },
            Self::Submit(job, attempt) => Kind::Submit(*job, *attempt),
            Self::Status(task) => Kind::Status(*task),
            Self::Find(job, attempt) => Kind::Find(*job, *attempt),
            Self::Cancel(task) => Kind::Cancel(*task),
            Self::Save(job, _) => Kind::Save(*job),
        }
    }
}

pub(crate) struct Call {
    /// What was asked; left out where the answer was recorded already.
    pub(crate) op: Option<Op>,
    pub(crate) reply: Option<Reply>,
    pub(crate) waker: Option<Waker>,
    pub(crate) done: bool,
}

pub(crate) struct Recorder {
    pub(crate) log: Vec<Entry>,
    /// The next entry to be used.
    pub(crate) at: usize,
    /// Now, as this invocation sees it at this point of its replay.
    pub(crate) now: T,
    pub(crate) calls: Vec<Call>,
    /// Calls whose answers are in the log.
    pub(crate) answered: u128,
    pub(crate) tokens: u8,
    pub(crate) runs: u8,
    /// What a random number is, if one is asked for now.
    pub(crate) random: u8,
}

pub(crate) struct Ports<'a> {
    pub(crate) config: &'a Config,
    pub(crate) recorder: Mutex<Recorder>,
}

impl Ports<'_> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap()
    }

    fn call(&self, op: impl FnOnce() -> Op + Send) -> impl Future<Output = Reply> + Send {
        let mut op = Some(op);
        let mut id = usize::MAX;
        poll_fn(move |context| {
            let mut recorder = self.lock();
            if let Some(op) = op.take() {
                id = recorder.calls.len();
                let wanted = recorder.answered & (1 << id) == 0;
                recorder.calls.push(Call { op: wanted.then(op), reply: None, waker: None, done: false });
            }
            let call = &mut recorder.calls[id];
            match call.reply.take() {
                Some(reply) => Poll::Ready(reply),
                None => {
                    call.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
    }

    /// What is recorded of something that isn't waited for; else `fresh`, which is recorded.
    fn now(&self, pick: impl Fn(&Entry) -> Option<u8>, fresh: impl FnOnce(&mut Recorder) -> Entry) -> u8 {
        let mut recorder = self.lock();
        if recorder.at == recorder.log.len() {
            let entry = fresh(&mut recorder);
            recorder.log.push(entry);
        }
        let value = pick(&recorder.log[recorder.at]).expect("a handler took another way in its replay");
        recorder.at += 1;
        value
    }
}

fn written<S, R>(applied: bool, row: Option<S>, to: impl Fn(&S) -> R) -> Written<R> {
    match (applied, row) {
        (true, Some(row)) => Written::Applied(to(&row)),
        (true, None) => panic!("an applied write has a row"),
        (false, row) => Written::Refused(row.map(|row| to(&row))),
    }
}

fn unread<T>() -> Read<T> {
    Err(Unread::Unavailable)
}

fn candidates(reply: Reply) -> Read<Vec<Candidate>> {
    match reply {
        Reply::Candidates(list) => Ok(list
            .into_iter()
            .map(|(job, attempt)| Candidate {
                job: key(job),
                attempt: Attempt::from(attempt),
                rank: rank(job),
            })
            .collect()),
        _ => unread(),
    }
}

impl Store for Ports<'_> {
    async fn change_job(&self, job: &JobKey, transition: &JobTransition) -> Written<JobRow> {
        match self.call(|| Op::Job(job.clone(), transition.clone())).await {
            Reply::Job(applied, row) => written(applied, row, job_row),
            _ => Written::Unknown,
        }
    }
    async fn change_slot(&self, slot: &SlotKey, transition: &SlotTransition) -> Written<SlotRow> {
        match self.call(|| Op::Slot(slot.clone(), transition.clone())).await {
            Reply::Slot(applied, row) => written(applied, row, slot_row),
            _ => Written::Unknown,
        }
    }
    async fn change_lane(&self, _lane: &LaneName, transition: &LaneTransition) -> Written<LaneRow> {
        match self.call(|| Op::Lane(transition.clone())).await {
            Reply::Lane(applied, row) => written(applied, row, |row| lane_row(row, self.config.lane_shape())),
            _ => Written::Unknown,
        }
    }
    async fn put_outcome(&self, outcome: &OutcomeRow, only_if: Option<&NotStarted>) -> OutcomePut {
        match self.call(|| Op::Outcome(Box::new(outcome.clone()), only_if.cloned())).await {
            Reply::Recorded => OutcomePut::Recorded,
            Reply::Exists(row) => OutcomePut::Exists(Box::new(outcome_row(&row))),
            Reply::Moved => OutcomePut::Moved,
            _ => OutcomePut::Unknown,
        }
    }
    async fn put_orphan(&self, orphan: &OrphanRow) -> bool {
        let op = || Op::Orphan(job_of(&orphan.key.job), crate::codec::task_of(Some(&orphan.key.task)));
        self.call(op).await == Reply::Orphaned
    }
    async fn create(&self, _row: &NewRow) -> Created {
        panic!("no handler of the model creates rows outside of a transaction")
    }
    async fn job(&self, job: &JobKey) -> Read<Option<JobView>> {
        match self.call(|| Op::View(job_of(job))).await {
            Reply::View(job, outcomes) => Ok(job.map(|job| JobView {
                job: job_row(&job),
                outcomes: outcomes.iter().map(outcome_row).collect(),
            })),
            _ => unread(),
        }
    }
    async fn jobs(&self, jobs: &[JobKey]) -> Read<Vec<JobRow>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        match self.call(|| Op::Jobs(jobs.iter().map(job_of).collect())).await {
            Reply::Jobs(jobs) => Ok(jobs.iter().map(job_row).collect()),
            _ => unread(),
        }
    }
    async fn specs(&self, jobs: &[JobKey]) -> Read<Vec<SpecRow>> {
        let spec = |job: &JobKey| SpecRow {
            key: SpecKey(job.clone()),
            prompt: "draw".into(),
            params: None,
            media: Media::Image,
        };
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        match self.call(|| Op::Specs).await {
            Reply::Specs => Ok(jobs.iter().map(spec).collect()),
            _ => unread(),
        }
    }
    async fn lanes(&self) -> Read<Vec<LaneRow>> {
        // Only its name is used, and the tick reads it again.
        Ok(vec![LaneRow::new(lane_name(), 1)])
    }
    async fn lane(&self, _lane: &LaneName) -> Read<Option<LaneRow>> {
        if !self.config.lane_changes() {
            return Ok(Some(lane_row(&crate::config::NEW_LANE, self.config.lane_shape())));
        }
        match self.call(|| Op::LaneRow).await {
            Reply::LaneRow(lane) => Ok(Some(lane_row(&lane, self.config.lane_shape()))),
            _ => unread(),
        }
    }
    async fn slots(&self, _lane: &LaneName) -> Read<Vec<SlotRow>> {
        if self.config.capacity == 0 {
            return Ok(Vec::new());
        }
        match self.call(|| Op::Slots).await {
            Reply::Slots(slots) => Ok(slots.iter().map(slot_row).collect()),
            _ => unread(),
        }
    }
    async fn ready(&self, _lane: &LaneName, _limit: usize) -> Read<Vec<Candidate>> {
        candidates(self.call(|| Op::Ready).await)
    }
    async fn due(&self, _lane: &LaneName, now_ms: Ms, _limit: usize) -> Read<Vec<Candidate>> {
        candidates(self.call(|| Op::Due(now_ms)).await)
    }
    async fn held(&self, _lane: &LaneName, now_ms: Ms, _limit: usize) -> Read<Vec<Candidate>> {
        if self.config.capacity == 0 {
            return Ok(Vec::new());
        }
        match self.call(|| Op::Held(now_ms)).await {
            Reply::HeldJobs(list) => Ok(list
                .into_iter()
                .map(|(job, attempt, at)| Candidate {
                    job: key(job),
                    attempt: Attempt::from(attempt),
                    rank: format!("{:014}", ms(at)),
                })
                .collect()),
            _ => unread(),
        }
    }
    async fn transact(&self, parts: &[Part]) -> Transacted {
        match self.call(|| Op::Transact(parts.to_vec())).await {
            Reply::Done => Transacted::Done,
            Reply::Refused => Transacted::Refused(vec![0]),
            _ => Transacted::Unknown,
        }
    }
    async fn change_story(&self, story: &StoryKey, transition: &StoryTransition) -> Written<StoryRow> {
        match self.call(|| Op::Story(story.clone(), transition.clone())).await {
            Reply::Story(applied, row) => written(applied, row, story_row),
            _ => Written::Unknown,
        }
    }
    async fn all_series(&self) -> Read<Vec<SeriesKey>> {
        Ok(if self.config.stories > 0 { vec![SeriesKey(series_id())] } else { Vec::new() })
    }
    async fn series(&self, _series: &SeriesKey) -> Read<Option<SeriesRow>> {
        match self.call(|| Op::Series).await {
            Reply::SeriesRow(series) => Ok(Some(series_row(&series, self.config.open_limit))),
            _ => unread(),
        }
    }
    async fn open_stories(&self, _series: &SeriesKey) -> Read<Vec<StoryKey>> {
        match self.call(|| Op::Stories).await {
            Reply::Stories(stories) => Ok(stories.into_iter().map(story_key).collect()),
            _ => unread(),
        }
    }
    async fn story(&self, story: &StoryKey) -> Read<Option<StoryRow>> {
        match self.call(|| Op::StoryRow(crate::codec_story::story_of(story))).await {
            Reply::StoryRow(story) => Ok(story.as_ref().map(story_row)),
            _ => unread(),
        }
    }
    async fn story_spec(&self, story: &StoryKey) -> Read<Option<StorySpecRow>> {
        Ok(Some(story_spec(story)))
    }
    async fn episode(&self, episode: &EpisodeKey) -> Read<Option<EpisodeView>> {
        match self.call(|| Op::Episode(crate::codec::small(episode.number))).await {
            Reply::Episode(head, frames) => Ok(head.map(|head| EpisodeView {
                head: head_row(&head),
                frames: frames.iter().map(job_row).collect(),
            })),
            _ => unread(),
        }
    }
    async fn open_episodes(&self, _series: &SeriesKey, _limit: usize) -> Read<Vec<EpisodeKey>> {
        match self.call(|| Op::Episodes).await {
            Reply::Episodes(numbers) => Ok(numbers.into_iter().map(episode_key).collect()),
            _ => unread(),
        }
    }
}

impl Queues for Ports<'_> {
    async fn send(&self, envelopes: Vec<Envelope>) -> Vec<Sent> {
        let count = envelopes.len();
        let sent = match self.call(|| Op::Send(envelopes)).await {
            Reply::Sent => Sent::Accepted,
            _ => Sent::Unknown,
        };
        vec![sent; count]
    }
}

impl Local for Ports<'_> {
    fn now_ms(&self) -> Ms {
        ms(self.lock().now)
    }
    fn fresh_token(&self) -> Token {
        let pick = |entry: &Entry| if let Entry::Token(n) = entry { Some(*n) } else { None };
        let fresh = |recorder: &mut Recorder| {
            recorder.tokens += 1;
            Entry::Token(recorder.tokens)
        };
        token(self.now(pick, fresh)).unwrap()
    }
    fn fresh_run(&self) -> Run {
        let pick = |entry: &Entry| if let Entry::Run(n) = entry { Some(*n) } else { None };
        let fresh = |recorder: &mut Recorder| {
            recorder.runs += 1;
            Entry::Run(recorder.runs)
        };
        run(self.now(pick, fresh)).unwrap()
    }
    fn random_below(&self, bound: u64) -> u64 {
        let pick = |entry: &Entry| if let Entry::Random(n) = entry { Some(*n) } else { None };
        let fresh = |recorder: &mut Recorder| {
            Entry::Random(if bound == 0 { 0 } else { recorder.random % crate::codec::small(bound) })
        };
        u64::from(self.now(pick, fresh))
    }
}

fn state(at: TaskAt) -> TaskState {
    match at {
        TaskAt::Running => TaskState::Running,
        TaskAt::Completed => TaskState::Completed(vec![output()]),
        TaskAt::Failed => TaskState::Failed { class: ErrorClass::Transient, reason: "why".into() },
        TaskAt::Cancelled => TaskState::Cancelled,
    }
}

impl Provider for Ports<'_> {
    fn capabilities(&self, _lane: &LaneName) -> Capabilities {
        self.config.capabilities()
    }
    async fn submit(&self, _lane: &LaneName, _request: &RenderRequest, reference: &Reference) -> Submit {
        let op = || Op::Submit(job_of(&reference.job), crate::codec::small(reference.attempt));
        match self.call(op).await {
            Reply::Accepted(n) => Submit::Accepted(task(n).unwrap()),
            Reply::Rejected(class) => Submit::Rejected { class, retry_after_ms: None, reason: "why".into() },
            _ => Submit::Unknown,
        }
    }
    async fn status(&self, _lane: &LaneName, task: &TaskId) -> TaskState {
        match self.call(|| Op::Status(crate::codec::task_of(Some(task)))).await {
            Reply::Status(at) => state(at),
            Reply::Missing => TaskState::Missing,
            _ => TaskState::Unknown,
        }
    }
    async fn find(&self, _lane: &LaneName, reference: &Reference, _since_ms: Ms) -> Find {
        let op = || Op::Find(job_of(&reference.job), crate::codec::small(reference.attempt));
        match self.call(op).await {
            Reply::Found(n) => Find::Found(task(n).unwrap()),
            Reply::NotFound => Find::NotFound,
            _ => Find::Unknown,
        }
    }
    async fn cancel(&self, _lane: &LaneName, task: &TaskId) -> Cancel {
        match self.call(|| Op::Cancel(crate::codec::task_of(Some(task)))).await {
            Reply::CancelRequested => Cancel::Requested,
            Reply::CancelEnded => Cancel::AlreadyEnded,
            _ => Cancel::Unknown,
        }
    }
}

impl Vault for Ports<'_> {
    async fn save(
        &self,
        _lane: &LaneName,
        job: &JobKey,
        attempt: Attempt,
        _output: &Output,
        _expected: Media,
    ) -> Saved {
        match self.call(|| Op::Save(job_of(job), crate::codec::small(attempt))).await {
            Reply::Saved => Saved::Stored(Asset {
                location: crate::codec::LOCATION.into(),
                sha256: "hash".into(),
                size_bytes: 1,
                content_type: "image/png".into(),
                width_px: None,
                height_px: None,
                duration_ms: None,
                frames: None,
            }),
            Reply::SaveRefused => Saved::Refused { class: ErrorClass::BadOutput, reason: "why".into() },
            Reply::SaveBarred => Saved::Barred { reason: "why".into() },
            Reply::SaveExpired => Saved::Expired,
            _ => Saved::Unavailable,
        }
    }
}

/// What signs handoffs in the model.
pub(crate) fn secrets() -> &'static glassline_protocol::sign::Secrets {
    &SECRETS
}
