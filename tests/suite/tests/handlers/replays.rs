//! Every message of ours, replayed while each call of a job's life is under way: nothing is submitted a second time, and
//! nothing happens twice.

use crate::support::{
    HOUR_MS, check, claimed, completed, message, ok, rendering, rollback, s1, stands, take_all, world,
};
use glassline_protocol::message::{CheckCause, Finish, Handoff, Message, RollbackCause, Subject};
use glassline_protocol::note::Note;
use glassline_protocol::provider::Recovery;
use glassline_protocol::row::Status;
use glassline_sandbox::{FaultKind, FaultRule};
use glassline_tests::{Fault, Lane, MINUTE_MS, Plan, Spot, World, WorldOptions, job_key, post};

/// What is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replay {
    Handoff,
    Chain,
    Resume,
    Callback,
    Finish,
    Unsent,
    LeaseOver,
    Held,
    DeadHandoff,
    DeadCheck,
    DeadFinish,
    /// Every message that was delivered so far, wakes included.
    Everything,
}

/// The handoff of the world's last claim, on the queue or delivered.
async fn handoff_of(world: &World) -> Option<Handoff> {
    let queued = world.engine.peek("render", 100).await.unwrap();
    let queued = queued.iter().map(|message| Message::from_body(&message.body).unwrap());
    let delivered = world.delivered.lock().unwrap().clone();
    let mut handoffs = delivered.into_iter().chain(queued).filter_map(|message| match message {
        Message::Handoff(handoff) => Some(handoff),
        Message::Check(_) | Message::Finish(_) | Message::Rollback(_) | Message::Wake(_) | Message::Qa(_) => {
            None
        }
    });
    handoffs.next_back()
}

async fn finish_of(world: &World, subject: &Subject) -> Option<Message> {
    let task = world.job(&subject.job()).await.task?;
    Some(Message::Finish(Finish { subject: subject.clone(), task, outputs: vec![], resumes: 0 }))
}

/// Replays it, as far as there is something to replay yet.
async fn replay(world: &World, kind: Replay) {
    if kind == Replay::Everything {
        let delivered = world.delivered.lock().unwrap().clone();
        for message in delivered {
            world.handle(&Plan::none(), message).await.unwrap().unwrap();
        }
        return;
    }
    let Some(handoff) = handoff_of(world).await else { return };
    let subject = handoff.subject();
    let lease_ms = world.job(&subject.job()).await.lease_ms.unwrap_or(0);
    let chain = check(&subject, CheckCause::Chain { lease_ms });
    let (message, dead) = match kind {
        Replay::Handoff => (Some(message(&handoff)), false),
        Replay::Chain => (Some(chain), false),
        Replay::Resume => (Some(check(&subject, CheckCause::Resume)), false),
        Replay::Callback => (Some(check(&subject, CheckCause::Callback)), false),
        Replay::Finish => (finish_of(world, &subject).await, false),
        Replay::Unsent => (Some(rollback(&subject, RollbackCause::Unsent)), false),
        Replay::LeaseOver => (Some(rollback(&subject, RollbackCause::LeaseOver)), false),
        Replay::Held => (Some(rollback(&subject, RollbackCause::Held)), false),
        Replay::DeadHandoff => (Some(message(&handoff)), true),
        Replay::DeadCheck => (Some(chain), true),
        Replay::DeadFinish => (finish_of(world, &subject).await, true),
        Replay::Everything => (None, false),
    };
    let Some(message) = message else { return };
    if dead {
        world.handle_dead(&Plan::none(), message).await.unwrap().unwrap();
    } else {
        // A finish of a task that runs on may be given back.
        let _ = world.handle(&Plan::none(), message).await.unwrap();
    }
}

/// A life in which `kind` is replayed, twice, before call `at`; `false` when it has fewer calls.
async fn life(world: &World, kind: Replay, at: usize) -> bool {
    let id = format!("{kind:?}-{at}");
    let shots = if kind == Replay::Everything { 2 } else { 1 };
    let posts = world.sandbox.books().totals.posts;
    world.submit(&post(&id, "blind", shots)).await;
    let (plan, gate) = Plan::stop_before(Spot::number(at));
    let (driven, replayed) = gate
        .interrupt(world.drive(&plan, 1, 6 * HOUR_MS, &[&id]), async {
            replay(world, kind).await;
            replay(world, kind).await;
        })
        .await;
    // And once more when all is over.
    replay(world, kind).await;
    world.drive_late().await;
    let about = format!("{kind:?} before call {at} ({:?}): {driven:?}", plan.fired());
    for n in 1..=shots {
        let job = world.job(&job_key(&id, &format!("s{n}"))).await;
        assert_eq!(job.status, Status::Succeeded, "{job:?}, {about}");
        assert_eq!(world.renders_of(&job.key), 1, "{about}");
        // What comes of a claim whose messages died is a failure; of one that was given back otherwise it isn't.
        let dead = matches!(kind, Replay::DeadHandoff | Replay::DeadCheck);
        assert_eq!(job.failures, u32::from(dead && job.attempt > 1), "{job:?}, {about}");
        let gives_back = dead || matches!(kind, Replay::Unsent | Replay::Held);
        assert!(job.attempt == 1 || gives_back, "{job:?}, {about}");
        assert_eq!(world.qa().await[&job.key].len(), 1, "{about}");
    }
    assert_eq!(world.sandbox.books().totals.posts - posts, shots as u64, "submitted once: {about}");
    world.check(&[&id], true).await;
    replayed.is_some()
}

async fn at_every_call(kinds: &[Replay]) {
    let mut world = world("blind", 1).await;
    for kind in kinds {
        let mut at = 0;
        while life(&world, *kind, at).await {
            at += 1;
            world = world.again().await;
        }
        assert!(at > 20, "a life has more calls than {at}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handoffs() {
    at_every_call(&[Replay::Handoff, Replay::DeadHandoff]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checks() {
    at_every_call(&[Replay::Chain, Replay::Resume, Replay::Callback, Replay::DeadCheck]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finishes() {
    at_every_call(&[Replay::Finish, Replay::DeadFinish]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollbacks() {
    at_every_call(&[Replay::Unsent, Replay::LeaseOver, Replay::Held]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_that_came_before_while_two_jobs_take_turns() {
    at_every_call(&[Replay::Everything]).await;
}

/// Two finishers of one output: the first stops before its call `first`, the second dies before its call `second` or
/// goes through, then the first goes on. `None`: they have fewer calls.
async fn two_finishers(world: &World, first: usize, second: usize) -> Option<bool> {
    let id = format!("f{first}-{second}");
    let finish = Message::Finish(completed(world, &id).await);
    let (plan, gate) = Plan::stop_before(Spot::number(first));
    let other = Plan::fault(Spot::number(second), Fault::CrashBefore);
    let (handled, between) =
        gate.interrupt(world.handle(&plan, finish.clone()), world.handle(&other, finish.clone())).await;
    let between = between?;
    let about = format!("{first} {:?}, {second} {:?}", plan.fired(), other.fired());
    handled.unwrap().unwrap();
    // Whatever the two came to, the message is delivered again.
    world.handle(&Plan::none(), finish).await.unwrap().unwrap();
    assert_eq!(stands(world, &id).await, (Status::Succeeded, 1, 0), "{about}");
    assert_eq!(world.qa().await[&s1(&id)].len(), 1, "{about}");
    world.check(&[&id], true).await;
    take_all(world, "wake").await;
    Some(between.is_none())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_finisher_at_every_step_of_the_first_dying_at_every_step_of_its_own() {
    let world = world("keyed", 1).await;
    let mut first = 0;
    let mut pairs = 0;
    loop {
        let mut second = 0;
        let ended = loop {
            match two_finishers(&world, first, second).await {
                None => break true,
                // The second one went through without coming to that call.
                Some(false) => break false,
                Some(true) => second += 1,
            }
        };
        pairs += second;
        if ended {
            break;
        }
        first += 1;
    }
    assert!(first >= 6 && pairs >= 20, "{first} steps, {pairs} pairs");
}

/// Resumes at the same moment, and the job's own chain of polls, must come to one chain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resumes_do_not_multiply_the_chain_of_polls() {
    let lane = Lane { render_ms: 10 * MINUTE_MS, ..Lane::keyed(1) };
    let world = World::new(WorldOptions::one(lane)).await;
    let handoff = rendering(&world, "p1").await;
    for _ in 0..3 {
        ok(&world, check(&handoff.subject(), CheckCause::Resume)).await;
    }
    let driven = world.drive_on(&Plan::none(), 5 * MINUTE_MS).await;
    let polls = driven.count(Note::Running);
    assert!((290..=310).contains(&polls), "{polls} polls in 300 s, once a second");
}

/// A worker that comes late with its task, and the resume that found the same task by its key, must come to one chain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_two_learned_of_has_one_chain_of_polls() {
    let lane = Lane { render_ms: 12 * MINUTE_MS, ..Lane::keyed(1) };
    let world = World::new(WorldOptions::one(lane)).await;
    let handoff = claimed(&world, "p1").await;
    let (plan, gate) = Plan::stop_before(Spot::first("worker", "RecordTask"));
    let no_faults = Plan::none();
    let has_task = async |world: &World| world.job(&s1("p1")).await.task.is_some();
    let found = world.drive_until(&no_faults, 1, HOUR_MS, has_task);
    let (note, found) = gate.interrupt(world.handle(&plan, message(&handoff)), found).await;
    assert!(found.is_some_and(|driven| driven.count(Note::Resolved) == 1));
    assert_eq!(note, Some(Ok("submitted".into())));
    let driven = world.drive_on(&Plan::none(), 5 * MINUTE_MS).await;
    let polls = driven.count(Note::Running);
    assert!((290..=310).contains(&polls), "{polls} polls in 300 s, once a second");
    assert_eq!(world.accepted().len(), 1);
}

/// Nor do they multiply while a lost submit waits to be resolved.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resumes_do_not_multiply_while_a_submit_is_unresolved() {
    let lane = Lane::new("settling", 1, Recovery::Lookup { settle_ms: 10 * MINUTE_MS });
    let world = World::new(WorldOptions::one(lane)).await;
    world.provider_faults(vec![FaultRule::next(FaultKind::DropRequest, 1)]);
    let handoff = claimed(&world, "p1").await;
    assert_eq!(ok(&world, message(&handoff)).await, "submit_unknown");
    for _ in 0..10 {
        ok(&world, check(&handoff.subject(), CheckCause::Resume)).await;
        ok(&world, message(&handoff)).await;
    }
    let driven = world.drive_on(&Plan::none(), 11 * MINUTE_MS).await;
    let looks = driven.count(Note::Unresolved);
    let idle = driven.count(Note::NotLeader);
    // A look at the end of every lease, and at most as many others as there were messages.
    assert!((3..=8).contains(&looks), "{looks} looks: {driven:?}");
    assert!(idle <= 30, "{idle} checks that did nothing: {driven:?}");
    world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 2, 1));
    world.check(&["p1"], true).await;
}
