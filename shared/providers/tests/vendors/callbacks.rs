//! Callbacks of the vendors that have them, and the signatures that are published as examples.

use crate::described::Higgsfield;
use crate::desk::Phase;
use crate::drive::accepted;
use crate::fal::{Fal, pair, signed};
use crate::replicate::{Replicate, WHSEC, sign};
use crate::stand::{NOW_MS, Scene, Sent, Stand, build, main_lane, reference};
use crate::suite::vendors;
use glassline_protocol::provider::{Provider, TaskState};
use glassline_providers::{Callback, CallbackError, CallbackRequest, Providers};
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::json;
use std::sync::atomic::Ordering;

fn callers() -> Vec<Box<dyn Stand>> {
    vec![Box::new(Replicate { listed: true }), Box::new(Fal::new()), Box::new(Higgsfield)]
}

async fn told(providers: &Providers, sent: &Sent, now_ms: u64) -> Result<Callback, CallbackError> {
    let query = sent.address.split_once('?').map_or("", |(_, query)| query);
    let request = CallbackRequest { query, headers: &sent.headers, body: &sent.body, now_ms };
    providers.callback(&main_lane(), &request).await
}

async fn sent(stand: &dyn Stand, scene: &Scene, now_ms: u64) -> Sent {
    accepted(stand, scene, "s1").await;
    let id = scene.desk.renders()[0].id.clone();
    scene.desk.set(&id, Phase::Succeeded);
    stand.callback(&scene.desk, &scene.desk.get(&id).unwrap(), now_ms).unwrap()
}

#[tokio::test]
async fn a_good_callback_names_the_task_and_our_reference_however_often_it_comes() {
    for stand in callers() {
        let scene = Scene::new(&*stand).await;
        let good = sent(&*stand, &scene, NOW_MS).await;
        let wanted = Callback { task: stand.task(&scene.desk.renders()[0]), reference: reference("s1", 1) };
        for _ in 0..3 {
            assert_eq!(
                told(&scene.providers, &good, NOW_MS + 1_000).await,
                Ok(wanted.clone()),
                "{}",
                stand.name()
            );
        }
        assert_eq!(scene.desk.renders().len(), 1, "a callback starts nothing");
    }
}

#[tokio::test]
async fn a_forged_callback_is_refused_wherever_it_was_touched() {
    for stand in callers() {
        let (name, scene) = (stand.name(), Scene::new(&*stand).await);
        let good = || async {
            let render = scene.desk.renders()[0].clone();
            stand.callback(&scene.desk, &render, NOW_MS).unwrap()
        };
        sent(&*stand, &scene, NOW_MS).await;
        for address in [
            String::new(),
            "https://hooks.example/callback/main".to_owned(),
            good().await.address.replace("%23s1%2F1", "%23s1%2F2"),
            good().await.address.replace("mac=", "mac=00"),
            format!("{}&mac=00", good().await.address),
            format!("{}&reference=x", good().await.address),
        ] {
            let forged = Sent { address: address.clone(), ..good().await };
            assert_eq!(
                told(&scene.providers, &forged, NOW_MS).await,
                Err(CallbackError::Address),
                "{name} {address}"
            );
        }
        // Higgsfield signs nothing: its address is all the proof there is, and the provider is asked in any case.
        if name == "higgsfield" {
            continue;
        }
        let mut changed = good().await;
        let last = changed.body.len() - 1;
        changed.body[last] = b' ';
        assert_eq!(told(&scene.providers, &changed, NOW_MS).await, Err(CallbackError::Signature), "{name}");
        for (header, value) in good().await.headers.iter() {
            let mut other = good().await;
            other.headers.remove(header);
            let refused = told(&scene.providers, &other, NOW_MS).await;
            assert!(matches!(refused, Err(CallbackError::Header(_))), "{name} without {header}: {refused:?}");
            let mut twice = good().await;
            twice.headers.append(header.clone(), value.clone());
            let refused = told(&scene.providers, &twice, NOW_MS).await;
            assert!(matches!(refused, Err(CallbackError::Header(_))), "{name} twice {header}: {refused:?}");
            for bad in [&b"\xff"[..], b"", b"0", b"1800000001", b"v1,AAAA", b"00"] {
                let mut odd = good().await;
                odd.headers.insert(header.clone(), HeaderValue::from_bytes(bad).unwrap());
                assert!(told(&scene.providers, &odd, NOW_MS).await.is_err(), "{name} {header}: {bad:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_stale_callback_is_refused_on_both_sides() {
    for stand in callers().into_iter().filter(|stand| stand.name() != "higgsfield") {
        let scene = Scene::new(&*stand).await;
        let good = sent(&*stand, &scene, NOW_MS).await;
        for (now_ms, fine) in [
            (NOW_MS - 300_000, true),
            (NOW_MS + 300_000, true),
            (NOW_MS - 300_001, false),
            (NOW_MS + 300_001, false),
            (NOW_MS + 86_400_000, false),
        ] {
            let told = told(&scene.providers, &good, now_ms).await;
            assert_eq!(told.is_ok(), fine, "{} {now_ms}: {told:?}", stand.name());
            assert!(fine || told == Err(CallbackError::Stale), "{}: {told:?}", stand.name());
        }
    }
}

#[tokio::test]
async fn a_callback_out_of_order_changes_nothing_that_the_provider_says() {
    for stand in callers() {
        let scene = Scene::new(&*stand).await;
        let task = accepted(&*stand, &scene, "s1").await;
        let id = scene.desk.renders()[0].id.clone();
        // One that tells of a run arrives after one that tells of the end.
        scene.desk.set(&id, Phase::Running);
        let early = stand.callback(&scene.desk, &scene.desk.get(&id).unwrap(), NOW_MS).unwrap();
        scene.desk.set(&id, Phase::Succeeded);
        let late = stand.callback(&scene.desk, &scene.desk.get(&id).unwrap(), NOW_MS).unwrap();
        for one in [&late, &early, &late] {
            assert_eq!(told(&scene.providers, one, NOW_MS).await.unwrap().task, task);
            let state = scene.providers.status(&main_lane(), &task).await;
            assert!(matches!(state, TaskState::Completed(_)), "{}: {state:?}", stand.name());
        }
    }
}

#[tokio::test]
async fn our_own_secret_can_be_replaced_without_a_gap() {
    for stand in callers() {
        let scene = Scene::new(&*stand).await;
        let old = sent(&*stand, &scene, NOW_MS).await;
        let mut lane = stand.lane(&scene.desk.url());
        lane["callback_secrets"] = json!(["a new secret of ours", crate::stand::OUR_SECRET]);
        let rotated = build(&lane).unwrap();
        assert!(told(&rotated, &old, NOW_MS).await.is_ok(), "{}", stand.name());
        lane["callback_secrets"] = json!(["a new secret of ours"]);
        let done = build(&lane).unwrap();
        assert_eq!(told(&done, &old, NOW_MS).await, Err(CallbackError::Address), "{}", stand.name());
    }
}

#[tokio::test]
async fn a_lane_that_takes_no_callbacks_says_so() {
    for stand in vendors().into_iter().filter(|stand| !callers().iter().any(|one| one.name() == stand.name()))
    {
        if stand.name().starts_with("replicate") {
            continue;
        }
        let scene = Scene::new(&*stand).await;
        let headers = HeaderMap::new();
        let request = CallbackRequest { query: "", headers: &headers, body: b"{}", now_ms: NOW_MS };
        let told = scene.providers.callback(&main_lane(), &request).await;
        assert_eq!(told, Err(CallbackError::NotExpected), "{}", stand.name());
    }
}

/// The example of the Standard Webhooks, which Replicate's signatures are
/// (<https://github.com/standard-webhooks/standard-webhooks>, test vector of the reference libraries; the secret is the
/// one in Replicate's own guide).
#[tokio::test]
async fn the_published_example_of_the_standard_webhooks_is_right() {
    let (id, timestamp, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", br#"{"test": 2432232314}"#);
    let published = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    assert_eq!(sign(WHSEC, id, timestamp, body), published, "the stand-in signs as published");

    let stand = Replicate { listed: true };
    let scene = Scene::new(&stand).await;
    let address = sent(&stand, &scene, NOW_MS).await.address;
    let mut headers = HeaderMap::new();
    headers.insert("webhook-id", id.parse().unwrap());
    headers.insert("webhook-timestamp", timestamp.parse().unwrap());
    headers.insert("webhook-signature", published.parse().unwrap());
    let mut example = Sent { address, headers, body: body.to_vec() };
    let now_ms = 1_614_265_330_000;
    // The signature and the time are right; the example's body is no prediction.
    assert_eq!(told(&scene.providers, &example, now_ms).await, Err(CallbackError::Unreadable));
    assert_eq!(told(&scene.providers, &example, now_ms + 300_001).await, Err(CallbackError::Stale));
    example.body = br#"{"test": 2432232315}"#.to_vec();
    assert_eq!(told(&scene.providers, &example, now_ms).await, Err(CallbackError::Signature));
}

#[tokio::test]
async fn fals_keys_are_kept_and_asked_for_again_when_they_change() {
    let stand = Fal::new();
    let scene = Scene::new(&stand).await;
    let good = sent(&stand, &scene, NOW_MS).await;
    for _ in 0..5 {
        assert!(told(&scene.providers, &good, NOW_MS).await.is_ok());
    }
    assert_eq!(stand.fetched.load(Ordering::SeqCst), 1, "kept");
    // A stranger's signature doesn't make us fetch at every try.
    let id = scene.desk.renders()[0].id.clone();
    let strange = || Sent {
        address: good.address.clone(),
        headers: signed(&pair(9), &id, NOW_MS, &good.body),
        body: good.body.clone(),
    };
    for _ in 0..5 {
        assert_eq!(told(&scene.providers, &strange(), NOW_MS).await, Err(CallbackError::Signature));
    }
    assert_eq!(stand.fetched.load(Ordering::SeqCst), 1);
    // A minute later it does, once: fal may have new keys.
    assert_eq!(told(&scene.providers, &strange(), NOW_MS + 60_000).await, Err(CallbackError::Signature));
    assert_eq!(stand.fetched.load(Ordering::SeqCst), 2);
    // An address that isn't ours never reaches the keys.
    let foreign = Sent { address: "https://hooks.example/?reference=x&mac=00".into(), ..strange() };
    assert_eq!(told(&scene.providers, &foreign, NOW_MS + 300_000).await, Err(CallbackError::Address));
    assert_eq!(stand.fetched.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn keys_that_cannot_be_fetched_refuse_the_callback_for_now() {
    let stand = Fal::new();
    let scene = Scene::with(&stand, |lane| lane["jwks_url"] = "http://127.0.0.1:1/jwks.json".into()).await;
    let good = sent(&stand, &scene, NOW_MS).await;
    assert_eq!(told(&scene.providers, &good, NOW_MS).await, Err(CallbackError::NoKeys));
}
