//! Posts: taken, listed by month, and one with its shots.

use super::Served;
use crate::extract::{Params, Raw, Search};
use crate::intake::{self, NewPost, Receipt};
use crate::openapi::Operation;
use crate::paging::{self, cursor, cursor_schema, limit_schema};
use crate::problem::{Code, Problem};
use crate::views::{Job, Post, PostLine, Posts};
use crate::{Api, Ports, words};
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::stream::{self, StreamExt as _};
use glassline_protocol::ids::{Id, ParentKey};
use glassline_protocol::intake::{SubmitError, month_of, parse_posts, post_differences, submit_post};
use glassline_protocol::row::LaneRow;
use serde::Deserialize;
use serde_json::json;

/// Posts of a page that are read at the same time.
const CONCURRENCY: usize = 8;

/// What is served.
#[must_use]
pub fn routes<P: Ports>() -> Vec<Served<P>> {
    let month = json!({ "type": "string", "pattern": "^[0-9]{4}-(0[1-9]|1[0-2])$" });
    vec![
        Served::get(
            "/v1/posts",
            list::<P>,
            Operation::new("listPosts", "posts", "The posts of a month, newest first.")
                .query("month", "The month, UTC, such as 2026-11; the current one if absent.", month)
                .query("cursor", "From the page before.", cursor_schema())
                .query("limit", "Posts on the page.", limit_schema())
                .answer::<Posts>(200, "A page of posts."),
        ),
        Served::post(
            "/v1/posts",
            submit::<P>,
            intake::operation::<NewPost>(Operation::new(
                "submitPosts",
                "posts",
                "Takes posts: one, an array, or one a line. The same post again changes nothing.",
            )),
        )
        .taking(intake::MAX_BYTES),
        Served::get(
            "/v1/posts/{id}",
            one::<P>,
            Operation::new("getPost", "posts", "A post with its shots and their history.")
                .path("id", "The post's id.", words::name())
                .answer::<Post>(200, "The post.")
                .problem(Code::NotFound),
        ),
    ]
}

/// The query of the list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    month: Option<String>,
    cursor: Option<String>,
    limit: Option<usize>,
}

fn is_month(text: &str) -> bool {
    let (year, month) = text.split_at_checked(4).unwrap_or_default();
    let month = month.strip_prefix('-').filter(|digits| digits.len() == 2);
    year.bytes().all(|byte| byte.is_ascii_digit())
        && month.and_then(|digits| digits.parse().ok()).is_some_and(|month: u8| (1..=12).contains(&month))
}

async fn list<P: Ports>(
    State(api): State<Api<P>>,
    Search(query): Search<Listed>,
) -> Result<Json<Posts>, Problem> {
    let ports = api.ports();
    let month = query.month.unwrap_or_else(|| month_of(ports.now_ms()));
    if !is_month(&month) {
        return Err(Problem::new(Code::BadParameter, "`month` isn't a month; write it as 2026-11."));
    }
    let (after, limit) = (paging::after(query.cursor.as_deref())?, paging::limit(query.limit)?);
    let page = ports.posts(&month, after.as_ref(), limit).await?;
    let views = stream::iter(page.items)
        .map(|key| {
            let api = api.clone();
            async move { api.ports().parent(&key).await }
        })
        .buffered(CONCURRENCY)
        .collect::<Vec<_>>()
        .await;
    let mut posts = Vec::new();
    for view in views {
        if let Some(view) = view?
            && let Some(head) = &view.head
        {
            posts.push(PostLine::of(head, &view));
        }
    }
    Ok(Json(Posts { month, posts, cursor: page.next.map(cursor) }))
}

async fn submit<P: Ports>(
    State(api): State<Api<P>>,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<Response, Problem> {
    let (text, is_one) = intake::text(&headers, &body)?;
    let posts = parse_posts(text).map_err(|bad| intake::unreadable(&bad))?;
    intake::bounded(posts.iter().flatten().map(|post| post.shots.len()).sum())?;
    let lanes = api.ports().lanes().await?;
    intake::take(posts, is_one, |post| submit_one(&api, &lanes, post)).await
}

async fn submit_one<P: Ports>(
    api: &Api<P>,
    lanes: &[LaneRow],
    post: glassline_protocol::intake::Post,
) -> Result<Receipt, Problem> {
    match submit_post(api.ports(), &post, lanes).await {
        Ok(submitted) => Ok(intake::receipt(post.id.to_string(), submitted)),
        Err(error @ SubmitError::Conflict(_)) => {
            Err(intake::conflict(error.into(), post_differences(api.ports(), &post).await?))
        }
        Err(error) => Err(error.into()),
    }
}

async fn one<P: Ports>(
    State(api): State<Api<P>>,
    Params((id,)): Params<(Id,)>,
) -> Result<Json<Post>, Problem> {
    let view = api.ports().parent(&ParentKey::Post(id.clone())).await?;
    let missing = || Problem::missing(format!("post {id}"));
    let view = view.ok_or_else(missing)?;
    let head = view.head.as_ref().ok_or_else(missing)?;
    Ok(Json(Post { line: PostLine::of(head, &view), shots: Job::all(&view) }))
}
