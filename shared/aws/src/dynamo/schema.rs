//! The table's shape, for local stacks and tests; a deployed table is the template's.

use super::QUEUE_INDEX;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType,
};

/// A table that couldn't be created.
#[derive(Debug, thiserror::Error)]
#[error("table `{table}` can't be created: {why}")]
pub struct SchemaError {
    table: String,
    why: String,
}

fn attribute(name: &str) -> Result<AttributeDefinition, BuildError> {
    AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S).build()
}

fn key(name: &str, kind: KeyType) -> Result<KeySchemaElement, BuildError> {
    KeySchemaElement::builder().attribute_name(name).key_type(kind).build()
}

fn index() -> Result<GlobalSecondaryIndex, BuildError> {
    GlobalSecondaryIndex::builder()
        .index_name(QUEUE_INDEX)
        .key_schema(key("queue_pk", KeyType::Hash)?)
        .key_schema(key("queue_sk", KeyType::Range)?)
        .projection(Projection::builder().projection_type(ProjectionType::KeysOnly).build())
        .build()
}

/// Creates the table with its index, unless it is there.
///
/// # Errors
/// [`SchemaError`] with DynamoDB's reason.
pub async fn create_table(client: &Client, table: &str) -> Result<(), SchemaError> {
    let error = |why: String| SchemaError { table: table.to_owned(), why };
    let built = |result: Result<_, BuildError>| result.map_err(|why| error(why.to_string()));
    let mut request = client.create_table().table_name(table).billing_mode(BillingMode::PayPerRequest);
    for name in ["pk", "sk", "queue_pk", "queue_sk"] {
        request = request.attribute_definitions(attribute(name).map_err(|why| error(why.to_string()))?);
    }
    request = request
        .key_schema(built(key("pk", KeyType::Hash))?)
        .key_schema(built(key("sk", KeyType::Range))?)
        .global_secondary_indexes(index().map_err(|why| error(why.to_string()))?);
    match request.send().await {
        Ok(_) => Ok(()),
        Err(failed) if failed.as_service_error().is_some_and(|e| e.is_resource_in_use_exception()) => Ok(()),
        Err(failed) => Err(error(aws_sdk_dynamodb::error::DisplayErrorContext(&failed).to_string())),
    }
}
