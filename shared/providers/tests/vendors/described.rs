//! The vendors that are described in TOML.

use crate::desk::{Desk, Order, Phase, Refusal, Render, has, json as answer, refusal, text};
use crate::stand::{Expect, KEY, Sent, Stand, hooked, lane_json};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{get, post};
use glassline_protocol::ids::TaskId;
use glassline_protocol::provider::{ErrorClass, Recovery};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

type App = State<Arc<Desk>>;

async fn file(State(desk): App, Path((id, number)): Path<(String, u32)>) -> Response {
    desk.file(&id, number)
}

fn over(mut told: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_object().unwrap() {
        told[name] = value.clone();
    }
    told
}

/// <https://docs.higgsfield.ai/docs/how-to/introduction>
pub(crate) struct Higgsfield;

mod higgsfield {
    use super::{
        App, BTreeMap, Desk, HeaderMap, KEY, Order, Path, Phase, Query, Render, Response, State, Value,
        answer, has, json, over, text,
    };

    pub(super) async fn create(
        State(desk): App,
        Query(query): Query<BTreeMap<String, String>>,
        headers: HeaderMap,
        body: String,
    ) -> Response {
        if !has(&headers, "authorization", &format!("Key {KEY}")) {
            return answer(401, &json!({"detail": "Invalid credentials"}));
        }
        let body: Value = serde_json::from_str(&body).unwrap();
        let key = text(&headers, "idempotency-key").expect("a key");
        assert!((1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()));
        let webhook = query.get("hf_webhook").cloned();
        let same = |render: &Render| render.order.body == body && render.order.webhook == webhook;
        if desk.renders().iter().any(|render| render.order.key.as_ref() == Some(&key) && !same(render)) {
            return answer(422, &json!({"detail": "Idempotency key was used with other parameters"}));
        }
        let prompt = body["prompt"].as_str().unwrap().to_owned();
        let base = desk.url();
        desk.post(Order { prompt, key: Some(key), webhook, body }, |render| {
            let address = format!("{base}/requests/{}", render.id);
            answer(
                200,
                &json!({"status": "queued", "request_id": render.id, "status_url": format!("{address}/status"),
                    "cancel_url": format!("{address}/cancel")}),
            )
        })
    }

    pub(super) fn told(desk: &Desk, render: &Render) -> Value {
        let told = json!({"request_id": render.id});
        match &render.phase {
            Phase::Queued => over(told, &json!({"status": "queued"})),
            Phase::Running => over(told, &json!({"status": "in_progress"})),
            Phase::Odd => over(told, &json!({"status": "upscaling"})),
            Phase::Cancelled => over(told, &json!({"status": "canceled"})),
            Phase::Succeeded => {
                let images: Vec<Value> =
                    desk.address(&render.id).into_iter().map(|url| json!({ "url": url })).collect();
                over(
                    told,
                    &json!({"status": "completed", "images": images, "expires_at": "2027-01-22T08:00:00Z"}),
                )
            }
            Phase::Told(fields) => over(told, fields),
        }
    }

    pub(super) async fn show(State(desk): App, Path(id): Path<String>, headers: HeaderMap) -> Response {
        match desk.get(&id).filter(|_| has(&headers, "authorization", &format!("Key {KEY}"))) {
            Some(render) => answer(200, &told(&desk, &render)),
            None => answer(404, &json!({"detail": "Not found"})),
        }
    }

    pub(super) async fn cancel(State(desk): App, Path(id): Path<String>) -> Response {
        match desk.get(&id).map(|render| render.phase) {
            Some(Phase::Queued) => {
                desk.set(&id, Phase::Cancelled);
                answer(202, &json!({}))
            }
            Some(_) => answer(400, &json!({"detail": "can't be cancelled"})),
            None => answer(404, &json!({})),
        }
    }
}

impl Stand for Higgsfield {
    fn name(&self) -> &'static str {
        "higgsfield"
    }
    fn idempotent(&self) -> bool {
        true
    }
    fn router(&self, desk: Arc<Desk>) -> Router {
        Router::new()
            .route("/higgsfield-ai/soul/standard", post(higgsfield::create))
            .route("/requests/{id}/status", get(higgsfield::show))
            .route("/requests/{id}/cancel", post(higgsfield::cancel))
            .route("/files/{id}/{number}", get(file))
            .with_state(desk)
    }
    fn lane(&self, url: &str) -> Value {
        let own = json!({"api": "higgsfield", "options": {"model": "higgsfield-ai/soul/standard"}});
        hooked(lane_json("generic", url, own))
    }
    fn recovery(&self) -> Recovery {
        Recovery::Key { lifetime_ms: 86_400_000 }
    }
    fn refusals(&self) -> Vec<(Refusal, ErrorClass)> {
        vec![
            (refusal(400, json!({"detail": "x"})), ErrorClass::InvalidInput),
            (refusal(401, json!({"detail": "x"})), ErrorClass::Unauthorized),
            (refusal(402, json!({"detail": "Not enough credits"})), ErrorClass::PaymentRequired),
            (refusal(422, json!({"detail": []})), ErrorClass::InvalidInput),
        ]
    }
    fn throttled(&self) -> (Refusal, Option<u64>) {
        (refusal(429, json!({"detail": "x"})).with("retry-after", "5"), Some(5_000))
    }
    fn terminals(&self) -> Vec<(Phase, Expect)> {
        vec![
            (Phase::Told(json!({"status": "failed", "error": "x"})), Expect::Failed(ErrorClass::Transient)),
            (Phase::Told(json!({"status": "nsfw"})), Expect::Failed(ErrorClass::Moderated)),
            (Phase::Told(json!({"status": "canceled"})), Expect::Cancelled),
            (
                Phase::Told(json!({"status": "completed", "images": []})),
                Expect::Failed(ErrorClass::BadOutput),
            ),
        ]
    }
    fn callback(&self, desk: &Desk, render: &Render, _now_ms: u64) -> Option<Sent> {
        let body = higgsfield::told(desk, render).to_string().into_bytes();
        let headers = reqwest::header::HeaderMap::new();
        Some(Sent { address: render.order.webhook.clone()?, headers, body })
    }
}

/// <https://docs.agents.lumalabs.ai/>
pub(crate) struct Luma;

async fn luma_create(State(desk): App, headers: HeaderMap, body: String) -> Response {
    if !has(&headers, "authorization", &format!("Bearer {KEY}")) {
        return answer(401, &json!({"detail": "x"}));
    }
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&body["model"], &body["type"]), (&json!("uni-1"), &json!("image")));
    let prompt = body["prompt"].as_str().unwrap().to_owned();
    desk.post(Order { prompt, body, ..Order::default() }, |render| {
        answer(201, &json!({"id": render.id, "state": "queued", "output": []}))
    })
}

async fn luma_show(State(desk): App, Path(id): Path<String>, headers: HeaderMap) -> Response {
    let Some(render) = desk.get(&id).filter(|_| has(&headers, "authorization", &format!("Bearer {KEY}")))
    else {
        return answer(404, &json!({"detail": "generation not found"}));
    };
    let told = json!({"id": id, "type": "image", "output": []});
    let told = match &render.phase {
        Phase::Queued => over(told, &json!({"state": "queued"})),
        Phase::Running => over(told, &json!({"state": "processing"})),
        Phase::Odd | Phase::Cancelled => over(told, &json!({"state": "reasoning"})),
        Phase::Succeeded => {
            let output: Vec<Value> =
                desk.address(&id).into_iter().map(|url| json!({"type": "image", "url": url})).collect();
            over(told, &json!({"state": "completed", "output": output}))
        }
        Phase::Told(fields) => over(told, fields),
    };
    answer(200, &told)
}

impl Stand for Luma {
    fn name(&self) -> &'static str {
        "luma-agents"
    }
    fn router(&self, desk: Arc<Desk>) -> Router {
        Router::new()
            .route("/v1/generations", post(luma_create))
            .route("/v1/generations/{id}", get(luma_show))
            .route("/files/{id}/{number}", get(file))
            .with_state(desk)
    }
    fn lane(&self, url: &str) -> Value {
        let own = json!({"api": "luma-agents", "options": {"model": "uni-1"}});
        lane_json("generic", &format!("{url}/v1"), own)
    }
    fn recovery(&self) -> Recovery {
        Recovery::None
    }
    fn refusals(&self) -> Vec<(Refusal, ErrorClass)> {
        vec![
            (refusal(400, json!({"detail": "x", "code": "content_moderated"})), ErrorClass::Moderated),
            (refusal(400, json!({"detail": "x", "code": "budget_exhausted"})), ErrorClass::PaymentRequired),
            (refusal(400, json!({"detail": "x"})), ErrorClass::InvalidInput),
            (refusal(401, json!({"detail": "x"})), ErrorClass::Unauthorized),
            (refusal(402, json!({"detail": "x"})), ErrorClass::PaymentRequired),
        ]
    }
    fn throttled(&self) -> (Refusal, Option<u64>) {
        (refusal(429, json!({"detail": "x", "code": "rate_limited"})), None)
    }
    fn terminals(&self) -> Vec<(Phase, Expect)> {
        let failed = |code: &str, class| {
            (Phase::Told(json!({"state": "failed", "failure_code": code})), Expect::Failed(class))
        };
        vec![
            failed("content_moderated", ErrorClass::Moderated),
            failed("generation_failed", ErrorClass::Transient),
            failed("budget_exhausted", ErrorClass::PaymentRequired),
            failed("output_not_found", ErrorClass::BadOutput),
            failed("image_too_large", ErrorClass::InvalidInput),
            failed("unsupported_format", ErrorClass::InvalidInput),
            failed("corrupt_input", ErrorClass::InvalidInput),
            failed("invalid_request", ErrorClass::InvalidInput),
            failed("rate_limited", ErrorClass::Throttled),
            failed("brand_new", ErrorClass::Transient),
            (Phase::Told(json!({"state": "failed"})), Expect::Failed(ErrorClass::Transient)),
            (Phase::Told(json!({"state": "completed", "output": []})), Expect::Failed(ErrorClass::BadOutput)),
        ]
    }
    fn cancels(&self) -> bool {
        false
    }
}

/// <https://platform.stability.ai/docs/api-reference>
pub(crate) struct Stability;

/// The parts of a form (<https://www.rfc-editor.org/rfc/rfc7578>): name, whole head in lower case, bytes.
fn parts(headers: &HeaderMap, body: &[u8]) -> Vec<(String, String, Vec<u8>)> {
    let kind = text(headers, "content-type").unwrap();
    let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
    let body: String = body.iter().map(|byte| char::from(*byte)).collect();
    let mut found = Vec::new();
    for part in body.split(&format!("--{boundary}")).skip(1) {
        let Some((head, bytes)) = part.split_once("\r\n\r\n") else { continue };
        let (_, name) = head.split_once("name=\"").unwrap();
        let (name, _) = name.split_once('"').unwrap();
        let bytes = bytes.strip_suffix("\r\n").unwrap();
        let bytes = bytes.chars().map(|one| u8::try_from(u32::from(one)).unwrap()).collect();
        found.push((name.to_owned(), head.to_ascii_lowercase(), bytes));
    }
    found
}

async fn stability_create(State(desk): App, headers: HeaderMap, body: axum::body::Bytes) -> Response {
    if !has(&headers, "authorization", &format!("Bearer {KEY}")) {
        return answer(401, &json!({"name": "unauthorized", "errors": ["x"]}));
    }
    assert!(has(&headers, "accept", "application/json"));
    let mut order = Order { body: json!({}), ..Order::default() };
    for (name, head, bytes) in parts(&headers, &body) {
        match name.as_str() {
            "prompt" => order.prompt = String::from_utf8(bytes).unwrap(),
            "image" => {
                assert!(
                    head.contains("filename=\"image\"") && head.contains("content-type: image/png"),
                    "{head}"
                );
                assert_eq!(bytes, b"png");
                order.body["image"] = true.into();
            }
            _ => order.body[name] = String::from_utf8(bytes).unwrap().into(),
        }
    }
    assert_eq!(order.body, json!({"image": true, "seed": "7"}));
    desk.post(order, |render| answer(200, &json!({"id": render.id})))
}

async fn stability_result(State(desk): App, Path(id): Path<String>, headers: HeaderMap) -> Response {
    let Some(render) = desk.get(&id).filter(|_| has(&headers, "authorization", &format!("Bearer {KEY}")))
    else {
        return answer(404, &json!({"name": "not_found", "errors": ["x"]}));
    };
    match &render.phase {
        Phase::Queued | Phase::Running => answer(202, &json!({"id": id, "status": "in-progress"})),
        Phase::Odd | Phase::Cancelled => answer(203, &json!({"id": id, "status": "dithering"})),
        Phase::Succeeded if render.gone => answer(404, &json!({"name": "not_found", "errors": ["x"]})),
        Phase::Succeeded => {
            // A real film, longer than any status answer may be; the address never changes.
            let mut bytes = b"\x89PNG\r\n\x1a\nbytes".to_vec();
            bytes.resize(8 << 20, 0);
            let mut response = Response::new(Body::from(bytes));
            let kind = if has(&headers, "accept", "image/*") { "image/png" } else { "application/json" };
            response.headers_mut().insert("content-type", kind.parse().unwrap());
            response
        }
        Phase::Told(fields) => {
            let status = u16::try_from(fields["http"].as_u64().unwrap()).unwrap();
            answer(status, &json!({"id": id, "name": fields["name"], "errors": ["x"]}))
        }
    }
}

impl Stand for Stability {
    fn name(&self) -> &'static str {
        "stability"
    }
    fn router(&self, desk: Arc<Desk>) -> Router {
        Router::new()
            .route("/v2beta/stable-image/upscale/creative", post(stability_create))
            .route("/v2beta/results/{id}", get(stability_result))
            .with_state(desk)
    }
    fn lane(&self, url: &str) -> Value {
        let options = json!({"service": "stable-image/upscale/creative", "kind": "image"});
        lane_json("generic", url, json!({"api": "stability", "options": options}))
    }
    fn recovery(&self) -> Recovery {
        Recovery::None
    }
    fn refusals(&self) -> Vec<(Refusal, ErrorClass)> {
        let named = |status, name: &str| refusal(status, json!({"id": "x", "name": name, "errors": ["x"]}));
        vec![
            (named(400, "bad_request"), ErrorClass::InvalidInput),
            (named(401, "unauthorized"), ErrorClass::Unauthorized),
            (named(402, "payment_required"), ErrorClass::PaymentRequired),
            (named(403, "content_moderation"), ErrorClass::Moderated),
            (named(403, "permission_denied"), ErrorClass::Unauthorized),
            (named(413, "payload_too_large"), ErrorClass::InvalidInput),
            (named(422, "unprocessable"), ErrorClass::InvalidInput),
        ]
    }
    fn throttled(&self) -> (Refusal, Option<u64>) {
        (refusal(429, json!({"name": "rate_limit_exceeded", "errors": ["x"]})), None)
    }
    fn terminals(&self) -> Vec<(Phase, Expect)> {
        vec![(
            Phase::Told(json!({"http": 403, "name": "content_moderation"})),
            Expect::Failed(ErrorClass::Moderated),
        )]
    }
    fn renews(&self) -> bool {
        false
    }
    fn cancels(&self) -> bool {
        false
    }
}

/// <https://github.com/comfyanonymous/ComfyUI>: server.py, comfy_execution/jobs.py
pub(crate) struct ComfyUi;

async fn comfy_create(State(desk): App, headers: HeaderMap, body: String) -> Response {
    assert!(headers.get("authorization").is_none());
    let body: Value = serde_json::from_str(&body).unwrap();
    let Some(prompt) = body.pointer("/prompt/6/inputs/text").and_then(Value::as_str) else {
        return answer(400, &json!({"error": {"type": "no_prompt"}, "node_errors": {}}));
    };
    let order = Order {
        prompt: prompt.to_owned(),
        key: Some(body["prompt_id"].as_str().unwrap().to_owned()),
        webhook: None,
        body: body.clone(),
    };
    desk.post(order, |render| {
        answer(200, &json!({"prompt_id": render.order.key, "number": 1, "node_errors": {}}))
    })
}

fn by_key(desk: &Desk, key: &str) -> Option<Render> {
    desk.renders().into_iter().find(|render| render.order.key.as_deref() == Some(key))
}

async fn comfy_job(State(desk): App, Path(key): Path<String>) -> Response {
    let Some(render) = by_key(&desk, &key) else { return answer(404, &json!({"error": "Job not found"})) };
    let told = json!({"id": key, "priority": 1, "outputs_count": 0});
    let told = match &render.phase {
        Phase::Queued => over(told, &json!({"status": "pending"})),
        Phase::Running => over(told, &json!({"status": "in_progress"})),
        Phase::Odd => over(told, &json!({"status": "caching"})),
        Phase::Cancelled => over(told, &json!({"status": "cancelled"})),
        Phase::Succeeded => {
            // As a vendor's own, it names files and not addresses.
            let address = desk.address(&render.id);
            let name = address.map(|_| format!("{}_{}.png", render.id, render.addresses + 1));
            let images: Vec<Value> = name
                .into_iter()
                .flat_map(|name| {
                    [
                        json!({"filename": "preview.png", "subfolder": "", "type": "temp"}),
                        json!({"filename": name, "subfolder": "a b", "type": "output"}),
                    ]
                })
                .collect();
            over(
                told,
                &json!({"status": "completed", "outputs": {"9": {"images": images, "animated": [false]}}}),
            )
        }
        Phase::Told(fields) => over(told, fields),
    };
    answer(200, &told)
}

async fn comfy_view(State(desk): App, Query(query): Query<BTreeMap<String, String>>) -> Response {
    assert_eq!((query["subfolder"].as_str(), query["type"].as_str()), ("a b", "output"));
    let (id, number) = query["filename"].trim_end_matches(".png").split_once('_').unwrap();
    desk.file(id, number.parse().unwrap())
}

async fn comfy_delete(State(desk): App, body: String) -> Response {
    let body: Value = serde_json::from_str(&body).unwrap();
    let known = by_key(&desk, body["delete"][0].as_str().unwrap());
    if let Some(render) = known.filter(|render| render.phase == Phase::Queued) {
        desk.set(&render.id, Phase::Cancelled);
    }
    answer(200, &Value::Null)
}

async fn comfy_interrupt(State(desk): App, body: String) -> Response {
    let body: Value = serde_json::from_str(&body).unwrap();
    let known = by_key(&desk, body["prompt_id"].as_str().unwrap());
    if let Some(render) = known.filter(|render| render.phase == Phase::Running) {
        desk.set(&render.id, Phase::Cancelled);
    }
    answer(200, &Value::Null)
}

impl Stand for ComfyUi {
    fn name(&self) -> &'static str {
        "comfyui"
    }
    fn router(&self, desk: Arc<Desk>) -> Router {
        Router::new()
            .route("/api/prompt", post(comfy_create))
            .route("/api/jobs/{id}", get(comfy_job))
            .route("/api/view", get(comfy_view))
            .route("/api/queue", post(comfy_delete))
            .route("/api/interrupt", post(comfy_interrupt))
            .with_state(desk)
    }
    fn lane(&self, url: &str) -> Value {
        let own = json!({"api": "comfyui", "options": {"prompt_node": "6"}});
        let mut lane = lane_json("generic", &format!("{url}/api"), own);
        lane.as_object_mut().unwrap().remove("api_key");
        lane
    }
    fn recovery(&self) -> Recovery {
        Recovery::Lookup { settle_ms: 60_000 }
    }
    fn refusals(&self) -> Vec<(Refusal, ErrorClass)> {
        let invalid =
            json!({"error": {"type": "prompt_outputs_failed_validation"}, "node_errors": {"6": {}}});
        vec![(refusal(400, invalid), ErrorClass::InvalidInput)]
    }
    fn throttled(&self) -> (Refusal, Option<u64>) {
        // ComfyUI has no limit of its own; a proxy in front of it may.
        (refusal(429, Value::Null).with("retry-after", "3"), Some(3_000))
    }
    fn terminals(&self) -> Vec<(Phase, Expect)> {
        let error = json!({"exception_type": "torch.OutOfMemoryError"});
        vec![
            (
                Phase::Told(json!({"status": "failed", "execution_error": error})),
                Expect::Failed(ErrorClass::Transient),
            ),
            (Phase::Told(json!({"status": "cancelled"})), Expect::Cancelled),
            (
                Phase::Told(json!({"status": "completed", "outputs": {}})),
                Expect::Failed(ErrorClass::BadOutput),
            ),
        ]
    }
    fn task(&self, render: &Render) -> TaskId {
        TaskId::new(render.order.key.clone().unwrap()).unwrap()
    }
}
