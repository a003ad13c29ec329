//! What the protocol does with a submit, after `functions/worker`: one POST, and after an unknown answer whatever the
//! tier allows, so that the vendor's books can be asked what it cost.

use crate::stand::{NOW_MS, Scene, Stand, main_lane, reference, request};
use glassline_protocol::ids::TaskId;
use glassline_protocol::provider::{ErrorClass, Find, Provider, Recovery, Reference, Submit};
use glassline_providers::{CallbackRequest, Providers};
use serde_json::{Value, json};

/// How an attempt's submit ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Submitted {
    /// Its task is known.
    Task(TaskId),
    /// Refused: another attempt may follow.
    Refused(ErrorClass),
    /// Proven not accepted: another attempt may follow.
    NotAccepted,
    /// Nobody can tell: a person decides.
    Held,
}

pub(crate) fn params(stand: &dyn Stand) -> Value {
    match stand.name() {
        "comfyui" => {
            json!({"6": {"class_type": "CLIPTextEncode", "inputs": {"text": "old", "clip": ["4", 1]}}})
        }
        "stability" => json!({"image": "data:image/png;base64,cG5n", "seed": 7}),
        _ => json!({"seed": 7}),
    }
}

pub(crate) async fn submit(stand: &dyn Stand, providers: &Providers, reference: &Reference) -> Submit {
    providers.submit(&main_lane(), &request(reference, &params(stand)), reference).await
}

/// Submits an attempt and resolves a lost answer.
pub(crate) async fn attempt(stand: &dyn Stand, scene: &Scene, reference: &Reference) -> Submitted {
    let providers = &scene.providers;
    match submit(stand, providers, reference).await {
        Submit::Accepted(task) => Submitted::Task(task),
        Submit::Rejected { class, .. } => Submitted::Refused(class),
        Submit::Unknown => match providers.capabilities(&main_lane()).recovery {
            Recovery::Key { .. } => {
                for _ in 0..3 {
                    // Whatever a repeat says against the render says nothing of the first POST.
                    if let Submit::Accepted(task) = submit(stand, providers, reference).await {
                        return Submitted::Task(task);
                    }
                }
                Submitted::Held
            }
            Recovery::Lookup { .. } => match providers.find(&main_lane(), reference, NOW_MS).await {
                Find::Found(task) => Submitted::Task(task),
                Find::NotFound => Submitted::NotAccepted,
                Find::Unknown => Submitted::Held,
            },
            Recovery::Callback { .. } => by_callback(stand, scene, reference).await,
            Recovery::None => Submitted::Held,
        },
    }
}

/// The vendor calls back for every render that it has; the one that names our reference is ours.
async fn by_callback(stand: &dyn Stand, scene: &Scene, reference: &Reference) -> Submitted {
    for render in scene.desk.renders() {
        let Some(sent) = stand.callback(&scene.desk, &render, NOW_MS) else { continue };
        let (_, query) = sent.address.split_once('?').unwrap();
        let request = CallbackRequest { query, headers: &sent.headers, body: &sent.body, now_ms: NOW_MS };
        match scene.providers.callback(&main_lane(), &request).await {
            Ok(told) if told.reference == *reference => return Submitted::Task(told.task),
            Ok(_) => {}
            Err(error) => panic!("{}: {error}", stand.name()),
        }
    }
    Submitted::Held
}

/// A task of a fresh attempt, accepted without trouble.
pub(crate) async fn accepted(stand: &dyn Stand, scene: &Scene, shot: &str) -> TaskId {
    match submit(stand, &scene.providers, &reference(shot, 1)).await {
        Submit::Accepted(task) => task,
        told @ (Submit::Rejected { .. } | Submit::Unknown) => panic!("{}: {told:?}", stand.name()),
    }
}
