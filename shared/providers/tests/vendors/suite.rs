//! The shared scenarios, over every vendor.

use crate::bedrock::Bedrock;
use crate::described::{ComfyUi, Higgsfield, Luma, Stability};
use crate::desk::{Fault, Phase, refusal};
use crate::drive::{Submitted, accepted, attempt, submit};
use crate::fal::Fal;
use crate::replicate::Replicate;
use crate::runway::Runway;
use crate::stand::{Expect, NOW_MS, Scene, Stand, main_lane, prompt, reference};
use glassline_protocol::ids::TaskId;
use glassline_protocol::provider::{Cancel, ErrorClass, Find, Output, Provider, Recovery, Submit, TaskState};
use serde_json::json;

pub(crate) fn vendors() -> Vec<Box<dyn Stand>> {
    vec![
        Box::new(Replicate { listed: true }),
        Box::new(Replicate { listed: false }),
        Box::new(Fal::new()),
        Box::new(Runway),
        Box::new(Bedrock),
        Box::new(Higgsfield),
        Box::new(Luma),
        Box::new(Stability),
        Box::new(ComfyUi),
    ]
}

/// Fetches an output as the vault does: with the account's headers only where the adapter says so.
async fn fetch(scene: &Scene, output: &Output) -> (u16, Vec<u8>) {
    let mut request = reqwest::Client::builder().no_proxy().build().unwrap().get(&output.url);
    let access = scene.providers.output_access(&main_lane());
    let covers = |base: &str| output.url.starts_with(base.trim_end_matches('/'));
    if let Some(access) = access.filter(|access| covers(access.base.as_str())) {
        request = request.headers(access.headers);
    }
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.bytes().await.unwrap().to_vec())
}

async fn output(scene: &Scene, task: &TaskId) -> Output {
    let told = scene.providers.status(&main_lane(), task).await;
    let TaskState::Completed(outputs) = told else { panic!("{told:?}") };
    assert_eq!(outputs.len(), 1);
    outputs[0].clone()
}

#[tokio::test]
async fn a_render_is_accepted_runs_and_gives_its_output() {
    for stand in vendors() {
        let (name, scene) = (stand.name(), Scene::new(&*stand).await);
        let declared = scene.providers.capabilities(&main_lane());
        assert_eq!(declared.recovery, stand.recovery(), "{name}");
        let task = accepted(&*stand, &scene, "s1").await;
        let render = &scene.desk.renders()[0];
        assert_eq!(task, stand.task(render), "{name}");
        for phase in [Phase::Queued, Phase::Running] {
            scene.desk.set(&render.id, phase);
            assert_eq!(scene.providers.status(&main_lane(), &task).await, TaskState::Running, "{name}");
        }
        scene.desk.set(&render.id, Phase::Succeeded);
        let output = output(&scene, &task).await;
        if name == "bedrock" {
            let ours = output.url.starts_with("s3://our-bucket/renders/");
            assert!(ours && output.url.ends_with(&format!("/{}/output.mp4", render.id)), "{}", output.url);
        } else {
            let (status, bytes) = fetch(&scene, &output).await;
            assert!(status == 200 && bytes.starts_with(b"\x89PNG"), "{name}: {status}");
        }
        let ours = prompt(&reference("s1", 1));
        assert_eq!((scene.desk.posts(&ours), scene.desk.accepted(&ours)), (1, 1), "{name}");
    }
}

#[tokio::test]
async fn every_terminal_status_has_its_meaning() {
    for stand in vendors() {
        let scene = Scene::new(&*stand).await;
        for (number, (phase, expect)) in stand.terminals().into_iter().enumerate() {
            let task = accepted(&*stand, &scene, &format!("s{number}")).await;
            let id = scene.desk.renders()[number].id.clone();
            scene.desk.set(&id, phase.clone());
            let told = scene.providers.status(&main_lane(), &task).await;
            let context = format!("{} {phase:?}: {told:?}", stand.name());
            match expect {
                Expect::Cancelled => assert_eq!(told, TaskState::Cancelled, "{context}"),
                Expect::Failed(class) => {
                    let TaskState::Failed { class: got, reason } = told else { panic!("{context}") };
                    assert_eq!(got, class, "{context}");
                    assert!(!reason.is_empty() && reason.is_ascii() && !reason.contains('\n'), "{context}");
                }
            }
        }
    }
}

#[tokio::test]
async fn an_undocumented_status_is_not_an_end() {
    for stand in vendors() {
        let scene = Scene::new(&*stand).await;
        let task = accepted(&*stand, &scene, "s1").await;
        scene.desk.set(&scene.desk.renders()[0].id, Phase::Odd);
        let told = scene.providers.status(&main_lane(), &task).await;
        // Stability tells by HTTP status alone; one that isn't documented is a question to ask again.
        let wanted = if stand.name() == "stability" { TaskState::Unknown } else { TaskState::Running };
        assert_eq!(told, wanted, "{}", stand.name());
    }
}

#[tokio::test]
async fn a_lost_answer_costs_one_render_and_is_found_by_tier() {
    for stand in vendors() {
        let (name, scene, ours) = (stand.name(), Scene::new(&*stand).await, reference("s1", 1));
        for shot in ["other1", "other2"] {
            accepted(&*stand, &scene, shot).await;
        }
        scene.desk.fault(Fault::CutAfter);
        let told = attempt(&*stand, &scene, &ours).await;
        // Renders of others that came later don't hide it.
        let render = scene.desk.renders().into_iter().find(|one| one.order.prompt == prompt(&ours)).unwrap();
        let wanted = match stand.recovery() {
            Recovery::None => Submitted::Held,
            Recovery::Key { .. } | Recovery::Lookup { .. } | Recovery::Callback { .. } => {
                Submitted::Task(stand.task(&render))
            }
        };
        assert_eq!(told, wanted, "{name}");
        assert_eq!(scene.desk.accepted(&prompt(&ours)), 1, "{name}");
        let posts = if matches!(stand.recovery(), Recovery::Key { .. }) { 2 } else { 1 };
        assert_eq!(
            scene.desk.posts(&prompt(&ours)),
            posts,
            "{name}: nothing below the protocol repeats a POST"
        );
    }
}

#[tokio::test]
async fn a_lost_request_is_told_from_a_lost_answer_where_the_vendor_can_tell() {
    for stand in vendors() {
        let (name, scene, ours) = (stand.name(), Scene::new(&*stand).await, reference("s1", 1));
        accepted(&*stand, &scene, "other").await;
        scene.desk.fault(Fault::CutBefore);
        let told = attempt(&*stand, &scene, &ours).await;
        match stand.recovery() {
            Recovery::Key { .. } => assert!(matches!(told, Submitted::Task(_)), "{name}: {told:?}"),
            Recovery::Lookup { .. } => {
                assert_eq!(told, Submitted::NotAccepted, "{name}");
                let next = attempt(&*stand, &scene, &reference("s1", 2)).await;
                assert!(matches!(next, Submitted::Task(_)), "{name}: {next:?}");
                assert_eq!(scene.desk.accepted(&prompt(&reference("s1", 2))), 1, "{name}");
            }
            Recovery::Callback { .. } | Recovery::None => assert_eq!(told, Submitted::Held, "{name}"),
        }
        assert!(scene.desk.accepted(&prompt(&ours)) <= 1, "{name}");
    }
}

#[tokio::test]
async fn a_server_error_proves_nothing_either_way() {
    for stand in vendors() {
        for status in [500, 502, 503, 504, 408, 425] {
            for after in [false, true] {
                let (scene, ours) = (Scene::new(&*stand).await, reference("s1", 1));
                let answer = refusal(status, json!({"detail": "x"}));
                scene.desk.fault(if after { Fault::After(answer) } else { Fault::Instead(answer) });
                let told = submit(&*stand, &scene.providers, &ours).await;
                assert_eq!(told, Submit::Unknown, "{} {status} after: {after}", stand.name());
                assert_eq!(scene.desk.accepted(&prompt(&ours)), usize::from(after), "{}", stand.name());
                scene.desk.fault(if after {
                    Fault::After(refusal(status, json!({})))
                } else {
                    Fault::CutAfter
                });
                attempt(&*stand, &scene, &reference("s2", 1)).await;
                assert_eq!(scene.desk.accepted(&prompt(&reference("s2", 1))), 1, "{}", stand.name());
            }
        }
    }
}

#[tokio::test]
async fn documented_refusals_are_proof_and_have_their_class() {
    for stand in vendors() {
        let scene = Scene::new(&*stand).await;
        for (answer, class) in stand.refusals() {
            let context = format!("{} {answer:?}", stand.name());
            scene.desk.fault(Fault::Instead(answer));
            let told = submit(&*stand, &scene.providers, &reference("s1", 1)).await;
            let Submit::Rejected { class: got, reason, .. } = told else { panic!("{context}: {told:?}") };
            assert_eq!(got, class, "{context}");
            assert!(
                reason.len() > 10 && !reason.contains('\n') && !reason.contains("heron"),
                "{context}: {reason}"
            );
        }
        let (answer, wait_ms) = stand.throttled();
        scene.desk.fault(Fault::Instead(answer));
        let told = submit(&*stand, &scene.providers, &reference("s1", 1)).await;
        let Submit::Rejected { class, retry_after_ms, .. } = told else {
            panic!("{}: {told:?}", stand.name())
        };
        assert_eq!((class, retry_after_ms), (ErrorClass::Throttled, wait_ms), "{}", stand.name());
        assert!(scene.desk.renders().is_empty(), "{}", stand.name());
    }
}

#[tokio::test]
async fn an_acceptance_that_names_no_task_is_unknown() {
    for stand in vendors() {
        for body in [
            json!(null),
            json!({}),
            json!({"id": "", "request_id": 1.5e300, "prompt_id": [], "invocationArn": "a b"}),
        ] {
            let scene = Scene::new(&*stand).await;
            scene.desk.fault(Fault::After(refusal(200, body.clone())));
            let told = submit(&*stand, &scene.providers, &reference("s1", 1)).await;
            assert_eq!(told, Submit::Unknown, "{} {body}", stand.name());
        }
    }
}

#[tokio::test]
async fn a_wrong_key_pauses_and_a_task_that_is_not_there_is_missing() {
    for stand in vendors() {
        let scene = Scene::with(&*stand, |lane| {
            if lane.get("api_key").is_some() {
                lane["api_key"] = "id-2:another".into();
            }
        })
        .await;
        let told = submit(&*stand, &scene.providers, &reference("s1", 1)).await;
        // ComfyUI has no key, and Bedrock's credentials come from the environment.
        if !matches!(stand.name(), "comfyui" | "bedrock") {
            let refused = matches!(told, Submit::Rejected { class: ErrorClass::Unauthorized, .. });
            assert!(refused, "{}: {told:?}", stand.name());
        }
        let scene = Scene::new(&*stand).await;
        for id in
            ["nobody", "arn:aws:bedrock:us-east-1:123456789012:async-invoke/nobody000000", "a/../b", "%2e"]
        {
            let told = scene.providers.status(&main_lane(), &TaskId::new(id).unwrap()).await;
            assert_eq!(told, TaskState::Missing, "{} {id}", stand.name());
        }
        for id in [".", ".."] {
            let told = scene.providers.status(&main_lane(), &TaskId::new(id).unwrap()).await;
            assert_eq!(told, TaskState::Unknown, "{} {id}", stand.name());
        }
    }
}

#[tokio::test]
async fn an_expired_output_is_renewed_or_gone_with_the_reason() {
    for stand in vendors() {
        let (name, scene) = (stand.name(), Scene::new(&*stand).await);
        let task = accepted(&*stand, &scene, "s1").await;
        let id = scene.desk.renders()[0].id.clone();
        scene.desk.set(&id, Phase::Succeeded);
        if stand.renews() {
            let first = output(&scene, &task).await;
            let second = output(&scene, &task).await;
            assert_ne!(first.url, second.url, "{name}");
            assert_eq!(fetch(&scene, &first).await.0, 403, "{name}: the first address has expired");
            assert_eq!(fetch(&scene, &second).await.0, 200, "{name}: asking again gave a fresh one");
        }
        scene.desk.change(&id, |render| render.gone = true);
        let told = scene.providers.status(&main_lane(), &task).await;
        match name {
            // In our own bucket.
            "bedrock" => assert!(matches!(told, TaskState::Completed(_)), "{name}: {told:?}"),
            // The result endpoint forgets it altogether.
            "stability" => assert_eq!(told, TaskState::Missing, "{name}"),
            _ => {
                let TaskState::Failed { class, reason } = told else { panic!("{name}: {told:?}") };
                assert_eq!(class, ErrorClass::BadOutput, "{name}");
                assert!(reason.contains("no output of it"), "{name}: {reason}");
            }
        }
    }
}

#[tokio::test]
async fn cancelling_asks_once_and_believes_only_the_state() {
    for stand in vendors() {
        let (name, scene) = (stand.name(), Scene::new(&*stand).await);
        let task = accepted(&*stand, &scene, "s1").await;
        let told = scene.providers.cancel(&main_lane(), &task).await;
        if stand.cancels() {
            assert_eq!(told, Cancel::Requested, "{name}");
            assert_eq!(scene.providers.status(&main_lane(), &task).await, TaskState::Cancelled, "{name}");
        } else {
            assert_eq!(told, Cancel::Unsupported, "{name}");
        }
        // One that has ended keeps its output, whatever is said to it.
        let ended = accepted(&*stand, &scene, "s2").await;
        scene.desk.set(&scene.desk.renders()[1].id, Phase::Succeeded);
        scene.providers.cancel(&main_lane(), &ended).await;
        let told = scene.providers.status(&main_lane(), &ended).await;
        assert!(matches!(told, TaskState::Completed(_)), "{name}: {told:?}");
    }
}

#[tokio::test]
async fn a_lookup_is_believed_only_as_far_as_it_reaches() {
    for stand in vendors().into_iter().filter(|stand| matches!(stand.recovery(), Recovery::Lookup { .. })) {
        let (name, scene) = (stand.name(), Scene::new(&*stand).await);
        let find = |shot: &'static str, attempt| {
            let (lane, reference) = (main_lane(), reference(shot, attempt));
            let providers = &scene.providers;
            async move { providers.find(&lane, &reference, NOW_MS).await }
        };
        assert_eq!(find("s1", 1).await, Find::NotFound, "{name}: empty books");
        for number in 0..7 {
            accepted(&*stand, &scene, &format!("s{number}")).await;
        }
        let renders = scene.desk.renders();
        for (number, render) in renders.iter().enumerate() {
            let shot = ["s0", "s1", "s2", "s3", "s4", "s5", "s6"][number];
            assert_eq!(find(shot, 1).await, Find::Found(stand.task(render)), "{name}: on any page");
        }
        assert_eq!(find("s1", 2).await, Find::NotFound, "{name}: another attempt is another reference");
    }
}

#[tokio::test]
async fn another_namespace_is_another_reference() {
    for stand in vendors().into_iter().filter(|stand| stand.idempotent() || stand.name() == "comfyui") {
        let (name, scene) = (stand.name(), Scene::new(&*stand).await);
        accepted(&*stand, &scene, "s1").await;
        let mut lane = stand.lane(&scene.desk.url());
        lane["namespace"] = "staging".into();
        let other = crate::stand::build(&lane).unwrap();
        let told = submit(&*stand, &other, &reference("s1", 1)).await;
        assert!(matches!(told, Submit::Accepted(_)), "{name}: {told:?}");
        let renders = scene.desk.renders();
        assert_eq!(renders.len(), 2, "{name}: the same reference of another installation is another render");
        assert_ne!(renders[0].order.key, renders[1].order.key, "{name}");
    }
}

/// Many attempts under a storm of faults: whatever happens, no (job, attempt) has two renders.
#[tokio::test]
async fn no_attempt_is_ever_paid_twice() {
    for stand in vendors() {
        let scene = Scene::new(&*stand).await;
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        let mut references = Vec::new();
        for number in 0..40 {
            let shot = format!("s{number}");
            for attempt_number in 1..=3 {
                for _ in 0..3 {
                    seed ^= seed << 13;
                    seed ^= seed >> 7;
                    seed ^= seed << 17;
                    scene.desk.fault(match seed % 5 {
                        0 => Fault::CutAfter,
                        1 => Fault::CutBefore,
                        2 => Fault::After(refusal(503, json!({}))),
                        3 => Fault::Instead(refusal(500, json!({}))),
                        _ => Fault::Instead(stand.throttled().0),
                    });
                }
                let ours = reference(&shot, attempt_number);
                references.push(ours.clone());
                let told = attempt(&*stand, &scene, &ours).await;
                scene.desk.clear_faults();
                match told {
                    Submitted::Refused(_) | Submitted::NotAccepted => {
                        assert_eq!(scene.desk.accepted(&prompt(&ours)), 0, "{}: it was proven", stand.name());
                    }
                    Submitted::Task(task) => {
                        let find = |one: &&crate::desk::Render| one.order.prompt == prompt(&ours);
                        let render = scene.desk.renders().iter().find(find).cloned();
                        assert_eq!(Some(task), render.map(|one| stand.task(&one)), "{}", stand.name());
                        break;
                    }
                    Submitted::Held => break,
                }
            }
        }
        for ours in references {
            assert!(scene.desk.accepted(&prompt(&ours)) <= 1, "{}: {ours} was paid twice", stand.name());
        }
    }
}
