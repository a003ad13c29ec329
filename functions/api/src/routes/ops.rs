//! What people do to jobs: each request names the attempt that it means, and changes nothing of another.

use super::Served;
use super::jobs::of_job;
use crate::extract::{Json as Input, Params};
use crate::openapi::Operation;
use crate::problem::{Code, Problem};
use crate::{Api, Ports, keys, words};
use axum::Json;
use axum::extract::State;
use glassline_protocol::bulk::{Bulk, MAX_BULK, bulk};
use glassline_protocol::explain::{explain, scene};
use glassline_protocol::ids::{Attempt, JobKey, LaneName, TaskId};
use glassline_protocol::note::Did;
use glassline_protocol::provider::{ErrorClass, Reference};
use glassline_protocol::row::{JobRow, Status};
use glassline_protocol::settle::Fault;
use glassline_protocol::steps::{Asked, Resolution, Review, cancel, requeue, resolve, review, wake_lane};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is served.
#[must_use]
pub fn routes<P: Ports>() -> Vec<Served<P>> {
    let asked =
        |operation: Operation| of_job(operation).answer::<Done>(200, "It is so.").problem(Code::Moved);
    let of_lane = |operation: Operation| {
        operation
            .path("lane", "Its name.", words::name())
            .answer::<BulkAnswer>(200, "What a page of it came to, job by job.")
            .problem(Code::NotFound)
            .problem(Code::Unacceptable)
    };
    vec![
        Served::get(
            "/v1/jobs/{parent}/{member}/explain",
            explained::<P>,
            of_job(Operation::new("explainJob", "jobs", "Why it isn't running, or what it waits for."))
                .answer::<Explained>(200, "One sentence, and the command that ends a wait for a person."),
        ),
        Served::post(
            "/v1/jobs/{parent}/{member}/cancel",
            cancel_one::<P>,
            asked(Operation::new("cancelJob", "jobs", "Cancels it, or asks whoever has it to stop."))
                .json::<MeantInput>(),
        ),
        Served::post(
            "/v1/jobs/{parent}/{member}/requeue",
            requeue_one::<P>,
            asked(Operation::new("requeueJob", "jobs", "Another attempt of what has ended or is held."))
                .json::<RequeueInput>(),
        ),
        Served::post(
            "/v1/jobs/{parent}/{member}/resolve",
            resolve_one::<P>,
            asked(Operation::new("resolveJob", "jobs", "Decides on a held job."))
                .json::<ResolveInput>()
                .problem(Code::Unacceptable),
        ),
        Served::post(
            "/v1/jobs/{parent}/{member}/review",
            review_one::<P>,
            asked(Operation::new(
                "reviewJob",
                "jobs",
                "QA's verdict on an output; a rejected one is rendered again.",
            ))
            .json::<ReviewInput>()
            .problem(Code::Unacceptable),
        ),
        Served::post(
            "/v1/lanes/{lane}/cancel",
            cancel_many::<P>,
            of_lane(Operation::new("cancelJobs", "lanes", "Cancels what hasn't ended, page by page."))
                .json::<BulkInput>(),
        ),
        Served::post(
            "/v1/lanes/{lane}/requeue",
            requeue_many::<P>,
            of_lane(Operation::new(
                "requeueJobs",
                "lanes",
                "Another attempt of what has failed, page by page.",
            ))
            .json::<BulkInput>(),
        ),
        Served::post(
            "/v1/lanes/{lane}/resolve",
            resolve_many::<P>,
            of_lane(Operation::new("resolveJobs", "lanes", "Decides on held jobs, page by page."))
                .json::<BulkResolveInput>(),
        ),
    ]
}

/// A step that gave no answer.
pub(super) fn from_fault(fault: Fault) -> Problem {
    match fault {
        Fault::RetryAfter { .. } => Problem::unavailable(),
        Fault::Poison(why) => Problem::new(Code::BadRow, format!("{why}.")),
    }
}

/// The job isn't what was meant; as it is, without its token.
pub(super) fn moved(why: &str, row: &JobRow) -> Problem {
    Problem::new(Code::Moved, why).with("job_status", row.status.word()).with("attempt", row.attempt)
}

/// What was done.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Done {
    /// What was done.
    #[schemars(schema_with = "words::did")]
    did: Did,
    /// The job.
    key: String,
    /// Where it stands now.
    #[schemars(schema_with = "words::status")]
    status: Status,
    /// Its attempt now.
    attempt: Attempt,
}

fn answer(key: &JobKey, asked: Result<Asked, Fault>) -> Result<Json<Done>, Problem> {
    match asked.map_err(from_fault)? {
        Asked::Done(did, row) => {
            Ok(Json(Done { did, key: row.key.to_string(), status: row.status, attempt: row.attempt }))
        }
        Asked::Refused(why, row) => Err(moved(&format!("Nothing was changed: {why}."), &row)),
        Asked::Missing => Err(Problem::missing(format!("job {key}"))),
    }
}

/// As [`answer`], after the lane was told of work.
async fn answer_and_wake<P: Ports>(
    api: &Api<P>,
    key: &JobKey,
    asked: Result<Asked, Fault>,
) -> Result<Json<Done>, Problem> {
    if let Ok(Asked::Done(Did::Requeued | Did::RejectedAndRequeued, row)) = &asked {
        wake_lane(api.ports(), &row.lane).await;
    }
    answer(key, asked)
}

/// Which attempt is meant.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeantInput {
    /// The attempt at which the job was seen.
    attempt: Attempt,
}

async fn cancel_one<P: Ports>(
    State(api): State<Api<P>>,
    Params((parent, member)): Params<(String, String)>,
    Input(input): Input<MeantInput>,
) -> Result<Json<Done>, Problem> {
    let key = keys::job(&parent, &member)?;
    answer(&key, cancel(api.ports(), &api.config().settings, &key, input.attempt).await)
}

/// Another attempt of which, and why.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequeueInput {
    /// The attempt at which the job was seen.
    attempt: Attempt,
    /// Why, one sentence; 160 bytes are kept.
    #[serde(default)]
    note: Option<String>,
}

async fn requeue_one<P: Ports>(
    State(api): State<Api<P>>,
    Params((parent, member)): Params<(String, String)>,
    Input(input): Input<RequeueInput>,
) -> Result<Json<Done>, Problem> {
    let key = keys::job(&parent, &member)?;
    let asked = requeue(api.ports(), &api.config().settings, &key, input.attempt, input.note).await;
    answer_and_wake(&api, &key, asked).await
}

/// What is so of a held job.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum As {
    /// The provider never accepted it: render it again.
    Lost,
    /// The provider accepted it, as `task`: look what became of it.
    Task,
    /// Nobody will find out, and it isn't to be rendered again.
    GiveUp,
}

/// The decision on a held job.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolveInput {
    /// The attempt at which the job was seen.
    attempt: Attempt,
    /// What is so.
    r#as: As,
    /// The provider's id of the render, with `task`.
    #[serde(default)]
    task: Option<String>,
}

fn resolution(r#as: As, task: Option<String>) -> Result<Resolution, Problem> {
    let bad = |why: String| Problem::new(Code::Unacceptable, why);
    match (r#as, task) {
        (As::Lost, None) => Ok(Resolution::Lost),
        (As::GiveUp, None) => Ok(Resolution::GiveUp),
        (As::Task, Some(task)) => {
            TaskId::new(task).map(Resolution::Task).map_err(|error| bad(format!("{error}.")))
        }
        (As::Task, None) => Err(bad("`task` is missing: the provider's id of the render.".into())),
        (As::Lost | As::GiveUp, Some(_)) => Err(bad("`task` goes with `\"as\": \"task\"` only.".into())),
    }
}

async fn resolve_one<P: Ports>(
    State(api): State<Api<P>>,
    Params((parent, member)): Params<(String, String)>,
    Input(input): Input<ResolveInput>,
) -> Result<Json<Done>, Problem> {
    let key = keys::job(&parent, &member)?;
    let resolution = resolution(input.r#as, input.task)?;
    let asked = resolve(api.ports(), &api.config().settings, &key, input.attempt, &resolution).await;
    answer_and_wake(&api, &key, asked).await
}

/// A verdict.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerdictInput {
    /// It may be published.
    Approve,
    /// It is rendered again.
    Reject,
}

/// QA's verdict on an outcome.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewInput {
    /// The outcome that was judged, as its QA message names it: the job's key, `/` and the attempt.
    outcome: String,
    /// The verdict.
    verdict: VerdictInput,
    /// Why, one sentence, with `reject`.
    #[serde(default)]
    note: Option<String>,
}

/// Reads an outcome's id, which must be one of the job in the address.
fn outcome_of(key: &JobKey, text: &str) -> Result<Reference, Problem> {
    let attempt = text.strip_prefix(&key.to_string()).and_then(|rest| rest.strip_prefix('/'));
    let reference = attempt
        .and_then(|attempt| attempt.parse().ok())
        .map(|attempt| Reference { job: key.clone(), attempt })
        .filter(|reference| reference.to_string() == text);
    reference.ok_or_else(|| {
        Problem::new(Code::Unacceptable, format!("`outcome` isn't one of this job; it looks like {key}/1."))
    })
}

async fn review_one<P: Ports>(
    State(api): State<Api<P>>,
    Params((parent, member)): Params<(String, String)>,
    Input(input): Input<ReviewInput>,
) -> Result<Json<Done>, Problem> {
    let key = keys::job(&parent, &member)?;
    let outcome = outcome_of(&key, &input.outcome)?;
    let verdict = match (input.verdict, input.note) {
        (VerdictInput::Approve, None) => Review::Approve,
        (VerdictInput::Reject, Some(note)) if !note.trim().is_empty() => Review::Reject(note),
        (VerdictInput::Reject, _) => {
            return Err(Problem::new(Code::Unacceptable, "A rejection needs a `note` that says why."));
        }
        (VerdictInput::Approve, Some(_)) => {
            return Err(Problem::new(Code::Unacceptable, "A `note` goes with a rejection only."));
        }
    };
    let asked = review(api.ports(), &api.config().settings, &outcome, verdict).await;
    answer_and_wake(&api, &key, asked).await
}

/// Why a job isn't running.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Explained {
    /// The job.
    key: String,
    /// Where it stands.
    #[schemars(schema_with = "words::status")]
    status: Status,
    /// Its attempt.
    attempt: Attempt,
    /// Why it isn't running, what it waits for, or how it ended.
    sentence: String,
}

async fn explained<P: Ports>(
    State(api): State<Api<P>>,
    Params((parent, member)): Params<(String, String)>,
) -> Result<Json<Explained>, Problem> {
    let key = keys::job(&parent, &member)?;
    let (ports, settings) = (api.ports(), &api.config().settings);
    let view = ports.job(&key).await?.ok_or_else(|| Problem::missing(format!("job {key}")))?;
    let now_ms = ports.now_ms();
    let scene = scene(ports, &view.job, now_ms, settings.reservation_ms).await?;
    let sentence = explain(&view, &scene, now_ms);
    Ok(Json(Explained { key: key.to_string(), status: view.job.status, attempt: view.job.attempt, sentence }))
}

/// Which jobs of a lane, and which page of them.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BulkInput {
    /// Only those whose last failure was of this class.
    error_class: Option<String>,
    /// From the page before; a page may be empty and yet not the last.
    cursor: Option<String>,
    /// Jobs of this page at most.
    #[schemars(range(min = 1, max = MAX_BULK))]
    limit: Option<usize>,
}

/// Which held jobs of a lane, which page of them, and the decision.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkResolveInput {
    /// What is so of each of them: `lost` or `give_up`.
    r#as: As,
    /// Only those whose last failure was of this class.
    #[serde(default)]
    error_class: Option<String>,
    /// From the page before.
    #[serde(default)]
    cursor: Option<String>,
    /// Jobs of this page at most.
    #[serde(default)]
    #[schemars(range(min = 1, max = MAX_BULK))]
    limit: Option<usize>,
}

/// What one job of a page came to.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BulkOne {
    /// The job.
    key: String,
    /// The attempt that was meant.
    attempt: Attempt,
    /// What was done, if it was.
    #[schemars(with = "Option<String>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    did: Option<Did>,
    /// Why nothing was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

/// A page of a request for many jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BulkAnswer {
    /// Job by job.
    results: Vec<BulkOne>,
    /// For the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

async fn many<P: Ports>(
    api: &Api<P>,
    lane: &LaneName,
    what: &Bulk,
    input: BulkInput,
) -> Result<Json<BulkAnswer>, Problem> {
    let bad = |why: String| Problem::new(Code::Unacceptable, why);
    let class: Option<ErrorClass> =
        input.error_class.map(|class| class.parse().map_err(|why| bad(format!("{why}.")))).transpose()?;
    let cursor = input.cursor.map(|cursor| cursor.parse());
    let cursor = cursor.transpose().map_err(|why: &str| bad(format!("`cursor`: {why}.")))?;
    let limit = input.limit.unwrap_or(MAX_BULK);
    if !(1..=MAX_BULK).contains(&limit) {
        return Err(bad(format!("`limit` is {limit}; use 1 to {MAX_BULK}.")));
    }
    let ports = api.ports();
    if ports.lane(lane).await?.is_none() {
        return Err(Problem::missing(format!("lane {lane}")));
    }
    let done = bulk(ports, &api.config().settings, lane, what, class, cursor.as_ref(), limit);
    let done = done.await.map_err(from_fault)?;
    let results = done.results.into_iter().map(|(key, attempt, asked)| {
        let (did, refused) = match asked {
            Ok(Asked::Done(did, _)) => (Some(did), None),
            Ok(Asked::Refused(why, _)) => (None, Some(why)),
            Ok(Asked::Missing) => (None, Some("it isn't there any more".into())),
            Err(fault) => (None, Some(fault.to_string())),
        };
        BulkOne { key: key.to_string(), attempt, did, refused }
    });
    let results = results.collect();
    Ok(Json(BulkAnswer { results, cursor: done.cursor.map(|cursor| cursor.to_string()) }))
}

async fn cancel_many<P: Ports>(
    State(api): State<Api<P>>,
    Params((lane,)): Params<(LaneName,)>,
    Input(input): Input<BulkInput>,
) -> Result<Json<BulkAnswer>, Problem> {
    many(&api, &lane, &Bulk::Cancel, input).await
}

async fn requeue_many<P: Ports>(
    State(api): State<Api<P>>,
    Params((lane,)): Params<(LaneName,)>,
    Input(input): Input<BulkInput>,
) -> Result<Json<BulkAnswer>, Problem> {
    many(&api, &lane, &Bulk::Requeue, input).await
}

async fn resolve_many<P: Ports>(
    State(api): State<Api<P>>,
    Params((lane,)): Params<(LaneName,)>,
    Input(input): Input<BulkResolveInput>,
) -> Result<Json<BulkAnswer>, Problem> {
    let BulkResolveInput { r#as, error_class, cursor, limit } = input;
    let resolution = resolution(r#as, None)?;
    many(&api, &lane, &Bulk::Resolve(resolution), BulkInput { error_class, cursor, limit }).await
}
