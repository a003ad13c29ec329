//! A stack in AWS, as CloudFormation describes it. One request of the Query protocol, signed like any other; the SDK for
//! CloudFormation alone would take longer to compile than everything else of this command.

use crate::failure::Failure;
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials as _;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use glassline_aws::config::SdkConfig;
use glassline_protocol::message::Queue;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

/// How long CloudFormation may take to answer.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The longest answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// What the command needs of a deployed stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeployedStack {
    /// Its table.
    pub(crate) table: String,
    /// The bucket of its outputs, if it says.
    pub(crate) bucket: Option<String>,
    /// The queues that are sent to, by their addresses.
    pub(crate) urls: BTreeMap<Queue, String>,
    /// Every queue of the stack: name as it is shown, and address.
    pub(crate) queues: Vec<(String, String)>,
}

/// The output that holds a queue's address.
fn output(queue: Queue) -> &'static str {
    match queue {
        Queue::Render => "RenderQueueUrl",
        Queue::Finish => "FinishQueueUrl",
        Queue::Rollback => "RollbackQueueUrl",
        Queue::Wake => "WakeQueueUrl",
        Queue::Qa => "QaQueueUrl",
    }
}

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "DescribeStacksResult")]
    result: Described,
}

#[derive(Deserialize)]
struct Described {
    #[serde(rename = "Stacks", default)]
    stacks: Members<StackXml>,
}

#[derive(Deserialize)]
struct Members<T> {
    #[serde(default = "Vec::new")]
    member: Vec<T>,
}

impl<T> Default for Members<T> {
    fn default() -> Self {
        Self { member: Vec::new() }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StackXml {
    stack_status: String,
    #[serde(default)]
    outputs: Members<OutputXml>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OutputXml {
    output_key: String,
    #[serde(default)]
    output_value: String,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(rename = "Error")]
    error: ErrorXml,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ErrorXml {
    code: String,
    #[serde(default)]
    message: String,
}

/// Whether a stack in this state has its resources: it came up once, and isn't being taken down.
fn is_up(status: &str) -> bool {
    let down = ["CREATE_IN_PROGRESS", "CREATE_FAILED", "REVIEW_IN_PROGRESS"];
    !down.contains(&status) && !status.starts_with("ROLLBACK_") && !status.starts_with("DELETE_")
}

/// What CloudFormation said, as a stack.
fn understood(stack: &str, place: &str, status: u16, body: &str) -> Result<DeployedStack, Failure> {
    if status != 200 {
        let Ok(Refusal { error: ErrorXml { code, message } }) = quick_xml::de::from_str(body) else {
            return Err(Failure::new(format!(
                "CloudFormation {place} answered with status {status} and nothing that explains it"
            )));
        };
        return Err(Failure::new(if code == "ValidationError" && message.contains("does not exist") {
            format!("there is no stack `{stack}` {place}; check its name, --region and your account")
        } else {
            format!("the stack `{stack}` {place} can't be described: {message} ({code})")
        }));
    }
    let answer: Answer = quick_xml::de::from_str(body).map_err(|error| {
        Failure::new(format!("CloudFormation's answer {place} can't be understood: {error}"))
    })?;
    let Some(described) = answer.result.stacks.member.into_iter().next() else {
        return Err(Failure::new(format!("there is no stack `{stack}` {place}")));
    };
    if !is_up(&described.stack_status) {
        let status = described.stack_status;
        return Err(Failure::new(format!(
            "the stack `{stack}` isn't complete: its status is {status}; deploy it first, or wait"
        )));
    }
    let mut outputs: BTreeMap<String, String> =
        described.outputs.member.into_iter().map(|output| (output.output_key, output.output_value)).collect();
    let mut take = |key: &str| {
        outputs.remove(key).filter(|value| !value.is_empty()).ok_or_else(|| {
            Failure::new(format!(
                "the stack `{stack}` has no output `{key}`: it isn't one of Glassline, or of another version"
            ))
        })
    };
    let table = take("TableName")?;
    let (mut urls, mut queues) = (BTreeMap::new(), Vec::new());
    for queue in Queue::ALL {
        let url = take(output(*queue))?;
        queues.push((queue.name().to_owned(), url.clone()));
        urls.insert(*queue, url);
    }
    for queue in Queue::ALL {
        let key = output(*queue).replace("QueueUrl", "DeadLettersUrl");
        queues.extend(outputs.remove(&key).map(|url| (format!("{}-dlq", queue.name()), url)));
    }
    let bucket = outputs.remove("BucketName").filter(|name| !name.is_empty());
    Ok(DeployedStack { table, bucket, urls, queues })
}

/// The host of CloudFormation in a region.
fn endpoint(region: &str) -> String {
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    format!("https://cloudformation.{region}.{domain}")
}

async fn credentials(config: &SdkConfig) -> Result<Credentials, Failure> {
    let what = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
    let Some(provider) = config.credentials_provider() else {
        return Err(Failure::new(format!("there are no AWS credentials; {what}")));
    };
    match provider.provide_credentials().await {
        Ok(credentials) => Ok(credentials),
        Err(error) => {
            let mut why = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                why = cause.to_string();
                source = cause.source();
            }
            // The SDK goes on with a line for each place where it looked.
            let why = why.lines().next().unwrap_or_default().trim_end_matches(". Attempted:");
            Err(Failure::new(format!("no AWS credentials can be had ({why}); {what}")))
        }
    }
}

/// Asks CloudFormation for a stack.
pub(crate) async fn describe(config: &SdkConfig, stack: &str, now_ms: u64) -> Result<DeployedStack, Failure> {
    let Some(region) = config.region() else {
        return Err(Failure::new("no AWS region is set; name one with --region, or set AWS_REGION"));
    };
    let region = region.to_string();
    let url = config.endpoint_url().map_or_else(|| endpoint(&region), str::to_owned);
    let place = config.endpoint_url().map_or_else(|| format!("in {region}"), |url| format!("at {url}"));
    let identity = credentials(config).await?.into();
    let body = format!("Action=DescribeStacks&Version=2010-05-15&StackName={}", encoded(stack));
    let unsigned = |error: &dyn std::fmt::Display| {
        Failure::new(format!("the request to CloudFormation can't be signed: {error}"))
    };
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(&region)
        .name("cloudformation")
        .time(UNIX_EPOCH + Duration::from_millis(now_ms))
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| unsigned(&error))?
        .into();
    let url = reqwest::Url::parse(&url)
        .map_err(|error| Failure::new(format!("the endpoint `{url}` isn't a URL: {error}")))?;
    let headers = [("content-type", "application/x-www-form-urlencoded; charset=utf-8")];
    let signable =
        SignableRequest::new("POST", url.as_str(), headers.into_iter(), SignableBody::Bytes(body.as_bytes()));
    let signed =
        sign(signable.map_err(|error| unsigned(&error))?, &params).map_err(|error| unsigned(&error))?;
    let (instructions, _) = signed.into_parts();
    let unreachable = |error: reqwest::Error| {
        Failure::new(format!("CloudFormation {place} can't be reached: {}", error.without_url()))
    };
    let client = reqwest::Client::builder()
        .timeout(TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(unreachable)?;
    let mut request = client.post(url).body(body);
    for (name, value) in headers.into_iter().chain(instructions.headers()) {
        request = request.header(name, value);
    }
    let mut answer = request.send().await.map_err(unreachable)?;
    let status = answer.status().as_u16();
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(unreachable)? {
        if bytes.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Err(Failure::new(format!("CloudFormation's answer {place} is longer than any of its")));
        }
        bytes.extend_from_slice(&chunk);
    }
    understood(stack, &place, status, &String::from_utf8_lossy(&bytes))
}

/// A form's value, with everything escaped that isn't plain.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: &str, outputs: &[(&str, &str)]) -> String {
        let outputs: String = outputs
            .iter()
            .map(|(key, value)| {
                format!("<member><OutputKey>{key}</OutputKey><OutputValue>{value}</OutputValue><Description>d</Description></member>")
            })
            .collect();
        format!(
            "<DescribeStacksResponse xmlns=\"http://cloudformation.amazonaws.com/doc/2010-05-15/\">\n \
             <DescribeStacksResult><Stacks><member><StackName>app</StackName><Parameters/>\
             <StackStatus>{status}</StackStatus><Outputs>{outputs}</Outputs><Tags/></member></Stacks>\
             </DescribeStacksResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata>\
             </DescribeStacksResponse>"
        )
    }

    const OUTPUTS: [(&str, &str); 7] = [
        ("TableName", "app-Table-1"),
        ("RenderQueueUrl", "https://sqs/1/render?a=1&amp;b=2"),
        ("FinishQueueUrl", "https://sqs/1/finish"),
        ("RollbackQueueUrl", "https://sqs/1/rollback"),
        ("WakeQueueUrl", "https://sqs/1/wake"),
        ("QaQueueUrl", "https://sqs/1/qa.fifo"),
        ("RenderDeadLettersUrl", "https://sqs/1/dead"),
    ];

    #[test]
    fn outputs_become_a_table_and_queues() {
        for status in ["CREATE_COMPLETE", "UPDATE_IN_PROGRESS", "UPDATE_ROLLBACK_COMPLETE"] {
            let stack = understood("app", "in eu-west-1", 200, &answer(status, &OUTPUTS)).unwrap();
            assert_eq!(stack.table, "app-Table-1");
            assert_eq!(stack.urls[&Queue::Render], "https://sqs/1/render?a=1&b=2");
            assert_eq!(stack.queues.len(), 6);
            assert_eq!(stack.queues[5], ("render-dlq".to_owned(), "https://sqs/1/dead".to_owned()));
        }
    }

    fn sentence(status: u16, body: &str) -> String {
        understood("app", "in eu-west-1", status, body).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_one_sentence() {
        for status in ["CREATE_IN_PROGRESS", "ROLLBACK_COMPLETE", "DELETE_FAILED", "REVIEW_IN_PROGRESS"] {
            let said = sentence(200, &answer(status, &OUTPUTS));
            assert!(
                said.starts_with(&format!("the stack `app` isn't complete: its status is {status}")),
                "{said}"
            );
        }
        let said = sentence(200, &answer("CREATE_COMPLETE", &OUTPUTS[..3]));
        assert!(said.starts_with("the stack `app` has no output `RollbackQueueUrl`"), "{said}");
        let refused = |code: &str, message: &str| {
            format!(
                "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
            )
        };
        let said = sentence(400, &refused("ValidationError", "Stack with id app does not exist"));
        assert_eq!(said, "there is no stack `app` in eu-west-1; check its name, --region and your account");
        let said = sentence(403, &refused("AccessDenied", "not authorized"));
        assert_eq!(said, "the stack `app` in eu-west-1 can't be described: not authorized (AccessDenied)");
        assert!(sentence(502, "<html>").contains("answered with status 502"));
        assert!(sentence(200, "<html></html>").contains("can't be understood"));
        let none = "<R><DescribeStacksResult><Stacks/></DescribeStacksResult></R>";
        assert_eq!(sentence(200, none), "there is no stack `app` in eu-west-1");
    }

    #[test]
    fn a_name_can_not_add_parameters() {
        assert_eq!(encoded("app&StackName=other é"), "app%26StackName%3Dother%20%C3%A9");
    }
}
