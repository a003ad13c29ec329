//! Reading what the pages show.

use super::respond::Trouble;
use super::view::{EpisodeView, HeldJob, JobPage, LaneCard, PostView, Prompts, SeriesView};
use crate::Ports;
use futures_util::future::try_join_all;
use glassline_protocol::ids::{Id, JobKey, Ms, ParentKey};
use glassline_protocol::intake::{month_before, month_of};
use glassline_protocol::ports::Read;
use glassline_protocol::registry::{Line, ParentView, lane_view};
use glassline_protocol::row::{EpisodeKey, JobRow, SeriesKey, SeriesRow};

/// Posts on the first page.
const POSTS: usize = 12;
/// Episodes of each series on the first page.
const LATEST: u32 = 2;
/// Episodes on a series' page.
const EPISODES: u32 = 10;
/// Series on the first page.
const SERIES: usize = 20;
/// Stories that are counted.
const STORIES: usize = 1_000;
/// Held jobs that are shown of each lane.
const HELD: usize = 50;

async fn prompts<P: Ports>(ports: &P, jobs: &[JobRow]) -> Read<Prompts> {
    let keys: Vec<JobKey> = jobs.iter().map(|job| job.key.clone()).collect();
    let specs = try_join_all(keys.chunks(100).map(|keys| ports.specs(keys))).await?;
    Ok(specs.into_iter().flatten().map(|spec| (spec.key.0, spec.prompt)).collect())
}

fn post_view(key: &ParentKey, view: &ParentView, prompts: Prompts, now_ms: Ms) -> Option<PostView> {
    let ParentKey::Post(id) = key else { return None };
    Some(PostView::new(id.clone(), view.head.as_ref()?, &view.jobs, &view.outcomes, prompts, now_ms))
}

/// The first page's posts: newest first, and the month that comes before them.
pub(super) async fn posts<P: Ports>(
    ports: &P,
    month: Option<&str>,
    now_ms: Ms,
) -> Read<(Vec<PostView>, Option<String>)> {
    let mut month = month.map_or_else(|| month_of(now_ms), str::to_owned);
    let mut keys = ports.posts(&month, None, POSTS).await?.items;
    if keys.len() < POSTS
        && let Some(before) = month_before(&month)
    {
        keys.extend(ports.posts(&before, None, POSTS - keys.len()).await?.items);
        month = before;
    }
    let views = try_join_all(keys.iter().map(|key| ports.parent(key))).await?;
    let posts = keys
        .iter()
        .zip(&views)
        .filter_map(|(key, view)| post_view(key, view.as_ref()?, Prompts::new(), now_ms));
    Ok((posts.collect(), month_before(&month)))
}

/// Some episodes of a series, newest first, those with a number below `before`.
async fn episodes<P: Ports>(
    ports: &P,
    row: &SeriesRow,
    before: u32,
    limit: u32,
    now_ms: Ms,
) -> Read<Vec<EpisodeView>> {
    let before = before.min(row.next);
    let numbers = (before.saturating_sub(limit).max(1)..before).rev();
    let keys: Vec<ParentKey> =
        numbers.map(|number| EpisodeKey { series: row.key.0.clone(), number }.parent()).collect();
    let views = try_join_all(keys.iter().map(|key| ports.parent(key))).await?;
    let shown = views.into_iter().flatten().filter_map(|view| {
        let head = view.episode.as_ref()?;
        Some(EpisodeView::new(head, &view.jobs, &view.outcomes, Prompts::new(), now_ms))
    });
    Ok(shown.collect())
}

/// All series, each with its latest episodes; those with the newest first.
pub(super) async fn all_series<P: Ports>(ports: &P, now_ms: Ms) -> Read<Vec<SeriesView>> {
    let keys: Vec<SeriesKey> = ports.all_series().await?.into_iter().take(SERIES).collect();
    let one = async |key: &SeriesKey| -> Read<Option<SeriesView>> {
        let Some(row) = ports.series(key).await? else { return Ok(None) };
        let latest = episodes(ports, &row, u32::MAX, LATEST, now_ms).await?;
        Ok(Some(SeriesView::new(&row, None, latest)))
    };
    let mut all = Vec::new();
    for key in &keys {
        all.extend(one(key).await?);
    }
    all.sort_by_key(|series| std::cmp::Reverse(series.latest.first().map(|episode| episode.created_ms)));
    Ok(all)
}

/// A series with its episodes below `before`.
pub(super) async fn series<P: Ports>(
    ports: &P,
    name: &Id,
    before: Option<u32>,
    now_ms: Ms,
) -> Result<SeriesView, Trouble> {
    let key = SeriesKey(name.clone());
    let row = ports.series(&key).await?.ok_or_else(|| Trouble::Missing(format!("series {name}")))?;
    let latest = episodes(ports, &row, before.unwrap_or(u32::MAX), EPISODES, now_ms).await?;
    let stories = ports.count(&Line::Stories(key), STORIES).await?;
    Ok(SeriesView::new(&row, Some(stories), latest))
}

/// A post with its prompts.
pub(super) async fn post<P: Ports>(ports: &P, id: &Id, now_ms: Ms) -> Result<PostView, Trouble> {
    let missing = || Trouble::Missing(format!("post {id}"));
    let key = ParentKey::Post(id.clone());
    let view = ports.parent(&key).await?.ok_or_else(missing)?;
    let prompts = prompts(ports, &view.jobs).await?;
    post_view(&key, &view, prompts, now_ms).ok_or_else(missing)
}

/// An episode with its prompts.
pub(super) async fn episode<P: Ports>(
    ports: &P,
    key: &EpisodeKey,
    now_ms: Ms,
) -> Result<EpisodeView, Trouble> {
    let missing = || Trouble::Missing(format!("episode {} of series {}", key.number, key.series));
    let view = ports.parent(&key.parent()).await?.ok_or_else(missing)?;
    let prompts = prompts(ports, &view.jobs).await?;
    let head = view.episode.as_ref().ok_or_else(missing)?;
    Ok(EpisodeView::new(head, &view.jobs, &view.outcomes, prompts, now_ms))
}

/// A job with its history.
pub(super) async fn job<P: Ports>(ports: &P, key: &JobKey, now_ms: Ms) -> Result<JobPage, Trouble> {
    let missing = || Trouble::Missing(format!("job {key}"));
    let view = ports.parent(&key.parent).await?.ok_or_else(missing)?;
    let job = view.jobs.iter().find(|job| job.key == *key).ok_or_else(missing)?;
    let spec = ports.specs(std::slice::from_ref(key)).await?.pop().map(|spec| (spec.prompt, spec.params));
    Ok(JobPage::new(job, &view.outcomes, &view.orphans, spec, now_ms))
}

/// All lanes as they stand, by name.
pub(super) async fn lanes<P: Ports>(ports: &P, now_ms: Ms) -> Read<Vec<LaneCard>> {
    let rows = ports.lanes().await?;
    let views = try_join_all(rows.into_iter().map(|row| lane_view(ports, row))).await?;
    Ok(views.iter().map(|view| LaneCard::new(view, now_ms)).collect())
}

/// The held jobs of all lanes, and whether there are more.
pub(super) async fn held<P: Ports>(ports: &P, now_ms: Ms) -> Read<(Vec<HeldJob>, bool)> {
    let lanes = ports.lanes().await?;
    let (mut jobs, mut more) = (Vec::new(), false);
    for lane in &lanes {
        let page = ports.held_jobs(&lane.key, None, HELD).await?;
        more |= page.next.is_some();
        jobs.extend(ports.jobs(&page.items).await?);
    }
    // The index may lag behind: what is no longer held isn't shown.
    jobs.retain(|job| job.status == glassline_protocol::row::Status::Held);
    jobs.sort_by_key(|job| job.started_ms);
    Ok((jobs.iter().map(|job| HeldJob::new(job, now_ms)).collect(), more))
}
