//! The normal form: equal situations become equal states. Tokens, runs and tasks are numbered by where they appear
//! first, queues and invocations are sorted, times are relative to now, and what no decision can depend on any more is
//! left out.

use crate::config::Config;
use crate::state::{
    About, Body, Cause, Entry, Ghost, Head, Inv, Job, Lane, Msg, Outcome, Place, Reply, Slot, Story, T, World,
};
use glassline_protocol::row::Status;

/// What a time is, as far as it decides how much of it matters once it has passed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Time {
    Lease,
    Started,
    Due,
    Since,
    At,
    Expires,
}

/// Sees every token, run, task and time of a state, in one fixed order.
trait Visitor {
    fn time(&mut self, _what: Time, _time: &mut T) {}
    fn token(&mut self, _token: &mut u8) {}
    fn run(&mut self, _run: &mut u8) {}
    fn task(&mut self, _task: &mut u8) {}
}

fn optional(v: &mut impl Visitor, what: Time, time: &mut Option<T>) {
    if let Some(time) = time {
        v.time(what, time);
    }
}

fn job(v: &mut impl Visitor, job: &mut Job) {
    v.token(&mut job.token);
    v.run(&mut job.run);
    v.task(&mut job.task);
    optional(v, Time::Lease, &mut job.lease);
    optional(v, Time::Started, &mut job.started);
    match &mut job.place {
        Place::Later { due: time, .. } | Place::Held { at: time, .. } => v.time(Time::Due, time),
        Place::None | Place::Ready { .. } => {}
    }
}

fn outcome(v: &mut impl Visitor, outcome: &mut Outcome) {
    v.task(&mut outcome.task);
    v.time(Time::At, &mut outcome.at);
    optional(v, Time::Due, &mut outcome.retry_at);
}

fn slot(v: &mut impl Visitor, slot: &mut Slot) {
    v.token(&mut slot.token);
    v.time(Time::Since, &mut slot.since);
}

fn lane(v: &mut impl Visitor, lane: &mut Lane) {
    v.run(&mut lane.by);
    optional(v, Time::Due, &mut lane.paused_until);
}

fn story(v: &mut impl Visitor, story: &mut Story) {
    v.token(&mut story.owner);
    optional(v, Time::Expires, &mut story.expires);
}

fn head(v: &mut impl Visitor, head: &mut Head) {
    v.token(&mut head.owner);
}

fn about(v: &mut impl Visitor, about: &mut About) {
    v.token(&mut about.token);
}

fn body(v: &mut impl Visitor, body: &mut Body) {
    match body {
        Body::Handoff { about: of, .. } | Body::Rollback { about: of, .. } => about(v, of),
        Body::Check { about: of, cause, .. } => {
            about(v, of);
            if let Cause::Chain(lease) = cause {
                v.time(Time::Lease, lease);
            }
        }
        Body::Finish { about: of, task, .. } => {
            about(v, of);
            v.task(task);
        }
        Body::Wake { freed } => {
            if let Some((_, token)) = freed {
                v.token(token);
            }
        }
        Body::Ended { .. } => {}
    }
}

fn message(v: &mut impl Visitor, msg: &mut Msg) {
    body(v, &mut msg.body);
    v.time(Time::Due, &mut msg.due);
}

fn reply(v: &mut impl Visitor, reply: &mut Reply) {
    match reply {
        Reply::Job(_, row) => row.iter_mut().for_each(|row| job(v, row)),
        Reply::Slot(_, row) => row.iter_mut().for_each(|row| slot(v, row)),
        Reply::Lane(_, row) => row.iter_mut().for_each(|row| lane(v, row)),
        Reply::Story(_, row) | Reply::StoryRow(row) => row.iter_mut().for_each(|row| story(v, row)),
        Reply::Exists(row) => outcome(v, row),
        Reply::View(row, outcomes) => {
            row.iter_mut().for_each(|row| job(v, row));
            outcomes.iter_mut().for_each(|row| outcome(v, row));
        }
        Reply::Jobs(rows) => rows.iter_mut().for_each(|row| job(v, row)),
        Reply::Slots(rows) => rows.iter_mut().for_each(|row| slot(v, row)),
        Reply::LaneRow(row) => lane(v, row),
        Reply::Episode(row, frames) => {
            row.iter_mut().for_each(|row| head(v, row));
            frames.iter_mut().for_each(|row| job(v, row));
        }
        Reply::HeldJobs(jobs) => jobs.iter_mut().for_each(|(_, _, at)| v.time(Time::Due, at)),
        Reply::Accepted(task) | Reply::Found(task) => v.task(task),
        Reply::Unknown
        | Reply::Recorded
        | Reply::Moved
        | Reply::Orphaned
        | Reply::Candidates(_)
        | Reply::Specs
        | Reply::Done
        | Reply::Refused
        | Reply::SeriesRow(_)
        | Reply::Stories(_)
        | Reply::Episodes(_)
        | Reply::Sent
        | Reply::Rejected(_)
        | Reply::Status(_)
        | Reply::Missing
        | Reply::NotFound
        | Reply::CancelRequested
        | Reply::CancelEnded
        | Reply::Saved
        | Reply::SaveRefused
        | Reply::SaveBarred
        | Reply::SaveExpired => {}
    }
}

fn inv(v: &mut impl Visitor, inv: &mut Inv) {
    if let Some(msg) = &mut inv.msg {
        body(v, &mut msg.body);
    }
    for entry in &mut inv.log {
        match entry {
            Entry::Done(_, answer) => reply(v, answer),
            Entry::Token(token) => v.token(token),
            Entry::Run(run) => v.run(run),
            Entry::Random(_) | Entry::Clock(_) => {}
        }
    }
    for (_, kind) in &mut inv.wants {
        wanted(v, kind);
    }
}

fn wanted(v: &mut impl Visitor, kind: &mut crate::state::Kind) {
    use crate::state::Kind;
    if let Kind::Status(task) | Kind::Cancel(task) = kind {
        v.task(task);
    }
}

fn ghost(v: &mut impl Visitor, ghost: &mut Ghost) {
    inv(v, &mut ghost.inv);
    wanted(v, &mut ghost.kind);
}

/// Rows and messages; what invocations recorded is another matter.
fn rows(v: &mut impl Visitor, world: &mut World) {
    world.jobs.iter_mut().for_each(|row| job(v, row));
    world.slots.iter_mut().for_each(|row| slot(v, row));
    world.outcomes.iter_mut().for_each(|row| outcome(v, row));
    lane(v, &mut world.lane);
    world.stories.iter_mut().for_each(|row| story(v, row));
    world.heads.iter_mut().for_each(|row| head(v, row));
    world.orphans.iter_mut().for_each(|(_, task)| v.task(task));
    world.queue.iter_mut().for_each(|msg| message(v, msg));
}

fn invocations(v: &mut impl Visitor, world: &mut World) {
    world.running.iter_mut().for_each(|running| inv(v, running));
    world.ghosts.iter_mut().for_each(|old| ghost(v, old));
}

struct Shift(T);
impl Visitor for Shift {
    fn time(&mut self, _what: Time, time: &mut T) {
        *time = time.saturating_sub(self.0);
    }
}

/// Cuts what has passed so long ago that nothing depends on how long. Only while nobody is under way, for an invocation
/// may still compare with what was now when it began.
struct Cut<'a> {
    config: &'a Config,
    leases: Vec<T>,
}
impl Visitor for Cut<'_> {
    fn time(&mut self, what: Time, time: &mut T) {
        let settings = &self.config.settings;
        let ago = |ms: u64| -i16::try_from(ms).unwrap();
        match what {
            Time::Lease => {
                if let Some(place) = self.leases.iter().position(|lease| lease == time) {
                    *time = -i16::try_from(place).unwrap();
                }
            }
            Time::Started => *time = (*time).max(-self.config.started_matters()),
            Time::Due => *time = (*time).max(0),
            Time::Since => *time = (*time).max(ago(settings.reservation_ms)),
            Time::At => *time = (*time).max(ago(settings.retry_max_ms)),
            Time::Expires => *time = (*time).max(-1),
        }
    }
}

#[derive(Default)]
struct Past(Vec<T>);
impl Visitor for Past {
    fn time(&mut self, what: Time, time: &mut T) {
        if what == Time::Lease && *time <= 0 && !self.0.contains(time) {
            self.0.push(*time);
        }
    }
}

struct Rename {
    tokens: [u8; 64],
    runs: [u8; 64],
    tokens_used: u8,
    runs_used: u8,
    tasks: [u8; 64],
}
fn renamed(map: &mut [u8; 64], used: &mut u8, name: &mut u8) {
    if *name == 0 {
        return;
    }
    let place = &mut map[usize::from(*name)];
    if *place == 0 {
        *used += 1;
        *place = *used;
    }
    *name = *place;
}
impl Visitor for Rename {
    fn token(&mut self, token: &mut u8) {
        renamed(&mut self.tokens, &mut self.tokens_used, token);
    }
    fn run(&mut self, run: &mut u8) {
        renamed(&mut self.runs, &mut self.runs_used, run);
    }
    fn task(&mut self, task: &mut u8) {
        *task = self.tasks[usize::from(*task)];
    }
}

/// What no decision depends on any more.
fn forget(world: &mut World) {
    for job in &mut world.jobs {
        (job.error, job.reason) = (None, false);
        if !matches!(job.status, Status::Rendering | Status::Held) {
            job.started = None;
        }
    }
    for slot in &mut world.slots {
        let reserved = slot.job.and_then(|key| world.jobs.iter().find(|job| job.key == key));
        if !reserved.is_some_and(|job| job.status == Status::Ready && job.attempt == slot.attempt) {
            slot.since = 0;
        }
    }
    for outcome in &mut world.outcomes {
        let job = world.jobs.iter().find(|job| job.key == outcome.job);
        if job.is_some_and(|job| job.attempt != outcome.attempt || job.token == 0) {
            (outcome.at, outcome.retry_at) = (0, None);
        }
    }
    for head in &mut world.heads {
        head.reason = false;
    }
    let under_way = |key: u8| world.jobs.iter().any(|job| job.key == key && job.status == Status::Rendering);
    world.echoes.retain(|(job, _)| under_way(*job));
}

impl World {
    /// Moves the clock.
    pub(crate) fn pass(&mut self, by: T) {
        let mut shift = Shift(by);
        rows(&mut shift, self);
        invocations(&mut shift, self);
        for task in &mut self.tasks {
            task.visible = (task.visible - by).max(0);
        }
        let running = self.running.iter_mut().chain(self.ghosts.iter_mut().map(|ghost| &mut ghost.inv));
        for inv in running {
            if let Some(Entry::Clock(before)) = inv.log.last_mut() {
                *before += by;
            } else {
                inv.log.push(Entry::Clock(by));
            }
        }
    }

    /// Brings the state into its normal form.
    pub(crate) fn normalise(&mut self, config: &Config) {
        forget(self);
        if self.running.is_empty() && self.ghosts.is_empty() {
            let mut past = Past::default();
            rows(&mut past, self);
            past.0.sort_unstable_by(|a, b| b.cmp(a));
            rows(&mut Cut { config, leases: past.0 }, self);
        }
        let mut order: Vec<u8> = (0..crate::codec::small(self.tasks.len())).collect();
        order.sort_by_key(|at| self.tasks[usize::from(*at)]);
        let none = [0; 64];
        let mut rename = Rename { tokens: none, runs: none, tokens_used: 0, runs_used: 0, tasks: none };
        for (to, from) in order.iter().enumerate() {
            rename.tasks[usize::from(*from) + 1] = crate::codec::small(to + 1);
        }
        self.tasks.sort_unstable();
        // The queue is sorted by names, so it is sorted before its names are given, and again after.
        let queue = std::mem::take(&mut self.queue);
        rows(&mut rename, self);
        self.queue = queue;
        let known = |token: u8| match rename.tokens[usize::from(token)] {
            0 => u8::MAX,
            name => name,
        };
        self.queue.sort_by_cached_key(|msg| {
            let mut msg = *msg;
            body(&mut Known(known), &mut msg.body);
            msg
        });
        self.queue.iter_mut().for_each(|msg| message(&mut rename, msg));
        self.queue.sort_unstable();
        self.running.sort_by_key(|inv| {
            (inv.who, inv.msg.map(|msg| (msg.due, msg.receives, msg.dead)), inv.log.len())
        });
        invocations(&mut rename, self);
        self.orphans.sort_unstable();
        (self.tokens, self.runs) = (rename.tokens_used, rename.runs_used);
    }
}

struct Known<F>(F);
impl<F: Fn(u8) -> u8> Visitor for Known<F> {
    fn token(&mut self, token: &mut u8) {
        *token = (self.0)(*token);
    }
}
