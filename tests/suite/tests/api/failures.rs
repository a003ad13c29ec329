//! What callers hear when the table doesn't answer, or holds what can't be understood.

use crate::document::{example, operations};
use crate::support::Site;
use glassline_api::auth::asks;
use glassline_protocol::ports::Store as _;
use glassline_tests::{TABLE, item_of, lane_name};
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_does_not_answer_is_said_so_and_a_time_to_try_again() {
    let site = Site::new().await;
    site.world.dynamo.delete_table().table_name(TABLE).send().await.unwrap();
    let post = json!({ "id": "p1", "lane": "keyed", "shots": [{ "id": "s1", "prompt": "a pear" }] });
    let story = json!({ "series": "main", "key": "lamp", "premise": "A lamp." });
    let mut replies = vec![
        site.post("/v1/posts").json(&post).send().await,
        site.post("/v1/stories").json(&story).send().await,
        site.put("/v1/lanes/keyed").json(&json!({ "capacity": 3 })).send().await,
    ];
    for (method, path) in operations(&site.document) {
        if method == "GET" && asks(&example(&path)) {
            // The one parameter that must be there.
            let token = if path.starts_with("/v1/handoffs/") { "?token=0123456789abcdef" } else { "" };
            replies.push(site.get(&format!("{}{token}", example(&path))).send().await);
        }
    }
    assert!(replies.len() > 10);
    for reply in replies {
        reply.is(503, "unavailable");
        assert_eq!(reply.headers["retry-after"], "1", "{reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_cannot_be_understood_is_named_and_hides_no_other() {
    let site = Site::new().await;
    site.put("/v1/lanes/other").json(&json!({ "capacity": 1 })).send().await.body(201);
    let mut row = item_of(&site.world.look.lane(&lane_name("keyed")).await.unwrap().unwrap());
    let name = row["sk"].clone();
    row.insert("capacity".into(), name);
    site.world.put_all(vec![row]).await;
    let reply = site.get("/v1/lanes/keyed").send().await;
    assert!(reply.is(500, "bad_row").detail().contains("LANES / keyed"), "{reply:?}");
    let lanes = site.get("/v1/lanes").send().await;
    assert_eq!(lanes.body(200)["lanes"].as_array().unwrap().len(), 1, "{lanes:?}");
}
