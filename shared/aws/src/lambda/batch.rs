//! A batch of SQS records.

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse};
use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _};
use glassline_protocol::body::BadBody;
use glassline_protocol::message::{Message, Subject};
use glassline_protocol::note::Note;
use glassline_protocol::settle::Fault;
use lambda_runtime::Error;
use serde_json::Value;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;

/// Records of one batch handled at the same time.
const CONCURRENCY: usize = 10;

/// One record: its id, and its message or why it is none.
#[derive(Debug)]
pub struct Record {
    /// SQS's message id; empty only if the event had none.
    pub id: String,
    /// The message.
    pub message: Result<Message, BadBody>,
}

/// What became of a record.
pub type Handled = Result<Note, Fault>;

/// The records of an event, each parsed on its own. `None` when the event isn't one of SQS.
#[must_use]
pub fn records(event: &Value) -> Option<Vec<Record>> {
    let text = |record: &Value, field: &str| {
        // Field by field, not the whole event as one type: a record of another shape must not spoil its neighbours.
        record.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let records = event.get("Records")?.as_array()?.iter().map(|record| Record {
        id: text(record, "messageId"),
        message: Message::from_body(&text(record, "body")),
    });
    Some(records.collect())
}

fn subject(message: &Message) -> Option<Subject> {
    match message {
        Message::Handoff(handoff) => Some(handoff.subject()),
        Message::Check(check) => Some(check.subject.clone()),
        Message::Finish(finish) => Some(finish.subject.clone()),
        Message::Rollback(rollback) => Some(rollback.subject.clone()),
        Message::Wake(_) | Message::Qa(_) => None,
    }
}

fn log(function: &'static str, about: Option<&Subject>, handled: &Handled) {
    let job = about.map(|subject| subject.job().to_string()).unwrap_or_default();
    let lane = about.map(|subject| subject.lane.to_string()).unwrap_or_default();
    let attempt = about.map_or(0, |subject| subject.attempt);
    let token = about.map(|subject| crate::telemetry::token_hash(&subject.token)).unwrap_or_default();
    match handled {
        Ok(note) => {
            let note = note.word();
            tracing::info!(event = "handled", function, job, lane, attempt, token, note);
        }
        Err(fault) => {
            let (code, why) = (fault.code(), fault.to_string());
            tracing::warn!(event = "not_handled", function, job, lane, attempt, token, code, why);
        }
    }
}

async fn one<H, F>(function: &'static str, record: Record, handle: &H) -> Option<String>
where
    H: Fn(Message) -> F,
    F: Future<Output = Handled>,
{
    let (about, handled) = match record.message {
        Ok(message) => {
            let about = subject(&message);
            // A fault of ours in one record must not take its neighbours with it.
            let handled =
                AssertUnwindSafe(handle(message)).catch_unwind().await.unwrap_or_else(|_| Err(panicked()));
            (about, handled)
        }
        Err(bad) => (None, Err(poison_or_newer(&bad))),
    };
    log(function, about.as_ref(), &handled);
    handled.is_err().then_some(record.id)
}

/// Handles a batch, each record on its own, and reports those that must come again. Poison is reported like the rest:
/// after its receives are used up, the queue moves it to the dead letters, where nothing is lost.
///
/// # Errors
/// When a record that must come again has no id to report it by: then the whole batch comes again.
pub async fn handle_batch<H, F>(
    function: &'static str,
    records: Vec<Record>,
    handle: H,
) -> Result<Value, Error>
where
    H: Fn(Message) -> F,
    F: Future<Output = Handled>,
{
    let failed: Vec<Option<String>> = stream::iter(records)
        .map(|record| one(function, record, &handle))
        .buffer_unordered(CONCURRENCY)
        .collect()
        .await;
    report(failed.into_iter().flatten().collect())
}

/// Handles a batch in groups: records with one key are handled together, and come again together when that fails.
///
/// # Errors
/// As [`handle_batch`].
pub async fn handle_groups<K, G, H, F>(
    function: &'static str,
    records: Vec<Record>,
    key: G,
    handle: H,
) -> Result<Value, Error>
where
    K: Ord,
    G: Fn(&Message) -> Option<K>,
    H: Fn(K, Vec<Message>) -> F,
    F: Future<Output = Result<(), Fault>>,
{
    let mut groups: BTreeMap<K, (Vec<String>, Vec<Message>)> = BTreeMap::new();
    let mut failed = Vec::new();
    for record in records {
        let fault = match record.message {
            Ok(message) => match key(&message) {
                Some(key) => {
                    let group = groups.entry(key).or_default();
                    group.0.push(record.id);
                    group.1.push(message);
                    continue;
                }
                None => Fault::Poison("a message of another queue is on this function's queue".into()),
            },
            Err(bad) => poison_or_newer(&bad),
        };
        log(function, None, &Err(fault));
        failed.push(record.id);
    }
    for (key, (ids, messages)) in groups {
        let handled =
            AssertUnwindSafe(handle(key, messages)).catch_unwind().await.unwrap_or_else(|_| Err(panicked()));
        if let Err(fault) = handled {
            log(function, None, &Err(fault));
            failed.extend(ids);
        }
    }
    report(failed)
}

fn panicked() -> Fault {
    Fault::retry("the handler of this record panicked, which is a fault in Glassline")
}

fn poison_or_newer(bad: &BadBody) -> Fault {
    match bad {
        BadBody::Newer(_) => Fault::retry(bad.to_string()),
        BadBody::TooLarge(_) | BadBody::NotJson(_) | BadBody::NotAnObject(_) | BadBody::Fields(_) => {
            Fault::Poison(bad.to_string())
        }
    }
}

fn report(failed: Vec<String>) -> Result<Value, Error> {
    let mut response = SqsBatchResponse::default();
    for id in failed {
        if id.is_empty() {
            // An empty identifier would fail the whole batch all the same, without saying why.
            return Err("a record that must come again has no message id".into());
        }
        let mut failure = BatchItemFailure::default();
        failure.item_identifier = id;
        response.batch_item_failures.push(failure);
    }
    Ok(serde_json::to_value(response)?)
}
