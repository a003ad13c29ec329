//! `ls`, `show`, `lanes` and `queues`.

use crate::args::Options;
use crate::connect::{Connection, connect};
use crate::failure::Failure;
use crate::output::{self, span, table, time};
use glassline_protocol::ids::{Id, JobKey, ParentKey};
use glassline_protocol::intake::{month_before, month_of};
use glassline_protocol::ports::{Local as _, Store as _};
use glassline_protocol::registry::{COUNT_LIMIT, ParentView, Registry as _, lane_view, shown};
use glassline_protocol::row::{JobRow, OutcomeRow, Status, Value};
use serde_json::{Map, json};
use std::process::ExitCode;

async fn recent(connection: &Connection, limit: usize) -> Result<Vec<(ParentKey, ParentView)>, Failure> {
    let this = month_of(connection.ports.now_ms());
    let months: Vec<String> = month_before(&this).into_iter().fold(vec![this], |mut months, before| {
        months.push(before);
        months
    });
    let mut views = Vec::new();
    for month in months {
        for key in connection.ports.posts(&month, None, limit.saturating_sub(views.len())).await?.items {
            if let Some(view) = connection.ports.parent(&key).await? {
                views.push((key, view));
            }
        }
    }
    Ok(views)
}

pub(crate) async fn posts(options: &Options, limit: usize) -> Result<ExitCode, Failure> {
    let connection = connect(options).await?;
    let posts = recent(&connection, limit).await?;
    if options.json {
        let rows = posts.iter().map(|(key, view)| {
            let head = view.head.as_ref();
            json!({
                "post": key,
                "lane": head.map(|head| &head.lane),
                "priority": head.map(|head| head.priority),
                "created_ms": head.map(|head| head.created_ms),
                "jobs": view.jobs.len(),
                "statuses": view.statuses(),
            })
        });
        output::json(&json!({ "posts": rows.collect::<Vec<_>>() }));
        return Ok(ExitCode::SUCCESS);
    }
    if posts.is_empty() {
        say!("No posts yet; `glassline submit FILE.json` adds some.");
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = table(&["post", "lane", "priority", "created (UTC)", "jobs"]);
    for (key, view) in &posts {
        let words: Vec<_> = view.statuses().iter().map(|(word, count)| format!("{count} {word}")).collect();
        let (lane, priority, created) = view.head.as_ref().map_or_else(Default::default, |head| {
            (head.lane.to_string(), head.priority.to_string(), time(head.created_ms))
        });
        rows.add_row(vec![key.to_string(), lane, priority, created, words.join(", ")]);
    }
    say!("{rows}");
    Ok(ExitCode::SUCCESS)
}

/// What an episode's key should have been, where only its digits are wrong.
fn six_digits(key: &str) -> Option<Failure> {
    let (parent, rest) =
        key.split_once('/').map_or((key, String::new()), |(p, rest)| (p, format!("/{rest}")));
    let (series, digits) = parent.strip_prefix("EPISODE#")?.split_once('#')?;
    let number: u32 = digits.parse().ok().filter(|number| *number > 0)?;
    let right = format!("EPISODE#{series}#{number:06}{rest}");
    (right != key).then(|| {
        Failure::new(format!(
            "an episode's number has six digits at least: write '{right}' instead of '{key}'"
        ))
    })
}

/// Reads a job's key.
pub(crate) fn parse_job(key: &str) -> Result<JobKey, Failure> {
    key.parse()
        .map_err(|error: glassline_protocol::ids::BadName| six_digits(key).unwrap_or_else(|| error.into()))
}

/// A post's id alone means the post.
fn parse_key(key: &str) -> Result<(ParentKey, Option<JobKey>), Failure> {
    if key.contains('/') {
        let job = parse_job(key)?;
        return Ok((job.parent.clone(), Some(job)));
    }
    if key.contains('#') {
        let parent: Result<ParentKey, _> = key.parse();
        let parent = parent.map_err(|error| six_digits(key).unwrap_or_else(|| error.into()))?;
        return Ok((parent, None));
    }
    Ok((ParentKey::Post(Id::new(key)?), None))
}

/// A row as JSON, all but its token: a token is the right to write.
pub(crate) fn row_json<R: glassline_protocol::row::Row>(row: &R) -> Map<String, serde_json::Value> {
    let pairs = shown(row).into_iter().map(|(name, value)| {
        let value = match value {
            Value::Text(text) => text.into(),
            Value::Number(number) => number.into(),
            Value::Flag(flag) => flag.into(),
        };
        (name.to_owned(), value)
    });
    pairs.collect()
}

fn job_json(job: &JobRow, outcomes: &[OutcomeRow]) -> serde_json::Value {
    let mut object = row_json(job);
    object.insert("key".into(), job.key.to_string().into());
    let own = outcomes.iter().filter(|outcome| outcome.key.job == job.key).map(|outcome| {
        let mut object = row_json(outcome);
        object.insert("attempt".into(), outcome.key.attempt.into());
        object
    });
    object.insert("outcomes".into(), own.collect::<Vec<_>>().into());
    object.into()
}

/// What a job waits for, or how it ended, in a few words.
pub(crate) fn waits_for(job: &JobRow, outcomes: &[OutcomeRow], now_ms: u64) -> String {
    let age = |since: Option<u64>| since.map(|ms| span(now_ms.saturating_sub(ms))).unwrap_or_default();
    let error = job.error.clone().unwrap_or_default();
    match job.status {
        Status::Ready if job.failures > 0 => format!("a retry: {error}"),
        Status::Ready => format!("a slot of its lane, for {}", age(Some(job.created_ms))),
        Status::Claimed => "its worker".into(),
        Status::Rendering if job.task.is_none() => {
            format!("the provider's answer, for {}", age(job.started_ms))
        }
        Status::Rendering => format!("the provider, for {}", age(job.started_ms)),
        Status::Held => format!("evidence or a person: {error}"),
        Status::Succeeded => outcomes
            .iter()
            .find(|outcome| outcome.key.job == job.key && outcome.key.attempt == job.attempt)
            .and_then(|outcome| outcome.location.clone())
            .unwrap_or_default(),
        Status::Failed => {
            format!("{}: {error}", job.error_class.map(|class| class.to_string()).unwrap_or_default())
        }
        Status::Cancelled => "cancelled as asked".into(),
    }
}

/// An episode as a strip of its frames: how each stands, and what it waits for or where it lies.
fn strip(frames: &[&JobRow], outcomes: &[OutcomeRow], now_ms: u64) -> comfy_table::Table {
    let headings: Vec<String> = frames.iter().map(|job| job.key.member.to_string()).collect();
    let mut strip = table(&headings.iter().map(String::as_str).collect::<Vec<_>>());
    strip.load_style(comfy_table::presets::UTF8_FULL);
    strip.set_width(116);
    strip.add_row(frames.iter().map(|job| {
        let mark = match job.status {
            Status::Succeeded => "■",
            Status::Failed | Status::Cancelled => "×",
            Status::Held => "?",
            Status::Ready | Status::Claimed | Status::Rendering => "□",
        };
        format!("{mark} {}, attempt {}\n{}", job.status, job.attempt, waits_for(job, outcomes, now_ms))
    }));
    strip
}

fn print_job(job: &JobRow, outcomes: &[OutcomeRow]) {
    say!("{}", job.key);
    for (name, value) in row_json(job) {
        say!("  {name:16} {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    for outcome in outcomes.iter().filter(|outcome| outcome.key.job == job.key) {
        say!("  outcome of attempt {}", outcome.key.attempt);
        for (name, value) in row_json(outcome) {
            say!("    {name:14} {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
    }
}

pub(crate) async fn show(options: &Options, key: &str) -> Result<ExitCode, Failure> {
    let (parent, job) = parse_key(key)?;
    let connection = connect(options).await?;
    let missing =
        || Failure::new(format!("there is no `{key}` in {}; `glassline ls` lists posts", options.place()));
    let view = connection.ports.parent(&parent).await?.ok_or_else(missing)?;
    let wanted: Vec<&JobRow> =
        view.jobs.iter().filter(|row| job.as_ref().is_none_or(|job| row.key == *job)).collect();
    if job.is_some() && wanted.is_empty() {
        return Err(missing());
    }
    if options.json {
        let jobs: Vec<_> = wanted.iter().map(|job| job_json(job, &view.outcomes)).collect();
        let orphans: Vec<_> = view.orphans.iter().map(row_json).collect();
        let head = view.head.as_ref().map(row_json).or_else(|| view.episode.as_ref().map(row_json));
        output::json(&json!({ "parent": parent, "head": head, "jobs": jobs, "orphans": orphans }));
        return Ok(ExitCode::SUCCESS);
    }
    if let (Some(_), [job]) = (&job, wanted.as_slice()) {
        print_job(job, &view.outcomes);
        return Ok(ExitCode::SUCCESS);
    }
    let now_ms = connection.ports.now_ms();
    if let (Some(head), None) = (&view.episode, &job) {
        say!("{}\n{}", crate::episodes::title(head), strip(&wanted, &view.outcomes, now_ms));
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = table(&["job", "status", "attempt", "where it lies, or what it waits for"]);
    for job in &wanted {
        rows.add_row(vec![
            job.key.member.to_string(),
            job.status.to_string(),
            job.attempt.to_string(),
            waits_for(job, &view.outcomes, now_ms),
        ]);
    }
    say!("{parent}\n{rows}");
    if !view.orphans.is_empty() {
        say!("{} accepted task(s) were given up; --json lists them.", view.orphans.len());
    }
    Ok(ExitCode::SUCCESS)
}

fn at_most(count: usize) -> String {
    if count >= COUNT_LIMIT { format!("{COUNT_LIMIT} or more") } else { count.to_string() }
}

pub(crate) async fn lanes(options: &Options) -> Result<ExitCode, Failure> {
    let connection = connect(options).await?;
    let ports = &connection.ports;
    let mut rows = table(&["lane", "in use", "capacity", "ready", "later", "held", "paused"]);
    let mut values = Vec::new();
    let now_ms = ports.now_ms();
    for lane in ports.lanes().await? {
        let view = lane_view(ports, lane).await?;
        let (lane, until) = (&view.row, view.paused_until_ms(now_ms));
        let paused = if lane.paused {
            "by hand".to_owned()
        } else {
            until.map(|ms| format!("until {}", time(ms))).unwrap_or_default()
        };
        let reason = view.pause_reason(now_ms).map(|why| format!(" ({why})"));
        rows.add_row(vec![
            lane.key.to_string(),
            view.in_use.to_string(),
            lane.capacity.to_string(),
            at_most(view.ready),
            at_most(view.later),
            at_most(view.held),
            format!("{paused}{}", reason.unwrap_or_default()),
        ]);
        values.push(json!({
            "lane": lane.key, "in_use": view.in_use, "capacity": lane.capacity, "ready": view.ready,
            "later": view.later, "held": view.held, "paused": lane.paused, "paused_until_ms": until,
        }));
    }
    if options.json {
        output::json(&json!({ "lanes": values }));
    } else {
        say!("{rows}");
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn queues(options: &Options) -> Result<ExitCode, Failure> {
    let connection = connect(options).await?;
    let mut rows = table(&["queue", "visible", "in flight", "delayed"]);
    let mut values = Vec::new();
    for (name, url) in &connection.queues {
        let depth = connection.depth(name, url).await?;
        let [visible, in_flight, delayed] = depth;
        rows.add_row(vec![name.clone(), visible.to_string(), in_flight.to_string(), delayed.to_string()]);
        values.push(json!({ "queue": name, "visible": visible, "in_flight": in_flight, "delayed": delayed }));
    }
    if options.json {
        output::json(&json!({ "queues": values }));
    } else {
        say!("{rows}");
    }
    Ok(ExitCode::SUCCESS)
}
