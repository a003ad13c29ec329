//! The queues: at least once, in any order, not before the delay, and to the dead letters after too many receives.

use crate::check::Broken;
use crate::codec::body;
use crate::config::Config;
use crate::state::{Body, Msg, Reply, Who, World};
use glassline_protocol::message::Message;
use glassline_protocol::ports::Envelope;
use glassline_protocol::row::Verdict;

/// Takes messages; those to QA are entered in its books.
pub(crate) fn send(world: &mut World, envelopes: &[Envelope]) -> Reply {
    for envelope in envelopes {
        match (body(&envelope.message), &envelope.message) {
            (Some(body), _) => world.push(body, i16::try_from(envelope.delay_ms).unwrap()),
            (None, Message::Qa(qa)) => {
                let (job, attempt) = (crate::codec::job_of(&qa.job), crate::codec::small(qa.attempt));
                let stored = world.outcome(job, attempt).is_some_and(|row| row.verdict == Verdict::Stored);
                if !stored {
                    world.broken(Broken::Publish);
                }
                if !world.qa.contains(&(job, attempt)) {
                    world.qa.push((job, attempt));
                    world.qa.sort_unstable();
                }
            }
            (None, other) => panic!("{other:?} has no queue"),
        }
    }
    Reply::Sent
}

/// Which function receives it.
pub(crate) fn reader(msg: &Msg) -> Who {
    match msg.body {
        _ if msg.dead => Who::Rollback,
        Body::Handoff { .. } | Body::Check { .. } => Who::Worker,
        Body::Finish { .. } => Who::Finisher,
        Body::Rollback { .. } => Who::Rollback,
        Body::Wake { .. } => Who::Waker,
        Body::Ended { .. } => Who::Parent,
    }
}

/// A message that was received and not handled: it comes again, or goes to the dead letters, or from there to a person.
pub(crate) fn give_back(world: &mut World, config: &Config, msg: Msg) {
    let receives = msg.receives + 1;
    if receives < config.receives {
        world.queue.push(Msg { receives, due: 0, ..msg });
        return;
    }
    let again = match msg.body {
        Body::Handoff { .. } | Body::Check { .. } | Body::Finish { .. } => !msg.dead,
        Body::Rollback { .. } | Body::Wake { .. } | Body::Ended { .. } => false,
    };
    if again {
        world.queue.push(Msg { receives: 0, due: 0, dead: true, ..msg });
    }
}
