//! Runway, as <https://docs.dev.runwayml.com/api> has it.

use crate::desk::{Desk, Order, Phase, Refusal, has, json as answer, refusal};
use crate::stand::{Expect, KEY, Stand, lane_json};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{get, post};
use glassline_protocol::provider::{ErrorClass, Recovery};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) struct Runway;

type App = State<Arc<Desk>>;

fn authorised(headers: &HeaderMap) -> bool {
    has(headers, "authorization", &format!("Bearer {KEY}")) && has(headers, "x-runway-version", "2024-11-06")
}

async fn create(State(desk): App, headers: HeaderMap, body: String) -> Response {
    if !authorised(&headers) {
        return answer(401, &json!({"error": "invalid key or version"}));
    }
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["model"], "gen4.5");
    let prompt = body["promptText"].as_str().unwrap().to_owned();
    desk.post(Order { prompt, body, ..Order::default() }, |render| answer(200, &json!({"id": render.id})))
}

async fn show(State(desk): App, Path(id): Path<String>, headers: HeaderMap) -> Response {
    let Some(render) = desk.get(&id).filter(|_| authorised(&headers)) else {
        return answer(404, &json!({"error": "not found"}));
    };
    let mut told = json!({"id": id, "createdAt": "2027-01-15T08:00:00.000Z"});
    match &render.phase {
        Phase::Queued => told["status"] = "THROTTLED".into(),
        Phase::Running => {
            told["status"] = "RUNNING".into();
            told["progress"] = json!(0.5);
        }
        Phase::Odd => told["status"] = "DREAMING".into(),
        Phase::Succeeded => {
            told["status"] = "SUCCEEDED".into();
            told["output"] = desk.address(&id).into_iter().collect();
        }
        Phase::Cancelled => told["status"] = "CANCELLED".into(),
        Phase::Told(fields) => {
            for (name, value) in fields.as_object().unwrap() {
                told[name] = value.clone();
            }
        }
    }
    answer(200, &told)
}

/// Cancels what is under way, deletes what has ended.
async fn remove(State(desk): App, Path(id): Path<String>) -> Response {
    let known = desk.change(&id, |render| match render.phase {
        Phase::Queued | Phase::Running | Phase::Odd => render.phase = Phase::Cancelled,
        Phase::Succeeded | Phase::Cancelled | Phase::Told(_) => render.deleted = true,
    });
    answer(if known { 204 } else { 404 }, &Value::Null)
}

async fn file(State(desk): App, Path((id, number)): Path<(String, u32)>) -> Response {
    desk.file(&id, number)
}

impl Stand for Runway {
    fn name(&self) -> &'static str {
        "runway"
    }
    fn router(&self, desk: Arc<Desk>) -> Router {
        Router::new()
            .route("/v1/text_to_video", post(create))
            .route("/v1/tasks/{id}", get(show).delete(remove))
            .route("/files/{id}/{number}", get(file))
            .with_state(desk)
    }
    fn lane(&self, url: &str) -> Value {
        lane_json("runway", url, json!({"endpoint": "text_to_video", "model": "gen4.5"}))
    }
    fn recovery(&self) -> Recovery {
        Recovery::None
    }
    fn refusals(&self) -> Vec<(Refusal, ErrorClass)> {
        vec![
            (refusal(400, json!({"error": "Validation of body failed"})), ErrorClass::InvalidInput),
            (refusal(401, json!({"error": "x"})), ErrorClass::Unauthorized),
            (refusal(404, json!({"error": "x"})), ErrorClass::Unauthorized),
            (refusal(405, json!({"error": "x"})), ErrorClass::Unauthorized),
        ]
    }
    fn throttled(&self) -> (Refusal, Option<u64>) {
        (refusal(429, json!({"error": "You have too many tasks"})), None)
    }
    fn terminals(&self) -> Vec<(Phase, Expect)> {
        let failed =
            |code: Value| Phase::Told(json!({"status": "FAILED", "failure": "x", "failureCode": code}));
        vec![
            (failed("SAFETY.INPUT.TEXT".into()), Expect::Failed(ErrorClass::Moderated)),
            (failed("SAFETY.OUTPUT.VIDEO".into()), Expect::Failed(ErrorClass::Moderated)),
            (failed("INPUT_PREPROCESSING.SAFETY.TEXT".into()), Expect::Failed(ErrorClass::Moderated)),
            (failed("INPUT_PREPROCESSING.INTERNAL".into()), Expect::Failed(ErrorClass::Transient)),
            (failed("ASSET.INVALID".into()), Expect::Failed(ErrorClass::InvalidInput)),
            (failed("INTERNAL.BAD_OUTPUT.CODE01".into()), Expect::Failed(ErrorClass::BadOutput)),
            (failed("INTERNAL".into()), Expect::Failed(ErrorClass::Transient)),
            (failed("THIRD_PARTY.UNAVAILABLE".into()), Expect::Failed(ErrorClass::Transient)),
            (failed("BRAND.NEW".into()), Expect::Failed(ErrorClass::Transient)),
            (failed(Value::Null), Expect::Failed(ErrorClass::Transient)),
            (Phase::Told(json!({"status": "CANCELLED"})), Expect::Cancelled),
            (
                Phase::Told(json!({"status": "SUCCEEDED", "output": []})),
                Expect::Failed(ErrorClass::BadOutput),
            ),
        ]
    }
}
