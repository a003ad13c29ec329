//! The errors that a proxy answers in place of the service, in the service's own form.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Response, StatusCode, header};
use serde_json::{Value, json};

use super::faults::FaultKind;

/// The operation that a request asks for, by its `X-Amz-Target`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Operation {
    target: String,
}

impl Operation {
    pub(super) fn new(target: impl Into<String>) -> Self {
        Self { target: target.into() }
    }

    fn name(&self) -> &str {
        self.target.rsplit('.').next().unwrap_or_default()
    }

    /// Whether it is the one meant by a rule: named alone, or by the whole header.
    pub(super) fn is(&self, target: &str) -> bool {
        self.target == target || self.name() == target
    }

    pub(super) fn is_dynamodb(&self) -> bool {
        self.target.starts_with("DynamoDB_")
    }

    pub(super) fn is_sqs(&self) -> bool {
        self.target.starts_with("AmazonSQS.")
    }

    fn is_transaction(&self) -> bool {
        self.is_dynamodb() && matches!(self.name(), "TransactWriteItems" | "TransactGetItems")
    }

    /// Whether DynamoDB may answer that another transaction is at the item
    /// (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html>).
    pub(super) fn can_conflict(&self) -> bool {
        self.is_transaction()
            || self.is_dynamodb() && matches!(self.name(), "PutItem" | "UpdateItem" | "DeleteItem")
    }
}

/// The answer to a request that isn't forwarded; `None` when the fault has no answer.
pub(super) fn answer(
    kind: FaultKind,
    operation: &Operation,
    request: &[u8],
    choice: u64,
) -> Option<Response<Full<Bytes>>> {
    match kind {
        FaultKind::Conflict if operation.is_transaction() => Some(cancelled(request, choice)),
        FaultKind::Conflict => Some(dynamodb(
            "com.amazonaws.dynamodb.v20120810#TransactionConflictException",
            json!({"message": "Transaction is ongoing for the item"}),
        )),
        FaultKind::ThroughputExceeded => Some(dynamodb(
            "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
            json!({"message": "The level of configured provisioned throughput for the table was exceeded. Consider \
                increasing your provisioning level with the UpdateTable API."}),
        )),
        FaultKind::Throttling if operation.is_sqs() => Some(sqs_throttled()),
        FaultKind::Throttling => Some(dynamodb(
            "com.amazon.coral.availability#ThrottlingException",
            json!({"message": "Rate of requests exceeds the allowed throughput."}),
        )),
        FaultKind::LoseRequest | FaultKind::LoseReply | FaultKind::Delay { .. } => None,
    }
}

/// One reason per item, in the order of the request; one of them conflicts.
fn cancelled(request: &[u8], choice: u64) -> Response<Full<Bytes>> {
    let body: Value = serde_json::from_slice(request).unwrap_or_default();
    let items = body["TransactItems"].as_array().map_or(1, Vec::len).max(1);
    let chosen = usize::try_from(choice % items as u64).unwrap_or_default();
    let codes: Vec<&str> =
        (0..items).map(|item| if item == chosen { "TransactionConflict" } else { "None" }).collect();
    let reasons: Vec<Value> = codes
        .iter()
        .map(|code| match *code {
            "None" => json!({"Code": "None"}),
            code => json!({"Code": code, "Message": "Transaction is ongoing for the item"}),
        })
        .collect();
    let message = format!(
        "Transaction cancelled, please refer cancellation reasons for specific reasons [{}]",
        codes.join(", ")
    );
    dynamodb(
        "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        json!({"Message": message, "CancellationReasons": reasons}),
    )
}

fn dynamodb(error: &str, mut body: Value) -> Response<Full<Bytes>> {
    body["__type"] = json!(error);
    reply(StatusCode::BAD_REQUEST, &body)
}

fn sqs_throttled() -> Response<Full<Bytes>> {
    let body = json!({"__type": "com.amazonaws.sqs#RequestThrottled", "message": "The request was denied due to request throttling."});
    let mut response = reply(StatusCode::BAD_REQUEST, &body);
    // Names the error as the query protocol does (https://smithy.io/2.0/aws/protocols/aws-query-protocol.html).
    let code = header::HeaderValue::from_static("RequestThrottled;Sender");
    response.headers_mut().insert("x-amzn-query-error", code);
    response
}

pub(super) fn reply(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("application/x-amz-json-1.0");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    if let Ok(id) = crate::lambda::ids::uuid().parse() {
        response.headers_mut().insert("x-amzn-requestid", id);
    }
    response
}
