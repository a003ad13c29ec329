//! fal's queue, as <https://fal.ai/docs/documentation/model-apis/inference/queue> has it.

use crate::desk::{Desk, Order, Phase, Refusal, Render, has, json as answer, refusal};
use crate::stand::{Expect, KEY, Sent, Stand, hooked, lane_json};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{get, post, put};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use glassline_protocol::provider::{ErrorClass, Recovery};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// fal, with the key that it signs with.
pub(crate) struct Fal {
    pub(crate) key: Arc<Ed25519KeyPair>,
    pub(crate) fetched: Arc<AtomicU32>,
}

impl Fal {
    pub(crate) fn new() -> Self {
        Self { key: Arc::new(pair(7)), fetched: Arc::default() }
    }
}

pub(crate) fn pair(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
}

type App = State<(Arc<Desk>, Arc<Ed25519KeyPair>, Arc<AtomicU32>)>;

async fn create(
    State((desk, ..)): App,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
    body: String,
) -> Response {
    if !has(&headers, "authorization", &format!("Key {KEY}")) {
        return answer(401, &json!({"detail": "Authentication is required to access this application."}));
    }
    assert!(has(&headers, "x-fal-no-retry", "1"), "its own repeats must be off");
    let body: Value = serde_json::from_str(&body).unwrap();
    let order = Order {
        prompt: body["prompt"].as_str().unwrap().to_owned(),
        webhook: query.get("fal_webhook").cloned(),
        key: None,
        body,
    };
    let base = format!("{}/fal-ai/flux/requests", desk.url());
    desk.post(order, |render| {
        let id = &render.id;
        answer(
            200,
            &json!({"status": "IN_QUEUE", "request_id": id, "gateway_request_id": id, "queue_position": 0,
                "response_url": format!("{base}/{id}"), "status_url": format!("{base}/{id}/status"),
                "cancel_url": format!("{base}/{id}/cancel")}),
        )
    })
}

fn authorised(headers: &HeaderMap) -> bool {
    has(headers, "authorization", &format!("Key {KEY}"))
}

async fn status(State((desk, ..)): App, Path(id): Path<String>, headers: HeaderMap) -> Response {
    let Some(render) = desk.get(&id).filter(|_| authorised(&headers)) else {
        return answer(404, &json!({"detail": "Not found"}));
    };
    match &render.phase {
        Phase::Queued => answer(202, &json!({"status": "IN_QUEUE", "request_id": id, "queue_position": 3})),
        Phase::Running => answer(202, &json!({"status": "IN_PROGRESS", "request_id": id, "logs": null})),
        Phase::Odd => answer(202, &json!({"status": "WARMING_UP", "request_id": id})),
        Phase::Succeeded => answer(200, &json!({"status": "COMPLETED", "request_id": id, "metrics": {}})),
        Phase::Cancelled => answer(
            200,
            &json!({"status": "COMPLETED", "request_id": id, "error": "cancelled", "error_type": "client_cancelled"}),
        ),
        Phase::Told(fields) if fields.get("response").is_some() => {
            answer(200, &json!({"status": "COMPLETED", "request_id": id}))
        }
        Phase::Told(fields) => answer(200, fields),
    }
}

async fn response(State((desk, ..)): App, Path(id): Path<String>, headers: HeaderMap) -> Response {
    let Some(render) = desk.get(&id).filter(|_| authorised(&headers)) else {
        return answer(404, &json!({"detail": "Not found"}));
    };
    match &render.phase {
        Phase::Succeeded => match desk.address(&id) {
            Some(url) => {
                answer(200, &json!({"images": [{"url": url, "content_type": "image/png"}], "seed": 1}))
            }
            None => answer(200, &json!({"images": []})),
        },
        Phase::Told(fields) => {
            let status = u16::try_from(fields["http"].as_u64().unwrap()).unwrap();
            let mut told = answer(status, &fields["response"]);
            if let Some(kind) = fields.get("error_type").and_then(Value::as_str) {
                told.headers_mut().insert("x-fal-error-type", kind.parse().unwrap());
            }
            told
        }
        _ => answer(400, &json!({"detail": "Request is still in progress"})),
    }
}

async fn cancel(State((desk, ..)): App, Path(id): Path<String>) -> Response {
    match desk.get(&id).map(|render| render.phase) {
        Some(Phase::Queued | Phase::Running) => {
            desk.set(&id, Phase::Cancelled);
            answer(202, &json!({"status": "CANCELLATION_REQUESTED"}))
        }
        Some(_) => answer(400, &json!({"status": "ALREADY_COMPLETED"})),
        None => answer(404, &json!({"status": "NOT_FOUND"})),
    }
}

async fn jwks(State((_, key, fetched)): App, headers: HeaderMap) -> Response {
    fetched.fetch_add(1, Ordering::SeqCst);
    assert!(headers.get("authorization").is_none(), "the account's key is not for this host");
    let x = |key: &Ed25519KeyPair| URL_SAFE_NO_PAD.encode(key.public_key().as_ref());
    let odd = json!({"kty": "RSA", "n": "x", "e": "AQAB"});
    answer(
        200,
        &json!({"keys": [odd, {"kty": "OKP", "crv": "Ed25519", "x": x(&pair(1))},
        {"kty": "OKP", "crv": "Ed25519", "x": x(&key), "kid": "2"}]}),
    )
}

async fn file(State((desk, ..)): App, Path((id, number)): Path<(String, u32)>) -> Response {
    desk.file(&id, number)
}

/// The four headers, signed.
pub(crate) fn signed(key: &Ed25519KeyPair, id: &str, now_ms: u64, body: &[u8]) -> reqwest::header::HeaderMap {
    let timestamp = (now_ms / 1_000).to_string();
    let message = format!("{id}\nuser-1\n{timestamp}\n{}", hex::encode(Sha256::digest(body)));
    let mut headers = reqwest::header::HeaderMap::new();
    headers.insert("x-fal-webhook-request-id", id.parse().unwrap());
    headers.insert("x-fal-webhook-user-id", "user-1".parse().unwrap());
    headers.insert("x-fal-webhook-timestamp", timestamp.parse().unwrap());
    let signature = hex::encode(key.sign(message.as_bytes()).as_ref());
    headers.insert("x-fal-webhook-signature", signature.parse().unwrap());
    headers
}

impl Stand for Fal {
    fn name(&self) -> &'static str {
        "fal"
    }
    fn router(&self, desk: Arc<Desk>) -> Router {
        Router::new()
            .route("/fal-ai/flux/dev", post(create))
            .route("/fal-ai/flux/requests/{id}", get(response))
            .route("/fal-ai/flux/requests/{id}/status", get(status))
            .route("/fal-ai/flux/requests/{id}/cancel", put(cancel))
            .route("/.well-known/jwks.json", get(jwks))
            .route("/files/{id}/{number}", get(file))
            .with_state((desk, Arc::clone(&self.key), Arc::clone(&self.fetched)))
    }
    fn lane(&self, url: &str) -> Value {
        let own = json!({"model": "fal-ai/flux/dev", "jwks_url": format!("{url}/.well-known/jwks.json")});
        hooked(lane_json("fal", url, own))
    }
    fn recovery(&self) -> Recovery {
        Recovery::Callback { deadline_ms: 3 * 3_600_000 }
    }
    fn refusals(&self) -> Vec<(Refusal, ErrorClass)> {
        let policy =
            json!({"detail": [{"loc": ["body", "prompt"], "msg": "x", "type": "content_policy_violation"}]});
        vec![
            (refusal(401, json!({"detail": "Cannot access application"})), ErrorClass::Unauthorized),
            (
                refusal(403, json!({"detail": "User is locked. Reason: Exhausted balance."})),
                ErrorClass::PaymentRequired,
            ),
            (refusal(404, json!({"detail": "Application not found"})), ErrorClass::Unauthorized),
            (
                refusal(422, json!({"detail": [{"loc": ["body", "seed"], "msg": "x", "type": "int_type"}]})),
                ErrorClass::InvalidInput,
            ),
            (refusal(422, policy), ErrorClass::Moderated),
        ]
    }
    fn throttled(&self) -> (Refusal, Option<u64>) {
        (refusal(429, json!({"detail": "Too many requests"})).with("retry-after", "12"), Some(12_000))
    }
    fn terminals(&self) -> Vec<(Phase, Expect)> {
        let ended = |kind: Option<&str>, error: Value| {
            let mut told = json!({"status": "COMPLETED", "request_id": "x", "error": error});
            if let Some(kind) = kind {
                told["error_type"] = kind.into();
            }
            Phase::Told(told)
        };
        let policy = json!([{"loc": ["body"], "msg": "x", "type": "content_policy_violation"}]);
        vec![
            (ended(Some("runner_server_error"), "x".into()), Expect::Failed(ErrorClass::Transient)),
            (ended(Some("request_timeout"), "x".into()), Expect::Failed(ErrorClass::Transient)),
            (ended(Some("bad_request"), "x".into()), Expect::Failed(ErrorClass::InvalidInput)),
            (ended(Some("brand_new_error"), "x".into()), Expect::Failed(ErrorClass::Transient)),
            (ended(None, "something broke".into()), Expect::Failed(ErrorClass::Transient)),
            (ended(None, policy.clone()), Expect::Failed(ErrorClass::Moderated)),
            (ended(Some("client_cancelled"), "x".into()), Expect::Cancelled),
            (
                Phase::Told(json!({"http": 422, "response": {"detail": policy}})),
                Expect::Failed(ErrorClass::Moderated),
            ),
            (
                Phase::Told(json!({"http": 422, "response": {"detail": []}, "error_type": "bad_request"})),
                Expect::Failed(ErrorClass::InvalidInput),
            ),
            (
                Phase::Told(json!({"http": 200, "response": {"images": []}})),
                Expect::Failed(ErrorClass::BadOutput),
            ),
        ]
    }
    fn callback(&self, desk: &Desk, render: &Render, now_ms: u64) -> Option<Sent> {
        let url = desk.address(&render.id);
        let body = json!({"request_id": render.id, "gateway_request_id": render.id, "status": "OK",
            "payload": {"images": [{"url": url}]}})
        .to_string()
        .into_bytes();
        let headers = signed(&self.key, &render.id, now_ms, &body);
        Some(Sent { address: render.order.webhook.clone()?, headers, body })
    }
}
