//! Benchmarks: how far from the limit. Nothing here passes or fails by time.

mod finisher;
mod init;
mod secrets;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
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
    /// Peak memory and speed of saving films of 64 KiB, 20 MiB and a large size, to a folder and to S3.
    Finisher {
        /// The large size, in MiB. The disk needs three times as much.
        #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u64).range(1..=65_536))]
        size_mib: u64,
        /// A folder with that much room; the system's temporary folder if absent.
        #[arg(long, value_name = "DIR")]
        folder: Option<PathBuf>,
    },
    /// One save; `finisher` starts this.
    #[command(hide = true)]
    Save {
        /// What to save, as JSON.
        task: String,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Init { runs } => init::run(runs, cli.json),
        Command::Secrets { runs } => secrets::run(runs, cli.json),
        Command::Finisher { size_mib, folder } => finisher::run(size_mib, folder.as_deref(), cli.json),
        Command::Save { task } => finisher::save(&task),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("glassline-bench: {why}");
            ExitCode::FAILURE
        }
    }
}
