//! Arguments of what people do to jobs, lanes and queues.

use clap::{Args, Subcommand, ValueEnum};

/// What people do. These work on a folder, on a stack, and at an address (`--url`) alike.
#[derive(Debug, Subcommand)]
pub(crate) enum Ops {
    /// Say in one sentence why a job isn't running, or what it waits for.
    Explain {
        /// The job: POST#id/SHOT#id or EPISODE#series#000001/FRAME#1.
        job: String,
    },
    /// Cancel a job, or with --lane all jobs of a lane that haven't ended.
    Cancel(Which),
    /// Ask for another attempt of a job that has ended or is held, or with --lane of all jobs of a lane that have failed.
    Requeue {
        #[command(flatten)]
        which: Which,
        /// Why, one sentence.
        #[arg(long, value_name = "TEXT", conflicts_with = "lane")]
        note: Option<String>,
    },
    /// Decide on a held job, or with --lane on all held jobs of a lane.
    Resolve {
        #[command(flatten)]
        which: Which,
        /// What is so: the provider never accepted it; it accepted it, as --task; nobody will find out.
        #[arg(long = "as", value_name = "WHAT")]
        decision: Decision,
        /// The provider's id of the render, with `--as task`.
        #[arg(long, value_name = "ID", required_if_eq("decision", "task"), conflicts_with = "lane")]
        task: Option<String>,
    },
    /// Give QA's verdict on an output.
    Review {
        /// The outcome, as its QA message names it: POST#id/SHOT#id/1.
        outcome: String,
        #[command(flatten)]
        verdict: Verdict,
    },
    /// Move the messages of a dead-letter queue back to where they came from.
    Redrive {
        /// The queue, such as render-dlq.
        queue: String,
    },
    /// Pause a lane until it is resumed; what is under way goes on.
    Pause {
        /// The lane.
        lane: String,
        /// Why, one sentence.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// End every pause of a lane.
    Resume {
        /// The lane.
        lane: String,
    },
    /// Show the lanes as they change, until Ctrl-C.
    Watch {
        /// Seconds between two looks.
        #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
        every: u64,
        /// Look so many times, then stop.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        times: Option<u64>,
    },
    /// Print the address of the registry page.
    Open,
    /// Print a script that completes commands in a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Which job, or which jobs.
#[derive(Clone, Debug, Args)]
pub(crate) struct Which {
    /// The job: POST#id/SHOT#id or EPISODE#series#000001/FRAME#1.
    #[arg(required_unless_present = "lane", conflicts_with = "lane")]
    pub(crate) job: Option<String>,
    /// The attempt that is meant; without it, the one that the job is at now.
    #[arg(long, value_name = "N", conflicts_with = "lane")]
    pub(crate) attempt: Option<u32>,
    /// All of this lane.
    #[arg(long, value_name = "LANE")]
    pub(crate) lane: Option<String>,
    /// Only those whose last failure was of this class.
    #[arg(long, value_name = "CLASS", requires = "lane")]
    pub(crate) class: Option<String>,
}

/// What is so of a held job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Decision {
    /// The provider never accepted it: render it again.
    Lost,
    /// The provider accepted it.
    Task,
    /// Nobody will find out, and it isn't to be rendered again.
    GiveUp,
}

impl Decision {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Task => "task",
            Self::GiveUp => "give_up",
        }
    }
}

/// QA's verdict.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Verdict {
    /// It may be published.
    #[arg(long)]
    pub(crate) approve: bool,
    /// It is rendered again, because of this.
    #[arg(long, value_name = "WHY")]
    pub(crate) reject: Option<String>,
}

/// What to do with lanes.
#[derive(Debug, Subcommand)]
pub(crate) enum LanesCommand {
    /// Add a lane.
    Add {
        /// Its name.
        name: String,
        #[command(flatten)]
        settings: LaneSettings,
    },
    /// Change a lane; what isn't named stays as it is.
    Set {
        /// Its name.
        name: String,
        #[command(flatten)]
        settings: LaneSettings,
    },
}

/// A lane's settings.
#[derive(Clone, Debug, Args)]
pub(crate) struct LaneSettings {
    /// Jobs at once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) capacity: Option<u32>,
    /// Price of a render, such as 0.04; `none` when it isn't to be tracked.
    #[arg(long, value_name = "AMOUNT", value_parser = micros)]
    pub(crate) price: Option<Limit>,
    /// Most that is spent on a UTC day, such as 25; `none` for no limit.
    #[arg(long, value_name = "AMOUNT", value_parser = micros)]
    pub(crate) budget: Option<Limit>,
    /// Starts a minute; `none` for no limit.
    #[arg(long, value_name = "N", value_parser = whole)]
    pub(crate) starts_per_minute: Option<Limit>,
    /// Aging: milliseconds that a step of priority counts for; `none` for none.
    #[arg(long, value_name = "MS", value_parser = whole)]
    pub(crate) boost_ms: Option<Limit>,
    /// Whether an outside dispatcher makes its claims.
    #[arg(long, value_name = "true|false")]
    pub(crate) outside: Option<bool>,
}

/// A number, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) Option<u64>);

fn whole(text: &str) -> Result<Limit, String> {
    if text == "none" {
        return Ok(Limit(None));
    }
    text.parse().map(|number| Limit(Some(number))).map_err(|_| "use a whole number, or none".to_owned())
}

/// An amount of money in millionths: at most six decimals, exactly.
fn micros(text: &str) -> Result<Limit, String> {
    if text == "none" {
        return Ok(Limit(None));
    }
    let bad = || "use an amount such as 0.04, with six decimals at most, or none".to_owned();
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || part.len() > 6 || !digits(whole) || !digits(part) {
        return Err(bad());
    }
    let whole: u64 = whole.parse().map_err(|_| bad())?;
    let part: u64 = format!("{part:0<6}").parse().map_err(|_| bad())?;
    whole
        .checked_mul(1_000_000)
        .and_then(|micros| micros.checked_add(part))
        .map(|it| Limit(Some(it)))
        .ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact() {
        for (text, micros_) in [("0.04", 40_000), ("25", 25_000_000), ("1.000001", 1_000_001), ("0", 0)] {
            assert_eq!(micros(text), Ok(Limit(Some(micros_))), "{text}");
        }
        assert_eq!(micros("none"), Ok(Limit(None)));
        for bad in ["", ".5", "1,5", "-1", "1.0000001", "1e3", "18446744073710"] {
            assert!(micros(bad).is_err(), "{bad}");
        }
    }
}
