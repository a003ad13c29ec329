//! The command on a stack that CloudFormation describes: a stand-in answers for CloudFormation and passes everything else
//! on to the table and the queues of a running local stack, as one endpoint of an emulator does.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::BufRead as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A stack that ends with the test, whatever becomes of it.
struct Local {
    child: Child,
    dynamo: String,
    sqs: String,
}

impl Local {
    fn start(data: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_glassline"))
            .args(["local", "--json", "--tick-seconds", "1", "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let up: Value = serde_json::from_str(&line).unwrap();
        let address = |of: &str| format!("http://{}", up["addresses"][of].as_str().unwrap());
        Self { child, dynamo: address("dynamo"), sqs: address("sqs") }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the stand-in says of the stack `app`.
#[derive(Clone)]
struct Cloud {
    dynamo: String,
    sqs: String,
    status: Arc<Mutex<&'static str>>,
    table: Arc<Mutex<&'static str>>,
    client: reqwest::Client,
}

fn refused(status: StatusCode, code: &str, message: &str) -> Response {
    let error = format!("<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>");
    (status, format!("<ErrorResponse>{error}<RequestId>1</RequestId></ErrorResponse>")).into_response()
}

fn described(cloud: &Cloud, headers: &HeaderMap, body: &str) -> Response {
    let signature = headers["authorization"].to_str().unwrap();
    let date = &headers["x-amz-date"].to_str().unwrap()[..8];
    let scope =
        format!("AWS4-HMAC-SHA256 Credential=AKIDTEST/{date}/us-east-1/cloudformation/aws4_request, ");
    let signed = signature.strip_prefix(&scope).unwrap_or_default();
    if !(signed.contains("host") && signed.contains("x-amz-date") && signed.contains("Signature=")) {
        return refused(
            StatusCode::FORBIDDEN,
            "SignatureDoesNotMatch",
            "the request isn't signed as it must be",
        );
    }
    let name = body.strip_prefix("Action=DescribeStacks&Version=2010-05-15&StackName=").unwrap();
    if name != "app" {
        let message = format!("Stack with id {name} does not exist");
        return refused(StatusCode::BAD_REQUEST, "ValidationError", &message);
    }
    let queue = |name: &str| format!("{}/000000000000/{name}", cloud.sqs);
    let mut outputs = String::new();
    for (key, value) in [
        ("TableName", (*cloud.table.lock().unwrap()).to_owned()),
        ("RenderQueueUrl", queue("render")),
        ("FinishQueueUrl", queue("finish")),
        ("RollbackQueueUrl", queue("rollback")),
        ("WakeQueueUrl", queue("wake")),
        ("QaQueueUrl", queue("qa.fifo")),
        ("RollbackDeadLettersUrl", queue("rollback-dlq")),
    ] {
        write!(outputs, "<member><OutputKey>{key}</OutputKey><OutputValue>{value}</OutputValue></member>")
            .unwrap();
    }
    let status = *cloud.status.lock().unwrap();
    format!(
        "<DescribeStacksResponse xmlns=\"http://cloudformation.amazonaws.com/doc/2010-05-15/\"><DescribeStacksResult>\
         <Stacks><member><StackName>app</StackName><StackStatus>{status}</StackStatus><Outputs>{outputs}</Outputs>\
         </member></Stacks></DescribeStacksResult></DescribeStacksResponse>"
    )
    .into_response()
}

async fn answer(State(cloud): State<Cloud>, headers: HeaderMap, body: Bytes) -> Response {
    let Some(target) = headers.get("x-amz-target").and_then(|target| target.to_str().ok()) else {
        return described(&cloud, &headers, std::str::from_utf8(&body).unwrap());
    };
    let to = if target.starts_with("DynamoDB") { &cloud.dynamo } else { &cloud.sqs };
    let mut request = cloud.client.post(to.as_str()).body(body);
    for (name, value) in headers.iter().filter(|(name, _)| *name != "host" && *name != "content-length") {
        request = request.header(name, value);
    }
    let answer = request.send().await.unwrap();
    let (status, headers) = (answer.status(), answer.headers().clone());
    (status, headers, answer.bytes().await.unwrap()).into_response()
}

struct Deployed {
    url: String,
    cloud: Cloud,
    _local: Local,
    _runtime: tokio::runtime::Runtime,
}

impl Deployed {
    fn start(data: &Path) -> Self {
        let local = Local::start(data);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let cloud = Cloud {
            dynamo: local.dynamo.clone(),
            sqs: local.sqs.clone(),
            status: Arc::new(Mutex::new("CREATE_COMPLETE")),
            table: Arc::new(Mutex::new("glassline")),
            client: reqwest::Client::new(),
        };
        let router = Router::new().fallback(answer).with_state(cloud.clone());
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        runtime.spawn(async { axum::serve(listener, router).await.unwrap() });
        Self { url, cloud, _local: local, _runtime: runtime }
    }

    fn run(&self, stack: &str, arguments: &[&str]) -> Output {
        command(arguments)
            .args(["--stack", stack, "--region", "us-east-1", "--endpoint-url", &self.url])
            .env("AWS_ACCESS_KEY_ID", "AKIDTEST")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .output()
            .unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let mut arguments = arguments.to_vec();
        arguments.push("--json");
        let output = self.run("app", &arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// The command with nothing of AWS in its environment, whatever this machine has.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_glassline"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
        command.env_remove(name);
    }
    command.env("AWS_CONFIG_FILE", "/nonexistent").env("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent");
    command.env("AWS_EC2_METADATA_DISABLED", "true").args(arguments);
    command
}

fn says(output: &Output, sentence: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it must fail: {output:?}");
    assert!(error.contains(sentence), "{sentence}: {error}");
    assert_eq!(error.lines().count(), 1, "one sentence: {error}");
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(90);
    while !done() {
        assert!(Instant::now() < until, "{what} didn't come");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn every_command_works_on_a_deployed_stack() {
    let folder = tempfile::tempdir().unwrap();
    let stack = Deployed::start(&folder.path().join("data"));
    let posts = folder.path().join("posts.json");
    let shots = r#"[{"id":"s1","prompt":"a","params":{"width":64,"height":64}}]"#;
    std::fs::write(&posts, format!(r#"{{"id":"p1","lane":"prism","shots":{shots}}}"#)).unwrap();
    let submitted = stack.json(&["submit", posts.to_str().unwrap()]);
    assert_eq!(submitted["submitted"][0]["ok"], true, "{submitted}");
    wait_for("the render", || stack.json(&["show", "POST#p1/SHOT#s1"])["jobs"][0]["status"] == "succeeded");
    let listed = stack.json(&["ls"]);
    assert_eq!(listed["posts"][0]["statuses"]["succeeded"], 1, "{listed}");
    let lanes = stack.json(&["lanes"]);
    assert!(lanes["lanes"].as_array().unwrap().iter().any(|lane| lane["lane"] == "prism"), "{lanes}");
    let queues = stack.json(&["queues"]);
    let names: Vec<_> = queues["queues"].as_array().unwrap().iter().map(|queue| &queue["queue"]).collect();
    assert_eq!(names, ["render", "finish", "rollback", "wake", "qa", "rollback-dlq"], "{queues}");
    assert_eq!(queues["queues"][4]["visible"], 1, "the output waits for QA: {queues}");

    for _ in 0..2 {
        stack.json(&["lanes", "add", "amber", "--capacity", "3", "--starts-per-minute", "9"]);
    }
    let lanes = stack.json(&["lanes"]);
    let amber = lanes["lanes"].as_array().unwrap().iter().find(|lane| lane["lane"] == "amber").unwrap();
    assert_eq!((&amber["capacity"], &amber["ready"]), (&3.into(), &0.into()), "{lanes}");
    let other = stack.run("app", &["lanes", "add", "amber", "--capacity", "4"]);
    says(&other, "lane amber is there already, with other settings; it keeps them");

    stack.json(&["series", "add", "night", "--lane", "prism"]);
    let stories = folder.path().join("stories.csv");
    std::fs::write(&stories, "series,key,premise\nnight,owl,\"An owl, awake.\"\n").unwrap();
    stack.json(&["submit", stories.to_str().unwrap()]);
    wait_for("the episode", || stack.json(&["episodes", "night"])[0]["status"] == "complete");
    let series = stack.json(&["series"]);
    let night = series["series"].as_array().unwrap().iter().find(|row| row["series"] == "night").unwrap();
    assert_eq!(night["episodes"], 1, "{series}");
    let reopened = stack.run("app", &["reopen", "EPISODE#night#000001"]);
    says(&reopened, "is complete; only a failed one can be reopened");
    says(&stack.run("app", &["show", "nothing"]), "there is no `nothing` in the stack app");

    says(&stack.run("other", &["ls"]), "there is no stack `other` at http://127.0.0.1");
    *stack.cloud.status.lock().unwrap() = "ROLLBACK_COMPLETE";
    says(&stack.run("app", &["ls"]), "the stack `app` isn't complete: its status is ROLLBACK_COMPLETE");
    *stack.cloud.status.lock().unwrap() = "UPDATE_IN_PROGRESS";
    assert!(stack.run("app", &["ls"]).status.success(), "an update leaves the table where it is");
    *stack.cloud.table.lock().unwrap() = "";
    says(&stack.run("app", &["ls"]), "the stack `app` has no output `TableName`");
}

#[test]
fn what_is_missing_to_reach_a_stack_is_said_in_one_sentence() {
    let nowhere = "http://127.0.0.1:9";
    let run = |arguments: &[&str]| command(arguments).output().unwrap();
    says(&run(&["ls", "--stack", "app"]), "no AWS region is set; name one with --region");
    says(&run(&["ls", "--stack", "app", "--region", "us-east-1"]), "no AWS credentials can be had");
    says(&run(&["ls", "--region", "us-east-1"]), "name it with --stack");
    says(&run(&["demo", "--stack", "app"]), "leave out --stack");
    let mut unreachable =
        command(&["ls", "--stack", "app", "--region", "us-east-1", "--endpoint-url", nowhere]);
    let unreachable = unreachable.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b");
    says(&unreachable.output().unwrap(), "CloudFormation at http://127.0.0.1:9 can't be reached");
}
