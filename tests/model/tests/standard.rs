//! The standard bounds: every configuration looked at to its end without a violation, and every seeded fault found.

use glassline_model::{Bounds, Config, MUTANTS, check, replay, standard, tell, written};
use std::time::Instant;

/// Threads: what a small machine has.
const THREADS: usize = 2;

/// Prints a line in every run: what a test prints by `println!` is only shown when it fails.
fn say(line: &impl std::fmt::Display) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stdout(), "{line}");
}

#[test]
fn the_deployed_handlers_keep_every_invariant_within_the_standard_bounds() {
    let began = Instant::now();
    let (mut unique, mut wrong) = (0, Vec::new());
    for config in standard() {
        let report = check(&config, Bounds { threads: THREADS, ..Bounds::default() });
        say(&report);
        for (property, actions) in &report.broken {
            wrong.push(format!("{}: BROKEN: {property}\n{}", config.name, tell(&config, actions)));
        }
        if !report.exhausted || !report.missed.is_empty() {
            wrong.push(format!("{}: not reached: {:?}", config.name, report.missed));
        }
        unique += report.unique;
    }
    say(&format!("{unique} different states in {} s", began.elapsed().as_secs()));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(unique > 1_000_000, "only {unique} states");
}

#[test]
fn every_seeded_fault_is_found() {
    let mut missed = Vec::new();
    assert!(MUTANTS.len() >= 20);
    for mutant in MUTANTS {
        let config = mutant.config();
        let report = check(&config, Bounds { threads: 1, ..Bounds::default() });
        let found = report.broken.iter().find(|(property, _)| property.starts_with(mutant.found_by));
        let Some((property, actions)) = found else {
            missed.push(format!("{}: {:?}", mutant.name, report.broken));
            continue;
        };
        say(&format!("{:<52} found by {property}, in {} steps", mutant.name, actions.len()));
        // What it prints can be run again and breaks the same; without the fault the way isn't there, or breaks nothing.
        let again = replay(&config, &written(actions)).unwrap();
        assert!(again.contains(property), "{}: {again:?}", mutant.name);
        let sound = config.clone().but(|config| config.mutant = None);
        let broken = replay(&sound, &written(actions)).unwrap_or_default();
        assert!(!broken.contains(property), "{} without its fault: {broken:?}", mutant.name);
    }
    assert!(missed.is_empty(), "not found: {}", missed.join("\n"));
}

#[test]
fn a_counterexample_is_told_as_a_numbered_story() {
    let mutant = MUTANTS.iter().find(|mutant| mutant.name == "success before QA").unwrap();
    let config = mutant.config();
    let report = check(&config, Bounds { threads: 1, ..Bounds::default() });
    let story = tell(&config, &report.broken[0].1);
    for expected in
        ["   1. ", "a full tick begins", "Succeed of POST#p/SHOT#s0", "BROKEN: I3", "To run it again: "]
    {
        assert!(story.contains(expected), "{expected}: {story}");
    }
}

/// A resume won the lease of a slow worker, which recorded its task all the same and started a chain of polls. The
/// resume saw the task and started a second chain under the same lease. Whoever lost the lease now leaves it.
#[test]
fn a_resume_that_lost_the_lease_starts_no_chain_of_polls() {
    let config = Config::parse("tier=key early=1 tick=1").unwrap();
    assert_eq!(replay(&config, REPLAYED), Ok(Vec::new()));
    let faulty = config.but(|config| config.mutant = Some("a resume goes on after it lost the lease"));
    let on = format!("{REPLAYED} call:0:3:ok:0 call:0:4:ok:0");
    let broken = replay(&faulty, &on).unwrap();
    assert!(broken.iter().any(|property| property.starts_with("I9")), "{broken:?}");
}

const REPLAYED: &str = "tick call:0:1:ok:0 call:0:2:ok:0 call:0:3:ok:0 call:0:4:ok:0 call:0:5:ok:0 call:0:6:ok:0 \
    call:0:7:ok:0 call:0:8:ok:0 deliver:0 call:0:0:ok:0 tick clock call:0:1:ok:0 call:0:2:ok:0 call:0:3:ok:0 call:0:4:ok:0 \
    call:0:1:ok:0 deliver:0 call:1:1:ok:0 deliver:0 call:0:1:ok:0 call:1:2:ok:0 call:1:3:ok:0 call:0:2:ok:0";
