//! Names and keys. Every one is checked where it enters (parsing or deserialising), so that the rest of the code can
//! rely on its shape.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Epoch milliseconds, as told by the clock port.
pub type Ms = u64;

/// A name or key that isn't one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} `{got}` is not valid: {rule}")]
pub struct BadName {
    /// Which kind of name.
    pub what: &'static str,
    /// What was given, cut to 80 characters; of a token or run, which are secrets of sorts, to 6.
    pub got: String,
    /// The rule that it breaks.
    pub rule: &'static str,
}

impl BadName {
    pub(crate) fn new(what: &'static str, got: &str, rule: &'static str) -> Self {
        let shown = if matches!(what, "token" | "run") { 6 } else { 80 };
        Self { what, got: got.chars().take(shown).collect(), rule }
    }
}

fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

fn is_visible(text: &str) -> bool {
    (1..=256).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

fn is_hex(text: &str) -> bool {
    (8..=64).contains(&text.len()) && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:path, $rule:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks and wraps a text.
            ///
            /// # Errors
            /// [`BadName`] when the text breaks the rule of this kind of name.
            pub fn new(text: impl Into<String>) -> Result<Self, BadName> {
                let text = text.into();
                if $check(&text) { Ok(Self(text)) } else { Err(BadName::new($what, &text, $rule)) }
            }
            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str { &self.0 }
        }
        impl TryFrom<String> for $name {
            type Error = BadName;
            fn try_from(text: String) -> Result<Self, BadName> { Self::new(text) }
        }
        impl From<$name> for String {
            fn from(name: $name) -> String { name.0 }
        }
        impl FromStr for $name {
            type Err = BadName;
            fn from_str(text: &str) -> Result<Self, BadName> { Self::new(text) }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(&self.0) }
        }
    };
}

text_id!(
    /// An id given by a producer: of a post, a shot, a series, a story. 1 to 64 of `A-Z a-z 0-9 . _ -`.
    Id, "id", is_name, "use 1 to 64 letters, digits, dots, underscores or hyphens"
);
text_id!(
    /// The name of a lane: an admission domain such as one provider account. Same shape as [`Id`].
    LaneName, "lane", is_name, "use 1 to 64 letters, digits, dots, underscores or hyphens"
);
text_id!(
    /// A provider's id for an accepted render: 1 to 256 visible ASCII characters.
    TaskId, "task", is_visible, "a task id is 1 to 256 visible ASCII characters"
);
text_id!(
    /// The ownership of one attempt: fresh random hex, written by the claim. Whoever holds it may write; it is a
    /// secret of sorts, so it prints shortened.
    Token, "token", is_hex, "a token is 8 to 64 lower-case hex digits"
);
text_id!(
    /// A nonce of one worker invocation, written by `Start`: tells an invocation's own lost reply from another's work.
    Run, "run", is_hex, "a run is 8 to 64 lower-case hex digits"
);

text_id!(
    /// What an outside dispatcher gets for a handoff that was taken: it names the claim's token without being it.
    Receipt, "receipt", is_hex, "a receipt is 8 to 64 lower-case hex digits"
);

impl Receipt {
    /// Wraps a hash in hex.
    pub(crate) fn of_hash(hex: String) -> Self {
        Self(hex)
    }
}

macro_rules! plain_debug {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write!(f, "{}", self.0) }
        }
    )*};
}
plain_debug!(Id, LaneName, TaskId, Receipt);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token:{}…", self.0.get(..6).unwrap_or(""))
    }
}
impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run:{}…", self.0.get(..6).unwrap_or(""))
    }
}

/// The number of an attempt. 0 before the first claim; each claim (and each voided reservation) adds one.
pub type Attempt = u32;

/// The number of a slot within its lane, from 0.
pub type SlotNo = u32;

/// What owns jobs: a post (of shots) or an episode (of frames).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ParentKey {
    /// `POST#p1`
    Post(Id),
    /// `EPISODE#main#000013`: at least six digits, so that episodes sort by number up to 999,999.
    Episode {
        /// The series.
        series: Id,
        /// The number within the series, from 1.
        number: u32,
    },
}

/// A job's place within its parent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum MemberKey {
    /// `SHOT#s1`
    Shot(Id),
    /// `FRAME#2`, from 1.
    Frame(u8),
}

/// The stable key of a job: it never changes and never says who owns the job now. Text: `POST#p1/SHOT#s1`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobKey {
    /// The owner.
    pub parent: ParentKey,
    /// The place within it.
    pub member: MemberKey,
}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for ParentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Post(id) => write!(f, "POST#{id}"),
            Self::Episode { series, number } => write!(f, "EPISODE#{series}#{number:06}"),
        }
    }
}

impl fmt::Display for MemberKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shot(id) => write!(f, "SHOT#{id}"),
            Self::Frame(number) => write!(f, "FRAME#{number}"),
        }
    }
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.parent, self.member)
    }
}

impl FromStr for ParentKey {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        let bad = || BadName::new("parent key", text, "it is POST#id or EPISODE#series#number");
        if let Some(id) = text.strip_prefix("POST#") {
            return Ok(Self::Post(Id::new(id).map_err(|_| bad())?));
        }
        let rest = text.strip_prefix("EPISODE#").ok_or_else(bad)?;
        let (series, digits) = rest.split_once('#').ok_or_else(bad)?;
        let number: u32 = digits.parse().map_err(|_| bad())?;
        let key = Self::Episode { series: Id::new(series).map_err(|_| bad())?, number };
        // One text per key: `#13` or `#+00013` would be other rows of the same episode.
        if number == 0 || key.to_string() != text { Err(bad()) } else { Ok(key) }
    }
}

impl FromStr for MemberKey {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        let bad = || BadName::new("member key", text, "it is SHOT#id or FRAME#number");
        if let Some(id) = text.strip_prefix("SHOT#") {
            return Ok(Self::Shot(Id::new(id).map_err(|_| bad())?));
        }
        let number: u8 = text.strip_prefix("FRAME#").and_then(|n| n.parse().ok()).ok_or_else(bad)?;
        let key = Self::Frame(number);
        if number == 0 || key.to_string() != text { Err(bad()) } else { Ok(key) }
    }
}

impl FromStr for JobKey {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        let (parent, member) = text
            .split_once('/')
            .ok_or_else(|| BadName::new("job key", text, "it is PARENT/MEMBER, as in POST#p1/SHOT#s1"))?;
        let key = Self { parent: parent.parse()?, member: member.parse()? };
        match (&key.parent, &key.member) {
            (ParentKey::Post(_), MemberKey::Shot(_)) | (ParentKey::Episode { .. }, MemberKey::Frame(_)) => {
                Ok(key)
            }
            (ParentKey::Post(_), MemberKey::Frame(_)) | (ParentKey::Episode { .. }, MemberKey::Shot(_)) => {
                Err(BadName::new("job key", text, "a post owns shots, an episode owns frames"))
            }
        }
    }
}

macro_rules! as_text {
    ($($name:ident),*) => {$(
        impl TryFrom<String> for $name {
            type Error = BadName;
            fn try_from(text: String) -> Result<Self, BadName> { text.parse() }
        }
        impl From<$name> for String {
            fn from(key: $name) -> String { key.to_string() }
        }
    )*};
}
as_text!(ParentKey, MemberKey, JobKey);

impl JobKey {
    /// The key of a shot.
    #[must_use]
    pub fn shot(post: Id, shot: Id) -> Self {
        Self { parent: ParentKey::Post(post), member: MemberKey::Shot(shot) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_one_text_each() {
        for good in ["POST#p1/SHOT#s1", "EPISODE#main#000013/FRAME#2", "EPISODE#main#1000000/FRAME#4"] {
            assert_eq!(good.parse::<JobKey>().unwrap().to_string(), good);
        }
        for bad in [
            "",
            "POST#p1",
            "POST#/SHOT#s",
            "POST#p1/SHOT#",
            "POST#p1/FRAME#1",
            "EPISODE#m#13/FRAME#1",
            "EPISODE#m#000000/FRAME#1",
            "EPISODE#m#000013/FRAME#0",
            "EPISODE#m#000013/FRAME#01",
            "EPISODE#m#+00013/FRAME#1",
            "post#p1/SHOT#s1",
            "POST#p#1/SHOT#s1",
            "POST#p1/SHOT#s1/x",
        ] {
            assert!(bad.parse::<JobKey>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_keep_their_rule() {
        assert!(Id::new("a".repeat(64)).is_ok());
        for bad in [String::new(), "a".repeat(65), "a b".into(), "é".into(), "a#b".into(), "a/b".into()] {
            assert!(Id::new(bad.clone()).is_err(), "{bad}");
        }
        assert!(serde_json::from_str::<Id>("\"a b\"").is_err());
    }

    #[test]
    fn a_token_never_prints_whole() {
        let token = Token::new("0123456789abcdef0123456789abcdef").unwrap();
        assert!(!format!("{token:?}").contains("0123456789"));
    }
}
