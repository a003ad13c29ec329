//! What providers call. No shared secret: each callback carries its provider's signature, and is a hint all the same.

use super::Served;
use super::ops::from_fault;
use crate::extract::{Params, Raw};
use crate::openapi::Operation;
use crate::problem::{Code, Problem};
use crate::{Api, Ports, words};
use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use glassline_protocol::ids::LaneName;
use glassline_protocol::provider::CallbackCall;
use glassline_protocol::steps::called_back;
use schemars::JsonSchema;
use serde::Serialize;

/// What is served.
#[must_use]
pub fn routes<P: Ports>() -> Vec<Served<P>> {
    vec![Served::post(
        "/v1/callbacks/{provider}/{lane}",
        called::<P>,
        Operation::new("callBack", "callbacks", "A provider says that something happened to a render.")
            .open()
            .text(
                "Verified over the raw body, and fresh. Whatever it says, the provider is asked; so a duplicate, or one \
                 out of order, changes nothing. Every callback that isn't right gets the same answer.",
            )
            .path("provider", "The adapter's name, as in the lane's configuration.", words::name())
            .path("lane", "The lane.", words::name())
            .answer::<Heard>(202, "It is taken.")
            .problem(Code::BadSignature)
            .problem(Code::TooLarge)
            .problem(Code::Unavailable)
            .problem(Code::BadRow),
    )]
}

/// A callback that was taken.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Heard {
    /// Always.
    taken: bool,
}

async fn called<P: Ports>(
    State(api): State<Api<P>>,
    Params((provider, lane)): Params<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<(StatusCode, Json<Heard>), Problem> {
    let refused = || Problem::new(Code::BadSignature, "The callback isn't signed as it should be.");
    let Ok(lane) = LaneName::new(lane) else { return Err(refused()) };
    let call = CallbackCall {
        query: query.unwrap_or_default(),
        headers: headers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
            .collect(),
        body: body.to_vec(),
        now_ms: api.ports().now_ms(),
    };
    let Some(said) = api.ports().verify(&provider, &lane, &call).await else { return Err(refused()) };
    let note = called_back(api.ports(), &api.config().settings, &lane, &said.reference, &said.task).await;
    let note = note.map_err(from_fault)?;
    tracing::info!(event = "called_back", job = %said.reference.job, lane = %lane, note = note.word());
    Ok((StatusCode::ACCEPTED, Json(Heard { taken: true })))
}
