//! Amazon Bedrock's asynchronous invocations, as the API reference has them; signatures are computed here by hand, after
//! <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>.

use crate::desk::{Desk, Order, Phase, Refusal, Render, json as answer, refusal, text};
use crate::stand::{Expect, Stand};
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use glassline_protocol::ids::TaskId;
use glassline_protocol::provider::{ErrorClass, Recovery};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

pub(crate) struct Bedrock;

type App = State<Arc<Desk>>;

fn arn(id: &str) -> String {
    format!("arn:aws:bedrock:us-east-1:123456789012:async-invoke/{id}")
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Everything but unreserved characters is escaped; `/` too unless it is kept.
fn escaped(text: &str, slash: bool) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte.into()),
            b'/' if slash => out.push('/'),
            _ => write!(out, "%{byte:02X}").unwrap(),
        }
    }
    out
}

/// The signature that a request should carry.
pub(crate) fn signature(
    secret: &str,
    scope: &str,
    when: &str,
    method: &str,
    path: &str,
    query: &[(String, String)],
    headers: &[(String, String)],
    body: &[u8],
) -> String {
    let mut pairs: Vec<String> = query
        .iter()
        .map(|(name, value)| format!("{}={}", escaped(name, false), escaped(value, false)))
        .collect();
    pairs.sort();
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
    let canonical = format!(
        "{method}\n{}\n{}\n{lines}\n{}\n{}",
        escaped(path, true),
        pairs.join("&"),
        names.join(";"),
        hex::encode(Sha256::digest(body))
    );
    let to_sign =
        format!("AWS4-HMAC-SHA256\n{when}\n{scope}\n{}", hex::encode(Sha256::digest(canonical.as_bytes())));
    let mut key = format!("AWS4{secret}").into_bytes();
    for part in scope.split('/') {
        key = hmac(&key, part);
    }
    hex::encode(hmac(&key, &to_sign))
}

/// Whether a request is signed as it should be.
fn signed(method: &str, uri: &axum::http::Uri, headers: &HeaderMap, body: &[u8]) -> bool {
    let Some(authorization) = text(headers, "authorization") else { return false };
    let part = |name: &str| {
        let (_, rest) = authorization.split_once(&format!("{name}="))?;
        Some(rest.split(',').next()?.trim().to_owned())
    };
    let (Some(credential), Some(names), Some(given)) =
        (part("Credential"), part("SignedHeaders"), part("Signature"))
    else {
        return false;
    };
    let Some((id, scope)) = credential.split_once('/') else { return false };
    let when = text(headers, "x-amz-date").unwrap_or_default();
    let own: Vec<(String, String)> =
        names.split(';').map(|name| (name.to_owned(), text(headers, name).unwrap_or_default())).collect();
    let query: Vec<(String, String)> = reqwest::Url::parse(&format!("http://x{uri}"))
        .unwrap()
        .query_pairs()
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    assert!(names.contains("host") && names.contains("x-amz-date"), "{names}");
    assert!(
        scope.ends_with("/us-east-1/bedrock/aws4_request") && when.starts_with(&scope[..8]),
        "{scope} {when}"
    );
    id == "AKIDEXAMPLE" && given == signature(SECRET, scope, &when, method, uri.path(), &query, &own, body)
}

async fn parts(request: Request) -> Result<(axum::http::Uri, Vec<u8>), Box<Response>> {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap().to_vec();
    if signed(head.method.as_str(), &head.uri, &head.headers, &body) {
        Ok((head.uri, body))
    } else {
        Err(Box::new(aws(403, "InvalidSignatureException", "x")))
    }
}

fn aws(status: u16, code: &str, message: &str) -> Response {
    use axum::response::IntoResponse;
    aws_refusal(status, code, message).into_response()
}

fn aws_refusal(status: u16, code: &str, message: &str) -> Refusal {
    refusal(status, json!({ "message": message })).with("x-amzn-errortype", code)
}

async fn start(State(desk): App, request: Request) -> Response {
    let (_, body) = match parts(request).await {
        Ok(parts) => parts,
        Err(refused) => return *refused,
    };
    let body: Value = serde_json::from_slice(&body).unwrap();
    let token = body["clientRequestToken"].as_str().unwrap();
    assert!((1..=256).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic()));
    assert_eq!(body["modelInput"]["taskType"], "TEXT_VIDEO");
    let order = Order {
        prompt: body["modelInput"]["textToVideoParams"]["text"].as_str().unwrap().to_owned(),
        key: Some(token.to_owned()),
        webhook: None,
        body: body.clone(),
    };
    desk.post(order, |render| answer(200, &json!({"invocationArn": arn(&render.id)})))
}

fn invocation(render: &Render) -> Value {
    let base = render.order.body["outputDataConfig"]["s3OutputDataConfig"]["s3Uri"].as_str().unwrap();
    let mut told = json!({"invocationArn": arn(&render.id), "modelArn": "x", "submitTime": "2027-01-15T08:00:00Z",
        "clientRequestToken": render.order.key,
        "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": format!("{base}/{}", render.id)}}});
    let word = match &render.phase {
        Phase::Queued | Phase::Running => "InProgress",
        Phase::Odd => "Simmering",
        Phase::Succeeded => "Completed",
        Phase::Cancelled => "Failed",
        Phase::Told(fields) => {
            for (name, value) in fields.as_object().unwrap() {
                told[name] = value.clone();
            }
            return told;
        }
    };
    told["status"] = word.into();
    told
}

async fn show(State(desk): App, Path(name): Path<String>, request: Request) -> Response {
    if let Err(refused) = parts(request).await {
        return *refused;
    }
    let id = name.rsplit('/').next().unwrap_or_default();
    match desk.get(id) {
        Some(render) if arn(id) == name => answer(200, &invocation(&render)),
        Some(_) | None => aws(404, "ResourceNotFoundException", "x"),
    }
}

async fn list(State(desk): App, request: Request) -> Response {
    let (uri, _) = match parts(request).await {
        Ok(parts) => parts,
        Err(refused) => return *refused,
    };
    let url = reqwest::Url::parse(&format!("http://x{uri}")).unwrap();
    let query: BTreeMap<String, String> = url.query_pairs().into_owned().collect();
    assert!(query["submitTimeAfter"].ends_with('Z'));
    let offset: usize = query.get("nextToken").map_or(0, |token| token.parse().unwrap());
    let renders = desk.renders();
    let page: Vec<Value> = renders.iter().skip(offset).take(2).map(invocation).collect();
    let next = (renders.len() > offset + 2).then(|| (offset + 2).to_string());
    answer(200, &json!({"asyncInvokeSummaries": page, "nextToken": next}))
}

impl Stand for Bedrock {
    fn name(&self) -> &'static str {
        "bedrock"
    }
    fn idempotent(&self) -> bool {
        true
    }
    fn router(&self, desk: Arc<Desk>) -> Router {
        Router::new()
            .route("/async-invoke", get(list).post(start))
            .route("/async-invoke/{arn}", get(show))
            .with_state(desk)
    }
    fn lane(&self, url: &str) -> Value {
        json!({"adapter": "bedrock", "base_url": url, "region": "us-east-1", "model_id": "amazon.nova-reel-v1:1",
            "output_s3": "s3://our-bucket/renders", "model_input": {"taskType": "TEXT_VIDEO"},
            "connect_timeout_ms": 5_000, "submit_timeout_ms": 20_000, "query_timeout_ms": 20_000})
    }
    fn recovery(&self) -> Recovery {
        Recovery::Lookup { settle_ms: 120_000 }
    }
    fn refusals(&self) -> Vec<(Refusal, ErrorClass)> {
        let nova = "This request has been blocked by our content filters. Please adjust your text prompt.";
        vec![
            (aws_refusal(403, "AccessDeniedException", "x"), ErrorClass::Unauthorized),
            (
                aws_refusal(403, "ExpiredTokenException:http://internal.amazon.com/", "x"),
                ErrorClass::Unauthorized,
            ),
            (aws_refusal(404, "ResourceNotFoundException", "x"), ErrorClass::Unauthorized),
            (aws_refusal(400, "ServiceQuotaExceededException", "x"), ErrorClass::Throttled),
            (aws_refusal(400, "ValidationException", "bad fps"), ErrorClass::InvalidInput),
            (aws_refusal(400, "ValidationException", nova), ErrorClass::Moderated),
            (
                refusal(400, json!({"__type": "com.amazon.coral#ValidationException", "message": "x"})),
                ErrorClass::InvalidInput,
            ),
        ]
    }
    fn throttled(&self) -> (Refusal, Option<u64>) {
        (aws_refusal(429, "ThrottlingException", "Too many requests"), None)
    }
    fn terminals(&self) -> Vec<(Phase, Expect)> {
        let failed = |text: &str| Phase::Told(json!({"status": "Failed", "failureMessage": text}));
        let elsewhere = json!({"status": "Completed",
            "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": "s3://somebody-elses/bucket"}}});
        vec![
            (failed("Internal error"), Expect::Failed(ErrorClass::Transient)),
            (
                failed("The generated video has been blocked by our content filters."),
                Expect::Failed(ErrorClass::Moderated),
            ),
            (Phase::Told(json!({"status": "Failed"})), Expect::Failed(ErrorClass::Transient)),
            (Phase::Told(elsewhere), Expect::Failed(ErrorClass::BadOutput)),
        ]
    }
    fn task(&self, render: &Render) -> TaskId {
        TaskId::new(arn(&render.id)).unwrap()
    }
    fn renews(&self) -> bool {
        false
    }
    fn cancels(&self) -> bool {
        false
    }
}
