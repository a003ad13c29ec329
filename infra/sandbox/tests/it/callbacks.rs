use crate::support::{Client, Received, image, next, receiver, until};
use glassline_sandbox::{
    AccountConfig, FaultKind, FaultRule, SIGNATURE_HEADER, Sandbox, SandboxConfig, TIMESTAMP_HEADER,
    sign_callback,
};

async fn sandbox(change: impl FnOnce(&mut AccountConfig)) -> (Sandbox, Client) {
    let mut account = AccountConfig::new("main", "key-main");
    account.callback_secret = Some("callback secret".into());
    (account.render_min_ms, account.render_max_ms) = (20, 20);
    account.callback_retry_ms = 5;
    change(&mut account);
    let sandbox = Sandbox::start(SandboxConfig::new(vec![account])).await.unwrap();
    let client = Client::new(&sandbox, "key-main");
    (sandbox, client)
}

async fn submit(client: &Client, reference: &str, callback_url: &str) -> String {
    let mut body = image(reference);
    body["callback_url"] = callback_url.into();
    let answer = client.post_keyed(reference, &body).await.unwrap();
    assert_eq!(answer.status, 201);
    answer.json()["id"].as_str().unwrap().to_owned()
}

fn signed_with(call: &Received, secret: &str) -> bool {
    let timestamp_s = call.header(TIMESTAMP_HEADER).parse().unwrap();
    call.header(SIGNATURE_HEADER) == sign_callback(secret, timestamp_s, &call.body)
}

#[tokio::test]
async fn the_end_is_called_back_signed_over_the_raw_body() {
    let (sandbox, client) = sandbox(|_| {}).await;
    let (url, mut received) = receiver(Vec::new()).await;
    let id = submit(&client, "r1", &url).await;
    let call = next(&mut received).await;
    assert!(call.head.starts_with("POST /hook HTTP/1.1"));
    assert!(signed_with(&call, "callback secret") && !signed_with(&call, "key-main"));
    let body = call.json();
    assert_eq!((body["id"].as_str(), body["reference"].as_str()), (Some(id.as_str()), Some("r1")));
    assert_eq!(body["status"], "succeeded");
    assert!(body.get("outputs").is_none(), "a callback is a hint: the outputs must be asked for");
    assert_eq!(sandbox.books().of("r1")[0].callbacks_sent, 1);
}

#[tokio::test]
async fn a_callback_is_tried_again_until_it_is_taken() {
    let (sandbox, client) = sandbox(|_| {}).await;
    let (url, mut received) = receiver(vec![500, 302, 200]).await;
    submit(&client, "r1", &url).await;
    for _ in 0..3 {
        assert!(signed_with(&next(&mut received).await, "callback secret"));
    }
    // The next one's callback is the next to come: the first is over.
    submit(&client, "r2", &url).await;
    assert_eq!(next(&mut received).await.json()["reference"], "r2");
    assert_eq!(sandbox.books().of("r1")[0].callbacks_sent, 3);
}

#[tokio::test]
async fn cancelled_and_failed_renders_call_back_and_so_does_a_duplicate() {
    let (sandbox, client) = sandbox(|_| {}).await;
    sandbox
        .set_faults(vec![
            FaultRule::references(FaultKind::NeverFinish, ["never"]),
            FaultRule::references(FaultKind::FailRender, ["fails"]),
            FaultRule::references(FaultKind::DuplicateCallbacks, ["twice"]),
        ])
        .unwrap();
    let (url, mut received) = receiver(Vec::new()).await;
    submit(&client, "fails", &url).await;
    assert_eq!(next(&mut received).await.json()["status"], "failed");
    submit(&client, "twice", &url).await;
    let (first, second) = (next(&mut received).await, next(&mut received).await);
    assert_eq!((first.json()["reference"].as_str(), first.body), (Some("twice"), second.body));
    let id = submit(&client, "never", &url).await;
    client.cancel(&id).await;
    let call = next(&mut received).await.json();
    assert_eq!((call["reference"].as_str(), call["status"].as_str()), (Some("never"), Some("cancelled")));
    let books = sandbox.books();
    let sent: Vec<u32> = books.renders.iter().map(|entry| entry.callbacks_sent).collect();
    assert_eq!(sent, [1, 2, 1]);
    assert_eq!(books.faults[&FaultKind::DuplicateCallbacks], 1);
}

#[tokio::test]
async fn without_callbacks_the_address_is_taken_and_never_called() {
    let (off, off_client) = sandbox(|account| account.callbacks = false).await;
    let (_on, on_client) = sandbox(|_| {}).await;
    let (url, mut received) = receiver(Vec::new()).await;
    submit(&off_client, "quiet", &url).await;
    until("the render ends", || off.books().totals.succeeded == 1).await;
    submit(&on_client, "loud", &url).await;
    assert_eq!(next(&mut received).await.json()["reference"], "loud");
    assert_eq!(off.books().of("quiet")[0].callbacks_sent, 0);
}

#[tokio::test]
async fn a_cancelled_render_calls_back_once() {
    let (sandbox, client) = sandbox(|_| {}).await;
    let (url, mut received) = receiver(Vec::new()).await;
    let id = submit(&client, "cancelled", &url).await;
    assert_eq!(client.cancel(&id).await.status, 200);
    assert_eq!(next(&mut received).await.json()["status"], "cancelled");
    // This one ends after the other one would have.
    submit(&client, "later", &url).await;
    assert_eq!(next(&mut received).await.json()["reference"], "later");
    assert_eq!(sandbox.books().of("cancelled")[0].callbacks_sent, 1);
}
