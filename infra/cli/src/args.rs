//! Arguments.

use crate::ops_args::{LanesCommand, Ops};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Coordinates paid renders: never paid twice, never lost, never published unstored.
#[derive(Debug, Parser)]
#[command(
    name = "glassline",
    version,
    about = "Coordinates paid renders: never paid twice, never lost, never published unstored."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Folder with the stack's data.
    #[arg(long, global = true, value_name = "DIR", default_value = "glassline-data")]
    pub(crate) data: PathBuf,
    /// Work on this stack in AWS instead, with the credentials and region of the environment.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) stack: Option<String>,
    /// The AWS region of the stack.
    #[arg(long, global = true, value_name = "REGION")]
    pub(crate) region: Option<String>,
    /// Where AWS is reached instead of its own addresses, such as an emulator.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) endpoint_url: Option<String>,
    /// Work on the API at this address instead, with the shared secret in GLASSLINE_API_SECRET.
    #[arg(long, global = true, value_name = "URL", conflicts_with_all = ["stack", "region", "endpoint_url"])]
    pub(crate) url: Option<String>,
    /// Print JSON on standard output instead of tables.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl Options {
    /// What stands in the way of these options being used together, one sentence.
    pub(crate) fn misfit(&self, command: &Command) -> Option<&'static str> {
        let embedded = match command {
            Command::Demo | Command::Local { .. } | Command::Function { .. } => true,
            Command::Submit { .. }
            | Command::Ls { .. }
            | Command::Show { .. }
            | Command::Lanes { .. }
            | Command::Ops(_)
            | Command::Series { .. }
            | Command::Episodes { .. }
            | Command::Reopen { .. }
            | Command::Ledger { .. }
            | Command::Audit { .. }
            | Command::Queues => false,
        };
        if embedded && self.stack.is_some() {
            return Some("this command runs an embedded stack; leave out --stack");
        }
        let remote = matches!(command, Command::Lanes { .. } | Command::Ops(_));
        if self.url.is_some() && !remote {
            return Some("this command doesn't work at an address; leave out --url");
        }
        if self.stack.is_none() && (self.region.is_some() || self.endpoint_url.is_some()) {
            return Some("--region and --endpoint-url say where a stack in AWS is; name it with --stack");
        }
        None
    }

    /// Where the command looks, as a sentence goes on with it.
    pub(crate) fn place(&self) -> String {
        match &self.stack {
            Some(stack) => format!("the stack {stack}"),
            None => self.data.display().to_string(),
        }
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Render a bundled set of shots on the embedded stack, with lost answers and a killed worker, and check that each
    /// was paid for once.
    Demo,
    /// Run the embedded stack until Ctrl-C.
    Local {
        /// JSON file with the lanes: [{"name","capacity","recovery":{"tier":"key","lifetime_ms":N},…}].
        #[arg(long, value_name = "FILE")]
        lanes: Option<PathBuf>,
        /// Seconds between two scheduled ticks of dispatch.
        #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
        tick_seconds: u64,
        /// Port of the API and the registry page on loopback; without it a free one, which the folder keeps.
        #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
        port: Option<u16>,
    },
    /// Submit posts and stories from a file: a JSON object, an array, or one object a line; stories also as CSV; `-` reads
    /// JSON from standard input.
    Submit {
        /// The file.
        file: PathBuf,
        /// Wait until every job has ended or is held.
        #[arg(long)]
        wait: bool,
    },
    /// List posts, newest first.
    Ls {
        /// Most posts to list.
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = at_least_one())]
        limit: usize,
    },
    /// Show a post, an episode or a job: POST_ID, POST#id, POST#id/SHOT#id, EPISODE#series#000001, with /FRAME#1.
    Show {
        /// The post, episode or job.
        key: String,
    },
    /// Show the lanes: slots in use, what waits, what is held; or add or change one.
    Lanes {
        #[command(subcommand)]
        change: Option<LanesCommand>,
    },
    #[command(flatten)]
    Ops(Ops),
    /// List the series, or add one.
    Series {
        #[command(subcommand)]
        add: Option<SeriesCommand>,
    },
    /// List episodes, newest first.
    Episodes {
        /// Only of this series.
        series: Option<String>,
        /// Most episodes to list of each series.
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Ask again for the frames of a failed episode that did not succeed.
    Reopen {
        /// The episode: EPISODE#series#000001.
        episode: String,
    },
    /// Show what every attempt cost, or may have cost; fails if a provider accepted any attempt twice. Reads the whole table.
    Ledger {
        /// Only this lane.
        #[arg(long, value_name = "LANE")]
        lane: Option<String>,
        /// Only what ended, or started if it hasn't ended, since then: 2026-11-01, 2026-11-01T12:00:00Z, 24h, 7d.
        #[arg(long, value_name = "WHEN")]
        since: Option<String>,
    },
    /// Compare what is stored with what the table says: objects without rows, rows without objects, other sizes or
    /// hashes, orphaned tasks. Fails when an output is gone or another.
    Audit {
        /// Read every object that a row names, and compare its hash.
        #[arg(long)]
        deep: bool,
        /// Delete objects without a row that are older than a day and whose attempt has ended otherwise. Never a row.
        #[arg(long)]
        repair: bool,
    },
    /// Show the queues.
    Queues,
    /// Start as a function of the stack; the local Lambda host does this.
    #[command(hide = true)]
    Function {
        /// dispatch, worker, finisher, rollback or api.
        name: String,
    },
}

/// What to do with series.
#[derive(Debug, Subcommand)]
pub(crate) enum SeriesCommand {
    /// Add a series.
    Add {
        /// Its name.
        name: String,
        /// The lane that renders its frames.
        #[arg(long)]
        lane: String,
        /// Priority of its frames, 0 to 1000.
        #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(0..=1000))]
        priority: u32,
        /// Most episodes that may be open at once.
        #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
        open: u32,
        /// JSON file with four prompts, each with {premise} where a story's premise goes.
        #[arg(long, value_name = "FILE")]
        template: Option<PathBuf>,
    },
}

fn at_least_one() -> clap::builder::RangedU64ValueParser<usize> {
    clap::builder::RangedU64ValueParser::new().range(1..)
}
