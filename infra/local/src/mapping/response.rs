//! What a function's answer says of its batch.

use std::collections::BTreeSet;

use serde_json::Value;

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Every record succeeded.
    Succeeded,
    /// These records failed, the others succeeded; never empty.
    Partly(BTreeSet<String>),
    /// Nothing can be taken as done; why.
    Failed(&'static str),
}

/// Reads a batch response by the conditions that AWS lists
/// (<https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html>): an empty or null answer or list
/// is a success, and anything that doesn't name records of the batch is a failure of the whole batch, for then nobody
/// knows which ones failed. `is_known` tells whether a message id is in the batch.
pub(super) fn verdict(answer: &[u8], is_known: impl Fn(&str) -> bool) -> Verdict {
    if answer.trim_ascii().is_empty() {
        return Verdict::Succeeded;
    }
    let fields = match serde_json::from_slice(answer) {
        Ok(Value::Null) => return Verdict::Succeeded,
        Ok(Value::Object(fields)) => fields,
        Ok(_) => return Verdict::Failed("the answer is not an object"),
        Err(_) => return Verdict::Failed("the answer is not valid JSON"),
    };
    let failures = match fields.get("batchItemFailures") {
        None | Some(Value::Null) => return Verdict::Succeeded,
        Some(Value::Array(failures)) => failures,
        Some(_) => return Verdict::Failed("batchItemFailures is not a list"),
    };
    let mut failed = BTreeSet::new();
    for failure in failures {
        match failure.get("itemIdentifier") {
            Some(Value::String(id)) if id.is_empty() => return Verdict::Failed("an itemIdentifier is empty"),
            Some(Value::String(id)) if is_known(id) => failed.insert(id.clone()),
            Some(Value::String(_)) => return Verdict::Failed("an itemIdentifier is not one of the batch"),
            Some(_) => return Verdict::Failed("an itemIdentifier is not a string"),
            None => return Verdict::Failed("a failure has no itemIdentifier"),
        };
    }
    if failed.is_empty() { Verdict::Succeeded } else { Verdict::Partly(failed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_of_an_answer_has_its_verdict() {
        let partly = |ids: &[&str]| Verdict::Partly(ids.iter().map(|id| (*id).to_owned()).collect());
        let cases = [
            ("", Some(Verdict::Succeeded)),
            (" \n", Some(Verdict::Succeeded)),
            ("null", Some(Verdict::Succeeded)),
            ("{}", Some(Verdict::Succeeded)),
            (r#"{"statusCode":200}"#, Some(Verdict::Succeeded)),
            (r#"{"batchItemFailures":[]}"#, Some(Verdict::Succeeded)),
            (r#"{"batchItemFailures":null}"#, Some(Verdict::Succeeded)),
            (r#"{"batchItemFailures":[{"itemIdentifier":"a"}]}"#, Some(partly(&["a"]))),
            (
                r#"{"batchItemFailures":[{"itemIdentifier":"b"},{"itemIdentifier":"a"}]}"#,
                Some(partly(&["a", "b"])),
            ),
            (
                r#"{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":"a"}]}"#,
                Some(partly(&["a"])),
            ),
            (r#"{"batchItemFailures":[{"itemIdentifier":"a","more":1}],"x":2}"#, Some(partly(&["a"]))),
            (r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#, None),
            (r#"{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":""}]}"#, None),
            (r#"{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":"c"}]}"#, None),
            (r#"{"batchItemFailures":[{"itemIdentifier":null}]}"#, None),
            (r#"{"batchItemFailures":[{"itemIdentifier":7}]}"#, None),
            (r#"{"batchItemFailures":[{"itemidentifier":"a"}]}"#, None),
            (r#"{"batchItemFailures":[{}]}"#, None),
            (r#"{"batchItemFailures":["a"]}"#, None),
            (r#"{"batchItemFailures":[null]}"#, None),
            (r#"{"batchItemFailures":{"itemIdentifier":"a"}}"#, None),
            (r#"{"batchItemFailures":"a"}"#, None),
            (r#"{"batchItemFailures":["#, None),
            (r#""OK""#, None),
            ("[]", None),
            ("true", None),
            ("\u{0}", None),
        ];
        for (answer, expected) in cases {
            let got = verdict(answer.as_bytes(), |id| ["a", "b"].contains(&id));
            match expected {
                Some(expected) => assert_eq!(got, expected, "{answer}"),
                None => assert!(matches!(got, Verdict::Failed(_)), "{answer}: {got:?}"),
            }
        }
    }
}
