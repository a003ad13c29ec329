//! Outputs in a bucket of S3: finishers race, and one object and one outcome are left.

use crate::support::{completed, s1, stands};
use glassline_assets::AssetVault;
use glassline_protocol::message::Message;
use glassline_protocol::row::{OutcomeKey, OutcomeRow, Status};
use glassline_tests::{Fault, Lane, Plan, Spot, World, WorldOptions};
use std::sync::atomic::Ordering;

async fn world() -> World {
    World::new(WorldOptions { bucket: true, ..WorldOptions::one(Lane::keyed(1)) }).await
}

/// The paths in the bucket, and the statuses of the writes that were to succeed only once.
async fn stored(world: &World) -> (Vec<String>, Vec<u16>) {
    let vault: &AssetVault = &world.ports.vault;
    let paths = vault.list().await.unwrap().into_iter().map(|entry| entry.path).collect();
    let asked = world.bucket().unwrap().asked();
    (paths, asked.into_iter().filter(|asked| asked.if_absent).map(|asked| asked.status).collect())
}

/// One object, which the one outcome row names, and all that follows of it.
async fn ends_well(world: &World, id: &str) {
    let key = OutcomeKey { job: s1(id), attempt: 1 };
    let outcome: OutcomeRow = world.get(&key).await.unwrap();
    let (paths, _) = stored(world).await;
    assert_eq!(paths, [outcome.location.clone().unwrap()]);
    assert!(world.ports.vault.verify(&outcome.asset().unwrap()).await.unwrap());
    assert_eq!(stands(world, id).await, (Status::Succeeded, 1, 0));
    assert_eq!(world.qa().await[&s1(id)].len(), 1);
    world.check(&[id], true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_racing_finishers_one_stores_the_object_and_one_the_outcome() {
    let world = world().await;
    let finish = Message::Finish(completed(&world, "p1").await);
    // The first stops just before it records its outcome; its object is stored by then.
    let (plan, gate) = Plan::stop_before(Spot::first("finisher", "put outcome"));
    let (first, second) =
        gate.interrupt(world.handle(&plan, finish.clone()), world.handle(&Plan::none(), finish)).await;
    assert_eq!(second, Some(Some(Ok("succeeded".into()))));
    assert!(first.unwrap().is_ok());
    let (_, statuses) = stored(&world).await;
    assert_eq!(statuses, [200, 412], "the second found the first one's object and settled for it");
    ends_well(&world, "p1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_finishers_at_once_leave_one_object() {
    let world = world().await;
    let finish = Message::Finish(completed(&world, "p1").await);
    let none = Plan::none();
    let all = (0..4).map(|_| world.handle(&none, finish.clone()));
    for handled in futures_util::future::join_all(all).await {
        handled.unwrap().unwrap();
    }
    let (_, statuses) = stored(&world).await;
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    ends_well(&world, "p1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finisher_that_died_or_got_no_answer_is_followed_by_the_next() {
    for fault in [None, Some(Fault::CrashAfter)] {
        let world = world().await;
        let finish = Message::Finish(completed(&world, "p1").await);
        world.bucket().unwrap().faults().lost.store(1, Ordering::SeqCst);
        world.bucket().unwrap().faults().conflicts.store(1, Ordering::SeqCst);
        let plan = fault.map_or_else(Plan::none, |fault| Plan::fault(Spot::first("finisher", "save"), fault));
        let first = world.handle(&plan, finish.clone()).await;
        assert_eq!(first.is_none(), fault.is_some());
        world.handle(&Plan::none(), finish).await.unwrap().unwrap();
        ends_well(&world, "p1").await;
    }
}
