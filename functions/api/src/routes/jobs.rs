//! Jobs: one with its history, and what people do to it.

use super::Served;
use crate::extract::Params;
use crate::openapi::Operation;
use crate::problem::{Code, Problem};
use crate::views::Job;
use crate::{Api, Ports, keys};
use axum::Json;
use axum::extract::State;
use serde_json::json;

/// What is served.
#[must_use]
pub fn routes<P: Ports>() -> Vec<Served<P>> {
    vec![Served::get(
        "/v1/jobs/{parent}/{member}",
        one::<P>,
        of_job(Operation::new(
            "getJob",
            "jobs",
            "A job with its history: outcomes, and tasks that were given up.",
        ))
        .answer::<Job>(200, "The job."),
    )]
}

/// An operation on the job that its path names.
#[must_use]
pub fn of_job(operation: Operation) -> Operation {
    operation
        .path("parent", "Its post or episode.", json!({ "type": "string", "pattern": keys::PARENT }))
        .path("member", "The shot or frame.", json!({ "type": "string", "pattern": keys::MEMBER }))
        .problem(Code::NotFound)
}

async fn one<P: Ports>(
    State(api): State<Api<P>>,
    Params((parent, member)): Params<(String, String)>,
) -> Result<Json<Job>, Problem> {
    let key = keys::job(&parent, &member)?;
    let view = api.ports().history(&key).await?;
    let job = view.as_ref().and_then(|view| Job::all(view).pop());
    job.map(Json).ok_or_else(|| Problem::missing(format!("job {key}")))
}
