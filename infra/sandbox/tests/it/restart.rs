use crate::support::{Client, HandClock, image, next, receiver, until};
use glassline_sandbox::{
    FaultKind, FaultRule, JournalError, RenderState, Sandbox, SandboxConfig, SandboxError,
};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn config(folder: &Path, clock: &HandClock) -> SandboxConfig {
    let mut config =
        SandboxConfig { books_file: Some(folder.join("books.jsonl")), ..SandboxConfig::default() };
    clock.put_into(&mut config);
    config
}

#[tokio::test]
async fn a_restart_keeps_renders_keys_endings_and_addresses() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), HandClock::new());
    let mut first = config(folder.path(), &clock);
    first.faults = vec![
        FaultRule::references(FaultKind::FailModeration, ["moderated"]),
        FaultRule::references(FaultKind::DropAnswer, ["lost"]),
    ];
    let sandbox = Sandbox::start(first).await.unwrap();
    let client = Client::new(&sandbox, "sandbox-key");
    let (good, bad) = (client.submit("good").await, client.submit("moderated").await);
    let cancelled = client.submit("cancelled").await;
    client.cancel(&cancelled).await;
    assert!(client.post_keyed("lost", &image("lost")).await.is_none());
    let before = sandbox.books();
    drop(sandbox);
    let text = std::fs::read_to_string(folder.path().join("books.jsonl")).unwrap();
    assert!(!text.contains("a window for") && !text.contains("sandbox-key"), "no prompts, no keys");

    let sandbox = Sandbox::start(config(folder.path(), &clock)).await.unwrap();
    assert_eq!(sandbox.books().renders, before.renders);
    let client = Client::new(&sandbox, "sandbox-key");
    clock.forward(100);
    assert_eq!(client.render(&good).await["status"], "succeeded");
    assert_eq!(client.render(&bad).await["error"]["code"], "content_moderated");
    assert_eq!(client.render(&cancelled).await["status"], "cancelled");
    let repeat = client.post_keyed("lost", &image("lost")).await.unwrap();
    assert_eq!((repeat.status, repeat.replayed), (200, true));
    let output = client.fetch(&client.output_url(&good).await).await;
    assert!(image::load_from_memory(&output.bytes).is_ok());
    let path = format!("/v1/renders?reference={}", "good");
    assert_eq!(client.get(&path).await.json()["renders"][0]["id"], good.as_str());
    assert_eq!(sandbox.books().totals.accepted, 4);
}

#[tokio::test]
async fn a_callback_still_owed_is_sent_after_a_restart_and_a_sent_one_is_not() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), HandClock::new());
    let (url, mut received) = receiver(Vec::new()).await;
    let mut first = config(folder.path(), &clock);
    (first.accounts[0].render_min_ms, first.accounts[0].render_max_ms) = (1, 600_000);
    first.accounts[0].callback_retries = 0;
    // Ten minutes at most, by the clock of the test; the first run lasts for no time at all.
    let sandbox = Sandbox::start(first.clone()).await.unwrap();
    let client = Client::new(&sandbox, "sandbox-key");
    let post = async |client: &Client, reference: &str| {
        let mut body = image(reference);
        body["callback_url"] = url.as_str().into();
        client.post_keyed(reference, &body).await.unwrap().json()["id"].as_str().unwrap().to_owned()
    };
    let cancelled = post(&client, "cancelled").await;
    let later = post(&client, "later").await;
    client.cancel(&cancelled).await;
    assert_eq!(next(&mut received).await.json()["status"], "cancelled");
    // The line that says so is written once the answer is in.
    let file = folder.path().join("books.jsonl");
    let text = || std::fs::read_to_string(&file).unwrap();
    until("the callback is written down", || text().contains("\"called\"")).await;
    drop(sandbox);
    clock.forward(600_000);
    let sandbox = Sandbox::start(first).await.unwrap();
    let call = next(&mut received).await.json();
    assert_eq!((call["id"].as_str(), call["status"].as_str()), (Some(later.as_str()), Some("succeeded")));
    assert!(received.try_recv().is_err(), "the other one was sent before");
    assert_eq!(sandbox.books().of("cancelled")[0].state, RenderState::Cancelled);
}

#[tokio::test]
async fn a_torn_last_line_is_cut_off_and_anything_else_is_refused() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), HandClock::new());
    let file = folder.path().join("books.jsonl");
    let sandbox = Sandbox::start(config(folder.path(), &clock)).await.unwrap();
    let client = Client::new(&sandbox, "sandbox-key");
    let id = client.submit("r1").await;
    let in_use = Sandbox::start(config(folder.path(), &clock)).await;
    assert!(matches!(in_use, Err(SandboxError::Books(JournalError::InUse { .. }))));
    drop(sandbox);
    let whole = std::fs::read(&file).unwrap();
    let mut torn = std::fs::OpenOptions::new().append(true).open(&file).unwrap();
    torn.write_all(&whole[..whole.len() / 2]).unwrap();
    let sandbox = Sandbox::start(config(folder.path(), &clock)).await.unwrap();
    let client = Client::new(&sandbox, "sandbox-key");
    assert_eq!(client.submit("r2").await.len(), id.len());
    drop(sandbox);
    let sandbox = Sandbox::start(config(folder.path(), &clock)).await.unwrap();
    assert_eq!(sandbox.books().totals.accepted, 2);
    drop(sandbox);
    torn.write_all(b"not ours\n").unwrap();
    let refused = Sandbox::start(config(folder.path(), &clock)).await;
    assert!(matches!(refused, Err(SandboxError::Books(JournalError::Line { line: 3, .. }))));
}

#[tokio::test]
async fn a_dropped_sandbox_answers_nobody() {
    let sandbox = Sandbox::start(SandboxConfig::default()).await.unwrap();
    let client = Client::new(&sandbox, "sandbox-key");
    client.submit("r1").await;
    drop(sandbox);
    // Neither over a new connection nor over the one that is still open.
    for _ in 0..2 {
        assert!(client.http.get(format!("{}/books", client.url)).send().await.is_err());
    }
}

#[tokio::test]
async fn a_dropped_sandbox_ends_the_requests_that_it_is_at() {
    let rule = FaultRule::next(FaultKind::SlowAnswerMs, 1).value(600_000);
    let sandbox =
        Sandbox::start(SandboxConfig { faults: vec![rule], ..SandboxConfig::default() }).await.unwrap();
    let client = Client::new(&sandbox, "sandbox-key");
    let post = tokio::spawn(async move { client.post_keyed("r1", &image("r1")).await.is_none() });
    until("r1 is in the books", || !sandbox.books().renders.is_empty()).await;
    drop(sandbox);
    let ended = tokio::time::timeout(Duration::from_secs(30), post).await.expect("the end of the request");
    assert!(ended.unwrap(), "closed without an answer");
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_glassline-sandbox");

fn run(mut command: Command, config: &Path) -> (Process, String) {
    command.args(["--port", "0", "--config"]).arg(config).stdout(Stdio::piped());
    let mut process = Process(command.spawn().unwrap());
    let mut url = String::new();
    BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut url).unwrap();
    (process, url.trim().to_owned())
}

#[tokio::test]
async fn the_program_prints_its_address_and_a_kill_loses_no_accepted_render() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sandbox.json");
    let books = folder.path().join("books.jsonl");
    let text =
        serde_json::json!({"accounts": [{"name": "main", "api_key": "key-main"}], "books_file": books});
    std::fs::write(&file, text.to_string()).unwrap();
    let (mut process, url) = run(Command::new(PROGRAM), &file);
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    let client = Client::at(&url, "key-main");
    let mut ids = Vec::new();
    for number in 0..20 {
        ids.push(client.submit(&format!("r{number}")).await);
    }
    process.0.kill().unwrap();
    process.0.wait().unwrap();
    let (_process, url) = run(Command::new(PROGRAM), &file);
    let client = Client::at(&url, "key-main");
    let shown = client.get("/books").await.json();
    let kept: Vec<&str> =
        shown["renders"].as_array().unwrap().iter().map(|r| r["id"].as_str().unwrap()).collect();
    assert_eq!(kept, ids);

    std::fs::write(&file, "{\"accounts\": [], \"typo\": 1}").unwrap();
    let mut command = Command::new(PROGRAM);
    let ended = command.arg("--config").arg(&file).output().unwrap();
    assert!(!ended.status.success() && String::from_utf8_lossy(&ended.stderr).contains("sandbox.json"));
}

#[tokio::test]
async fn what_cannot_be_written_down_is_not_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sandbox.json");
    let books = folder.path().join("books.jsonl");
    let text =
        serde_json::json!({"accounts": [{"name": "main", "api_key": "key-main"}], "books_file": books});
    std::fs::write(&file, text.to_string()).unwrap();
    // A limit on the size of files, with its signal ignored, is a disk that fills up.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 4; exec \"$0\" \"$@\"", PROGRAM]);
    let (process, url) = run(command, &file);
    let client = Client::at(&url, "key-main");
    let mut ids = Vec::new();
    let refused = loop {
        let reference = format!("r{}", ids.len());
        let answer = client.post_keyed(&reference, &image(&reference)).await.unwrap();
        if answer.status != 201 {
            break answer;
        }
        ids.push(answer.json()["id"].clone());
        assert!(ids.len() < 100, "the limit was never met");
    };
    assert_eq!(refused.refusal(), (500, "internal_error".into()));
    assert!(std::fs::read(&books).unwrap().ends_with(b"\n"), "half a line would spoil the next one");
    assert_eq!(client.get("/books").await.json()["totals"]["accepted"], ids.len());
    drop(process);
    let (_process, url) = run(Command::new(PROGRAM), &file);
    let client = Client::at(&url, "key-main");
    let shown = client.get("/books").await.json();
    let kept: Vec<_> =
        shown["renders"].as_array().unwrap().iter().map(|render| render["id"].clone()).collect();
    assert_eq!(kept, ids);
    client.submit("after").await;
}

#[tokio::test]
async fn the_books_are_an_ordinary_file() {
    let config = SandboxConfig { books_file: Some("/dev/zero".into()), ..SandboxConfig::default() };
    assert!(matches!(Sandbox::start(config).await, Err(SandboxError::Books(JournalError::File { .. }))));
}
