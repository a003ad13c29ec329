//! Lanes: how they stand, what is held in them, and their settings.

use super::Served;
use crate::extract::{Json as Input, Params, Search};
use crate::openapi::Operation;
use crate::paging::{Paging, cursor, cursor_schema, limit_schema};
use crate::problem::{Code, Problem};
use crate::views::{Held, Job, Lane, Lanes};
use crate::{Api, Ports, words};
use axum::Json;
use axum::extract::State;
use axum::http::header::{ETAG, IF_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{self, StreamExt as _};
use glassline_protocol::ids::LaneName;
use glassline_protocol::intake::{
    CantSet, LaneChange, MAX_BOOST_MS, MAX_CAPACITY, MAX_MICROS, MAX_STARTS_PER_MINUTE, set_lane,
    settings_tag,
};
use glassline_protocol::registry::lane_view;
use glassline_protocol::row::LaneRow;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::json;

/// Held jobs of a page that are read at the same time.
const CONCURRENCY: usize = 8;

/// What is served.
#[must_use]
pub fn routes<P: Ports>() -> Vec<Served<P>> {
    vec![
        Served::get(
            "/v1/lanes",
            list::<P>,
            Operation::new("listLanes", "lanes", "All lanes, as they stand.")
                .answer::<Lanes>(200, "The lanes."),
        ),
        Served::get(
            "/v1/lanes/{lane}",
            one::<P>,
            Operation::new("getLane", "lanes", "A lane, as it stands.")
                .path("lane", "Its name.", words::name())
                .answer::<Lane>(200, "The lane.")
                .answer_header(200, "ETag", "Its settings, for If-Match of a change; not what is counted in it.")
                .problem(Code::NotFound),
        ),
        Served::put(
            "/v1/lanes/{lane}",
            put::<P>,
            Operation::new("putLane", "lanes", "Sets a lane; creates it, with its slots, when it isn't there.")
                .text(
                    "What is left out stays as it is; null removes a limit. A new lane needs a capacity. Pausing by hand \
                     keeps the reason of a pause by hand that is there; `paused: false` ends every pause.",
                )
                .path("lane", "Its name.", words::name())
                .header("If-Match", "Only while its settings are those of this ETag.", json!({ "type": "string" }))
                .json::<LaneInput>()
                .answer::<Lane>(200, "The lane as it is now.")
                .answer_header(200, "ETag", "Its settings, for If-Match.")
                .answer::<Lane>(201, "It is new.")
                .answer_header(201, "ETag", "Its settings, for If-Match.")
                .problem(Code::Unacceptable)
                .problem(Code::Changed),
        ),
        Served::get(
            "/v1/lanes/{lane}/held",
            held::<P>,
            Operation::new("listHeld", "lanes", "The held jobs of a lane, the next to be looked at first.")
                .path("lane", "Its name.", words::name())
                .query("cursor", "From the page before.", cursor_schema())
                .query("limit", "Jobs on the page.", limit_schema())
                .answer::<Held>(200, "A page of held jobs.")
                .problem(Code::NotFound),
        ),
    ]
}

async fn list<P: Ports>(State(api): State<Api<P>>) -> Result<Json<Lanes>, Problem> {
    let ports = api.ports();
    let mut lanes = Vec::new();
    for row in ports.lanes().await? {
        lanes.push(Lane::of(&lane_view(ports, row).await?, ports.now_ms()));
    }
    Ok(Json(Lanes { lanes }))
}

async fn one<P: Ports>(
    State(api): State<Api<P>>,
    Params((lane,)): Params<(LaneName,)>,
) -> Result<Response, Problem> {
    let row = api.ports().lane(&lane).await?.ok_or_else(|| Problem::missing(format!("lane {lane}")))?;
    shown(&api, row).await
}

/// A lane as it stands, with the tag of its settings.
async fn shown<P: Ports>(api: &Api<P>, row: LaneRow) -> Result<Response, Problem> {
    let tag = format!("\"{}\"", settings_tag(&row));
    let view = lane_view(api.ports(), row).await?;
    Ok(([(ETAG, tag)], Json(Lane::of(&view, api.ports().now_ms()))).into_response())
}

/// What is to change of a lane. What is left out stays as it is; null removes a limit.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LaneInput {
    /// Jobs at once.
    #[schemars(range(min = 1, max = MAX_CAPACITY))]
    #[schemars(with = "u32")]
    capacity: Option<u32>,
    /// Starts a minute; null for no limit.
    #[schemars(range(min = 1, max = MAX_STARTS_PER_MINUTE))]
    #[schemars(with = "Option<u32>")]
    #[serde(deserialize_with = "given")]
    starts_per_minute: Option<Option<u32>>,
    /// Price of a render in millionths; null when it isn't to be tracked.
    #[schemars(range(min = 0, max = MAX_MICROS))]
    #[schemars(with = "Option<u64>")]
    #[serde(deserialize_with = "given")]
    price_micros: Option<Option<u64>>,
    /// Most that is spent on a UTC day, in millionths; null for no limit.
    #[schemars(range(min = 0, max = MAX_MICROS))]
    #[schemars(with = "Option<u64>")]
    #[serde(deserialize_with = "given")]
    budget_micros_per_day: Option<Option<u64>>,
    /// Aging, in milliseconds per step of priority, for the jobs that come from now on; null for none.
    #[schemars(range(min = 1, max = MAX_BOOST_MS))]
    #[schemars(with = "Option<u64>")]
    #[serde(deserialize_with = "given")]
    boost_ms: Option<Option<u64>>,
    /// Whether an outside dispatcher makes its claims; our own then starts nothing in it.
    #[schemars(with = "bool")]
    outside: Option<bool>,
    /// Paused until resumed; false ends every pause.
    #[schemars(with = "bool")]
    paused: Option<bool>,
    /// Why, one sentence; 160 bytes are kept.
    #[schemars(with = "String")]
    pause_reason: Option<String>,
}

/// A field that is there, be it null.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(value: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(value).map(Some)
}

impl From<LaneInput> for LaneChange {
    fn from(input: LaneInput) -> Self {
        Self {
            capacity: input.capacity,
            starts_per_minute: input.starts_per_minute,
            price_micros: input.price_micros,
            budget_micros_per_day: input.budget_micros_per_day,
            boost_ms: input.boost_ms,
            outside: input.outside,
            paused: input.paused,
            pause_reason: input.pause_reason,
        }
    }
}

impl From<CantSet> for Problem {
    fn from(error: CantSet) -> Self {
        let code = match error {
            CantSet::NoCapacity(_) | CantSet::OutOfRange { .. } => Code::Unacceptable,
            CantSet::Changed(_) => Code::Changed,
            CantSet::Unavailable => Code::Unavailable,
            CantSet::Unread(unread) => return unread.into(),
        };
        Self::new(code, format!("{error}."))
    }
}

/// The tags of `If-Match`; `None` when any will do.
fn expected(headers: &HeaderMap) -> Option<Vec<String>> {
    let values: Vec<&str> =
        headers.get_all(IF_MATCH).iter().filter_map(|value| value.to_str().ok()).collect();
    if values.is_empty() {
        return None;
    }
    let tags = values.iter().flat_map(|value| value.split(','));
    Some(tags.map(|tag| tag.trim().trim_matches('"').to_owned()).collect())
}

async fn put<P: Ports>(
    State(api): State<Api<P>>,
    Params((lane,)): Params<(LaneName,)>,
    headers: HeaderMap,
    Input(input): Input<LaneInput>,
) -> Result<Response, Problem> {
    let set = set_lane(api.ports(), &lane, &input.into(), expected(&headers).as_deref()).await?;
    let status = if set.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, shown(&api, set.row).await?).into_response())
}

async fn held<P: Ports>(
    State(api): State<Api<P>>,
    Params((lane,)): Params<(LaneName,)>,
    Search(paging): Search<Paging>,
) -> Result<Json<Held>, Problem> {
    let (after, limit) = (paging.after()?, paging.limit()?);
    if api.ports().lane(&lane).await?.is_none() {
        return Err(Problem::missing(format!("lane {lane}")));
    }
    let page = api.ports().held_jobs(&lane, after.as_ref(), limit).await?;
    let views = stream::iter(page.items)
        .map(|key| {
            let api = api.clone();
            async move { api.ports().history(&key).await }
        })
        .buffered(CONCURRENCY)
        .collect::<Vec<_>>()
        .await;
    let mut jobs = Vec::new();
    for view in views {
        jobs.extend(view?.as_ref().map(Job::all).unwrap_or_default());
    }
    Ok(Json(Held { jobs, cursor: page.next.map(cursor) }))
}
