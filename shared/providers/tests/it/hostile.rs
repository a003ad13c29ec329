//! Answers that no provider should give.

use crate::support::{
    BY_LOOKUP, PROMPT, Raw, Then, at, lane, providers, reference, rejection, request, say, task,
};
use glassline_protocol::provider::{Cancel, ErrorClass, Find, Provider, Submit, TaskState};
use serde_json::json;

async fn submit(then: Then) -> Submit {
    let raw = Raw::start(then).await;
    let told = providers(at(&raw.url, BY_LOOKUP)).submit(&lane(), &request(), &reference("s1")).await;
    assert_eq!(raw.posts(), 1);
    told
}

async fn status(body: &str) -> TaskState {
    let raw = Raw::start(say("200 OK", "", body)).await;
    providers(at(&raw.url, BY_LOOKUP)).status(&lane(), &task("rnd_1")).await
}

#[tokio::test]
async fn an_acceptance_without_a_readable_task_is_unknown() {
    let long = format!(r#"{{"id":"{}"}}"#, "x".repeat(257));
    let padded = format!(r#"{{"id":"rnd_1","pad":"{}"}}"#, " ".repeat(64 * 1024));
    for body in [
        "",
        "null",
        "[]",
        "{}",
        "<html>",
        r#"{"id":7}"#,
        r#"{"id":""}"#,
        r#"{"id":"a b"}"#,
        r#"{"id":"\u0000"}"#,
        r#"{"id":"a","id":"b"}"#,
        r#"{"id":"rnd_1"} trailing"#,
        "\u{feff}{\"id\":\"rnd_1\"}",
        &long,
        &padded,
    ] {
        let told = submit(say("201 Created", "", body)).await;
        assert_eq!(told, Submit::Unknown, "{}", &body[..body.len().min(60)]);
    }
    for ok in ["200 OK", "201 Created"] {
        let told = submit(say(ok, "", r#"{"id":"rnd_1","new_field":[{}]}"#)).await;
        assert_eq!(told, Submit::Accepted(task("rnd_1")));
    }
    for other in ["202 Accepted", "204 No Content", "206 Partial Content", "299 Odd"] {
        assert_eq!(submit(say(other, "", r#"{"id":"rnd_1"}"#)).await, Submit::Unknown, "{other}");
    }
}

#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    let endless = "HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n".to_owned()
        + &format!("{:x}\r\n{}\r\n", 8_192, " ".repeat(8_192)).repeat(1_000);
    assert_eq!(submit(Then::Say(endless)).await, Submit::Unknown);
    let heads = "HTTP/1.1 201 Created\r\n".to_owned() + &"x: y\r\n".repeat(100_000);
    assert_eq!(submit(Then::Say(heads)).await, Submit::Unknown);
}

#[tokio::test]
async fn a_refusal_counts_only_as_documented() {
    let refused = |code: &str| json!({"error": {"code": code, "message": "m"}}).to_string();
    for (status, body) in [
        ("429 Too Many Requests", String::new()),
        ("429 Too Many Requests", "slow down".into()),
        ("429 Too Many Requests", refused("something_else")),
        ("400 Bad Request", refused("rate_limited")),
        ("403 Forbidden", "<html>blocked by the gateway</html>".into()),
        ("404 Not Found", refused("no_such_endpoint")),
        ("409 Conflict", refused("invalid_request")),
        ("422 Unprocessable Entity", refused("idempotency_mismatch")),
        ("499 Odd", refused("invalid_request")),
        ("500 Internal Server Error", refused("invalid_request")),
        ("503 Service Unavailable", refused("rate_limited")),
        ("300 Multiple Choices", refused("invalid_request")),
    ] {
        assert_eq!(submit(say(status, "", &body)).await, Submit::Unknown, "{status} {body}");
    }
    let told =
        submit(say("429 Odd", "Retry-After: Wed, 01 Jan 2200 00:00:00 GMT\r\n", &refused("rate_limited")))
            .await;
    assert!(
        matches!(
            told,
            Submit::Rejected { class: ErrorClass::Throttled, retry_after_ms: Some(86_400_000), .. }
        ),
        "{told:?}"
    );
    for value in ["-5", "soon", "\u{e9}"] {
        let told =
            submit(say("429 Odd", &format!("retry-after: {value}\r\n"), &refused("rate_limited"))).await;
        assert!(matches!(told, Submit::Rejected { retry_after_ms: None, .. }), "{value}: {told:?}");
    }
}

#[tokio::test]
async fn a_reason_never_repeats_the_provider() {
    let message = format!("we will not draw `{PROMPT}`\u{1b}[31m\r\n{}", "x".repeat(10_000));
    for param in ["heron", PROMPT, "a\u{7}b", &"p".repeat(5_000)] {
        let body =
            json!({"error": {"code": "invalid_request", "message": message, "param": param}}).to_string();
        let (_, _, reason) = rejection(submit(say("400 Bad Request", "", &body)).await);
        assert!(reason.len() < 200 && !reason.chars().any(char::is_control), "{reason}");
        assert!(!reason.contains("heron") && !reason.contains("draw"), "{reason}");
    }
    let failed =
        |code: &str| json!({"id": "rnd_1", "status": "failed", "error": {"code": code, "message": message}});
    for code in ["", PROMPT, "New Code", "nsfw_detected", &"c".repeat(5_000)] {
        let told = status(&failed(code).to_string()).await;
        let TaskState::Failed { class: ErrorClass::Transient, reason } = told else { panic!("{told:?}") };
        assert!(reason.len() < 200 && !reason.contains("heron"), "{reason}");
        assert_eq!(reason.contains("nsfw_detected"), code == "nsfw_detected");
    }
}

#[tokio::test]
async fn a_state_is_believed_only_of_the_task_asked_for() {
    for body in [
        "",
        "{}",
        r#"{"id":"rnd_2","status":"succeeded","outputs":[{"url":"https://x/y"}]}"#,
        r#"{"id":"rnd_2","status":"failed"}"#,
        r#"{"status":"failed"}"#,
        r#"{"id":"rnd_1"}"#,
        r#"{"id":"rnd_1","status":7}"#,
        r#"{"id":"rnd_1","status":"succeeded","outputs":[{"url":7}]}"#,
        r#"{"id":"rnd_1","status":"succeeded","outputs":{}}"#,
    ] {
        assert_eq!(status(body).await, TaskState::Unknown, "{body}");
    }
    for word in ["", "SUCCEEDED", "aborted", PROMPT, "\u{0}"] {
        let body = json!({"id": "rnd_1", "status": word}).to_string();
        assert_eq!(status(&body).await, TaskState::Running, "{word}");
    }
    let told = status(r#"{"id":"rnd_1","status":"failed"}"#).await;
    assert!(matches!(told, TaskState::Failed { class: ErrorClass::Transient, .. }), "{told:?}");
}

#[tokio::test]
async fn outputs_come_in_the_order_in_which_they_expire() {
    let output = |url: &str, expires: Option<u64>| json!({"url": url, "expires_ms": expires});
    let told = |outputs: Vec<serde_json::Value>| async move {
        status(&json!({"id": "rnd_1", "status": "succeeded", "outputs": outputs}).to_string()).await
    };
    let outputs = vec![
        output("https://h/never", None),
        output("https://h/late", Some(9)),
        output("https://h/soon", Some(1)),
        output("file:///etc/passwd", Some(0)),
        output("not an address", Some(0)),
    ];
    let TaskState::Completed(got) = told(outputs).await else { panic!() };
    let urls: Vec<&str> = got.iter().map(|output| output.url.as_str()).collect();
    assert_eq!(urls, ["https://h/soon", "https://h/late", "https://h/never"]);
    for none in [vec![], vec![output("javascript:alert(1)", None)]] {
        let got = told(none).await;
        assert!(matches!(got, TaskState::Failed { class: ErrorClass::BadOutput, .. }), "{got:?}");
    }
}

#[tokio::test]
async fn answers_of_a_gateway_say_nothing_about_a_task() {
    let refused = |code: &str| json!({"error": {"code": code, "message": "m"}}).to_string();
    for (status, body) in [
        ("404 Not Found", "<html>not found</html>".to_owned()),
        ("404 Not Found", refused("no_such_endpoint")),
        ("409 Conflict", refused("busy")),
        ("409 Conflict", String::new()),
        ("410 Gone", refused("not_found")),
        ("401 Unauthorized", refused("unauthorized")),
        ("429 Too Many Requests", refused("rate_limited")),
        ("500 Internal Server Error", refused("not_found")),
        ("302 Found", refused("not_found")),
        ("204 No Content", String::new()),
    ] {
        let raw = Raw::start(say(status, "location: /books\r\n", &body)).await;
        let providers = providers(at(&raw.url, BY_LOOKUP));
        assert_eq!(providers.status(&lane(), &task("rnd_1")).await, TaskState::Unknown, "{status} {body}");
        assert_eq!(providers.find(&lane(), &reference("s1"), 0).await, Find::Unknown, "{status} {body}");
        assert_eq!(providers.cancel(&lane(), &task("rnd_1")).await, Cancel::Unknown, "{status} {body}");
        assert_eq!(raw.posts(), 1, "a cancel isn't repeated either");
    }
}

#[tokio::test]
async fn a_task_id_that_no_address_can_hold_is_not_asked_for() {
    for name in [".", ".."] {
        let raw =
            Raw::start(say("200 OK", "", &json!({"id": name, "status": "cancelled"}).to_string())).await;
        let providers = providers(at(&raw.url, BY_LOOKUP));
        assert_eq!(providers.status(&lane(), &task(name)).await, TaskState::Unknown);
        assert_eq!(providers.cancel(&lane(), &task(name)).await, Cancel::Unknown);
        assert_eq!(raw.connections(), 0, "it would be the address of something else");
    }
}

#[tokio::test]
async fn a_lookup_that_ignores_our_reference_finds_nothing_of_ours() {
    let ours = reference("s1").to_string();
    let find = |renders: serde_json::Value| async move {
        let raw = Raw::start(say("200 OK", "", &json!({"renders": renders}).to_string())).await;
        providers(at(&raw.url, BY_LOOKUP)).find(&lane(), &reference("s1"), 0).await
    };
    let entry = |id: &str, reference: &str| json!({"id": id, "reference": reference, "status": "running"});
    assert_eq!(find(json!([])).await, Find::NotFound);
    assert_eq!(find(json!([entry("x", "POST#p1/SHOT#s1/2")])).await, Find::Unknown);
    assert_eq!(find(json!([{"id": "x", "status": "running"}])).await, Find::Unknown);
    let mixed = json!([entry("x", "other"), entry("ours", &ours), entry("again", &ours)]);
    assert_eq!(find(mixed).await, Find::Found(task("ours")));
    assert_eq!(find(json!({})).await, Find::Unknown);
}
