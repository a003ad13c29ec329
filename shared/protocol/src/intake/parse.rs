//! Reading posts: a JSON object, an array of them, or one object a line.

use super::{DEFAULT_PRIORITY, MAX_PARAMS_BYTES, MAX_PROMPT_BYTES, MAX_SHOTS};
use crate::ids::{Id, LaneName};
use crate::provider::Media;
use crate::rank::MAX_PRIORITY;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::HashSet;

/// A post: a set of shots that belong together.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Post {
    /// Its id, chosen by the producer; the same id again is the same post.
    pub id: Id,
    /// The lane that renders it.
    pub lane: LaneName,
    /// 0 to 1000, higher first; 500 when not given.
    #[serde(default = "default_priority")]
    pub priority: u32,
    /// Its shots, in order.
    pub shots: Vec<Shot>,
}

/// A shot.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shot {
    /// Its id within the post.
    pub id: Id,
    /// What to draw, 1 to 32,768 bytes.
    pub prompt: String,
    /// The provider's own parameters, passed through; an empty object is the same as none.
    #[serde(default, skip_serializing_if = "no_params")]
    pub params: Option<Map<String, Value>>,
    /// The kind of output; image when not given.
    #[serde(default = "default_media")]
    pub media: Media,
}

impl std::fmt::Debug for Post {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Post({}, lane {}, {} shots)", self.id, self.lane, self.shots.len())
    }
}
impl std::fmt::Debug for Shot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shot({})", self.id)
    }
}

fn default_priority() -> u32 {
    DEFAULT_PRIORITY
}
fn no_params(params: &Option<Map<String, Value>>) -> bool {
    params.as_ref().is_none_or(Map::is_empty)
}
fn default_media() -> Media {
    Media::Image
}

/// A post that can't be taken. One sentence each: where, what, what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct BadPost {
    /// Where in the input: `line 3`, `post 2 of the array`, `post p1, shot s2`.
    pub place: String,
    /// What is wrong and what to do.
    pub what: String,
}

impl BadPost {
    pub(super) fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into() }
    }
}

/// Reads posts from text: one JSON object, an array of objects, or JSON Lines. Each post is judged on its own.
///
/// # Errors
/// [`BadPost`] for the whole input when it is none of the three; one per post in the result otherwise.
pub fn parse_posts(text: &str) -> Result<Vec<Result<Post, BadPost>>, BadPost> {
    Ok(refuse_repeats(each_object(text, "post", post)?))
}

/// Reads text that holds things of one kind: one JSON object, an array of objects, or one object a line. Each is read on
/// its own by `read`, with its place for its errors.
pub(super) fn each_object<T>(
    text: &str,
    kind: &str,
    read: impl Fn(String, &RawValue) -> Result<T, BadPost>,
) -> Result<Vec<Result<T, BadPost>>, BadPost> {
    let trimmed = text.trim_start_matches('\u{feff}').trim();
    let formats = format!("give a {kind} as JSON, an array of them, or one a line");
    if trimmed.is_empty() {
        return Err(BadPost::new("the input", format!("it is empty; {formats}")));
    }
    let whole: Result<&RawValue, _> = serde_json::from_str(trimmed);
    let things: Vec<_> = match whole {
        Ok(object) if object.get().starts_with('{') => vec![read(format!("the {kind}"), object)],
        Ok(array) if array.get().starts_with('[') => {
            let items: Vec<&RawValue> = serde_json::from_str(array.get())
                .map_err(|error| BadPost::new("the input", format!("it can't be read: {error}")))?;
            let place = |index: usize| format!("{kind} {} of the array", index + 1);
            items.into_iter().enumerate().map(|(index, item)| read(place(index), item)).collect()
        }
        Ok(_) => {
            return Err(BadPost::new(
                "the input",
                format!("it is neither a {kind} (a JSON object) nor an array"),
            ));
        }
        // Not one JSON value: one a line, or broken. A first line that isn't whole JSON says that it isn't one a line.
        Err(error)
            if trimmed.lines().next().is_none_or(|line| serde_json::from_str::<&RawValue>(line).is_err()) =>
        {
            let place = format!("line {}, column {}", error.line(), error.column());
            return Err(BadPost::new(place, format!("this isn't JSON; {formats}")));
        }
        Err(_) => trimmed
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
            .map(|(index, line)| {
                let place = format!("line {}", index + 1);
                match serde_json::from_str(line) {
                    Ok(raw) => read(place, raw),
                    Err(error) => {
                        let what = format!("at column {} this isn't JSON; mend this line", error.column());
                        Err(BadPost::new(place, what))
                    }
                }
            })
            .collect(),
    };
    if things.is_empty() {
        return Err(BadPost::new("the input", format!("it holds no {kind}")));
    }
    Ok(things)
}

/// The same id twice in one input is two posts in one place; the second is refused unless it is the very same.
pub(super) fn refuse_repeats(posts: Vec<Result<Post, BadPost>>) -> Vec<Result<Post, BadPost>> {
    let mut seen = std::collections::HashMap::new();
    posts
        .into_iter()
        .map(|post| {
            let post = post?;
            let fingerprint = post.fingerprint();
            // The first one stays the measure: a refused one must not get the next ones through.
            if *seen.entry(post.id.clone()).or_insert_with(|| fingerprint.clone()) == fingerprint {
                return Ok(post);
            }
            Err(BadPost::new(
                format!("post {}", post.id),
                "its id appears twice in this input with different contents; give each post its own id",
            ))
        })
        .collect()
}

/// A field of an object, as far as it can be read; only to say where a fault is, or what the object is.
pub(super) fn field(raw: &RawValue, name: &str) -> Option<Value> {
    serde_json::from_str::<Value>(raw.get()).ok()?.get(name).cloned()
}

/// Reads an object from its text, not from a [`Value`]: of a field that is there twice, that would keep the last one
/// and say nothing.
pub(super) fn typed<T: serde::de::DeserializeOwned>(place: &str, raw: &RawValue) -> Result<T, BadPost> {
    if !raw.get().starts_with('{') {
        return Err(BadPost::new(place, "it isn't a JSON object"));
    }
    let mut reader = serde_json::Deserializer::from_str(raw.get());
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let what = error.into_inner().to_string();
        // The line and column count from the object's start, which nobody sees.
        let what = what.rsplit_once(" at line ").map_or(what.as_str(), |(what, _)| what);
        BadPost::new(place, if path == "." { what.to_owned() } else { format!("`{path}`: {what}") })
    })
}

pub(super) fn post(place: String, raw: &RawValue) -> Result<Post, BadPost> {
    let place = match field(raw, "id").as_ref().and_then(Value::as_str) {
        Some(id) => format!("{place} (id {})", id.chars().take(64).collect::<String>()),
        None => place,
    };
    check(&place, typed(&place, raw)?)
}

fn check(place: &str, post: Post) -> Result<Post, BadPost> {
    if post.priority > MAX_PRIORITY {
        return Err(BadPost::new(
            place,
            format!("priority {} is out of range; use 0 to {MAX_PRIORITY}", post.priority),
        ));
    }
    if post.shots.is_empty() || post.shots.len() > MAX_SHOTS {
        return Err(BadPost::new(
            place,
            format!("it has {} shots; a post has 1 to {MAX_SHOTS}", post.shots.len()),
        ));
    }
    let mut ids = HashSet::new();
    for shot in &post.shots {
        let place = format!("{place}, shot {}", shot.id);
        if !ids.insert(shot.id.clone()) {
            return Err(BadPost::new(place, "its id appears twice in the post; give each shot its own"));
        }
        check_text(&place, "its prompt", &shot.prompt)?;
        let params_bytes = shot.params_text().map_or(0, |text| text.len());
        if params_bytes > MAX_PARAMS_BYTES {
            return Err(BadPost::new(
                place,
                format!(
                    "its params have {params_bytes} bytes of JSON; at most {MAX_PARAMS_BYTES} are allowed"
                ),
            ));
        }
    }
    Ok(post)
}

/// Checks a prompt, or a text that becomes one.
pub(super) fn check_text(place: &str, what: &str, text: &str) -> Result<(), BadPost> {
    let bytes = text.len();
    if bytes == 0 || bytes > MAX_PROMPT_BYTES {
        let what = format!("{what} has {bytes} bytes; it needs 1 to {MAX_PROMPT_BYTES}");
        return Err(BadPost::new(place, what));
    }
    if text.trim().is_empty() {
        return Err(BadPost::new(place, format!("{what} is all blank; say what to draw")));
    }
    Ok(())
}

impl Shot {
    /// The params as JSON text; `None` when there are none.
    #[must_use]
    pub fn params_text(&self) -> Option<String> {
        self.params
            .as_ref()
            .filter(|params| !params.is_empty())
            .map(|params| Value::Object(params.clone()).to_string())
    }
}

impl Post {
    /// SHA-256 of what was asked for: the same for the same post, whatever the spelling of its JSON.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        // Serialising a struct with string keys into memory can't fail; an empty text would only make two posts look
        // alike that are compared by id first.
        hex::encode(Sha256::digest(serde_json::to_string(self).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"id":"p1","lane":"a","shots":[{"id":"s1","prompt":"a pear"}]}"#;

    fn only_error(text: &str) -> String {
        match parse_posts(text) {
            Err(error) => error.to_string(),
            Ok(posts) => posts.into_iter().find_map(Result::err).unwrap().to_string(),
        }
    }

    #[test]
    fn three_formats_give_the_same_posts() {
        let second = GOOD.replace("p1", "p2");
        let array = parse_posts(&format!("[{GOOD},\n{second}]")).unwrap();
        let lines = parse_posts(&format!("\u{feff}{GOOD}\n\n{second}\n")).unwrap();
        assert_eq!(array, lines);
        assert_eq!(array.len(), 2);
        assert_eq!(parse_posts(GOOD).unwrap()[0], array[0]);
        assert_eq!(array[0].as_ref().unwrap().priority, DEFAULT_PRIORITY);
    }

    #[test]
    fn one_bad_post_does_not_hide_its_neighbours() {
        let posts = parse_posts(&format!("{GOOD}\n{{\"id\":\n{}", GOOD.replace("p1", "p3"))).unwrap();
        assert_eq!(posts.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
        assert!(posts[1].as_ref().unwrap_err().to_string().starts_with("line 2: "));
    }

    #[test]
    fn each_fault_is_named_with_its_place() {
        let with = |shot: &str| format!(r#"{{"id":"p1","lane":"a","shots":[{shot}]}}"#);
        for (text, says) in [
            (String::new(), "empty"),
            ("7".into(), "neither a post"),
            ("[1]".into(), "post 1 of the array: it isn't a JSON object"),
            ("{\"id\":\"p1\",\n\"lane\":}".into(), "line 2, column 8"),
            (GOOD.replace("\"lane\"", "\"lanes\""), "unknown field `lanes`"),
            (GOOD.replace("\"lane\":\"a\",", ""), "missing field `lane`"),
            (GOOD.replace("p1", "p 1"), "letters, digits"),
            (GOOD.replace("\"lane\"", "\"priority\":1001,\"lane\""), "priority 1001 is out of range"),
            (GOOD.replace("\"lane\"", "\"priority\":-1,\"lane\""), "invalid value"),
            (with(""), "it has 0 shots"),
            (with(r#"{"id":"s1","prompt":""}"#), "shot s1: its prompt has 0 bytes"),
            (with(r#"{"id":"s1","prompt":"  "}"#), "all blank"),
            (with(&format!(r#"{{"id":"s1","prompt":"{}"}}"#, "x".repeat(32_769))), "32769 bytes"),
            (with(r#"{"id":"s1","prompt":"x","media":"audio"}"#), "unknown variant `audio`"),
            (with(r#"{"id":"s1","prompt":"x","params":[]}"#), "`shots[0].params`: invalid type"),
            (GOOD.replace("\"id\":\"p1\"", "\"id\":\"p1\",\"id\":\"p2\""), "duplicate field `id`"),
            (with(r#"{"id":"s1","prompt":"x","prompt":"y"}"#), "duplicate field `prompt`"),
            (
                format!("[{GOOD},{}]", GOOD.replace("\"id\":\"s1\"", "\"id\":1.5")),
                "post 2 of the array (id p1): `shots[0].id`",
            ),
            (with(r#"{"id":"s1","prompt":"x"},{"id":"s1","prompt":"y"}"#), "appears twice"),
            (format!("[{GOOD},{}]", GOOD.replace("pear", "plum")), "twice in this input"),
        ] {
            let error = only_error(&text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn a_prompt_at_its_limit_passes_and_never_prints() {
        let text = GOOD.replace("a pear", &"x".repeat(32_768));
        let post = parse_posts(&text).unwrap().remove(0).unwrap();
        assert!(!format!("{post:?}{:?}", post.shots).contains("xxx"));
    }
}
