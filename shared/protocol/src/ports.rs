//! The ports: everything a handler asks of the world. Handlers are `async` functions over these traits and
//! deterministic given what the ports reply, time and fresh ids included, so that a model checker can replay the very
//! code that is deployed.
//!
//! The provider's port is [`crate::provider::Provider`], storage's is [`crate::vault::Vault`].

use crate::ids::{Attempt, JobKey, LaneName, Ms, Run, Token};
use crate::message::Message;
use crate::provider::ErrorClass;
use crate::row::{
    BadRow, EpisodeKey, EpisodeRow, HeadRow, JobRow, LaneRow, OrphanRow, OutcomeRow, PrimaryKey, Row,
    SeriesKey, SeriesRow, SlotKey, SlotRow, SpecRow, Status, StoryKey, StoryRow, StorySpecRow,
};
use crate::rule::When;
use crate::transition::{
    EpisodeTransition, JobTransition, LaneTransition, Ours, SeriesTransition, SlotTransition, StoryTransition,
};
use std::future::Future;

/// The answer to a conditional write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Written<R> {
    /// It happened; the row as it is now.
    Applied(R),
    /// It did not; the row as it was, or `None` when there is none.
    Refused(Option<R>),
    /// Nobody can tell (timeout, reset), or the store was too busy: repeat it, or read.
    Unknown,
}

/// A read that gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Unread {
    /// Not possible now: try again later.
    #[error("the table can't be read now")]
    Unavailable,
    /// A row is there but can't be understood.
    #[error(transparent)]
    Bad(#[from] BadRowBox),
}

/// A row that can't be understood.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{0}")]
pub struct BadRowBox(
    /// The sentence.
    pub String,
);

impl From<BadRow> for Unread {
    fn from(row: BadRow) -> Self {
        Self::Bad(BadRowBox(row.to_string()))
    }
}

/// The answer to a read.
pub type Read<T> = Result<T, Unread>;

/// A job with the outcomes of its attempts, from one consistent read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobView {
    /// The job.
    pub job: JobRow,
    /// Its outcomes, by attempt.
    pub outcomes: Vec<OutcomeRow>,
}

impl JobView {
    /// The outcome of an attempt.
    #[must_use]
    pub fn outcome(&self, attempt: Attempt) -> Option<&OutcomeRow> {
        self.outcomes.iter().find(|outcome| outcome.key.attempt == attempt)
    }
}

/// A job as the index showed it; the index may lag behind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// The job.
    pub job: JobKey,
    /// The attempt in its entry.
    pub attempt: Attempt,
    /// Its rank.
    pub rank: String,
}

/// A put of a row that must not exist yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NewRow {
    /// A job.
    Job(JobRow),
    /// A spec.
    Spec(SpecRow),
    /// A head.
    Head(HeadRow),
    /// A lane.
    Lane(LaneRow),
    /// A slot.
    Slot(SlotRow),
    /// A series.
    Series(SeriesRow),
    /// A story.
    Story(StoryRow),
    /// A story's prompts.
    StorySpec(StorySpecRow),
    /// The head of an episode.
    Episode(EpisodeRow),
}

/// One part of a transaction: a transition of a row, or a row that must not exist yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// A job's transition.
    Job(JobKey, JobTransition),
    /// A story's transition.
    Story(StoryKey, StoryTransition),
    /// A series' transition.
    Series(SeriesKey, SeriesTransition),
    /// A head's transition.
    Episode(EpisodeKey, EpisodeTransition),
    /// A new row.
    Create(Box<NewRow>),
}

/// The answer to a transaction. After anything but `Done`, read what it would have written before deciding anything: the
/// refusal may be the second half of our own lost reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Transacted {
    /// All of it happened.
    Done,
    /// None of it happened (in this try); these parts refused, by their place.
    Refused(Vec<usize>),
    /// Nobody can tell.
    Unknown,
}

/// An episode with its frames, from one consistent read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EpisodeView {
    /// Its head.
    pub head: EpisodeRow,
    /// Its frames, in order.
    pub frames: Vec<JobRow>,
}

/// The answer to a put of a new row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Created {
    /// It is there now, by us.
    Created,
    /// A row with this key is there already; it is returned.
    Exists(Box<NewRow>),
    /// Nobody can tell: repeat it.
    Unknown,
}

/// What must still be true of a job for an outcome to be put, in the same transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NotStarted {
    /// Ownership.
    pub ours: Ours,
    /// The run that must still be ours.
    pub run: Run,
}

impl NotStarted {
    /// The conditions on the job's row.
    #[must_use]
    pub fn when(&self) -> Vec<When<<JobRow as Row>::Field>> {
        crate::transition::not_started(&self.ours, &self.run)
    }
}

/// The answer to putting an outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OutcomePut {
    /// It is recorded, by us.
    Recorded,
    /// The attempt has an outcome already: this one. Follow it.
    Exists(Box<OutcomeRow>),
    /// The job is no longer as [`NotStarted`] asks (somebody else acts for the attempt, or a task was recorded).
    Moved,
    /// Nobody can tell: repeat it.
    Unknown,
}

/// The table.
pub trait Store {
    /// Changes a job, conditionally.
    fn change_job(
        &self,
        job: &JobKey,
        transition: &JobTransition,
    ) -> impl Future<Output = Written<JobRow>> + Send;
    /// Changes a slot, conditionally.
    fn change_slot(
        &self,
        slot: &SlotKey,
        transition: &SlotTransition,
    ) -> impl Future<Output = Written<SlotRow>> + Send;
    /// Changes a lane, conditionally.
    fn change_lane(
        &self,
        lane: &LaneName,
        transition: &LaneTransition,
    ) -> impl Future<Output = Written<LaneRow>> + Send;
    /// Puts an outcome if the attempt has none; with `only_if`, in one transaction with a check of the job's row.
    fn put_outcome(
        &self,
        outcome: &OutcomeRow,
        only_if: Option<&NotStarted>,
    ) -> impl Future<Output = OutcomePut> + Send;
    /// Puts an orphan row; putting it again changes nothing. `false` when nobody can tell.
    fn put_orphan(&self, orphan: &OrphanRow) -> impl Future<Output = bool> + Send;
    /// Puts a row that must not exist yet.
    fn create(&self, row: &NewRow) -> impl Future<Output = Created> + Send;
    /// A job and its outcomes, consistently, in one read.
    fn job(&self, job: &JobKey) -> impl Future<Output = Read<Option<JobView>>> + Send;
    /// Jobs by key, consistently; those that don't exist are left out. At most 100.
    fn jobs(&self, jobs: &[JobKey]) -> impl Future<Output = Read<Vec<JobRow>>> + Send;
    /// Specs by job key, consistently; those that don't exist are left out. At most 100.
    fn specs(&self, jobs: &[JobKey]) -> impl Future<Output = Read<Vec<SpecRow>>> + Send;
    /// All lanes.
    fn lanes(&self) -> impl Future<Output = Read<Vec<LaneRow>>> + Send;
    /// One lane, consistently.
    fn lane(&self, lane: &LaneName) -> impl Future<Output = Read<Option<LaneRow>>> + Send;
    /// The slots of a lane, consistently, by number.
    fn slots(&self, lane: &LaneName) -> impl Future<Output = Read<Vec<SlotRow>>> + Send;
    /// The first ready jobs of a lane, by rank, from the index.
    fn ready(&self, lane: &LaneName, limit: usize) -> impl Future<Output = Read<Vec<Candidate>>> + Send;
    /// The first retries of a lane that are due, by due time, from the index.
    fn due(
        &self,
        lane: &LaneName,
        now_ms: Ms,
        limit: usize,
    ) -> impl Future<Output = Read<Vec<Candidate>>> + Send;
    /// The held jobs of a lane whose time to be looked at has come, longest waiting first, from the index.
    fn held(
        &self,
        lane: &LaneName,
        now_ms: Ms,
        limit: usize,
    ) -> impl Future<Output = Read<Vec<Candidate>>> + Send;
    /// Makes all parts happen, or none. At most 100 parts, each of another row.
    fn transact(&self, parts: &[Part]) -> impl Future<Output = Transacted> + Send;
    /// Changes a story, conditionally.
    fn change_story(
        &self,
        story: &StoryKey,
        transition: &StoryTransition,
    ) -> impl Future<Output = Written<StoryRow>> + Send;
    /// The names of all series, from the index.
    fn all_series(&self) -> impl Future<Output = Read<Vec<SeriesKey>>> + Send;
    /// A series, consistently.
    fn series(&self, series: &SeriesKey) -> impl Future<Output = Read<Option<SeriesRow>>> + Send;
    /// The stories of a series that are eligible or locked, from the index, by key.
    fn open_stories(&self, series: &SeriesKey) -> impl Future<Output = Read<Vec<StoryKey>>> + Send;
    /// A story, consistently.
    fn story(&self, story: &StoryKey) -> impl Future<Output = Read<Option<StoryRow>>> + Send;
    /// A story's prompts, consistently.
    fn story_spec(&self, story: &StoryKey) -> impl Future<Output = Read<Option<StorySpecRow>>> + Send;
    /// An episode with its frames, consistently.
    fn episode(&self, episode: &EpisodeKey) -> impl Future<Output = Read<Option<EpisodeView>>> + Send;
    /// The open episodes of a series with the lowest numbers, from the index.
    fn open_episodes(
        &self,
        series: &SeriesKey,
        limit: usize,
    ) -> impl Future<Output = Read<Vec<EpisodeKey>>> + Send;
}

/// Which jobs a scan is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFilter {
    /// Their lane.
    pub lane: LaneName,
    /// Their status: one of these.
    pub statuses: Vec<Status>,
    /// The class of their last failure, if that matters.
    pub class: Option<ErrorClass>,
}

/// Where a scan of the table goes on. Its text is opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanCursor(
    /// The last row that was looked at.
    pub PrimaryKey,
);

impl std::fmt::Display for ScanCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(format!("{}\n{}", self.0.pk, self.0.sk)))
    }
}

impl std::str::FromStr for ScanCursor {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = "it isn't a cursor that was given out";
        let bytes = hex::decode(text).map_err(|_| bad)?;
        let text = String::from_utf8(bytes).map_err(|_| bad)?;
        let (pk, sk) =
            text.split_once('\n').filter(|(pk, sk)| !pk.is_empty() && !sk.is_empty()).ok_or(bad)?;
        // The longest keys that DynamoDB has.
        if pk.len() > 2_048 || sk.len() > 1_024 {
            return Err(bad);
        }
        Ok(Self(PrimaryKey { pk: pk.to_owned(), sk: sk.to_owned() }))
    }
}

/// A part of what a scan finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPage {
    /// Jobs; perhaps none, though more come later.
    pub jobs: Vec<JobRow>,
    /// Where it goes on; `None` at its end.
    pub cursor: Option<ScanCursor>,
}

/// A look through the whole table, for what people ask of many jobs at once: no index leads to jobs that have ended.
pub trait JobScan {
    /// The next jobs of a filter, at most `limit`. Not consistent: whoever acts on a job reads it again.
    fn scan_jobs(
        &self,
        filter: &JobFilter,
        cursor: Option<&ScanCursor>,
        limit: usize,
    ) -> impl Future<Output = Read<JobPage>> + Send;
}

/// What became of the request to move dead letters back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redriven {
    /// They are on their way.
    Started,
    /// There is no dead-letter queue of this name.
    Missing,
    /// Not possible now: the service's error code.
    Refused(String),
}

/// The dead-letter queues, for people.
pub trait DeadLetters {
    /// The names of those that can be emptied this way.
    fn names(&self) -> Vec<String>;
    /// Starts to move the messages of a dead-letter queue back to where they came from.
    fn redrive(&self, queue: &str) -> impl Future<Output = Redriven> + Send;
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// The message.
    pub message: Message,
    /// Delivered no earlier than this, in milliseconds from now; queues round up to seconds and cap at 900 s.
    pub delay_ms: u64,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sent {
    /// The queue has it.
    Accepted,
    /// The queue does not have it.
    Refused,
    /// Nobody can tell.
    Unknown,
}

/// The queues.
pub trait Queues {
    /// Sends messages, each to the queue of its kind, batched; answers in the same order.
    fn send(&self, envelopes: Vec<Envelope>) -> impl Future<Output = Vec<Sent>> + Send;
}

/// Time and fresh ids. Plain functions: nothing is waited for.
pub trait Local {
    /// Now, in epoch milliseconds.
    fn now_ms(&self) -> Ms;
    /// A fresh token, 128 random bits.
    fn fresh_token(&self) -> Token;
    /// A fresh run, 64 random bits.
    fn fresh_run(&self) -> Run;
    /// A random number below `bound`, every one equally likely; 0 when `bound` is 0.
    fn random_below(&self, bound: u64) -> u64;
}
