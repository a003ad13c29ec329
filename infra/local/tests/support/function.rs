//! The function that the tests invoke. What it does is in the payload; what its init does, in its variables.
#![allow(clippy::disallowed_methods, reason = "its variables and its waits are what the tests steer it by")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use serde_json::{Value, json};

/// Serves until the Runtime API is gone. Returns at once when no host started this process.
pub(crate) fn serve() {
    let Ok(api) = std::env::var("AWS_LAMBDA_RUNTIME_API") else { return };
    match std::env::var("TEST_INIT").as_deref() {
        Ok("report") => {
            let body = r#"{"errorType":"Config.Missing","errorMessage":"GLASSLINE_SECRET is not set"}"#;
            call(&api, "POST", "/2018-06-01/runtime/init/error", body);
            std::process::exit(1);
        }
        Ok("exit") => {
            eprintln!("refusing to start: GLASSLINE_SECRET is not set");
            std::process::exit(3);
        }
        Ok("hang") => std::thread::sleep(Duration::from_secs(600)),
        Ok(path) if !std::path::Path::new(path).exists() => {
            eprintln!("the test has not made {path} yet");
            std::process::exit(4);
        }
        Ok(_) | Err(_) => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(lambda_runtime::run(service_fn(handle))).unwrap();
}

struct Failure {
    error_type: &'static str,
    message: String,
}

impl From<Failure> for Diagnostic {
    fn from(failure: Failure) -> Self {
        Diagnostic { error_type: failure.error_type.to_owned(), error_message: failure.message }
    }
}

impl std::fmt::Debug for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

fn text<'a>(payload: &'a Value, key: &str) -> &'a str {
    payload[key].as_str().unwrap_or_default()
}

fn number(payload: &Value, key: &str) -> u64 {
    payload[key].as_u64().unwrap_or_default()
}

/// Answers a request of a Function URL.
fn request(event: &Value) -> Result<Value, Failure> {
    let answer = |body: Value| json!({ "statusCode": 200, "headers": { "content-type": "application/json" }, "body": body });
    match text(event, "rawPath") {
        "/echo" => Ok(answer(event.to_string().into())),
        "/binary" => Ok(json!({
            "statusCode": 201, "headers": { "content-type": "image/png" }, "cookies": ["a=1; HttpOnly", "b=2"],
            "body": "/wD/", "isBase64Encoded": true,
        })),
        "/number" => Ok(json!(7)),
        "/header" => Ok(json!({ "statusCode": 200, "headers": { "a b": "c" } })),
        "/fail" => Err(Failure { error_type: "Test.Failure", message: "the test asked for it".to_owned() }),
        _ => std::process::exit(1),
    }
}

async fn handle(event: LambdaEvent<Value>) -> Result<Value, Failure> {
    let LambdaEvent { payload, context } = event;
    let pid = std::process::id();
    if let Some(records) = payload["Records"].as_array() {
        return batch(records, context.xray_trace_id.as_deref()).await;
    }
    if payload["requestContext"]["http"].is_object() {
        return request(&payload);
    }
    match text(&payload, "do") {
        "sleep" => tokio::time::sleep(Duration::from_millis(number(&payload, "ms"))).await,
        "hold" => hold(text(&payload, "begun"), text(&payload, "go")).await,
        "exit" => std::process::exit(i32::try_from(number(&payload, "code")).unwrap()),
        "abort" => std::process::abort(),
        "panic" => panic!("the test asked for it"),
        "error" => {
            return Err(Failure {
                error_type: "Test.Failure",
                message: text(&payload, "message").to_owned(),
            });
        }
        "big" => return Ok(json!("x".repeat(usize::try_from(number(&payload, "bytes")).unwrap()))),
        "env" => return Ok(std::env::vars().map(|(name, value)| (name, json!(value))).collect()),
        "cwd" => return Ok(json!(std::env::current_dir().unwrap())),
        "print" => {
            println!("{}", text(&payload, "stdout"));
            eprintln!("{}", text(&payload, "stderr"));
        }
        "context" => {
            return Ok(json!({
                "request_id": context.request_id, "deadline": context.deadline,
                "arn": context.invoked_function_arn, "trace": context.xray_trace_id,
                "trace_env": std::env::var("_X_AMZN_TRACE_ID").ok(),
            }));
        }
        "misuse" => return Ok(misuse()),
        _ => {}
    }
    Ok(json!({"pid": pid, "echo": payload}))
}

async fn hold(begun: &str, go: &str) {
    std::fs::write(begun, "").unwrap();
    while !std::path::Path::new(go).exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Does what the body of each record says and answers with the records that failed. Each delivery becomes a line of
/// the file `TEST_SEEN`. `TEST_ANSWER` replaces the answer, `$ID` in it standing for the first record's id.
async fn batch(records: &[Value], trace: Option<&str>) -> Result<Value, Failure> {
    let mut failures = Vec::new();
    for record in records {
        let body: Value = serde_json::from_str(text(record, "body")).unwrap();
        let receives: u64 = text(&record["attributes"], "ApproximateReceiveCount").parse().unwrap();
        let line = json!({"name": body["name"], "receives": receives, "batch": records.len(), "trace": trace,
            "record": record, "trace_env": std::env::var("_X_AMZN_TRACE_ID").ok()});
        if let Ok(path) = std::env::var("TEST_SEEN") {
            let mut file = std::fs::File::options().create(true).append(true).open(path).unwrap();
            // One write, so that the lines of several processes don't mix.
            file.write_all(format!("{line}\n").as_bytes()).unwrap();
        }
        match text(&body, "do") {
            "hold" => hold(text(&body, "begun"), text(&body, "go")).await,
            "exit" if receives < number(&body, "until") => std::process::exit(9),
            "error" if receives < number(&body, "until") => {
                return Err(Failure { error_type: "Test.Failure", message: "the whole batch".to_owned() });
            }
            "fail" if receives < number(&body, "until") => {
                failures.push(json!({"itemIdentifier": record["messageId"]}));
            }
            _ => {}
        }
    }
    match std::env::var("TEST_ANSWER") {
        Ok(answer) => {
            Ok(serde_json::from_str(&answer.replace("$ID", text(&records[0], "messageId"))).unwrap())
        }
        Err(_) => Ok(json!({"batchItemFailures": failures})),
    }
}

/// Calls of the Runtime API that a busy process must not make, and what they are answered.
fn misuse() -> Value {
    let api = std::env::var("AWS_LAMBDA_RUNTIME_API").unwrap();
    let error = r#"{"errorType":"A","errorMessage":"b"}"#;
    json!({
        "wrong id": call(&api, "POST", "/2018-06-01/runtime/invocation/nobody/response", "{}"),
        "wrong id error": call(&api, "POST", "/2018-06-01/runtime/invocation/nobody/error", error),
        "init error": call(&api, "POST", "/2018-06-01/runtime/init/error", error),
        "next": call(&api, "GET", "/2018-06-01/runtime/invocation/next", ""),
        "unknown": call(&api, "GET", "/2018-06-01/runtime/exit/error", ""),
        "not json": call(&api, "POST", "/2018-06-01/runtime/invocation/nobody/error", "\u{0}{{"),
    })
}

/// One HTTP request; returns the status.
fn call(api: &str, method: &str, path: &str, body: &str) -> u16 {
    let mut stream = TcpStream::connect(api).unwrap();
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: {api}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_whitespace().nth(1).unwrap().parse().unwrap()
}
