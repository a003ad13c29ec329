//! Function URL events: what AWS sends, and what it must not be able to break.

use crate::support::{SECRET, Site};
use glassline_api::url::serve;
use serde_json::{Value, json};

/// The example of AWS's documentation
/// (<https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html#urls-request-payload>), for a route of ours.
fn documented() -> Value {
    json!({
        "version": "2.0", "routeKey": "$default", "rawPath": "/v1/posts", "rawQueryString": "",
        "cookies": ["cookie1", "cookie2"],
        "headers": { "authorization": format!("Bearer {SECRET}"), "content-type": "application/json", "header2": "a,b" },
        "queryStringParameters": { "parameter1": "value1,value2", "parameter2": "value" },
        "requestContext": {
            "accountId": "123456789012", "apiId": "<urlid>", "authentication": null,
            "authorizer": { "iam": { "accessKey": "AKIA...", "accountId": "111122223333", "callerId": "AIDA...",
                "cognitoIdentity": null, "principalOrgId": null, "userArn": "arn:aws:iam::111122223333:user/example-user",
                "userId": "AIDA..." } },
            "domainName": "<url-id>.lambda-url.us-west-2.on.aws", "domainPrefix": "<url-id>",
            "http": { "method": "POST", "path": "/v1/posts", "protocol": "HTTP/1.1", "sourceIp": "123.123.123.123",
                "userAgent": "agent" },
            "requestId": "id", "routeKey": "$default", "stage": "$default", "time": "12/Mar/2020:19:03:58 +0000",
            "timeEpoch": 1_583_348_638_390_u64,
        },
        "body": "{\"id\":\"p1\",\"lane\":\"keyed\",\"shots\":[{\"id\":\"s1\",\"prompt\":\"a pear\"}]}",
        "pathParameters": null, "isBase64Encoded": false, "stageVariables": null,
    })
}

async fn answer(site: &Site, event: Value) -> Value {
    serve(site.router(), event).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_event_is_understood_with_text_and_with_base64() {
    let site = Site::new().await;
    let created = answer(&site, documented()).await;
    assert_eq!(created["statusCode"], 201, "{created}");
    site.world.clock.manual.advance(1);
    let mut again = documented();
    again["body"] =
        "eyJpZCI6InAxIiwibGFuZSI6ImtleWVkIiwic2hvdHMiOlt7ImlkIjoiczEiLCJwcm9tcHQiOiJhIHBlYXIifV19".into();
    again["isBase64Encoded"] = true.into();
    assert_eq!(answer(&site, again).await["statusCode"], 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_cannot_be_a_request_is_refused_and_nothing_dies() {
    let site = Site::new().await;
    let change = |pointer: &str, value: Value| {
        let mut event = documented();
        *event.pointer_mut(pointer).unwrap() = value;
        event
    };
    for event in [
        json!({}),
        json!(null),
        json!("{}"),
        json!({ "Records": [] }),
        change("/rawPath", json!("")),
        change("/rawPath", json!("v1/posts")),
        change("/rawQueryString", json!("a b")),
        change("/requestContext/http/method", json!("GET POST")),
        change("/requestContext/http/method", json!(null)),
        change("/headers/header2", json!("line\nbreak")),
        change("/cookies", json!(["a\nb"])),
        {
            let mut event = change("/body", json!("%%%"));
            event["isBase64Encoded"] = true.into();
            event
        },
    ] {
        let answer = answer(&site, event.clone()).await;
        assert_eq!(answer["statusCode"], 400, "{event} {answer}");
        assert_eq!(answer["headers"]["content-type"], "application/problem+json");
    }
}

/// Whether AWS decodes a path before it hands it over isn't documented. Keys in addresses need no encoding; one that has
/// its `#` encoded is understood in both cases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_is_understood_decoded_and_encoded() {
    let site = Site::new().await;
    assert_eq!(answer(&site, documented()).await["statusCode"], 201);
    for path in ["/v1/jobs/POST:p1/SHOT:s1", "/v1/jobs/POST%23p1/SHOT%23s1", "/v1/jobs/POST#p1/SHOT#s1"] {
        let mut event = documented();
        event["rawPath"] = path.into();
        event["requestContext"]["http"]["method"] = "GET".into();
        assert_eq!(answer(&site, event).await["statusCode"], 200, "{path}");
    }
    let mut event = documented();
    event["rawPath"] = "/v1/posts/a é\u{1f600}?x".into();
    event["requestContext"]["http"]["method"] = "GET".into();
    assert_eq!(answer(&site, event).await["statusCode"], 400);
}
