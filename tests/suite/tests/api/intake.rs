//! Posts and stories over HTTP: idempotent by id, each judged on its own.

use crate::support::Site;
use glassline_api::intake::{MAX_BYTES, MAX_JOBS};
use glassline_protocol::message::Message;
use serde_json::{Value, json};

fn post(id: &str) -> Value {
    json!({ "id": id, "lane": "keyed", "shots": [
        { "id": "s1", "prompt": "a pear" }, { "id": "s2", "prompt": "a plum", "params": { "width": 64 } }] })
}

fn story(key: &str) -> Value {
    json!({ "series": "main", "key": key, "premise": "A lamp that is lit once a year." })
}

async fn wakes(site: &Site) -> usize {
    let peeked = site.world.engine.peek("wake", 100).await.unwrap();
    let lanes = peeked.iter().map(|message| match Message::from_body(&message.body).unwrap() {
        Message::Wake(wake) => assert_eq!((wake.lane.as_str(), wake.freed), ("keyed", None)),
        other => panic!("{other:?}"),
    });
    lanes.count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_post_is_taken_once_and_wakes_its_lane() {
    let site = Site::new().await;
    let reply = site.post("/v1/posts").json(&post("p1")).send().await;
    assert_eq!(*reply.body(201), json!({ "id": "p1", "result": "created", "written": 2 }));
    assert_eq!(wakes(&site).await, 1);
    let before = site.state().await;
    site.world.clock.manual.advance(1);
    let again = site.post("/v1/posts").json(&post("p1")).send().await;
    assert_eq!(*again.body(200), json!({ "id": "p1", "result": "existed", "written": 0 }));
    assert_eq!(site.state().await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_post_under_the_same_id_is_told_what_differs() {
    let site = Site::new().await;
    site.post("/v1/posts").json(&post("p1")).send().await.body(201);
    let before = site.state().await;
    let with = |pointer: &str, value: Value| {
        let mut other = post("p1");
        *other.pointer_mut(pointer).unwrap() = value;
        other
    };
    let mut higher = post("p1");
    higher["priority"] = 7.into();
    let mut many = with("/shots/0/prompt", json!("a secret pear"));
    many["shots"][1]["media"] = "video".into();
    many["shots"][1]["params"]["width"] = 65.into();
    let (s1, s2) = (post("p1")["shots"][0].clone(), post("p1")["shots"][1].clone());
    for (other, fields) in [
        (higher, json!(["priority"])),
        (many, json!(["shots.s1.prompt", "shots.s2.params", "shots.s2.media"])),
        (with("/shots", json!([s1])), json!(["shots.s2"])),
        (with("/shots/1/id", json!("s3")), json!(["shots.s3", "shots.s2"])),
        (with("/shots", json!([s2, s1])), json!(["shots"])),
    ] {
        let reply = site.post("/v1/posts").json(&other).send().await;
        reply.is(409, "conflict");
        assert_eq!(reply.body["fields"], fields, "{reply:?}");
        assert!(!reply.body.to_string().contains("pear"), "{reply:?}");
    }
    assert_eq!(site.state().await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_neighbours_do_not_fail_good_ones() {
    let site = Site::new().await;
    site.post("/v1/posts").json(&json!([post("p0"), post("p1")])).send().await.body(200);
    let mut nowhere = post("p3");
    nowhere["lane"] = "nowhere".into();
    let mut misspelt = post("p4");
    misspelt["lanes"] = "keyed".into();
    let mut other = post("p0");
    other["priority"] = 1.into();
    let items = [post("p1"), other, nowhere, misspelt, json!(7), post("p2")];
    let lines = items.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    let mut answers = Vec::new();
    for media in
        ["application/json", "application/jsonl", "application/x-ndjson", "application/ndjson; charset=utf-8"]
    {
        site.world.clock.manual.advance(1);
        let text = if media == "application/json" { json!(items).to_string() } else { lines.clone() };
        let reply = site.post("/v1/posts").text(media, text).send().await;
        let body = reply.body(200);
        let statuses: Vec<u64> =
            body["items"].as_array().unwrap().iter().map(|item| item["status"].as_u64().unwrap()).collect();
        answers.push(statuses);
        assert_eq!((&body["taken"], &body["refused"]), (&json!(2), &json!(4)), "{body}");
        assert_eq!(body["items"][1]["problem"]["fields"], json!(["priority"]), "{body}");
        assert_eq!(body["items"][5]["receipt"]["id"], "p2", "{body}");
    }
    assert_eq!(answers[0], [200, 409, 422, 422, 422, 201]);
    assert!(answers[1..].iter().all(|statuses| *statuses == [200, 409, 422, 422, 422, 200]), "{answers:?}");
    site.get("/v1/posts/p3").send().await.is(404, "not_found");
    site.get("/v1/posts/p2").send().await.body(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_taken_is_refused_with_its_place() {
    let site = Site::new().await;
    let before = site.state().await;
    for path in ["/v1/posts", "/v1/stories"] {
        let send = |media: &str, text: &str| site.post(path).text(media, text).send();
        let json = "application/json";
        send(json, "").await.is(400, "bad_body");
        send(json, "[]").await.is(400, "bad_body");
        send(json, "7").await.is(400, "bad_body");
        send(json, "null").await.is(400, "bad_body");
        send(json, "{}\n{}").await.is(400, "bad_body");
        assert!(send(json, "{\n\"id\":}").await.is(400, "bad_body").detail().contains("line 2, column 6"));
        send("application/jsonl", "\n \n").await.is(400, "bad_body");
        send(json, "{}").await.is(422, "unacceptable");
        send("text/plain", "{}").await.is(415, "bad_type");
        site.post(path).send().await.is(415, "bad_type");
        send(json, &format!("[{}]", " ".repeat(MAX_BYTES))).await.is(413, "too_large");
    }
    let mut twice = post("p1");
    twice["shots"][1]["id"] = "s1".into();
    let reply = site.post("/v1/posts").json(&twice).send().await;
    assert!(reply.is(422, "unacceptable").detail().contains("shot s1"), "{reply:?}");
    let many = |id: &str| {
        let shots = (0..1_000).map(|n| json!({ "id": format!("s{n}"), "prompt": "x" }));
        json!({ "id": id, "lane": "keyed", "shots": shots.collect::<Vec<_>>() })
    };
    let posts: Vec<Value> = (0..=MAX_JOBS / 1_000).map(|n| many(&format!("p{n}"))).collect();
    site.post("/v1/posts").json(&json!(posts)).send().await.is(413, "too_large");
    assert_eq!(site.state().await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stories_are_taken_once_and_wake_their_series() {
    let site = Site::new().await;
    site.world.add_series("main", "keyed", 1).await;
    let reply = site.post("/v1/stories").json(&story("lamp")).send().await;
    assert_eq!(*reply.body(201), json!({ "id": "STORY#main#lamp", "result": "created", "written": 1 }));
    assert_eq!(wakes(&site).await, 1);
    let before = site.state().await;
    let again = site.post("/v1/stories").json(&story("lamp")).send().await;
    assert_eq!(again.body(200)["result"], "existed");
    assert_eq!(site.state().await, before);
    let stories =
        json!([story("a"), story("b"), { "series": "none", "key": "c", "premise": "x" }, story("a")]);
    let reply = site.post("/v1/stories").json(&stories).send().await;
    assert_eq!((&reply.body(200)["taken"], &reply.body["refused"]), (&json!(3), &json!(1)), "{reply:?}");
    assert_eq!(wakes(&site).await, 2, "one wake for the two new ones");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_story_under_the_same_key_is_told_what_differs() {
    let site = Site::new().await;
    site.world.add_series("main", "keyed", 1).await;
    site.post("/v1/stories").json(&story("lamp")).send().await.body(201);
    let frames = json!(["w", "x", "y", "z"]);
    let framed = |key: &str, frames: &Value| json!({ "series": "main", "key": key, "frames": frames });
    site.post("/v1/stories").json(&framed("framed", &frames)).send().await.body(201);
    let mut more = story("lamp");
    more["priority"] = 3.into();
    more["score"] = json!(0.5);
    for (other, fields) in [
        (more, json!(["priority", "score"])),
        (json!({ "series": "main", "key": "lamp", "premise": "Another lamp." }), json!(["premise"])),
        (framed("framed", &json!(["w", "x", "Y", "Z"])), json!(["frames.3", "frames.4"])),
    ] {
        let reply = site.post("/v1/stories").json(&other).send().await;
        reply.is(409, "conflict");
        assert_eq!(reply.body["fields"], fields, "{reply:?}");
    }
}
