//! The ports on AWS: DynamoDB and SQS adapters, configuration, batch handling and telemetry.

pub mod config;
pub mod dynamo;
pub mod lambda;
pub mod live;
pub mod local;
pub mod meter;
pub mod sqs;
pub mod telemetry;
