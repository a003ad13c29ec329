//! The properties of a configuration: what always holds, and what is reached at some point.

use crate::check::Broken;
use crate::config::Config;
use crate::model::Checked;
use crate::seen::Goal;
use crate::state::World;
use glassline_protocol::row::{EpisodeStatus, Status, StoryStatus};
use stateright::Property;

/// The name of the property on how things end.
pub(crate) const LIVE: &str = "I4 no job is lost: when troubles stop, every job ends or is held";
/// Its bit among what was told.
const LIVE_BIT: u8 = 40;

fn holds<const N: usize>(checked: &Checked, world: &World) -> bool {
    let what = Broken::ALL[N];
    checked.holds(world, what) || !checked.seen.once(crate::codec::small(N))
}

fn lives(checked: &Checked, world: &World) -> bool {
    let looked_at = world.running.is_empty() && world.ghosts.is_empty() && world.bad == 0;
    !looked_at || checked.ends_well(world) || !checked.seen.once(LIVE_BIT)
}

const HOLDS: [fn(&Checked, &World) -> bool; 12] = [
    holds::<0>,
    holds::<1>,
    holds::<2>,
    holds::<3>,
    holds::<4>,
    holds::<5>,
    holds::<6>,
    holds::<7>,
    holds::<8>,
    holds::<9>,
    holds::<10>,
    holds::<11>,
];

impl Goal {
    pub(crate) const ALL: [Self; 13] = [
        Self::Succeeded,
        Self::SecondAttempt,
        Self::Held,
        Self::Resumed,
        Self::LostSurvived,
        Self::CrashSurvived,
        Self::Failed,
        Self::Cancelled,
        Self::Orphan,
        Self::TwoAtOnce,
        Self::Complete,
        Self::Released,
        Self::TwoOpen,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "a job succeeds",
            Self::SecondAttempt => "a later attempt succeeds",
            Self::Held => "a job is held",
            Self::Resumed => "a resume leads to success",
            Self::LostSurvived => "a lost answer is survived",
            Self::CrashSurvived => "a crash is survived",
            Self::Failed => "a job fails for good",
            Self::Cancelled => "a job is cancelled",
            Self::Orphan => "a task is given up",
            Self::TwoAtOnce => "two jobs are under way",
            Self::Complete => "an episode is complete",
            Self::Released => "a story is given back",
            Self::TwoOpen => "two episodes are open",
        }
    }

    fn reached(self, checked: &Checked, world: &World) -> bool {
        let config = &checked.config;
        let any = |status: Status| world.jobs.iter().any(|job| job.status == status);
        let (left, had) = (&world.left, &config.budget);
        match self {
            Self::Succeeded => any(Status::Succeeded),
            Self::SecondAttempt => {
                world.jobs.iter().any(|job| job.status == Status::Succeeded && job.attempt > 1)
            }
            Self::Held => any(Status::Held),
            Self::Resumed => any(Status::Succeeded) && checked.seen.resumed(),
            Self::LostSurvived => left.lost < had.lost && (any(Status::Succeeded) || !world.heads.is_empty()),
            Self::CrashSurvived => {
                left.crash < had.crash && (any(Status::Succeeded) || !world.heads.is_empty())
            }
            Self::Failed => any(Status::Failed),
            Self::Cancelled => any(Status::Cancelled),
            Self::Orphan => !world.orphans.is_empty(),
            Self::TwoAtOnce => world.jobs.iter().filter(|job| job.status.fills_slot()).count() > 1,
            Self::Complete => world.heads.iter().any(|head| head.status == EpisodeStatus::Complete),
            Self::Released => {
                world.stories.iter().any(|s| s.failures > 0 && s.status == StoryStatus::Eligible)
            }
            Self::TwoOpen => world.heads.iter().filter(|head| head.status == EpisodeStatus::Open).count() > 1,
        }
    }
}

/// The first bit of goals among what was told.
const GOAL_BIT: u8 = 20;

fn reached<const N: usize>(checked: &Checked, world: &World) -> bool {
    let bit = GOAL_BIT + crate::codec::small(N);
    !checked.seen.told(bit) && Goal::ALL[N].reached(checked, world) && checked.seen.once(bit)
}

const REACHED: [fn(&Checked, &World) -> bool; 13] = [
    reached::<0>,
    reached::<1>,
    reached::<2>,
    reached::<3>,
    reached::<4>,
    reached::<5>,
    reached::<6>,
    reached::<7>,
    reached::<8>,
    reached::<9>,
    reached::<10>,
    reached::<11>,
    reached::<12>,
];

/// The properties of a configuration.
pub(crate) fn properties(config: &Config) -> Vec<Property<Checked>> {
    let always = Broken::ALL.iter().zip(HOLDS).map(|(what, holds)| Property::always(what.name(), holds));
    let goals = Goal::ALL.iter().zip(REACHED).filter(|(goal, _)| config.goals.contains(goal));
    let sometimes = goals.map(|(goal, reached)| Property::sometimes(goal.name(), reached));
    always.chain([Property::always(LIVE, lives)]).chain(sometimes).collect()
}
