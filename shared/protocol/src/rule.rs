//! A transition as data: what must be true of a row, and what changes when it is.
//!
//! One declaration serves four readers: [`Rule::guard`], [`Rule::apply`] and [`Rule::already_mine`] interpret it on a
//! row in memory; [`Rule::render`] turns it into a conditional write. They can't drift apart, and the agreement test
//! checks the reading against a real engine.

use crate::row::{BadRow, Field, PrimaryKey, Row, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A condition on one field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum When<F> {
    /// It has this value.
    Is(F, Value),
    /// It has one of these values.
    OneOf(F, Vec<Value>),
    /// It is absent.
    Absent(F),
    /// It is a number below this.
    Below(F, u64),
    /// It is absent or a number below this.
    AbsentOrBelow(F, u64),
    /// It is absent or has this value.
    AbsentOrIs(F, Value),
}

/// A change of one field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Then<F> {
    /// Give it this value.
    Set(F, Value),
    /// Remove it.
    Clear(F),
    /// Add to it (absent counts as 0).
    Add(F, u64),
}

/// A transition of a row of type `R`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule<F> {
    /// All of these must hold.
    pub when: Vec<When<F>>,
    /// Then these change.
    pub then: Vec<Then<F>>,
    /// All of these hold on a row that already shows this very transition's effect, made by this very caller.
    pub mine: Vec<When<F>>,
}

impl<F: Field> When<F> {
    /// Whether it holds for a row.
    pub fn holds<R: Row<Field = F>>(&self, row: &R) -> bool {
        match self {
            Self::Is(field, value) => row.get(*field).as_ref() == Some(value),
            Self::OneOf(field, values) => row.get(*field).is_some_and(|value| values.contains(&value)),
            Self::Absent(field) => row.get(*field).is_none(),
            Self::Below(field, bound) => number(row.get(*field)).is_some_and(|number| number < *bound),
            Self::AbsentOrBelow(field, bound) => match row.get(*field) {
                None => true,
                value => number(value).is_some_and(|number| number < *bound),
            },
            Self::AbsentOrIs(field, value) => row.get(*field).is_none_or(|found| found == *value),
        }
    }
}

fn number(value: Option<Value>) -> Option<u64> {
    match value {
        Some(Value::Number(number)) => Some(number),
        Some(Value::Text(_) | Value::Flag(_)) | None => None,
    }
}

/// A rule rendered for DynamoDB: an update with its condition. The names and values are placeholders' meanings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionalWrite {
    /// The row.
    pub key: PrimaryKey,
    /// `UpdateExpression`; empty for a rule that changes nothing (a condition check).
    pub update: String,
    /// `ConditionExpression`.
    pub condition: String,
    /// `ExpressionAttributeNames`.
    pub names: BTreeMap<String, String>,
    /// `ExpressionAttributeValues`.
    pub values: BTreeMap<String, Value>,
}

impl<F: Field> Rule<F> {
    /// Whether the transition may happen on this row.
    pub fn guard<R: Row<Field = F>>(&self, row: &R) -> bool {
        self.when.iter().all(|when| when.holds(row))
    }

    /// The row after the transition.
    ///
    /// # Errors
    /// [`BadRow`] when a value isn't one of its field's type: a fault in the rule, shown by the tests of every rule.
    pub fn apply<R: Row<Field = F>>(&self, row: &R) -> Result<R, BadRow> {
        let mut row = row.clone();
        for then in &self.then {
            match then {
                Then::Set(field, value) => row.put(*field, Some(value))?,
                Then::Clear(field) => row.put(*field, None)?,
                Then::Add(field, step) => {
                    let sum = number(row.get(*field)).unwrap_or(0).saturating_add(*step);
                    row.put(*field, Some(&Value::Number(sum)))?;
                }
            }
        }
        Ok(row)
    }

    /// Whether a row that refused the transition shows our own effect: then the reply to our own write was lost, and
    /// the refusal counts as applied.
    pub fn already_mine<R: Row<Field = F>>(&self, row: &R) -> bool {
        !self.mine.is_empty() && self.mine.iter().all(|when| when.holds(row))
    }

    /// The conditional write that does on the table what `guard` and `apply` do in memory.
    #[must_use]
    pub fn render(&self, key: PrimaryKey) -> ConditionalWrite {
        let mut write = ConditionalWrite {
            key,
            update: String::new(),
            condition: String::from("attribute_exists(pk)"),
            names: BTreeMap::new(),
            values: BTreeMap::new(),
        };
        for when in &self.when {
            let text = write.condition_of(when);
            let _ = write!(write.condition, " AND {text}");
        }
        let (mut sets, mut removes) = (Vec::new(), Vec::new());
        for then in &self.then {
            match then {
                Then::Set(field, Value::Flag(false)) | Then::Clear(field) => removes.push(write.name(*field)),
                Then::Set(field, value) => {
                    sets.push(format!("{} = {}", write.name(*field), write.value(value.clone())));
                }
                Then::Add(field, step) => {
                    let name = write.name(*field);
                    let (zero, step) = (write.value(Value::Number(0)), write.value(Value::Number(*step)));
                    sets.push(format!("{name} = if_not_exists({name}, {zero}) + {step}"));
                }
            }
        }
        let mut clauses = Vec::new();
        if !sets.is_empty() {
            clauses.push(format!("SET {}", sets.join(", ")));
        }
        if !removes.is_empty() {
            clauses.push(format!("REMOVE {}", removes.join(", ")));
        }
        write.update = clauses.join(" ");
        write
    }
}

impl ConditionalWrite {
    fn name<F: Field>(&mut self, field: F) -> String {
        let placeholder = format!("#{}", field.name());
        self.names.insert(placeholder.clone(), field.name().to_owned());
        placeholder
    }

    fn value(&mut self, value: Value) -> String {
        if let Some((placeholder, _)) = self.values.iter().find(|(_, known)| **known == value) {
            return placeholder.clone();
        }
        let placeholder = format!(":v{}", self.values.len());
        self.values.insert(placeholder.clone(), value);
        placeholder
    }

    fn condition_of<F: Field>(&mut self, when: &When<F>) -> String {
        match when {
            When::Is(field, value) => format!("{} = {}", self.name(*field), self.value(value.clone())),
            When::OneOf(field, values) => {
                let name = self.name(*field);
                let values: Vec<_> = values.iter().map(|value| self.value(value.clone())).collect();
                format!("{name} IN ({})", values.join(", "))
            }
            When::Absent(field) => format!("attribute_not_exists({})", self.name(*field)),
            When::Below(field, bound) => {
                format!("{} < {}", self.name(*field), self.value(Value::Number(*bound)))
            }
            When::AbsentOrBelow(field, bound) => {
                let (name, bound) = (self.name(*field), self.value(Value::Number(*bound)));
                format!("(attribute_not_exists({name}) OR {name} < {bound})")
            }
            When::AbsentOrIs(field, value) => {
                let (name, value) = (self.name(*field), self.value(value.clone()));
                format!("(attribute_not_exists({name}) OR {name} = {value})")
            }
        }
    }
}
