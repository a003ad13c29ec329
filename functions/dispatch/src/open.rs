//! Opening episodes: a story chosen uniformly at random is locked and verified, numbered by the series' counter, and
//! becomes an episode with four frames, all in one transaction or not at all.

use crate::Ports;
use glassline_protocol::ids::Token;
use glassline_protocol::intake::{EpisodeRows, episode_rows};
use glassline_protocol::message::{Message, Wake};
use glassline_protocol::ports::{Envelope, NewRow, Part, Transacted};
use glassline_protocol::row::{
    EpisodeKey, EpisodeStatus, SeriesKey, SeriesRow, StoryKey, StoryRow, StoryStatus,
};
use glassline_protocol::settings::Settings;
use glassline_protocol::settle::{self, Fault, Settled};
use glassline_protocol::steps::{close_if_ended, send_all};
use glassline_protocol::transition::{SeriesTransition, StoryTransition};

/// Tries of one opening's transaction: each lost one means that another dispatcher took the number.
const TRIES: usize = 50;
/// Open heads of a series that are listed.
const MAX_OPEN_HEADS: usize = 1_000;

/// What opening came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Episodes opened, in order.
    pub episodes: Vec<EpisodeKey>,
    /// Stories tried in vain: another dispatcher has them.
    pub taken: usize,
    /// Heads found open though their frames had ended, and closed.
    pub closed: usize,
}

/// Opens episodes of a series until as many are open as may be, or no story is left; and closes heads that a crash left
/// open.
///
/// The choice is exactly uniform among the stories that the index shows: a story's score has no part in it. One choice
/// reads the keys of all of them once, half a read unit per 4 KB, about 40 stories.
///
/// # Errors
/// [`Fault`] when a row can't be read or written now.
pub async fn open_episodes<P: Ports>(
    ports: &P,
    settings: &Settings,
    series_key: &SeriesKey,
) -> Result<Opened, Fault> {
    let mut opened = Opened::default();
    let mut fault = None;
    for head in some_open(ports, settings, series_key).await? {
        match close_if_ended(ports, &head).await {
            Ok(Some(EpisodeStatus::Complete | EpisodeStatus::Failed)) => opened.closed += 1,
            Ok(Some(EpisodeStatus::Open) | None) => {}
            // It is said at the end: one that can't be read keeps no other from being opened or closed.
            Err(error) => fault = fault.or(Some(error)),
        }
    }
    let Some(mut series) = ports.series(series_key).await? else { return Ok(opened) };
    let mut pool: Option<Vec<StoryKey>> = None;
    while series.open < series.open_limit && opened.episodes.len() < settings.max_openings_per_tick {
        let stories = match &mut pool {
            Some(stories) => stories,
            None => pool.insert(ports.open_stories(series_key).await?),
        };
        let Some(chosen) = draw(ports, stories) else { break };
        let Some((story, owner)) = lock(ports, settings, &chosen).await? else {
            opened.taken += 1;
            continue;
        };
        match make(ports, &mut series, &story, &owner).await? {
            Some(episode) => opened.episodes.push(episode),
            None => break,
        }
    }
    wake(ports, &opened, &series).await;
    fault.map_or(Ok(opened), Err)
}

/// Some of the open heads, from a random place on: the lowest ones, when held, must not hide the others.
async fn some_open<P: Ports>(
    ports: &P,
    settings: &Settings,
    series_key: &SeriesKey,
) -> Result<Vec<EpisodeKey>, Fault> {
    let mut heads = ports.open_episodes(series_key, MAX_OPEN_HEADS).await?;
    if heads.len() > settings.open_heads_per_tick {
        let from = usize::try_from(ports.random_below(heads.len() as u64)).unwrap_or(0);
        let from = from.min(heads.len());
        heads.rotate_left(from);
        heads.truncate(settings.open_heads_per_tick);
    }
    Ok(heads)
}

/// One story, each equally likely; it leaves the pool, so that it is not drawn again in this tick.
pub fn draw<P: Ports>(ports: &P, stories: &mut Vec<StoryKey>) -> Option<StoryKey> {
    if stories.is_empty() {
        return None;
    }
    let index = usize::try_from(ports.random_below(stories.len() as u64)).unwrap_or(0);
    (index < stories.len()).then(|| stories.swap_remove(index))
}

/// Locks a story under a fresh owner and verifies it. `None`: somebody else has it.
async fn lock<P: Ports>(
    ports: &P,
    settings: &Settings,
    key: &StoryKey,
) -> Result<Option<(StoryRow, Token)>, Fault> {
    let owner = ports.fresh_token();
    let now_ms = ports.now_ms();
    let expires_ms = now_ms.saturating_add(settings.story_lock_ms);
    let lock = StoryTransition::Lock { owner: owner.clone(), expires_ms };
    let found = match settle::story(ports, settings.write_repeats, key, &lock).await? {
        Settled::Mine(row) => return Ok(verified(row, key, &owner)),
        Settled::Refused(found) => found,
    };
    let expired = found.filter(|row| {
        row.status == StoryStatus::Locked && row.expires_ms.is_some_and(|expires_ms| expires_ms < now_ms)
    });
    let Some(seen) = expired.and_then(|row| row.owner) else { return Ok(None) };
    let take = StoryTransition::TakeOver { seen, now_ms, owner: owner.clone(), expires_ms };
    match settle::story(ports, settings.write_repeats, key, &take).await? {
        Settled::Mine(row) => Ok(verified(row, key, &owner)),
        Settled::Refused(_) => Ok(None),
    }
}

/// Exactly this story, locked by exactly this owner; anything else is left alone.
fn verified(row: StoryRow, key: &StoryKey, owner: &Token) -> Option<(StoryRow, Token)> {
    let ours = row.key == *key && row.status == StoryStatus::Locked && row.owner.as_ref() == Some(owner);
    ours.then(|| (row, owner.clone()))
}

/// Makes the episode. `None`: it may not be made any more (the series is full, or the lock was lost).
async fn make<P: Ports>(
    ports: &P,
    series: &mut SeriesRow,
    story: &StoryRow,
    owner: &Token,
) -> Result<Option<EpisodeKey>, Fault> {
    let Some(spec) = ports.story_spec(&story.key).await? else {
        return Err(Fault::Poison(format!("the prompts of {} are missing", story.key)));
    };
    let lane = story.lane.clone().unwrap_or_else(|| series.lane.clone());
    let Some(lane) = ports.lane(&lane).await? else {
        return Err(Fault::Poison(format!("{} names the lane `{lane}`, which doesn't exist", story.key)));
    };
    for _ in 0..TRIES {
        let key = EpisodeKey { series: series.key.0.clone(), number: series.next };
        let rows = episode_rows(series, story, &spec, &lane, owner, ports.now_ms());
        let done = ports.transact(&opening(series, story, owner, rows)).await == Transacted::Done;
        if done || is_ours(ports, &key, owner).await? {
            series.next = series.next.saturating_add(1);
            series.open = series.open.saturating_add(1);
            return Ok(Some(key));
        }
        // Another took the number, or the lock is no longer ours: what is there now decides.
        let Some(now) = ports.story(&story.key).await? else { return Ok(None) };
        if verified(now, &story.key, owner).is_none() {
            return Ok(None);
        }
        let Some(fresh) = ports.series(&series.key).await? else { return Ok(None) };
        *series = fresh;
        if series.open >= series.open_limit {
            let unlock = StoryTransition::Unlock { owner: owner.clone() };
            settle::story(ports, 0, &story.key, &unlock).await?;
            return Ok(None);
        }
    }
    Err(Fault::retry(format!("no number can be had for {} now", story.key)))
}

/// Whether the episode that this opening would have written is there: then its lost reply was a success.
async fn is_ours<P: Ports>(ports: &P, key: &EpisodeKey, owner: &Token) -> Result<bool, Fault> {
    Ok(ports.episode(key).await?.is_some_and(|view| view.head.owner == *owner))
}

fn opening(series: &SeriesRow, story: &StoryRow, owner: &Token, rows: EpisodeRows) -> Vec<Part> {
    let mut parts = vec![
        Part::Series(
            series.key.clone(),
            SeriesTransition::Number { number: series.next, open_below: series.open_limit },
        ),
        Part::Story(story.key.clone(), StoryTransition::Use { owner: owner.clone(), episode: series.next }),
        Part::Create(Box::new(NewRow::Episode(rows.head))),
    ];
    for (spec, job) in rows.frames {
        parts.push(Part::Create(Box::new(NewRow::Spec(spec))));
        parts.push(Part::Create(Box::new(NewRow::Job(job))));
    }
    parts
}

/// The frames' lanes have something to do. Stories may name their own lane; those wait for the next full tick.
async fn wake<P: Ports>(ports: &P, opened: &Opened, series: &SeriesRow) {
    if !opened.episodes.is_empty() {
        let wake = Message::Wake(Wake { lane: series.lane.clone(), freed: None });
        send_all(ports, vec![Envelope { message: wake, delay_ms: 0 }]).await;
    }
}
