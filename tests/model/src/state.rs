//! The state of the modelled world, small and without text, so that it is cheap to copy, to compare and to bring into a
//! normal form. `codec` turns its parts into the real rows and messages and back.
//!
//! Times are relative to now. Tokens, runs and tasks are small numbers, 0 for none.

use crate::budget::Budget;
use glassline_protocol::provider::ErrorClass;
use glassline_protocol::row::outcome::Cost;
use glassline_protocol::row::{EpisodeStatus, QaState, Status, StoryStatus, Verdict};

/// A time relative to now.
pub(crate) type T = i16;

/// A job's place in the index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Place {
    None,
    Ready { attempt: u8 },
    Later { due: T, attempt: u8 },
    Held { at: T, attempt: u8 },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Job {
    pub(crate) key: u8,
    pub(crate) status: Status,
    pub(crate) attempt: u8,
    pub(crate) failures: u8,
    pub(crate) token: u8,
    pub(crate) run: u8,
    pub(crate) slot: Option<u8>,
    pub(crate) lease: Option<T>,
    pub(crate) started: Option<T>,
    pub(crate) accepted: bool,
    pub(crate) task: u8,
    pub(crate) error: Option<ErrorClass>,
    pub(crate) reason: bool,
    pub(crate) cancel: bool,
    pub(crate) qa: Option<QaState>,
    pub(crate) ended: bool,
    pub(crate) place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Outcome {
    pub(crate) job: u8,
    pub(crate) attempt: u8,
    pub(crate) verdict: Verdict,
    pub(crate) class: Option<ErrorClass>,
    pub(crate) counted: bool,
    pub(crate) at: T,
    pub(crate) retry_at: Option<T>,
    pub(crate) task: u8,
    pub(crate) cost: Cost,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Slot {
    pub(crate) number: u8,
    pub(crate) job: Option<u8>,
    pub(crate) attempt: u8,
    pub(crate) token: u8,
    pub(crate) since: T,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Lane {
    pub(crate) paused_until: Option<T>,
    pub(crate) counted: bool,
    pub(crate) starts: u8,
    pub(crate) micros: u8,
    pub(crate) by: u8,
    pub(crate) rev: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Series {
    pub(crate) next: u8,
    pub(crate) open: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Story {
    pub(crate) key: u8,
    pub(crate) status: StoryStatus,
    pub(crate) owner: u8,
    pub(crate) expires: Option<T>,
    pub(crate) episode: Option<u8>,
    pub(crate) failures: u8,
    pub(crate) listed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Head {
    pub(crate) number: u8,
    pub(crate) status: EpisodeStatus,
    pub(crate) story: u8,
    pub(crate) owner: u8,
    pub(crate) opened: u8,
    pub(crate) reason: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) struct About {
    pub(crate) job: u8,
    pub(crate) attempt: u8,
    pub(crate) token: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) enum Cause {
    Chain(T),
    Resume,
    Callback,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) enum Why {
    Unsent,
    LeaseOver,
    Held,
}

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) enum Body {
    Handoff {
        about: About,
        slot: u8,
    },
    Check {
        about: About,
        cause: Cause,
        resumes: u8,
        tries: u8,
    },
    Finish {
        about: About,
        task: u8,
        outputs: bool,
        resumes: u8,
    },
    Rollback {
        about: About,
        why: Why,
    },
    Wake {
        freed: Option<(u8, u8)>,
    },
    /// Stands for whatever ended a frame and owes its parent step (episode configurations).
    Ended {
        job: u8,
    },
}

/// A message in a queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) struct Msg {
    pub(crate) body: Body,
    /// Not delivered before this.
    pub(crate) due: T,
    /// Deliveries so far.
    pub(crate) receives: u8,
    /// In a dead-letter queue.
    pub(crate) dead: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) enum TaskAt {
    Running,
    Completed,
    Failed,
    Cancelled,
}

/// A render that the provider accepted: the provider's own books.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) struct Task {
    pub(crate) job: u8,
    pub(crate) attempt: u8,
    pub(crate) at: TaskAt,
    /// Its output was refused by our vault.
    pub(crate) refused: bool,
    /// The provider lost it after accepting it.
    pub(crate) dropped: bool,
    /// A person decided to go on without it.
    pub(crate) excused: bool,
    /// Since when it can be found by reference.
    pub(crate) visible: T,
}

/// What was recorded of an invocation: what its ports answered, in order. It is replayed to find its next call.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Entry {
    /// The answer to the call of this number.
    Done(u8, Reply),
    Token(u8),
    Run(u8),
    Random(u8),
    /// The clock went on by this much.
    Clock(T),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Reply {
    Unknown,
    /// Applied or refused, and the row.
    Job(bool, Option<Job>),
    Slot(bool, Option<Slot>),
    Lane(bool, Option<Lane>),
    Story(bool, Option<Story>),
    Recorded,
    Exists(Outcome),
    Moved,
    Orphaned,
    View(Option<Job>, Vec<Outcome>),
    Jobs(Vec<Job>),
    Slots(Vec<Slot>),
    Candidates(Vec<(u8, u8)>),
    /// Held jobs: attempt and next look.
    HeldJobs(Vec<(u8, u8, T)>),
    LaneRow(Lane),
    Specs,
    Done,
    Refused,
    SeriesRow(Series),
    Stories(Vec<u8>),
    StoryRow(Option<Story>),
    Episode(Option<Head>, Vec<Job>),
    Episodes(Vec<u8>),
    Sent,
    Accepted(u8),
    Rejected(ErrorClass),
    Status(TaskAt),
    Missing,
    Found(u8),
    NotFound,
    CancelRequested,
    CancelEnded,
    Saved,
    SaveRefused,
    SaveBarred,
    SaveExpired,
}

/// Which function runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) enum Who {
    /// The schedule's tick of dispatch.
    Tick,
    /// Dispatch, for a wake.
    Waker,
    Worker,
    Finisher,
    Rollback,
    /// The parent step of an ended frame.
    Parent,
    /// A person asks for another attempt of a job.
    Requeue(u8),
    /// A person reopens an episode.
    Reopen(u8),
}

/// What kind of call an invocation waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    Read,
    Query,
    /// The query of the stories, after which one is drawn.
    Draw,
    Write,
    Tx,
    Send,
    Handoffs,
    Orphan,
    Specs,
    Submit(u8, u8),
    Status(u8),
    Find(u8, u8),
    Cancel(u8),
    Save(u8),
}

/// An invocation of a function under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Inv {
    pub(crate) who: Who,
    pub(crate) msg: Option<Msg>,
    pub(crate) log: Vec<Entry>,
    /// The calls it waits for: number and kind.
    pub(crate) wants: Vec<(u8, Kind)>,
}

/// A request that its caller gave up on and that arrives later: the invocation as it was, and the call.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ghost {
    pub(crate) inv: Inv,
    pub(crate) call: u8,
    pub(crate) kind: Kind,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    pub(crate) jobs: Vec<Job>,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) lane: Lane,
    pub(crate) series: Series,
    pub(crate) stories: Vec<Story>,
    pub(crate) heads: Vec<Head>,
    /// Orphan rows: job and task.
    pub(crate) orphans: Vec<(u8, u8)>,
    pub(crate) queue: Vec<Msg>,
    pub(crate) running: Vec<Inv>,
    pub(crate) ghosts: Vec<Ghost>,
    pub(crate) tasks: Vec<Task>,
    /// Objects in storage: job and attempt.
    pub(crate) stored: Vec<(u8, u8)>,
    /// QA has a message of these: job and attempt.
    pub(crate) qa: Vec<(u8, u8)>,
    pub(crate) left: Budget,
    /// Attempts up to this one of this job were given up by a person.
    pub(crate) excused: Vec<(u8, u8)>,
    /// Troubles since a job's lease was last written that may have doubled a message about it.
    pub(crate) echoes: Vec<(u8, u8)>,
    /// Claims so far, where the lane has a budget.
    pub(crate) claims: u8,
    /// Invariants that were broken, as bits.
    pub(crate) bad: u32,
    pub(crate) tokens: u8,
    pub(crate) runs: u8,
}

impl World {
    pub(crate) fn job(&self, key: u8) -> Option<&Job> {
        self.jobs.iter().find(|job| job.key == key)
    }
    pub(crate) fn outcome(&self, job: u8, attempt: u8) -> Option<&Outcome> {
        self.outcomes.iter().find(|outcome| outcome.job == job && outcome.attempt == attempt)
    }
    pub(crate) fn task(&self, task: u8) -> Option<&Task> {
        self.tasks.get(usize::from(task).wrapping_sub(1))
    }
    pub(crate) fn quiet(&self) -> bool {
        self.running.is_empty() && self.ghosts.is_empty() && self.queue.iter().all(|msg| msg.due > 0)
    }
}
