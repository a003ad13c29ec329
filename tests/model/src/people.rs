//! What people and outside systems do to rows at once, by the real transitions; and frames whose rendering isn't modelled.

use crate::action::{Action, FrameEnd};
use crate::codec::{key, ms, token};
use crate::config::Config;
use crate::state::{About, Body, Job, Place, World};
use glassline_protocol::rank::ready_entry;
use glassline_protocol::row::{QaState, Status};
use glassline_protocol::transition::{JobTransition, Ours};

/// The current attempt of a job, if it has an owner.
pub(crate) fn about(world: &World, job: u8) -> Option<About> {
    let row = world.job(job).filter(|row| row.token != 0)?;
    Some(About { job, attempt: row.attempt, token: row.token })
}

fn transition(row: &Job, action: Action) -> Option<JobTransition> {
    let attempt = u32::from(row.attempt);
    let ours = token(row.token).map(|token| Ours { attempt, token });
    Some(match action {
        Action::Cancel(_) if row.status == Status::Ready => {
            JobTransition::CancelReady { attempt, now_ms: ms(0) }
        }
        Action::Cancel(_) => JobTransition::RequestCancel { attempt },
        Action::Review(_, good) => {
            let verdict = if good { QaState::Approved } else { QaState::Rejected };
            JobTransition::Review { attempt, verdict }
        }
        Action::Accept(_) => JobTransition::Accept { ours: ours?, now_ms: ms(0) },
        Action::ReleaseOutside(_) => JobTransition::Release {
            ours: ours?,
            entry: ready_entry(&crate::codec::lane_name(), &crate::codec::rank(row.key), attempt),
            unless_accepted: true,
            failing_below: None,
        },
        _ => return None,
    })
}

/// Does it.
pub(crate) fn act(world: &mut World, config: &Config, action: Action) {
    let (job, left) = match action {
        Action::Cancel(job) => (job, &mut world.left.cancel),
        Action::Review(job, _) => (job, &mut world.left.review),
        Action::Accept(job) | Action::ReleaseOutside(job) => (job, &mut world.left.outside),
        Action::FrameStarts(job) => return frame_starts(world, job),
        Action::FrameEnds(job, end) => return frame_ends(world, job, end),
        _ => return,
    };
    *left = left.saturating_sub(1);
    if let Some(transition) = world.job(job).and_then(|row| transition(row, action)) {
        world.change_job(config, &key(job), &transition);
    }
}

fn frame(world: &mut World, job: u8) -> &mut Job {
    world.jobs.iter_mut().find(|row| row.key == job).unwrap()
}

/// Claim and Start of a frame in one.
fn frame_starts(world: &mut World, job: u8) {
    world.tokens += 1;
    let token = world.tokens;
    let row = frame(world, job);
    (row.status, row.attempt, row.token, row.place) =
        (Status::Rendering, row.attempt + 1, token, Place::None);
}

/// The last write of a frame; whoever made it owes the parent step.
fn frame_ends(world: &mut World, job: u8, end: FrameEnd) {
    if end == FrameEnd::Failed {
        world.left.framefail = world.left.framefail.saturating_sub(1);
    }
    let row = frame(world, job);
    row.status = match end {
        FrameEnd::Succeeded => Status::Succeeded,
        FrameEnd::Failed if row.cancel => Status::Cancelled,
        FrameEnd::Failed => Status::Failed,
        FrameEnd::Cancelled => Status::Cancelled,
    };
    row.token = 0;
    if row.status == Status::Succeeded {
        row.cancel = false;
    }
    world.push(Body::Ended { job }, 0);
}
