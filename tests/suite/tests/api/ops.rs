//! What people, outside dispatchers and providers ask over HTTP.

use crate::support::Site;
use glassline_protocol::provider::Recovery;
use glassline_sandbox::{FaultKind, FaultRule, SIGNATURE_HEADER, TIMESTAMP_HEADER, sign_callback};
use glassline_tests::{Lane, Plan, World, WorldOptions, post};
use serde_json::{Value, json};

const HOUR_MS: u64 = 3_600_000;
const JOB: &str = "/v1/jobs/POST:p1/SHOT:s1";

async fn site(lane: Lane) -> Site {
    Site::of(World::new(WorldOptions::one(lane)).await).await
}

/// A lane whose dispatcher is outside, and a job in it.
async fn outside() -> Site {
    let mut lane = Lane::keyed(1);
    lane.row.outside = true;
    let site = site(lane).await;
    site.world.submit(&post("p1", "keyed", 1)).await;
    site
}

async fn claim(site: &Site) -> Value {
    let claims = site.post("/v1/lanes/keyed/claims").json(&json!({ "count": 5 })).send().await;
    claims.body(200)["claims"][0].clone()
}

async fn read_back(site: &Site, claim: &Value) -> Value {
    let token = claim["token"].as_str().unwrap();
    site.get(&format!("/v1/handoffs/POST:p1/SHOT:s1?token={token}")).send().await.body(200)["state"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_is_handed_over_once_however_often_it_is_sent() {
    let site = outside().await;
    let claim = claim(&site).await;
    assert_eq!(read_back(&site, &claim).await, "not_accepted");
    let before = site.state().await;
    for bad in ["[]", "3", "null", "\"[]\"", "{}", "{\"prompt\": 1}"] {
        site.post("/v1/handoffs").text("application/json", bad).send().await.is(400, "bad_body");
    }
    let mut unknown = claim.clone();
    unknown["extra"] = 1.into();
    site.post("/v1/handoffs").json(&unknown).send().await.is(400, "bad_body");
    let mut other = claim.clone();
    other["prompt"] = "another".into();
    site.post("/v1/handoffs").json(&other).send().await.is(422, "unacceptable");
    let mut theirs = claim.clone();
    theirs["token"] = "00000000deadbeef".into();
    let refused = site.post("/v1/handoffs").json(&theirs).send().await;
    assert_eq!(refused.is(409, "moved").body["attempt"], 1);
    assert!(!refused.body.to_string().contains(claim["token"].as_str().unwrap()), "{refused:?}");
    assert_eq!(site.state().await, before, "nothing was changed");
    let first = site.post("/v1/handoffs").json(&claim).send().await.body(202)["receipt"].clone();
    // A string that holds an object is one, too.
    let text = Value::String(claim.to_string());
    assert_eq!(site.post("/v1/handoffs").json(&text).send().await.body(202)["receipt"], first);
    assert_eq!(read_back(&site, &claim).await, "accepted");
    let keys = ["parent", "member", "attempt", "token"].map(|key| (key.to_owned(), claim[key].clone()));
    let release = Value::Object(keys.into_iter().collect());
    site.post("/v1/handoffs/release").json(&release).send().await.is(409, "moved");
    site.world.drive_to_end(&Plan::none(), HOUR_MS, &["p1"]).await;
    assert_eq!(read_back(&site, &claim).await, "accepted");
    site.world.check(&["p1"], true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_is_given_back_is_superseded() {
    let site = outside().await;
    let first = claim(&site).await;
    let keys = ["parent", "member", "attempt", "token"].map(|key| (key.to_owned(), first[key].clone()));
    let release = Value::Object(keys.into_iter().collect());
    assert_eq!(site.post("/v1/handoffs/release").json(&release).send().await.body(200)["status"], "ready");
    let second = claim(&site).await;
    assert_ne!(first["token"], second["token"]);
    site.post("/v1/handoffs").json(&first).send().await.is(409, "moved");
    assert_eq!(read_back(&site, &first).await, "superseded");
    site.post("/v1/lanes/none/claims").json(&json!({ "count": 1 })).send().await.is(404, "not_found");
    site.post("/v1/lanes/keyed/claims").json(&json!({ "count": 0 })).send().await.is(422, "unacceptable");
    site.put("/v1/lanes/keyed").json(&json!({ "outside": false })).send().await.body(200);
    site.post("/v1/lanes/keyed/claims").json(&json!({ "count": 1 })).send().await.is(422, "unacceptable");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_decide_on_jobs() {
    let site = site(Lane::blind(1)).await;
    site.world.provider_faults(vec![FaultRule::next(FaultKind::DropAnswer, 1)]);
    site.world.submit(&post("p1", "blind", 1)).await;
    let sentence =
        async || site.get(&format!("{JOB}/explain")).send().await.body(200)["sentence"].to_string();
    assert!(sentence().await.contains("the next in line"));
    site.world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    assert!(sentence().await.contains("--as lost"));
    let ask = |what: &str, body: Value| site.post(&format!("{JOB}/{what}")).json(&body).send();
    ask("resolve", json!({ "attempt": 1, "as": "task" })).await.is(422, "unacceptable");
    ask("resolve", json!({ "attempt": 2, "as": "lost" })).await.is(409, "moved");
    ask("resolve", json!({ "attempt": 1, "as": "maybe" })).await.is(400, "bad_body");
    let done = ask("resolve", json!({ "attempt": 1, "as": "lost" })).await;
    assert_eq!((&done.body(200)["did"], &done.body["attempt"]), (&json!("requeued"), &json!(2)));
    site.world.drive_to_end(&Plan::none(), HOUR_MS, &["p1"]).await;
    let review = |verdict: Value| ask("review", verdict);
    let outcome = "POST#p1/SHOT#s1/3";
    review(json!({ "outcome": "POST#p2/SHOT#s1/3", "verdict": "approve" })).await.is(422, "unacceptable");
    review(json!({ "outcome": outcome, "verdict": "reject" })).await.is(422, "unacceptable");
    let rejected = review(json!({ "outcome": outcome, "verdict": "reject", "note": "dull" })).await;
    assert_eq!(rejected.body(200)["did"], "rejected_and_requeued");
    review(json!({ "outcome": outcome, "verdict": "approve" })).await.is(409, "moved");
    assert_eq!(ask("cancel", json!({ "attempt": 4 })).await.body(200)["did"], "cancelled");
    assert_eq!(
        ask("requeue", json!({ "attempt": 4, "note": "after all" })).await.body(200)["status"],
        "ready"
    );
    let many = site.post("/v1/lanes/blind/cancel").json(&json!({ "limit": 10 })).send().await;
    assert_eq!(many.body(200)["results"][0]["did"], "cancelled");
    site.post("/v1/lanes/blind/requeue")
        .json(&json!({ "error_class": "x" }))
        .send()
        .await
        .is(422, "unacceptable");
    site.post("/v1/queues/none/redrive").send().await.is(404, "not_found");
}

/// A callback as the sandbox signs it, sent `age_s` ago.
async fn call(site: &Site, body: &str, secret: &str, age_s: u64) -> crate::support::Reply {
    let sent_s = site.world.now_ms() / 1_000 - age_s;
    site.post("/v1/callbacks/sandbox/called")
        .bare()
        .header(TIMESTAMP_HEADER, &sent_s.to_string())
        .header(SIGNATURE_HEADER, &sign_callback(secret, sent_s, body.as_bytes()))
        .text("application/json", body)
        .send()
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_signed_and_fresh_callback_is_heard() {
    let recovery = Recovery::Callback { deadline_ms: 600_000 };
    let site = site(Lane { polled: false, ..Lane::new("called", 1, recovery) }).await;
    site.world.provider_faults(vec![FaultRule::next(FaultKind::DropAnswer, 1)]);
    site.world.submit(&post("p1", "called", 1)).await;
    site.world.drive_on(&Plan::none(), 10_000).await;
    let render = site.world.sandbox.books().renders.remove(0);
    let body = json!({ "id": render.id, "reference": render.reference, "status": "succeeded" }).to_string();
    let key = "key-of-called";
    let before = site.state().await;
    let forged = call(&site, &body, "another key", 0).await;
    let refusal = forged.is(401, "bad_signature").body.clone();
    assert_eq!(call(&site, &body, key, 301).await.is(401, "bad_signature").body, refusal, "old");
    let tampered = site.post("/v1/callbacks/sandbox/called").bare().text("application/json", "{}");
    assert_eq!(tampered.send().await.is(401, "bad_signature").body, refusal);
    let elsewhere = site.post("/v1/callbacks/replicate/called").bare().text("application/json", &*body);
    assert_eq!(elsewhere.send().await.is(401, "bad_signature").body, refusal);
    assert_eq!(site.state().await, before, "nothing was changed");
    for _ in 0..2 {
        call(&site, &body, key, 0).await.body(202);
    }
    site.world.drive_to_end(&Plan::none(), HOUR_MS, &["p1"]).await;
    assert_eq!(site.get(JOB).send().await.body(200)["status"], "succeeded");
    let ended = site.state().await;
    call(&site, &body, key, 0).await.body(202);
    assert_eq!(site.state().await, ended, "a late one changes nothing");
    site.world.check(&["p1"], true).await;
}
