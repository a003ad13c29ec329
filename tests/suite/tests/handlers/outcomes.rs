//! Success and failure of one attempt, racing: the outcome row decides, and both follow it.

use crate::support::{HOUR_MS, completed, s1, stands, take_all, world};
use glassline_protocol::message::{Finish, Message};
use glassline_protocol::row::{OutcomeKey, OutcomeRow, Status, Verdict};
use glassline_sandbox::{FaultKind, FaultRule};
use glassline_tests::{Plan, Spot, World};
use std::time::Duration;

/// A completed render whose next download gives a web page: one finisher sees a failure, the other a picture.
async fn scene(world: &World, id: &str) -> Finish {
    let finish = completed(world, id).await;
    world.provider_faults(vec![FaultRule::next(FaultKind::HtmlOutput, 1)]);
    finish
}

async fn verdict(world: &World, id: &str) -> Option<Verdict> {
    let key = OutcomeKey { job: s1(id), attempt: 1 };
    world.get::<OutcomeRow>(&key).await.map(|outcome| outcome.verdict)
}

/// Whatever came first, the job succeeds in the end, with one file and one outcome an attempt.
async fn ends_well(world: &World, id: &str, stored_first: bool) {
    let attempts = if stored_first { 1 } else { 2 };
    if stored_first {
        assert_eq!(stands(world, id).await, (Status::Succeeded, 1, 0));
    } else {
        assert_eq!(stands(world, id).await, (Status::Ready, 1, 1), "it is to be retried, counted once");
        world.drive_to_end(&Plan::none(), HOUR_MS, &[id]).await;
        assert_eq!(stands(world, id).await, (Status::Succeeded, 2, 1));
    }
    assert_eq!(world.renders_of(&s1(id)), attempts, "one render an attempt");
    assert_eq!(world.qa().await[&s1(id)].len(), 1);
    world.check(&[id], stored_first).await;
    take_all(world, "wake").await;
}

/// The finisher that downloads first sees the page and stops before it records that; the other goes all the way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_first() {
    let world = world("keyed", 1).await;
    let finish = Message::Finish(scene(&world, "p1").await);
    let (plan, gate) = Plan::stop_before(Spot::first("finisher", "put outcome"));
    let (bad, good) =
        gate.interrupt(world.handle(&plan, finish.clone()), world.handle(&Plan::none(), finish)).await;
    assert_eq!(good, Some(Some(Ok("succeeded".into()))));
    assert!(bad.unwrap().is_ok());
    assert_eq!(verdict(&world, "p1").await, Some(Verdict::Stored));
    ends_well(&world, "p1", true).await;
}

/// As before, but the other one stops too, between its outcome and its success, and dies there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_first_and_finished_by_the_one_that_saw_a_failure() {
    let world = world("keyed", 1).await;
    let finish = Message::Finish(scene(&world, "p1").await);
    let (plan, gate) = Plan::stop_before(Spot::first("finisher", "put outcome"));
    let dies = Plan::fault(Spot::first("finisher", "put outcome"), glassline_tests::Fault::CrashAfter);
    let (bad, good) = gate.interrupt(world.handle(&plan, finish.clone()), world.handle(&dies, finish)).await;
    assert_eq!((bad, good), (Some(Ok("succeeded".into())), Some(None)));
    ends_well(&world, "p1", true).await;
}

/// The other way round: the page is recorded while the picture is in storage already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_first() {
    let world = world("keyed", 1).await;
    // The first download is the good one this time.
    let finish = Message::Finish(completed(&world, "p1").await);
    let (plan, gate) = Plan::stop_before(Spot::first("finisher", "put outcome"));
    let (good, bad) = gate
        .interrupt(world.handle(&plan, finish.clone()), async {
            world.provider_faults(vec![FaultRule::next(FaultKind::HtmlOutput, 1)]);
            world.handle(&Plan::none(), finish).await
        })
        .await;
    assert_eq!(bad, Some(Some(Ok("followed".into()))));
    assert!(good.unwrap().is_ok());
    assert_eq!(verdict(&world, "p1").await, Some(Verdict::Failed));
    assert!(!world.qa().await.contains_key(&s1("p1")), "nothing goes to QA");
    ends_well(&world, "p1", false).await;
}

/// Failed first, and the retry is under way already when the good one goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_first_and_retried_before_the_other_goes_on() {
    let world = world("keyed", 1).await;
    let finish = Message::Finish(completed(&world, "p1").await);
    let (plan, gate) = Plan::stop_before(Spot::first("finisher", "put outcome"));
    let (good, _) = gate
        .interrupt(world.handle(&plan, finish.clone()), async {
            world.provider_faults(vec![FaultRule::next(FaultKind::HtmlOutput, 1)]);
            world.handle(&Plan::none(), finish).await.unwrap().unwrap();
            world.drive_to_end(&Plan::none(), HOUR_MS, &["p1"]).await;
            assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 2, 1));
        })
        .await;
    good.unwrap().unwrap();
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 2, 1), "nothing of it changed");
    assert_eq!(world.qa().await[&s1("p1")].len(), 1);
    world.check(&["p1"], false).await;
}

/// Both at once, many times, the one that sees the page held up for another while each time: whoever wins, the job goes
/// one way only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_once() {
    let world = world("keyed", 1).await;
    let mut stored = 0;
    const RUNS: u64 = 40;
    for run in 0..RUNS {
        let id = format!("p{run}");
        let finish = Message::Finish(scene(&world, &id).await);
        let (plan, gate) = Plan::stop_before(Spot::first("finisher", "put outcome"));
        let other = Plan::none();
        let late = async {
            gate.reached().await;
            tokio::time::sleep(Duration::from_millis(run % 10 * 4)).await;
            gate.open();
        };
        let (first, second, ()) =
            tokio::join!(world.handle(&plan, finish.clone()), world.handle(&other, finish.clone()), late);
        first.unwrap().unwrap();
        second.unwrap().unwrap();
        let stored_first = verdict(&world, &id).await == Some(Verdict::Stored);
        stored += u64::from(stored_first);
        ends_well(&world, &id, stored_first).await;
    }
    println!("{stored} of {RUNS} were stored first");
}

/// A picture of another size than was asked for is paid for and no output: refused with the reason, and tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_picture_of_another_size_is_refused() {
    let world = world("keyed", 1).await;
    let finish = Message::Finish(completed(&world, "p1").await);
    let mut job = world.job(&s1("p1")).await;
    assert_eq!((job.width_px, job.height_px), (Some(64), Some(64)), "the shot's parameters ask for it");
    job.width_px = Some(640);
    world.put(&job).await;
    assert_eq!(world.handle(&Plan::none(), finish).await, Some(Ok("followed".into())));
    assert_eq!(stands(&world, "p1").await, (Status::Ready, 1, 1));
    let key = OutcomeKey { job: s1("p1"), attempt: 1 };
    let outcome: OutcomeRow = world.get(&key).await.unwrap();
    assert_eq!(outcome.verdict, Verdict::Failed);
    let reason = outcome.reason.unwrap();
    assert_eq!(reason, "the output has 64 × 64 pixels, but 640 × 64 were asked for");
}
