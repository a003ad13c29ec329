//! The HTTP interface.

use crate::answer::{Refusal, reply};
use crate::books::{Ending, Render, RenderState};
use crate::callback;
use crate::config::{AcceptEvent, AccountConfig};
use crate::faults::{FaultKind, FaultRule, check_rules};
use crate::line::Line;
use crate::output::{self, Signed};
use crate::request::{RenderCall, visible};
use crate::state::{AnswerFaults, Posted, Shared};
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{ConnectInfo, DefaultBodyLimit, Path, Query, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const BODY_BYTES: usize = 256 * 1024;

type App = State<Arc<Shared>>;
type Body = Result<Bytes, BytesRejection>;
type Id = Result<Path<String>, PathRejection>;

/// The routes.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/renders", post(create).get(lookup))
        .route("/v1/renders/{id}", get(show))
        .route("/v1/renders/{id}/cancel", post(cancel))
        .route("/v1/outputs/{id}", get(download))
        .route("/books", get(books))
        .route("/faults", get(faults).put(set_faults))
        .fallback(nothing)
        .method_not_allowed_fallback(nothing)
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .with_state(shared)
}

async fn nothing() -> Refusal {
    Refusal::no_endpoint()
}

fn account(shared: &Shared, headers: &HeaderMap) -> Result<Arc<AccountConfig>, Refusal> {
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let key = given.and_then(|text| text.strip_prefix("Bearer ")).map(str::trim);
    key.and_then(|key| shared.account(key)).ok_or_else(Refusal::unauthorized)
}

fn whole(body: Body) -> Result<Bytes, Refusal> {
    body.map_err(|fault| match fault.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Refusal::too_large(),
        _ => Refusal::new(StatusCode::BAD_REQUEST, "invalid_request", "the body could not be read"),
    })
}

async fn create(
    State(shared): App,
    ConnectInfo(line): ConnectInfo<Line>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let posted = match read_post(&shared, &headers, body) {
        Ok((account, key, call)) => shared.post(&account, key, call),
        Err(refusal) => {
            shared.lock().books.reject(refusal.code);
            Posted::Refused(refusal)
        }
    };
    match posted {
        Posted::Refused(refusal) => refusal.into_response(),
        Posted::Dropped => cut(&line),
        Posted::Accepted { id, accepted_ms, answer } => {
            // Its callback is on its way even if the client hangs up and this handler is dropped.
            callback::schedule(&shared, id.clone());
            tell(&shared, &id, accepted_ms).await;
            let body = json!({"id": id, "status": RenderState::Queued.word()});
            answer_with(&line, answer, reply(StatusCode::CREATED, &body)).await
        }
        Posted::Replayed { id, state, answer } => {
            let mut response = reply(StatusCode::OK, &json!({"id": id, "status": state.word()}));
            response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
            answer_with(&line, answer, response).await
        }
    }
}

type Post = (Arc<AccountConfig>, Option<String>, RenderCall);

fn read_post(shared: &Shared, headers: &HeaderMap, body: Body) -> Result<Post, Refusal> {
    let body = whole(body)?;
    shared.lock().books.posts += 1;
    let account = account(shared, headers)?;
    let bad = || Refusal::invalid("Idempotency-Key", "it must be 1 to 255 visible ASCII characters, once");
    let mut keys = headers.get_all("idempotency-key").iter();
    let key = keys.next().map(|value| value.to_str().map(str::to_owned).map_err(|_| bad())).transpose()?;
    if keys.next().is_some() || key.as_ref().is_some_and(|key| !visible(key, 255)) {
        return Err(bad());
    }
    Ok((account, key, RenderCall::read(&body)?))
}

/// Calls the test's hook where it may block, and waits for it.
async fn tell(shared: &Shared, id: &str, accepted_ms: u64) {
    let Some(hook) = shared.config.on_accept.clone() else { return };
    let event = shared.lock().books.any(id).map(|render| AcceptEvent {
        account: render.account.clone(),
        id: id.to_owned(),
        reference: render.reference.clone(),
        accepted_ms,
    });
    let Some(event) = event else { return };
    if tokio::task::spawn_blocking(move || hook(&event)).await.is_err() {
        tracing::warn!(event = "sandbox_hook_failed", render = id);
    }
}

async fn answer_with(line: &Line, faults: AnswerFaults, response: Response) -> Response {
    if let Some(slow_ms) = faults.slow_ms {
        tokio::time::sleep(Duration::from_millis(slow_ms)).await;
    }
    if faults.dropped {
        return cut(line);
    }
    if faults.error { Refusal::upstream().into_response() } else { response }
}

/// Closes the connection; the response is never written.
fn cut(line: &Line) -> Response {
    line.cut();
    StatusCode::NO_CONTENT.into_response()
}

async fn show(State(shared): App, id: Id, headers: HeaderMap) -> Result<Response, Refusal> {
    let account = account(&shared, &headers)?;
    let Path(id) = id.map_err(|_| Refusal::unknown_render())?;
    let mut inner = shared.lock();
    let now_ms = shared.now_ms();
    let render = inner.books.get(&account.name, &id).cloned().ok_or_else(Refusal::unknown_render)?;
    let mut body = describe(&shared, &account, &render, now_ms);
    let strange = inner.faults.fire(&account.name, &render.reference, &[FaultKind::UnknownStatusWord]);
    if strange.is_some() {
        body["status"] = "warming_up".into();
    }
    Ok(reply(StatusCode::OK, &body))
}

fn describe(shared: &Shared, account: &AccountConfig, render: &Render, now_ms: u64) -> Value {
    let state = render.state(now_ms);
    let mut body = json!({
        "id": render.id,
        "reference": render.reference,
        "status": state.word(),
        "created_ms": render.accepted_ms,
    });
    match state {
        RenderState::Queued | RenderState::Running => {}
        RenderState::Cancelled => body["ended_ms"] = render.cancelled_ms.into(),
        RenderState::Succeeded => {
            body["ended_ms"] = render.finish_ms.into();
            let address = output::address(&shared.url, account, render, now_ms);
            body["outputs"] = match address {
                Some((url, expires_ms)) => json!([{"url": url, "expires_ms": expires_ms}]),
                None => json!([]),
            };
        }
        RenderState::Failed => {
            body["ended_ms"] = render.finish_ms.into();
            body["error"] = match render.ending {
                Ending::Moderated => {
                    json!({"code": "content_moderated", "message": "the output breaks the content rules"})
                }
                Ending::Fails | Ending::Succeeds | Ending::Never => {
                    json!({"code": "render_failed", "message": "the worker was lost"})
                }
            };
        }
    }
    body
}

#[derive(Deserialize)]
struct Lookup {
    reference: String,
}

async fn lookup(
    State(shared): App,
    headers: HeaderMap,
    query: Result<Query<Lookup>, QueryRejection>,
) -> Result<Response, Refusal> {
    let account = account(&shared, &headers)?;
    if !account.lookup {
        return Err(Refusal::no_endpoint());
    }
    let Query(query) = query.map_err(|_| Refusal::invalid("reference", "give it once in the query"))?;
    let inner = shared.lock();
    let now_ms = shared.now_ms();
    let shown: Vec<Value> = inner
        .books
        .by_reference(&account.name, &query.reference)
        .into_iter()
        .filter(|render| render.accepted_ms + account.lookup_delay_ms <= now_ms)
        .map(|render| describe(&shared, &account, render, now_ms))
        .collect();
    Ok(reply(StatusCode::OK, &json!({"renders": shown})))
}

async fn cancel(State(shared): App, id: Id, headers: HeaderMap) -> Result<Response, Refusal> {
    let account = account(&shared, &headers)?;
    let Path(id) = id.map_err(|_| Refusal::unknown_render())?;
    let mut inner = shared.lock();
    let now_ms = shared.now_ms();
    let render = inner.books.get(&account.name, &id).cloned().ok_or_else(Refusal::unknown_render)?;
    if render.state(now_ms).ended() {
        return Err(Refusal::new(StatusCode::CONFLICT, "already_ended", "this render has ended"));
    }
    let ignored = inner.faults.fire(&account.name, &render.reference, &[FaultKind::CancelIgnored]).is_some();
    if ignored {
        return Ok(reply(StatusCode::OK, &json!({"id": id, "status": render.state(now_ms).word()})));
    }
    if !inner.cancel(&id, now_ms) {
        return Err(Refusal::internal());
    }
    drop(inner);
    callback::schedule(&shared, id.clone());
    Ok(reply(StatusCode::OK, &json!({"id": id, "status": RenderState::Cancelled.word()})))
}

async fn download(
    State(shared): App,
    id: Id,
    query: Result<Query<Signed>, QueryRejection>,
) -> Result<Response, Refusal> {
    let forbidden = |_| Refusal::new(StatusCode::FORBIDDEN, "bad_signature", "the address isn't signed");
    let Path(id) = id.map_err(|_| Refusal::unknown_render())?;
    let Query(signed) = query.map_err(forbidden)?;
    output::serve(&shared, &id, &signed).await
}

fn shown<T: Serialize>(value: &T) -> Result<Response, Refusal> {
    let body = serde_json::to_value(value).map_err(|_| Refusal::internal())?;
    Ok(reply(StatusCode::OK, &body))
}

async fn books(State(shared): App) -> Result<Response, Refusal> {
    shown(&shared.books())
}

async fn faults(State(shared): App) -> Result<Response, Refusal> {
    shown(&shared.lock().faults.view())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    rules: Vec<FaultRule>,
}

async fn set_faults(State(shared): App, body: Body) -> Result<Response, Refusal> {
    let body = whole(body)?;
    let Rules { rules } = serde_json::from_slice(&body).map_err(|fault| Refusal::unreadable(&fault))?;
    let bad = |fault: crate::ConfigError| {
        Refusal::new(StatusCode::BAD_REQUEST, "invalid_request", fault.to_string())
    };
    check_rules(&rules).map_err(bad)?;
    let mut inner = shared.lock();
    inner.faults.set(rules);
    shown(&inner.faults.view())
}
