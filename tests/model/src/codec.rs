//! The small state's parts as the real rows and messages, and back. What is left out (texts of reasons, creation times,
//! sizes of outputs) no handler decides by.

use crate::state::{About, Body, Cause, Job, Lane, Outcome, Place, Slot, T, Why};
use glassline_protocol::ids::{Attempt, Id, JobKey, LaneName, MemberKey, Ms, ParentKey, Run, TaskId, Token};
use glassline_protocol::message::{Check, CheckCause, Finish, FreedSlot, Handoff, Message, Rollback};
use glassline_protocol::message::{RollbackCause, Subject, Wake};
use glassline_protocol::provider::{Media, Output};
use glassline_protocol::rank::{held_entry, later_entry, ready_entry};
use glassline_protocol::row::{JobRow, LaneRow, OutcomeKey, OutcomeRow, SlotKey, SlotRow};
use glassline_protocol::sign::{Secret, Secrets};
use std::sync::LazyLock;

/// Now, always: the clock moves by shifting everything else.
pub(crate) const NOW_MS: Ms = 86_400_000 * 20_000 + 30_000;
/// Number of the first frame among the jobs; those before it are shots.
pub(crate) const FIRST_FRAME: u8 = 8;
/// Jobs that have keys.
const KEYS: u8 = 28;
const REASON: &str = "why";
pub(crate) const LOCATION: &str = "where";
pub(crate) const URL: &str = "https://provider.test/output";

static LANE: LazyLock<LaneName> = LazyLock::new(|| LaneName::new("lane").unwrap());
static SERIES: LazyLock<Id> = LazyLock::new(|| Id::new("m").unwrap());
static JOBS: LazyLock<Vec<JobKey>> = LazyLock::new(|| (0..KEYS).map(new_key).collect());
pub(crate) static SECRETS: LazyLock<Secrets> = LazyLock::new(|| Secrets {
    current: Secret::new("a secret for the model only").unwrap(),
    previous: None,
});

fn new_key(job: u8) -> JobKey {
    if job < FIRST_FRAME {
        return JobKey::shot(Id::new("p").unwrap(), Id::new(format!("s{job}")).unwrap());
    }
    let frame = job - FIRST_FRAME;
    JobKey {
        parent: ParentKey::Episode { series: series_id(), number: u32::from(frame / 4) + 1 },
        member: MemberKey::Frame(frame % 4 + 1),
    }
}

pub(crate) fn lane_name() -> LaneName {
    LANE.clone()
}
pub(crate) fn series_id() -> Id {
    SERIES.clone()
}
pub(crate) fn key(job: u8) -> JobKey {
    JOBS[usize::from(job)].clone()
}
pub(crate) fn job_of(key: &JobKey) -> u8 {
    match (&key.parent, &key.member) {
        (ParentKey::Post(_), MemberKey::Shot(id)) => id.as_str()[1..].parse().unwrap(),
        (ParentKey::Episode { number, .. }, MemberKey::Frame(frame)) => {
            FIRST_FRAME + (u8::try_from(*number).unwrap() - 1) * 4 + frame - 1
        }
        _ => panic!("{key} is no job of the model"),
    }
}

pub(crate) fn ms(time: T) -> Ms {
    NOW_MS.checked_add_signed(i64::from(time)).unwrap()
}
pub(crate) fn time(ms: Ms) -> T {
    let relative = i64::try_from(ms).unwrap_or(i64::MAX) - i64::try_from(NOW_MS).unwrap();
    T::try_from(relative).unwrap_or(if relative > 0 { T::MAX } else { T::MIN })
}

pub(crate) fn token(n: u8) -> Option<Token> {
    (n > 0).then(|| Token::new(format!("{n:08x}")).unwrap())
}
pub(crate) fn run(n: u8) -> Option<Run> {
    (n > 0).then(|| Run::new(format!("{n:08x}")).unwrap())
}
pub(crate) fn task(n: u8) -> Option<TaskId> {
    (n > 0).then(|| TaskId::new(format!("t{n}")).unwrap())
}
fn hex(text: &str) -> u8 {
    u8::from_str_radix(text, 16).unwrap()
}
pub(crate) fn token_of(token: Option<&Token>) -> u8 {
    token.map_or(0, |token| hex(token.as_str()))
}
pub(crate) fn run_of(run: Option<&Run>) -> u8 {
    run.map_or(0, |run| hex(run.as_str()))
}
pub(crate) fn task_of(task: Option<&TaskId>) -> u8 {
    task.map_or(0, |task| task.as_str()[1..].parse().unwrap())
}
pub(crate) fn small(number: impl TryInto<u8>) -> u8 {
    number.try_into().unwrap_or_else(|_| panic!("a number is too large for the model"))
}
fn reason(has: bool) -> Option<String> {
    has.then(|| REASON.to_owned())
}

pub(crate) fn rank(job: u8) -> String {
    format!("{job:02}")
}

pub(crate) fn job_row(job: &Job) -> JobRow {
    let (rank, attempt) = (rank(job.key), |attempt: u8| Attempt::from(attempt));
    let entry = match job.place {
        Place::None => None,
        Place::Ready { attempt: n } => Some(ready_entry(&LANE, &rank, attempt(n))),
        Place::Later { due, attempt: n } => Some(later_entry(&LANE, ms(due), &rank, attempt(n))),
        Place::Held { at, attempt: n } => Some(held_entry(&LANE, ms(at), attempt(n))),
    };
    let (queue_pk, queue_sk) = entry.map_or((None, None), |entry| (Some(entry.pk), Some(entry.sk)));
    JobRow {
        key: key(job.key),
        status: job.status,
        attempt: attempt(job.attempt),
        failures: u32::from(job.failures),
        token: token(job.token),
        run: run(job.run),
        // No decision depends on what a render costs once its attempt is claimed.
        price_micros: None,
        slot: job.slot.map(u32::from),
        lease_ms: job.lease.map(ms),
        accepted_ms: job.accepted.then_some(1),
        // Nothing is decided by it here.
        receipt: None,
        started_ms: job.started.map(ms),
        lane: lane_name(),
        rank,
        created_ms: 1,
        media: Media::Image,
        width_px: None,
        height_px: None,
        task: task(job.task),
        error_class: job.error,
        error: reason(job.reason),
        cancel_requested: job.cancel,
        qa: job.qa,
        ended_ms: job.ended.then_some(1),
        queue_pk,
        queue_sk,
    }
}

fn place(row: &JobRow) -> Place {
    let (Some(pk), Some(sk)) = (&row.queue_pk, &row.queue_sk) else { return Place::None };
    let attempt = sk.rsplit_once('#').unwrap().1.parse().unwrap();
    let due = || time(sk.split_once('#').unwrap().0.parse().unwrap());
    match pk.split_once('#').unwrap().0 {
        "READY" => Place::Ready { attempt },
        "LATER" => Place::Later { due: due(), attempt },
        "HELD" => Place::Held { at: due(), attempt },
        other => panic!("no partition {other}"),
    }
}

pub(crate) fn job_from(row: &JobRow) -> Job {
    Job {
        key: job_of(&row.key),
        status: row.status,
        attempt: small(row.attempt),
        failures: small(row.failures),
        token: token_of(row.token.as_ref()),
        run: run_of(row.run.as_ref()),
        slot: row.slot.map(small),
        lease: row.lease_ms.map(time),
        started: row.started_ms.map(time),
        accepted: row.accepted_ms.is_some(),
        task: task_of(row.task.as_ref()),
        error: row.error_class,
        reason: row.error.is_some(),
        cancel: row.cancel_requested,
        qa: row.qa,
        ended: row.ended_ms.is_some(),
        place: place(row),
    }
}

pub(crate) fn outcome_row(outcome: &Outcome) -> OutcomeRow {
    let stored = outcome.verdict == glassline_protocol::row::Verdict::Stored;
    let text = |text: &str| stored.then(|| text.to_owned());
    OutcomeRow {
        key: OutcomeKey { job: key(outcome.job), attempt: Attempt::from(outcome.attempt) },
        verdict: outcome.verdict,
        lane: lane_name(),
        at_ms: ms(outcome.at),
        started_ms: None,
        task: task(outcome.task),
        cost: outcome.cost,
        price_micros: None,
        location: text(LOCATION),
        sha256: text("hash"),
        size_bytes: stored.then_some(1),
        content_type: text("image/png"),
        width_px: None,
        height_px: None,
        duration_ms: None,
        frames: None,
        class: outcome.class,
        reason: (!stored).then(|| REASON.to_owned()),
        counted: outcome.counted,
        retry_at_ms: outcome.retry_at.map(ms),
    }
}

pub(crate) fn outcome_from(row: &OutcomeRow) -> Outcome {
    Outcome {
        job: job_of(&row.key.job),
        attempt: small(row.key.attempt),
        verdict: row.verdict,
        class: row.class,
        counted: row.counted,
        at: time(row.at_ms),
        retry_at: row.retry_at_ms.map(time),
        task: task_of(row.task.as_ref()),
        cost: row.cost,
    }
}

pub(crate) fn slot_row(slot: &Slot) -> SlotRow {
    SlotRow {
        key: SlotKey { lane: lane_name(), number: u32::from(slot.number) },
        job: slot.job.map(key),
        attempt: slot.job.map(|_| Attempt::from(slot.attempt)),
        token: token(slot.token),
        since_ms: slot.job.map(|_| ms(slot.since)),
    }
}

pub(crate) fn slot_from(row: &SlotRow) -> Slot {
    Slot {
        number: small(row.key.number),
        job: row.job.as_ref().map(job_of),
        attempt: row.attempt.map_or(0, small),
        token: token_of(row.token.as_ref()),
        since: row.since_ms.map_or(0, time),
    }
}

/// What a lane has besides what changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LaneShape {
    pub(crate) capacity: u8,
    pub(crate) rate: Option<u8>,
    pub(crate) budget: Option<u8>,
}

pub(crate) fn lane_row(lane: &Lane, shape: LaneShape) -> LaneRow {
    LaneRow {
        starts_per_minute: shape.rate.map(u32::from),
        price_micros: shape.budget.map(|_| 1),
        budget_micros_per_day: shape.budget.map(u64::from),
        paused_until_ms: lane.paused_until.map(ms),
        pause_reason: reason(lane.paused_until.is_some()),
        minute: lane.counted.then_some(NOW_MS / 60_000),
        minute_starts: u32::from(lane.starts),
        day: lane.counted.then_some(NOW_MS / 86_400_000),
        day_micros: u64::from(lane.micros),
        authorised_by: run(lane.by),
        rev: u64::from(lane.rev),
        ..LaneRow::new(lane_name(), u32::from(shape.capacity))
    }
}

pub(crate) fn lane_from(row: &LaneRow) -> Lane {
    Lane {
        paused_until: row.paused_until_ms.map(time),
        counted: row.day.is_some(),
        starts: small(row.minute_starts),
        micros: small(row.day_micros),
        by: run_of(row.authorised_by.as_ref()),
        rev: small(row.rev),
    }
}

pub(crate) fn subject(about: About) -> Subject {
    let JobKey { parent, member } = key(about.job);
    Subject {
        parent,
        member,
        lane: lane_name(),
        attempt: Attempt::from(about.attempt),
        token: token(about.token).unwrap(),
    }
}

fn about(subject: &Subject) -> About {
    About {
        job: job_of(&subject.job()),
        attempt: small(subject.attempt),
        token: token_of(Some(&subject.token)),
    }
}

pub(crate) fn output() -> Output {
    Output { url: URL.into(), expires_ms: None }
}

fn handoff(of: About, slot: u8) -> Handoff {
    let Subject { parent, member, lane, attempt, token } = subject(of);
    SECRETS.sign(Handoff {
        parent,
        member,
        lane,
        attempt,
        token,
        slot: u32::from(slot),
        prompt: "draw".into(),
        params: serde_json::Value::Null,
        media: Media::Image,
        mac: String::new(),
    })
}

/// `None`: not one of the deployed messages.
pub(crate) fn message(body: &Body) -> Option<Message> {
    Some(match *body {
        Body::Handoff { about, slot } => Message::Handoff(handoff(about, slot)),
        Body::Check { about, cause, resumes, tries } => Message::Check(Check {
            subject: subject(about),
            cause: match cause {
                Cause::Chain(lease) => CheckCause::Chain { lease_ms: ms(lease) },
                Cause::Resume => CheckCause::Resume,
                Cause::Callback => CheckCause::Callback,
            },
            resumes: u32::from(resumes),
            tries: u32::from(tries),
        }),
        Body::Finish { about, task: n, outputs, resumes } => Message::Finish(Finish {
            subject: subject(about),
            task: task(n).unwrap(),
            outputs: if outputs { vec![output()] } else { Vec::new() },
            resumes: u32::from(resumes),
        }),
        Body::Rollback { about, why } => Message::Rollback(Rollback {
            subject: subject(about),
            cause: match why {
                Why::Unsent => RollbackCause::Unsent,
                Why::LeaseOver => RollbackCause::LeaseOver,
                Why::Held => RollbackCause::Held,
            },
        }),
        Body::Wake { freed } => Message::Wake(Wake {
            lane: lane_name(),
            freed: freed.map(|(slot, n)| FreedSlot { slot: u32::from(slot), token: token(n).unwrap() }),
        }),
        Body::Ended { .. } => return None,
    })
}

/// `None`: a message to QA, which no function here receives.
pub(crate) fn body(message: &Message) -> Option<Body> {
    Some(match message {
        Message::Handoff(handoff) => {
            Body::Handoff { about: about(&handoff.subject()), slot: small(handoff.slot) }
        }
        Message::Check(check) => Body::Check {
            about: about(&check.subject),
            cause: match check.cause {
                CheckCause::Chain { lease_ms } => Cause::Chain(time(lease_ms)),
                CheckCause::Resume => Cause::Resume,
                CheckCause::Callback => Cause::Callback,
            },
            resumes: small(check.resumes),
            tries: small(check.tries),
        },
        Message::Finish(finish) => Body::Finish {
            about: about(&finish.subject),
            task: task_of(Some(&finish.task)),
            outputs: !finish.outputs.is_empty(),
            resumes: small(finish.resumes),
        },
        Message::Rollback(rollback) => Body::Rollback {
            about: about(&rollback.subject),
            why: match rollback.cause {
                RollbackCause::Unsent => Why::Unsent,
                RollbackCause::LeaseOver => Why::LeaseOver,
                RollbackCause::Held => Why::Held,
            },
        },
        Message::Wake(wake) => Body::Wake {
            freed: wake.freed.as_ref().map(|freed| (small(freed.slot), token_of(Some(&freed.token)))),
        },
        Message::Qa(_) => return None,
    })
}
