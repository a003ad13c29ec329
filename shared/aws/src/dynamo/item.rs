//! Rows to items and back.

use aws_sdk_dynamodb::types::AttributeValue;
use glassline_protocol::row::{BadRow, Field, PrimaryKey, Row, RowKey, Value};
use std::collections::HashMap;

/// An item as the SDK has it.
pub(super) type Item = HashMap<String, AttributeValue>;

pub(super) fn to_attribute(value: &Value) -> AttributeValue {
    match value {
        Value::Text(text) => AttributeValue::S(text.clone()),
        Value::Number(number) => AttributeValue::N(number.to_string()),
        Value::Flag(flag) => AttributeValue::Bool(*flag),
    }
}

fn from_attribute(attribute: &AttributeValue) -> Option<Value> {
    if let Ok(text) = attribute.as_s() {
        return Some(Value::Text(text.clone()));
    }
    if let Ok(number) = attribute.as_n() {
        // A number that isn't a whole one of ours is kept as text, so that reading the row says which field is wrong.
        return Some(number.parse().map_or_else(|_| Value::Text(number.clone()), Value::Number));
    }
    attribute.as_bool().ok().map(|flag| Value::Flag(*flag))
}

pub(super) fn key_item(key: &PrimaryKey) -> Item {
    HashMap::from([
        ("pk".to_owned(), AttributeValue::S(key.pk.clone())),
        ("sk".to_owned(), AttributeValue::S(key.sk.clone())),
    ])
}

pub(super) fn to_item<R: Row>(row: &R) -> Item {
    let mut item = key_item(&row.key().primary());
    for field in R::Field::ALL {
        if let Some(value) = row.get(*field) {
            item.insert(field.name().to_owned(), to_attribute(&value));
        }
    }
    item
}

pub(super) fn key_of(item: &Item) -> Result<PrimaryKey, BadRow> {
    let text = |name: &str| item.get(name).and_then(|value| value.as_s().ok()).cloned();
    let key = PrimaryKey { pk: text("pk").unwrap_or_default(), sk: text("sk").unwrap_or_default() };
    if key.pk.is_empty() || key.sk.is_empty() {
        return Err(BadRow { pk: key.pk, sk: key.sk, what: "its key is missing".into() });
    }
    Ok(key)
}

pub(super) fn from_item<R: Row>(item: &Item) -> Result<R, BadRow> {
    let key = R::Key::parse(&key_of(item)?)?;
    R::read(key, |name| item.get(name).and_then(from_attribute))
}
