//! Checks configurations from the command line.

use clap::Parser;
use glassline_model::{Bounds, check, standard, tell};

/// Model check of the deployed handlers.
#[derive(Parser)]
struct Args {
    /// Only configurations whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Stop after this many steps.
    #[arg(long)]
    states: Option<usize>,
}

fn main() {
    let args = Args::parse();
    for config in standard().into_iter().filter(|config| config.name.contains(&args.only)) {
        let bounds = Bounds { threads: args.threads, states: args.states, ..Bounds::default() };
        let report = check(&config, bounds);
        println!("{report}");
        println!("missed: {:?}", report.missed);
        for (property, actions) in &report.broken {
            println!("BROKEN {property}\n{}", tell(&config, actions));
        }
    }
}
