//! The registry: posts by month, series, episodes, jobs with their history, held jobs.

use crate::support::Site;
use glassline_protocol::ids::Token;
use glassline_protocol::row::{JobRow, Status};
use glassline_tests::{Plan, job_key, post};
use serde_json::{Value, json};

const HOUR_MS: u64 = 3_600_000;

fn list<'a>(body: &'a Value, field: &str, name: &str) -> Vec<&'a str> {
    body[field].as_array().unwrap().iter().map(|item| item[name].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn posts_are_listed_by_month_and_paged_newest_first() {
    let site = Site::new().await;
    for n in 1..=5 {
        // Two of them at the same millisecond.
        site.world.clock.manual.advance(u64::from(n != 3));
        site.world.submit(&post(&format!("p{n}"), "keyed", n)).await;
    }
    let first = site.get("/v1/posts?limit=2").send().await;
    assert_eq!(list(first.body(200), "posts", "id"), ["p5", "p4"]);
    assert_eq!(first.body["posts"][0]["statuses"], json!({ "ready": 5 }));
    let month = first.body["month"].as_str().unwrap().to_owned();
    let mut seen = vec!["p5".to_owned(), "p4".to_owned()];
    let mut cursor = first.body["cursor"].as_str().map(str::to_owned);
    while let Some(at) = cursor {
        let page = site.get(&format!("/v1/posts?month={month}&limit=2&cursor={at}")).send().await;
        seen.extend(list(page.body(200), "posts", "id").into_iter().map(str::to_owned));
        cursor = page.body["cursor"].as_str().map(str::to_owned);
    }
    assert_eq!(seen, ["p5", "p4", "p3", "p2", "p1"]);
    let all = site.get(&format!("/v1/posts?limit=5&month={month}")).send().await;
    assert!(all.body(200).get("cursor").is_none(), "five of five have no next page: {all:?}");
    assert_eq!(site.get("/v1/posts?month=1999-12").send().await.body(200)["posts"], json!([]));
    for query in [
        "month=2026-13",
        "month=2026",
        "month=é",
        "limit=0",
        "limit=101",
        "limit=x",
        "cursor=!",
        "cursor=",
        "nope=1",
        "limit=1&limit=2",
    ] {
        site.get(&format!("/v1/posts?{query}")).send().await.is(400, "bad_parameter");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_shown_with_its_history_and_never_with_its_token() {
    let site = Site::new().await;
    site.world.submit(&post("p1", "keyed", 2)).await;
    site.world.submit(&post("p1x", "keyed", 1)).await;
    let path = "/v1/jobs/POST:p1/SHOT:s1";
    let ready = site.get(path).send().await;
    assert_eq!((&ready.body(200)["status"], &ready.body["attempt"]), (&json!("ready"), &json!(0)));
    site.world.drive_to_end(&Plan::none(), HOUR_MS, &["p1", "p1x"]).await;
    let job = site.get(path).send().await;
    let body = job.body(200);
    assert_eq!(
        (&body["status"], &body["qa"], &body["path"]),
        (&json!("succeeded"), &json!("pending"), &json!(path))
    );
    assert_eq!(body["key"], "POST#p1/SHOT#s1");
    assert_eq!(body["outcomes"].as_array().unwrap().len(), 1);
    assert_eq!(body["outcomes"][0]["verdict"], "stored");
    assert_eq!(body["orphans"], json!([]));
    for secret in ["token", "\"run\"", "prompt", "shot 1 of p1"] {
        assert!(!body.to_string().contains(secret), "{body}");
    }
    let whole = site.get("/v1/posts/p1").send().await;
    assert_eq!(whole.body(200)["shots"][0], *body);
    assert_eq!((&whole.body["id"], &whole.body["jobs"]), (&json!("p1"), &json!(2)));
    site.get("/v1/jobs/POST:p1/SHOT:s9").send().await.is(404, "not_found");
    site.get("/v1/posts/p9").send().await.is(404, "not_found");
    for bad in [
        "POST:p1/FRAME:1",
        "p1/s1",
        "POST:p1/s1",
        "EPISODE:main:1/FRAME:1",
        "POST:p 1/SHOT:s1",
        "POST:p1/SHOT:",
    ] {
        site.get(&format!("/v1/jobs/{bad}")).send().await.is(400, "bad_parameter");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn series_and_episodes_are_shown() {
    let site = Site::new().await;
    site.world.add_series("main", "keyed", 3).await;
    site.world.add_stories("main", 5).await;
    site.world.open("main").await;
    let all = site.get("/v1/series").send().await;
    let line = json!({
        "series": "main", "lane": "keyed", "priority": all.body["series"][0]["priority"], "episodes": 3, "open": 3,
        "open_limit": 3, "stories_left": 2, "created_ms": all.body["series"][0]["created_ms"],
    });
    assert_eq!(*all.body(200), json!({ "series": [line] }));
    let page = site.get("/v1/series/main?limit=2").send().await;
    assert_eq!(list(page.body(200), "page", "key"), ["EPISODE#main#000003", "EPISODE#main#000002"]);
    let cursor = page.body["cursor"].as_str().unwrap();
    let rest = site.get(&format!("/v1/series/main?limit=2&cursor={cursor}")).send().await;
    assert_eq!(list(rest.body(200), "page", "key"), ["EPISODE#main#000001"]);
    assert!(rest.body.get("cursor").is_none());
    let episode = site.get("/v1/series/main/episodes/3").send().await;
    let body = episode.body(200);
    assert_eq!((&body["season"], &body["episode"], &body["status"]), (&json!(1), &json!(3), &json!("open")));
    let frames: Vec<String> = (1..=4).map(|n| format!("/v1/jobs/EPISODE:main:000003/FRAME:{n}")).collect();
    assert_eq!(list(body, "frames", "path"), frames);
    for frame in frames {
        assert_eq!(site.get(&frame).send().await.body(200)["status"], "ready");
    }
    assert!(!body.to_string().contains("owner"), "{body}");
    site.get("/v1/series/main/episodes/4").send().await.is(404, "not_found");
    site.get("/v1/series/none").send().await.is(404, "not_found");
    for bad in ["episodes/x", "episodes/-1", "episodes/4294967296"] {
        site.get(&format!("/v1/series/main/{bad}")).send().await.is(400, "bad_parameter");
    }
    site.get("/v1/series/main?cursor=AAAA").send().await.is(400, "bad_parameter");
}

/// Held jobs often have the same time and attempt: none may be lost between two pages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_jobs_with_the_same_place_in_line_are_all_listed() {
    let site = Site::new().await;
    site.world.submit(&post("p1", "keyed", 5)).await;
    let next_ms = site.world.now_ms() + 60_000;
    for n in 1..=5 {
        let row = site.world.job(&job_key("p1", &format!("s{n}"))).await;
        site.world
            .put(&JobRow {
                status: Status::Held,
                attempt: 1,
                token: Some(Token::new("c".repeat(32)).unwrap()),
                lease_ms: Some(next_ms),
                error: Some("nobody can tell how the submit ended".into()),
                queue_pk: Some("HELD#keyed".into()),
                queue_sk: Some(format!("{next_ms:014}#000001")),
                ..row
            })
            .await;
    }
    let mut seen = Vec::new();
    let mut target = "/v1/lanes/keyed/held?limit=2".to_owned();
    loop {
        let page = site.get(&target).send().await;
        seen.extend(list(page.body(200), "jobs", "key").into_iter().map(str::to_owned));
        let Some(cursor) = page.body["cursor"].as_str() else { break };
        target = format!("/v1/lanes/keyed/held?limit=2&cursor={cursor}");
    }
    seen.sort();
    assert_eq!(
        seen,
        ["POST#p1/SHOT#s1", "POST#p1/SHOT#s2", "POST#p1/SHOT#s3", "POST#p1/SHOT#s4", "POST#p1/SHOT#s5"]
    );
    assert_eq!(site.get("/v1/lanes/keyed").send().await.body(200)["held"], 5);
}
