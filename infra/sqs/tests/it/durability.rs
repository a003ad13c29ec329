//! What is acknowledged survives kill -9: a second process works on a file and is killed at some point.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use glassline_sqs::{
    AttributeValue, Durability, Engine, EngineOptions, ManualClock, MessageAttribute, Outgoing,
    QueueSettings, SqsError,
};

use crate::common::{START_MS, fifo};

/// Names the store that the second process works on.
const CHILD: &str = "GLASSLINE_SQS_TEST_STORE";
/// How many acknowledgements to wait for before killing it.
const LINES: usize = 400;

fn open(path: &Path, clock: &ManualClock) -> Result<Engine, SqsError> {
    let options = EngineOptions { clock: Arc::new(clock.clone()), durability: Durability::ProcessCrash };
    Engine::open_with(Some(path), options)
}

/// Not a test by itself: what the second process does until it is killed. It tells each acknowledgement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn works_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let engine = open(Path::new(&path), &ManualClock::new(START_MS)).unwrap();
    engine.create_queue("q", QueueSettings::default()).await.unwrap();
    engine.create_queue("held", QueueSettings::default()).await.unwrap();
    for n in 0_u64.. {
        engine.send("q", Outgoing::new(format!("{n}"))).await.unwrap();
        println!("sent {n}");
        if n % 3 == 0 {
            let message = engine.receive("q", 1, 0, None).await.unwrap().remove(0);
            println!("received {}", message.body);
            engine.delete("q", &[message.receipt]).await.unwrap();
            println!("deleted {}", message.body);
        }
        if n % 50 == 0 {
            engine.send("held", Outgoing::new(format!("{n}"))).await.unwrap();
            engine.receive("held", 10, 0, None).await.unwrap();
            println!("held {n}");
        }
    }
}

/// Lets the second process acknowledge [`LINES`] times, kills it, gives what it acknowledged.
fn acknowledged(path: &Path) -> Vec<(String, String)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "durability::works_until_it_is_killed", "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut acknowledged = Vec::new();
    for line in output.lines() {
        let line = line.unwrap();
        // The test harness prints its own lines, too, and its first words without a newline.
        let Some((kind, n)) = line.split_once(' ') else { continue };
        if n.parse::<u64>().is_ok() && ["sent", "received", "deleted", "held"].contains(&kind) {
            acknowledged.push((kind.to_owned(), n.to_owned()));
        }
        if acknowledged.len() == LINES {
            // On Unix this is SIGKILL.
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(acknowledged.len() >= LINES, "the second process ended early");
    acknowledged
}

#[tokio::test]
async fn acknowledged_sends_and_deletes_survive_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queues.sqlite");
    let acknowledged = tokio::task::spawn_blocking({
        let path = path.clone();
        move || acknowledged(&path)
    });
    let acknowledged = acknowledged.await.unwrap();
    let of = |kind: &str| {
        let lines = acknowledged.iter().filter(|(k, _)| k == kind).map(|(_, n)| n.clone());
        lines.collect::<BTreeSet<_>>()
    };
    let (sent, received, deleted, held) = (of("sent"), of("received"), of("deleted"), of("held"));
    let clock = ManualClock::new(START_MS);
    let engine = open(&path, &clock).unwrap();
    let stored = engine.peek("q", usize::MAX).await.unwrap();
    let stored = stored.into_iter().map(|message| message.body).collect::<BTreeSet<_>>();
    // The last delete may have been done without having been told.
    let lost = sent.difference(&stored).filter(|n| !received.contains(*n)).collect::<Vec<_>>();
    assert!(lost.len() <= 1, "sent, never received, and gone: {lost:?}");
    let back = deleted.intersection(&stored).collect::<Vec<_>>();
    assert!(back.is_empty(), "deleted, but there again: {back:?}");
    let extra = stored.difference(&sent).collect::<Vec<_>>();
    assert!(extra.len() <= 1, "more than the one that was never told: {extra:?}");
    assert!(deleted.len() > 50 && stored.len() > 100, "{} deleted, {} stored", deleted.len(), stored.len());
    // What was in flight is still in flight, and comes back when its visibility ends.
    let depth = engine.depth("held").await.unwrap();
    assert_eq!(depth.visible, 0);
    assert!(depth.in_flight >= u64::try_from(held.len()).unwrap());
    assert!(engine.receive("held", 10, 0, None).await.unwrap().is_empty());
    clock.advance(30_000);
    let again = engine.receive("held", 10, 0, None).await.unwrap();
    assert!(again.iter().all(|message| message.receives == 2) && again.len() >= held.len());
}

#[tokio::test]
async fn everything_of_a_message_survives_closing_and_opening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queues.sqlite");
    let clock = ManualClock::new(START_MS);
    let engine = open(&path, &clock).unwrap();
    let settings = QueueSettings { visibility_ms: 5_500, ..fifo() };
    engine.create_queue("q.fifo", settings.clone()).await.unwrap();
    let mut message = Outgoing::new("body é\n").in_group("g").deduplicated_by("d");
    message.trace_header = Some("Root=1".to_owned());
    for (name, value) in
        [("t", AttributeValue::Text("x".to_owned())), ("b", AttributeValue::Binary(vec![0, 255]))]
    {
        let data_type = if name == "t" { "String" } else { "Binary" }.to_owned();
        message.message_attributes.insert(name.to_owned(), MessageAttribute { data_type, value });
    }
    let sent = engine.send("q.fifo", message.clone()).await.unwrap();
    let before = engine.receive("q.fifo", 1, 0, None).await.unwrap().remove(0);
    drop(engine);
    let engine = open(&path, &clock).unwrap();
    engine.create_queue("q.fifo", settings).await.unwrap();
    let seen = engine.peek("q.fifo", 10).await.unwrap().remove(0);
    assert_eq!(glassline_sqs::Message { receipt: String::new(), ..before.clone() }, seen);
    assert_eq!(seen.message_attributes, message.message_attributes);
    assert_eq!(seen.md5_of_message_attributes(), sent.md5_of_message_attributes);
    // The receipt, the deduplication and the group's order hold across the restart.
    assert_eq!(engine.send("q.fifo", message).await.unwrap().id, sent.id);
    let next = Outgoing::new("next").in_group("g").deduplicated_by("e");
    assert!(engine.send("q.fifo", next).await.unwrap().sequence_number > sent.sequence_number);
    assert!(engine.receive("q.fifo", 10, 0, None).await.unwrap().is_empty());
    engine.delete("q.fifo", &[before.receipt]).await.unwrap();
    assert_eq!(engine.receive("q.fifo", 10, 0, None).await.unwrap()[0].body, "next");
}

#[tokio::test]
async fn a_file_that_is_no_store_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    let text = "not a database, but long enough to be taken for one\n".repeat(50);
    std::fs::write(&path, &text).unwrap();
    assert!(matches!(Engine::open(&path), Err(SqsError::Storage { .. })));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    let other = folder.path().join("other.sqlite");
    let conn = rusqlite::Connection::open(&other).unwrap();
    conn.execute_batch("CREATE TABLE mine (x); INSERT INTO mine VALUES (1);").unwrap();
    drop(conn);
    let refused = Engine::open(&other).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("no queue store"), "{refused}");
    let conn = rusqlite::Connection::open(&other).unwrap();
    assert_eq!(conn.query_row("SELECT x FROM mine", [], |row| row.get::<_, i64>(0)).unwrap(), 1);
    assert!(matches!(Engine::open(&folder.path().join("no/such/folder")), Err(SqsError::Storage { .. })));
}

#[tokio::test]
async fn one_engine_has_a_file_at_a_time_and_only_its_owner_may_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queues.sqlite");
    let engine = Engine::open(&path).unwrap();
    engine.create_queue("q", QueueSettings::default()).await.unwrap();
    let second = tokio::task::spawn_blocking({
        let path = path.clone();
        move || Engine::open(&path).map(|_| ())
    });
    let refused = second.await.unwrap().unwrap_err();
    assert!(refused.to_string().contains("in use"), "{refused}");
    #[cfg(unix)]
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let mode = std::os::unix::fs::PermissionsExt::mode(&entry.unwrap().metadata().unwrap().permissions());
        assert_eq!(mode & 0o077, 0);
    }
    engine.send("q", Outgoing::new("x")).await.unwrap();
    drop(engine);
    let engine = Engine::open(&path).unwrap();
    assert_eq!(engine.depth("q").await.unwrap().visible, 1);
}
