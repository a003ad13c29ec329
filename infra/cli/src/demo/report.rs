//! What a demo came to, from the table, the storage, the QA queue and the provider's own books.

use crate::args::Options;
use crate::failure::Failure;
use crate::output::{self, table};
use glassline_assets::AssetVault;
use glassline_local::lanes::LaneSetup;
use glassline_local::stack::{Stack, storage_config};
use glassline_protocol::ids::{JobKey, ParentKey};
use glassline_protocol::message::Message;
use glassline_protocol::registry::Registry as _;
use glassline_protocol::row::{EpisodeRow, EpisodeStatus, JobRow, OutcomeRow, Status};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Instant;

/// Messages looked at in the QA queue.
const QA_LIMIT: usize = 100_000;

/// One job.
#[derive(Debug, Serialize)]
struct Job {
    key: JobKey,
    status: Status,
    attempt: u32,
    file: Option<String>,
    sha256: Option<String>,
    accepted_renders: usize,
    qa_messages: usize,
    /// Whether the file is there with the recorded hash.
    #[serde(skip)]
    whole: bool,
    #[serde(skip)]
    error: String,
}

impl Job {
    fn is_good(&self) -> bool {
        self.status == Status::Succeeded && self.whole && self.accepted_renders == 1 && self.qa_messages == 1
    }
}

/// Operations of AWS per job.
#[derive(Debug, Serialize)]
struct PerJob {
    create_write_units: f64,
    write_units: f64,
    read_units: f64,
    messages_sent: f64,
    by_function: BTreeMap<String, BTreeMap<String, f64>>,
}

/// What a demo came to.
pub(super) struct Report {
    jobs: Vec<Job>,
    episodes: Vec<EpisodeRow>,
    faults: BTreeMap<String, u64>,
    operations: PerJob,
    seconds: f64,
    storage: String,
}

/// What creates a job: heads, lanes and slots are counted apart, and frames are created by their episode's opening.
const JOB_PUTS: [&str; 2] = ["PutItem job", "PutItem spec"];
const READS: [&str; 3] = ["Query", "GetItem", "BatchGetItem"];

#[allow(clippy::cast_precision_loss, reason = "counts of a demo are small")]
fn operations(stack: &Stack, jobs: &[Job]) -> PerJob {
    let posted = jobs.iter().filter(|job| matches!(job.key.parent, ParentKey::Post(_))).count().max(1) as f64;
    let jobs = jobs.len().max(1) as f64;
    let mut per_job = PerJob {
        create_write_units: stack
            .ports
            .store
            .meter()
            .read()
            .iter()
            .filter(|(name, _)| JOB_PUTS.contains(name))
            .map(|(_, used)| used.units / posted)
            .sum(),
        write_units: 0.0,
        read_units: 0.0,
        messages_sent: 0.0,
        by_function: BTreeMap::new(),
    };
    for (function, used) in stack.logs.store() {
        for (name, used) in used {
            let (total, kind) = if READS.contains(&name.as_str()) {
                (&mut per_job.read_units, "read_units")
            } else {
                (&mut per_job.write_units, "write_units")
            };
            *total += used.units / jobs;
            let entry = per_job.by_function.entry(function.clone()).or_default();
            *entry.entry(kind.into()).or_default() += used.units / jobs;
        }
    }
    for (function, used) in stack.logs.sent() {
        let sent: f64 = used.values().map(|used| used.units / jobs).sum();
        per_job.messages_sent += sent;
        *per_job.by_function.entry(function).or_default().entry("messages_sent".into()).or_default() += sent;
    }
    per_job
}

async fn qa_messages(stack: &Stack) -> Result<BTreeMap<JobKey, usize>, Failure> {
    let mut messages = BTreeMap::new();
    for message in stack.stores.engine.peek("qa.fifo", QA_LIMIT).await? {
        if let Ok(Message::Qa(qa)) = Message::from_body(&message.body) {
            *messages.entry(qa.job).or_default() += 1;
        }
    }
    Ok(messages)
}

/// Looks at everything that the posts' jobs left behind.
pub(super) async fn collect(
    stack: &Stack,
    lanes: &[LaneSetup],
    parents: &[ParentKey],
    kills: u64,
    started: Instant,
) -> Result<Report, Failure> {
    let config = storage_config(lanes, stack.sandbox.address.port(), &stack.storage);
    let config = serde_json::from_value(config).map_err(|error| Failure::new(error.to_string()))?;
    let vault = AssetVault::new(config)?;
    let qa = qa_messages(stack).await?;
    let books = stack.sandbox.books();
    let mut jobs = Vec::new();
    let mut episodes = Vec::new();
    for parent in parents {
        let view = stack.ports.parent(parent).await?.unwrap_or_default();
        episodes.extend(view.episode.clone());
        for row in &view.jobs {
            let prefix = format!("{}/", row.key);
            let accepted = books.renders.iter().filter(|entry| entry.reference.starts_with(&prefix)).count();
            let outcome = view
                .outcomes
                .iter()
                .find(|outcome| outcome.key.job == row.key && outcome.key.attempt == row.attempt);
            let sent = qa.get(&row.key).copied().unwrap_or(0);
            jobs.push(job(&vault, row, outcome, accepted, sent).await);
        }
    }
    let fired = stack.sandbox.faults().fired;
    let mut faults: BTreeMap<String, u64> = fired
        .iter()
        .map(|(kind, count)| {
            let name = serde_json::to_value(kind).ok().and_then(|name| name.as_str().map(str::to_owned));
            (name.unwrap_or_default(), *count)
        })
        .collect();
    faults.insert("kill_worker".into(), kills);
    let operations = operations(stack, &jobs);
    Ok(Report {
        jobs,
        episodes,
        faults,
        operations,
        seconds: started.elapsed().as_secs_f64(),
        storage: stack.storage.display().to_string(),
    })
}

async fn job(
    vault: &AssetVault,
    row: &JobRow,
    outcome: Option<&OutcomeRow>,
    accepted_renders: usize,
    qa_messages: usize,
) -> Job {
    let asset = outcome.and_then(OutcomeRow::asset);
    let (mut file, mut whole) = (None, false);
    if let Some(asset) = &asset {
        file = vault.path_of(asset).map(|path| path.display().to_string());
        whole = vault.verify(asset).await.unwrap_or(false);
    }
    Job {
        key: row.key.clone(),
        status: row.status,
        attempt: row.attempt,
        file,
        sha256: asset.map(|asset| asset.sha256),
        accepted_renders,
        qa_messages,
        whole,
        error: row.error.clone().unwrap_or_default(),
    }
}

impl Report {
    /// Whether every shot is stored, registered and handed to QA once, paid for once, and every fault was seen.
    pub(super) fn is_good(&self) -> bool {
        let complete = |episode: &EpisodeRow| episode.status == EpisodeStatus::Complete;
        !self.jobs.is_empty()
            && !self.episodes.is_empty()
            && self.episodes.iter().all(complete)
            && self.jobs.iter().all(Job::is_good)
            && self.faults.values().all(|fired| *fired > 0)
    }

    /// Prints the table and the verdict, or one JSON object.
    pub(super) fn print(&self, options: &Options) {
        if options.json {
            output::json(&json!({
                "jobs": self.jobs,
                "episodes": self.episodes.iter().map(|e| json!({"key": e.key.to_string(), "status": e.status})).collect::<Vec<_>>(),
                "faults": self.faults,
                "operations_per_job": self.operations,
                "seconds": (self.seconds * 10.0).round() / 10.0,
            }));
            return;
        }
        let mut rows = table(&["job", "status", "attempt", "paid", "QA", "file"]);
        for job in &self.jobs {
            let short = |file: &String| {
                file.strip_prefix(&self.storage).unwrap_or(file).trim_start_matches('/').to_owned()
            };
            let file = job.file.as_ref().map(short).unwrap_or_else(|| job.error.clone());
            rows.add_row(vec![
                job.key.to_string(),
                job.status.to_string(),
                job.attempt.to_string(),
                job.accepted_renders.to_string(),
                job.qa_messages.to_string(),
                file,
            ]);
        }
        say!("\n{rows}");
        say!("files under {}", self.storage);
        for episode in &self.episodes {
            say!("episode     {} of {} is {}", episode.key, episode.story, episode.status);
        }
        let faults: Vec<_> = self.faults.iter().map(|(name, fired)| format!("{name} {fired}")).collect();
        say!("faults      {}", faults.join(", "));
        let used = &self.operations;
        say!(
            "per job     {:.1} write units to create, then {:.1}; {:.1} read units; {:.1} messages sent",
            used.create_write_units,
            used.write_units,
            used.read_units,
            used.messages_sent
        );
        let good = self.jobs.iter().filter(|job| job.is_good()).count();
        say!(
            "result      {good} of {} renders stored, registered and handed to QA once, each paid for once; {:.1} s",
            self.jobs.len(),
            self.seconds
        );
        if !self.is_good() {
            eprintln!(
                "glassline: not every shot came through as promised; the logs are beside the storage folder"
            );
        }
    }
}
