//! Random rules on random rows: the reading of a rule agrees with a naive one over the row's attributes, and the
//! rendered write, evaluated word by word, agrees with both.

use crate::fixtures::cases;
use crate::job_table::lines;
use crate::rows::{attributes, job_row};
use glassline_protocol::row::{Field as _, JobField, JobRow, PrimaryKey, Row as _, Value};
use glassline_protocol::rule::{ConditionalWrite, Rule, Then, When};
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeMap;

type Attributes = BTreeMap<&'static str, Value>;

fn naive(when: &When<JobField>, row: &Attributes) -> bool {
    let number = |field: &JobField| match row.get(field.name()) {
        Some(Value::Number(number)) => Some(*number),
        Some(Value::Text(_) | Value::Flag(_)) | None => None,
    };
    let absent = |field: &JobField| !row.contains_key(field.name());
    match when {
        When::Is(field, value) => row.get(field.name()) == Some(value),
        When::OneOf(field, values) => values.iter().any(|value| row.get(field.name()) == Some(value)),
        When::Absent(field) => absent(field),
        When::Below(field, bound) => number(field).is_some_and(|number| number < *bound),
        When::AbsentOrBelow(field, bound) => {
            absent(field) || number(field).is_some_and(|number| number < *bound)
        }
        When::AbsentOrIs(field, value) => absent(field) || row.get(field.name()) == Some(value),
    }
}

fn naive_apply(then: &[Then<JobField>], row: &Attributes) -> Attributes {
    let mut row = row.clone();
    for then in then {
        match then {
            Then::Set(field, Value::Flag(false)) | Then::Clear(field) => {
                row.remove(field.name());
            }
            Then::Set(field, value) => {
                row.insert(field.name(), value.clone());
            }
            Then::Add(field, step) => {
                let before = match row.get(field.name()) {
                    Some(Value::Number(number)) => *number,
                    Some(Value::Text(_) | Value::Flag(_)) | None => 0,
                };
                row.insert(field.name(), Value::Number(before + step));
            }
        }
    }
    row
}

/// A `name` operand or a `:value` operand.
fn operand<'a>(write: &'a ConditionalWrite, row: &'a Attributes, text: &str) -> Option<&'a Value> {
    match write.names.get(text) {
        Some(name) => row.get(name.as_str()),
        None => Some(write.values.get(text).unwrap_or_else(|| panic!("{text} is declared"))),
    }
}

/// Evaluates one condition of a rendered write; DynamoDB's comparisons are false for an absent attribute and for
/// another type.
fn condition(write: &ConditionalWrite, row: &Attributes, text: &str) -> bool {
    if let Some((left, right)) =
        text.strip_prefix('(').and_then(|text| text.strip_suffix(')')?.split_once(" OR "))
    {
        return condition(write, row, left) || condition(write, row, right);
    }
    if let Some(name) = text.strip_prefix("attribute_not_exists(").and_then(|text| text.strip_suffix(')')) {
        return operand(write, row, name).is_none();
    }
    let words: Vec<&str> = text.splitn(3, ' ').collect();
    let [name, operator, rest] = words[..] else { panic!("`{text}` is a comparison") };
    let Some(found) = operand(write, row, name) else { return false };
    match operator {
        "=" => Some(found) == operand(write, row, rest),
        "<" => match (found, operand(write, row, rest)) {
            (Value::Number(found), Some(Value::Number(bound))) => found < bound,
            _ => false,
        },
        "IN" => {
            rest.trim_matches(['(', ')']).split(", ").any(|value| operand(write, row, value) == Some(found))
        }
        other => panic!("`{other}` is an operator"),
    }
}

fn rendered_guard(write: &ConditionalWrite, row: &Attributes) -> bool {
    let mut clauses = write.condition.split(" AND ");
    assert_eq!(clauses.next(), Some("attribute_exists(pk)"), "a write never makes a row");
    clauses.all(|clause| condition(write, row, clause))
}

fn rendered_apply(write: &ConditionalWrite, row: &Attributes) -> BTreeMap<String, Value> {
    let mut after: BTreeMap<String, Value> =
        row.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let (sets, removes) = match write.update.split_once("REMOVE ") {
        Some((sets, removes)) => (sets.trim_end(), removes),
        None => (write.update.as_str(), ""),
    };
    let sets = sets.strip_prefix("SET ").unwrap_or(sets);
    for set in sets.split(", #").filter(|set| !set.is_empty()) {
        let (name, value) = set.split_once(" = ").unwrap();
        let name = &write.names[&format!("#{}", name.trim_start_matches('#'))];
        let value = match value.strip_prefix("if_not_exists(") {
            None => operand(write, row, value).unwrap().clone(),
            Some(sum) => {
                let (operands, step) = sum.split_once(") + ").unwrap();
                let (path, zero) = operands.split_once(", ").unwrap();
                let before = operand(write, row, path).or_else(|| operand(write, row, zero));
                match (before, operand(write, row, step)) {
                    (Some(Value::Number(before)), Some(Value::Number(step))) => Value::Number(before + step),
                    other => panic!("{other:?} can't be added"),
                }
            }
        };
        after.insert(name.clone(), value);
    }
    for remove in removes.split(", ").filter(|remove| !remove.is_empty()) {
        after.remove(&write.names[remove]);
    }
    after
}

/// A field and a value for it: often the row's own, sometimes of another type.
fn field_and_value(row: JobRow) -> impl Strategy<Value = (JobField, Value)> {
    let value = prop_oneof![
        any::<u64>().prop_map(Value::Number),
        (0u64..3).prop_map(Value::Number),
        "[a-z]{0,3}".prop_map(Value::Text),
        any::<bool>().prop_map(Value::Flag),
    ];
    (select(JobField::ALL), value, any::<bool>()).prop_map(move |(field, random, own)| {
        let own = own.then(|| row.get(field)).flatten();
        (field, own.unwrap_or(random))
    })
}

fn when(row: JobRow) -> impl Strategy<Value = When<JobField>> {
    let bound = |(field, value)| match value {
        Value::Number(number) => (field, number),
        Value::Text(_) | Value::Flag(_) => (field, 2),
    };
    prop_oneof![
        field_and_value(row.clone()).prop_map(|(field, value)| When::Is(field, value)),
        (field_and_value(row.clone()), proptest::collection::vec(field_and_value(row.clone()), 0..3))
            .prop_map(|((field, value), more)| {
                let values = more.into_iter().map(|(_, value)| value).chain([value]).collect();
                When::OneOf(field, values)
            }),
        select(JobField::ALL).prop_map(When::Absent),
        field_and_value(row.clone()).prop_map(move |pair| {
            let (field, number) = bound(pair);
            When::Below(field, number.saturating_add(1))
        }),
        field_and_value(row.clone()).prop_map(move |pair| {
            let (field, number) = bound(pair);
            When::AbsentOrBelow(field, number)
        }),
        field_and_value(row).prop_map(|(field, value)| When::AbsentOrIs(field, value)),
    ]
}

/// A row and conditions that are often true of it.
fn row_and_conditions() -> impl Strategy<Value = (JobRow, Vec<When<JobField>>)> {
    job_row().prop_flat_map(|row| (Just(row.clone()), proptest::collection::vec(when(row), 0..5)))
}

fn key() -> PrimaryKey {
    PrimaryKey { pk: "POST#p1".into(), sk: "SHOT#s1".into() }
}

proptest! {
    #![proptest_config(cases(4_000))]

    #[test]
    fn a_guard_is_all_of_its_conditions((row, when) in row_and_conditions()) {
        let stored = attributes(&row);
        for one in &when {
            prop_assert_eq!(one.holds(&row), naive(one, &stored), "{:?}", one);
        }
        let all = when.iter().all(|one| naive(one, &stored));
        let rule = Rule { when: when.clone(), then: vec![], mine: when };
        prop_assert_eq!(rule.guard(&row), all);
        prop_assert_eq!(rendered_guard(&rule.render(key()), &stored), all);
        prop_assert_eq!(rule.already_mine(&row), all && !rule.mine.is_empty());
    }

    /// The transitions themselves, on rows of any content.
    #[test]
    fn a_transition_changes_what_its_rendered_write_changes(row in job_row(), line in 0..lines().len()) {
        // Nothing is counted up to the end of its type.
        let row = JobRow { failures: row.failures / 2, ..row };
        let rule = lines().swap_remove(line).transition.rule();
        let stored = attributes(&row);
        let after = attributes(&rule.apply(&row).unwrap());
        prop_assert_eq!(&naive_apply(&rule.then, &stored), &after);
        let write = rule.render(key());
        let rendered = rendered_apply(&write, &stored);
        let after: BTreeMap<String, Value> = after.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        prop_assert_eq!(rendered, after);
        prop_assert_eq!(rendered_guard(&write, &stored), rule.guard(&row));
        // Every placeholder that is declared is used: DynamoDB refuses a write with one too many.
        let text = format!("{} {} ", write.update, write.condition).replace([',', ')', '('], " ");
        for placeholder in write.names.keys().chain(write.values.keys()) {
            prop_assert!(text.contains(&format!("{placeholder} ")), "{} in {}", placeholder, text);
        }
    }
}

/// A rule that asks for nothing recognises nothing as its own.
#[test]
fn an_empty_claim_of_ownership_is_never_ours() {
    let rule: Rule<JobField> = Rule { when: vec![], then: vec![], mine: vec![] };
    let row = crate::attempts::created();
    assert!(rule.guard(&row) && !rule.already_mine(&row));
    let write = rule.render(key());
    assert_eq!((write.update.as_str(), write.condition.as_str()), ("", "attribute_exists(pk)"));
}
