//! A batch of SQS records.

use super::given_back::{GiveBack, GivenBack};
use crate::telemetry::trace::{self, Trace};
use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse};
use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _};
use glassline_protocol::body::BadBody;
use glassline_protocol::ids::LaneName;
use glassline_protocol::message::{Message, Subject};
use glassline_protocol::note::Note;
use glassline_protocol::settle::Fault;
use lambda_runtime::Error;
use serde_json::Value;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use tracing::{Instrument as _, Span};

/// Records of one batch handled at the same time.
const CONCURRENCY: usize = 10;
/// Traces named in one line of a group.
const TRACES: usize = 5;

/// One record: its id, its message or why it is none, and what it takes to have it sooner again.
#[derive(Debug)]
pub struct Record {
    /// SQS's message id; empty only if the event had none.
    pub id: String,
    /// The message.
    pub message: Result<Message, BadBody>,
    /// How it can be given back; `None` when the record doesn't say.
    pub source: Option<GivenBack>,
    /// The trace that it belongs to, if its sender named one.
    pub trace: Option<Trace>,
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
    let records = event.get("Records")?.as_array()?.iter().map(|record| {
        let attribute = |name: &str| record.get("attributes")?.get(name)?.as_str();
        Record {
            id: text(record, "messageId"),
            message: Message::from_body(&text(record, "body")),
            source: GivenBack::new(
                &text(record, "eventSourceARN"),
                text(record, "receiptHandle"),
                attribute("ApproximateReceiveCount").and_then(|count| count.parse().ok()),
            ),
            trace: attribute(trace::ATTRIBUTE).and_then(Trace::parse),
        }
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

fn lane(message: &Message) -> Option<&LaneName> {
    match message {
        Message::Handoff(handoff) => Some(&handoff.lane),
        Message::Check(check) => Some(&check.subject.lane),
        Message::Finish(finish) => Some(&finish.subject.lane),
        Message::Rollback(rollback) => Some(&rollback.subject.lane),
        Message::Wake(wake) => Some(&wake.lane),
        Message::Qa(_) => None,
    }
}

/// What every line about a record says. The span is never filtered away: lines of any level stand in it.
fn span(function: &'static str, record: &Record) -> Span {
    let message = record.message.as_ref().ok();
    let about = message.and_then(subject);
    let lane = message.and_then(lane).map(ToString::to_string);
    let job = about.as_ref().map(|about| about.job().to_string());
    let attempt = about.as_ref().map(|about| about.attempt);
    let token = about.as_ref().map(|about| crate::telemetry::token_hash(&about.token));
    let (message_id, trace_id) = (record.id.as_str(), record.trace.as_ref().map(Trace::id));
    tracing::error_span!("record", function, job, lane, attempt, token, message_id, trace_id)
}

fn log(handled: &Handled) {
    match handled {
        Ok(note) => tracing::info!(event = "handled", note = note.word()),
        Err(fault) => {
            tracing::warn!(event = "not_handled", code = fault.code(), why = fault.to_string());
        }
    }
}

/// A record that must come again, sooner than by itself where that makes sense.
struct Failed {
    id: String,
    back: Option<GivenBack>,
}

impl Failed {
    fn new(id: String, source: Option<GivenBack>, fault: &Fault) -> Self {
        let back = match fault {
            Fault::RetryAfter { .. } => source,
            // It will never be handled: it has no haste.
            Fault::Poison(_) => None,
        };
        Self { id, back }
    }
}

async fn one<H, F>(record: Record, handle: &H) -> Option<Failed>
where
    H: Fn(Message) -> F,
    F: Future<Output = Handled>,
{
    let handled = match record.message {
        Ok(message) => {
            // A fault of ours in one record must not take its neighbours with it.
            AssertUnwindSafe(handle(message)).catch_unwind().await.unwrap_or_else(|_| Err(panicked()))
        }
        Err(bad) => Err(poison_or_newer(&bad)),
    };
    log(&handled);
    handled.err().map(|fault| Failed::new(record.id, record.source, &fault))
}

/// Handles a batch, each record on its own, and reports those that must come again. Poison is reported like the rest:
/// after its receives are used up, the queue moves it to the dead letters, where nothing is lost. What a handler gives
/// back comes again as soon as `back` says.
///
/// # Errors
/// When a record that must come again has no id to report it by: then the whole batch comes again.
pub async fn handle_batch<H, F>(
    function: &'static str,
    records: Vec<Record>,
    back: &impl GiveBack,
    handle: H,
) -> Result<Value, Error>
where
    H: Fn(Message) -> F,
    F: Future<Output = Handled>,
{
    let failed: Vec<Option<Failed>> = stream::iter(records)
        .map(|record| {
            let (span, trace) = (span(function, &record), record.trace.clone());
            trace::scope(trace, one(record, &handle)).instrument(span)
        })
        .buffer_unordered(CONCURRENCY)
        .collect()
        .await;
    report(failed.into_iter().flatten().collect(), back).await
}

/// Records that are handled together.
#[derive(Default)]
struct Group {
    records: Vec<(String, Option<GivenBack>)>,
    messages: Vec<Message>,
    traces: Vec<String>,
}

/// Handles a batch in groups: records with one key are handled together, and come again together when that fails.
///
/// A group belongs to the invocation's own trace, and its lines name those of its records: what many messages caused
/// together belongs to none of them alone, and a wake's trace would otherwise pass from each job to the next for ever.
///
/// # Errors
/// As [`handle_batch`].
pub async fn handle_groups<K, G, H, F>(
    function: &'static str,
    records: Vec<Record>,
    back: &impl GiveBack,
    key: G,
    handle: H,
) -> Result<Value, Error>
where
    K: Ord + std::fmt::Display,
    G: Fn(&Message) -> Option<K>,
    H: Fn(K, Vec<Message>) -> F,
    F: Future<Output = Result<(), Fault>>,
{
    let mut groups: BTreeMap<K, Group> = BTreeMap::new();
    let mut failed = Vec::new();
    for record in records {
        let span = span(function, &record);
        let fault = match record.message {
            Ok(message) => match key(&message) {
                Some(key) => {
                    let group = groups.entry(key).or_default();
                    group.records.push((record.id, record.source));
                    group.messages.push(message);
                    group.traces.extend(record.trace.map(|trace| trace.id().to_owned()));
                    continue;
                }
                None => Fault::Poison("a message of another queue is on this function's queue".into()),
            },
            Err(bad) => poison_or_newer(&bad),
        };
        failed.push(Failed::new(record.id, record.source, &fault));
        span.in_scope(|| log(&Err(fault)));
    }
    for (key, Group { records, messages, mut traces }) in groups {
        traces.dedup();
        traces.truncate(TRACES);
        let caused_by = (!traces.is_empty()).then(|| traces.join(" "));
        let span = tracing::error_span!("group", function, lane = %key, caused_by);
        let handled = AssertUnwindSafe(handle(key, messages)).catch_unwind().instrument(span.clone()).await;
        if let Err(fault) = handled.unwrap_or_else(|_| Err(panicked())) {
            failed.extend(records.into_iter().map(|(id, source)| Failed::new(id, source, &fault)));
            span.in_scope(|| log(&Err(fault)));
        }
    }
    report(failed, back).await
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

async fn report(failed: Vec<Failed>, back: &impl GiveBack) -> Result<Value, Error> {
    let mut response = SqsBatchResponse::default();
    let mut given_back = Vec::new();
    for Failed { id, back } in failed {
        if id.is_empty() {
            // An empty identifier would fail the whole batch all the same, without saying why.
            return Err("a record that must come again has no message id".into());
        }
        let mut failure = BatchItemFailure::default();
        failure.item_identifier = id;
        response.batch_item_failures.push(failure);
        given_back.extend(back);
    }
    if !given_back.is_empty() {
        back.give_back(given_back).await;
    }
    Ok(serde_json::to_value(response)?)
}
