//! I4 and its kin: from every state with nobody under way, a fair course of events without further trouble ends every
//! job or leaves it held, closes every head whose frames ended, and frees every slot.

use crate::action::{Action, FrameEnd, How};
use crate::env::Answer;
use crate::model::Checked;
use crate::state::{Job, Place, TaskAt, World};
use glassline_protocol::row::{EpisodeStatus, Status};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Mutex;

/// Longest course that is followed.
const STEPS: usize = 600;

/// States from which all ends well, by fingerprint.
#[derive(Debug, Default)]
pub(crate) struct Memo(Mutex<HashSet<u64>>);

fn fingerprint(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

/// A job may rest like this for ever.
fn at_rest(world: &World, job: &Job) -> bool {
    match job.status {
        Status::Succeeded | Status::Failed | Status::Cancelled => true,
        // Held with a task that ended, it must not stay.
        Status::Held => {
            let looked_at = matches!(job.place, Place::Held { .. });
            looked_at && world.task(job.task).is_none_or(|task| task.dropped || task.at == TaskAt::Running)
        }
        Status::Ready | Status::Claimed | Status::Rendering => false,
    }
}

/// Whether it is all right that nothing more happens.
fn good(checked: &Checked, world: &World) -> bool {
    let used_up = checked.config.spend.or(checked.config.rate).is_some_and(|most| world.claims >= most)
        || checked.config.rate.is_some_and(|rate| world.lane.starts >= rate)
        || checked.config.spend.is_some_and(|spend| world.lane.micros >= spend);
    let jobs = world.jobs.iter().all(|job| at_rest(world, job) || (used_up && job.status == Status::Ready));
    let heads = world.heads.iter().all(|head| {
        let first = crate::codec::FIRST_FRAME + (head.number - 1) * 4;
        let frames: Vec<_> = (first..first + 4).filter_map(|frame| world.job(frame)).collect();
        let over = frames.iter().all(|frame| frame.status == Status::Succeeded)
            || frames.iter().any(|frame| matches!(frame.status, Status::Failed | Status::Cancelled));
        head.status != EpisodeStatus::Open || !over
    });
    world.quiet() && jobs && heads
}

/// The next event of the fair course. `ticked`: a full tick has just looked at everything.
fn next(checked: &Checked, world: &World, turn: usize, ticked: bool) -> Option<Action> {
    if let Some(inv) = world.running.first() {
        let call = inv.wants.first()?.0;
        return Some(Action::Call(0, call, How::Answered(Answer::Plain), 0));
    }
    if !world.ghosts.is_empty() {
        return Some(Action::Land(0));
    }
    let due: Vec<usize> = (0..world.queue.len()).filter(|at| world.queue[*at].due <= 0).collect();
    if !due.is_empty() {
        return Some(Action::Deliver(crate::codec::small(due[turn % due.len()])));
    }
    let running = world.tasks.iter().position(|task| task.at == TaskAt::Running && !task.dropped);
    if let Some(at) = running {
        return Some(Action::Complete(crate::codec::small(at)));
    }
    if checked.config.stories > 0 {
        let ready = world.jobs.iter().find(|job| job.status == Status::Ready);
        if let Some(job) = ready {
            return Some(Action::FrameStarts(job.key));
        }
        if let Some(job) = world.jobs.iter().find(|job| job.status == Status::Rendering) {
            let end = if job.cancel { FrameEnd::Cancelled } else { FrameEnd::Succeeded };
            return Some(Action::FrameEnds(job.key, end));
        }
    }
    if !ticked {
        return Some(Action::Tick);
    }
    checked.step(world).map(|_| Action::Clock)
}

/// Whether a fair course of events without further trouble ends well, from here.
pub(crate) fn ends_well(checked: &Checked, from: &World) -> bool {
    let mut world = from.clone();
    world.left = crate::budget::Budget::default();
    let (mut path, mut on_path) = (Vec::new(), HashSet::new());
    let mut ticked = false;
    for turn in 0..STEPS {
        if world.running.is_empty() {
            let mark = fingerprint(&world);
            if checked.seen.memo.0.lock().unwrap().contains(&mark) {
                break;
            }
            if good(checked, &world) && (ticked || world.jobs.iter().all(|job| job.status.ended())) {
                path.push(mark);
                break;
            }
            // The same again, and it isn't good: it will go on like this for ever. (The turn makes the choice.)
            if !on_path.insert((mark, ticked, turn % 7)) {
                return false;
            }
            path.push(mark);
        }
        let Some(action) = next(checked, &world, turn, ticked) else { return good(checked, &world) };
        ticked = match action {
            Action::Tick => true,
            Action::Clock | Action::Complete(_) | Action::FrameStarts(_) | Action::FrameEnds(..) => false,
            _ => ticked,
        };
        if turn + 1 == STEPS {
            return false;
        }
        checked.go(&mut world, action);
        if world.bad != 0 {
            // It is found as what it is.
            break;
        }
    }
    checked.seen.memo.0.lock().unwrap().extend(path);
    true
}

/// The fair course from here, as actions: what a counterexample shows.
pub(crate) fn course(checked: &Checked, from: &World, steps: usize) -> Vec<(World, Action)> {
    let mut world = from.clone();
    world.left = crate::budget::Budget::default();
    let (mut shown, mut ticked) = (Vec::new(), false);
    for turn in 0..steps {
        let Some(action) = next(checked, &world, turn, ticked) else { break };
        ticked = match action {
            Action::Tick => true,
            Action::Clock | Action::Complete(_) | Action::FrameStarts(_) | Action::FrameEnds(..) => false,
            _ => ticked,
        };
        shown.push((world.clone(), action));
        checked.go(&mut world, action);
    }
    shown
}
