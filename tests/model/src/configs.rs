//! The configurations that are checked.

use crate::config::{Config, Tier};
use crate::seen::Goal::{
    self, Cancelled, Complete, CrashSurvived, Failed, Held, LostSurvived, Orphan, Released, Resumed,
    SecondAttempt, Succeeded, TwoAtOnce, TwoOpen,
};

fn config(name: &'static str, text: &str, goals: &'static [Goal]) -> Config {
    let mut config = Config::parse(text).unwrap();
    (config.name, config.goals) = (name, goals);
    config
}

/// What `cargo test` checks: name, parts and troubles, and what must be reached.
const STANDARD: &[(&str, &str, &[Goal])] = &[
    ("key", "tier=key crash=1 lost=1 submit=1 early=1", &[Succeeded, LostSurvived, CrashSurvived, Resumed]),
    (
        "lookup",
        "tier=lookup crash=1 lost=1 submit=1 early=1",
        &[SecondAttempt, LostSurvived, CrashSurvived, Resumed],
    ),
    ("callback", "tier=callback crash=1 lost=1 submit=1", &[Succeeded, Held, LostSurvived]),
    ("none", "tier=none crash=1 lost=1 submit=1", &[Succeeded, Held, LostSurvived]),
    ("slow worker", "tier=key early=2 tick=1 reject=1", &[Succeeded, SecondAttempt, Resumed]),
    (
        "slow worker, lookup",
        "tier=lookup early=2 tick=1 submit=1 lag=1",
        &[Succeeded, SecondAttempt, Resumed],
    ),
    ("late writes", "tier=lookup late=2 early=1", &[Succeeded]),
    ("one lost answer", "lost=1 only_lost=1", &[Succeeded, LostSurvived]),
    ("lost answers only", "tier=none jobs=2 repeats=2 lost=2 only_lost=1", &[Succeeded, LostSurvived]),
    ("refusals", "tier=key reject=1 throttle=1 fail=1 badout=1 failures=3", &[SecondAttempt, Failed]),
    ("bad provider", "tier=lookup deadline=8 drop=1 mute=1 foreign=1 refuse=1", &[SecondAttempt, Held]),
    ("outputs", "badout=1 barred=1 expired=1 crash=1", &[SecondAttempt, Held, Failed]),
    ("dead letters", "tier=none receives=1 crash=3 submit=1", &[SecondAttempt, CrashSurvived, Failed, Held]),
    (
        "cancel",
        "tier=none cancel=1 requeue=1 submit=1 unsent=1",
        &[Succeeded, Cancelled, Held, SecondAttempt],
    ),
    ("cancel and crash", "tier=lookup cancel=1 crash=2 fail=1", &[Succeeded, Cancelled, CrashSurvived]),
    ("people", "tier=key review=1 requeue=1 barred=1 dup=1 outside=1", &[SecondAttempt, Held]),
    ("callbacks", "tier=key polled=0 callback=2 crash=1", &[Succeeded]),
    ("two jobs, one slot", "jobs=2 capacity=1 tick=1 stale=1 lost=1", &[Succeeded, LostSurvived]),
    ("two jobs, a crash", "jobs=2 capacity=1 tick=1 crash=1 early=1", &[Succeeded, CrashSurvived]),
    ("two slots", "jobs=2 capacity=2 crash=1", &[Succeeded, TwoAtOnce]),
    ("requeue and slots", "jobs=2 cancel=1 requeue=1 tick=1", &[Succeeded, Cancelled]),
    ("budget", "jobs=2 capacity=2 spend=1 tick=1 lost=1", &[Succeeded]),
    ("rate", "jobs=2 capacity=2 rate=1 tick=1 crash=1", &[Succeeded]),
    ("openers", "stories=2 open_limit=2 frames=0 tick=1 lost=1", &[TwoOpen, LostSurvived]),
    ("locks that expire", "stories=2 open_limit=3 frames=0 tick=2 early=1", &[TwoOpen]),
    ("an episode", "stories=1 frames=2 framefail=1", &[Complete, Released]),
    ("a crash in an episode", "stories=1 frames=1 framefail=1 crash=1", &[Complete, Released, CrashSurvived]),
    ("reopening", "stories=1 frames=1 framefail=1 reopen=1 lost=1", &[Complete, Released, LostSurvived]),
];

/// What takes longer: the same worlds with more troubles.
const WIDE: &[(&str, &str, &[Goal])] = &[
    ("wide slow worker", "tier=key early=2 tick=1 reject=1 dup=1", &[Succeeded, SecondAttempt, Resumed]),
    ("wide key", "tier=key crash=1 lost=1 submit=1 early=1 dup=1 tick=1 reject=1", &[Succeeded, Resumed]),
    (
        "wide lookup",
        "tier=lookup crash=1 lost=1 submit=1 early=1 dup=1 tick=1 lag=1",
        &[SecondAttempt, Orphan],
    ),
    ("wide callback", "tier=callback crash=1 lost=1 submit=1 early=1 dup=1 tick=1", &[Held, Succeeded]),
    ("wide none", "tier=none crash=1 lost=1 submit=1 early=1 requeue=1 cancel=1", &[Held, Succeeded]),
    ("wide jobs", "jobs=2 capacity=1 tick=1 stale=1 lost=1 crash=1 early=1", &[Succeeded]),
    ("wide slots", "jobs=2 capacity=2 crash=1 lost=1 unsent=1", &[Succeeded, TwoAtOnce]),
    ("wide episodes", "stories=2 open_limit=2 frames=1 tick=1 lost=1 crash=1", &[Complete, TwoOpen]),
    ("wide reopening", "stories=2 open_limit=1 frames=2 framefail=1 reopen=1 crash=1", &[Complete, Released]),
];

fn all(list: &[(&'static str, &str, &'static [Goal])]) -> Vec<Config> {
    list.iter().map(|(name, text, goals)| config(name, text, goals)).collect()
}

/// What `cargo test` checks.
#[must_use]
pub fn standard() -> Vec<Config> {
    all(STANDARD)
}

/// What takes hours.
#[must_use]
pub fn wide() -> Vec<Config> {
    all(WIDE)
}

/// For random walks: everything at once.
#[must_use]
pub fn walks() -> Vec<Config> {
    let troubles = "crash=3 lost=3 late=1 dup=2 unsent=1 submit=2 early=3 tick=3 reject=1 throttle=1 fail=1 drop=1 \
                    badout=1 barred=1 stale=2 lag=1 mute=1 refuse=1 callback=1 cancel=1 requeue=1 deadline=9";
    let one = |name: &'static str, tier: Tier, shape: &str| {
        let mut config = Config::parse(&format!("{troubles} {shape}")).unwrap();
        (config.name, config.tier, config.goals) = (name, tier, &[]);
        config
    };
    vec![
        one("walk key", Tier::Key, "jobs=2 capacity=2 procs=4"),
        one("walk lookup", Tier::Lookup, "jobs=2 capacity=1 procs=4"),
        one("walk callback", Tier::Callback, "jobs=2 capacity=2 procs=3"),
        one("walk none", Tier::None, "jobs=2 capacity=2 procs=4"),
    ]
}
