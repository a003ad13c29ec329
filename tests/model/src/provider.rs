//! The provider and our storage. Its books are its own: what was accepted is paid for, whatever we know of it.

use crate::check::{Broken, on_accept};
use crate::config::{Config, Tier};
use crate::env::Answer;
use crate::state::{Reply, Task, TaskAt, World};
use glassline_protocol::provider::ErrorClass;
use glassline_protocol::row::Status;

fn known(world: &World, job: u8, attempt: u8) -> Option<u8> {
    let at = world.tasks.iter().position(|task| task.job == job && task.attempt == attempt)?;
    Some(crate::codec::small(at + 1))
}

/// Other answers: refused, throttled, accepted and then lost by the provider.
pub(crate) fn submit(world: &mut World, config: &Config, job: u8, attempt: u8, answer: Answer) -> Reply {
    match answer {
        Answer::Other(0) => return Reply::Rejected(ErrorClass::Transient),
        Answer::Other(1) => return Reply::Rejected(ErrorClass::Throttled),
        Answer::Plain | Answer::Other(_) => {}
    }
    if let (Tier::Key, Some(task)) = (config.tier, known(world, job, attempt)) {
        return Reply::Accepted(task);
    }
    let settle = i16::try_from(config.times.settle).unwrap();
    let settled = settled(world, config, job, attempt).unwrap_or(0);
    world.tasks.push(Task {
        job,
        attempt,
        at: TaskAt::Running,
        refused: false,
        dropped: answer == Answer::Other(2),
        excused: world.excused.iter().any(|(of, upto)| *of == job && attempt <= *upto),
        visible: settle.min(settled).max(0),
    });
    on_accept(world, job, attempt);
    Reply::Accepted(crate::codec::small(world.tasks.len()))
}

/// When a lookup of this attempt tells the truth, whatever was delayed: the assumption behind `settle_ms`.
pub(crate) fn settled(world: &World, config: &Config, job: u8, attempt: u8) -> Option<i16> {
    let row = world.job(job).filter(|row| row.attempt == attempt)?;
    let after = i16::try_from(config.settings.submit_lease_ms + config.times.settle).unwrap();
    Some(row.started? + after)
}

/// Other answer: none.
pub(crate) fn status(world: &World, task: u8, answer: Answer) -> Reply {
    match (answer, world.task(task)) {
        (Answer::Plain, Some(task)) if !task.dropped => Reply::Status(task.at),
        (Answer::Plain, _) => Reply::Missing,
        (Answer::Other(_), _) => Reply::Unknown,
    }
}

/// Other answers: not found yet; none.
pub(crate) fn find(world: &World, job: u8, attempt: u8, answer: Answer) -> Reply {
    match answer {
        Answer::Plain => match known(world, job, attempt) {
            Some(task) if world.task(task).is_some_and(|task| !task.dropped) => Reply::Found(task),
            Some(_) | None => Reply::NotFound,
        },
        Answer::Other(0) => Reply::NotFound,
        Answer::Other(_) => Reply::Unknown,
    }
}

/// Other answer: it takes the request and goes on rendering.
pub(crate) fn cancel(world: &mut World, config: &Config, task: u8, answer: Answer) -> Reply {
    let Some(found) = world.task(task).copied() else { return Reply::CancelEnded };
    let own = world.job(found.job).is_some_and(|row| {
        let under_way = matches!(row.status, Status::Rendering | Status::Held);
        row.task == task && row.attempt == found.attempt && under_way && !row.cancel
    });
    if own && config.times.deadline == crate::config::NEVER && found.at == TaskAt::Running {
        world.broken(Broken::Ledger);
    }
    if found.at != TaskAt::Running {
        return Reply::CancelEnded;
    }
    if answer == Answer::Plain {
        world.tasks[usize::from(task) - 1].at = TaskAt::Cancelled;
    }
    Reply::CancelRequested
}

/// Other answers: refused; barred by our policy; its address has expired.
pub(crate) fn save(world: &mut World, _config: &Config, job: u8, attempt: u8, answer: Answer) -> Reply {
    let refuse = |world: &mut World| {
        for task in &mut world.tasks {
            task.refused |= task.job == job && task.attempt == attempt;
        }
    };
    match answer {
        Answer::Plain => {
            if !world.stored.contains(&(job, attempt)) {
                world.stored.push((job, attempt));
                world.stored.sort_unstable();
            }
            Reply::Saved
        }
        Answer::Other(0) => {
            refuse(world);
            Reply::SaveRefused
        }
        Answer::Other(1) => Reply::SaveBarred,
        Answer::Other(_) => {
            refuse(world);
            Reply::SaveExpired
        }
    }
}
