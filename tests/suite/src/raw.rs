//! Rows put and read without the store under test: for setting a scene, and for judging what the store did.

use crate::world::{TABLE, World};
use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use futures_util::stream::{self, StreamExt as _};
use glassline_protocol::row::{Field, Row, RowKey, Value};
use std::collections::HashMap;

/// An item as DynamoDB has it.
pub type Item = HashMap<String, AttributeValue>;

fn attribute(value: Value) -> AttributeValue {
    match value {
        Value::Text(text) => AttributeValue::S(text),
        Value::Number(number) => AttributeValue::N(number.to_string()),
        Value::Flag(flag) => AttributeValue::Bool(flag),
    }
}

fn value(attribute: &AttributeValue) -> Value {
    if let Ok(text) = attribute.as_s() {
        return Value::Text(text.clone());
    }
    if let Ok(number) = attribute.as_n() {
        return Value::Number(number.parse().unwrap());
    }
    Value::Flag(*attribute.as_bool().unwrap())
}

/// A row as an item.
pub fn item_of<R: Row>(row: &R) -> Item {
    let key = row.key().primary();
    let mut item = HashMap::from([
        ("pk".to_owned(), AttributeValue::S(key.pk)),
        ("sk".into(), AttributeValue::S(key.sk)),
    ]);
    for field in R::Field::ALL {
        if let Some(value) = row.get(*field) {
            item.insert(field.name().to_owned(), attribute(value));
        }
    }
    item
}

/// An item as a row.
pub fn row_of<R: Row>(key: R::Key, item: &Item) -> R {
    R::read(key, |name| item.get(name).map(value)).unwrap()
}

impl World {
    /// Puts a row, whatever is there.
    pub async fn put<R: Row>(&self, row: &R) {
        self.dynamo.put_item().table_name(TABLE).set_item(Some(item_of(row))).send().await.unwrap();
    }

    /// Puts rows, 25 a request and several requests at once.
    pub async fn put_all(&self, items: Vec<Item>) {
        let requests: Vec<_> = items
            .into_iter()
            .map(|item| {
                let put = PutRequest::builder().set_item(Some(item)).build().unwrap();
                WriteRequest::builder().put_request(put).build()
            })
            .collect();
        let batches: Vec<Vec<WriteRequest>> = requests.chunks(25).map(<[_]>::to_vec).collect();
        let sent = stream::iter(batches).map(|batch| async move {
            let output = self.dynamo.batch_write_item().request_items(TABLE, batch).send().await.unwrap();
            assert!(output.unprocessed_items.unwrap_or_default().is_empty());
        });
        sent.buffer_unordered(4).collect::<Vec<()>>().await;
    }

    /// Reads a row, consistently.
    pub async fn get<R: Row>(&self, key: &R::Key) -> Option<R> {
        let primary = key.primary();
        let output = self
            .dynamo
            .get_item()
            .table_name(TABLE)
            .key("pk", AttributeValue::S(primary.pk))
            .key("sk", AttributeValue::S(primary.sk))
            .consistent_read(true)
            .send()
            .await
            .unwrap();
        output.item.map(|item| row_of(key.clone(), &item))
    }

    /// Deletes a row.
    pub async fn delete<R: Row>(&self, key: &R::Key) {
        let primary = key.primary();
        let request = self.dynamo.delete_item().table_name(TABLE);
        let request = request.key("pk", AttributeValue::S(primary.pk));
        request.key("sk", AttributeValue::S(primary.sk)).send().await.unwrap();
    }

    /// The keys in a partition of the index, with their sort key there.
    pub async fn index(&self, partition: &str) -> Vec<(String, String, String)> {
        let mut pages = self
            .dynamo
            .query()
            .table_name(TABLE)
            .index_name("queue")
            .key_condition_expression("queue_pk = :pk")
            .expression_attribute_values(":pk", AttributeValue::S(partition.into()))
            .into_paginator()
            .items()
            .send();
        let mut entries = Vec::new();
        while let Some(item) = pages.next().await {
            let item = item.unwrap();
            let text = |name: &str| item[name].as_s().unwrap().clone();
            entries.push((text("pk"), text("sk"), text("queue_sk")));
        }
        entries
    }
}
