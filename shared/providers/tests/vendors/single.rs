//! What is one vendor's alone.

use crate::bedrock::signature;
use crate::desk::{Phase, refusal};
use crate::drive::{accepted, attempt, submit};
use crate::replicate::Replicate;
use crate::runway::Runway;
use crate::stand::{NOW_MS, Scene, Stand, build, lane_json, main_lane, reference};
use glassline_protocol::provider::{Cancel, Find, Provider, Recovery, Submit, TaskState};
use serde_json::json;

/// The vector `get-vanilla-query-order-key-case` and `post-vanilla` of AWS's published suite for signature version 4
/// (<https://docs.aws.amazon.com/general/latest/gr/signature-v4-test-suite.html>), for the stand-in's own arithmetic.
#[test]
fn the_stand_in_for_bedrock_signs_as_aws_publishes() {
    let scope = "20150830/us-east-1/service/aws4_request";
    let headers = [
        ("host".to_owned(), "example.amazonaws.com".to_owned()),
        ("x-amz-date".to_owned(), "20150830T123600Z".to_owned()),
    ];
    let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    let own = signature(secret, scope, "20150830T123600Z", "GET", "/", &[], &headers, b"");
    assert_eq!(own, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
    let own = signature(secret, scope, "20150830T123600Z", "POST", "/", &[], &headers, b"");
    assert_eq!(own, "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
}

#[tokio::test]
async fn runway_never_deletes_an_output_that_was_paid_for() {
    let scene = Scene::new(&Runway).await;
    let task = accepted(&Runway, &scene, "s1").await;
    scene.desk.set(&scene.desk.renders()[0].id, Phase::Succeeded);
    assert_eq!(scene.providers.cancel(&main_lane(), &task).await, Cancel::AlreadyEnded);
    assert!(!scene.desk.renders()[0].deleted);
    // A word that nobody documented may be an end, too.
    scene.desk.set(&scene.desk.renders()[0].id, Phase::Odd);
    assert_eq!(scene.providers.cancel(&main_lane(), &task).await, Cancel::Unknown);
    assert_eq!(scene.desk.renders()[0].phase, Phase::Odd);
    let slow = accepted(&Runway, &scene, "s2").await;
    assert_eq!(scene.providers.cancel(&main_lane(), &slow).await, Cancel::Requested);
}

#[tokio::test]
async fn runway_throttled_is_accepted_and_429_is_refused() {
    let scene = Scene::new(&Runway).await;
    let task = accepted(&Runway, &scene, "s1").await;
    assert_eq!(scene.desk.renders()[0].phase, Phase::Queued, "told as THROTTLED");
    assert_eq!(scene.providers.status(&main_lane(), &task).await, TaskState::Running);
    let mut lane = Runway.lane(&scene.desk.url());
    lane["poll_ms"] = 4_999.into();
    assert!(build(&lane).unwrap_err().contains("`poll_ms`"), "not more often than every five seconds");
}

/// A prediction that doesn't say where its callbacks go may be ours, so its presence is no proof of our absence.
#[tokio::test]
async fn replicate_does_not_take_silence_for_absence() {
    let stand = Replicate { listed: true };
    let scene = Scene::new(&stand).await;
    accepted(&stand, &scene, "s1").await;
    let id = scene.desk.renders()[0].id.clone();
    scene.desk.change(&id, |render| render.order.webhook = None);
    let find = scene.providers.find(&main_lane(), &reference("s2", 1), NOW_MS).await;
    assert_eq!(find, Find::Unknown);
    // Another lane's callbacks on the same account are plainly not ours.
    scene.desk.change(&id, |render| render.order.webhook = Some("https://elsewhere.example/hook".into()));
    let find = scene.providers.find(&main_lane(), &reference("s2", 1), NOW_MS).await;
    assert_eq!(find, Find::NotFound);
    // An address of ours with a MAC that isn't proves nothing about ours either.
    scene.desk.change(&id, |render| {
        render.order.webhook =
            Some("https://hooks.example/callback/main?reference=POST%23p1%2FSHOT%23s2%2F1&mac=00".into());
    });
    let find = scene.providers.find(&main_lane(), &reference("s2", 1), NOW_MS).await;
    assert_eq!(find, Find::NotFound);
}

#[tokio::test]
async fn replicate_without_callbacks_offers_nothing_and_sends_no_address() {
    let stand = Replicate { listed: true };
    let scene = Scene::with(&stand, |lane| {
        for name in ["callback_url", "callback_secrets", "webhook_secrets"] {
            lane.as_object_mut().unwrap().remove(name);
        }
    })
    .await;
    assert_eq!(scene.providers.capabilities(&main_lane()).recovery, Recovery::None);
    accepted(&stand, &scene, "s1").await;
    let body = &scene.desk.renders()[0].order.body;
    assert!(body.get("webhook").is_none() && body.get("webhook_events_filter").is_none(), "{body}");
    let find = scene.providers.find(&main_lane(), &reference("s1", 1), NOW_MS).await;
    assert_eq!(find, Find::Unknown);
}

#[tokio::test]
async fn replicate_versions_go_to_the_other_address() {
    let config = lane_json("replicate", "http://127.0.0.1:1", json!({"version": "owner/name:5c7d5dc6"}));
    assert!(build(&config).is_ok());
    for own in [
        json!({}),
        json!({"model": "owner/name", "version": "5c7d5dc6"}),
        json!({"model": "name"}),
        json!({"model": "../x/y"}),
        json!({"model": "owner/name", "cancel_after_s": 4}),
        json!({"model": "owner/name", "output": "video"}),
        json!({"model": "owner/name", "webhook_secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}),
        json!({"model": "owner/name", "polled": false}),
        json!({"model": "owner/name", "settle_ms": 0}),
        json!({"model": "owner/name", "surprise": 1}),
    ] {
        let config = lane_json("replicate", "http://127.0.0.1:1", own.clone());
        assert!(build(&config).is_err(), "{own}");
    }
}

#[tokio::test]
async fn a_repeat_under_a_key_is_the_same_request() {
    let stand = crate::described::Higgsfield;
    let scene = Scene::new(&stand).await;
    scene.desk.fault(crate::desk::Fault::After(refusal(502, json!({}))));
    let ours = reference("s1", 1);
    attempt(&stand, &scene, &ours).await;
    // The stand-in answers 422 to another body under the same key, so this was the same.
    assert_eq!(scene.desk.renders().len(), 1);
    let told = submit(&stand, &scene.providers, &ours).await;
    assert!(matches!(told, Submit::Accepted(_)), "{told:?}");
}
