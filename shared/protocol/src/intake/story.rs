//! Reading stories: JSON as for posts, or CSV with a heading line.

use super::MAX_SCORE_BYTES;
use super::parse::{BadPost, check_text, each_object, field, typed};
use crate::ids::{Id, LaneName};
use crate::rank::MAX_PRIORITY;
use crate::row::StoryKey;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

/// A story: four frame prompts, or a premise from which the series' template makes four.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Story {
    /// Its series.
    pub series: Id,
    /// Its key within the series; the same key again is the same story.
    pub key: Id,
    /// The prompts of its four frames, in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<Vec<String>>,
    /// Or a premise, one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub premise: Option<String>,
    /// Its own lane; the series' when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneName>,
    /// Its own priority, 0 to 1000; the series' when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// A score for people to sort by; it has no part in the choice, which is uniform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<serde_json::Number>,
}

impl std::fmt::Debug for Story {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Story({}, {})", self.series, self.key)
    }
}

impl Story {
    /// Its key in the table.
    #[must_use]
    pub fn story_key(&self) -> StoryKey {
        StoryKey { series: self.series.clone(), key: self.key.clone() }
    }

    /// SHA-256 of what was asked for.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        hex::encode(Sha256::digest(serde_json::to_string(self).unwrap_or_default()))
    }
}

/// Reads stories from text: one JSON object, an array of objects, or JSON Lines. Each is judged on its own.
///
/// # Errors
/// As [`super::parse_posts`].
pub fn parse_stories(text: &str) -> Result<Vec<Result<Story, BadPost>>, BadPost> {
    Ok(refuse_repeats(each_object(text, "story", story)?))
}

/// The same key twice in one input with other contents: the second is refused.
pub(super) fn refuse_repeats(stories: Vec<Result<Story, BadPost>>) -> Vec<Result<Story, BadPost>> {
    let mut seen = std::collections::HashMap::new();
    let checked = stories.into_iter().map(|story| {
        let story = story?;
        let fingerprint = story.fingerprint();
        // The first one stays the measure: a refused one must not get the next ones through.
        if *seen.entry(story.story_key()).or_insert_with(|| fingerprint.clone()) == fingerprint {
            return Ok(story);
        }
        Err(BadPost::new(
            format!("story {} of series {}", story.key, story.series),
            "its key appears twice in this input with different contents; give each story its own key",
        ))
    });
    checked.collect()
}

pub(super) fn story(place: String, raw: &RawValue) -> Result<Story, BadPost> {
    let place = match field(raw, "key").as_ref().and_then(Value::as_str) {
        Some(key) => format!("{place} (key {})", key.chars().take(64).collect::<String>()),
        None => place,
    };
    check(&place, typed(&place, raw)?)
}

fn check(place: &str, story: Story) -> Result<Story, BadPost> {
    match (&story.frames, &story.premise) {
        (Some(frames), None) => {
            if frames.len() != usize::from(crate::row::FRAMES) {
                let what = format!("it has {} frames; a story has exactly four", frames.len());
                return Err(BadPost::new(place, what));
            }
            for (index, prompt) in frames.iter().enumerate() {
                check_text(place, &format!("the prompt of frame {}", index + 1), prompt)?;
            }
        }
        (None, Some(premise)) => check_text(place, "its premise", premise)?,
        (Some(_), Some(_)) | (None, None) => {
            return Err(BadPost::new(place, "give it either four `frames` or a `premise`"));
        }
    }
    if story.priority.is_some_and(|priority| priority > MAX_PRIORITY) {
        return Err(BadPost::new(place, format!("its priority is out of range; use 0 to {MAX_PRIORITY}")));
    }
    if story.score.as_ref().is_some_and(|score| score.to_string().len() > MAX_SCORE_BYTES) {
        return Err(BadPost::new(place, "its score has too many digits"));
    }
    Ok(story)
}

/// The columns that a CSV may have.
const COLUMNS: [&str; 10] =
    ["series", "key", "frame1", "frame2", "frame3", "frame4", "premise", "lane", "priority", "score"];

/// Reads stories from CSV: a heading line with `series`, `key` and either `frame1` to `frame4` or `premise`, and
/// optionally `lane`, `priority` and `score`; then a story a line. An empty field is one that isn't given.
///
/// # Errors
/// [`BadPost`] when the heading can't be used.
pub fn parse_stories_csv(text: &str) -> Result<Vec<Result<Story, BadPost>>, BadPost> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        let what =
            "it is empty; give a heading line with `series`, `key` and `frame1` to `frame4` or `premise`";
        return Err(BadPost::new("the input", what));
    }
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::Headers).from_reader(text.as_bytes());
    let headings = reader.headers().map_err(|error| BadPost::new("line 1", error.to_string()))?.clone();
    if let Some(unknown) = headings.iter().find(|name| !COLUMNS.contains(name)) {
        let what = format!("the column `{unknown}` isn't known; use {}", COLUMNS.join(", "));
        return Err(BadPost::new("line 1", what));
    }
    let mut seen = std::collections::HashSet::new();
    if let Some(twice) = headings.iter().find(|name| !seen.insert(name.to_owned())) {
        return Err(BadPost::new("line 1", format!("the column `{twice}` is there twice")));
    }
    for needed in ["series", "key"] {
        if !headings.iter().any(|name| name == needed) {
            return Err(BadPost::new("line 1", format!("the column `{needed}` is missing")));
        }
    }
    let stories = reader.records().map(|record| {
        let record = record.map_err(|error| {
            let line = error.position().map_or(0, csv::Position::line);
            BadPost::new(format!("line {line}"), "it doesn't have the columns of the heading, or isn't UTF-8")
        })?;
        let place = format!("line {}", record.position().map_or(0, csv::Position::line));
        from_record(place, &headings, &record)
    });
    let mut stories: Vec<_> = stories.collect();
    if let Some(line) = unclosed_quote(text) {
        // What follows the quotation mark lies in the last record, further stories perhaps.
        stories.pop();
        let what =
            "a quotation mark is opened here and never closed; close it, or write it twice if it is meant";
        stories.push(Err(BadPost::new(format!("line {line}"), what)));
    }
    if stories.is_empty() {
        return Err(BadPost::new("the input", "it holds no story"));
    }
    Ok(refuse_repeats(stories))
}

/// The line of the record with a quotation mark that is never closed. The reader takes the end of the text for its end;
/// a line added at the end shows whether it is still read as one.
fn unclosed_quote(text: &str) -> Option<u64> {
    const MARK: &str = "\u{1}";
    let marked = format!("{text}\n{MARK}");
    let mut reader =
        csv::ReaderBuilder::new().flexible(true).has_headers(false).from_reader(marked.as_bytes());
    let last = reader.records().last()?.ok()?;
    (last.get(0) != Some(MARK)).then(|| last.position().map_or(0, csv::Position::line))
}

fn from_record(
    place: String,
    headings: &csv::StringRecord,
    record: &csv::StringRecord,
) -> Result<Story, BadPost> {
    let mut object = serde_json::Map::new();
    let mut frames: [Option<&str>; 4] = [None; 4];
    for (name, field) in headings.iter().zip(record.iter()).filter(|(_, field)| !field.trim().is_empty()) {
        match name {
            "frame1" => frames[0] = Some(field),
            "frame2" => frames[1] = Some(field),
            "frame3" => frames[2] = Some(field),
            "frame4" => frames[3] = Some(field),
            "priority" | "score" => {
                let number: serde_json::Number = field
                    .trim()
                    .parse()
                    .map_err(|_| BadPost::new(place.clone(), format!("its {name} isn't a number")))?;
                object.insert(name.into(), number.into());
            }
            "premise" => {
                object.insert(name.into(), field.into());
            }
            _ => {
                object.insert(name.into(), field.trim().into());
            }
        }
    }
    if frames.iter().any(Option::is_some) {
        let given: Vec<&str> = frames.iter().map_while(|frame| *frame).collect();
        let count = frames.iter().filter(|frame| frame.is_some()).count();
        if given.len() != count {
            return Err(BadPost::new(place, format!("it has {count} frames; a story has exactly four")));
        }
        object.insert("frames".into(), given.into());
    }
    match serde_json::value::to_raw_value(&object) {
        Ok(raw) => story(place, &raw),
        Err(error) => Err(BadPost::new(place, error.to_string())),
    }
}
