//! Entry: the shared secret, and what a refusal says.

use crate::document::{example, operations};
use crate::support::{PREVIOUS, SECRET, Site};
use glassline_api::auth::asks;
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_done_without_the_secret() {
    let site = Site::new().await;
    let before = site.state().await;
    let refusal = site.get("/v1/lanes").bare().send().await;
    refusal.is(401, "unauthorized");
    assert_eq!(refusal.headers["www-authenticate"], "Bearer");
    let wrong = [
        None,
        Some(String::new()),
        Some("Bearer".to_owned()),
        Some("Bearer ".to_owned()),
        Some(format!("Bearer {}", SECRET.replace('t', "x"))),
        Some(format!("Bearer {SECRET} ")),
        Some(format!("Bearer  {SECRET}")),
        Some(format!("Basic {SECRET}")),
        Some(SECRET.to_owned()),
        Some(format!("Bearer {SECRET}{SECRET}")),
        Some(format!("Bearer {}", &SECRET[..SECRET.len() - 1])),
    ];
    let bodies = [
        json!({ "id": "p1", "lane": "keyed", "shots": [{ "id": "s1", "prompt": "a pear" }] }),
        json!({ "capacity": 9, "paused": true }),
    ];
    let closed = operations(&site.document).into_iter().filter(|(_, path)| asks(&example(path)));
    let closed: Vec<_> = closed.map(|(method, path)| (method, example(&path))).collect();
    assert!(closed.len() > 8, "{closed:?}");
    let unknown = [("GET", "/v1"), ("DELETE", "/v1/posts"), ("GET", "/v1/"), ("POST", "/v1/nothing")];
    let unknown = unknown.map(|(method, path)| (method.to_owned(), path.to_owned()));
    for (method, path) in closed.iter().chain(&unknown) {
        for header in &wrong {
            for body in &bodies {
                let mut call = site.call(method, path).bare().json(body);
                if let Some(header) = header {
                    call = call.header("authorization", header);
                }
                let reply = call.send().await;
                // One shape for all of them: not even the length of the answer differs.
                assert_eq!((reply.status, &reply.body), (401, &refusal.body), "{method} {path} {header:?}");
                assert_eq!(reply.headers, refusal.headers, "{method} {path} {header:?}");
            }
        }
    }
    assert_eq!(site.state().await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_secrets_of_a_rotation_are_taken() {
    let site = Site::new().await;
    for (scheme, secret) in [("Bearer", SECRET), ("bearer", SECRET), ("Bearer", PREVIOUS)] {
        let header = format!("{scheme} {secret}");
        site.get("/v1/lanes").header("authorization", &header).send().await.body(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_kept_by_nobody_and_shared_with_no_other_site() {
    let site = Site::new().await;
    for call in [site.get("/v1/lanes"), site.get("/v1/lanes").bare(), site.get("/openapi.json").bare()] {
        let reply = call.header("origin", "https://elsewhere.example").send().await;
        assert_eq!(reply.headers["cache-control"], "no-store");
        assert_eq!(reply.headers["x-content-type-options"], "nosniff");
        assert!(!reply.headers.keys().any(|name| name.starts_with("access-control")), "{reply:?}");
    }
}
