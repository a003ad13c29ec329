//! The operations on message move tasks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::Server;
use super::wire::required;
use crate::config::{queue_arn, queue_of_arn};
use crate::error::SqsError;

/// How fast SQS moves at most, in messages a second. Here the number is checked and shown, but all move at once.
const PER_SECOND_MAX: i64 = 500;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct StartMoveTask {
    source_arn: Option<String>,
    destination_arn: Option<String>,
    max_number_of_messages_per_second: Option<i64>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct StartedMoveTask {
    task_handle: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListMoveTasks {
    source_arn: Option<String>,
    max_results: Option<i64>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct MoveTasks {
    results: Vec<MoveTaskEntry>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct MoveTaskEntry {
    status: &'static str,
    source_arn: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination_arn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_number_of_messages_per_second: Option<i64>,
    approximate_number_of_messages_moved: u64,
    approximate_number_of_messages_to_move: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_reason: Option<String>,
    started_timestamp: u64,
}

fn queue(arn: &str, parameter: &'static str) -> Result<String, SqsError> {
    queue_of_arn(arn).map(str::to_owned).ok_or(SqsError::ResourceNotFound { parameter })
}

impl Server {
    pub(super) async fn start_move_task(&self, request: StartMoveTask) -> Result<StartedMoveTask, SqsError> {
        let arn = required(request.source_arn, "SourceArn")?;
        let source = queue(&arn, "SourceArn")?;
        let destination = request.destination_arn.map(|arn| queue(&arn, "DestinationArn")).transpose()?;
        let per_second = request.max_number_of_messages_per_second;
        if per_second.is_some_and(|rate| !(1..=PER_SECOND_MAX).contains(&rate)) {
            return Err(SqsError::parameter(
                "The value for parameter MaxNumberOfMessagesPerSecond is invalid. Reason: Must be between 1 and 500.",
            ));
        }
        let work = move |store: &mut crate::store::Store| {
            store.move_messages(&source, destination.as_deref(), per_second)
        };
        let id = self.engine.run(work).await?;
        let handle = serde_json::json!({ "taskId": id, "sourceArn": arn });
        Ok(StartedMoveTask { task_handle: STANDARD.encode(handle.to_string()) })
    }

    pub(super) async fn list_move_tasks(&self, request: ListMoveTasks) -> Result<MoveTasks, SqsError> {
        let arn = required(request.source_arn, "SourceArn")?;
        let source = queue(&arn, "SourceArn")?;
        let max = request.max_results.unwrap_or(1);
        if !(1..=10).contains(&max) {
            return Err(SqsError::parameter(
                "The value for parameter MaxResults is invalid. Reason: Must be between 1 and 10.",
            ));
        }
        let tasks = self.engine.run(move |store| store.move_tasks(&source, max)).await?;
        let results = tasks.into_iter().map(|task| MoveTaskEntry {
            status: if task.failure.is_some() { "FAILED" } else { "COMPLETED" },
            source_arn: arn.clone(),
            destination_arn: task.destination.as_deref().map(queue_arn),
            max_number_of_messages_per_second: task.per_second,
            approximate_number_of_messages_moved: task.moved,
            approximate_number_of_messages_to_move: task.to_move,
            failure_reason: task.failure,
            started_timestamp: task.started_ms,
        });
        Ok(MoveTasks { results: results.collect() })
    }
}
