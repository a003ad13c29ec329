//! What must always hold (I1 to I10). What a single write or render breaks is noted when it happens; what a state
//! breaks, after every step.

use crate::codec::{FIRST_FRAME, token_of};
use crate::config::Config;
use crate::state::{Body, Cause, Job, TaskAt, World};
use glassline_protocol::row::{EpisodeStatus, Status, StoryStatus, Verdict};
use glassline_protocol::transition::{JobTransition, Ours};

/// Invariants, as bits of a world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Broken {
    Own,
    Pay,
    Twice,
    Publish,
    Outcome,
    Moved,
    Room,
    Dense,
    Story,
    Echo,
    Lost,
    Ledger,
}

impl Broken {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Own => "I1 a write matches key, token and an allowed status",
            Self::Pay => "I2 no attempt while an earlier one may be rendered",
            Self::Twice => "I2 at most one accepted render per attempt",
            Self::Publish => "I3 succeeded: stored, registered, handed to QA",
            Self::Outcome => "I2/I3 an attempt that was started ends with its outcome",
            Self::Moved => "I5 Release never changes a job that has moved on",
            Self::Room => "I6 capacity, rate and budget are kept",
            Self::Dense => "I7 episodes: dense, unique, whole, counted",
            Self::Story => "I8 a story is in at most one episode that has not failed",
            Self::Echo => "I9 a duplicate has no second effect",
            Self::Lost => "I10 a lost reply to our own write costs no failure",
            Self::Ledger => "ledger: our own recorded task is no orphan and not cancelled",
        }
    }
    pub(crate) const ALL: [Self; 12] = [
        Self::Own,
        Self::Pay,
        Self::Twice,
        Self::Publish,
        Self::Outcome,
        Self::Moved,
        Self::Room,
        Self::Dense,
        Self::Story,
        Self::Echo,
        Self::Lost,
        Self::Ledger,
    ];
}

fn owned(before: &Job, ours: &Ours, from: &[Status]) -> bool {
    before.token == token_of(Some(&ours.token))
        && before.token != 0
        && u32::from(before.attempt) == ours.attempt
        && from.contains(&before.status)
}

/// Whether the design's table allows this write on this row.
fn allowed(before: &Job, transition: &JobTransition) -> bool {
    use Status::{Cancelled, Claimed, Failed, Held, Ready, Rendering, Succeeded};
    let attempt = u32::from(before.attempt);
    match transition {
        JobTransition::Claim { seen, .. } | JobTransition::Void { seen, .. } => {
            before.status == Ready && attempt == *seen
        }
        JobTransition::Accept { ours, .. } | JobTransition::Release { ours, .. } => {
            owned(before, ours, &[Claimed])
        }
        JobTransition::Start { ours, .. } => owned(before, ours, &[Claimed]) && !before.cancel,
        JobTransition::RecordTask { ours, .. } => owned(before, ours, &[Rendering, Held]) && before.task == 0,
        JobTransition::Renew { ours, seen_lease_ms, .. } => {
            owned(before, ours, &[Rendering, Held])
                && before.lease.map(crate::codec::ms) == Some(*seen_lease_ms)
        }
        JobTransition::Hold { ours, .. } => owned(before, ours, &[Rendering]),
        JobTransition::Succeed { ours, .. } => owned(before, ours, &[Rendering, Held]),
        JobTransition::Retry { ours, .. } => owned(before, ours, &[Rendering, Held]) && !before.cancel,
        JobTransition::CancelEnded { ours, .. } => owned(before, ours, &[Rendering, Held]),
        JobTransition::Fail { ours, .. } => owned(before, ours, &[Rendering, Held]),
        JobTransition::CancelClaimed { ours, .. } => owned(before, ours, &[Claimed]) && before.cancel,
        JobTransition::RequestCancel { attempt: meant } => {
            attempt == *meant && [Claimed, Rendering, Held].contains(&before.status)
        }
        JobTransition::CancelReady { attempt: meant, .. } => attempt == *meant && before.status == Ready,
        JobTransition::Requeue { attempt: meant, .. } => {
            attempt == *meant && [Failed, Cancelled, Held, Succeeded].contains(&before.status)
        }
        JobTransition::Review { attempt: meant, .. } => attempt == *meant && before.status == Succeeded,
    }
}

/// Renders of a job that are paid for and not ended without success: an output that was refused counts as that.
fn live(world: &World, job: u8) -> usize {
    let live = world.tasks.iter().filter(|task| {
        let open = match task.at {
            TaskAt::Running => true,
            TaskAt::Completed => !task.refused,
            TaskAt::Failed | TaskAt::Cancelled => false,
        };
        task.job == job && open && !task.excused
    });
    live.count()
}

/// A write of a job was applied.
pub(crate) fn on_job_write(world: &mut World, config: &Config, before: &Job, transition: &JobTransition) {
    if !allowed(before, transition) {
        world.broken(Broken::Own);
    }
    let outcome = world.outcome(before.key, before.attempt).map(|outcome| outcome.verdict);
    let accepted = world.tasks.iter().any(|task| task.job == before.key && task.attempt == before.attempt);
    match transition {
        JobTransition::Claim { .. } => {
            world.claims += u8::from(config.spend.or(config.rate).is_some());
            let most = config.spend.into_iter().chain(config.rate).min().unwrap_or(u8::MAX);
            if world.claims > most {
                world.broken(Broken::Room);
            }
        }
        JobTransition::Start { .. } if live(world, before.key) > 0 => world.broken(Broken::Pay),
        JobTransition::Release { .. } if accepted => world.broken(Broken::Moved),
        JobTransition::Succeed { .. } if outcome != Some(Verdict::Stored) => world.broken(Broken::Publish),
        JobTransition::Retry { .. } | JobTransition::Fail { .. } if outcome != Some(Verdict::Failed) => {
            world.broken(Broken::Outcome);
        }
        JobTransition::CancelEnded { .. }
            if !matches!(outcome, Some(Verdict::Failed | Verdict::Cancelled)) =>
        {
            world.broken(Broken::Outcome);
        }
        JobTransition::Start { .. }
        | JobTransition::Release { .. }
        | JobTransition::Succeed { .. }
        | JobTransition::Retry { .. }
        | JobTransition::Fail { .. }
        | JobTransition::CancelEnded { .. }
        | JobTransition::Void { .. }
        | JobTransition::Accept { .. }
        | JobTransition::RecordTask { .. }
        | JobTransition::Renew { .. }
        | JobTransition::Hold { .. }
        | JobTransition::RequestCancel { .. }
        | JobTransition::CancelReady { .. }
        | JobTransition::CancelClaimed { .. }
        | JobTransition::Requeue { .. }
        | JobTransition::Review { .. } => {}
    }
}

/// A person decided to go on without what was accepted so far. A stored output of a held job is not theirs to throw away.
pub(crate) fn on_requeue(world: &mut World, before: &Job) {
    let stored =
        world.outcome(before.key, before.attempt).is_some_and(|outcome| outcome.verdict == Verdict::Stored);
    if before.status == Status::Held && stored {
        world.broken(Broken::Publish);
    }
    world.excused.retain(|(job, _)| *job != before.key);
    world.excused.push((before.key, before.attempt));
    world.excused.sort_unstable();
    for task in world.tasks.iter_mut().filter(|task| task.job == before.key) {
        task.excused = true;
    }
}

/// The provider accepted a render.
pub(crate) fn on_accept(world: &mut World, job: u8, attempt: u8) {
    let of_attempt = world.tasks.iter().filter(|task| task.job == job && task.attempt == attempt);
    if of_attempt.count() > 1 {
        world.broken(Broken::Twice);
    }
    if live(world, job) > 1 {
        world.broken(Broken::Pay);
    }
}

impl World {
    /// Something happened that may double messages.
    pub(crate) fn echo(&mut self) {
        for at in 0..self.jobs.len() {
            self.echo_of(self.jobs[at].key);
        }
    }

    pub(crate) fn echo_of(&mut self, job: u8) {
        match self.echoes.iter_mut().find(|(of, _)| *of == job) {
            Some((_, echoes)) => *echoes += 1,
            None => self.echoes.push((job, 1)),
        }
        self.echoes.sort_unstable();
    }
}

/// What must hold in every state.
pub(crate) fn state(world: &mut World, config: &Config) {
    let mut broken = Vec::new();
    let filled = world.jobs.iter().filter(|job| job.status.fills_slot()).count();
    if filled > usize::from(config.capacity) && config.stories == 0 {
        broken.push(Broken::Room);
    }
    if config.spend.is_some_and(|spend| world.lane.micros > spend) {
        broken.push(Broken::Room);
    }
    for job in &world.jobs {
        job_state(world, config, job, &mut broken);
    }
    for &(job, task) in &world.orphans {
        let own = world
            .task(task)
            .and_then(|task| world.outcome(job, task.attempt))
            .is_some_and(|outcome| outcome.verdict == Verdict::Stored && outcome.task == task);
        if own {
            broken.push(Broken::Ledger);
        }
    }
    if config.stories > 0 {
        episodes(world, &mut broken);
    }
    for what in broken {
        world.broken(what);
    }
}

fn job_state(world: &World, config: &Config, job: &Job, broken: &mut Vec<Broken>) {
    let key = (job.key, job.attempt);
    if job.status == Status::Succeeded && config.stories == 0 {
        let stored = world.outcome(job.key, job.attempt).is_some_and(|row| row.verdict == Verdict::Stored);
        if !stored || !world.qa.contains(&key) || !world.stored.contains(&key) {
            broken.push(Broken::Publish);
        }
    }
    let orphan = world.orphans.contains(&(job.key, job.task))
        && matches!(job.status, Status::Rendering | Status::Held | Status::Succeeded)
        && world.task(job.task).is_some_and(|task| task.attempt == job.attempt);
    if orphan {
        broken.push(Broken::Ledger);
    }
    if config.only_lost {
        // One that is repeated to the end without an answer costs an attempt's number, never a failure.
        let repeats = u32::from(config.budget.lost) <= config.settings.write_repeats;
        let lost = job.failures > 0
            || (repeats && job.attempt > 1)
            || matches!(job.status, Status::Held | Status::Failed);
        if lost {
            broken.push(Broken::Lost);
        }
    }
    let chain = |body: &Body| match body {
        Body::Check { about, cause: Cause::Chain(lease), .. } => {
            about.job == job.key && about.token == job.token && Some(*lease) == job.lease
        }
        Body::Check { .. }
        | Body::Handoff { .. }
        | Body::Finish { .. }
        | Body::Rollback { .. }
        | Body::Wake { .. }
        | Body::Ended { .. } => false,
    };
    let links = world.queue.iter().filter(|msg| chain(&msg.body)).count();
    let echoes = world.echoes.iter().find(|(of, _)| *of == job.key).map_or(0, |(_, echoes)| *echoes);
    if job.status == Status::Rendering && links > 1 + usize::from(echoes) {
        broken.push(Broken::Echo);
    }
    let under_way = matches!(job.status, Status::Rendering | Status::Held);
    if under_way && world.task(job.task).is_some_and(|task| (task.job, task.attempt) != key) {
        broken.push(Broken::Ledger);
    }
}

fn episodes(world: &World, broken: &mut Vec<Broken>) {
    let dense = world.heads.iter().map(|head| head.number).eq(1..world.series.next);
    let open = world.heads.iter().filter(|head| head.status == EpisodeStatus::Open).count();
    let whole = world.heads.iter().all(|head| {
        let first = FIRST_FRAME + (head.number - 1) * 4;
        (first..first + 4).all(|frame| world.job(frame).is_some())
    });
    let frames = world.jobs.iter().filter(|job| job.key >= FIRST_FRAME).count();
    let says = world.heads.iter().all(|head| {
        let first = FIRST_FRAME + (head.number - 1) * 4;
        let mut frames = (first..first + 4).filter_map(|frame| world.job(frame)).map(|frame| frame.status);
        match head.status {
            EpisodeStatus::Open => true,
            EpisodeStatus::Complete => frames.all(|status| status == Status::Succeeded),
            EpisodeStatus::Failed => frames.any(|s| matches!(s, Status::Failed | Status::Cancelled)),
        }
    });
    if !dense || !whole || !says || frames != world.heads.len() * 4 || open != usize::from(world.series.open)
    {
        broken.push(Broken::Dense);
    }
    for story in &world.stories {
        let taken: Vec<_> = world
            .heads
            .iter()
            .filter(|head| head.story == story.key && head.status != EpisodeStatus::Failed)
            .collect();
        let says = match (story.status, taken.as_slice()) {
            (StoryStatus::Used, [head]) => story.episode == Some(head.number) && story.owner == head.owner,
            (StoryStatus::Eligible | StoryStatus::Locked | StoryStatus::Exhausted, []) => true,
            _ => false,
        };
        if !says {
            broken.push(Broken::Story);
        }
    }
}
