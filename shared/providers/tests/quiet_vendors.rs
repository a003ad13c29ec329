//! What the adapters of the vendors log at the most talkative level: never a prompt, a key, a secret or an output's
//! address. A test program of its own, because it listens to the whole process.

// Clippy's allowance for tests doesn't reach the helpers of an integration test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::wildcard_enum_match_arm)]
#![allow(clippy::too_many_arguments, reason = "a signature has that many parts")]
#![allow(dead_code, reason = "the stand-ins have more than is used here")]

#[path = "vendors/bedrock.rs"]
mod bedrock;
#[path = "vendors/described.rs"]
mod described;
#[path = "vendors/desk.rs"]
mod desk;
#[path = "vendors/drive.rs"]
mod drive;
#[path = "vendors/fal.rs"]
mod fal;
#[path = "vendors/replicate.rs"]
mod replicate;
#[path = "vendors/runway.rs"]
mod runway;
#[path = "vendors/stand.rs"]
mod stand;

use desk::{Fault, Phase, refusal};
use drive::{attempt, submit};
use glassline_protocol::provider::{Provider, Submit};
use serde_json::json;
use stand::{KEY, NOW_MS, OUR_SECRET, Scene, Stand, main_lane, reference};
use std::io;
use std::sync::{Arc, Mutex};

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
    let stands: Vec<Box<dyn Stand>> = vec![
        Box::new(replicate::Replicate { listed: true }),
        Box::new(fal::Fal::new()),
        Box::new(runway::Runway),
        Box::new(bedrock::Bedrock),
        Box::new(described::Higgsfield),
        Box::new(described::Luma),
        Box::new(described::Stability),
        Box::new(described::ComfyUi),
    ];
    for stand in &stands {
        everything(&**stand, &mut shown).await;
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for event in [
        "provider_submit_unknown",
        "provider_status_word_unknown",
        "provider_error_code_unknown",
        "provider_answer_unclear",
        "provider_no_answer",
        "provider_cost_reported",
    ] {
        assert!(log.contains(event), "{event} is missing from the log");
    }
    let secrets = [
        "heron",
        "sk-very-secret",
        OUR_SECRET,
        "signature=",
        "Bearer",
        "whsec_",
        "wJalrXUtnFEMI",
        "mac=",
        "Credential=",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    ];
    assert!(KEY.contains("sk-very-secret"));
    for (name, text) in [("log", &log), ("debug", &shown)] {
        for private in secrets {
            if let Some(at) = text.find(private) {
                let (from, to) = (at.saturating_sub(300), (at + 100).min(text.len()));
                panic!(
                    "`{private}` is in the {name}: {}",
                    String::from_utf8_lossy(&text.as_bytes()[from..to])
                );
            }
        }
    }
}

async fn everything(stand: &dyn Stand, shown: &mut String) {
    let scene = Scene::new(stand).await;
    let lane = main_lane();
    // Free text of a provider that quotes the prompt.
    let words = json!({"detail": "a heron for x", "error": {"type": "a heron", "code": "a heron"}, "name": "a heron",
        "code": "a heron", "message": "a heron"});
    let mut answers =
        vec![Fault::CutAfter, Fault::CutBefore, Fault::After(refusal(200, json!({"x": "a heron"})))];
    answers
        .extend([400, 401, 409, 422, 429, 500].map(|status| Fault::Instead(refusal(status, words.clone()))));
    for (number, fault) in answers.into_iter().enumerate() {
        scene.desk.fault(fault);
        let told = attempt(stand, &scene, &reference(&format!("f{number}"), 1)).await;
        scene.desk.clear_faults();
        shown.push_str(&format!("{told:?}"));
    }
    let Submit::Accepted(task) = submit(stand, &scene.providers, &reference("s1", 1)).await else { panic!() };
    let id = scene.desk.renders().last().unwrap().id.clone();
    let mut phases = vec![Phase::Odd, Phase::Succeeded];
    phases.extend(stand.terminals().into_iter().map(|(phase, _)| phase));
    phases
        .push(Phase::Told(json!({"status": "a heron", "state": "a heron", "http": 418, "response": words})));
    phases.push(Phase::Told(
        json!({"status": "failed", "state": "failed", "error": "a heron for x", "http": 500,
        "failureCode": "a heron", "failure_code": "a heron", "response": words, "failureMessage": "a heron"}),
    ));
    for phase in phases {
        scene.desk.set(&id, phase);
        shown.push_str(&format!("{:?}", scene.providers.status(&lane, &task).await));
        shown.push_str(&format!("{:?}", scene.providers.cancel(&lane, &task).await));
        shown.push_str(&format!("{:?}", scene.providers.find(&lane, &reference("s1", 1), NOW_MS).await));
    }
    let nobody = stand::build(&stand.lane("http://127.0.0.1:1")).unwrap();
    shown.push_str(&format!("{:?}", nobody.status(&lane, &task).await));
    shown.push_str(&format!("{:?} {:?}", scene.providers, scene.providers.output_access(&lane)));
    let config: glassline_providers::ProvidersConfig =
        serde_json::from_value(json!({"main": stand.lane(&scene.desk.url())})).unwrap();
    shown.push_str(&format!("{config:?}"));
}
