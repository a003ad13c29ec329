//! Benchmarks: how far from the limit. Nothing here passes or fails by time.

mod init;
mod secrets;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Measures Glassline on this machine.
#[derive(Debug, Parser)]
struct Cli {
    /// Print one JSON object instead of a table.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

/// What to measure.
#[derive(Debug, Subcommand)]
enum Command {
    /// From the start of a function's process to its first poll of the Runtime API.
    Init {
        /// Starts of each function.
        #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        runs: u32,
    },
    /// Admitting the API's secret and refusing wrong ones of its length.
    Secrets {
        /// Rounds, each of which times every case.
        #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        runs: u32,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Init { runs } => init::run(runs, cli.json),
        Command::Secrets { runs } => secrets::run(runs, cli.json),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("glassline-bench: {why}");
            ExitCode::FAILURE
        }
    }
}
