//! Taking posts and stories: one object, an array, or one object a line; each judged on its own.

use crate::extract::media_type;
use crate::openapi::Operation;
use crate::problem::{Code, Problem, ProblemBody};
use crate::words;
use axum::Json;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use glassline_protocol::intake::{BadPost, Submitted};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use std::future::Future;

/// Longest body of intake, in bytes. Lambda takes 6 MB with everything around it, and lines travel to it in Base64, a third
/// longer.
pub const MAX_BYTES: usize = 4 << 20;
/// Most jobs that one request may create: more would not be written within the function's time.
pub const MAX_JOBS: usize = 5_000;

/// One object a line.
const LINES: [&str; 3] = ["application/jsonl", "application/x-ndjson", "application/ndjson"];

/// What became of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Taken {
    /// It is new.
    Created,
    /// It was there already, the same.
    Existed,
}

/// What became of a post or a story.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Receipt {
    /// The post's id, or the story's key: `STORY#main#the-lamp`.
    pub id: String,
    /// Whether it is new.
    pub result: Taken,
    /// How many rows of it were written now: the jobs of a new post, those that an interruption had left out of one that
    /// existed, 1 for a new story.
    pub written: usize,
}

/// What became of one item of many: a receipt, or a problem.
#[derive(Serialize, JsonSchema)]
pub struct Item {
    /// Its place in what was sent, from 0.
    pub index: usize,
    /// The status that it alone would have been answered with.
    pub status: u16,
    /// What became of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
    /// Why it wasn't taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<ProblemBody>,
}

/// What became of many.
#[derive(Serialize, JsonSchema)]
pub struct Batch {
    /// How many were taken, or were there already.
    pub taken: usize,
    /// How many were refused.
    pub refused: usize,
    /// Each of them, in the order in which they were sent.
    pub items: Vec<Item>,
}

/// A receipt for one, or what became of many.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
pub enum Answer {
    /// For one object.
    One(Receipt),
    /// For an array, or lines.
    Many(Batch),
}

fn lines(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "description": "One JSON object a line, each as in application/json." })
}

/// What intake of a type says in the document: one, an array, or lines.
#[must_use]
pub fn operation<T: JsonSchema>(operation: Operation) -> Operation {
    let json = |generator: &mut SchemaGenerator| {
        let one = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    };
    LINES
        .iter()
        .fold(operation.body("application/json", json), |operation, media| operation.body(media, lines))
        .answer::<Answer>(
            200,
            "One that was there already; or what became of each of many, refused ones among them.",
        )
        .answer::<Receipt>(201, "It is new.")
        .problem(Code::Conflict)
        .problem(Code::Unacceptable)
}

/// Whether the body is one object.
fn is_one(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with('{')
}

/// A body as text, and whether it holds one object rather than many.
///
/// # Errors
/// It is of a type that isn't taken, or not text, or not one JSON value where it says that it is.
pub fn text<'a>(headers: &HeaderMap, body: &'a Bytes) -> Result<(&'a str, bool), Problem> {
    let media = media_type(headers);
    let is_lines = LINES.contains(&media.as_str());
    if media != "application/json" && !is_lines {
        let what =
            "Send application/json (one object or an array), or one object a line as application/x-ndjson.";
        return Err(Problem::new(Code::BadType, what));
    }
    let text =
        std::str::from_utf8(body).map_err(|_| Problem::new(Code::BadBody, "The body isn't UTF-8 text."))?;
    if !is_lines
        && let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text.trim_start_matches('\u{feff}'))
    {
        let (line, column) = (error.line(), error.column());
        return Err(Problem::new(
            Code::BadBody,
            format!("The body isn't JSON from line {line}, column {column}."),
        ));
    }
    Ok((text, !is_lines && is_one(text)))
}

/// The problem of input that can't be read as a whole.
#[must_use]
pub fn unreadable(bad: &BadPost) -> Problem {
    Problem::new(Code::BadBody, bad.to_string())
}

/// The problem of an item that can't be taken as it is.
#[must_use]
pub fn unacceptable(bad: &BadPost) -> Problem {
    Problem::new(Code::Unacceptable, bad.to_string())
}

/// What was written, as a receipt.
#[must_use]
pub fn receipt(id: String, submitted: Submitted) -> Receipt {
    match submitted {
        Submitted::New(written) => Receipt { id, result: Taken::Created, written },
        Submitted::Already(written) => Receipt { id, result: Taken::Existed, written },
    }
}

fn status(receipt: &Receipt) -> StatusCode {
    match receipt.result {
        Taken::Created => StatusCode::CREATED,
        Taken::Existed => StatusCode::OK,
    }
}

/// Takes items one after the other, and answers for one, or for many.
///
/// # Errors
/// The one item can't be taken.
pub async fn take<T, F: Future<Output = Result<Receipt, Problem>>>(
    items: Vec<Result<T, BadPost>>,
    is_one: bool,
    take: impl Fn(T) -> F,
) -> Result<Response, Problem> {
    let mut done = Vec::with_capacity(items.len());
    for item in items {
        done.push(match item {
            Ok(item) => take(item).await,
            Err(bad) => Err(unacceptable(&bad)),
        });
    }
    if is_one && let Some(one) = done.pop() {
        let receipt = one?;
        return Ok((status(&receipt), Json(receipt)).into_response());
    }
    let taken = done.iter().filter(|one| one.is_ok()).count();
    let refused = done.len() - taken;
    let items = done.into_iter().enumerate().map(|(index, one)| match one {
        Ok(receipt) => {
            Item { index, status: status(&receipt).as_u16(), receipt: Some(receipt), problem: None }
        }
        Err(problem) => Item {
            index,
            status: problem.code.status().as_u16(),
            receipt: None,
            problem: Some(problem.body()),
        },
    });
    Ok(Json(Batch { taken, refused, items: items.collect() }).into_response())
}

/// Refuses to create more jobs than one request's time allows.
///
/// # Errors
/// There are too many.
pub fn bounded(jobs: usize) -> Result<(), Problem> {
    if jobs > MAX_JOBS {
        let what = format!("It would create {jobs} jobs; send at most {MAX_JOBS} at once.");
        return Err(Problem::new(Code::TooLarge, what));
    }
    Ok(())
}

/// The problem of an item whose id is taken by another one: it says which fields differ.
#[must_use]
pub fn conflict(problem: Problem, fields: Vec<String>) -> Problem {
    if fields.is_empty() {
        return problem;
    }
    let detail = format!("{}. What differs: {}.", problem.detail, fields.join(", "));
    Problem { detail, ..problem }.with("fields", fields)
}

/// The schema of params, as passed to a provider.
pub fn params(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object" })
}

/// A post.
#[derive(JsonSchema)]
#[schemars(rename = "NewPost", deny_unknown_fields)]
#[allow(dead_code, reason = "only its schema is used")]
pub struct NewPost {
    /// Its id, chosen by the producer; the same id again is the same post.
    #[schemars(schema_with = "words::id")]
    id: String,
    /// The lane that renders it.
    #[schemars(schema_with = "words::id")]
    lane: String,
    /// Higher first.
    #[serde(default = "default_priority")]
    #[schemars(range(min = 0, max = 1000))]
    priority: u32,
    /// Its shots, in order.
    #[schemars(length(min = 1, max = 1000))]
    shots: Vec<NewShot>,
}

/// A shot of a post.
#[derive(JsonSchema)]
#[schemars(rename = "NewShot", deny_unknown_fields)]
#[allow(dead_code, reason = "only its schema is used")]
pub struct NewShot {
    /// Its id within the post.
    #[schemars(schema_with = "words::id")]
    id: String,
    /// What to draw, at most 32,768 bytes, not all blank.
    #[schemars(length(min = 1, max = 32768), regex(pattern = r"\S"))]
    prompt: String,
    /// The provider's own parameters, passed through, at most 32,768 bytes of JSON.
    #[serde(default)]
    #[schemars(schema_with = "params")]
    params: Option<serde_json::Value>,
    /// `image` if absent.
    #[serde(default)]
    #[schemars(schema_with = "media")]
    media: Option<String>,
}

fn media(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["image", "video"], "default": "image" })
}

fn default_priority() -> u32 {
    glassline_protocol::intake::DEFAULT_PRIORITY
}

/// A story: exactly one of `frames` and `premise`.
#[derive(JsonSchema)]
#[schemars(rename = "NewStory", deny_unknown_fields)]
#[allow(dead_code, reason = "only its schema is used")]
pub struct NewStory {
    /// Its series.
    #[schemars(schema_with = "words::id")]
    series: String,
    /// Its key within the series; the same key again is the same story.
    #[schemars(schema_with = "words::id")]
    key: String,
    /// The prompts of its four frames, in order, each at most 32,768 bytes, not blank.
    #[serde(default)]
    #[schemars(length(equal = 4))]
    frames: Option<Vec<String>>,
    /// Or a premise, of which the series' template makes four.
    #[serde(default)]
    premise: Option<String>,
    /// Its own lane; the series' if absent.
    #[serde(default)]
    lane: Option<String>,
    /// Its own priority; the series' if absent.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1000))]
    priority: Option<u32>,
    /// A number kept for people; the draw ignores it.
    #[serde(default)]
    score: Option<f64>,
}
