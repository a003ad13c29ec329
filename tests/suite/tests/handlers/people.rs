//! What people ask for: another attempt, a decision on a held job, a verdict; each means an attempt, and a late duplicate
//! changes nothing.

use crate::support::{HOUR_MS, check, message, rendering, s1, stands, take_all, world};
use glassline_protocol::bulk::{Bulk, bulk};
use glassline_protocol::message::CheckCause;
use glassline_protocol::note::Did;
use glassline_protocol::provider::{ErrorClass, Reference};
use glassline_protocol::row::outcome::Cost;
use glassline_protocol::row::{OutcomeKey, OutcomeRow, QaState, Status, Verdict};
use glassline_protocol::settle::Fault as HandlerFault;
use glassline_protocol::steps::{Asked, Resolution, Review, cancel, requeue, resolve, review};
use glassline_sandbox::{FaultKind, FaultRule, RenderState};
use glassline_tests::{
    Fault, Faulty, Lane, MINUTE_MS, Plan, Ports, Spot, World, WorldOptions, lane_name, post,
};

/// What a person asks about the first shot of p1.
#[derive(Clone, Debug)]
enum Ask {
    Cancel(u32),
    Requeue(u32),
    Resolve(u32, Resolution),
    Review(u32, Review),
}

async fn with(world: &World, ports: &Faulty<'_, Ports>, ask: &Ask) -> Result<Asked, HandlerFault> {
    let (settings, job) = (&world.settings, s1("p1"));
    match ask {
        Ask::Cancel(attempt) => cancel(ports, settings, &job, *attempt).await,
        Ask::Requeue(attempt) => requeue(ports, settings, &job, *attempt, None).await,
        Ask::Resolve(attempt, resolution) => resolve(ports, settings, &job, *attempt, resolution).await,
        Ask::Review(attempt, verdict) => {
            let outcome = Reference { job, attempt: *attempt };
            review(ports, settings, &outcome, verdict.clone()).await
        }
    }
}

async fn asked(world: &World, plan: &Plan, ask: &Ask) -> Option<Result<Asked, HandlerFault>> {
    let ports = Faulty::new(&world.ports, plan, "api");
    ports.run(Box::pin(with(world, &ports, ask))).await
}

async fn did(world: &World, ask: &Ask) -> Did {
    match asked(world, &Plan::none(), ask).await.unwrap().unwrap() {
        Asked::Done(did, _) => did,
        other => panic!("{ask:?}: {other:?}"),
    }
}

/// Refused, and nothing changed.
async fn refused(world: &World, ask: &Ask) -> String {
    let before = world.job(&s1("p1")).await;
    let why = match asked(world, &Plan::none(), ask).await.unwrap().unwrap() {
        Asked::Refused(why, _) => why,
        other => panic!("{ask:?}: {other:?}"),
    };
    assert_eq!(world.job(&s1("p1")).await, before, "{ask:?}");
    why
}

/// Its submit's answer is lost, and the provider, which accepted it, has no way to find it: held.
async fn held(world: &World) {
    world.provider_faults(vec![FaultRule::next(FaultKind::DropAnswer, 1)]);
    world.submit(&post("p1", "blind", 1)).await;
    world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    assert_eq!(stands(world, "p1").await, (Status::Held, 1, 0));
}

async fn outcome(world: &World, attempt: u32) -> Option<OutcomeRow> {
    world.get(&OutcomeKey { job: s1("p1"), attempt }).await
}

async fn to_end(world: &World) {
    world.drive_to_end(&Plan::none(), HOUR_MS, &["p1"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_job_is_rendered_again_when_a_person_says_so() {
    let world = world("blind", 1).await;
    held(&world).await;
    let lost = Ask::Resolve(1, Resolution::Lost);
    assert_eq!(did(&world, &lost).await, Did::Requeued);
    assert_eq!(stands(&world, "p1").await, (Status::Ready, 2, 0));
    let first = outcome(&world, 1).await.unwrap();
    assert_eq!((first.verdict, first.cost), (Verdict::Cancelled, Cost::None));
    refused(&world, &lost).await;
    to_end(&world).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 3, 0));
    refused(&world, &lost).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_job_whose_task_a_person_found_is_finished_without_another_render() {
    let world = world("blind", 1).await;
    held(&world).await;
    let task = world.sandbox.books().renders[0].id.parse().unwrap();
    assert_eq!(did(&world, &Ask::Resolve(1, Resolution::Task(task))).await, Did::Checking);
    let why = refused(&world, &Ask::Resolve(1, Resolution::Task("rnd_other".parse().unwrap()))).await;
    assert!(why.contains("is recorded for it already"), "{why}");
    let why = refused(&world, &Ask::Resolve(1, Resolution::Lost)).await;
    assert!(why.contains("it was accepted as task"), "{why}");
    to_end(&world).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
    world.check(&["p1"], true).await;
}

/// The task becomes known while a person says that there is none: what was read is not what is so any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_comes_to_be_known_meanwhile_is_not_rendered_a_second_time() {
    for call in ["Renew", "put outcome"] {
        let world = world("blind", 1).await;
        held(&world).await;
        let task = world.sandbox.books().renders[0].id.parse().unwrap();
        let (plan, gate) = Plan::stop_before(Spot::first("api", call));
        let (lost, known) = (Ask::Resolve(1, Resolution::Lost), Ask::Resolve(1, Resolution::Task(task)));
        let (said, between) =
            gate.interrupt(asked(&world, &plan, &lost), asked(&world, &Plan::none(), &known)).await;
        assert!(matches!(between, Some(Some(Ok(Asked::Done(Did::Checking, _))))), "{call}: {between:?}");
        assert!(matches!(said, Some(Ok(Asked::Refused(..)))), "{call}: {said:?}");
        assert_eq!(outcome(&world, 1).await, None, "{call}: nothing is on record");
        to_end(&world).await;
        assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0), "{call}");
        assert_eq!(world.renders_of(&s1("p1")), 1, "{call}");
        world.check(&["p1"], true).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_job_that_is_given_up_is_cancelled_and_stays_so() {
    let world = world("blind", 1).await;
    held(&world).await;
    let give_up = Ask::Resolve(1, Resolution::GiveUp);
    assert_eq!(did(&world, &give_up).await, Did::Cancelled);
    refused(&world, &give_up).await;
    world.drive_late().await;
    assert_eq!(stands(&world, "p1").await, (Status::Cancelled, 1, 0));
    assert_eq!(outcome(&world, 1).await.unwrap().cost, Cost::AtRisk);
    world.check(&["p1"], true).await;
    assert_eq!(did(&world, &Ask::Requeue(1)).await, Did::Requeued);
    to_end(&world).await;
    assert_eq!(world.job(&s1("p1")).await.status, Status::Succeeded);
}

/// A fault at every call of a decision, and the decision again: it ends as it should, with one more render at most.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_survives_a_fault_at_every_call() {
    let mut world = world("blind", 1).await;
    for (ask, end) in [
        (Ask::Requeue(1), Status::Succeeded),
        (Ask::Resolve(1, Resolution::Lost), Status::Succeeded),
        (Ask::Resolve(1, Resolution::GiveUp), Status::Cancelled),
        (Ask::Cancel(1), Status::Held),
    ] {
        'calls: for at in 0.. {
            for fault in Fault::ALL {
                held(&world).await;
                let renders = world.renders_of(&s1("p1"));
                let plan = Plan::fault(Spot::number(at), fault);
                let first = asked(&world, &plan, &ask).await;
                let Some(call) = plan.fired() else {
                    world = world.again().await;
                    break 'calls;
                };
                let second = asked(&world, &Plan::none(), &ask).await.unwrap().unwrap();
                let about = format!("{ask:?}, {fault:?} at {call}: {first:?}, then {second:?}");
                world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
                let job = world.job(&s1("p1")).await;
                assert_eq!(job.status, end, "{about}: {job:?}");
                let more = world.renders_of(&s1("p1")) - renders;
                assert_eq!(more, usize::from(end == Status::Succeeded), "{about}");
                world.check_history();
                world = world.again().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_job_that_was_stored_meanwhile_is_finished_instead() {
    let world = world("blind", 1).await;
    held(&world).await;
    // Another has found its task, and the finisher has stored it and stops before QA.
    let task = world.sandbox.books().renders[0].id.parse().unwrap();
    did(&world, &Ask::Resolve(1, Resolution::Task(task))).await;
    world.clock.manual.advance(2_000);
    let mut driven = glassline_tests::Driven::default();
    world.deliver_from("render", &Plan::none(), 1, &mut driven).await;
    let plan = Plan::fault(Spot::first("finisher", "qa"), Fault::CrashBefore);
    world.deliver_from("finish", &plan, 1, &mut driven).await;
    assert_eq!(outcome(&world, 1).await.unwrap().verdict, Verdict::Stored, "{driven:?}");
    assert_eq!(stands(&world, "p1").await, (Status::Held, 1, 0));
    assert_eq!(did(&world, &Ask::Requeue(1)).await, Did::Finishing);
    assert_eq!(did(&world, &Ask::Resolve(1, Resolution::GiveUp)).await, Did::Finishing);
    to_end(&world).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
    world.check(&["p1"], true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejected_output_is_rendered_again_and_late_verdicts_change_nothing() {
    let world = world("blind", 1).await;
    world.submit(&post("p1", "blind", 1)).await;
    to_end(&world).await;
    let reject = Ask::Review(1, Review::Reject("the lamp is missing".into()));
    refused(&world, &Ask::Review(2, Review::Approve)).await;
    assert_eq!(did(&world, &reject).await, Did::RejectedAndRequeued);
    let job = world.job(&s1("p1")).await;
    assert_eq!((job.status, job.attempt, job.qa), (Status::Ready, 2, None));
    assert_eq!(job.error.as_deref(), Some("rejected: the lamp is missing"));
    refused(&world, &reject).await;
    to_end(&world).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 3, 0));
    // Late: the first output's verdicts, and another attempt of it.
    for late in [reject, Ask::Review(1, Review::Approve), Ask::Requeue(1), Ask::Cancel(1)] {
        refused(&world, &late).await;
    }
    let approve = Ask::Review(3, Review::Approve);
    assert_eq!(did(&world, &approve).await, Did::Approved);
    assert_eq!(did(&world, &approve).await, Did::Approved, "again is the same");
    let why = refused(&world, &Ask::Review(3, Review::Reject("no".into()))).await;
    assert_eq!(why, "it is approved already");
    assert_eq!(world.job(&s1("p1")).await.qa, Some(QaState::Approved));
    assert_eq!(world.renders_of(&s1("p1")), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verdict_survives_a_fault_at_every_call() {
    let mut world = world("blind", 1).await;
    'calls: for at in 0.. {
        for fault in Fault::ALL {
            world.submit(&post("p1", "blind", 1)).await;
            to_end(&world).await;
            let reject = Ask::Review(1, Review::Reject("dull".into()));
            let plan = Plan::fault(Spot::number(at), fault);
            asked(&world, &plan, &reject).await;
            let Some(call) = plan.fired() else { break 'calls };
            asked(&world, &Plan::none(), &reject).await.unwrap().unwrap();
            let job = world.job(&s1("p1")).await;
            assert_eq!((job.status, job.attempt), (Status::Ready, 2), "{fault:?} at {call}");
            world = world.again().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_acts_at_once_wherever_it_can() {
    let mut world = world("blind", 1).await;
    world.submit(&post("p1", "blind", 1)).await;
    refused(&world, &Ask::Cancel(1)).await;
    assert_eq!(did(&world, &Ask::Cancel(0)).await, Did::Cancelled);
    assert_eq!(did(&world, &Ask::Cancel(0)).await, Did::Cancelled, "again is the same");
    assert_eq!(stands(&world, "p1").await, (Status::Cancelled, 0, 0));
    world = world.again().await;
    let handoff = crate::support::claimed(&world, "p1").await;
    assert_eq!(did(&world, &Ask::Cancel(1)).await, Did::Cancelled);
    assert_eq!(stands(&world, "p1").await, (Status::Cancelled, 1, 0));
    assert_eq!(take_all(&world, "wake").await.len(), 1, "its slot is free");
    crate::support::ok(&world, message(&handoff)).await;
    assert_eq!(world.renders_of(&s1("p1")), 0);
    assert!(refused(&world, &Ask::Requeue(0)).await.contains("attempt 0 of POST#"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_render_that_is_cancelled_is_stopped_at_the_provider_without_waiting_for_its_poll() {
    let lane = Lane { render_ms: 10 * MINUTE_MS, ..Lane::blind(1) };
    let world = World::new(WorldOptions::one(lane)).await;
    let handoff = rendering(&world, "p1").await;
    assert_eq!(did(&world, &Ask::Cancel(1)).await, Did::CancelRequested);
    let mut driven = glassline_tests::Driven::default();
    world.deliver_from("render", &Plan::none(), 1, &mut driven).await;
    assert_eq!(stands(&world, "p1").await, (Status::Cancelled, 1, 0), "{driven:?}");
    assert_eq!(world.sandbox.books().renders[0].state, RenderState::Cancelled);
    world.drive_late().await;
    crate::support::changes_nothing(&world, &s1("p1"), check(&handoff.subject(), CheckCause::Callback)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_jobs_of_a_class_are_requeued_page_by_page() {
    let world = World::new(WorldOptions::one(Lane::keyed(2))).await;
    let rules = [FaultKind::RejectModeration, FaultKind::RejectInvalid].map(|kind| FaultRule::next(kind, 2));
    world.provider_faults(rules.into());
    world.submit(&post("p1", "keyed", 5)).await;
    world.drive_to_end(&Plan::none(), HOUR_MS, &["p1"]).await;
    let failed = world.jobs("p1").await.iter().filter(|job| job.status == Status::Failed).count();
    assert_eq!(failed, 4);
    let (lane, class) = (lane_name("keyed"), Some(ErrorClass::Moderated));
    let (mut cursor, mut done, mut pages) = (None, 0, 0);
    loop {
        let page = bulk(&world.ports, &world.settings, &lane, &Bulk::Requeue, class, cursor.as_ref(), 1)
            .await
            .unwrap();
        pages += 1;
        for (key, attempt, asked) in page.results {
            assert!(matches!(asked, Ok(Asked::Done(Did::Requeued, _))), "{key} {attempt}: {asked:?}");
            done += 1;
        }
        cursor = page.cursor.map(|cursor| cursor.to_string().parse().unwrap());
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(done, 2);
    assert!(pages >= 2, "{pages}");
    let left = world.jobs("p1").await.iter().filter(|job| job.status == Status::Failed).count();
    assert_eq!(left, 2, "those of another class");
    let none =
        bulk(&world.ports, &world.settings, &lane_name("other"), &Bulk::Requeue, None, None, 100).await;
    assert!(none.unwrap().results.is_empty());
}
