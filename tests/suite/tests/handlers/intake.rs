//! Posts: written whole or completed later, never twice.

use crate::support::{HOUR_MS, world};
use glassline_protocol::intake::{Post, SubmitError, Submitted, parse_posts, submit_post};
use glassline_protocol::ports::Store as _;
use glassline_protocol::row::Status;
use glassline_tests::{Fault, Faulty, Plan, Spot, World, job_key, lane_name, post};

async fn submit_with(world: &World, plan: &Plan, post: &Post) -> Option<Result<Submitted, SubmitError>> {
    let lanes = world.look.lanes().await.unwrap();
    let ports = Faulty::new(&world.ports, plan, "intake");
    ports.run(Box::pin(submit_post(&ports, post, &lanes))).await
}

async fn submit(world: &World, post: &Post) -> Result<Submitted, SubmitError> {
    submit_with(world, &Plan::none(), post).await.unwrap()
}

/// The post is whole: head, and every shot's job and spec as sent.
async fn whole(world: &World, post: &Post, about: &str) {
    let view = world.parent(post.id.as_str()).await;
    let head = view.head.unwrap_or_else(|| panic!("no head, {about}"));
    assert_eq!((head.jobs as usize, head.fingerprint), (post.shots.len(), post.fingerprint()), "{about}");
    assert_eq!(view.jobs.len(), post.shots.len(), "{about}");
    let keys: Vec<_> = view.jobs.iter().map(|job| job.key.clone()).collect();
    let specs = world.look.specs(&keys).await.unwrap();
    for shot in &post.shots {
        let key = job_key(post.id.as_str(), shot.id.as_str());
        let spec = specs.iter().find(|spec| spec.key.0 == key).unwrap_or_else(|| panic!("{key}, {about}"));
        assert_eq!((&spec.prompt, &spec.params), (&shot.prompt, &shot.params_text()), "{about}");
        let job = view.jobs.iter().find(|job| job.key == key).unwrap();
        assert_eq!(job.created_ms, head.created_ms, "{about}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_post_twice_is_one_post() {
    let world = world("keyed", 2).await;
    let post = post("p1", "keyed", 3);
    assert_eq!(submit(&world, &post).await, Ok(Submitted::New(3)));
    whole(&world, &post, "at first").await;
    let before = world.parent("p1").await;
    world.clock.manual.advance(1_000);
    assert_eq!(submit(&world, &post).await, Ok(Submitted::Already(0)));
    assert_eq!(world.parent("p1").await, before);
    // While it renders, and after.
    world.tick(&Plan::none()).await;
    let rendering = world.parent("p1").await;
    assert_eq!(submit(&world, &post).await, Ok(Submitted::Already(0)));
    assert_eq!(world.parent("p1").await, rendering);
    world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    assert_eq!(submit(&world, &post).await, Ok(Submitted::Already(0)));
    world.drive_late().await;
    assert_eq!(world.accepted().len(), 3);
    world.check(&["p1"], true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_id_with_other_contents_is_refused_and_changes_nothing() {
    let world = world("keyed", 2).await;
    submit(&world, &post("p1", "keyed", 2)).await.unwrap();
    let before = world.parent("p1").await;
    for text in [
        r#"{"id":"p1","lane":"keyed","shots":[{"id":"s1","prompt":"another"}]}"#.to_owned(),
        serde_json::to_string(&post("p1", "keyed", 3)).unwrap(),
        serde_json::to_string(&post("p1", "keyed", 2)).unwrap().replace("500", "501"),
    ] {
        let other = parse_posts(&text).unwrap().remove(0).unwrap();
        assert_eq!(submit(&world, &other).await, Err(SubmitError::Conflict(other.id.clone())), "{text}");
        assert_eq!(world.parent("p1").await, before);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_lane_is_named_with_the_known_ones() {
    let world = world("keyed", 2).await;
    let error = submit(&world, &post("p1", "keyd", 1)).await.unwrap_err();
    assert!(matches!(&error, SubmitError::NoLane { lane, .. } if *lane == lane_name("keyd")));
    assert!(error.to_string().contains("the lanes are keyed"), "{error}");
    assert!(world.parent("p1").await.head.is_none());
}

/// Interrupted at any call in any way; what is there is never half a job, and sending it again completes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_post_that_was_interrupted_anywhere_is_completed_by_sending_it_again() {
    let mut world = world("keyed", 2).await;
    for fault in Fault::ALL {
        for at in 0.. {
            let post = post(&format!("{fault:?}-{at}"), "keyed", 3);
            let plan = Plan::fault(Spot::number(at), fault);
            let first = submit_with(&world, &plan, &post).await;
            let about = format!("{fault:?} at {at}, {:?}: {first:?}", plan.fired());
            if plan.fired().is_none() {
                assert!(at >= 8, "a post of three has more calls than {at}");
                break;
            }
            match &first {
                Some(Ok(Submitted::New(3))) => whole(&world, &post, &about).await,
                None => {}
                Some(other) => panic!("{other:?}, {about}"),
            }
            // A job is never there without its spec.
            let jobs = world.jobs(post.id.as_str()).await;
            let keys: Vec<_> = jobs.iter().map(|job| job.key.clone()).collect();
            assert_eq!(world.look.specs(&keys).await.unwrap().len(), jobs.len(), "{about}");
            world.clock.manual.advance(1_000);
            let again = submit(&world, &post).await;
            assert!(again.is_ok(), "{again:?}, {about}");
            whole(&world, &post, &about).await;
            world.clock.manual.advance(1_000);
            assert_eq!(submit(&world, &post).await, Ok(Submitted::Already(0)), "{about}");
            let id = post.id.as_str();
            world.drive(&Plan::none(), 1, HOUR_MS, &[id]).await;
            let jobs = world.jobs(id).await;
            assert!(jobs.iter().all(|job| job.status == Status::Succeeded && job.attempt == 1), "{about}");
            world.check(&[id], true).await;
            world = world.again().await;
        }
    }
}

/// Jobs of an interrupted post that render already when the rest is sent are left alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_post_that_renders_already_is_completed() {
    let post = post("p1", "keyed", 4);
    // Head, four specs, and some jobs are written; then the writer dies. Its writes overlap, so how many jobs are there
    // by the same call differs from run to run; with one more job each time, some run has some but not all.
    let mut interrupted = None;
    for calls in [6, 7, 8, 6, 7, 8] {
        let world = world("keyed", 1).await;
        let plan = Plan::fault(Spot::number(calls), Fault::CrashBefore);
        assert_eq!(submit_with(&world, &plan, &post).await, None);
        let there = world.jobs("p1").await.len();
        if (1..4).contains(&there) {
            interrupted = Some((world, there));
            break;
        }
    }
    let (world, there) = interrupted.expect("a run that was interrupted among its jobs");
    world.tick(&Plan::none()).await;
    world.clock.manual.advance(1_000);
    assert_eq!(submit(&world, &post).await, Ok(Submitted::Already(4 - there)));
    world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    let jobs = world.jobs("p1").await;
    assert!(jobs.len() == 4 && jobs.iter().all(|job| (job.status, job.attempt) == (Status::Succeeded, 1)));
    world.check(&["p1"], true).await;
}

/// Answers that never come: it says so, and what to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_does_not_answer_is_told() {
    let world = world("keyed", 1).await;
    let plan = Plan::fault(Spot::every("intake", "create"), Fault::LostRequest);
    let error = submit_with(&world, &plan, &post("p1", "keyed", 1)).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("send the same again"), "{error}");
}

/// Two producers at once: the same post is one; different ones under one id have one winner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_producers_at_once() {
    let world = world("keyed", 2).await;
    for run in 0..10 {
        let same = post(&format!("same{run}"), "keyed", 3);
        let (a, b) = tokio::join!(submit(&world, &same), submit(&world, &same));
        assert!(a.is_ok() && b.is_ok(), "{a:?} {b:?}");
        whole(&world, &same, "two at once").await;
        let (one, other) = (post(&format!("x{run}"), "keyed", 2), post(&format!("x{run}"), "keyed", 3));
        let (a, b) = tokio::join!(submit(&world, &one), submit(&world, &other));
        let winner = match (&a, &b) {
            (Ok(_), Err(SubmitError::Conflict(_))) => &one,
            (Err(SubmitError::Conflict(_)), Ok(_)) => &other,
            both => panic!("{both:?}"),
        };
        whole(&world, winner, "two of one id").await;
    }
}
