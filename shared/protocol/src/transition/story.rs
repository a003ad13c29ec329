//! Transitions of stories, series and episode heads. Those that must change together are put together in
//! one transaction of [`crate::ports::Part`]s.

use crate::ids::{Ms, Token};
use crate::row::outcome::short;
use crate::row::{
    EpisodeField as E, EpisodeKey, EpisodeStatus, SeriesField as R, StoryField as S, StoryStatus, Value,
};
use crate::rule::{Rule, Then, When};

/// A story fails for good with this many failed episodes.
pub const MAX_STORY_FAILURES: u32 = 3;

/// A transition of a story.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StoryTransition {
    /// dispatch: take the story, if it is eligible.
    Lock {
        /// The fresh token of this opening.
        owner: Token,
        /// When the lock expires.
        expires_ms: Ms,
    },
    /// dispatch: take a story whose lock has expired, matching the owner that was seen.
    TakeOver {
        /// The owner whose lock expired.
        seen: Token,
        /// Now: the lock must have expired before.
        now_ms: Ms,
        /// The fresh token of this opening.
        owner: Token,
        /// When the lock expires.
        expires_ms: Ms,
    },
    /// dispatch, within the opening's transaction: the story is this episode now.
    Use {
        /// The owner of the lock.
        owner: Token,
        /// The episode's number.
        episode: u32,
    },
    /// dispatch: give back a lock of one's own.
    Unlock {
        /// The owner of the lock.
        owner: Token,
    },
    /// Whoever closes the episode: it failed, and the story may become another one.
    Release {
        /// The owner of the opening.
        owner: Token,
        /// The episode's number.
        episode: u32,
        /// Its index entry: partition and sort key.
        entry: (String, String),
    },
    /// Whoever closes the episode: it failed, and that was once too often.
    Exhaust {
        /// The owner of the opening.
        owner: Token,
        /// The episode's number.
        episode: u32,
    },
    /// A person reopens a failed episode: the story is that episode's again.
    Reuse {
        /// The owner of the opening, as the head has it.
        owner: Token,
        /// The episode's number.
        episode: u32,
        /// Status as read: eligible or exhausted.
        status: StoryStatus,
    },
    /// A person reopens a failed episode whose story's last lock has expired, matching the owner that was seen.
    ReuseExpired {
        /// The owner of the opening, as the head has it.
        owner: Token,
        /// The episode's number.
        episode: u32,
        /// The owner whose lock expired.
        seen: Token,
        /// Now: the lock must have expired before.
        now_ms: Ms,
    },
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}
fn is(field: S, value: Value) -> When<S> {
    When::Is(field, value)
}
fn locked_by(owner: &Token) -> Vec<When<S>> {
    vec![is(S::Status, StoryStatus::Locked.value()), is(S::Owner, text(owner.as_str()))]
}
fn used_by(owner: &Token, episode: u32) -> Vec<When<S>> {
    vec![
        is(S::Status, StoryStatus::Used.value()),
        is(S::Owner, text(owner.as_str())),
        is(S::Episode, Value::Number(u64::from(episode))),
    ]
}
fn lock(owner: &Token, expires_ms: Ms) -> Vec<Then<S>> {
    vec![
        Then::Set(S::Status, StoryStatus::Locked.value()),
        Then::Set(S::Owner, text(owner.as_str())),
        Then::Set(S::ExpiresMs, Value::Number(expires_ms)),
    ]
}
fn become_used(owner: &Token, episode: u32) -> Vec<Then<S>> {
    let mut then = vec![
        Then::Set(S::Status, StoryStatus::Used.value()),
        Then::Set(S::Owner, text(owner.as_str())),
        Then::Set(S::Episode, Value::Number(u64::from(episode))),
    ];
    then.extend([S::ExpiresMs, S::QueuePk, S::QueueSk].map(Then::Clear));
    then
}

impl StoryTransition {
    /// The transition's line of the table.
    #[must_use]
    pub fn rule(&self) -> Rule<S> {
        match self {
            Self::Lock { owner, expires_ms } => Rule {
                when: vec![is(S::Status, StoryStatus::Eligible.value())],
                then: lock(owner, *expires_ms),
                mine: locked_by(owner),
            },
            Self::TakeOver { seen, now_ms, owner, expires_ms } => {
                let mut when = locked_by(seen);
                when.push(When::Below(S::ExpiresMs, *now_ms));
                Rule { when, then: lock(owner, *expires_ms), mine: locked_by(owner) }
            }
            Self::Use { owner, episode } => Rule {
                when: locked_by(owner),
                then: become_used(owner, *episode),
                mine: used_by(owner, *episode),
            },
            Self::Unlock { owner } => Rule {
                when: locked_by(owner),
                then: vec![
                    Then::Set(S::Status, StoryStatus::Eligible.value()),
                    Then::Clear(S::Owner),
                    Then::Clear(S::ExpiresMs),
                ],
                mine: vec![is(S::Status, StoryStatus::Eligible.value()), When::Absent(S::Owner)],
            },
            Self::Release { owner, episode, entry } => Rule {
                when: used_by(owner, *episode),
                then: vec![
                    Then::Set(S::Status, StoryStatus::Eligible.value()),
                    Then::Clear(S::Owner),
                    Then::Clear(S::Episode),
                    Then::Add(S::Failures, 1),
                    Then::Set(S::QueuePk, text(&entry.0)),
                    Then::Set(S::QueueSk, text(&entry.1)),
                ],
                mine: Vec::new(),
            },
            Self::Exhaust { owner, episode } => Rule {
                when: used_by(owner, *episode),
                then: vec![
                    Then::Set(S::Status, StoryStatus::Exhausted.value()),
                    Then::Clear(S::Owner),
                    Then::Clear(S::Episode),
                    Then::Add(S::Failures, 1),
                ],
                mine: Vec::new(),
            },
            Self::ReuseExpired { owner, episode, seen, now_ms } => {
                let mut when = locked_by(seen);
                when.push(When::Below(S::ExpiresMs, *now_ms));
                Rule { when, then: become_used(owner, *episode), mine: used_by(owner, *episode) }
            }
            Self::Reuse { owner, episode, status } => Rule {
                when: vec![
                    is(S::Status, status.value()),
                    When::OneOf(
                        S::Status,
                        vec![StoryStatus::Eligible.value(), StoryStatus::Exhausted.value()],
                    ),
                ],
                then: become_used(owner, *episode),
                mine: used_by(owner, *episode),
            },
        }
    }
}

/// A transition of a series' counter. Never an `ADD`: each matches the number that was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SeriesTransition {
    /// Within the opening's transaction: the number is taken.
    Number {
        /// The number, as read.
        number: u32,
        /// Only while fewer episodes than this are open.
        open_below: u32,
    },
    /// Within a closing transaction: one fewer is open.
    Closed {
        /// Open episodes as read.
        open: u32,
    },
    /// Within a reopening transaction: one more is open.
    Reopened {
        /// Open episodes as read.
        open: u32,
    },
}

impl SeriesTransition {
    /// The transition's line of the table.
    #[must_use]
    pub fn rule(&self) -> Rule<R> {
        match self {
            Self::Number { number, open_below } => Rule {
                when: vec![
                    When::Is(R::Next, Value::Number(u64::from(*number))),
                    When::Below(R::Open, u64::from(*open_below)),
                ],
                then: vec![Then::Set(R::Next, Value::Number(u64::from(*number) + 1)), Then::Add(R::Open, 1)],
                mine: Vec::new(),
            },
            Self::Closed { open } => set_open(*open, open.saturating_sub(1)),
            Self::Reopened { open } => set_open(*open, open.saturating_add(1)),
        }
    }
}

fn set_open(seen: u32, to: u32) -> Rule<R> {
    Rule {
        when: vec![When::Is(R::Open, Value::Number(u64::from(seen)))],
        then: vec![Then::Set(R::Open, Value::Number(u64::from(to)))],
        mine: Vec::new(),
    }
}

/// A transition of an episode's head.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EpisodeTransition {
    /// All four frames succeeded.
    Complete {
        /// How often it was opened, as read.
        opened: u32,
        /// Now.
        now_ms: Ms,
    },
    /// A frame ended without success.
    Fail {
        /// How often it was opened, as read.
        opened: u32,
        /// Now.
        now_ms: Ms,
        /// Which frame and why, one sentence.
        reason: String,
    },
    /// A person asks for another try of its frames that didn't succeed.
    Reopen {
        /// Its key, for its index entry.
        key: EpisodeKey,
        /// How often it was opened, as read.
        opened: u32,
    },
}

/// The index entry of an open head.
#[must_use]
pub fn open_entry(key: &EpisodeKey) -> (String, String) {
    (format!("OPEN#{}", key.series), format!("{:06}", key.number))
}

/// The index entry of a story that may be chosen.
#[must_use]
pub fn story_entry(story: &crate::row::StoryKey) -> (String, String) {
    (format!("STORIES#{}", story.series), story.key.to_string())
}

impl EpisodeTransition {
    /// The transition's line of the table.
    #[must_use]
    pub fn rule(&self) -> Rule<E> {
        let is = |status: EpisodeStatus, opened: u32| {
            vec![When::Is(E::Status, status.value()), When::Is(E::Opened, Value::Number(u64::from(opened)))]
        };
        let close = |status: EpisodeStatus, now_ms: Ms| {
            vec![
                Then::Set(E::Status, status.value()),
                Then::Set(E::ClosedMs, Value::Number(now_ms)),
                Then::Clear(E::QueuePk),
                Then::Clear(E::QueueSk),
            ]
        };
        match self {
            Self::Complete { now_ms, opened } => Rule {
                when: is(EpisodeStatus::Open, *opened),
                then: close(EpisodeStatus::Complete, *now_ms),
                mine: Vec::new(),
            },
            Self::Fail { now_ms, reason, opened } => {
                let mut then = close(EpisodeStatus::Failed, *now_ms);
                then.push(Then::Set(E::Reason, text(&short(reason))));
                Rule { when: is(EpisodeStatus::Open, *opened), then, mine: Vec::new() }
            }
            Self::Reopen { key, opened } => {
                let (queue_pk, queue_sk) = open_entry(key);
                Rule {
                    when: is(EpisodeStatus::Failed, *opened),
                    then: vec![
                        Then::Set(E::Status, EpisodeStatus::Open.value()),
                        Then::Set(E::Opened, Value::Number(u64::from(*opened) + 1)),
                        Then::Clear(E::ClosedMs),
                        Then::Clear(E::Reason),
                        Then::Set(E::QueuePk, text(&queue_pk)),
                        Then::Set(E::QueueSk, text(&queue_sk)),
                    ],
                    mine: Vec::new(),
                }
            }
        }
    }
}
