//! What people do to queues.

use super::Served;
use crate::extract::Params;
use crate::openapi::Operation;
use crate::problem::{Code, Problem};
use crate::{Api, Ports, words};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use glassline_protocol::ports::Redriven;
use schemars::JsonSchema;
use serde::Serialize;

/// What is served.
#[must_use]
pub fn routes<P: Ports>() -> Vec<Served<P>> {
    vec![Served::post(
        "/v1/queues/{name}/redrive",
        redrive::<P>,
        Operation::new(
            "redriveQueue",
            "queues",
            "Moves the messages of a dead-letter queue back to where they came from.",
        )
        .path("name", "Its name, such as render-dlq.", words::name())
        .answer::<Moving>(202, "They are on their way.")
        .problem(Code::NotFound),
    )]
}

/// A queue whose messages are moved back.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Moving {
    /// Its name.
    queue: String,
}

async fn redrive<P: Ports>(
    State(api): State<Api<P>>,
    Params((queue,)): Params<(String,)>,
) -> Result<Response, Problem> {
    match api.ports().redrive(&queue).await {
        Redriven::Started => Ok((StatusCode::ACCEPTED, Json(Moving { queue })).into_response()),
        Redriven::Missing => {
            let names = api.ports().names().join(", ");
            Err(Problem::new(
                Code::NotFound,
                format!("There is no dead-letter queue of this name; these are: {names}."),
            ))
        }
        Redriven::Refused(code) => Err(Problem::new(
            Code::Unavailable,
            format!("The queue service refused it ({code}); a move that is under way must end first."),
        )),
    }
}
