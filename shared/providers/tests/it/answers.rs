//! Every answer and fault of the sandbox, as the port tells it.

use crate::support::{BY_KEY, BY_LOOKUP, at, lane, providers, reference, rejection, request, sandbox, task};
use glassline_protocol::provider::{
    Cancel, ErrorClass, Find, Media, Provider, Recovery, RenderRequest, Submit, TaskState,
};
use glassline_providers::{Providers, Secret};
use glassline_sandbox::{FaultKind, FaultRule, Sandbox};

async fn submit(providers: &Providers, shot: &str) -> Submit {
    providers.submit(&lane(), &request(), &reference(shot)).await
}

async fn accepted(providers: &Providers, shot: &str) -> glassline_protocol::ids::TaskId {
    let told = submit(providers, shot).await;
    let Submit::Accepted(task) = told else { panic!("{told:?}") };
    task
}

fn fault(sandbox: &Sandbox, kind: FaultKind, shot: &str) {
    sandbox.set_faults(vec![FaultRule::references(kind, [reference(shot).to_string()])]).unwrap();
}

#[tokio::test]
async fn a_submit_is_accepted_under_our_reference_and_key() {
    let (sandbox, providers, _clock) = sandbox(BY_KEY, |_| {}).await;
    let task = accepted(&providers, "s1").await;
    let books = sandbox.books();
    let entry = books.of("POST#p1/SHOT#s1/1")[0];
    assert_eq!(entry.id, task.as_str());
    assert_eq!(entry.idempotency_key.as_deref(), Some("POST#p1/SHOT#s1/1"));
    assert_eq!(submit(&providers, "s1").await, Submit::Accepted(task), "a repeat returns the first task");
    assert_eq!(sandbox.books().totals.accepted, 1);
}

#[tokio::test]
async fn without_the_key_tier_no_key_is_sent() {
    let (sandbox, providers, _clock) = sandbox(BY_LOOKUP, |_| {}).await;
    accepted(&providers, "s1").await;
    assert_eq!(sandbox.books().renders[0].idempotency_key, None);
}

#[tokio::test]
async fn refusals_before_acceptance_have_their_class_and_our_own_words() {
    let (sandbox, providers, _clock) = sandbox(BY_KEY, |_| {}).await;
    for (kind, class, wait_ms) in [
        (FaultKind::RejectThrottled, ErrorClass::Throttled, Some(1_000)),
        (FaultKind::RejectModeration, ErrorClass::Moderated, None),
        (FaultKind::RejectPayment, ErrorClass::PaymentRequired, None),
        (FaultKind::RejectUnauthorized, ErrorClass::Unauthorized, None),
        (FaultKind::RejectInvalid, ErrorClass::InvalidInput, None),
    ] {
        fault(&sandbox, kind, "s1");
        let (got, retry_after_ms, reason) = rejection(submit(&providers, "s1").await);
        assert_eq!((got, retry_after_ms), (class, wait_ms), "{kind:?}");
        assert!(reason.starts_with("the provider") && !reason.contains('\n'), "{reason}");
    }
    assert_eq!(sandbox.books().totals.accepted, 0);
}

#[tokio::test]
async fn the_wait_of_a_throttled_submit_is_passed_on_and_capped() {
    let (sandbox, providers, _clock) = sandbox(BY_KEY, |_| {}).await;
    for (seconds, wait_ms) in [(90, 90_000), (600_000, 86_400_000)] {
        sandbox.set_faults(vec![FaultRule::next(FaultKind::RejectThrottled, 1).value(seconds)]).unwrap();
        let told = submit(&providers, "s1").await;
        assert!(
            matches!(told, Submit::Rejected { retry_after_ms: Some(ms), .. } if ms == wait_ms),
            "{told:?}"
        );
    }
}

#[tokio::test]
async fn what_nobody_can_tell_is_unknown_and_a_repeat_finds_out() {
    let (sandbox, providers, _clock) = sandbox(BY_KEY, |_| {}).await;
    for (kind, shot, paid) in [
        (FaultKind::DropAnswer, "s1", 1),
        (FaultKind::ErrorAfter, "s2", 1),
        (FaultKind::DropRequest, "s3", 0),
        (FaultKind::ErrorBefore, "s4", 0),
    ] {
        fault(&sandbox, kind, shot);
        assert_eq!(submit(&providers, shot).await, Submit::Unknown, "{kind:?}");
        let name = reference(shot).to_string();
        assert_eq!(sandbox.books().of(&name).len(), paid, "{kind:?}");
        let task = accepted(&providers, shot).await;
        assert_eq!(sandbox.books().of(&name)[0].id, task.as_str());
        assert_eq!(sandbox.books().of(&name).len(), 1, "{kind:?} was paid once");
    }
    let posts = sandbox.books().totals.posts;
    assert_eq!(posts, 8, "one POST per submit");
}

#[tokio::test]
async fn a_slow_answer_past_the_timeout_is_unknown() {
    let (sandbox, _providers, _clock) = sandbox(BY_KEY, |_| {}).await;
    sandbox.set_faults(vec![FaultRule::next(FaultKind::SlowAnswerMs, 1).value(600_000)]).unwrap();
    let mut config = at(&sandbox.url(), BY_KEY);
    (config.connect_timeout_ms, config.submit_timeout_ms) = (100, 100);
    let providers = providers(config);
    assert_eq!(submit(&providers, "s1").await, Submit::Unknown);
    assert_eq!((sandbox.books().totals.posts, sandbox.books().totals.accepted), (1, 1));
}

#[tokio::test]
async fn real_refusals_are_classified_too() {
    let (sandbox, good, _clock) = sandbox(BY_KEY, |account| account.max_concurrent = Some(1)).await;
    let mut config = at(&sandbox.url(), BY_KEY);
    config.api_key = Some(Secret::new("another-key"));
    let stranger = providers(config);
    let told = submit(&stranger, "s1").await;
    assert!(matches!(told, Submit::Rejected { class: ErrorClass::Unauthorized, .. }), "{told:?}");
    let wide = RenderRequest { params: serde_json::json!({"width": 5_000}), ..request() };
    let (class, _, reason) = rejection(good.submit(&lane(), &wide, &reference("s1")).await);
    assert_eq!(class, ErrorClass::InvalidInput);
    assert!(reason.contains("params.width") && !reason.contains("heron"), "{reason}");
    let huge = RenderRequest { params: serde_json::json!({"x": "y".repeat(300_000)}), ..request() };
    let told = good.submit(&lane(), &huge, &reference("s1")).await;
    assert!(matches!(told, Submit::Rejected { class: ErrorClass::InvalidInput, .. }), "{told:?}");
    accepted(&good, "s1").await;
    let (class, wait_ms, _) = rejection(submit(&good, "s2").await);
    assert_eq!((class, wait_ms), (ErrorClass::Throttled, Some(1_000)));
    // The key of s1 is taken by another body: an earlier POST started something, so this is no proof of nothing.
    let other = RenderRequest { media: Media::Video, ..request() };
    assert_eq!(good.submit(&lane(), &other, &reference("s1")).await, Submit::Unknown);
    assert_eq!(sandbox.books().totals.accepted, 1);
}

#[tokio::test]
async fn a_task_runs_and_completes_with_a_fresh_address() {
    let (_sandbox, providers, clock) = sandbox(BY_KEY, |account| {
        account.output_lifetime_ms = 60_000;
        account.address_lifetime_ms = Some(5_000);
    })
    .await;
    let task = accepted(&providers, "s1").await;
    assert_eq!(providers.status(&lane(), &task).await, TaskState::Running);
    clock.forward(100);
    let TaskState::Completed(outputs) = providers.status(&lane(), &task).await else { panic!() };
    assert_eq!(outputs.len(), 1);
    let now_ms = clock.0.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(outputs[0].expires_ms, Some(now_ms + 5_000));
    let bytes = reqwest::get(&outputs[0].url).await.unwrap().bytes().await.unwrap();
    assert!(bytes.starts_with(b"\x89PNG"));
    clock.forward(1_000);
    let TaskState::Completed(fresh) = providers.status(&lane(), &task).await else { panic!() };
    assert_eq!(fresh[0].expires_ms, Some(now_ms + 6_000));
    clock.forward(60_000);
    let told = providers.status(&lane(), &task).await;
    assert!(matches!(told, TaskState::Failed { class: ErrorClass::BadOutput, .. }), "{told:?}");
}

#[tokio::test]
async fn endings_have_their_class() {
    let (sandbox, providers, clock) = sandbox(BY_KEY, |_| {}).await;
    fault(&sandbox, FaultKind::FailRender, "s1");
    let failed = accepted(&providers, "s1").await;
    fault(&sandbox, FaultKind::FailModeration, "s2");
    let moderated = accepted(&providers, "s2").await;
    fault(&sandbox, FaultKind::NeverFinish, "s3");
    let never = accepted(&providers, "s3").await;
    clock.forward(86_400_000);
    let told = providers.status(&lane(), &failed).await;
    assert!(matches!(told, TaskState::Failed { class: ErrorClass::Transient, .. }), "{told:?}");
    let told = providers.status(&lane(), &moderated).await;
    assert!(matches!(told, TaskState::Failed { class: ErrorClass::Moderated, .. }), "{told:?}");
    assert_eq!(providers.status(&lane(), &never).await, TaskState::Running);
    assert_eq!(providers.cancel(&lane(), &never).await, Cancel::Requested);
    assert_eq!(providers.status(&lane(), &never).await, TaskState::Cancelled);
    assert_eq!(providers.cancel(&lane(), &never).await, Cancel::AlreadyEnded);
    assert_eq!(providers.cancel(&lane(), &failed).await, Cancel::AlreadyEnded);
    assert_eq!(providers.cancel(&lane(), &task("rnd_nobody")).await, Cancel::Unknown);
}

#[tokio::test]
async fn an_unknown_word_means_running_and_an_ignored_cancel_shows_in_the_state() {
    let (sandbox, providers, _clock) = sandbox(BY_KEY, |_| {}).await;
    let task = accepted(&providers, "s1").await;
    fault(&sandbox, FaultKind::UnknownStatusWord, "s1");
    assert_eq!(providers.status(&lane(), &task).await, TaskState::Running);
    assert_eq!(sandbox.books().faults[&FaultKind::UnknownStatusWord], 1);
    fault(&sandbox, FaultKind::CancelIgnored, "s1");
    assert_eq!(providers.cancel(&lane(), &task).await, Cancel::Requested);
    assert_eq!(providers.status(&lane(), &task).await, TaskState::Running);
}

#[tokio::test]
async fn a_task_that_the_provider_does_not_know_is_missing() {
    let (_sandbox, providers, _clock) = sandbox(BY_KEY, |_| {}).await;
    for name in ["rnd_nobody", "a/b", "a?b=c#d", "%2e%2e", "..%2f..%2fbooks"] {
        assert_eq!(providers.status(&lane(), &task(name)).await, TaskState::Missing, "{name}");
    }
}

#[tokio::test]
async fn a_lookup_finds_what_was_accepted_and_only_that() {
    let (sandbox, providers, clock) = sandbox(BY_LOOKUP, |account| account.lookup_delay_ms = 1_000).await;
    fault(&sandbox, FaultKind::DropAnswer, "s1");
    assert_eq!(submit(&providers, "s1").await, Submit::Unknown);
    assert_eq!(providers.find(&lane(), &reference("s1"), 0).await, Find::NotFound, "not shown yet");
    clock.forward(1_000);
    let id = sandbox.books().renders[0].id.clone();
    assert_eq!(providers.find(&lane(), &reference("s1"), 0).await, Find::Found(task(&id)));
    assert_eq!(providers.find(&lane(), &reference("s2"), 0).await, Find::NotFound);
    accepted(&providers, "s1").await;
    clock.forward(1_000);
    assert_eq!(
        providers.find(&lane(), &reference("s1"), 0).await,
        Find::Found(task(&id)),
        "paid twice: the oldest"
    );
}

#[tokio::test]
async fn not_finding_proves_nothing_where_no_lookup_is_offered() {
    let (_off, providers, _clock) = sandbox(BY_LOOKUP, |account| account.lookup = false).await;
    assert_eq!(providers.find(&lane(), &reference("s1"), 0).await, Find::Unknown, "a 404 is no answer");
    for recovery in [BY_KEY, Recovery::None] {
        let (_sandbox, providers, _clock) = sandbox(recovery, |_| {}).await;
        assert_eq!(providers.find(&lane(), &reference("s1"), 0).await, Find::Unknown);
        let task = accepted(&providers, "s1").await;
        assert_eq!(providers.find(&lane(), &reference("s1"), 0).await, Find::Found(task));
    }
}

#[tokio::test]
async fn a_dead_server_leaves_every_question_open() {
    let (sandbox, providers, _clock) = sandbox(BY_LOOKUP, |_| {}).await;
    let task = accepted(&providers, "s1").await;
    drop(sandbox);
    assert_eq!(providers.status(&lane(), &task).await, TaskState::Unknown);
    assert_eq!(providers.find(&lane(), &reference("s1"), 0).await, Find::Unknown);
    assert_eq!(providers.cancel(&lane(), &task).await, Cancel::Unknown);
    let told = submit(&providers, "s2").await;
    assert!(matches!(told, Submit::Rejected { class: ErrorClass::Transient, .. }), "{told:?}");
}

#[tokio::test]
async fn a_lane_without_a_provider_pauses_instead_of_burning_jobs() {
    let providers = Providers::from_config(glassline_providers::ProvidersConfig::default()).unwrap();
    let told = submit(&providers, "s1").await;
    assert!(matches!(told, Submit::Rejected { class: ErrorClass::Unauthorized, .. }), "{told:?}");
    assert_eq!(providers.status(&lane(), &task("t")).await, TaskState::Unknown);
    assert_eq!(providers.find(&lane(), &reference("s1"), 0).await, Find::Unknown);
    assert_eq!(providers.cancel(&lane(), &task("t")).await, Cancel::Unknown);
    assert_eq!(providers.capabilities(&lane()).recovery, Recovery::None);
}
