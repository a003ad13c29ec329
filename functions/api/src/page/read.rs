//! The pages.

use super::html::{self, Place};
use super::load;
use super::respond::{Shown, Trouble, Visit, answer};
use super::view::{self, summary};
use crate::{Api, Ports, keys};
use axum::extract::{Path, Query, State};
use axum::response::Response;
use glassline_protocol::ids::Id;
use glassline_protocol::intake::month_before;
use glassline_protocol::row::EpisodeKey;
use serde::Deserialize;

/// What addresses of lists carry. Other parts are left unread.
#[derive(Deserialize)]
pub(super) struct Part {
    month: Option<String>,
    before: Option<u32>,
}

fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// `/`
pub(super) async fn registry<P: Ports>(
    State(api): State<Api<P>>,
    visit: Visit,
    Query(part): Query<Part>,
) -> Response {
    let month = part.month.filter(|month| month_before(month).is_some());
    let shown = async {
        let posts = load::posts(api.ports(), month.as_deref(), visit.now_ms).await?;
        // Series belong to the newest posts; who reads older ones has seen them.
        let series =
            if month.is_none() { load::all_series(api.ports(), visit.now_ms).await? } else { Vec::new() };
        Ok::<_, Trouble>((series, posts))
    };
    let (series, (posts, older)) = match shown.await {
        Ok(shown) => shown,
        Err(trouble) => return trouble.answer(&visit),
    };
    let frames = series.iter().flat_map(|series| &series.latest).flat_map(|episode| &episode.tiles);
    let all = summary(frames.chain(posts.iter().flat_map(|post| &post.tiles)));
    let shown = Shown { title: "Registry", place: Place::Registry, summary: &format!("Registry: {all}.") };
    answer(&visit, &shown, |chrome| html::registry(&series, &posts, older.as_deref(), chrome))
}

/// `/posts/{id}`
pub(super) async fn post<P: Ports>(
    State(api): State<Api<P>>,
    visit: Visit,
    Path(id): Path<String>,
) -> Response {
    let found = match Id::new(id.as_str()) {
        Ok(id) => load::post(api.ports(), &id, visit.now_ms).await,
        Err(_) => Err(Trouble::Missing("such post".into())),
    };
    match found {
        Ok(post) => {
            let title = format!("Post {}", post.id);
            let summary = format!("{title}: {}.", summary(&post.tiles));
            let shown = Shown { title: &title, place: Place::Registry, summary: &summary };
            answer(&visit, &shown, |chrome| html::post(&post, chrome))
        }
        Err(trouble) => trouble.answer(&visit),
    }
}

/// `/series/{series}`
pub(super) async fn series<P: Ports>(
    State(api): State<Api<P>>,
    visit: Visit,
    Path(name): Path<String>,
    Query(part): Query<Part>,
) -> Response {
    let found = match Id::new(name.as_str()) {
        Ok(name) => load::series(api.ports(), &name, part.before, visit.now_ms).await,
        Err(_) => Err(Trouble::Missing("such series".into())),
    };
    match found {
        Ok(series) => {
            let title = format!("Series {}", series.name);
            let frames = series.latest.iter().flat_map(|episode| &episode.tiles);
            let summary = format!("{title}: {}.", summary(frames));
            let shown = Shown { title: &title, place: Place::Registry, summary: &summary };
            answer(&visit, &shown, |chrome| html::series(&series, chrome))
        }
        Err(trouble) => trouble.answer(&visit),
    }
}

/// `/series/{series}/episodes/{number}`
pub(super) async fn episode<P: Ports>(
    State(api): State<Api<P>>,
    visit: Visit,
    Path((series, number)): Path<(String, String)>,
) -> Response {
    let key = Id::new(series).ok().zip(number.parse().ok().filter(|number| *number > 0));
    let found = match key {
        Some((series, number)) => {
            load::episode(api.ports(), &EpisodeKey { series, number }, visit.now_ms).await
        }
        None => Err(Trouble::Missing("such episode".into())),
    };
    match found {
        Ok(episode) => {
            let title = format!("{} S{} E{}", episode.key.series, episode.season, episode.episode);
            let summary = format!("{title}: {}.", summary(&episode.tiles));
            let shown = Shown { title: &title, place: Place::Registry, summary: &summary };
            answer(&visit, &shown, |chrome| html::episode(&episode, chrome))
        }
        Err(trouble) => trouble.answer(&visit),
    }
}

/// `/lanes`
pub(super) async fn lanes<P: Ports>(State(api): State<Api<P>>, visit: Visit) -> Response {
    let lanes = match load::lanes(api.ports(), visit.now_ms).await {
        Ok(lanes) => lanes,
        Err(unread) => return Trouble::from(unread).answer(&visit),
    };
    let words: Vec<String> = lanes
        .iter()
        .map(|lane| {
            let paused = if lane.pause.is_some() { ", paused" } else { "" };
            format!(
                "{}: {} of {} in use, {} ready{paused}",
                lane.name, lane.in_use, lane.capacity, lane.ready
            )
        })
        .collect();
    let summary = format!("{}.", words.join("; "));
    let shown = Shown { title: "Lanes", place: Place::Lanes, summary: &summary };
    answer(&visit, &shown, |chrome| html::lanes(&lanes, chrome))
}

/// `/held`
pub(super) async fn held<P: Ports>(State(api): State<Api<P>>, visit: Visit) -> Response {
    let (jobs, more) = match load::held(api.ports(), visit.now_ms).await {
        Ok(held) => held,
        Err(unread) => return Trouble::from(unread).answer(&visit),
    };
    let summary = format!("{}.", plural(jobs.len(), "job is held", "jobs are held"));
    let shown = Shown { title: "Held jobs", place: Place::Held, summary: &summary };
    answer(&visit, &shown, |chrome| html::held(&jobs, more, chrome))
}

/// `/jobs/{parent}/{member}`
pub(super) async fn job<P: Ports>(
    State(api): State<Api<P>>,
    visit: Visit,
    Path((parent, member)): Path<(String, String)>,
) -> Response {
    let found = match keys::job(&parent, &member) {
        Ok(key) => load::job(api.ports(), &key, visit.now_ms).await,
        Err(_) => Err(Trouble::Missing("such job".into())),
    };
    match found {
        Ok(job) => {
            let tile = &job.tile;
            let title = format!("{} of {}", tile.name(), view::parent_name(&tile.job.parent));
            let summary = format!("{title}: {}, attempt {}.", tile.label.to_lowercase(), tile.attempt);
            let shown = Shown { title: &title, place: Place::Registry, summary: &summary };
            answer(&visit, &shown, |chrome| html::job(&job, chrome))
        }
        Err(trouble) => trouble.answer(&visit),
    }
}
