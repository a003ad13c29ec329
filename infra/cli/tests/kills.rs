//! Real child processes, killed at random; and the whole stack killed and started again. Afterwards the invariants are
//! checked from the table, the storage, the queues and the provider's own books.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use glassline_assets::AssetVault;
use glassline_local::lambda::EnvironmentState;
use glassline_local::stack::{Stack, StackConfig, storage_config};
use glassline_protocol::ids::{JobKey, ParentKey};
use glassline_protocol::intake::{Post, parse_posts, submit_post};
use glassline_protocol::message::Message;
use glassline_protocol::ports::Store as _;
use glassline_protocol::registry::Registry as _;
use glassline_protocol::row::{OutcomeRow, Status};
use glassline_sandbox::{FaultKind, FaultRule};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const FUNCTIONS: [&str; 4] = ["dispatch", "worker", "finisher", "rollback"];

fn config(data: &Path) -> StackConfig {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_glassline"));
    StackConfig::new(Some(data.to_owned()), program, vec!["function".into()])
}

fn posts(shots: usize) -> Vec<Post> {
    let post = |id: &str, lane: &str| {
        let shots: Vec<_> =
            (1..=shots).map(|n| format!(r#"{{"id":"s{n}","prompt":"pane {n} of {id}"}}"#)).collect();
        format!(r#"{{"id":"{id}","lane":"{lane}","shots":[{}]}}"#, shots.join(","))
    };
    let text = format!("[{},{}]", post("keyed", "prism"), post("looked", "kiln"));
    parse_posts(&text).unwrap().into_iter().map(Result::unwrap).collect()
}

/// A small generator: the same seed makes the same choices.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

async fn statuses(stack: &Stack, posts: &[Post]) -> BTreeMap<JobKey, Status> {
    let mut statuses = BTreeMap::new();
    for post in posts {
        let view = stack.ports.parent(&ParentKey::Post(post.id.clone())).await.unwrap().unwrap();
        statuses.extend(view.jobs.into_iter().map(|job| (job.key, job.status)));
    }
    statuses
}

async fn wait(stack: &Stack, posts: &[Post], limit: Duration) {
    let until = Instant::now() + limit;
    loop {
        let statuses = statuses(stack, posts).await;
        if statuses.values().all(|status| status.ended() || *status == Status::Held) {
            return;
        }
        assert!(Instant::now() < until, "still waiting: {statuses:?}");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// Every invariant that can be seen from outside.
async fn check(stack: &Stack, config: &StackConfig, posts: &[Post]) {
    let storage = storage_config(&config.lanes, stack.sandbox.address.port(), &stack.storage);
    let vault = AssetVault::new(serde_json::from_value(storage).unwrap()).unwrap();
    let mut accepted: BTreeMap<String, usize> = BTreeMap::new();
    for entry in stack.sandbox.books().renders {
        *accepted.entry(entry.reference).or_default() += 1;
    }
    assert!(accepted.values().all(|count| *count == 1), "paid twice for one attempt: {accepted:?}");
    let mut qa: BTreeMap<JobKey, BTreeSet<String>> = BTreeMap::new();
    for message in stack.stores.engine.peek("qa.fifo", 10_000).await.unwrap() {
        let Ok(Message::Qa(message)) = Message::from_body(&message.body) else { panic!("not a QA message") };
        qa.entry(message.job).or_default().insert(message.outcome);
    }
    for post in posts {
        let view = stack.ports.parent(&ParentKey::Post(post.id.clone())).await.unwrap().unwrap();
        assert_eq!(view.jobs.len(), post.shots.len(), "a job is lost");
        for job in &view.jobs {
            assert_eq!(job.status, Status::Succeeded, "{job:?}");
            let outcome = view.outcomes.iter().find(|o| o.key.job == job.key && o.key.attempt == job.attempt);
            let asset = outcome.and_then(OutcomeRow::asset).expect("a stored outcome");
            assert!(vault.verify(&asset).await.unwrap(), "{}: the file isn't as recorded", job.key);
            assert_eq!(qa.get(&job.key).map(BTreeSet::len), Some(1), "{}: QA ids", job.key);
            let prefix = format!("{}/", job.key);
            let paid = accepted.keys().filter(|reference| reference.starts_with(&prefix)).count();
            assert_eq!(paid, 1, "{}: rendered by {paid} attempts", job.key);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_kills_lose_nothing_and_pay_nothing_twice() {
    const SEED: u64 = 0x0061_6c61_7373;
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(&folder.path().join("data"));
    config.faults = vec![FaultRule::percent(FaultKind::DropAnswer, 10.0, 7)];
    let stack = Stack::start(config.clone()).await.unwrap();
    let posts = posts(20);
    let lanes = stack.ports.lanes().await.unwrap();
    for post in &posts {
        submit_post(&stack.ports, post, &lanes).await.unwrap();
    }
    let mut choices = Choices(SEED);
    let (mut killed, mut busy) = (BTreeMap::<&str, u32>::new(), 0);
    let until = Instant::now() + Duration::from_secs(12);
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(40 + choices.below(160))).await;
        let function = FUNCTIONS[usize::try_from(choices.below(4)).unwrap()];
        let environments = stack.host.environments(function);
        if environments.is_empty() {
            continue;
        }
        let one = &environments[usize::try_from(choices.below(environments.len() as u64)).unwrap()];
        if stack.host.kill(one.pid) {
            *killed.entry(function).or_default() += 1;
            busy += u32::from(one.state == EnvironmentState::Busy);
        }
    }
    wait(&stack, &posts, Duration::from_secs(150)).await;
    println!(
        "seed {SEED:#x}: killed {killed:?}, {busy} of them busy; faults {:?}",
        stack.sandbox.faults().fired
    );
    // Rollback only runs when something went wrong early enough, which no seed decides.
    let always = ["dispatch", "worker", "finisher"].iter().all(|name| killed.contains_key(name));
    assert!(always && killed.values().sum::<u32>() >= 20, "too few kills: {killed:?}");
    check(&stack, &config, &posts).await;
    stack.stop().await;
}

/// Starts `glassline local` and waits until it says that it is up.
fn start_local(data: &Path) -> std::process::Child {
    use std::io::BufRead as _;
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_glassline"))
        .args(["local", "--json", "--data"])
        .arg(data)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("addresses"), "not up: {line}");
    child
}

fn glassline(data: &Path, arguments: &[&str]) -> std::process::Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_glassline"))
        .args(arguments)
        .arg("--data")
        .arg(data)
        .output()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_stack_that_is_killed_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let file = folder.path().join("posts.json");
    let posts = posts(6);
    std::fs::write(&file, serde_json::to_string(&posts).unwrap()).unwrap();
    let mut child = start_local(&data);
    let submitted = glassline(&data, &["submit", file.to_str().unwrap()]);
    assert!(submitted.status.success(), "{submitted:?}");
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    child.kill().unwrap();
    child.wait().unwrap();
    // The stores can be looked at while no stack runs.
    let listed = glassline(&data, &["ls", "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["posts"].as_array().map(Vec::len), Some(2), "{listed}");
    let config = config(&data);
    let stack = Stack::start(config.clone()).await.unwrap();
    wait(&stack, &posts, Duration::from_secs(150)).await;
    check(&stack, &config, &posts).await;
    stack.stop().await;
}
