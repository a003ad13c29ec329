//! Replicate, as <https://replicate.com/docs/reference/http> has it.

use crate::desk::{Desk, Order, Phase, Refusal, Render, has, json as answer, refusal};
use crate::stand::{Expect, KEY, Sent, Stand, hooked, lane_json};
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glassline_protocol::provider::{ErrorClass, Recovery};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const WHSEC: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const SETTLE_MS: u64 = 60_000;

/// Replicate, whose list may leave out the callback address.
pub(crate) struct Replicate {
    pub(crate) listed: bool,
}

type App = State<(Arc<Desk>, bool)>;

fn unauthorised(headers: &HeaderMap) -> Option<Response> {
    let told = json!({"title": "Unauthenticated", "detail": "You did not pass a valid token", "status": 401});
    (!has(headers, "authorization", &format!("Bearer {KEY}"))).then(|| answer(401, &told))
}

fn prediction(desk: &Desk, render: &Render) -> Value {
    let mut told = json!({"id": render.id, "model": "owner/name", "version": "hidden", "input": render.order.body["input"],
        "created_at": "2027-01-15T08:00:00.000Z", "started_at": null, "completed_at": null, "output": null, "error": null,
        "logs": "", "metrics": {}, "webhook": render.order.webhook, "urls": {"get": "x", "cancel": "y"}});
    let word = match &render.phase {
        Phase::Queued => "starting",
        Phase::Running => "processing",
        Phase::Odd => "hibernating",
        Phase::Cancelled => "canceled",
        Phase::Succeeded => {
            told["completed_at"] = "2027-01-15T08:01:00.000Z".into();
            told["metrics"] = json!({"predict_time": 2.5});
            match desk.address(&render.id) {
                Some(address) => told["output"] = json!([address]),
                None => told["data_removed"] = true.into(),
            }
            "succeeded"
        }
        Phase::Told(fields) => {
            for (name, value) in fields.as_object().unwrap() {
                told[name] = value.clone();
            }
            return told;
        }
    };
    told["status"] = word.into();
    told
}

async fn create(State((desk, _)): App, headers: HeaderMap, body: String) -> Response {
    if let Some(refused) = unauthorised(&headers) {
        return refused;
    }
    let body: Value = serde_json::from_str(&body).unwrap();
    assert!(headers.get("prefer").is_none() && headers.get("idempotency-key").is_none());
    let order = Order {
        prompt: body["input"]["prompt"].as_str().unwrap().to_owned(),
        webhook: body["webhook"].as_str().map(str::to_owned),
        key: None,
        body: body.clone(),
    };
    desk.post(order, |render| {
        answer(201, &json!({"id": render.id, "status": "starting", "input": {}, "urls": {}}))
    })
}

async fn show(State((desk, _)): App, Path(id): Path<String>, headers: HeaderMap) -> Response {
    if let Some(refused) = unauthorised(&headers) {
        return refused;
    }
    match desk.get(&id) {
        Some(render) => answer(200, &prediction(&desk, &render)),
        None => answer(404, &json!({"detail": "Not found", "status": 404})),
    }
}

async fn list(
    State((desk, listed)): App,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    if let Some(refused) = unauthorised(&headers) {
        return refused;
    }
    assert!(query["created_after"].ends_with('Z'), "{query:?}");
    let offset: usize = query.get("cursor").map_or(0, |cursor| cursor.parse().unwrap());
    let mut renders = desk.renders();
    renders.reverse();
    let next = (renders.len() > offset + 2).then(|| {
        format!("{}/predictions?created_after={}&cursor={}", desk.url(), query["created_after"], offset + 2)
    });
    let results: Vec<Value> = renders[offset.min(renders.len())..]
        .iter()
        .take(2)
        .map(|render| {
            let mut one = prediction(&desk, render);
            if !listed {
                one.as_object_mut().unwrap().remove("webhook");
            }
            one
        })
        .collect();
    answer(200, &json!({"previous": null, "next": next, "results": results}))
}

async fn cancel(State((desk, _)): App, Path(id): Path<String>) -> Response {
    let known = desk.change(&id, |render| {
        if matches!(render.phase, Phase::Queued | Phase::Running) {
            render.phase = Phase::Cancelled;
        }
    });
    answer(if known { 200 } else { 404 }, &json!({"id": id}))
}

async fn file(State((desk, _)): App, Path((id, number)): Path<(String, u32)>) -> Response {
    desk.file(&id, number)
}

/// A signature as the Standard Webhooks have it.
pub(crate) fn sign(secret: &str, id: &str, timestamp: &str, body: &[u8]) -> String {
    let key = STANDARD.decode(secret.trim_start_matches("whsec_")).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

impl Stand for Replicate {
    fn name(&self) -> &'static str {
        if self.listed { "replicate" } else { "replicate without webhook in lists" }
    }
    fn router(&self, desk: Arc<Desk>) -> Router {
        Router::new()
            .route("/models/owner/name/predictions", post(create))
            .route("/predictions", get(list))
            .route("/predictions/{id}", get(show))
            .route("/predictions/{id}/cancel", post(cancel))
            .route("/files/{id}/{number}", get(file))
            .with_state((desk, self.listed))
    }
    fn lane(&self, url: &str) -> Value {
        hooked(lane_json(
            "replicate",
            url,
            json!({"model": "owner/name", "webhook_secrets": [WHSEC], "settle_ms": SETTLE_MS}),
        ))
    }
    fn recovery(&self) -> Recovery {
        Recovery::Lookup { settle_ms: SETTLE_MS }
    }
    fn refusals(&self) -> Vec<(Refusal, ErrorClass)> {
        let detail = |text: &str| json!({"title": "x", "detail": text, "status": 1});
        vec![
            (refusal(401, detail("Unauthenticated")), ErrorClass::Unauthorized),
            (refusal(402, detail("Insufficient credit")), ErrorClass::PaymentRequired),
            (refusal(404, detail("The requested resource could not be found.")), ErrorClass::Unauthorized),
            (refusal(422, detail("Input validation failed")), ErrorClass::InvalidInput),
        ]
    }
    fn throttled(&self) -> (Refusal, Option<u64>) {
        let text = "Request was throttled. Your rate limit resets in ~30s.";
        (refusal(429, json!({"detail": text})), Some(30_000))
    }
    fn terminals(&self) -> Vec<(Phase, Expect)> {
        let failed = |error: &str| Phase::Told(json!({"status": "failed", "error": error}));
        vec![
            (failed("CUDA out of memory"), Expect::Failed(ErrorClass::Transient)),
            (
                failed("The input or output was flagged as sensitive. Please try again. (E005)"),
                Expect::Failed(ErrorClass::Moderated),
            ),
            (failed("NSFW content detected. Try running it again."), Expect::Failed(ErrorClass::Moderated)),
            (
                Phase::Told(json!({"status": "failed", "error": {"odd": 1}})),
                Expect::Failed(ErrorClass::Transient),
            ),
            (Phase::Told(json!({"status": "aborted"})), Expect::Failed(ErrorClass::Transient)),
            (Phase::Told(json!({"status": "canceled"})), Expect::Cancelled),
            (
                Phase::Told(json!({"status": "succeeded", "data_removed": true})),
                Expect::Failed(ErrorClass::BadOutput),
            ),
            (
                Phase::Told(json!({"status": "succeeded", "output": "a text"})),
                Expect::Failed(ErrorClass::BadOutput),
            ),
        ]
    }
    fn callback(&self, desk: &Desk, render: &Render, now_ms: u64) -> Option<Sent> {
        let body = prediction(desk, render).to_string().into_bytes();
        let timestamp = (now_ms / 1_000).to_string();
        let mut headers = reqwest::header::HeaderMap::new();
        let signature = sign(WHSEC, "msg_1", &timestamp, &body);
        // A second signature, of a key that is being rotated in, stands beside it.
        let listed = format!("v1,bm9uZQ== {signature} v2,x");
        headers.insert("webhook-id", "msg_1".parse().unwrap());
        headers.insert("webhook-timestamp", timestamp.parse().unwrap());
        headers.insert("webhook-signature", listed.parse().unwrap());
        Some(Sent { address: render.order.webhook.clone()?, headers, body })
    }
}
