//! `series`, `episodes` and `reopen`; an episode as `show` draws it is in `look`.

use crate::args::{Options, SeriesCommand};
use crate::connect::{Connection, connect};
use crate::failure::Failure;
use crate::look::waits_for;
use crate::output::{self, table, time};
use glassline_protocol::ids::{Id, LaneName, ParentKey};
use glassline_protocol::intake::{NewSeries, create_series, wake_series};
use glassline_protocol::ports::{Local as _, Store as _};
use glassline_protocol::registry::{COUNT_LIMIT, Line, ParentView, Registry as _};
use glassline_protocol::row::{EpisodeKey, EpisodeRow, SeriesKey, SeriesRow, season_and_episode};
use glassline_protocol::steps::reopen;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

/// An episode's title line.
pub(crate) fn title(head: &EpisodeRow) -> String {
    let (season, episode) = season_and_episode(head.key.number);
    let reason = head.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!(
        "{}  season {season}, episode {episode}  {}{reason}\nmade of {}, opened {}",
        head.key,
        head.status,
        head.story,
        time(head.created_ms)
    )
}

fn read_template(file: &Path) -> Result<[String; 4], Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::new(format!("{} can't be read: {error}", file.display())))?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::new(format!("{} isn't a JSON array of four prompts: {error}", file.display()))
    })
}

/// The first setting that a series has otherwise than wanted, as it is.
fn otherwise(wanted: &NewSeries, row: &SeriesRow) -> Option<String> {
    let template = wanted.template.as_ref().and_then(|prompts| serde_json::to_string(prompts).ok());
    if row.lane != wanted.lane {
        Some(format!("the lane {}", row.lane))
    } else if row.priority != wanted.priority {
        Some(format!("the priority {}", row.priority))
    } else if row.open_limit != wanted.open_limit {
        Some(format!("at most {} open episodes", row.open_limit))
    } else {
        (row.template != template).then(|| "another template".into())
    }
}

async fn add(options: &Options, command: SeriesCommand) -> Result<ExitCode, Failure> {
    let SeriesCommand::Add { name, lane, priority, open, template } = command;
    let series = NewSeries {
        name: Id::new(name)?,
        lane: LaneName::new(lane)?,
        priority,
        open_limit: open,
        template: template.as_deref().map(read_template).transpose()?,
    };
    let name = series.name.clone();
    let connection = connect(options).await?;
    let wanted = series.clone();
    create_series(&connection.ports, series).await?;
    let row = connection.ports.series(&SeriesKey(name.clone())).await?;
    if let Some(what) = row.and_then(|row| otherwise(&wanted, &row)) {
        return Err(Failure::new(format!(
            "series {name} is there already, with {what}; a series' settings can't be changed, so choose another name"
        )));
    }
    if options.json {
        output::json(&json!({ "series": name }));
    } else {
        say!("Series {name} is there.");
    }
    Ok(ExitCode::SUCCESS)
}

async fn all(connection: &Connection) -> Result<Vec<SeriesRow>, Failure> {
    let mut rows = Vec::new();
    for key in connection.ports.all_series().await? {
        rows.extend(connection.ports.series(&key).await?);
    }
    Ok(rows)
}

pub(crate) async fn series(options: &Options, command: Option<SeriesCommand>) -> Result<ExitCode, Failure> {
    if let Some(command) = command {
        return add(options, command).await;
    }
    let connection = connect(options).await?;
    let mut rows = table(&["series", "lane", "priority", "episodes", "open", "may be open", "stories left"]);
    let mut values = Vec::new();
    for row in all(&connection).await? {
        let name = &row.key.0;
        let left = connection.ports.count(&Line::Stories(row.key.clone()), COUNT_LIMIT).await?;
        let episodes = row.next.saturating_sub(1);
        rows.add_row(vec![
            name.to_string(),
            row.lane.to_string(),
            row.priority.to_string(),
            episodes.to_string(),
            row.open.to_string(),
            row.open_limit.to_string(),
            left.to_string(),
        ]);
        values.push(json!({
            "series": name, "lane": row.lane, "priority": row.priority, "episodes": episodes, "open": row.open,
            "open_limit": row.open_limit, "stories_left": left, "frames_per_episode": 4,
            "episodes_per_season": 10,
        }));
    }
    if options.json {
        output::json(&json!({ "series": values }));
    } else {
        say!("{rows}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The newest episodes of a series, newest first. Numbers are dense, so they need no index.
async fn newest(connection: &Connection, series: &SeriesRow, limit: u32) -> Result<Vec<ParentView>, Failure> {
    let last = series.next.saturating_sub(1);
    let first = last.saturating_sub(limit).saturating_add(1);
    let mut views = Vec::new();
    for number in (first..=last).rev() {
        let parent = ParentKey::Episode { series: series.key.0.clone(), number };
        views.extend(connection.ports.parent(&parent).await?);
    }
    Ok(views)
}

pub(crate) async fn list(options: &Options, series: Option<&str>, limit: u32) -> Result<ExitCode, Failure> {
    let connection = connect(options).await?;
    let wanted = match series {
        Some(name) => {
            let key = SeriesKey(Id::new(name)?);
            let row = connection.ports.series(&key).await?;
            vec![row.ok_or_else(|| Failure::new(format!("there is no series `{name}`")))?]
        }
        None => all(&connection).await?,
    };
    let now_ms = connection.ports.now_ms();
    let mut rows =
        table(&["episode", "season", "episode", "status", "frame 1", "frame 2", "frame 3", "frame 4"]);
    let mut values = Vec::new();
    for series in &wanted {
        for view in newest(&connection, series, limit).await? {
            let Some(head) = &view.episode else { continue };
            let (season, episode) = season_and_episode(head.key.number);
            let mut cells =
                vec![head.key.to_string(), season.to_string(), episode.to_string(), head.status.to_string()];
            cells.extend(view.jobs.iter().map(|job| job.status.to_string()));
            rows.add_row(cells);
            let frames: Vec<_> = view
                .jobs
                .iter()
                .map(|job| {
                    let outcome =
                        view.outcomes.iter().find(|o| o.key.job == job.key && o.key.attempt == job.attempt);
                    json!({
                        "frame": job.key.member, "status": job.status, "attempt": job.attempt,
                        "file": outcome.and_then(|outcome| outcome.location.clone()),
                        "waits_for": (!job.status.ended()).then(|| waits_for(job, &view.outcomes, now_ms)),
                        "error": job.error,
                    })
                })
                .collect();
            values.push(json!({
                "series": head.key.series, "number": head.key.number, "season": season, "episode": episode,
                "status": head.status, "story": head.story.to_string(), "reason": head.reason, "frames": frames,
            }));
        }
    }
    if options.json {
        output::json(&values.into());
    } else if values.is_empty() {
        say!("No episodes yet; `glassline submit STORIES.json` adds stories to make them of.");
    } else {
        say!("{rows}");
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn reopen_one(options: &Options, episode: &str) -> Result<ExitCode, Failure> {
    let ParentKey::Episode { series, number } = episode.parse()? else {
        return Err(Failure::new(format!("`{episode}` isn't an episode; name one as EPISODE#series#000001")));
    };
    let connection = connect(options).await?;
    let key = EpisodeKey { series, number };
    reopen(&connection.ports, &key).await?;
    wake_series(&connection.ports, &key.series).await;
    if options.json {
        output::json(&json!({ "reopened": key.to_string() }));
    } else {
        say!("{key} is open again.");
    }
    Ok(ExitCode::SUCCESS)
}
