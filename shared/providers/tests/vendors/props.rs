//! Whatever comes back: no adapter panics, and nothing is taken for an acceptance, an end or a callback that isn't.

use crate::desk::{Desk, Order, Phase, Render};
use crate::drive::params;
use crate::stand::{NOW_MS, Scene, Stand, build, main_lane, reference, request};
use crate::suite::vendors;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use glassline_protocol::ids::TaskId;
use glassline_protocol::provider::{Provider, Submit, TaskState};
use glassline_providers::{CallbackRequest, Providers};
use proptest::prelude::*;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// What a server says to everything.
type Said = Arc<Mutex<(u16, Vec<u8>)>>;

async fn say(State(said): State<Said>) -> Response {
    let (status, body) = said.lock().unwrap().clone();
    Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .body(Body::from(body))
        .unwrap()
}

/// Every adapter, in front of one server that says what it is told to.
async fn all() -> (Said, Vec<(&'static str, Value, Providers)>) {
    let said: Said = Arc::new(Mutex::new((200, Vec::new())));
    let desk = Arc::new(Desk::default());
    crate::desk::serve(&desk, Router::new().fallback(say).with_state(Arc::clone(&said))).await;
    let mut lanes = Vec::new();
    for stand in vendors() {
        let lane = stand.lane(&desk.url());
        lanes.push((stand.name(), params(&*stand), build(&lane).unwrap()));
    }
    (said, lanes)
}

/// JSON of the shapes and words that vendors use, put together at random.
fn answers() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "id",
        "request_id",
        "status",
        "state",
        "output",
        "outputs",
        "error",
        "detail",
        "url",
        "images",
        "video",
        "failureCode",
        "invocationArn",
        "prompt_id",
        "results",
        "next",
        "webhook",
        "succeeded",
        "COMPLETED",
        "SUCCEEDED",
        "completed",
        "failed",
        "FAILED",
        "https://x.example/a",
        "s3://a/b",
        "",
        "\u{0}",
        "é",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        word.clone().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(word.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn bodies() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => answers().prop_map(|value| value.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..200),
        1 => (answers(), any::<prop::sample::Index>()).prop_map(|(value, at)| {
            let mut bytes = value.to_string().into_bytes();
            bytes.truncate(at.index(bytes.len() + 1));
            bytes
        }),
    ]
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn any_answer_is_survived_and_none_is_more_than_it_says() {
    let runtime = runtime();
    let (said, lanes) = runtime.block_on(all());
    let config = ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() };
    let statuses = prop::sample::select(vec![
        200_u16, 201, 202, 204, 206, 301, 307, 400, 401, 404, 409, 422, 429, 500, 503,
    ]);
    proptest!(config, |(status in statuses, body in bodies())| {
        *said.lock().unwrap() = (status, if status == 204 { Vec::new() } else { body.clone() });
        runtime.block_on(async {
            let (lane, ours) = (main_lane(), reference("s1", 1));
            let task = TaskId::new("t1").unwrap();
            for (name, params, providers) in &lanes {
                let told = providers.submit(&lane, &request(&ours, params), &ours).await;
                if let Submit::Accepted(task) = &told {
                    let text = String::from_utf8_lossy(&body);
                    // A number's digits are a task too; JSON writes them in its own way.
                    let said = text.contains(task.as_str()) || task.as_str().parse::<f64>().is_ok();
                    assert!((200..300).contains(&status) && said, "{name}: {status} {text} is no acceptance");
                }
                if let Submit::Rejected { .. } = &told {
                    assert!((400..500).contains(&status) && status != 409, "{name}: {status} proves nothing");
                }
                let state = providers.status(&lane, &task).await;
                if let TaskState::Completed(outputs) = &state {
                    assert!(!outputs.is_empty() && (200..300).contains(&status), "{name}: {status}");
                }
                let _ = providers.find(&lane, &ours, NOW_MS).await;
                let _ = providers.cancel(&lane, &task).await;
            }
        });
    });
}

#[test]
fn any_callback_is_survived_and_none_is_believed() {
    let runtime = runtime();
    let (said, lanes) = runtime.block_on(all());
    *said.lock().unwrap() = (200, br#"{"keys":[{"kty":"OKP","x":"AAAA"}]}"#.to_vec());
    let config = ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() };
    let names = prop::sample::select(vec![
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
        "x-fal-webhook-request-id",
        "x-fal-webhook-user-id",
        "x-fal-webhook-timestamp",
        "x-fal-webhook-signature",
    ]);
    let value = prop_oneof![
        Just(b"1800000000".to_vec()),
        Just(b"v1,AAAA".to_vec()),
        Just(b"00ff".to_vec()),
        prop::collection::vec(32_u8..=255, 0..40),
    ];
    let headers = prop::collection::vec((names, value), 0..8);
    let query = prop_oneof!["reference=[A-Z#%0-9a-z/]{0,30}&mac=[0-9a-f]{0,70}", ".{0,60}"];
    proptest!(config, |(headers in headers, query in query, body in bodies(), now_ms in any::<u64>())| {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                map.append(HeaderName::from_static(name), value);
            }
        }
        for (name, _, providers) in &lanes {
            let request = CallbackRequest { query: &query, headers: &map, body: &body, now_ms };
            let told = runtime.block_on(providers.callback(&main_lane(), &request));
            assert!(told.is_err(), "{name}: {query} was believed");
        }
    });
}

/// One bit of a good callback: whichever is turned, it is refused, or it says the same.
#[test]
fn any_bit_of_a_callback_matters() {
    let runtime = runtime();
    let stand = crate::replicate::Replicate { listed: true };
    let scene = runtime.block_on(Scene::new(&stand));
    let task = runtime.block_on(crate::drive::accepted(&stand, &scene, "s1"));
    let render: Render = scene.desk.renders()[0].clone();
    assert!(matches!(&render, Render { phase: Phase::Queued, order: Order { webhook: Some(_), .. }, .. }));
    let sent = stand.callback(&scene.desk, &render, NOW_MS).unwrap();
    let (_, query) = sent.address.split_once('?').unwrap();
    let config = ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(at in any::<prop::sample::Index>(), bit in 0_u8..8, in_body in any::<bool>())| {
        let (mut query, mut body) = (query.as_bytes().to_vec(), sent.body.clone());
        let bytes = if in_body { &mut body } else { &mut query };
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let Ok(query) = String::from_utf8(query) else { return Ok(()) };
        let request = CallbackRequest { query: &query, headers: &sent.headers, body: &body, now_ms: NOW_MS };
        if let Ok(told) = runtime.block_on(scene.providers.callback(&main_lane(), &request)) {
            // Hex digits have two forms, and so have escapes.
            prop_assert!(!in_body && told.task == task && told.reference == reference("s1", 1), "{}", query);
        }
    });
}
