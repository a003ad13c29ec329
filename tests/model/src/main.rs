//! Checks configurations from the command line.

use clap::{Parser, ValueEnum};
use glassline_model::{
    Bounds, Config, MUTANTS, Report, check, replay, simulate, standard, tell, walks, wide,
};
use std::process::ExitCode;

/// Model check of the deployed handlers.
///
/// Looks at every order of events within the bounds of each configuration; ends with 1 when an invariant is broken.
#[derive(Parser)]
struct Args {
    /// What to check.
    #[arg(value_enum, default_value_t = What::Standard)]
    what: What,
    /// Only configurations (or seeded faults) whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// A configuration of its own, as `tier=lookup jobs=2 crash=1`.
    #[arg(long)]
    custom: Option<String>,
    /// Runs the actions of a counterexample again, in the configuration of `--custom` or `--only`.
    #[arg(long)]
    replay: Option<String>,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Depth first: less memory, longer counterexamples.
    #[arg(long)]
    depth_first: bool,
    /// Stop each configuration after this many steps.
    #[arg(long)]
    states: Option<usize>,
    /// Stop each configuration after this many seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// Seed of random walks.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// The bounds of the test command.
    Standard,
    /// Wider ones: hours.
    Wide,
    /// Seeded faults: each must be found.
    Mutants,
    /// Random walks by seed.
    Walks,
}

fn print(config: &Config, report: &Report) -> bool {
    println!("{report}");
    for missed in report.missed.iter().filter(|_| report.exhausted && report.broken.is_empty()) {
        println!("  NOT REACHED: {missed}");
    }
    for (property, actions) in report.broken.iter().take(1) {
        println!("  BROKEN: {property}\n{}", tell(config, actions));
    }
    report.broken.is_empty() && (report.missed.is_empty() || !report.exhausted)
}

fn main() -> ExitCode {
    let args = Args::parse();
    let bounds = Bounds {
        threads: args.threads,
        depth_first: args.depth_first,
        states: args.states,
        timeout_ms: args.seconds.map(|seconds| seconds * 1_000),
    };
    if args.what == What::Mutants {
        return mutants(&args, bounds);
    }
    let configs = match (&args.custom, args.what) {
        (Some(text), _) => match Config::parse(text) {
            Ok(config) => vec![config],
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(2);
            }
        },
        (None, What::Wide) => wide(),
        (None, What::Walks) => walks(),
        (None, What::Standard | What::Mutants) => standard(),
    };
    let (mut well, mut unique) = (true, 0);
    for config in configs.iter().filter(|config| config.name.contains(&args.only)) {
        if let Some(actions) = &args.replay {
            println!("{:?}", replay(config, actions));
            continue;
        }
        let report = if args.what == What::Walks {
            simulate(config, args.seed, bounds)
        } else {
            check(config, bounds)
        };
        unique += report.unique;
        well &= print(config, &report);
    }
    println!("{unique} different states");
    ExitCode::from(u8::from(!well))
}

fn mutants(args: &Args, bounds: Bounds) -> ExitCode {
    let mut well = true;
    for mutant in MUTANTS.iter().filter(|mutant| mutant.name.contains(&args.only)) {
        let config = mutant.config();
        let report = check(&config, bounds);
        let found = report.broken.first().map(|(property, actions)| (*property, actions));
        let right = report.broken.iter().any(|(property, _)| property.starts_with(mutant.found_by));
        well &= right;
        let what = match found {
            Some((property, actions)) => format!("{property} in {} steps", actions.len()),
            None => "NOT FOUND".to_owned(),
        };
        println!("{} {}: {what}", if right { "found" } else { "WRONG" }, mutant.name);
        if let Some((_, actions)) = found.filter(|_| !args.only.is_empty()) {
            println!("{}", tell(&config, actions));
        }
    }
    ExitCode::from(u8::from(!well))
}
