//! What the provider does wrong: submits whose answer is lost, refusals, failed renders, bad outputs.

use crate::support::{HOUR_MS, s1, stands, world};
use glassline_protocol::ids::{JobKey, TaskId};
use glassline_protocol::message::{Finish, Message, Subject};
use glassline_protocol::ports::Store as _;
use glassline_protocol::provider::{ErrorClass, Recovery};
use glassline_protocol::row::outcome::Cost;
use glassline_protocol::row::{OutcomeRow, Status};
use glassline_protocol::settle::{self, Settled};
use glassline_protocol::transition::{JobTransition, Ours};
use glassline_sandbox::{BookTotals, FaultKind, FaultRule};
use glassline_tests::{Lane, MINUTE_MS, Plan, World, WorldOptions, lane_name, post};

/// Attempt 1 of the job.
const FIRST: &str = "POST#p1/SHOT#s1/1";

fn first(fault: FaultKind) -> Vec<FaultRule> {
    vec![FaultRule::references(fault, [FIRST])]
}

fn always(fault: FaultKind) -> Vec<FaultRule> {
    vec![FaultRule::percent(fault, 100.0, 1).once_per_reference(false)]
}

/// Runs one job against a provider with these faults until it has ended or is held.
async fn life(world: &World, faults: Vec<FaultRule>) -> (Status, u32, u32) {
    world.provider_faults(faults);
    world.submit(&post("p1", world.lane_names().await[0].as_str(), 1)).await;
    world.drive(&Plan::none(), 1, 3 * HOUR_MS, &["p1"]).await;
    world.check(&["p1"], false).await;
    stands(world, "p1").await
}

fn totals(world: &World) -> BookTotals {
    world.sandbox.books().totals
}

async fn outcomes(world: &World) -> Vec<OutcomeRow> {
    world.parent("p1").await.outcomes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_keys_the_same_post_finds_or_starts_the_render() {
    for fault in
        [FaultKind::DropAnswer, FaultKind::ErrorAfter, FaultKind::DropRequest, FaultKind::ErrorBefore]
    {
        let world = world("keyed", 1).await;
        assert_eq!(life(&world, first(fault)).await, (Status::Succeeded, 1, 0), "{fault:?}");
        let totals = totals(&world);
        assert_eq!((totals.accepted, totals.posts), (1, 2), "{fault:?}");
        world.check(&["p1"], true).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_keys_and_no_answer_at_all_it_is_held_and_adopted_later() {
    for fault in [FaultKind::DropAnswer, FaultKind::ErrorAfter, FaultKind::DropRequest] {
        let world = world("keyed", 1).await;
        assert_eq!(life(&world, always(fault)).await, (Status::Held, 1, 0), "{fault:?}");
        assert!(totals(&world).accepted <= 1 && totals(&world).posts > 2, "{fault:?}");
        world.provider_faults(vec![]);
        world.drive_to_end(&Plan::none(), HOUR_MS, &["p1"]).await;
        assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0), "{fault:?}");
        assert_eq!(totals(&world).accepted, 1, "{fault:?}");
        world.check(&["p1"], true).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_not_repeated_after_its_lifetime() {
    let world = world("keyed", 1).await;
    assert_eq!(life(&world, always(FaultKind::DropAnswer)).await, (Status::Held, 1, 0));
    world.drive_on(&Plan::none(), 2 * HOUR_MS).await;
    let before = totals(&world);
    world.provider_faults(vec![]);
    world.drive_on(&Plan::none(), 3 * HOUR_MS).await;
    assert_eq!(totals(&world), before, "no POST any more: it would be another render");
    assert_eq!(before.accepted, 1);
    assert_eq!(stands(&world, "p1").await, (Status::Held, 1, 0));
}

/// A rejection of the repeat says nothing about the first POST.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_keys_a_rejected_repeat_proves_nothing() {
    let world = world("keyed", 1).await;
    let lost = FaultRule::next(FaultKind::DropAnswer, 1);
    world.provider_faults(vec![lost]);
    world.submit(&post("p1", "keyed", 1)).await;
    world.drive_until(&Plan::none(), 1, MINUTE_MS, async |_: &World| false).await;
    assert_eq!(totals(&world).accepted, 1);
    world.provider_faults(always(FaultKind::RejectModeration));
    world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Held, 1, 0), "not failed");
    assert!(outcomes(&world).await.is_empty());
    world.provider_faults(vec![]);
    world.drive_to_end(&Plan::none(), HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
    world.check(&["p1"], true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_lookup_an_accepted_render_is_found() {
    for fault in [FaultKind::DropAnswer, FaultKind::ErrorAfter] {
        let world = world("looked", 1).await;
        assert_eq!(life(&world, first(fault)).await, (Status::Succeeded, 1, 0), "{fault:?}");
        assert_eq!((totals(&world).accepted, totals(&world).posts), (1, 1), "{fault:?}");
        world.check(&["p1"], true).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_lookup_what_is_not_found_counts_only_when_it_has_settled() {
    // Found neither at the end of the lease (120 s) nor before it has settled (180 s), but then.
    let lane = Lane { lookup_delay_ms: 150_000, ..Lane::looked(1) };
    let world = World::new(WorldOptions::one(lane)).await;
    assert_eq!(life(&world, first(FaultKind::DropAnswer)).await, (Status::Succeeded, 1, 0));
    assert_eq!((totals(&world).accepted, totals(&world).posts), (1, 1));
    world.check(&["p1"], true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_lookup_a_render_that_was_never_accepted_is_tried_again() {
    for fault in [FaultKind::DropRequest, FaultKind::ErrorBefore] {
        let world = world("looked", 1).await;
        assert_eq!(life(&world, first(fault)).await, (Status::Succeeded, 2, 1), "{fault:?}");
        assert_eq!((totals(&world).accepted, totals(&world).posts), (1, 2), "{fault:?}");
        let outcomes = outcomes(&world).await;
        assert_eq!((outcomes[0].cost, outcomes[1].cost), (Cost::None, Cost::Paid));
        assert!(outcomes[0].at_ms >= outcomes[0].started_ms.unwrap() + 180_000, "it had settled");
        world.check(&["p1"], true).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_nothing_offered_it_is_held_and_never_submitted_again() {
    for (fault, accepted) in
        [(FaultKind::DropAnswer, 1), (FaultKind::ErrorAfter, 1), (FaultKind::DropRequest, 0)]
    {
        let world = world("blind", 1).await;
        assert_eq!(life(&world, first(fault)).await, (Status::Held, 1, 0), "{fault:?}");
        let job = world.job(&s1("p1")).await;
        assert!(job.error.as_ref().is_some_and(|why| why.contains("lost")), "{job:?}");
        // Its slot is free: the next job isn't kept waiting.
        world.submit(&post("p2", "blind", 1)).await;
        world.drive(&Plan::none(), 1, MINUTE_MS, &["p2"]).await;
        assert_eq!(stands(&world, "p2").await, (Status::Succeeded, 1, 0), "{fault:?}");
        world.drive_late().await;
        world.drive_on(&Plan::none(), HOUR_MS).await;
        assert_eq!(stands(&world, "p1").await, (Status::Held, 1, 0), "{fault:?}");
        assert_eq!((totals(&world).accepted, totals(&world).posts), (accepted + 1, 2), "{fault:?}");
        world.check(&["p1", "p2"], true).await;
    }
}

/// A provider that tells of a lost submit by its callback only.
fn callback_lane() -> Lane {
    let recovery = Recovery::Callback { deadline_ms: 10 * MINUTE_MS };
    Lane { polled: false, ..Lane::new("calling", 1, recovery) }
}

/// What the api makes of a callback that names our reference: the task is recorded, then finished.
async fn call_back(world: &World) {
    let job = world.job(&s1("p1")).await;
    let task = TaskId::new(world.sandbox.books().of(FIRST)[0].id.clone()).unwrap();
    let ours = Ours { attempt: job.attempt, token: job.token.clone().unwrap() };
    let lease_ms = world.now_ms() + world.settings.render_lease_ms;
    let record = JobTransition::RecordTask { ours: ours.clone(), task: task.clone(), lease_ms };
    assert!(matches!(settle::job(&world.ports, 0, &job.key, &record).await, Ok(Settled::Mine(_))));
    let JobKey { parent, member } = job.key;
    let subject = Subject { parent, member, lane: job.lane, attempt: ours.attempt, token: ours.token };
    let finish = Message::Finish(Finish { subject, task, outputs: vec![], resumes: 0 });
    assert_eq!(world.handle(&Plan::none(), finish).await, Some(Ok("succeeded".into())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_callbacks_a_lost_submit_waits_for_one() {
    let world = World::new(WorldOptions::one(callback_lane())).await;
    world.provider_faults(first(FaultKind::DropAnswer));
    world.submit(&post("p1", "calling", 1)).await;
    world.drive_on(&Plan::none(), 5 * MINUTE_MS).await;
    assert_eq!(stands(&world, "p1").await, (Status::Rendering, 1, 0));
    call_back(&world).await;
    world.drive_late().await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
    assert_eq!((totals(&world).accepted, totals(&world).posts), (1, 1));
    world.check(&["p1"], true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_callbacks_a_lost_submit_is_held_at_the_deadline_and_adopted_by_a_later_one() {
    let world = World::new(WorldOptions::one(callback_lane())).await;
    assert_eq!(life(&world, first(FaultKind::DropAnswer)).await, (Status::Held, 1, 0));
    let held = world.job(&s1("p1")).await;
    assert!(held.lease_ms.unwrap() >= held.started_ms.unwrap() + 10 * MINUTE_MS, "not before: {held:?}");
    world.drive_late().await;
    assert_eq!((stands(&world, "p1").await, totals(&world).posts), ((Status::Held, 1, 0), 1));
    call_back(&world).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
    world.check(&["p1"], true).await;
}

/// The submit is answered and the callback of its end never comes: the lease brings a look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_that_never_comes_costs_a_lease() {
    let world = World::new(WorldOptions::one(callback_lane())).await;
    assert_eq!(life(&world, vec![]).await, (Status::Succeeded, 1, 0));
    assert_eq!((totals(&world).accepted, totals(&world).posts), (1, 1));
    world.check(&["p1"], true).await;
}

async fn paused_by(fault: FaultKind, value: Option<u64>, class: ErrorClass, pause_ms: u64) {
    let world = world("keyed", 1).await;
    let rule = FaultRule::references(fault, [FIRST]);
    world.provider_faults(vec![value.map_or(rule.clone(), |value| rule.value(value))]);
    world.submit(&post("p1", "keyed", 3)).await;
    let posted = async |world: &World| totals(world).posts > 0;
    world.drive_until(&Plan::none(), 1, MINUTE_MS, posted).await;
    let refused_ms = world.now_ms();
    let lane = world.ports.lane(&lane_name("keyed")).await.unwrap().unwrap();
    assert_eq!(lane.paused_until_ms, Some(refused_ms + pause_ms), "{fault:?}: {lane:?}");
    assert!(lane.pause_reason.as_ref().is_some_and(|why| why.starts_with(&class.to_string())), "{lane:?}");
    assert_eq!(stands(&world, "p1").await, (Status::Ready, 1, 0), "{fault:?}: no failure is counted");
    // Nothing is sent to the provider during the pause, whatever wakes and ticks come.
    world.drive_on(&Plan::none(), pause_ms - 1_000).await;
    assert_eq!(totals(&world).posts, 1, "{fault:?}");
    world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 2, 0), "{fault:?}");
    assert_eq!((totals(&world).accepted, totals(&world).posts), (3, 4), "{fault:?}");
    let refused = &outcomes(&world).await[0];
    assert_eq!((refused.class, refused.cost, refused.counted), (Some(class), Cost::None, false));
    world.check(&["p1"], true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_account_is_refused_pauses_the_lane_and_counts_no_failure() {
    paused_by(FaultKind::RejectThrottled, Some(90), ErrorClass::Throttled, 90_000).await;
    paused_by(FaultKind::RejectPayment, None, ErrorClass::PaymentRequired, 15 * MINUTE_MS).await;
    paused_by(FaultKind::RejectUnauthorized, None, ErrorClass::Unauthorized, 15 * MINUTE_MS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_never_work_fails_at_once_with_its_reason() {
    for (fault, class, accepted) in [
        (FaultKind::RejectModeration, ErrorClass::Moderated, 0),
        (FaultKind::RejectInvalid, ErrorClass::InvalidInput, 0),
        (FaultKind::FailModeration, ErrorClass::Moderated, 1),
    ] {
        let world = world("keyed", 1).await;
        let (status, attempt, _) = life(&world, first(fault)).await;
        assert_eq!((status, attempt), (Status::Failed, 1), "{fault:?}");
        let job = world.job(&s1("p1")).await;
        assert_eq!(job.error_class, Some(class), "{fault:?}");
        assert!(job.error.as_ref().is_some_and(|why| why.len() > 10), "{job:?}");
        assert_eq!(totals(&world).accepted, accepted, "{fault:?}");
        let outcomes = outcomes(&world).await;
        let cost = if accepted == 0 { Cost::None } else { Cost::AtRisk };
        assert_eq!((outcomes.len(), outcomes[0].cost), (1, cost), "{fault:?}");
        assert!(world.qa().await.is_empty());
        world.drive_late().await;
        assert_eq!(totals(&world).posts, 1, "{fault:?}: nothing is tried again");
        world.check(&["p1"], true).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_render_or_output_that_is_bad_once_is_tried_again() {
    for (fault, class, cost) in [
        (FaultKind::FailRender, ErrorClass::Transient, Cost::AtRisk),
        (FaultKind::TruncatedOutput, ErrorClass::BadOutput, Cost::Paid),
        (FaultKind::HtmlOutput, ErrorClass::BadOutput, Cost::Paid),
        (FaultKind::EmptyOutput, ErrorClass::BadOutput, Cost::Paid),
        (FaultKind::OutputGone, ErrorClass::BadOutput, Cost::Paid),
    ] {
        let world = world("blind", 1).await;
        assert_eq!(life(&world, first(fault)).await, (Status::Succeeded, 2, 1), "{fault:?}");
        let outcomes = outcomes(&world).await;
        let told = (outcomes[0].class, outcomes[0].cost, outcomes[0].counted);
        assert_eq!(told, (Some(class), cost, true), "{fault:?}");
        assert_eq!(totals(&world).accepted, 2, "{fault:?}");
        assert_eq!(world.qa().await[&s1("p1")].len(), 1, "{fault:?}: only the good one goes to QA");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_fails_every_time_fails_for_good_at_its_limit() {
    for fault in [FaultKind::FailRender, FaultKind::HtmlOutput, FaultKind::OutputGone] {
        let world = world("blind", 1).await;
        let (status, attempt, _) = life(&world, always(fault)).await;
        assert_eq!((status, attempt), (Status::Failed, world.settings.max_failures), "{fault:?}");
        assert_eq!(totals(&world).posts, u64::from(world.settings.max_failures), "{fault:?}");
        let job = world.job(&s1("p1")).await;
        assert!(job.error.is_some() && job.error_class.is_some(), "{job:?}");
        assert_eq!(outcomes(&world).await.len(), 3, "{fault:?}");
        assert!(world.qa().await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_that_is_documented_nowhere_is_not_an_end() {
    let world = world("blind", 1).await;
    assert_eq!(life(&world, first(FaultKind::UnknownStatusWord)).await, (Status::Succeeded, 1, 0));
    world.check(&["p1"], true).await;
}

/// Retries wait longer each time, and are not started before they are due.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_wait_for_their_time() {
    let world = world("blind", 1).await;
    life(&world, always(FaultKind::FailRender)).await;
    let outcomes = outcomes(&world).await;
    let gaps: Vec<u64> =
        outcomes.windows(2).map(|pair| pair[1].started_ms.unwrap() - pair[0].at_ms).collect();
    assert!(gaps[0] >= world.settings.retry_base_ms, "{gaps:?}");
    assert!(gaps[1] >= 2 * world.settings.retry_base_ms, "{gaps:?}");
}
