use crate::support::{Client, image, start, until};
use glassline_sandbox::{FaultKind, FaultRule, FaultsView, Sandbox};
use serde_json::json;

fn set(sandbox: &Sandbox, rules: Vec<FaultRule>) {
    sandbox.set_faults(rules).unwrap();
}

#[tokio::test]
async fn refusals_on_demand_accept_nothing() {
    let (sandbox, _clock, client) = start(|_| {}).await;
    for (fault, status, code) in [
        (FaultKind::ErrorBefore, 500, "internal_error"),
        (FaultKind::RejectThrottled, 429, "rate_limited"),
        (FaultKind::RejectModeration, 400, "content_moderated"),
        (FaultKind::RejectPayment, 402, "payment_required"),
        (FaultKind::RejectUnauthorized, 401, "unauthorized"),
        (FaultKind::RejectInvalid, 400, "invalid_request"),
    ] {
        let reference = format!("{fault:?}");
        set(&sandbox, vec![FaultRule::references(fault, [reference.as_str()]).value(7)]);
        let other = client.post_keyed(&format!("other-{reference}"), &image("other")).await.unwrap();
        assert_eq!(other.status, 201);
        let answer = client.post_keyed(&reference, &image(&reference)).await.unwrap();
        assert_eq!(answer.refusal(), (status, code.into()));
        let wait = (fault == FaultKind::RejectThrottled).then_some("7");
        assert_eq!(answer.retry_after.as_deref(), wait);
        assert!(sandbox.books().of(&reference).is_empty());
        let again = client.post_keyed(&reference, &image(&reference)).await.unwrap();
        assert_eq!(again.status, 201, "once per reference");
        assert_eq!(sandbox.books().faults[&fault], 1);
        assert_eq!(sandbox.books().rejected[code], 1);
    }
}

#[tokio::test]
async fn a_dropped_request_accepts_nothing_and_a_dropped_answer_accepts() {
    let (sandbox, _clock, client) = start(|_| {}).await;
    set(&sandbox, vec![FaultRule::percent(FaultKind::DropRequest, 100.0, 1)]);
    assert!(client.post_keyed("r1", &image("r1")).await.is_none());
    assert!(sandbox.books().renders.is_empty());
    set(&sandbox, vec![FaultRule::percent(FaultKind::DropAnswer, 100.0, 1)]);
    assert!(client.post_keyed("r1", &image("r1")).await.is_none());
    let books = sandbox.books();
    assert_eq!(books.of("r1").len(), 1);
    let repeat = client.post_keyed("r1", &image("r1")).await.unwrap();
    assert_eq!(repeat.json()["id"], books.of("r1")[0].id.as_str(), "the repeat gets its answer");
    let every = FaultRule::percent(FaultKind::DropAnswer, 100.0, 1).once_per_reference(false);
    set(&sandbox, vec![every]);
    assert!(client.post_keyed("r1", &image("r1")).await.is_none());
    assert!(client.post_keyed("r1", &image("r1")).await.is_none());
    let books = sandbox.books();
    assert_eq!((books.totals.accepted, books.totals.posts), (1, 5));
    assert_eq!((books.faults[&FaultKind::DropRequest], books.faults[&FaultKind::DropAnswer]), (1, 3));
}

#[tokio::test]
async fn an_error_after_acceptance_still_pays() {
    let (sandbox, _clock, client) = start(|_| {}).await;
    set(&sandbox, vec![FaultRule::next(FaultKind::ErrorAfter, 1)]);
    let answer = client.post_keyed("r1", &image("r1")).await.unwrap();
    assert_eq!(answer.refusal(), (502, "upstream_error".into()));
    assert_eq!(sandbox.books().of("r1").len(), 1);
    assert_eq!(client.post_keyed("r1", &image("r1")).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_slow_answer_is_in_the_books_before_it_comes() {
    let (sandbox, _clock, client) = start(|_| {}).await;
    set(&sandbox, vec![FaultRule::next(FaultKind::SlowAnswerMs, 1).value(600_000)]);
    let client = std::sync::Arc::new(client);
    let poster = std::sync::Arc::clone(&client);
    let post = tokio::spawn(async move { poster.post_keyed("r1", &image("r1")).await.is_some() });
    until("r1 is in the books", || !sandbox.books().of("r1").is_empty()).await;
    assert!(!post.is_finished());
    assert_eq!(client.post_keyed("r1", &image("r1")).await.unwrap().status, 200, "others aren't held up");
    post.abort();
    set(&sandbox, vec![FaultRule::next(FaultKind::SlowAnswerMs, 1).value(1)]);
    assert_eq!(client.post_keyed("r2", &image("r2")).await.unwrap().status, 201);
}

#[tokio::test]
async fn renders_end_as_told() {
    let (sandbox, clock, client) = start(|_| {}).await;
    set(
        &sandbox,
        vec![
            FaultRule::references(FaultKind::NeverFinish, ["never"]),
            FaultRule::references(FaultKind::FailRender, ["fails"]),
            FaultRule::references(FaultKind::FailModeration, ["moderated"]),
        ],
    );
    let mut ids = Vec::new();
    for reference in ["never", "fails", "moderated", "good"] {
        ids.push(client.submit(reference).await);
    }
    clock.forward(86_400_000 * 300);
    assert_eq!(client.render(&ids[0]).await["status"], "running");
    for (id, code) in [(&ids[1], "render_failed"), (&ids[2], "content_moderated")] {
        let render = client.render(id).await;
        assert_eq!(
            (render["status"].as_str(), render["error"]["code"].as_str()),
            (Some("failed"), Some(code))
        );
    }
    assert_eq!(client.render(&ids[3]).await["status"], "succeeded");
    assert_eq!(client.cancel(&ids[0]).await.json()["status"], "cancelled");
    assert_eq!(client.render(&ids[0]).await["status"], "cancelled");
}

#[tokio::test]
async fn an_ignored_cancel_and_a_strange_word() {
    let (sandbox, clock, client) = start(|_| {}).await;
    set(
        &sandbox,
        vec![
            FaultRule::percent(FaultKind::CancelIgnored, 100.0, 1),
            FaultRule::percent(FaultKind::UnknownStatusWord, 100.0, 1),
        ],
    );
    let id = client.submit("r1").await;
    assert_eq!(client.render(&id).await["status"], "warming_up");
    assert_eq!(client.render(&id).await["status"], "queued");
    for _ in 0..2 {
        assert_eq!(client.cancel(&id).await.json()["status"], "queued");
    }
    clock.forward(100);
    assert_eq!(client.render(&id).await["status"], "succeeded");
    assert_eq!(sandbox.books().faults[&FaultKind::CancelIgnored], 2);
}

#[tokio::test]
async fn outputs_are_spoilt_as_told() {
    let (sandbox, clock, client) = start(|_| {}).await;
    set(
        &sandbox,
        vec![
            FaultRule::references(FaultKind::TruncatedOutput, ["cut"]),
            FaultRule::references(FaultKind::HtmlOutput, ["html"]),
            FaultRule::references(FaultKind::EmptyOutput, ["empty"]),
            FaultRule::references(FaultKind::OutputGone, ["gone"]),
        ],
    );
    let mut outputs = std::collections::HashMap::new();
    for reference in ["cut", "html", "empty", "gone", "good"] {
        let mut body = image(reference);
        body["prompt"] = "the same".into();
        let id = client.post_keyed(reference, &body).await.unwrap().json()["id"].as_str().unwrap().to_owned();
        clock.forward(100);
        let url = client.output_url(&id).await;
        let first = client.fetch(&url).await;
        assert_eq!(first.bytes, client.fetch(&url).await.bytes, "spoilt outputs stay spoilt: {reference}");
        outputs.insert(reference, first);
    }
    let good = &outputs["good"];
    assert!(image::load_from_memory(&good.bytes).is_ok());
    let cut = &outputs["cut"];
    assert_eq!((cut.status, cut.content_type.as_str()), (200, "image/png"));
    assert_eq!(cut.bytes, good.bytes[..good.bytes.len() / 2]);
    assert!(image::load_from_memory(&cut.bytes).is_err());
    assert_eq!((outputs["html"].status, outputs["html"].bytes.starts_with(b"<!doctype html>")), (200, true));
    assert!(outputs["html"].content_type.starts_with("text/html"));
    assert_eq!((outputs["empty"].status, outputs["empty"].bytes.len()), (200, 0));
    assert_eq!(outputs["gone"].refusal(), (410, "output_gone".into()));
    assert_eq!(sandbox.books().faults[&FaultKind::OutputGone], 2);
}

#[tokio::test]
async fn rules_are_set_and_shown_over_http() {
    let (sandbox, _clock, client) = start(|_| {}).await;
    let put = async |client: &Client, body: String| {
        let sent = client.http.put(format!("{}/faults", client.url)).body(body).send().await.unwrap();
        (sent.status().as_u16(), sent.text().await.unwrap())
    };
    let rules = json!({"rules": [
        {"fault": "error_before", "next": 3},
        {"fault": "drop_answer", "percent": 12.5, "seed": 9, "account": "main"},
        {"fault": "never_finish", "references": ["a", "b"], "once_per_reference": true}]});
    let (status, _) = put(&client, rules.to_string()).await;
    assert_eq!(status, 200);
    assert_eq!(client.post_keyed("r", &image("r")).await.unwrap().status, 500);
    let shown: FaultsView = serde_json::from_value(client.get("/faults").await.json()).unwrap();
    assert_eq!(shown, sandbox.faults());
    assert_eq!((shown.rules[0].next, shown.fired[&FaultKind::ErrorBefore]), (Some(2), 1));
    assert_eq!(shown.rules[1], FaultRule::percent(FaultKind::DropAnswer, 12.5, 9).for_account("main"));
    for bad in [
        "",
        "[]",
        r#"{"rules": [{"fault": "melt", "next": 1}]}"#,
        r#"{"rules": [{"fault": "drop_answer"}]}"#,
        r#"{"rules": [{"fault": "drop_answer", "next": 1, "percent": 1}]}"#,
        r#"{"rules": [{"fault": "drop_answer", "percent": 101}]}"#,
        r#"{"rules": [], "more": 1}"#,
    ] {
        let (status, text) = put(&client, bad.to_owned()).await;
        assert_eq!(status, 400, "{bad}: {text}");
    }
    assert_eq!(sandbox.faults().rules.len(), 3, "a bad list changes nothing");
    assert_eq!(put(&client, r#"{"rules": []}"#.into()).await.0, 200);
    assert_eq!(sandbox.faults().fired[&FaultKind::ErrorBefore], 1, "counts stay");
}
