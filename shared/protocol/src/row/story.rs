//! Series, their stories and their episodes.

use super::{BadRow, PrimaryKey, RowKey, row, text_attr, word_enum};
use crate::ids::{BadName, Id, LaneName, Ms, ParentKey, Token};
use std::fmt;
use std::str::FromStr;

/// Frames of an episode.
pub const FRAMES: u8 = 4;
/// Episodes of a season.
pub const EPISODES_PER_SEASON: u32 = 10;

/// Episode `number` (from 1) as season and episode within it, both from 1.
#[must_use]
pub fn season_and_episode(number: u32) -> (u32, u32) {
    let index = number.saturating_sub(1);
    (index / EPISODES_PER_SEASON + 1, index % EPISODES_PER_SEASON + 1)
}

row! {
    /// A series: its settings, the number of its next episode and how many are open.
    SeriesRow, SeriesField, SeriesKey {
        /// The number that the next episode will have; numbers are dense and unique.
        next: u32 = Next "next",
        /// Episodes that are open.
        open: u32 = Open "open",
        /// Most episodes that may be open at once.
        open_limit: u32 = OpenLimit "open_limit",
        /// The lane that renders its frames, unless a story names another.
        lane: LaneName = Lane "lane",
        /// Priority of its frames, 0 to 1000, unless a story has its own.
        priority: u32 = Priority "priority",
        /// Four prompts with `{premise}` in each, as a JSON array; absent for the built-in ones.
        template: Option<String> = Template "template",
        /// When it was created, in epoch milliseconds.
        created_ms: Ms = CreatedMs "created_ms",
        /// Partition of the index `queue`: `SERIES`.
        queue_pk: Option<String> = QueuePk "queue_pk",
        /// Sort key of the index `queue`: its name.
        queue_sk: Option<String> = QueueSk "queue_sk",
    }
}

/// The key of a series: its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeriesKey(
    /// The name.
    pub Id,
);

impl RowKey for SeriesKey {
    fn primary(&self) -> PrimaryKey {
        PrimaryKey { pk: format!("SERIES#{}", self.0), sk: "COUNTER".into() }
    }
    fn parse(key: &PrimaryKey) -> Result<Self, BadRow> {
        let name = key.pk.strip_prefix("SERIES#").filter(|_| key.sk == "COUNTER");
        let name = name.ok_or_else(|| BadRow::new(key, "it isn't a series key (SERIES#name / COUNTER)"))?;
        Id::new(name).map(Self).map_err(|error| BadRow::new(key, error.to_string()))
    }
}

word_enum! {
    /// Where a story stands.
    StoryStatus {
        /// It may become an episode.
        Eligible = "eligible",
        /// Somebody is making an episode of it, until its lock expires.
        Locked = "locked",
        /// It is an episode.
        Used = "used",
        /// It failed too often.
        Exhausted = "exhausted",
    }
}

row! {
    /// A story, small because it changes; its prompts are in [`StorySpecRow`].
    StoryRow, StoryField, StoryKey {
        /// Where it stands.
        status: StoryStatus = Status "status",
        /// Who locked it, or whose episode it is: the token of the opening.
        owner: Option<Token> = Owner "owner",
        /// When its lock expires, in epoch milliseconds.
        expires_ms: Option<Ms> = ExpiresMs "expires_ms",
        /// The number of its episode.
        episode: Option<u32> = Episode "episode",
        /// Episodes of it that failed.
        failures: u32 = Failures "failures",
        /// Its own lane.
        lane: Option<LaneName> = Lane "lane",
        /// Its own priority, 0 to 1000.
        priority: Option<u32> = Priority "priority",
        /// Its score, as given; kept for people, and not used in the choice.
        score: Option<String> = Score "score",
        /// When it was created, in epoch milliseconds.
        created_ms: Ms = CreatedMs "created_ms",
        /// SHA-256 of what was submitted.
        fingerprint: String = Fingerprint "fingerprint",
        /// Partition of the index `queue` while it is eligible or locked: `STORIES#series`.
        queue_pk: Option<String> = QueuePk "queue_pk",
        /// Sort key of the index `queue`: its key.
        queue_sk: Option<String> = QueueSk "queue_sk",
    }
}

/// The key of a story.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StoryKey {
    /// Its series.
    pub series: Id,
    /// Its key within the series.
    pub key: Id,
}

impl fmt::Display for StoryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "STORY#{}#{}", self.series, self.key)
    }
}

impl FromStr for StoryKey {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        let bad = || BadName::new("story key", text, "it is STORY#series#key");
        let (series, key) =
            text.strip_prefix("STORY#").and_then(|rest| rest.split_once('#')).ok_or_else(bad)?;
        Ok(Self { series: Id::new(series).map_err(|_| bad())?, key: Id::new(key).map_err(|_| bad())? })
    }
}

text_attr!(StoryKey);

impl RowKey for StoryKey {
    fn primary(&self) -> PrimaryKey {
        PrimaryKey { pk: self.to_string(), sk: "STORY".into() }
    }
    fn parse(key: &PrimaryKey) -> Result<Self, BadRow> {
        if key.sk != "STORY" {
            return Err(BadRow::new(key, "its sk isn't STORY"));
        }
        key.pk.parse().map_err(|error| BadRow::new(key, format!("{error}")))
    }
}

row! {
    /// The prompts of a story. Written before the story and never changed.
    StorySpecRow, StorySpecField, StorySpecKey {
        /// Prompt of the first frame.
        frame_1: String = Frame1 "frame_1",
        /// Prompt of the second frame.
        frame_2: String = Frame2 "frame_2",
        /// Prompt of the third frame.
        frame_3: String = Frame3 "frame_3",
        /// Prompt of the fourth frame.
        frame_4: String = Frame4 "frame_4",
    }
}

impl StorySpecRow {
    /// The prompts in order.
    #[must_use]
    pub fn prompts(&self) -> [&str; FRAMES as usize] {
        [&self.frame_1, &self.frame_2, &self.frame_3, &self.frame_4]
    }
}

/// The key of a story's prompts: its story's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StorySpecKey(
    /// The story.
    pub StoryKey,
);

impl RowKey for StorySpecKey {
    fn primary(&self) -> PrimaryKey {
        PrimaryKey { pk: self.0.to_string(), sk: "STORY#SPEC".into() }
    }
    fn parse(key: &PrimaryKey) -> Result<Self, BadRow> {
        if key.sk != "STORY#SPEC" {
            return Err(BadRow::new(key, "its sk isn't STORY#SPEC"));
        }
        key.pk.parse().map(Self).map_err(|error| BadRow::new(key, format!("{error}")))
    }
}

word_enum! {
    /// Where an episode stands.
    EpisodeStatus {
        /// Its frames are under way.
        Open = "open",
        /// All four frames succeeded.
        Complete = "complete",
        /// A frame ended without success.
        Failed = "failed",
    }
}

row! {
    /// The head of an episode.
    EpisodeRow, EpisodeField, EpisodeKey {
        /// Where it stands.
        status: EpisodeStatus = Status "status",
        /// Its story.
        story: StoryKey = Story "story",
        /// The token of its opening: the story names it too while it belongs to this episode.
        owner: Token = Owner "owner",
        /// The lane of its frames.
        lane: LaneName = Lane "lane",
        /// Their priority.
        priority: u32 = Priority "priority",
        /// When it was opened, in epoch milliseconds.
        created_ms: Ms = CreatedMs "created_ms",
        /// How often it was opened: 1, and one more each time it is reopened. Whoever read it before a reopening can't
        /// close it afterwards.
        opened: u32 = Opened "opened",
        /// When it was closed, in epoch milliseconds.
        closed_ms: Option<Ms> = ClosedMs "closed_ms",
        /// Why it failed, one sentence.
        reason: Option<String> = Reason "reason",
        /// Partition of the index `queue` while it is open: `OPEN#series`.
        queue_pk: Option<String> = QueuePk "queue_pk",
        /// Sort key of the index `queue`: its number.
        queue_sk: Option<String> = QueueSk "queue_sk",
    }
}

/// The key of an episode.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EpisodeKey {
    /// Its series.
    pub series: Id,
    /// Its number, from 1.
    pub number: u32,
}

impl EpisodeKey {
    /// The key as the parent of frames.
    #[must_use]
    pub fn parent(&self) -> ParentKey {
        ParentKey::Episode { series: self.series.clone(), number: self.number }
    }

    /// The keys of its frames, in order.
    #[must_use]
    pub fn frames(&self) -> Vec<crate::ids::JobKey> {
        (1..=FRAMES)
            .map(|frame| crate::ids::JobKey {
                parent: self.parent(),
                member: crate::ids::MemberKey::Frame(frame),
            })
            .collect()
    }
}

impl fmt::Display for EpisodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.parent())
    }
}

impl RowKey for EpisodeKey {
    fn primary(&self) -> PrimaryKey {
        PrimaryKey { pk: self.parent().to_string(), sk: "HEAD".into() }
    }
    fn parse(key: &PrimaryKey) -> Result<Self, BadRow> {
        if key.sk != "HEAD" {
            return Err(BadRow::new(key, "its sk isn't HEAD"));
        }
        match key.pk.parse() {
            Ok(ParentKey::Episode { series, number }) => Ok(Self { series, number }),
            Ok(ParentKey::Post(_)) => Err(BadRow::new(key, "it is the head of a post")),
            Err(error) => Err(BadRow::new(key, error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_episodes_to_a_season() {
        for (number, expected) in
            [(1, (1, 1)), (10, (1, 10)), (11, (2, 1)), (20, (2, 10)), (21, (3, 1)), (10_000, (1_000, 10))]
        {
            assert_eq!(season_and_episode(number), expected, "{number}");
        }
    }

    #[test]
    fn episodes_sort_by_number_beyond_9999() {
        let key = |number| EpisodeKey { series: Id::new("main").unwrap(), number }.primary().pk;
        let numbers = [1, 2, 10, 99, 100, 9_999, 10_000, 10_001, 123_456, 999_999];
        assert!(numbers.windows(2).all(|pair| key(pair[0]) < key(pair[1])));
    }
}
