//! Rows of the one table: typed structs whose fields map one to one to attributes.
//!
//! A row type is declared by the `row!` macro: a key, and fields that convert to and from a [`Value`]. Everything that
//! must agree about a row (the store, the transition rules, the tests) goes through [`Row::get`] and [`Row::put`].

pub mod head;
pub mod job;
pub mod lane;
pub mod outcome;
pub mod story;

pub use head::{HeadField, HeadKey, HeadRow};
pub use job::{JobField, JobRow, QaState, SpecField, SpecKey, SpecRow, Status};
pub use lane::{LaneField, LaneRow, SlotField, SlotKey, SlotRow};
pub use outcome::{OrphanField, OrphanKey, OrphanRow, OutcomeField, OutcomeKey, OutcomeRow, Verdict};

pub use story::{
    EpisodeField, EpisodeKey, EpisodeRow, EpisodeStatus, FRAMES, SeriesField, SeriesKey, SeriesRow,
    StoryField, StoryKey, StoryRow, StorySpecField, StorySpecKey, StorySpecRow, StoryStatus,
    season_and_episode,
};

use crate::ids::{Id, JobKey, LaneName, MemberKey, ParentKey, Receipt, Run, TaskId, Token};
use std::fmt::Debug;
use std::hash::Hash;

/// The value of an attribute. An absent attribute is `None` wherever one is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value {
    /// A string.
    Text(String),
    /// A whole number.
    Number(u64),
    /// A boolean. `false` is stored as absence.
    Flag(bool),
}

/// A partition key and a sort key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PrimaryKey {
    /// Partition key, attribute `pk`.
    pub pk: String,
    /// Sort key, attribute `sk`.
    pub sk: String,
}

/// A row in the table that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("row {pk} / {sk} can't be read: {what}; it was written by another version or by hand")]
pub struct BadRow {
    /// Partition key.
    pub pk: String,
    /// Sort key.
    pub sk: String,
    /// What is wrong with it.
    pub what: String,
}

impl BadRow {
    pub(crate) fn new(key: &PrimaryKey, what: impl Into<String>) -> Self {
        Self { pk: key.pk.clone(), sk: key.sk.clone(), what: what.into() }
    }
}

/// A typed key of a row.
pub trait RowKey: Clone + Debug + Eq + Hash {
    /// The key as stored.
    fn primary(&self) -> PrimaryKey;
    /// Reads a stored key.
    ///
    /// # Errors
    /// [`BadRow`] when the text isn't a key of this kind.
    fn parse(key: &PrimaryKey) -> Result<Self, BadRow>;
}

/// A field of a row, named after its attribute.
pub trait Field: Copy + Eq + Debug + Hash + 'static {
    /// Every field of the row.
    const ALL: &'static [Self];
    /// The attribute's name.
    fn name(self) -> &'static str;
}

/// A row of the table.
pub trait Row: Clone + Debug + PartialEq + Send + Sync + 'static {
    /// Its key.
    type Key: RowKey + Send + Sync;
    /// Its fields.
    type Field: Field + Send + Sync;
    /// The row's key.
    fn key(&self) -> &Self::Key;
    /// The value of a field; `None` when absent.
    fn get(&self, field: Self::Field) -> Option<Value>;
    /// Sets or clears a field.
    ///
    /// # Errors
    /// [`BadRow`] when the value isn't one of the field's type.
    fn put(&mut self, field: Self::Field, value: Option<&Value>) -> Result<(), BadRow>;
    /// Builds a row from its key and stored attributes.
    ///
    /// # Errors
    /// [`BadRow`] when a required attribute is missing or has another type.
    fn read(key: Self::Key, attribute: impl Fn(&'static str) -> Option<Value>) -> Result<Self, BadRow>;
}

/// A type that is stored in one attribute.
pub trait Attr: Sized {
    /// The value to store; `None` for absence.
    fn to_value(&self) -> Option<Value>;
    /// Reads the stored value.
    ///
    /// # Errors
    /// What is wrong with it.
    fn from_value(value: Option<&Value>) -> Result<Self, String>;
}

impl Attr for String {
    fn to_value(&self) -> Option<Value> {
        Some(Value::Text(self.clone()))
    }
    fn from_value(value: Option<&Value>) -> Result<Self, String> {
        match value {
            Some(Value::Text(text)) => Ok(text.clone()),
            Some(Value::Number(_) | Value::Flag(_)) => Err("a text was expected".into()),
            None => Err("it is missing".into()),
        }
    }
}

impl Attr for u64 {
    fn to_value(&self) -> Option<Value> {
        Some(Value::Number(*self))
    }
    fn from_value(value: Option<&Value>) -> Result<Self, String> {
        match value {
            Some(Value::Number(number)) => Ok(*number),
            Some(Value::Text(_) | Value::Flag(_)) => Err("a number was expected".into()),
            None => Err("it is missing".into()),
        }
    }
}

impl Attr for u32 {
    fn to_value(&self) -> Option<Value> {
        Some(Value::Number(u64::from(*self)))
    }
    fn from_value(value: Option<&Value>) -> Result<Self, String> {
        u32::try_from(u64::from_value(value)?).map_err(|_| "the number is too large".into())
    }
}

impl Attr for bool {
    fn to_value(&self) -> Option<Value> {
        self.then_some(Value::Flag(true))
    }
    fn from_value(value: Option<&Value>) -> Result<Self, String> {
        match value {
            Some(Value::Flag(flag)) => Ok(*flag),
            None => Ok(false),
            Some(Value::Text(_) | Value::Number(_)) => Err("a boolean was expected".into()),
        }
    }
}

impl<T: Attr> Attr for Option<T> {
    fn to_value(&self) -> Option<Value> {
        self.as_ref().and_then(Attr::to_value)
    }
    fn from_value(value: Option<&Value>) -> Result<Self, String> {
        value.map(|_| T::from_value(value)).transpose()
    }
}

/// Types with one text form each.
macro_rules! text_attr {
    ($($name:ty),*) => {$(
        impl $crate::row::Attr for $name {
            fn to_value(&self) -> Option<$crate::row::Value> { Some($crate::row::Value::Text(self.to_string())) }
            fn from_value(value: Option<&$crate::row::Value>) -> Result<Self, String> {
                String::from_value(value)?.parse().map_err(|error| format!("{error}"))
            }
        }
    )*};
}
pub(crate) use text_attr;
text_attr!(Id, LaneName, Token, Run, Receipt, TaskId, JobKey, ParentKey, MemberKey);

/// Declares an enum that is stored as one word.
macro_rules! word_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),* }
        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            /// The word that is stored and shown.
            #[must_use]
            pub fn word(self) -> &'static str { match self { $(Self::$variant => $word),* } }
            /// The value as stored.
            #[must_use]
            pub fn value(self) -> $crate::row::Value { $crate::row::Value::Text(self.word().into()) }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(self.word()) }
        }
        impl std::str::FromStr for $name {
            type Err = String;
            fn from_str(word: &str) -> Result<Self, String> {
                match word { $($word => Ok(Self::$variant),)* other => Err(format!("`{other}` is not a known word")) }
            }
        }
        $crate::row::text_attr!($name);
    };
}
pub(crate) use word_enum;

/// Declares a row: its struct, its field enum and the conversions between them.
macro_rules! row {
    ($(#[$doc:meta])* $row:ident, $field_enum:ident, $key:ty {
        $($(#[$fdoc:meta])* $field:ident : $type:ty = $variant:ident $attribute:literal),* $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash)]
        pub struct $row {
            /// The row's key.
            pub key: $key,
            $($(#[$fdoc])* pub $field: $type),*
        }
        impl std::fmt::Debug for $row {
            /// Without prompts and params, which never reach a log.
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut row = f.debug_struct(stringify!($row));
                row.field("key", &self.key);
                $(match stringify!($field) {
                    "prompt" | "params" | "template" | "frame_1" | "frame_2" | "frame_3" | "frame_4" => row.field(stringify!($field), &"…"),
                    shown => row.field(shown, &self.$field),
                };)*
                row.finish()
            }
        }
        #[doc = concat!("The fields of [`", stringify!($row), "`].")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $field_enum { $($(#[$fdoc])* $variant),* }
        impl $crate::row::Field for $field_enum {
            const ALL: &'static [Self] = &[$(Self::$variant),*];
            fn name(self) -> &'static str { match self { $(Self::$variant => $attribute),* } }
        }
        impl $crate::row::Row for $row {
            type Key = $key;
            type Field = $field_enum;
            fn key(&self) -> &Self::Key { &self.key }
            fn get(&self, field: Self::Field) -> Option<$crate::row::Value> {
                match field { $($field_enum::$variant => $crate::row::Attr::to_value(&self.$field)),* }
            }
            fn put(
                &mut self,
                field: Self::Field,
                value: Option<&$crate::row::Value>,
            ) -> Result<(), $crate::row::BadRow> {
                use $crate::row::RowKey as _;
                let bad = |what: String| {
                    $crate::row::BadRow::new(
                        &self.key.primary(),
                        format!("{}: {what}", $crate::row::Field::name(field)),
                    )
                };
                match field {
                    $($field_enum::$variant =>
                        self.$field = $crate::row::Attr::from_value(value).map_err(bad)?),*
                }
                Ok(())
            }
            fn read(
                key: Self::Key,
                attribute: impl Fn(&'static str) -> Option<$crate::row::Value>,
            ) -> Result<Self, $crate::row::BadRow> {
                use $crate::row::RowKey as _;
                $(
                    let $field = $crate::row::Attr::from_value(attribute($attribute).as_ref()).map_err(|what| {
                        $crate::row::BadRow::new(&key.primary(), format!("{}: {what}", $attribute))
                    })?;
                )*
                Ok(Self { key, $($field),* })
            }
        }
    };
}
pub(crate) use row;

impl RowKey for JobKey {
    fn primary(&self) -> PrimaryKey {
        PrimaryKey { pk: self.parent.to_string(), sk: self.member.to_string() }
    }
    fn parse(key: &PrimaryKey) -> Result<Self, BadRow> {
        format!("{}/{}", key.pk, key.sk).parse().map_err(|error| BadRow::new(key, format!("{error}")))
    }
}
