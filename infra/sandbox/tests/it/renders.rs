use crate::support::{Client, image, start, until};
use glassline_sandbox::{AccountConfig, ConfigError, RenderState, Sandbox, SandboxConfig, SandboxError};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

#[tokio::test]
async fn a_render_goes_from_queued_to_a_real_picture() {
    let (sandbox, clock, client) = start(|account| account.render_max_ms = 100).await;
    let body = json!({"prompt": "leaded glass", "media": "image", "reference": "POST#p1/SHOT#s1/1"});
    let answer = client.post_keyed("k", &body).await.unwrap();
    assert_eq!(answer.status, 201);
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(answer.json()["status"], "queued");
    assert_eq!(client.render(&id).await["status"], "queued");
    clock.forward(99);
    assert_eq!(client.render(&id).await["status"], "running");
    clock.forward(1);
    let render = client.render(&id).await;
    assert_eq!(render["status"], "succeeded");
    assert_eq!(render["reference"], "POST#p1/SHOT#s1/1");
    let output = client.fetch(&client.output_url(&id).await).await;
    assert_eq!((output.status, output.content_type.as_str()), (200, "image/png"));
    let picture = image::load_from_memory_with_format(&output.bytes, image::ImageFormat::Png).unwrap();
    assert_eq!((picture.width(), picture.height()), (512, 384));
    let again = client.fetch(&client.output_url(&id).await).await;
    assert_eq!(output.bytes, again.bytes, "an output never changes");
    let books = sandbox.books();
    assert_eq!((books.totals.accepted, books.totals.succeeded, books.totals.paid_again), (1, 1, 0));
    let told: Value = client.get("/books").await.json();
    assert_eq!(told, serde_json::to_value(&books).unwrap());
    assert!(!told.to_string().contains("leaded"), "prompts stay out of the books");
}

#[tokio::test]
async fn sizes_and_films_are_honoured() {
    let (_sandbox, clock, client) = start(|_| {}).await;
    let sized =
        json!({"prompt": "p", "params": {"width": 1024, "height": 16}, "media": "image", "reference": "a"});
    let film = json!({"prompt": "p", "params": null, "media": "video", "reference": "b"});
    let sized = client.post_keyed("a", &sized).await.unwrap().json()["id"].as_str().unwrap().to_owned();
    let film = client.post_keyed("b", &film).await.unwrap().json()["id"].as_str().unwrap().to_owned();
    clock.forward(100);
    let output = client.fetch(&client.output_url(&sized).await).await;
    let picture = image::load_from_memory(&output.bytes).unwrap();
    assert_eq!((picture.width(), picture.height()), (1024, 16));
    let output = client.fetch(&client.output_url(&film).await).await;
    assert_eq!((output.status, output.content_type.as_str()), (200, "video/mp4"));
    let boxes = boxes(&output.bytes);
    let names: Vec<&str> = boxes.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["ftyp", "moov", "free", "mdat"], "the index comes first");
    let moov = boxes[1].1;
    assert!(moov.windows(4).any(|four| four == b"vide") && moov.windows(4).any(|four| four == b"avc1"));
    assert!(output.bytes.len() < 60_000);
}

/// The top-level boxes of an MP4; they must cover it exactly.
fn boxes(mut bytes: &[u8]) -> Vec<(String, &[u8])> {
    let mut boxes = Vec::new();
    while !bytes.is_empty() {
        let size = u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
        boxes.push((String::from_utf8(bytes[4..8].to_vec()).unwrap(), &bytes[8..size]));
        bytes = &bytes[size..];
    }
    boxes
}

#[tokio::test]
async fn what_cannot_be_rendered_is_refused_and_enters_no_books() {
    let (sandbox, _clock, client) = start(|_| {}).await;
    let with = |field: &str, value: Value| {
        let mut body = image("r");
        body[field] = value;
        body.to_string().into_bytes()
    };
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let bodies: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"\xff\xfe".to_vec(),
        b"[]".to_vec(),
        b"null".to_vec(),
        deep.into_bytes(),
        with("prompt", "".into()),
        with("prompt", "x".repeat(32_769).into()),
        with("prompt", 7.into()),
        with("params", json!([1])),
        with("params", json!({"width": 15})),
        with("params", json!({"width": 2_049})),
        with("params", json!({"height": -1})),
        with("params", json!({"height": 64.5})),
        with("params", json!({"height": "64"})),
        with("params", json!({"height": 18_446_744_073_709_551_615u64})),
        with("media", "audio".into()),
        with("reference", "".into()),
        with("reference", "a b".into()),
        with("reference", "é".into()),
        with("reference", "x".repeat(257).into()),
        with("callback_url", "file:///etc/passwd".into()),
        with("callback_url", format!("http://x/{}", "y".repeat(2_048)).into()),
        with("surprise", 1.into()),
        br#"{"prompt":"a","prompt":"b","media":"image","reference":"r"}"#.to_vec(),
    ];
    let count = bodies.len() as u64;
    for body in bodies {
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        assert_eq!(client.post_raw(body).await.refusal(), (400, "invalid_request".into()), "{shown}");
    }
    let huge = client.post_raw(vec![b' '; 256 * 1024 + 1]).await;
    assert_eq!(huge.refusal(), (413, "payload_too_large".into()));
    let stranger = Client::new(&sandbox, "no-such-key");
    assert_eq!(stranger.post_raw(image("r").to_string()).await.refusal(), (401, "unauthorized".into()));
    for key in ["", "a b", &"k".repeat(256)] {
        let answer = client.post_keyed(key, &image("r")).await.unwrap();
        assert_eq!(answer.refusal(), (400, "invalid_request".into()), "{key}");
    }
    let books = sandbox.books();
    assert_eq!(books.totals.accepted, 0);
    assert_eq!(books.rejected["invalid_request"], count + 3);
    assert_eq!((books.rejected["unauthorized"], books.rejected["payload_too_large"]), (1, 1));
    // A prompt as long as allowed still fits, even if every byte of it is escaped.
    let longest = with("prompt", "\u{1}".repeat(32_768).into());
    assert_eq!(client.post_raw(longest).await.status, 201);
}

#[tokio::test]
async fn every_wrong_address_gets_a_clean_answer() {
    let (_sandbox, _clock, client) = start(|_| {}).await;
    for path in ["/", "/v1", "/v1/renders/a/b/c", "/v2/renders", "/v1/renders/", "/%00"] {
        assert_eq!(client.get(path).await.refusal().0, 404, "{path}");
    }
    for path in ["/v1/renders/nope", "/v1/renders/%ff", "/v1/renders/..%2f..%2fbooks"] {
        assert_eq!(client.get(path).await.refusal(), (404, "not_found".into()), "{path}");
    }
    assert_eq!(client.get("/v1/renders").await.refusal(), (400, "invalid_request".into()));
    assert_eq!(client.get("/v1/outputs/x").await.refusal(), (403, "bad_signature".into()));
    assert_eq!(client.cancel("nope").await.refusal(), (404, "not_found".into()));
    let deleted = client.http.delete(format!("{}/books", client.url)).send().await.unwrap();
    assert_eq!(deleted.status(), 404);
}

#[tokio::test]
async fn a_key_pays_once_within_its_lifetime() {
    let (sandbox, clock, client) = start(|account| account.key_lifetime_ms = 10_000).await;
    let first = client.submit("r1").await;
    let again = client.post_keyed("r1", &image("r1")).await.unwrap();
    assert_eq!(
        (again.status, again.replayed, again.json()["id"].as_str().unwrap()),
        (200, true, first.as_str())
    );
    let other = client.post_keyed("r1", &image("r2")).await.unwrap();
    assert_eq!(other.refusal(), (422, "idempotency_mismatch".into()));
    clock.forward(9_999);
    assert_eq!(client.post_keyed("r1", &image("r1")).await.unwrap().json()["id"], first.as_str());
    clock.forward(1);
    let late = client.post_keyed("r1", &image("r1")).await.unwrap();
    assert_eq!((late.status, late.replayed), (201, false));
    let totals = sandbox.books().totals;
    assert_eq!((totals.accepted, totals.references, totals.paid_again, totals.replays), (2, 1, 1, 2));
}

#[tokio::test]
async fn simultaneous_repeats_of_a_key_pay_once() {
    let (sandbox, _clock, client) = start(|_| {}).await;
    let client = Arc::new(client);
    let posts: Vec<_> = (0..16)
        .map(|_| {
            let client = Arc::clone(&client);
            tokio::spawn(
                async move { client.post_keyed("k", &image("r")).await.unwrap().json()["id"].clone() },
            )
        })
        .collect();
    let mut ids = Vec::new();
    for post in posts {
        ids.push(post.await.unwrap());
    }
    assert!(ids.iter().all(|id| id.is_string() && *id == ids[0]));
    assert_eq!(sandbox.books().totals.accepted, 1);
}

#[tokio::test]
async fn without_keys_every_post_pays() {
    let (sandbox, _clock, client) = start(|account| account.idempotency_keys = false).await;
    client.submit("r1").await;
    client.submit("r1").await;
    let books = sandbox.books();
    assert_eq!((books.totals.accepted, books.totals.paid_again), (2, 1));
    assert_eq!(books.of("r1")[0].idempotency_key, None);
}

#[tokio::test]
async fn a_lookup_sees_a_render_after_its_delay() {
    let (_sandbox, clock, client) = start(|account| account.lookup_delay_ms = 5_000).await;
    let path = "/v1/renders?reference=POST%23p%2FSHOT%23s%2F1";
    let id = client.submit("POST#p/SHOT#s/1").await;
    assert_eq!(client.get(path).await.json(), json!({"renders": []}));
    clock.forward(5_000);
    let shown = client.get(path).await.json();
    assert_eq!(shown["renders"][0]["id"], id.as_str());
    assert_eq!(shown["renders"].as_array().unwrap().len(), 1);
    assert_eq!(client.get("/v1/renders?reference=other").await.json(), json!({"renders": []}));
    let (_off, _clock, client) = start(|account| account.lookup = false).await;
    client.submit("r").await;
    assert_eq!(client.get("/v1/renders?reference=r").await.refusal(), (404, "no_such_endpoint".into()));
}

#[tokio::test]
async fn accounts_do_not_see_each_other() {
    let accounts = vec![AccountConfig::new("a", "key-a"), AccountConfig::new("b", "key-b")];
    let sandbox = Sandbox::start(SandboxConfig::new(accounts)).await.unwrap();
    let (a, b) = (Client::new(&sandbox, "key-a"), Client::new(&sandbox, "key-b"));
    let id = a.submit("r").await;
    assert_eq!(b.get(&format!("/v1/renders/{id}")).await.status, 404);
    assert_eq!(b.get("/v1/renders?reference=r").await.json(), json!({"renders": []}));
    assert_eq!(b.cancel(&id).await.status, 404);
    assert_ne!(b.submit("r").await, id, "the same key of another account is another key");
    assert_eq!(sandbox.books().totals.paid_again, 0);
}

#[tokio::test]
async fn the_limit_counts_what_runs() {
    let (sandbox, clock, client) = start(|account| account.max_concurrent = Some(2)).await;
    let (_first, second) = (client.submit("r1").await, client.submit("r2").await);
    let full = client.post_keyed("r3", &image("r3")).await.unwrap();
    assert_eq!(full.refusal(), (429, "rate_limited".into()));
    assert_eq!(full.retry_after.as_deref(), Some("1"));
    assert_eq!(
        client.post_keyed("r1", &image("r1")).await.unwrap().status,
        200,
        "a repeat isn't another render"
    );
    client.cancel(&second).await;
    client.submit("r3").await;
    clock.forward(100);
    client.submit("r4").await;
    client.submit("r5").await;
    assert_eq!(sandbox.books().rejected["rate_limited"], 1);
}

#[tokio::test]
async fn a_cancelled_render_stays_cancelled_and_an_ended_one_stays_ended() {
    let (sandbox, clock, client) = start(|_| {}).await;
    let (early, late) = (client.submit("r1").await, client.submit("r2").await);
    assert_eq!(client.cancel(&early).await.json()["status"], "cancelled");
    assert_eq!(client.cancel(&early).await.refusal(), (409, "already_ended".into()));
    clock.forward(1_000);
    assert_eq!(client.render(&early).await["status"], "cancelled");
    assert_eq!(client.cancel(&late).await.refusal(), (409, "already_ended".into()));
    let states: Vec<RenderState> = sandbox.books().renders.iter().map(|entry| entry.state).collect();
    assert_eq!(states, [RenderState::Cancelled, RenderState::Succeeded]);
}

#[tokio::test]
async fn addresses_are_signed_and_expire_and_outputs_end() {
    let (_sandbox, clock, client) = start(|account| {
        account.output_lifetime_ms = 10_000;
        account.address_lifetime_ms = Some(1_000);
    })
    .await;
    let id = client.submit("r").await;
    clock.forward(100);
    let url = client.output_url(&id).await;
    assert_eq!(client.render(&id).await["outputs"][0]["expires_ms"], clock.now_ms() + 1_000);
    let (before, expires) = url.split_once("expires=").unwrap();
    let (expires, signature) = expires.split_once('&').unwrap();
    let later = expires.parse::<u64>().unwrap() + 1;
    let forged = [
        format!("{before}expires={later}&{signature}"),
        url.replace(signature, "signature=00"),
        url.replace(signature, "signature=zz"),
        url.replace(&id, "rnd_000000000000000000000000"),
        before.to_owned(),
    ];
    for forged in forged {
        let status = client.fetch(&forged).await.status;
        assert!(status == 403 || status == 404, "{status} for {forged}");
    }
    clock.forward(999);
    assert_eq!(client.fetch(&url).await.status, 200);
    clock.forward(1);
    assert_eq!(client.fetch(&url).await.refusal(), (403, "bad_signature".into()));
    assert_eq!(
        client.fetch(&client.output_url(&id).await).await.status,
        200,
        "asking again gives a fresh one"
    );
    clock.forward(10_000);
    let render = client.render(&id).await;
    assert_eq!(
        (render["status"].as_str(), render["outputs"].as_array().unwrap().len()),
        (Some("succeeded"), 0)
    );
}

#[tokio::test]
async fn render_times_depend_on_seed_and_reference_alone() {
    let run = async |seed: u64, order: [&'static str; 3]| {
        let mut account = AccountConfig::new("main", "key-main");
        (account.render_min_ms, account.render_max_ms) = (1_000, 60_000);
        let mut config = SandboxConfig { seed, ..SandboxConfig::new(vec![account]) };
        let clock = crate::support::HandClock::new();
        clock.put_into(&mut config);
        let sandbox = Sandbox::start(config).await.unwrap();
        let client = Client::new(&sandbox, "key-main");
        let mut ids = Vec::new();
        for reference in order {
            ids.push((reference, client.submit(reference).await));
        }
        clock.forward(60_000);
        let mut times = Vec::new();
        for (reference, id) in ids {
            let render = client.render(&id).await;
            let took = render["ended_ms"].as_u64().unwrap() - render["created_ms"].as_u64().unwrap();
            assert!((1_000..=60_000).contains(&took));
            times.push((reference, took));
        }
        times.sort_unstable();
        times
    };
    let first = run(1, ["a", "b", "c"]).await;
    assert_eq!(first, run(1, ["c", "b", "a"]).await);
    assert_ne!(first, run(2, ["a", "b", "c"]).await);
}

#[tokio::test]
async fn the_hook_runs_after_the_books_and_before_the_answer() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let mut config = SandboxConfig::default();
    let events = Arc::clone(&seen);
    config.on_accept = Some(Arc::new(move |event| {
        events.lock().unwrap().push(event.clone());
        wait.lock().unwrap().recv().unwrap();
    }));
    let sandbox = Sandbox::start(config).await.unwrap();
    let client = Arc::new(Client::new(&sandbox, "sandbox-key"));
    let poster = Arc::clone(&client);
    let post = tokio::spawn(async move { poster.submit("r1").await });
    until("the hook is called", || !seen.lock().unwrap().is_empty()).await;
    let books = sandbox.books();
    assert_eq!(books.of("r1").len(), 1, "in the books while the hook runs");
    assert!(!post.is_finished(), "no answer while the hook runs");
    assert_eq!(client.get("/books").await.status, 200, "the server goes on meanwhile");
    release.send(()).unwrap();
    let id = post.await.unwrap();
    let events = seen.lock().unwrap();
    assert_eq!((events[0].id.as_str(), events[0].reference.as_str()), (id.as_str(), "r1"));
    assert_eq!(events[0].account, "sandbox");
}

#[tokio::test]
async fn a_wrong_configuration_does_not_start() {
    let wrong = |change: &dyn Fn(&mut AccountConfig)| {
        let mut account = AccountConfig::new("a", "key-a");
        change(&mut account);
        SandboxConfig::new(vec![AccountConfig::new("b", "key-b"), account])
    };
    for config in [
        SandboxConfig::new(Vec::new()),
        wrong(&|account| account.name = "b".into()),
        wrong(&|account| account.api_key = "key-b".into()),
        wrong(&|account| account.api_key = "with space".into()),
        wrong(&|account| account.name = "a/b".into()),
        wrong(&|account| account.render_min_ms = 101),
        wrong(&|account| account.callback_secret = Some(String::new())),
        wrong(&|account| account.output_lifetime_ms = u64::MAX),
    ] {
        let shown = format!("{config:?}");
        assert!(!shown.contains("key-"), "keys never print: {shown}");
        assert!(matches!(Sandbox::start(config).await, Err(SandboxError::Config(_))), "{shown}");
    }
    assert_eq!(SandboxConfig::new(Vec::new()).check(), Err(ConfigError::NoAccounts));
    assert!(serde_json::from_str::<SandboxConfig>(r#"{"acounts": []}"#).is_err());
    let told = r#"{"accounts": [{"name": "a", "api_key": "k", "lookup": false}], "faults": [{"fault": "drop_answer", "next": 1}]}"#;
    let config: SandboxConfig = serde_json::from_str(told).unwrap();
    assert!(config.check().is_ok() && !config.accounts[0].lookup && config.accounts[0].idempotency_keys);
}
