//! Dispatch: finds out which slots of a lane are free, chooses ready jobs by rank, claims each conditionally and hands
//! it to the worker. Any number of dispatchers may run at once: a slot is given out by whoever wins it.

pub mod bootstrap;
mod claim;
mod handoff;
mod open;
mod outside;
mod report;
mod tick;

use glassline_protocol::ids::{LaneName, Ms};
use glassline_protocol::message::{FreedSlot, Message};
use glassline_protocol::ports::{Local, Queues, Store};
use glassline_protocol::provider::ErrorClass;
use glassline_protocol::settings::Settings;
use glassline_protocol::settle::Fault;
use glassline_protocol::sign::Secrets;
use std::collections::BTreeMap;

pub use open::{Opened, draw, open_episodes};
pub use outside::{Claims, MAX_CLAIMS, claim_outside};
pub use tick::{HELD_LIMIT, tick};

/// What dispatch needs of the world.
pub trait Ports: Store + Queues + Local {}
impl<T: Store + Queues + Local> Ports for T {}

/// What a tick of a lane is asked to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// Every slot of the lane, the leases of its jobs, and its held jobs.
    Full,
    /// Only slots whose job has just ended, with the tokens they ended under.
    Freed(Vec<FreedSlot>),
}

/// What a tick of a lane came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ticked {
    /// Jobs handed to the worker.
    pub started: usize,
    /// Claims whose handoff went to rollback.
    pub unsent: usize,
    /// Jobs whose lease had run out.
    pub leases_over: usize,
    /// Held jobs to be looked at.
    pub held: usize,
    /// Reservations voided.
    pub voided: usize,
    /// What a full tick saw of the lane; a freed one doesn't look.
    pub seen: Option<Seen>,
}

/// How a lane stands, as a full tick saw it before it started anything. It is for people and alarms; nothing is decided
/// by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Held jobs, all of them and not only those that are due to be looked at; counted up to [`HELD_LIMIT`].
    pub held: usize,
    /// How long ago the oldest of the ready jobs that the tick read was created, in milliseconds: of the first of the lane
    /// by rank, so among equals the oldest. Retries that are due aren't among them. `None` when none is ready.
    pub oldest_ready_ms: Option<Ms>,
    /// What the lane is paused for, unless a person paused it.
    pub paused: Option<ErrorClass>,
}

/// Groups wakes by lane: a wake without a slot makes the lane's look a full one.
#[must_use]
pub fn looks(wakes: Vec<Message>) -> BTreeMap<LaneName, Look> {
    let mut looks = BTreeMap::new();
    for wake in wakes {
        let Message::Wake(wake) = wake else { continue };
        let look = looks.entry(wake.lane).or_insert_with(|| Look::Freed(Vec::new()));
        match (look, wake.freed) {
            (Look::Full, _) => {}
            (look @ Look::Freed(_), None) => *look = Look::Full,
            (Look::Freed(slots), Some(freed)) if !slots.contains(&freed) => slots.push(freed),
            (Look::Freed(_), Some(_)) => {}
        }
    }
    looks
}

/// Opens episodes of every series, one after the other; one that fails doesn't keep the others waiting.
///
/// # Errors
/// The first [`Fault`], after all were tried.
pub async fn open_all<P: Ports>(ports: &P, settings: &Settings) -> Result<(), Fault> {
    let mut fault = None;
    for series in ports.all_series().await? {
        if let Err(error) = open_episodes(ports, settings, &series).await {
            fault = fault.or(Some(error));
        }
    }
    fault.map_or(Ok(()), Err)
}

/// Answers the wakes of one lane. One without a slot comes after intake, so there may be stories to open, too.
///
/// # Errors
/// [`Fault`] when the lane can't be read or written now.
pub async fn answer<P: Ports>(
    ports: &P,
    settings: &Settings,
    secrets: &Secrets,
    lane: &LaneName,
    look: Look,
    until_ms: Ms,
) -> Result<Ticked, Fault> {
    let opened = if look == Look::Full { open_all(ports, settings).await } else { Ok(()) };
    let ticked = tick(ports, settings, secrets, lane, look, until_ms).await?;
    report::report(lane, &ticked);
    opened.map(|()| ticked)
}

/// A full tick: episodes of every series, then every lane, one after the other; one that fails doesn't keep the others
/// waiting.
///
/// # Errors
/// The first [`Fault`], after all were tried.
pub async fn tick_all<P: Ports>(
    ports: &P,
    settings: &Settings,
    secrets: &Secrets,
    until_ms: Ms,
) -> Result<BTreeMap<LaneName, Ticked>, Fault> {
    let mut ticked = BTreeMap::new();
    // Before the lanes: the frames of an episode opened now can be claimed by this very tick.
    let mut fault = open_all(ports, settings).await.err();
    for lane in ports.lanes().await? {
        match tick(ports, settings, secrets, &lane.key, Look::Full, until_ms).await {
            Ok(done) => {
                report::report(&lane.key, &done);
                ticked.insert(lane.key, done);
            }
            Err(error) => fault = fault.or(Some(error)),
        }
    }
    fault.map_or(Ok(ticked), Err)
}
