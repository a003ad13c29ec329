//! Random transitions of every kind.

use crate::random::Random;
use glassline_protocol::row::{QaState, Status};
use glassline_protocol::transition::{JobTransition, LaneSettings, LaneTransition, Ours, SlotTransition};

/// How many kinds of transitions a job has.
pub(crate) const JOB_KINDS: u64 = 17;
/// How many kinds of transitions a lane has.
pub(crate) const LANE_KINDS: u64 = 5;

impl Random {
    pub(crate) fn ours(&mut self) -> Ours {
        Ours { attempt: self.small(), token: self.token() }
    }

    /// A transition of a job, of the kind with this number.
    pub(crate) fn job_transition(&mut self, kind: u64) -> JobTransition {
        let (ours, now_ms) = (self.ours(), self.ms());
        match kind {
            0 => JobTransition::Claim {
                seen: self.small(),
                token: self.token(),
                slot: self.small(),
                lease_ms: self.ms(),
                price_micros: self.maybe(Self::ms),
            },
            1 => JobTransition::Void { seen: self.small(), queue_sk: self.entry().sk },
            2 => JobTransition::Accept { ours, now_ms },
            3 => JobTransition::Start { ours, run: self.run(), now_ms, lease_ms: self.ms() },
            4 => JobTransition::RecordTask { ours, task: self.task(), lease_ms: self.ms() },
            5 => JobTransition::Renew {
                ours,
                status: self.pick(&[Status::Rendering, Status::Held]),
                seen_lease_ms: self.ms(),
                lease_ms: self.ms(),
                run: self.run(),
                held_sk: self.maybe(|random| random.entry().sk),
            },
            6 => JobTransition::Hold {
                ours,
                next_check_ms: now_ms,
                entry: self.entry(),
                reason: self.reason(),
            },
            7 => JobTransition::Succeed { ours, now_ms },
            8 => JobTransition::Release {
                ours,
                entry: self.entry(),
                unless_accepted: self.chance(50),
                failing_below: self.maybe(Self::small),
            },
            9 => JobTransition::Retry {
                ours,
                entry: self.entry(),
                failing_below: self.maybe(Self::small),
                class: self.class(),
                reason: self.reason(),
            },
            10 => JobTransition::Fail { ours, now_ms, class: self.class(), reason: self.reason() },
            11 => JobTransition::RequestCancel { attempt: ours.attempt },
            12 => JobTransition::CancelReady { attempt: ours.attempt, now_ms },
            13 => JobTransition::CancelClaimed { ours, now_ms },
            14 => JobTransition::CancelEnded { ours, now_ms },
            15 => JobTransition::Requeue {
                status: self.pick(Status::ALL),
                attempt: ours.attempt,
                entry: self.entry(),
                note: self.maybe(Self::reason),
            },
            _ => JobTransition::Review {
                attempt: ours.attempt,
                verdict: self.pick(&[QaState::Approved, QaState::Rejected]),
            },
        }
    }

    pub(crate) fn slot_transition(&mut self) -> SlotTransition {
        SlotTransition::Take {
            seen: self.maybe(Self::token),
            job: "POST#p/SHOT#s9".parse().unwrap(),
            attempt: self.small(),
            token: self.token(),
            now_ms: self.ms(),
        }
    }

    /// A transition of a lane, of the kind with this number.
    pub(crate) fn lane_transition(&mut self, kind: u64) -> LaneTransition {
        match kind {
            0 => LaneTransition::Authorise {
                seen_rev: u64::from(self.small()),
                minute: self.ms(),
                minute_starts: self.small(),
                day: self.ms(),
                day_micros: self.ms(),
                by: self.run(),
            },
            1 => LaneTransition::Pause { until_ms: self.ms(), reason: self.reason() },
            2 => LaneTransition::PauseByHand { reason: self.reason() },
            3 => LaneTransition::Resume,
            _ => LaneTransition::Configure {
                seen_rev: u64::from(self.small()),
                settings: LaneSettings {
                    capacity: self.small(),
                    starts_per_minute: self.maybe(Self::small),
                    price_micros: self.maybe(Self::ms),
                    budget_micros_per_day: self.maybe(Self::ms),
                    boost_ms: self.maybe(Self::ms),
                    outside: self.chance(50),
                },
                by: self.run(),
            },
        }
    }
}
