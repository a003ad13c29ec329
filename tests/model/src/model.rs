//! The model: what can happen in a state, and what comes of it.

use crate::action::{Action, FrameEnd, How};
use crate::check::{self, Broken};
use crate::choices::{apart, hows};
use crate::config::{Config, NEVER, Tier};
use crate::env::Answer;
use crate::live;
use crate::queues::{give_back, reader};
use crate::replay::{End, Fresh, replay};
use crate::seen::Seen;
use crate::state::{Body, Cause, Ghost, Inv, Job, Kind, Msg, Place, Slot, Story, T, TaskAt, Who, World};
use glassline_protocol::row::{EpisodeStatus, Status, StoryStatus};
use stateright::{Model, Property};

/// A configuration to be checked, with what was seen of it.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) config: Config,
    pub(crate) seen: Seen,
}

impl Checked {
    /// To be checked.
    #[must_use]
    pub(crate) fn new(config: Config) -> Self {
        Self { config, seen: Seen::default() }
    }

    pub(crate) fn first(&self) -> World {
        let config = &self.config;
        let job = |key| Job {
            key,
            status: Status::Ready,
            attempt: 0,
            failures: 0,
            token: 0,
            run: 0,
            slot: None,
            lease: None,
            started: None,
            accepted: false,
            task: 0,
            error: None,
            reason: false,
            cancel: false,
            qa: None,
            ended: false,
            place: Place::Ready { attempt: 0 },
        };
        let story = |key| Story {
            key,
            status: StoryStatus::Eligible,
            owner: 0,
            expires: None,
            episode: None,
            failures: 0,
            listed: true,
        };
        World {
            jobs: (0..config.jobs).map(job).collect(),
            outcomes: Vec::new(),
            slots: (0..config.capacity)
                .map(|number| Slot { number, job: None, attempt: 0, token: 0, since: 0 })
                .collect(),
            lane: crate::config::NEW_LANE,
            series: crate::state::Series { next: 1, open: 0 },
            stories: (0..config.stories).map(story).collect(),
            heads: Vec::new(),
            orphans: Vec::new(),
            queue: Vec::new(),
            running: Vec::new(),
            ghosts: Vec::new(),
            tasks: Vec::new(),
            stored: Vec::new(),
            qa: Vec::new(),
            left: config.budget,
            excused: Vec::new(),
            echoes: Vec::new(),
            claims: 0,
            bad: 0,
            tokens: 0,
            runs: 0,
        }
    }
}

impl Checked {
    fn calls(&self, world: &World, at: usize, out: &mut Vec<Action>) {
        let inv = &world.running[at];
        let place = crate::codec::small(at);
        for &(call, kind) in &inv.wants {
            let draws = if kind == Kind::Draw { self.config.stories.max(1) } else { 1 };
            for how in hows(world, kind) {
                out.extend((0..draws).map(|random| Action::Call(place, call, how, random)));
            }
        }
    }

    /// Until when the clock may not reach: an assumption of the protocol, that a worker isn't frozen for longer between
    /// its look at the lease and its POST, and that no POST is under way for longer.
    fn frozen(&self, world: &World) -> T {
        let running = world.running.iter().flat_map(|inv| inv.wants.iter().map(|(_, kind)| *kind));
        let kinds = running.chain(world.ghosts.iter().map(|ghost| ghost.kind));
        let limit = kinds.filter_map(|kind| match kind {
            Kind::Submit(job, attempt) => {
                let row = world.job(job).filter(|row| row.attempt == attempt)?;
                let started = row.started?;
                match self.config.tier {
                    Tier::Lookup => crate::provider::settled(world, &self.config, job, attempt),
                    Tier::Key => Some(started + i16::try_from(self.config.times.key_lifetime).unwrap()),
                    Tier::Callback | Tier::None => None,
                }
            }
            _ => None,
        });
        limit.min().unwrap_or(T::MAX)
    }

    /// How far to the next thing that is due.
    pub(crate) fn step(&self, world: &World) -> Option<T> {
        let leases = world.jobs.iter().filter(|job| job.status.fills_slot()).filter_map(|job| job.lease);
        let places = world.jobs.iter().filter_map(|job| match job.place {
            Place::Later { due: time, .. } | Place::Held { at: time, .. } => Some(time),
            Place::None | Place::Ready { .. } => None,
        });
        let reserved = world.slots.iter().filter(|slot| {
            let job = slot.job.and_then(|key| world.job(key));
            job.is_some_and(|job| job.status == Status::Ready && job.attempt == slot.attempt)
        });
        let reservation = i16::try_from(self.config.settings.reservation_ms).unwrap();
        let stories = world.stories.iter().filter_map(|story| story.expires.map(|time| time + 1));
        let deadlines = world.jobs.iter().filter(|job| job.status == Status::Rendering && job.task != 0);
        let deadline = i16::try_from(self.config.times.deadline.min(NEVER)).unwrap();
        let all = leases
            .chain(places)
            .chain(reserved.map(|slot| slot.since + reservation))
            .chain(stories)
            .chain(deadlines.filter_map(|job| job.started.map(|started| started + deadline)))
            .chain(world.lane.paused_until)
            .chain(world.queue.iter().map(|msg| msg.due));
        let by = all.filter(|time| (1..500).contains(time)).min()?;
        (by < self.frozen(world)).then_some(by)
    }

    fn provider_acts(world: &World, out: &mut Vec<Action>) {
        let left = &world.left;
        for (at, task) in world.tasks.iter().enumerate() {
            let at = crate::codec::small(at);
            if task.at == TaskAt::Running && !task.dropped {
                out.push(Action::Complete(at));
                if left.fail > 0 {
                    out.push(Action::FailTask(at));
                }
                if left.foreign > 0 {
                    out.push(Action::CancelTask(at));
                }
            }
            if left.callback > 0 {
                out.push(Action::Callback(at));
            }
        }
    }

    fn people_act(&self, world: &World, out: &mut Vec<Action>) {
        let left = &world.left;
        let room = world.running.len() < usize::from(self.config.procs);
        for job in &world.jobs {
            if left.cancel > 0 && !job.status.ended() && !job.cancel {
                out.push(Action::Cancel(job.key));
            }
            let again =
                matches!(job.status, Status::Failed | Status::Cancelled | Status::Held | Status::Succeeded);
            if left.requeue > 0 && room && again && self.config.stories == 0 {
                out.push(Action::Requeue(job.key));
            }
            if left.review > 0 && job.qa == Some(glassline_protocol::row::QaState::Pending) {
                out.extend([Action::Review(job.key, true), Action::Review(job.key, false)]);
            }
            if left.outside > 0 && job.status == Status::Claimed {
                out.extend([Action::Accept(job.key), Action::ReleaseOutside(job.key)]);
            }
            if self.config.stories > 0 {
                match job.status {
                    Status::Ready => out.push(Action::FrameStarts(job.key)),
                    Status::Rendering => {
                        out.push(Action::FrameEnds(job.key, FrameEnd::Succeeded));
                        if left.framefail > 0 {
                            out.push(Action::FrameEnds(job.key, FrameEnd::Failed));
                        }
                        if job.cancel {
                            out.push(Action::FrameEnds(job.key, FrameEnd::Cancelled));
                        }
                    }
                    Status::Claimed
                    | Status::Held
                    | Status::Succeeded
                    | Status::Failed
                    | Status::Cancelled => {}
                }
            }
        }
        for head in &world.heads {
            if left.reopen > 0 && room && head.status == EpisodeStatus::Failed {
                out.push(Action::Reopen(head.number));
            }
        }
    }

    fn begin(&self, world: &mut World, who: Who, msg: Option<Msg>) {
        let mut inv = Inv { who, msg, log: Vec::new(), wants: Vec::new() };
        self.go_on(world, &mut inv, None, |_, _| None);
        let Some((call, kind)) = inv.wants.first().copied() else { return };
        world.running.push(inv);
        // The delivery and a first read are one step: nobody sees an invocation that has not looked at anything yet.
        if kind == Kind::Read && world.running.last().is_some_and(|inv| inv.wants.len() == 1) {
            let at = world.running.len() - 1;
            self.call(world, at, call, How::Answered(Answer::Plain), 0);
        }
    }

    /// Replays an invocation that is not in the state's list at the moment, and acts on its end. `false`: it ended.
    fn go_on(
        &self,
        world: &mut World,
        inv: &mut Inv,
        call: Option<(u8, u8)>,
        mut answer: impl FnMut(&mut World, &crate::ports::Op) -> Option<crate::state::Reply>,
    ) -> bool {
        let mut fresh =
            Fresh { tokens: world.tokens, runs: world.runs, random: call.map_or(0, |(_, random)| random) };
        let end = replay(&self.config, inv, &mut fresh, call.map(|(call, _)| call), |op| answer(world, op));
        (world.tokens, world.runs) = (fresh.tokens, fresh.runs);
        match end {
            None => true,
            Some(End::Done(note)) => {
                self.seen.note(&note);
                false
            }
            Some(End::GivenBack(_)) => {
                if let Some(msg) = inv.msg {
                    give_back(world, &self.config, msg);
                }
                false
            }
        }
    }

    fn call(&self, world: &mut World, at: usize, call: u8, how: How, random: u8) {
        let mut inv = world.running.remove(at);
        let kind = inv.wants.iter().find(|(id, _)| *id == call).map(|(_, kind)| *kind);
        self.spend(world, kind, how);
        if how == How::Late {
            world.ghosts.push(Ghost { inv: inv.clone(), call, kind: kind.unwrap() });
        }
        let goes_on = self.go_on(world, &mut inv, Some((call, random)), |world, op| match how {
            How::Answered(answer) => Some(world.apply(&self.config, op, answer)),
            How::LostRequest | How::Late => Some(self.unknown(world, op, false)),
            How::LostReply => Some(self.unknown(world, op, true)),
            How::CrashAfter => {
                world.apply(&self.config, op, Answer::Plain);
                None
            }
        });
        if how == How::CrashAfter || (how == How::LostReply && kind == Some(Kind::Send)) {
            world.echo();
        }
        match (how, goes_on) {
            (How::CrashAfter, _) => {
                if let Some(msg) = inv.msg {
                    give_back(world, &self.config, msg);
                }
            }
            (_, true) => world.running.push(inv),
            (_, false) => {}
        }
    }

    fn unknown(&self, world: &mut World, op: &crate::ports::Op, applied: bool) -> crate::state::Reply {
        if applied {
            world.apply(&self.config, op, Answer::Plain);
        }
        if self.config.is("an unknown submit is sent again") && matches!(op, crate::ports::Op::Submit(..)) {
            return world.apply(&self.config, op, Answer::Plain);
        }
        crate::state::Reply::Unknown
    }

    fn spend(&self, world: &mut World, kind: Option<Kind>, how: How) {
        let left = &mut world.left;
        let budget = match (how, kind) {
            (How::CrashAfter, _) => &mut left.crash,
            (How::Answered(Answer::Plain), _) => return,
            (How::Answered(Answer::Other(n)), Some(Kind::Submit(..))) => match n {
                0 => &mut left.reject,
                1 => &mut left.throttle,
                _ => &mut left.drop,
            },
            (How::Answered(Answer::Other(0)), Some(Kind::Find(..))) => &mut left.lag,
            (How::Answered(Answer::Other(_)), Some(Kind::Status(_) | Kind::Find(..))) => &mut left.mute,
            (How::Answered(Answer::Other(_)), Some(Kind::Cancel(_))) => &mut left.refuse,
            (How::Answered(Answer::Other(n)), Some(Kind::Save(_))) => match n {
                0 => &mut left.badout,
                1 => &mut left.barred,
                _ => &mut left.expired,
            },
            (How::Answered(Answer::Other(_)), _) => &mut left.stale,
            (_, Some(Kind::Submit(..))) => &mut left.submit,
            (_, Some(Kind::Send | Kind::Handoffs)) => &mut left.unsent,
            (How::Late, _) => &mut left.late,
            (How::LostRequest | How::LostReply, _) => &mut left.lost,
        };
        *budget = budget.saturating_sub(1);
    }

    fn deliver(&self, world: &mut World, at: usize, copy: bool) {
        let msg = if copy { world.queue[at] } else { world.queue.remove(at) };
        if copy {
            world.left.dup = world.left.dup.saturating_sub(1);
            world.echo();
        }
        self.begin(world, reader(&msg), Some(msg));
    }

    fn land(&self, world: &mut World, at: usize) {
        let mut ghost = world.ghosts.remove(at);
        let mut fresh = Fresh { tokens: world.tokens, runs: world.runs, random: 0 };
        replay(&self.config, &mut ghost.inv, &mut fresh, Some(ghost.call), |op| {
            world.apply(&self.config, op, Answer::Plain);
            None
        });
    }

    fn act(&self, world: &mut World, action: Action) {
        match action {
            Action::Deliver(at) => self.deliver(world, usize::from(at), false),
            Action::DeliverCopy(at) => self.deliver(world, usize::from(at), true),
            Action::Call(at, call, how, random) => self.call(world, usize::from(at), call, how, random),
            Action::CrashBefore(at) => {
                world.left.crash = world.left.crash.saturating_sub(1);
                let msg = world.queue.remove(usize::from(at));
                give_back(world, &self.config, msg);
            }
            Action::Land(at) => self.land(world, usize::from(at)),
            Action::Tick => {
                if !world.quiet() {
                    world.left.tick = world.left.tick.saturating_sub(1);
                }
                self.begin(world, Who::Tick, None);
            }
            Action::Clock => {
                if !world.quiet() {
                    world.left.early = world.left.early.saturating_sub(1);
                }
                if let Some(by) = self.step(world) {
                    world.pass(by);
                }
            }
            Action::Complete(at) => world.tasks[usize::from(at)].at = TaskAt::Completed,
            Action::FailTask(at) => {
                world.left.fail = world.left.fail.saturating_sub(1);
                world.tasks[usize::from(at)].at = TaskAt::Failed;
            }
            Action::CancelTask(at) => {
                world.left.foreign = world.left.foreign.saturating_sub(1);
                world.tasks[usize::from(at)].at = TaskAt::Cancelled;
            }
            Action::Callback(at) => {
                world.left.callback = world.left.callback.saturating_sub(1);
                let task = world.tasks[usize::from(at)];
                if let Some(about) = crate::people::about(world, task.job) {
                    world.push(Body::Check { about, cause: Cause::Callback, resumes: 0, tries: 0 }, 0);
                }
            }
            Action::Requeue(job) => {
                world.left.requeue = world.left.requeue.saturating_sub(1);
                self.begin(world, Who::Requeue(job), None);
            }
            Action::Reopen(number) => {
                world.left.reopen = world.left.reopen.saturating_sub(1);
                self.begin(world, Who::Reopen(number), None);
            }
            Action::Cancel(_)
            | Action::Review(..)
            | Action::Accept(_)
            | Action::ReleaseOutside(_)
            | Action::FrameStarts(_)
            | Action::FrameEnds(..) => crate::people::act(world, &self.config, action),
        }
    }
}

impl Model for Checked {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.first()]
    }

    fn actions(&self, world: &World, out: &mut Vec<Action>) {
        if world.bad != 0 {
            return;
        }
        let alone = world
            .running
            .iter()
            .position(|inv| inv.wants.len() == 1 && inv.wants.iter().all(|(_, kind)| apart(world, *kind)));
        if let Some(at) = alone {
            self.calls(world, at, out);
            return;
        }
        for at in 0..world.running.len() {
            self.calls(world, at, out);
        }
        let room = world.running.len() < usize::from(self.config.procs);
        if room {
            let mut before = None;
            for (at, msg) in world.queue.iter().enumerate() {
                // Two equal messages: delivering either is the same.
                if msg.due <= 0 && before != Some(msg) {
                    out.push(Action::Deliver(crate::codec::small(at)));
                    if world.left.dup > 0 {
                        out.push(Action::DeliverCopy(crate::codec::small(at)));
                    }
                    if world.left.crash > 0 {
                        out.push(Action::CrashBefore(crate::codec::small(at)));
                    }
                }
                before = Some(msg);
            }
        }
        out.extend((0..world.ghosts.len()).map(|at| Action::Land(crate::codec::small(at))));
        let quiet = world.quiet();
        if room && (quiet || world.left.tick > 0) {
            out.push(Action::Tick);
        }
        if (quiet || world.left.early > 0) && self.step(world).is_some() {
            out.push(Action::Clock);
        }
        Self::provider_acts(world, out);
        self.people_act(world, out);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        self.go(&mut world, action);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        crate::properties::properties(&self.config)
    }
}

impl Checked {
    /// One step, checked and brought into its normal form.
    pub(crate) fn go(&self, world: &mut World, action: Action) {
        self.act(world, action);
        check::state(world, &self.config);
        world.normalise(&self.config);
    }

    /// Whether a fair course of events without further trouble ends every job, from here.
    pub(crate) fn ends_well(&self, world: &World) -> bool {
        live::ends_well(self, world)
    }

    pub(crate) fn holds(&self, world: &World, what: Broken) -> bool {
        world.bad & (1 << what as u32) == 0
    }
}
