//! What reaches the logs and `Debug`, at the most talkative level: never a prompt, a key or an output's address. A test
//! program of its own, because it listens to the whole process.

// Clippy's allowance for tests doesn't reach the helpers of an integration test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "it/support.rs"]
#[allow(dead_code)]
mod support;

use glassline_protocol::provider::{Provider, Submit, TaskState};
use glassline_providers::{LaneConfig, ProvidersConfig};
use glassline_sandbox::{FaultKind, FaultRule};
use serde_json::json;
use std::io;
use std::sync::{Arc, Mutex};
use support::{
    BY_KEY, BY_LOOKUP, KEY, PROMPT, Raw, Then, at, lane, providers, reference, request, sandbox, say, task,
};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn nothing_private_is_logged_or_shown() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();

    let mut shown = String::new();
    with_the_sandbox(&mut shown).await;
    with_hostile_answers(&mut shown).await;

    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for event in [
        "provider_submit_unknown",
        "provider_status_word_unknown",
        "provider_error_code_unknown",
        "provider_answer_unclear",
        "provider_no_answer",
        "provider_reference_paid_twice",
    ] {
        assert!(log.contains(event), "{event} is missing from the log");
    }
    for (name, text) in [("log", &log), ("debug", &shown)] {
        for private in [PROMPT, "heron", KEY, "signature=", "Bearer"] {
            if let Some(at) = text.find(private) {
                let (from, to) = (at.saturating_sub(200), (at + 100).min(text.len()));
                panic!(
                    "`{private}` is in the {name}: {}",
                    String::from_utf8_lossy(&text.as_bytes()[from..to])
                );
            }
        }
    }
}

async fn with_the_sandbox(shown: &mut String) {
    let (sandbox, providers, clock) = sandbox(BY_KEY, |_| {}).await;
    for kind in [
        FaultKind::DropRequest,
        FaultKind::ErrorBefore,
        FaultKind::RejectModeration,
        FaultKind::RejectInvalid,
        FaultKind::RejectThrottled,
        FaultKind::ErrorAfter,
    ] {
        sandbox.set_faults(vec![FaultRule::next(kind, 1)]).unwrap();
        let told = providers.submit(&lane(), &request(), &reference("s1")).await;
        shown.push_str(&format!("{told:?}"));
    }
    let Submit::Accepted(task) = providers.submit(&lane(), &request(), &reference("s1")).await else {
        panic!()
    };
    sandbox.set_faults(vec![FaultRule::next(FaultKind::UnknownStatusWord, 1)]).unwrap();
    shown.push_str(&format!("{:?}", providers.status(&lane(), &task).await));
    clock.forward(1_000);
    let told = providers.status(&lane(), &task).await;
    assert!(matches!(told, TaskState::Completed(_)), "{told:?}");
    shown.push_str(&format!("{:?}", providers.cancel(&lane(), &task).await));
    let lanes = [(lane(), LaneConfig::Sandbox(at(&sandbox.url(), BY_KEY)))].into();
    shown.push_str(&format!("{providers:?} {:?}", ProvidersConfig { lanes }));
}

async fn with_hostile_answers(shown: &mut String) {
    let ours = reference("s1").to_string();
    let url = "https://outputs.example/x?signature=0123";
    let twice = json!({"id": "rnd_1", "reference": ours, "status": "succeeded", "outputs": [{"url": url}]});
    let problem = json!({"code": PROMPT, "message": PROMPT, "param": PROMPT});
    for then in [
        say("400 Bad Request", "", &json!({"error": problem}).to_string()),
        say("500 Oops", &format!("x-echo: {PROMPT}\r\n"), PROMPT),
        say("200 OK", "", &json!({"id": "rnd_1", "status": PROMPT}).to_string()),
        say("200 OK", "", &json!({"id": "rnd_1", "status": "failed", "error": problem}).to_string()),
        say("200 OK", "", &json!({"renders": [twice, twice]}).to_string()),
        say("302 Found", "location: https://elsewhere.example/?signature=0123\r\n", ""),
        Then::Close,
        Then::Reset,
    ] {
        let raw = Raw::start(then).await;
        let providers = providers(at(&raw.url, BY_LOOKUP));
        shown.push_str(&format!("{:?}", providers.submit(&lane(), &request(), &reference("s1")).await));
        shown.push_str(&format!("{:?}", providers.status(&lane(), &task("rnd_1")).await));
        shown.push_str(&format!("{:?}", providers.find(&lane(), &reference("s1"), 0).await));
        shown.push_str(&format!("{:?}", providers.cancel(&lane(), &task("rnd_1")).await));
    }
}
