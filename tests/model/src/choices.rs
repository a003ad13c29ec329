//! What can become of a call.

use crate::action::How;
use crate::env::Answer;
use crate::state::{Kind, TaskAt, World};

/// A call that commutes with whatever else can happen: nobody else reads or changes what it reads or changes, and it
/// enables nothing that could not as well happen after it.
pub(crate) fn apart(world: &World, kind: Kind) -> bool {
    match kind {
        Kind::Send | Kind::Handoffs | Kind::Orphan | Kind::Specs | Kind::Save(_) => true,
        Kind::Status(task) => world.task(task).is_some_and(|task| task.at != TaskAt::Running),
        Kind::Read
        | Kind::Query
        | Kind::Draw
        | Kind::Write
        | Kind::Tx
        | Kind::Submit(..)
        | Kind::Find(..)
        | Kind::Cancel(_) => false,
    }
}

/// Whether dying after this call differs from dying before it.
fn has_effect(kind: Kind) -> bool {
    match kind {
        Kind::Write
        | Kind::Tx
        | Kind::Send
        | Kind::Handoffs
        | Kind::Orphan
        | Kind::Submit(..)
        | Kind::Cancel(_)
        | Kind::Save(_) => true,
        Kind::Read | Kind::Query | Kind::Draw | Kind::Specs | Kind::Status(_) | Kind::Find(..) => false,
    }
}

/// What can become of a call of this kind.
pub(crate) fn hows(world: &World, kind: Kind) -> Vec<How> {
    let left = &world.left;
    let mut hows = vec![How::Answered(Answer::Plain)];
    let mut other = |budget: u8, n: u8| {
        if budget > 0 {
            hows.push(How::Answered(Answer::Other(n)));
        }
    };
    match kind {
        Kind::Submit(..) => {
            other(left.reject, 0);
            other(left.throttle, 1);
            other(left.drop, 2);
        }
        Kind::Status(_) => other(left.mute, 0),
        Kind::Find(job, attempt) => {
            let lags = world.tasks.iter().any(|t| (t.job, t.attempt) == (job, attempt) && t.visible > 0);
            other(left.lag.min(u8::from(lags)), 0);
            other(left.mute, 1);
        }
        Kind::Cancel(_) => other(left.refuse, 0),
        Kind::Save(_) => {
            other(left.badout, 0);
            other(left.barred, 1);
            other(left.expired, 2);
        }
        Kind::Query => {
            for n in 0..=crate::codec::small(world.jobs.len()) {
                other(left.stale, n);
            }
        }
        Kind::Read
        | Kind::Draw
        | Kind::Write
        | Kind::Tx
        | Kind::Send
        | Kind::Handoffs
        | Kind::Orphan
        | Kind::Specs => {}
    }
    let (lose, late) = match kind {
        Kind::Write | Kind::Tx => (left.lost, left.late),
        Kind::Orphan => (left.lost, 0),
        Kind::Send | Kind::Handoffs => (left.unsent, 0),
        Kind::Submit(..) => (left.submit, left.submit),
        Kind::Read
        | Kind::Query
        | Kind::Draw
        | Kind::Specs
        | Kind::Status(_)
        | Kind::Find(..)
        | Kind::Cancel(_)
        | Kind::Save(_) => (0, 0),
    };
    if lose > 0 {
        hows.extend([How::LostRequest, How::LostReply]);
    }
    if kind == Kind::Specs && left.lost > 0 {
        hows.push(How::LostRequest);
    }
    if late > 0 && world.ghosts.len() < 2 {
        hows.push(How::Late);
    }
    if left.crash > 0 && has_effect(kind) {
        hows.push(How::CrashAfter);
    }
    hows
}
