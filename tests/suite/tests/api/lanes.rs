//! Lanes: how they stand, and setting them.

use crate::support::Site;
use glassline_protocol::ids::LaneName;
use glassline_protocol::ports::{Local as _, Store as _};
use glassline_protocol::row::{LaneRow, SlotKey, SlotRow};
use glassline_protocol::transition::LaneTransition;
use glassline_tests::{Lane, World, WorldOptions, lane_name, post};
use serde_json::{Value, json};

async fn row(site: &Site, lane: &LaneName) -> LaneRow {
    site.world.look.lane(lane).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_says_how_it_stands() {
    let mut lane = Lane::keyed(2);
    lane.row.price_micros = Some(40_000);
    lane.row.budget_micros_per_day = Some(1_000_000);
    let site = Site::of(World::new(WorldOptions::one(lane)).await).await;
    site.world.submit(&post("p1", "keyed", 5)).await;
    site.world.clock.manual.advance(7_000);
    site.world.tick_lane(&lane_name("keyed")).await;
    let wanted = json!({
        "lane": "keyed", "capacity": 2, "outside": false, "paused": false, "slots_in_use": 2, "ready": 3, "later": 0, "held": 0,
        "best_ready_wait_ms": 7_000, "price_micros": 40_000, "budget_micros_per_day": 1_000_000,
        "spent_today_micros": 80_000,
    });
    assert_eq!(*site.get("/v1/lanes/keyed").send().await.body(200), wanted);
    assert_eq!(*site.get("/v1/lanes").send().await.body(200), json!({ "lanes": [wanted] }));
    // What was spent belongs to its day.
    site.world.clock.manual.advance(24 * 3_600_000);
    assert_eq!(site.get("/v1/lanes/keyed").send().await.body(200)["spent_today_micros"], 0);
    site.get("/v1/lanes/nowhere").send().await.is(404, "not_found");
    site.get("/v1/lanes/nowhere/held").send().await.is(404, "not_found");
    site.get("/v1/lanes/no%20where").send().await.is(400, "bad_parameter");
    site.get("/v1/lanes/%ff").send().await.is(400, "bad_parameter");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_is_created_with_its_slots_and_grows() {
    let site = Site::new().await;
    let name = lane_name("new");
    site.put("/v1/lanes/new").json(&json!({})).send().await.is(422, "unacceptable");
    let reply = site.put("/v1/lanes/new").json(&json!({ "capacity": 3, "boost_ms": 60_000 })).send().await;
    assert_eq!((&reply.body(201)["capacity"], &reply.body["boost_ms"]), (&json!(3), &json!(60_000)));
    assert_eq!(site.world.look.slots(&name).await.unwrap().len(), 3);
    let same = site.put("/v1/lanes/new").json(&json!({ "capacity": 3 })).send().await;
    assert_eq!(same.body(200)["boost_ms"], 60_000, "what is left out stays");
    assert_eq!(row(&site, &name).await.rev, 0, "nothing changed, nothing was written");
    site.put("/v1/lanes/new").json(&json!({ "capacity": 5, "boost_ms": null })).send().await.body(200);
    assert_eq!(site.world.look.slots(&name).await.unwrap().len(), 5);
    assert_eq!((row(&site, &name).await.capacity, row(&site, &name).await.boost_ms), (5, None));
    // A smaller lane keeps its slots; they aren't given out.
    site.put("/v1/lanes/new").json(&json!({ "capacity": 1 })).send().await.body(200);
    assert_eq!(site.world.look.slots(&name).await.unwrap().len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_lane_starts_nothing_until_it_is_resumed() {
    let site = Site::new().await;
    let keyed = lane_name("keyed");
    site.world.submit(&post("p1", "keyed", 1)).await;
    let paused = json!({ "paused": true, "pause_reason": "the provider has a bad day" });
    let reply = site.put("/v1/lanes/keyed").json(&paused).send().await;
    assert_eq!(
        (&reply.body(200)["paused"], &reply.body["pause_reason"]),
        (&json!(true), &paused["pause_reason"])
    );
    assert_eq!(site.world.tick_lane(&keyed).await.started, 0);
    let again =
        site.put("/v1/lanes/keyed").json(&json!({ "paused": true, "pause_reason": "another" })).send().await;
    assert_eq!(again.body(200)["pause_reason"], paused["pause_reason"]);
    let until_ms = site.world.clock.now_ms() + 60_000;
    let pause = LaneTransition::Pause { until_ms, reason: "throttled: slow down".into() };
    site.world.ports.change_lane(&keyed, &pause).await;
    assert_eq!(site.get("/v1/lanes/keyed").send().await.body(200)["paused_until_ms"], until_ms);
    let reply = site.put("/v1/lanes/keyed").json(&json!({ "paused": false })).send().await;
    assert_eq!(reply.body(200)["paused"], false);
    assert!(
        reply.body.get("pause_reason").is_none() && reply.body.get("paused_until_ms").is_none(),
        "{reply:?}"
    );
    assert_eq!(site.world.tick_lane(&keyed).await.started, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_made_from_old_settings_is_refused() {
    let site = Site::new().await;
    let tag = site.get("/v1/lanes/keyed").send().await.headers["etag"].clone();
    // What dispatch counts in the row isn't a setting.
    let keyed = lane_name("keyed");
    let by = site.world.clock.fresh_run();
    let counted =
        LaneTransition::Authorise { seen_rev: 0, minute: 1, minute_starts: 1, day: 1, day_micros: 0, by };
    site.world.ports.change_lane(&keyed, &counted).await;
    let put = |tag: &str, body: Value| site.put("/v1/lanes/keyed").header("if-match", tag).json(&body).send();
    let reply = put(&tag, json!({ "starts_per_minute": 30 })).await;
    assert_eq!(reply.body(200)["starts_per_minute"], 30);
    assert_ne!(reply.headers["etag"], tag);
    put(&tag, json!({ "starts_per_minute": 60 })).await.is(412, "changed");
    assert_eq!(row(&site, &keyed).await.starts_per_minute, Some(30));
    put(&format!("\"x\", {}", reply.headers["etag"]), json!({ "starts_per_minute": null })).await.body(200);
    assert_eq!(row(&site, &keyed).await.starts_per_minute, None);
    site.put("/v1/lanes/none")
        .header("if-match", &tag)
        .json(&json!({ "capacity": 1 }))
        .send()
        .await
        .is(412, "changed");
    site.put("/v1/lanes/none")
        .header("if-match", "*")
        .json(&json!({ "capacity": 1 }))
        .send()
        .await
        .is(412, "changed");
    put("*", json!({ "capacity": 3 })).await.body(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_make_no_sense_are_refused() {
    let site = Site::new().await;
    let before = site.state().await;
    for (body, status, code, says) in [
        (json!({ "capacity": 0 }), 422, "unacceptable", "`capacity` is 0; use 1 to 10000"),
        (json!({ "capacity": 10_001 }), 422, "unacceptable", "10000"),
        (json!({ "starts_per_minute": 0 }), 422, "unacceptable", "starts_per_minute"),
        (json!({ "boost_ms": 0 }), 422, "unacceptable", "boost_ms"),
        (json!({ "price_micros": 1_000_000_000_000_001_u64 }), 422, "unacceptable", "price_micros"),
        (json!({ "capacity": -1 }), 400, "bad_body", "capacity"),
        (json!({ "capacity": "2" }), 400, "bad_body", "capacity"),
        (json!({ "capacity": 1.5 }), 400, "bad_body", "capacity"),
        (json!({ "capcity": 2 }), 400, "bad_body", "unknown field `capcity`"),
        (json!([]), 400, "bad_body", "JSON object"),
        (json!(null), 400, "bad_body", "JSON object"),
    ] {
        let reply = site.put("/v1/lanes/keyed").json(&body).send().await;
        assert!(reply.is(status, code).detail().contains(says), "{body} {reply:?}");
    }
    site.put("/v1/lanes/keyed").text("application/json", "{} {}").send().await.is(400, "bad_body");
    site.put("/v1/lanes/keyed").text("text/plain", "{}").send().await.is(415, "bad_type");
    let long = format!("{}{{}}", " ".repeat(glassline_api::MAX_BODY_BYTES));
    site.put("/v1/lanes/keyed").text("application/json", long).send().await.is(413, "too_large");
    assert_eq!(site.state().await, before);
}

/// Thousands of slots are created within one request's time, and again those that are missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_lane_has_every_slot() {
    let site = Site::new().await;
    let name = lane_name("large");
    site.world.put(&SlotRow::new(name.clone(), 150)).await;
    site.put("/v1/lanes/large").json(&json!({ "capacity": 430 })).send().await.body(201);
    let numbers = |slots: Vec<SlotRow>| slots.into_iter().map(|slot| slot.key.number).collect::<Vec<_>>();
    let all: Vec<u32> = (0..430).collect();
    assert_eq!(numbers(site.world.look.slots(&name).await.unwrap()), all);
    site.world.delete::<SlotRow>(&SlotKey { lane: name.clone(), number: 7 }).await;
    site.put("/v1/lanes/large").json(&json!({ "capacity": 430 })).send().await.body(200);
    assert_eq!(numbers(site.world.look.slots(&name).await.unwrap()), all);
}
