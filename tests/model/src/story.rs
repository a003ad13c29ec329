//! A counterexample as a story, and as text that can be run again.

use crate::action::{Action, FrameEnd, How};
use crate::check::Broken;
use crate::config::Config;
use crate::env::Answer;
use crate::live;
use crate::model::Checked;
use crate::ports::Op;
use crate::replay::{Fresh, replay as replay_inv};
use crate::state::{Body, Cause, Inv, Job, Kind, Msg, Who, World};
use glassline_protocol::ports::Part;
use std::fmt::Write as _;

fn message(msg: &Msg) -> String {
    let text = match msg.body {
        Body::Handoff { about, .. } => format!("the handoff of job {} attempt {}", about.job, about.attempt),
        Body::Check { about, cause, resumes, tries } => {
            let cause = match cause {
                Cause::Chain(_) => "chain",
                Cause::Resume => "resume",
                Cause::Callback => "callback",
            };
            let used = if resumes + tries > 0 {
                format!(" ({resumes} resumes, {tries} tries)")
            } else {
                String::new()
            };
            format!("a check ({cause}) of job {} attempt {}{used}", about.job, about.attempt)
        }
        Body::Finish { about, .. } => {
            format!("a finish message of job {} attempt {}", about.job, about.attempt)
        }
        Body::Rollback { about, why } => {
            format!("a rollback message ({why:?}) of job {} attempt {}", about.job, about.attempt)
        }
        Body::Wake { freed: Some((slot, _)) } => format!("a wake for slot {slot}"),
        Body::Wake { freed: None } => "a wake for the whole lane".to_owned(),
        Body::Ended { job } => format!("what ended frame {job}"),
    };
    if msg.dead { format!("{text}, from the dead letters") } else { text }
}

fn who(inv: &Inv) -> String {
    match inv.who {
        Who::Tick => "dispatch (tick)".to_owned(),
        Who::Waker => "dispatch (wake)".to_owned(),
        Who::Worker => format!("worker, with {}", inv.msg.as_ref().map_or(String::new(), message)),
        Who::Finisher => "finisher".to_owned(),
        Who::Rollback => "rollback".to_owned(),
        Who::Parent => "the parent step".to_owned(),
        Who::Requeue(job) => format!("the person who requeues job {job}"),
        Who::Reopen(number) => format!("the person who reopens episode {number}"),
    }
}

fn part(part: &Part) -> String {
    match part {
        Part::Job(key, transition) => format!("{} of {key}", transition.name()),
        Part::Story(_, transition) => brief(transition),
        Part::Series(_, transition) => brief(transition),
        Part::Episode(_, transition) => brief(transition),
        Part::Create(_) => "create".to_owned(),
    }
}

fn brief(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.split([' ', '{', '(']).next().unwrap_or_default().to_owned()
}

fn call(op: &Op) -> String {
    match op {
        Op::Job(key, transition) => format!("{} of {key}", transition.name()),
        Op::Slot(key, _) => format!("Take of slot {}", key.number),
        Op::Lane(transition) => brief(transition),
        Op::Story(key, transition) => format!("{} of {key}", brief(transition)),
        Op::Outcome(row, _) => format!("put outcome {} of attempt {}", row.verdict, row.key.attempt),
        Op::Transact(parts) => {
            let parts: Vec<String> = parts.iter().map(part).filter(|part| part != "create").collect();
            format!("transaction: {}", parts.join(", "))
        }
        Op::Send(envelopes) => {
            let sent: Vec<String> = envelopes
                .iter()
                .map(|envelope| match crate::codec::body(&envelope.message) {
                    Some(body) => message(&Msg { body, due: 0, receives: 0, dead: false }),
                    None => "the QA message".to_owned(),
                })
                .collect();
            format!("send {}", sent.join(", "))
        }
        Op::Submit(job, attempt) => format!("submit of job {job} attempt {attempt}"),
        Op::Status(task) => format!("ask for the state of task {task}"),
        Op::Find(job, attempt) => format!("look for job {job} attempt {attempt} at the provider"),
        Op::Cancel(task) => format!("cancel task {task}"),
        Op::Save(job, attempt) => format!("store the output of job {job} attempt {attempt}"),
        other => format!("read {}", format!("{other:?}").to_lowercase()),
    }
}

fn what(kind: Kind, answer: Answer) -> &'static str {
    match (kind, answer) {
        (_, Answer::Plain) => "",
        (Kind::Submit(..), Answer::Other(0)) => ": REFUSED BY THE PROVIDER",
        (Kind::Submit(..), Answer::Other(1)) => ": THROTTLED",
        (Kind::Submit(..), Answer::Other(_)) => ": ACCEPTED, AND LOST BY THE PROVIDER",
        (Kind::Find(..), Answer::Other(0)) => ": NOT FOUND YET",
        (Kind::Save(_), Answer::Other(0)) => ": THE OUTPUT IS REFUSED",
        (Kind::Save(_), Answer::Other(1)) => ": BARRED",
        (Kind::Save(_), Answer::Other(_)) => ": EXPIRED",
        (Kind::Cancel(_), Answer::Other(_)) => ": NOT HONOURED",
        (Kind::Query, Answer::Other(_)) => ": AN OLD INDEX",
        (_, Answer::Other(_)) => ": NO ANSWER",
    }
}

fn told(checked: &Checked, world: &World, action: Action) -> String {
    let job = |at: u8| world.tasks.get(usize::from(at)).map_or(0, |task| task.job);
    match action {
        Action::Deliver(at) => format!("{} is delivered", message(&world.queue[usize::from(at)])),
        Action::DeliverCopy(at) => {
            format!("{} is delivered, NOT FOR THE LAST TIME", message(&world.queue[usize::from(at)]))
        }
        Action::Call(at, id, how, _) => {
            let mut inv = world.running[usize::from(at)].clone();
            let kind = inv.wants.iter().find(|(call, _)| *call == id).map_or(Kind::Read, |(_, kind)| *kind);
            let by = who(&inv);
            let mut fresh = Fresh { tokens: 50, runs: 50, random: 0 };
            let mut text = String::new();
            replay_inv(&checked.config, &mut inv, &mut fresh, Some(id), |op| {
                text = call(op);
                None
            });
            let end = match how {
                How::Answered(answer) => what(kind, answer),
                How::LostRequest => ": THE REQUEST IS LOST",
                How::LostReply => ": DONE, THE REPLY IS LOST",
                How::Late => ": GIVEN UP, AND STILL ON ITS WAY",
                How::CrashAfter => ": DONE, AND THE CALLER DIES",
            };
            format!("{by}: {text}{end}")
        }
        Action::CrashBefore(at) => {
            format!("{} is delivered, AND ITS RECEIVER DIES AT ONCE", message(&world.queue[usize::from(at)]))
        }
        Action::Land(at) => format!("A LATE REQUEST ARRIVES: {:?}", world.ghosts[usize::from(at)].kind),
        Action::Tick => "a full tick begins".to_owned(),
        Action::Clock => format!("{} units of time pass", checked.step(world).unwrap_or(0)),
        Action::Complete(at) => format!("task {} of job {} ends well", at + 1, job(at)),
        Action::FailTask(at) => format!("task {} of job {} FAILS", at + 1, job(at)),
        Action::CancelTask(at) => format!("task {} of job {} IS CANCELLED AT THE PROVIDER", at + 1, job(at)),
        Action::Callback(at) => format!("a callback for task {} arrives", at + 1),
        Action::Cancel(job) => format!("A PERSON asks to cancel job {job}"),
        Action::Requeue(job) => format!("A PERSON asks for another attempt of job {job}"),
        Action::Review(job, good) => format!("A PERSON's verdict on job {job}: {good}"),
        Action::Accept(job) => format!("an outside dispatcher's claim of job {job} is accepted"),
        Action::ReleaseOutside(job) => format!("an outside dispatcher's claim of job {job} is given back"),
        Action::FrameStarts(job) => format!("frame {job} starts"),
        Action::FrameEnds(job, end) => format!("frame {job} ends: {end:?}"),
        Action::Reopen(number) => format!("A PERSON reopens episode {number}"),
    }
}

fn row(job: &Job) -> String {
    let mut text =
        format!("job {} {} attempt {} failures {}", job.key, job.status, job.attempt, job.failures);
    for (name, value) in [("token", job.token), ("run", job.run), ("task", job.task)] {
        if value > 0 {
            let _ = write!(text, " {name} {value}");
        }
    }
    if let Some(lease) = job.lease {
        let _ = write!(text, " lease {lease:+}");
    }
    if job.cancel {
        text.push_str(" cancel asked");
    }
    text
}

fn rows(world: &World) -> String {
    let mut parts: Vec<String> = world.jobs.iter().map(row).collect();
    parts.extend(
        world
            .heads
            .iter()
            .map(|head| format!("episode {} {} of story {}", head.number, head.status, head.story)),
    );
    parts.join("; ")
}

/// Who did what, step by step, and how the jobs stood after it; and of an ending that never comes, how it goes on.
#[must_use]
pub fn tell(config: &Config, actions: &[Action]) -> String {
    let checked = Checked::new(config.clone());
    let mut world = checked.first();
    let mut text = String::new();
    let mut stood = String::new();
    for (step, action) in actions.iter().enumerate() {
        let _ = writeln!(text, "{:>4}. {}", step + 1, told(&checked, &world, *action));
        checked.go(&mut world, *action);
        let now = rows(&world);
        if now != stood {
            let _ = writeln!(text, "      = {now}");
            stood = now;
        }
    }
    for what in Broken::ALL.iter().filter(|what| !checked.holds(&world, **what)) {
        let _ = writeln!(text, "      BROKEN: {}", what.name());
    }
    if world.bad == 0 && !checked.ends_well(&world) {
        let _ = writeln!(text, "      Without further trouble it goes on like this:");
        for (world, action) in live::course(&checked, &world, 60) {
            let _ = writeln!(text, "        {}", told(&checked, &world, action));
        }
    }
    let _ = writeln!(text, "      To run it again: {}", written(actions));
    text
}

/// Actions as text, which [`replay`] reads.
#[must_use]
pub fn written(actions: &[Action]) -> String {
    let texts: Vec<String> = actions.iter().map(one).collect();
    texts.join(" ")
}

fn one(action: &Action) -> String {
    match action {
        Action::Call(at, id, how, random) => {
            let how = match how {
                How::Answered(Answer::Plain) => "ok".to_owned(),
                How::Answered(Answer::Other(n)) => format!("other{n}"),
                How::LostRequest => "lost-request".to_owned(),
                How::LostReply => "lost-reply".to_owned(),
                How::Late => "late".to_owned(),
                How::CrashAfter => "crash-after".to_owned(),
            };
            format!("call:{at}:{id}:{how}:{random}")
        }
        Action::Deliver(at) => format!("deliver:{at}"),
        Action::DeliverCopy(at) => format!("copy:{at}"),
        Action::CrashBefore(at) => format!("crash-before:{at}"),
        Action::Land(at) => format!("land:{at}"),
        Action::Tick => "tick".to_owned(),
        Action::Clock => "clock".to_owned(),
        Action::Complete(at) => format!("complete:{at}"),
        Action::FailTask(at) => format!("fail-task:{at}"),
        Action::CancelTask(at) => format!("cancel-task:{at}"),
        Action::Callback(at) => format!("callback:{at}"),
        Action::Cancel(job) => format!("cancel:{job}"),
        Action::Requeue(job) => format!("requeue:{job}"),
        Action::Review(job, good) => format!("review:{job}:{}", u8::from(*good)),
        Action::Accept(job) => format!("accept:{job}"),
        Action::ReleaseOutside(job) => format!("release-outside:{job}"),
        Action::FrameStarts(job) => format!("frame-starts:{job}"),
        Action::FrameEnds(job, end) => {
            let end = match end {
                FrameEnd::Succeeded => "succeeded",
                FrameEnd::Failed => "failed",
                FrameEnd::Cancelled => "cancelled",
            };
            format!("frame-ends:{job}:{end}")
        }
        Action::Reopen(number) => format!("reopen:{number}"),
    }
}

fn read(text: &str) -> Option<Action> {
    let mut parts = text.split(':');
    let name = parts.next()?;
    let rest: Vec<&str> = parts.collect();
    let number = |place: usize| rest.get(place)?.parse::<u8>().ok();
    Some(match name {
        "call" => {
            let how = match *rest.get(2)? {
                "ok" => How::Answered(Answer::Plain),
                "lost-request" => How::LostRequest,
                "lost-reply" => How::LostReply,
                "late" => How::Late,
                "crash-after" => How::CrashAfter,
                other => How::Answered(Answer::Other(other.strip_prefix("other")?.parse().ok()?)),
            };
            Action::Call(number(0)?, number(1)?, how, number(3)?)
        }
        "deliver" => Action::Deliver(number(0)?),
        "copy" => Action::DeliverCopy(number(0)?),
        "crash-before" => Action::CrashBefore(number(0)?),
        "land" => Action::Land(number(0)?),
        "tick" => Action::Tick,
        "clock" => Action::Clock,
        "complete" => Action::Complete(number(0)?),
        "fail-task" => Action::FailTask(number(0)?),
        "cancel-task" => Action::CancelTask(number(0)?),
        "callback" => Action::Callback(number(0)?),
        "cancel" => Action::Cancel(number(0)?),
        "requeue" => Action::Requeue(number(0)?),
        "review" => Action::Review(number(0)?, number(1)? == 1),
        "accept" => Action::Accept(number(0)?),
        "release-outside" => Action::ReleaseOutside(number(0)?),
        "frame-starts" => Action::FrameStarts(number(0)?),
        "frame-ends" => Action::FrameEnds(
            number(0)?,
            match *rest.get(1)? {
                "succeeded" => FrameEnd::Succeeded,
                "failed" => FrameEnd::Failed,
                "cancelled" => FrameEnd::Cancelled,
                _ => return None,
            },
        ),
        "reopen" => Action::Reopen(number(0)?),
        _ => return None,
    })
}

/// Runs actions again, from the text that a counterexample ends with: what they break, if anything.
///
/// # Errors
/// Which of them can't happen where it stands.
pub fn replay(config: &Config, actions: &str) -> Result<Vec<&'static str>, String> {
    use stateright::Model as _;
    let checked = Checked::new(config.clone());
    let mut world = checked.first();
    for (step, text) in actions.split_whitespace().enumerate() {
        let action = read(text).ok_or_else(|| format!("`{text}` is no action"))?;
        let mut possible = Vec::new();
        checked.actions(&world, &mut possible);
        if !possible.contains(&action) {
            return Err(format!("step {}, `{text}`, can't happen there", step + 1));
        }
        checked.go(&mut world, action);
    }
    let mut broken: Vec<&str> =
        Broken::ALL.iter().filter(|what| !checked.holds(&world, **what)).map(|what| what.name()).collect();
    if world.bad == 0 && world.running.is_empty() && world.ghosts.is_empty() && !checked.ends_well(&world) {
        broken.push(crate::properties::LIVE);
    }
    Ok(broken)
}
