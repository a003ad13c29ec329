//! What people do to jobs, lanes and queues.

use crate::args::Options;
use crate::client::{Client, job_path};
use crate::failure::Failure;
use crate::look::parse_job;
use crate::ops_args::{LaneSettings, LanesCommand, Limit, Ops, Which};
use crate::output::{self, span, table, time};
use axum::http::Method;
use glassline_protocol::ids::LaneName;
use serde_json::{Map, Value, json};
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

/// Most pages of one request for many jobs.
const MAX_PAGES: usize = 10_000;

pub(crate) async fn run(options: &Options, ops: Ops) -> Result<ExitCode, Failure> {
    match ops {
        Ops::Completions { shell } => Ok(completions(shell)),
        Ops::Open => open(options),
        Ops::Explain { job } => {
            let path = format!("{}/explain", job_path(&parse_job(&job)?));
            let answer = Client::open(options).await?.ask(Method::GET, &path, None).await?;
            show(options, &answer, answer["sentence"].as_str().unwrap_or_default());
            Ok(ExitCode::SUCCESS)
        }
        Ops::Cancel(which) => act(options, "cancel", which, Map::new()).await,
        Ops::Requeue { which, note } => {
            let note = note.map(|note| ("note".to_owned(), Value::from(note)));
            act(options, "requeue", which, note.into_iter().collect()).await
        }
        Ops::Resolve { which, decision, task } => {
            let mut body = Map::from_iter([("as".to_owned(), Value::from(decision.word()))]);
            body.extend(task.map(|task| ("task".to_owned(), Value::from(task))));
            act(options, "resolve", which, body).await
        }
        Ops::Review { outcome, verdict } => {
            let (job, _) = outcome.rsplit_once('/').ok_or_else(|| {
                Failure::new(format!("`{outcome}` isn't an outcome; it looks like POST#p/SHOT#s/1"))
            })?;
            let path = format!("{}/review", job_path(&parse_job(job)?));
            let body = match verdict.reject {
                Some(note) => json!({ "outcome": outcome, "verdict": "reject", "note": note }),
                None => json!({ "outcome": outcome, "verdict": "approve" }),
            };
            one(options, &Client::open(options).await?, &path, &body).await
        }
        Ops::Redrive { queue } => {
            let path = format!("/v1/queues/{}/redrive", LaneName::new(queue.clone())?);
            let answer = Client::open(options).await?.ask(Method::POST, &path, None).await?;
            show(options, &answer, &format!("The messages of {queue} are on their way back."));
            Ok(ExitCode::SUCCESS)
        }
        Ops::Pause { lane, reason } => {
            let mut body = json!({ "paused": true });
            if let Some(reason) = reason {
                body["pause_reason"] = reason.into();
            }
            existing(options, &lane, &body, "is paused").await
        }
        Ops::Resume { lane } => existing(options, &lane, &json!({ "paused": false }), "goes on").await,
        Ops::Watch { every, times } => watch(options, every, times).await,
    }
}

fn show(options: &Options, answer: &Value, sentence: &str) {
    if options.json { output::json(answer) } else { say!("{sentence}") }
}

/// A change of one job, and what it came to.
async fn one(options: &Options, client: &Client, path: &str, body: &Value) -> Result<ExitCode, Failure> {
    let answer = client.ask(Method::POST, path, Some(body)).await?;
    let text = |name: &str| answer[name].as_str().unwrap_or_default().replace('_', " ");
    show(
        options,
        &answer,
        &format!(
            "{}: {}; it is {} at attempt {}.",
            text("key"),
            text("did"),
            text("status"),
            answer["attempt"]
        ),
    );
    if !client.running() {
        eprintln!(
            "No stack is running on {}: what is left to do is done by `glassline local`.",
            options.data.display()
        );
    }
    Ok(ExitCode::SUCCESS)
}

async fn act(
    options: &Options,
    what: &str,
    which: Which,
    mut body: Map<String, Value>,
) -> Result<ExitCode, Failure> {
    let client = Client::open(options).await?;
    if let Some(lane) = which.lane {
        body.extend(which.class.map(|class| ("error_class".to_owned(), Value::from(class))));
        return many(options, &client, &format!("/v1/lanes/{}/{what}", LaneName::new(lane)?), body).await;
    }
    let job = parse_job(&which.job.unwrap_or_default())?;
    let path = job_path(&job);
    let attempt = match which.attempt {
        Some(attempt) => Value::from(attempt),
        None => client.ask(Method::GET, &path, None).await?["attempt"].clone(),
    };
    body.insert("attempt".into(), attempt);
    one(options, &client, &format!("{path}/{what}"), &body.into()).await
}

/// Page by page, until the end of the table.
async fn many(
    options: &Options,
    client: &Client,
    path: &str,
    mut body: Map<String, Value>,
) -> Result<ExitCode, Failure> {
    let (mut results, mut bad) = (Vec::new(), 0);
    for _ in 0..MAX_PAGES {
        let answer = client.ask(Method::POST, path, Some(&body.clone().into())).await?;
        for result in answer["results"].as_array().into_iter().flatten() {
            let refused = result["refused"].as_str();
            bad += usize::from(refused.is_some());
            if !options.json {
                let key = result["key"].as_str().unwrap_or_default();
                let did = result["did"].as_str().unwrap_or_default().replace('_', " ");
                say!("{key}: {}", refused.map_or(did, str::to_owned));
            }
            results.push(result.clone());
        }
        match answer.get("cursor") {
            Some(cursor @ Value::String(_)) => body.insert("cursor".into(), cursor.clone()),
            Some(_) | None => break,
        };
    }
    if options.json {
        output::json(&json!({ "results": results }));
    } else if results.is_empty() {
        say!("There is no such job.");
    }
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A change of a lane that must be there.
async fn existing(options: &Options, lane: &str, body: &Value, said: &str) -> Result<ExitCode, Failure> {
    let client = Client::open(options).await?;
    let path = format!("/v1/lanes/{}", LaneName::new(lane)?);
    if !client.exists(&path).await? {
        return Err(Failure::new(format!("there is no lane `{lane}`; `glassline lanes` lists them")));
    }
    let answer = client.ask(Method::PUT, &path, Some(body)).await?;
    show(options, &answer, &format!("Lane {lane} {said}."));
    Ok(ExitCode::SUCCESS)
}

fn settings(settings: &LaneSettings) -> Value {
    let limit = |limit: Option<Limit>| limit.map(|Limit(value)| value.map_or(Value::Null, Value::from));
    let fields = [
        ("capacity", settings.capacity.map(Value::from)),
        ("price_micros", limit(settings.price)),
        ("budget_micros_per_day", limit(settings.budget)),
        ("starts_per_minute", limit(settings.starts_per_minute)),
        ("boost_ms", limit(settings.boost_ms)),
        ("outside", settings.outside.map(Value::from)),
    ];
    let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(given.collect())
}

pub(crate) async fn lanes(options: &Options, command: LanesCommand) -> Result<ExitCode, Failure> {
    match command {
        LanesCommand::Set { name, settings: set } => {
            existing(options, &name, &settings(&set), "is set").await
        }
        LanesCommand::Add { name, settings: set } => {
            let client = Client::open(options).await?;
            let path = format!("/v1/lanes/{}", LaneName::new(name.clone())?);
            if client.exists(&path).await? {
                let row = client.ask(Method::GET, &path, None).await?;
                let wanted = settings(&set);
                let fields = wanted.as_object().into_iter().flatten();
                if fields.into_iter().any(|(field, value)| row[field] != *value) {
                    return Err(Failure::new(format!(
                        "lane {name} is there already, with other settings; it keeps them, and `glassline lanes set` \
                         changes them"
                    )));
                }
                show(options, &row, &format!("Lane {name} is there."));
                return Ok(ExitCode::SUCCESS);
            }
            if set.capacity.is_none() {
                return Err(Failure::new(
                    "a new lane needs a --capacity: how many of its jobs may run at once",
                ));
            }
            let answer = client.ask(Method::PUT, &path, Some(&settings(&set))).await?;
            show(
                options,
                &answer,
                &format!("Lane {name} is there; its provider is a matter of the configuration."),
            );
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The lanes of an API at an address.
pub(crate) async fn list_lanes(options: &Options) -> Result<ExitCode, Failure> {
    let answer = Client::open(options).await?.ask(Method::GET, "/v1/lanes", None).await?;
    show(options, &answer, &lanes_table(&answer).to_string());
    Ok(ExitCode::SUCCESS)
}

fn lanes_table(answer: &Value) -> comfy_table::Table {
    let mut rows = table(&["lane", "in use", "capacity", "ready", "later", "held", "best waits", "paused"]);
    for lane in answer["lanes"].as_array().into_iter().flatten() {
        let cell = |name: &str| match &lane[name] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                other.to_string()
            }
        };
        let waits = lane["best_ready_wait_ms"].as_u64().map(span);
        let until = lane["paused_until_ms"].as_u64().map(|ms| format!("until {}", time(ms)));
        let paused = if lane["paused"] == true { "by hand".to_owned() } else { until.unwrap_or_default() };
        let why = lane["pause_reason"].as_str().map(|why| format!(" ({why})")).unwrap_or_default();
        let mut cells: Vec<String> =
            ["lane", "slots_in_use", "capacity", "ready", "later", "held"].map(cell).into_iter().collect();
        cells.extend([waits.unwrap_or_default(), format!("{paused}{why}")]);
        rows.add_row(cells);
    }
    rows
}

async fn watch(options: &Options, every_s: u64, times: Option<u64>) -> Result<ExitCode, Failure> {
    let client = Client::open(options).await?;
    let screen = std::io::stdout().is_terminal() && !options.json;
    let mut left = times;
    loop {
        let answer = client.ask(Method::GET, "/v1/lanes", None).await?;
        if options.json {
            output::json(&answer);
        } else if screen {
            // Home, and everything below is cleared: the table is drawn in place.
            say!("\u{1b}[H\u{1b}[2J{}", lanes_table(&answer));
        } else {
            say!("{}", lanes_table(&answer));
        }
        left = left.map(|left| left.saturating_sub(1));
        if left == Some(0) {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(every_s)) => {}
            _ = tokio::signal::ctrl_c() => return Ok(ExitCode::SUCCESS),
        }
    }
}

fn open(options: &Options) -> Result<ExitCode, Failure> {
    let address = match &options.url {
        Some(url) => url.clone(),
        None => crate::connect::page(options)?,
    };
    show(options, &json!({ "page": address }), &address);
    Ok(ExitCode::SUCCESS)
}

fn completions(shell: clap_complete::Shell) -> ExitCode {
    use clap::CommandFactory as _;
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut crate::args::Cli::command(), "glassline", &mut script);
    say!("{}", String::from_utf8_lossy(&script).trim_end());
    ExitCode::SUCCESS
}
