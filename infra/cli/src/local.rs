//! `glassline local`: the stack until Ctrl-C; and waiting with progress bars.

use crate::args::Options;
use crate::connect::{Addresses, lock};
use crate::failure::Failure;
use crate::output;
use glassline_aws::live::Live;
use glassline_local::lanes::{LaneSetup, default_lanes};
use glassline_local::stack::{Stack, StackConfig};
use glassline_protocol::ids::ParentKey;
use glassline_protocol::ports::Store as _;
use glassline_protocol::registry::Registry as _;
use glassline_protocol::row::Status;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// How often the table is looked at while waiting.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A stack's configuration with this program as its functions.
pub(crate) fn stack_config(data: PathBuf) -> Result<StackConfig, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(format!("this program's own file can't be found: {error}")))?;
    Ok(StackConfig::new(Some(data), program, vec!["function".into()]))
}

/// Where a running stack listens.
pub(crate) fn addresses(stack: &Stack) -> Addresses {
    Addresses {
        pid: std::process::id(),
        dynamo: stack.stores.dynamo,
        sqs: stack.stores.sqs,
        provider: stack.sandbox.address,
        api: stack.api.address,
    }
}

fn read_lanes(file: Option<&Path>) -> Result<Vec<LaneSetup>, Failure> {
    let Some(file) = file else { return Ok(default_lanes()) };
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::new(format!("{} can't be read: {error}", file.display())))?;
    let shown = |why: &dyn std::fmt::Display| {
        Failure::new(format!(
            "{} doesn't hold lanes: {why}; it is an array, as [{{\"name\":\"kiln\",\"capacity\":2,\"recovery\":{{\"tier\":\"none\"}}}}]",
            file.display()
        ))
    };
    let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| shown(&error))?;
    let serde_json::Value::Array(items) = value else {
        return Err(shown(&"its JSON is no array"));
    };
    let read = items.into_iter().enumerate().map(|(at, item)| {
        serde_json::from_value(item).map_err(|error| shown(&format!("lane {}: {error}", at + 1)))
    });
    let lanes: Vec<LaneSetup> = read.collect::<Result<_, _>>()?;
    if lanes.is_empty() {
        return Err(Failure::new(format!("{} names no lane; give at least one", file.display())));
    }
    for lane in &lanes {
        lane.check().map_err(|why| Failure::new(format!("{}: {why}", file.display())))?;
    }
    let mut names = std::collections::BTreeSet::new();
    if let Some(twice) = lanes.iter().find(|lane| !names.insert(&lane.name)) {
        return Err(Failure::new(format!("{}: lane {} is there twice", file.display(), twice.name)));
    }
    Ok(lanes)
}

pub(crate) async fn run(
    options: &Options,
    lanes: Option<&Path>,
    tick_seconds: u64,
    port: Option<u16>,
) -> Result<ExitCode, Failure> {
    let lock = lock(&options.data)?;
    let mut config = stack_config(options.data.clone())?;
    config.lanes = read_lanes(lanes)?;
    config.tick_ms = tick_seconds * 1_000;
    config.port = port;
    let names: Vec<String> = config.lanes.iter().map(|lane| lane.name.to_string()).collect();
    let stack = Stack::start(config).await?;
    let addresses = addresses(&stack);
    lock.publish(&addresses)?;
    for lane in stack.ports.lanes().await? {
        if !names.contains(&lane.key.to_string()) {
            eprintln!(
                "glassline: the lane {} has no provider in this run, so nothing of it is rendered; name the file that \
                 describes it with --lanes",
                lane.key
            );
        }
    }
    if options.json {
        output::json(&json!({ "data": options.data, "addresses": addresses, "lanes": names }));
    } else {
        say!("Glassline is up on {}; Ctrl-C stops it.", options.data.display());
        say!("  lanes      {}", names.join(", "));
        say!("  registry   http://{}/", addresses.api);
        say!("  secret     in {}", options.data.join("api-secret").display());
        say!("  outputs    {}", stack.storage.display());
        say!("  DynamoDB   http://{}    SQS http://{}", addresses.dynamo, addresses.sqs);
        say!("  provider   http://{}/books", addresses.provider);
        say!("In another terminal: glassline submit FILE.json, then ls, show, lanes, queues.");
    }
    stopped().await?;
    if !options.json {
        say!("Stopping…");
    }
    stack.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// Ends at Ctrl-C or a polite kill.
async fn stopped() -> Result<(), Failure> {
    let fail = |error: std::io::Error| Failure::new(format!("signals can't be listened to: {error}"));
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate()).map_err(fail)?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted.map_err(fail),
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await.map_err(fail)
}

/// What a parent's jobs have come to.
#[derive(Default)]
struct Progress {
    all: u64,
    /// Ended, or held.
    done: u64,
    succeeded: u64,
    /// How many of each status, in words.
    words: String,
}

async fn progress(ports: &Live, parent: &ParentKey) -> Result<Progress, Failure> {
    let view = ports.parent(parent).await?.unwrap_or_default();
    let mut progress = Progress { all: view.jobs.len() as u64, ..Progress::default() };
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for job in &view.jobs {
        *counts.entry(job.status.word()).or_default() += 1;
        progress.done += u64::from(job.status.ended() || job.status == Status::Held);
        progress.succeeded += u64::from(job.status == Status::Succeeded);
    }
    let words: Vec<_> = counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
    progress.words = words.join(", ");
    Ok(progress)
}

fn bar(bars: &MultiProgress, parent: &ParentKey) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:28} {bar:24} {pos}/{len}  {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    bars.add(ProgressBar::new(0).with_style(style).with_prefix(parent.to_string()))
}

/// What a parent's jobs ended as.
pub(crate) struct Ended {
    /// The parent.
    pub(crate) parent: ParentKey,
    /// How many of each status, in words.
    pub(crate) words: String,
    /// Whether all of them succeeded.
    pub(crate) well: bool,
}

/// What each parent's jobs have come to.
pub(crate) async fn ends(ports: &Live, parents: &[ParentKey]) -> Result<Vec<Ended>, Failure> {
    let mut all = Vec::new();
    for parent in parents {
        let Progress { all: jobs, succeeded, words, .. } = progress(ports, parent).await?;
        all.push(Ended { parent: parent.clone(), words, well: succeeded == jobs });
    }
    Ok(all)
}

/// Waits until every job of these parents has ended or is held, with a bar each on standard error.
pub(crate) async fn wait_for(ports: &Live, parents: &[ParentKey]) -> Result<(), Failure> {
    let bars = MultiProgress::new();
    let mut waiting: Vec<_> = parents.iter().map(|parent| (parent, bar(&bars, parent))).collect();
    while !waiting.is_empty() {
        let mut left = Vec::new();
        for (parent, bar) in waiting {
            let Progress { all, done, words, .. } = progress(ports, parent).await?;
            bar.set_length(all);
            bar.set_position(done);
            bar.set_message(words);
            if done >= all {
                bar.finish();
            } else {
                left.push((parent, bar));
            }
        }
        waiting = left;
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}
