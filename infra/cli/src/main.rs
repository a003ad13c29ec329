//! The glassline command.

#[macro_use]
mod output;
mod args;
mod audit;
mod client;
mod connect;
mod demo;
mod episodes;
mod failure;
mod functions;
mod ledger;
mod local;
mod look;
mod ops;
mod ops_args;
mod stack;
mod submit;

use args::{Cli, Command};
use clap::Parser as _;
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    // A function makes its own runtime, and its errors are its own.
    if let Command::Function { name } = &cli.command {
        return functions::run(name);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(&Failure::new(format!("no runtime can be started: {error}"))),
    };
    match runtime.block_on(Box::pin(run(cli))) {
        Ok(code) => code,
        Err(failure) => report(&failure),
    }
}

fn report(failure: &Failure) -> ExitCode {
    eprintln!("glassline: {failure}");
    ExitCode::FAILURE
}

async fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let options = cli.options;
    if let Some(misfit) = options.misfit(&cli.command) {
        return Err(Failure::new(misfit));
    }
    match cli.command {
        Command::Demo => demo::run(&options).await,
        Command::Local { lanes, tick_seconds, port } => {
            local::run(&options, lanes.as_deref(), tick_seconds, port).await
        }
        Command::Submit { file, wait } => submit::run(&options, &file, wait).await,
        Command::Ls { limit } => look::posts(&options, limit).await,
        Command::Show { key } => look::show(&options, &key).await,
        Command::Lanes { change: Some(change) } => Box::pin(ops::lanes(&options, change)).await,
        Command::Lanes { change: None } if options.url.is_some() => Box::pin(ops::list_lanes(&options)).await,
        Command::Lanes { change: None } => look::lanes(&options).await,
        Command::Ops(what) => Box::pin(ops::run(&options, what)).await,
        Command::Series { add } => episodes::series(&options, add).await,
        Command::Episodes { series, limit } => episodes::list(&options, series.as_deref(), limit).await,
        Command::Reopen { episode } => episodes::reopen_one(&options, &episode).await,
        Command::Ledger { lane, since } => ledger::run(&options, lane.as_deref(), since.as_deref()).await,
        Command::Audit { deep, repair } => audit::run(&options, deep, repair).await,
        Command::Queues => look::queues(&options).await,
        Command::Function { name } => Ok(functions::run(&name)),
    }
}
