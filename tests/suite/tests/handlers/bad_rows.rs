//! Rows that can't be understood, written by hand or by a newer version: they keep nobody else waiting, and nothing is
//! given out twice because of them.

use crate::support::{HOUR_MS, first_lane, s1, stands, take_all, world};
use aws_sdk_dynamodb::types::AttributeValue;
use glassline_protocol::row::{RowKey, SlotKey, Status};
use glassline_tests::{Fault, Lane, MINUTE_MS, Plan, Spot, TABLE, World, WorldOptions, lane_name, post};

/// Writes an attribute of a row, as no code of ours does.
async fn spoil(world: &World, key: &impl RowKey, name: &str, value: AttributeValue) {
    let key = key.primary();
    world
        .dynamo
        .update_item()
        .table_name(TABLE)
        .key("pk", AttributeValue::S(key.pk))
        .key("sk", AttributeValue::S(key.sk))
        .update_expression("SET #name = :value")
        .expression_attribute_names("#name", name)
        .expression_attribute_values(":value", value)
        .send()
        .await
        .unwrap();
}

fn word(word: &str) -> AttributeValue {
    AttributeValue::S(word.into())
}

/// A job under way whose row has a word of tomorrow: it keeps its slot, and the other slots go on, by full ticks too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_cannot_be_read_keeps_its_slot_and_no_other() {
    let world = world("blind", 2).await;
    world.submit(&post("bad", "blind", 1)).await;
    take_all(&world, "wake").await;
    let lane = first_lane(&world).await;
    assert_eq!(world.tick_lane(&lane).await.started, 1);
    take_all(&world, "render").await;
    spoil(&world, &s1("bad"), "media", word("hologram")).await;
    world.submit(&post("p1", "blind", 3)).await;
    // Wakes are lost, so only full ticks give slots out.
    for _ in 0..3 {
        take_all(&world, "wake").await;
        assert_eq!(world.tick_lane(&lane).await.started, 1, "the other slot");
        for message in take_all(&world, "render").await {
            world.handle(&Plan::none(), message).await.unwrap().unwrap();
        }
        assert_eq!(world.tick_lane(&lane).await.started, 0, "and not the bad job's");
        world.clock.manual.advance(1_000);
        for queue in ["render", "finish"] {
            for message in take_all(&world, queue).await {
                world.handle(&Plan::none(), message).await.unwrap().unwrap();
            }
        }
    }
    assert!(world.jobs("p1").await.iter().all(|job| job.status == Status::Succeeded));
    // Mended, it goes on.
    spoil(&world, &s1("bad"), "media", word("image")).await;
    world.drive(&Plan::none(), 1, HOUR_MS, &["bad"]).await;
    assert_eq!(stands(&world, "bad").await, (Status::Succeeded, 2, 0));
    assert_eq!(world.accepted().len(), 4);
}

/// A ready job whose row can't be read is passed by.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ready_job_that_cannot_be_read_does_not_stop_its_lane() {
    let world = world("blind", 2).await;
    world.submit(&post("bad", "blind", 1)).await;
    spoil(&world, &s1("bad"), "media", word("hologram")).await;
    world.submit(&post("p1", "blind", 4)).await;
    world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    assert!(world.jobs("p1").await.iter().all(|job| job.status == Status::Succeeded));
    assert_eq!(world.accepted().len(), 4);
}

/// A held job whose row can't be read doesn't keep the lane's other held jobs, or its slots, from being looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_job_that_cannot_be_read_does_not_stop_its_lane() {
    let world = world("keyed", 1).await;
    let never = glassline_sandbox::FaultRule::percent(glassline_sandbox::FaultKind::DropAnswer, 100.0, 1);
    world.provider_faults(vec![never.once_per_reference(false)]);
    world.submit(&post("bad", "keyed", 1)).await;
    world.submit(&post("p1", "keyed", 1)).await;
    world.drive(&Plan::none(), 1, HOUR_MS, &["bad", "p1"]).await;
    assert_eq!((stands(&world, "bad").await.0, stands(&world, "p1").await.0), (Status::Held, Status::Held));
    world.provider_faults(vec![]);
    spoil(&world, &s1("bad"), "media", word("hologram")).await;
    let done = async |world: &World| world.job(&s1("p1")).await.status == Status::Succeeded;
    world.drive_until(&Plan::none(), 1, HOUR_MS, done).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
}

/// An old reservation of a job that has lost its entry in the index can't be voided; the other slots go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reservation_that_cannot_be_voided_does_not_stop_its_lane() {
    let world = world("blind", 2).await;
    world.submit(&post("bad", "blind", 1)).await;
    let lane = first_lane(&world).await;
    let plan = Plan::fault(Spot::first("dispatch", "Claim"), Fault::CrashBefore);
    assert_eq!(world.tick_lane_with(&plan, &lane).await, None);
    let mut row = world.job(&s1("bad")).await;
    (row.queue_pk, row.queue_sk) = (None, None);
    world.put(&row).await;
    world.clock.manual.advance(MINUTE_MS);
    world.submit(&post("p1", "blind", 3)).await;
    assert_eq!(world.tick_lane(&lane).await.started, 1);
    world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    assert!(world.jobs("p1").await.iter().all(|job| job.status == Status::Succeeded));
}

/// A slot that can't be read isn't given out; the others are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_cannot_be_read_is_not_given_out() {
    let world = world("blind", 3).await;
    let bad = SlotKey { lane: lane_name("blind"), number: 1 };
    spoil(&world, &bad, "token", word("not a token")).await;
    world.submit(&post("p1", "blind", 5)).await;
    let ticked = world.tick_lane(&first_lane(&world).await).await;
    assert_eq!(ticked.started, 2);
    world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    assert!(world.jobs("p1").await.iter().all(|job| job.status == Status::Succeeded));
    world.check(&["p1"], true).await;
}

/// A lane that can't be read stops nobody but itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_that_cannot_be_read_does_not_stop_the_others() {
    let options = WorldOptions { lanes: vec![Lane::keyed(1), Lane::blind(1)], ..WorldOptions::default() };
    let world = World::new(options).await;
    world.submit(&post("p1", "blind", 2)).await;
    world.submit(&post("p2", "keyed", 1)).await;
    spoil(&world, &lane_name("keyed"), "capacity", word("many")).await;
    take_all(&world, "wake").await;
    world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    assert!(world.jobs("p1").await.iter().all(|job| job.status == Status::Succeeded));
    assert_eq!(stands(&world, "p2").await, (Status::Ready, 0, 0));
}
