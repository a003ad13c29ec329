//! The table: rows changed by the real rules' guard and apply.

use crate::check::{Broken, on_job_write, on_requeue};
use crate::codec::{self, job_from, job_of, job_row, lane_from, lane_row, small, time};
use crate::codec_story::{head_from, head_row, series_from, series_row, story_from, story_of, story_row};
use crate::config::Config;
use crate::mutants::{
    change_episode_rule, change_job_rule, change_series_rule, change_slot_rule, change_story_rule,
};
use crate::ports::Op;
use crate::provider;
use crate::queues;
use crate::state::{Body, Cause, Job, Msg, Place, Reply, T, World};
use glassline_protocol::ids::{JobKey, Ms};
use glassline_protocol::ports::{NewRow, NotStarted, Part};
use glassline_protocol::row::{EpisodeStatus, Field, OutcomeRow, Row, SlotKey, StoryKey};
use glassline_protocol::rule::Rule;
use glassline_protocol::transition::{JobTransition, LaneTransition, SlotTransition, StoryTransition};

/// How a call is answered, where there is a choice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Answer {
    /// As it should be.
    Plain,
    /// The nth other answer.
    Other(u8),
}

trait Lease {
    /// The lease that it writes.
    fn lease(&self) -> Option<T>;
}
impl Lease for JobTransition {
    fn lease(&self) -> Option<T> {
        match self {
            Self::Start { lease_ms, .. }
            | Self::RecordTask { lease_ms, .. }
            | Self::Renew { lease_ms, .. } => Some(time(*lease_ms)),
            _ => None,
        }
    }
}

/// Applies a rule to a row: whether it happened, and the row then.
fn change<F: Field, R: Row<Field = F>>(rule: &Rule<F>, row: &R) -> (bool, R) {
    if rule.guard(row) { (true, rule.apply(row).unwrap()) } else { (false, row.clone()) }
}

impl World {
    /// Does what a call asks, and answers it.
    pub(crate) fn apply(&mut self, config: &Config, op: &Op, answer: Answer) -> Reply {
        match op {
            Op::Job(key, transition) => self.change_job(config, key, transition),
            Op::Slot(key, transition) => self.change_slot(config, key, transition),
            Op::Lane(transition) => self.change_lane(config, transition),
            Op::Story(key, transition) => self.change_story(config, key, transition),
            Op::Outcome(row, only_if) => self.put_outcome(config, row, only_if.as_ref()),
            Op::Orphan(job, task) => {
                if !self.orphans.contains(&(*job, *task)) {
                    self.orphans.push((*job, *task));
                }
                Reply::Orphaned
            }
            Op::View(job) => {
                let outcomes = self.outcomes.iter().filter(|outcome| outcome.job == *job);
                Reply::View(self.job(*job).copied(), outcomes.copied().collect())
            }
            Op::Jobs(jobs) => Reply::Jobs(jobs.iter().filter_map(|job| self.job(*job).copied()).collect()),
            Op::Specs => Reply::Specs,
            Op::LaneRow => Reply::LaneRow(self.lane),
            Op::Slots => Reply::Slots(self.slots.clone()),
            Op::Ready => self.ready(answer),
            Op::Due(now_ms) => self.due(*now_ms),
            Op::Held(now_ms) => self.held(*now_ms),
            Op::Transact(parts) => self.transact(config, parts),
            Op::Series => Reply::SeriesRow(self.series),
            Op::Stories => Reply::Stories(self.stories.iter().filter(|s| s.listed).map(|s| s.key).collect()),
            Op::StoryRow(key) => Reply::StoryRow(self.stories.iter().find(|s| s.key == *key).copied()),
            Op::Episode(number) => {
                let head = self.heads.iter().find(|head| head.number == *number).copied();
                let first = codec::FIRST_FRAME + (number - 1) * 4;
                let frames = self.jobs.iter().filter(|job| (first..first + 4).contains(&job.key));
                Reply::Episode(head, frames.copied().collect())
            }
            Op::Episodes => {
                let open = self.heads.iter().filter(|head| head.status == EpisodeStatus::Open);
                Reply::Episodes(open.map(|head| head.number).collect())
            }
            Op::Send(envelopes) => queues::send(self, envelopes),
            Op::Submit(job, attempt) => provider::submit(self, config, *job, *attempt, answer),
            Op::Status(task) => provider::status(self, *task, answer),
            Op::Find(job, attempt) => provider::find(self, *job, *attempt, answer),
            Op::Cancel(task) => provider::cancel(self, config, *task, answer),
            Op::Save(job, attempt) => provider::save(self, config, *job, *attempt, answer),
        }
    }

    pub(crate) fn change_job(&mut self, config: &Config, key: &JobKey, transition: &JobTransition) -> Reply {
        let index = self.jobs.iter().position(|job| job.key == job_of(key));
        let Some(index) = index else { return Reply::Job(false, None) };
        let before = self.jobs[index];
        let mut rule = transition.rule();
        change_job_rule(config, transition, &mut rule);
        let (applied, row) = change(&rule, &job_row(&before));
        let known = matches!(transition, JobTransition::RecordTask { task, .. } if before.task == codec::task_of(Some(task)));
        if known && before.lease == transition.lease() {
            // Two recorded the same task under leases that end in the same millisecond.
            self.echo_of(before.key);
        }
        if applied {
            self.jobs[index] = job_from(&row);
            if transition.lease().is_some() {
                self.new_lease(&before);
            }
            on_job_write(self, config, &before, transition);
            if let JobTransition::Requeue { .. } = transition {
                on_requeue(self, &before);
            }
        } else if config.is("refused means lost") {
            return Reply::Job(false, None);
        }
        Reply::Job(applied, Some(self.jobs[index]))
    }

    /// A lease was written: chains of polls under older ones are over. But a lease that ends in the very millisecond of an
    /// older one can't be told from it, and there may be two chains under it until the next renewal.
    fn new_lease(&mut self, before: &Job) {
        let Some(now) = self.job(before.key).copied() else { return };
        self.echoes.retain(|(job, _)| *job != now.key);
        let same = |msg: &Msg| match msg.body {
            Body::Check { about, cause: Cause::Chain(lease), .. } => {
                about.job == now.key && Some(lease) == now.lease
            }
            Body::Check { .. }
            | Body::Handoff { .. }
            | Body::Finish { .. }
            | Body::Rollback { .. }
            | Body::Wake { .. }
            | Body::Ended { .. } => false,
        };
        let links = self.queue.iter().filter(|msg| same(msg)).count();
        // Each copy of the handoff sends one link for the end of the lease.
        let handoff = |body: &Body| matches!(body, Body::Handoff { about, .. } if about.job == now.key && about.token == now.token);
        let waiting = self.queue.iter().map(|msg| &msg.body);
        let running = self.running.iter().filter_map(|inv| inv.msg.as_ref()).map(|msg| &msg.body);
        let copies = waiting.chain(running).filter(|body| handoff(body)).count();
        for _ in 0..links + copies + usize::from(before.lease == now.lease) {
            self.echo_of(now.key);
        }
    }

    fn change_slot(&mut self, config: &Config, key: &SlotKey, transition: &SlotTransition) -> Reply {
        let index = self.slots.iter().position(|slot| slot.number == small(key.number));
        let Some(index) = index else { return Reply::Slot(false, None) };
        let mut rule = transition.rule();
        change_slot_rule(config, &mut rule);
        let (applied, row) = change(&rule, &codec::slot_row(&self.slots[index]));
        self.slots[index] = codec::slot_from(&row);
        Reply::Slot(applied, Some(self.slots[index]))
    }

    fn change_lane(&mut self, config: &Config, transition: &LaneTransition) -> Reply {
        let mut rule = transition.rule();
        if config.is("Authorise doesn't match the revision")
            && matches!(transition, LaneTransition::Authorise { .. })
        {
            rule.when.clear();
        }
        let (applied, row) = change(&rule, &lane_row(&self.lane, config.lane_shape()));
        self.lane = lane_from(&row);
        Reply::Lane(applied, Some(self.lane))
    }

    fn change_story(&mut self, config: &Config, key: &StoryKey, transition: &StoryTransition) -> Reply {
        let index = self.stories.iter().position(|story| story.key == story_of(key));
        let Some(index) = index else { return Reply::Story(false, None) };
        let mut rule = transition.rule();
        change_story_rule(config, transition, &mut rule);
        let (applied, row) = change(&rule, &story_row(&self.stories[index]));
        self.stories[index] = story_from(&row);
        Reply::Story(applied, Some(self.stories[index]))
    }

    fn put_outcome(&mut self, config: &Config, row: &OutcomeRow, only_if: Option<&NotStarted>) -> Reply {
        let new = codec::outcome_from(row);
        let found = self.outcome(new.job, new.attempt).copied();
        if let Some(found) = found.filter(|_| !config.is("an outcome replaces another")) {
            // An equal outcome is our own, whose answer was lost.
            return if found == new { Reply::Recorded } else { Reply::Exists(found) };
        }
        if let Some(only_if) = only_if
            && !config.is("a rejection's outcome asks for no proof")
        {
            let fits = self.job(new.job).is_some_and(|job| {
                let row = job_row(job);
                only_if.when().iter().all(|when| when.holds(&row))
            });
            if !fits {
                return Reply::Moved;
            }
        }
        self.outcomes.retain(|outcome| (outcome.job, outcome.attempt) != (new.job, new.attempt));
        self.outcomes.push(new);
        self.outcomes.sort_by_key(|outcome| (outcome.job, outcome.attempt));
        Reply::Recorded
    }

    /// Other answers: the first one isn't in the index yet; it still shows an attempt before this one.
    fn ready(&self, answer: Answer) -> Reply {
        let mut list: Vec<(u8, u8)> = self
            .jobs
            .iter()
            .filter_map(|job| match job.place {
                Place::Ready { attempt } => Some((job.key, attempt)),
                Place::None | Place::Later { .. } | Place::Held { .. } => None,
            })
            .collect();
        match answer {
            Answer::Plain => {}
            Answer::Other(0) => {
                list = list.into_iter().skip(1).collect();
            }
            Answer::Other(n) => {
                let old = self.jobs.iter().filter(|job| job.attempt > 0).nth(usize::from(n) - 1);
                if let Some(job) = old {
                    list.retain(|(key, _)| *key != job.key);
                    list.push((job.key, job.attempt - 1));
                    list.sort_unstable();
                }
            }
        }
        Reply::Candidates(list)
    }

    fn due(&self, now_ms: Ms) -> Reply {
        let now = time(now_ms);
        let list = self.jobs.iter().filter_map(|job| match job.place {
            Place::Later { due, attempt } if due <= now => Some((job.key, attempt)),
            Place::None | Place::Ready { .. } | Place::Later { .. } | Place::Held { .. } => None,
        });
        Reply::Candidates(list.collect())
    }

    fn held(&self, now_ms: Ms) -> Reply {
        let now = time(now_ms);
        let list = self.jobs.iter().filter_map(|job| match job.place {
            Place::Held { at, attempt } if at <= now => Some((job.key, attempt, at)),
            Place::None | Place::Ready { .. } | Place::Later { .. } | Place::Held { .. } => None,
        });
        Reply::HeldJobs(list.collect())
    }

    fn transact(&mut self, config: &Config, parts: &[Part]) -> Reply {
        let before = self.clone();
        for part in parts {
            if !self.part(config, part) {
                if config.is("a transaction in pieces") {
                    return Reply::Refused;
                }
                let next = self.series.next;
                *self = before;
                if config.is("the counter is an ADD") {
                    self.series.next = next;
                }
                return Reply::Refused;
            }
        }
        Reply::Done
    }

    fn part(&mut self, config: &Config, part: &Part) -> bool {
        match part {
            Part::Job(key, transition) => {
                matches!(self.change_job(config, key, transition), Reply::Job(true, _))
            }
            Part::Story(key, transition) => {
                matches!(self.change_story(config, key, transition), Reply::Story(true, _))
            }
            Part::Series(_, transition) => {
                let mut rule = transition.rule();
                change_series_rule(config, transition, &mut rule);
                let (applied, row) = change(&rule, &series_row(&self.series, config.open_limit));
                self.series = series_from(&row);
                applied
            }
            Part::Episode(key, transition) => {
                let number = small(key.number);
                let Some(index) = self.heads.iter().position(|head| head.number == number) else {
                    return false;
                };
                let mut rule = transition.rule();
                change_episode_rule(config, transition, &mut rule);
                let (applied, row) = change(&rule, &head_row(&self.heads[index]));
                self.heads[index] = head_from(&row);
                applied
            }
            Part::Create(row) => self.create(config, row),
        }
    }

    fn create(&mut self, config: &Config, row: &NewRow) -> bool {
        match row {
            NewRow::Job(row) => {
                let mut job = job_from(row);
                if self.job(job.key).is_some() {
                    return false;
                }
                if (job.key - codec::FIRST_FRAME) % 4 >= config.frames {
                    job.status = glassline_protocol::row::Status::Succeeded;
                    job.attempt = 1;
                    job.place = Place::None;
                }
                self.jobs.push(job);
                self.jobs.sort_by_key(|job| job.key);
                true
            }
            NewRow::Episode(row) => {
                let head = head_from(row);
                if self.heads.iter().any(|other| other.number == head.number) {
                    return config.is("an opening overwrites");
                }
                self.heads.push(head);
                self.heads.sort_by_key(|head| head.number);
                true
            }
            NewRow::Spec(_) => true,
            NewRow::Head(_)
            | NewRow::Lane(_)
            | NewRow::Slot(_)
            | NewRow::Series(_)
            | NewRow::Story(_)
            | NewRow::StorySpec(_) => panic!("no handler of the model creates {row:?}"),
        }
    }

    pub(crate) fn push(&mut self, body: Body, due: i16) {
        self.queue.push(Msg { body, due: due.max(0), receives: 0, dead: false });
    }

    pub(crate) fn broken(&mut self, what: Broken) {
        self.bad |= 1 << what as u32;
    }
}
