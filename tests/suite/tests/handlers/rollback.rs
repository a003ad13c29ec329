//! Late rollbacks: they change nothing of a job that has moved on.

use crate::support::{
    changes_nothing, check, claim_next, claimed, completed, message, rendering, rollback, s1, stands, take,
    take_all, world,
};
use glassline_protocol::message::{CheckCause, Message, RollbackCause};
use glassline_protocol::ports::{Store as _, Written};
use glassline_protocol::rank::ready_entry;
use glassline_protocol::row::Status;
use glassline_protocol::transition::{JobTransition, Ours};
use glassline_tests::{MINUTE_MS, Plan};

const CAUSES: [RollbackCause; 3] = [RollbackCause::Unsent, RollbackCause::LeaseOver, RollbackCause::Held];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_rendering_job_only_asks_for_a_look() {
    let world = world("blind", 1).await;
    let handoff = rendering(&world, "p1").await;
    for cause in CAUSES {
        let note = changes_nothing(&world, &s1("p1"), rollback(&handoff.subject(), cause)).await;
        assert_eq!(note, "resuming");
        let Message::Check(check) = take(&world, "render").await else { panic!("it is a check") };
        assert_eq!((check.cause, check.resumes), (CheckCause::Resume, 0));
    }
    assert!(take_all(&world, "wake").await.is_empty(), "its slot is not given out");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_an_ended_job_or_another_token_does_nothing() {
    let world = world("blind", 1).await;
    // Its first claim is given back, and it is claimed again under another token.
    let first = claimed(&world, "p1").await;
    let unsent = rollback(&first.subject(), RollbackCause::Unsent);
    assert_eq!(world.handle(&Plan::none(), unsent).await, Some(Ok("released".into())));
    let stale = |cause| rollback(&first.subject(), cause);
    for cause in CAUSES {
        assert_eq!(changes_nothing(&world, &s1("p1"), stale(cause)).await, "stale", "it is ready again");
    }
    // What refused its handoff may refuse it again: it waits a moment.
    world.clock.manual.advance(world.settings.retry_base_ms);
    let second = claim_next(&world).await;
    assert_eq!(stands(&world, "p1").await, (Status::Claimed, 2, 0));
    for cause in CAUSES {
        assert_eq!(changes_nothing(&world, &s1("p1"), stale(cause)).await, "stale", "it has another owner");
    }
    // The first worker, late: its handoff is worth nothing.
    assert_eq!(changes_nothing(&world, &s1("p1"), message(&first)).await, "stale");
    assert_eq!(world.handle(&Plan::none(), message(&second)).await, Some(Ok("submitted".into())));
    world.drive(&Plan::none(), 1, 10 * MINUTE_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 2, 0));
    take_all(&world, "wake").await;
    for subject in [first.subject(), second.subject()] {
        for cause in CAUSES {
            let note = changes_nothing(&world, &s1("p1"), rollback(&subject, cause)).await;
            assert!(note == "ended" || note == "stale", "{note}");
        }
    }
    assert!(take_all(&world, "wake").await.is_empty() && take_all(&world, "render").await.is_empty());
    world.check(&["p1"], true).await;
}

/// The write itself, at every place that a job can have moved on to since its claim was read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_never_changes_a_job_that_has_moved_on() {
    let world = world("blind", 1).await;
    let handoff = claimed(&world, "p1").await;
    let row = world.job(&s1("p1")).await;
    let release = |unless_accepted, failing_below| JobTransition::Release {
        ours: Ours { attempt: handoff.attempt, token: handoff.token.clone() },
        entry: ready_entry(&row.lane, &row.rank, row.attempt),
        unless_accepted,
        failing_below,
    };
    let refused = async |place: &str| {
        for (unless_accepted, failing_below) in [(false, None), (true, None), (false, Some(2))] {
            let before = world.job(&s1("p1")).await;
            let written = world.ports.change_job(&s1("p1"), &release(unless_accepted, failing_below)).await;
            assert_eq!(written, Written::Refused(Some(before)), "{place}");
        }
    };
    assert_eq!(world.handle(&Plan::none(), message(&handoff)).await, Some(Ok("submitted".into())));
    refused("rendering").await;
    world.drive(&Plan::none(), 1, 10 * MINUTE_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
    refused("succeeded").await;
}

/// Rollback reads the claim; before it writes, the worker starts it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_starts_just_before_the_release_keeps_its_job() {
    let world = world("blind", 1).await;
    let handoff = claimed(&world, "p1").await;
    let spot = glassline_tests::Spot::first("rollback", "Release");
    let (plan, gate) = Plan::stop_before(spot);
    let unsent = rollback(&handoff.subject(), RollbackCause::Unsent);
    let (rolled, started) =
        gate.interrupt(world.handle(&plan, unsent), world.handle(&Plan::none(), message(&handoff))).await;
    assert_eq!(started, Some(Some(Ok("submitted".into()))));
    assert_eq!(rolled, Some(Ok("stale".into())));
    assert_eq!(stands(&world, "p1").await, (Status::Rendering, 1, 0));
    assert!(take_all(&world, "wake").await.is_empty(), "its slot is not given out");
    world.drive(&Plan::none(), 1, 10 * MINUTE_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
    world.check(&["p1"], true).await;
}

/// A resume of a claim, or of an attempt under another token, is not a resume.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_checks_and_finishes_change_nothing() {
    let world = world("blind", 1).await;
    let finish = completed(&world, "p1").await;
    let subject = finish.subject.clone();
    assert_eq!(
        world.handle(&Plan::none(), Message::Finish(finish.clone())).await,
        Some(Ok("succeeded".into()))
    );
    take_all(&world, "wake").await;
    for cause in [CheckCause::Resume, CheckCause::Callback, CheckCause::Chain { lease_ms: 1 }] {
        assert_eq!(changes_nothing(&world, &s1("p1"), check(&subject, cause)).await, "ended");
    }
    assert_eq!(changes_nothing(&world, &s1("p1"), Message::Finish(finish)).await, "ended");
    assert!(take_all(&world, "wake").await.is_empty());
    assert_eq!(world.qa().await[&s1("p1")].len(), 1);
}
