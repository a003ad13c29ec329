//! Series and their episodes.

use super::Served;
use crate::extract::{Params, Search};
use crate::openapi::Operation;
use crate::paging::{Paging, cursor_schema, limit_schema};
use crate::problem::{Code, Problem};
use crate::views::{AllSeries, Episode, EpisodeLine, Job, Series, SeriesLine};
use crate::{Api, Ports, words};
use axum::Json;
use axum::extract::State;
use glassline_protocol::ids::{Id, ParentKey};
use glassline_protocol::registry::{COUNT_LIMIT, Line};
use glassline_protocol::row::{SeriesKey, SeriesRow};
use serde_json::json;

/// What is served.
#[must_use]
pub fn routes<P: Ports>() -> Vec<Served<P>> {
    vec![
        Served::get(
            "/v1/series",
            list::<P>,
            Operation::new("listSeries", "series", "All series.").answer::<AllSeries>(200, "The series."),
        ),
        Served::get(
            "/v1/series/{series}",
            one::<P>,
            Operation::new("getSeries", "series", "A series with its episodes, newest first.")
                .path("series", "Its name.", words::name())
                .query("cursor", "From the page before.", cursor_schema())
                .query("limit", "Episodes on the page.", limit_schema())
                .answer::<Series>(200, "The series.")
                .problem(Code::NotFound),
        ),
        Served::get(
            "/v1/series/{series}/episodes/{number}",
            episode::<P>,
            Operation::new("getEpisode", "series", "An episode with its four frames and their history.")
                .path("series", "Its series.", words::name())
                .path(
                    "number",
                    "Its number, from 1.",
                    json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX }),
                )
                .answer::<Episode>(200, "The episode.")
                .problem(Code::NotFound),
        ),
    ]
}

async fn line<P: Ports>(api: &Api<P>, row: &SeriesRow) -> Result<SeriesLine, Problem> {
    let left = api.ports().count(&Line::Stories(row.key.clone()), COUNT_LIMIT).await?;
    Ok(SeriesLine::of(row, left))
}

async fn list<P: Ports>(State(api): State<Api<P>>) -> Result<Json<AllSeries>, Problem> {
    let mut series = Vec::new();
    for key in api.ports().all_series().await? {
        if let Some(row) = api.ports().series(&key).await? {
            series.push(line(&api, &row).await?);
        }
    }
    Ok(Json(AllSeries { series }))
}

async fn one<P: Ports>(
    State(api): State<Api<P>>,
    Params((series,)): Params<(Id,)>,
    Search(paging): Search<Paging>,
) -> Result<Json<Series>, Problem> {
    let (after, limit) = (paging.after::<u32>()?, paging.limit()?);
    let row = api.ports().series(&SeriesKey(series.clone())).await?;
    let row = row.ok_or_else(|| Problem::missing(format!("series {series}")))?;
    // Numbers are dense, so that a page needs no index: the numbers below the cursor's.
    let before = match after {
        Some(number) => row.next.min(number),
        None => row.next,
    };
    let first = before.saturating_sub(u32::try_from(limit).unwrap_or(u32::MAX)).max(1);
    let mut page = Vec::new();
    for number in (first..before).rev() {
        let parent = ParentKey::Episode { series: series.clone(), number };
        if let Some(view) = api.ports().parent(&parent).await?
            && let Some(head) = &view.episode
        {
            page.push(EpisodeLine::of(head, &view));
        }
    }
    let cursor = (first > 1).then(|| crate::paging::cursor(first));
    Ok(Json(Series { line: line(&api, &row).await?, page, cursor }))
}

async fn episode<P: Ports>(
    State(api): State<Api<P>>,
    Params((series, number)): Params<(Id, u32)>,
) -> Result<Json<Episode>, Problem> {
    let missing = || Problem::missing(format!("episode {number} of series {series}"));
    let parent = ParentKey::Episode { series: series.clone(), number };
    let view = api.ports().parent(&parent).await?.ok_or_else(missing)?;
    let head = view.episode.as_ref().ok_or_else(missing)?;
    Ok(Json(Episode { line: EpisodeLine::of(head, &view), frames: Job::all(&view) }))
}
