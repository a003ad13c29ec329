//! `glassline-sandbox`: the sandbox as a process of its own.

use clap::Parser;
use glassline_sandbox::{Sandbox, SandboxConfig};
use std::path::PathBuf;
use std::process::ExitCode;

/// A render provider with books of its own and faults on demand.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The port on 127.0.0.1; 0 picks a free one. Wins over the file's.
    #[arg(long)]
    port: Option<u16>,
    /// The configuration (JSON); without it: one account `sandbox` with the key `sandbox-key`.
    #[arg(long, value_name = "FILE.json")]
    config: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("glassline-sandbox: {problem}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), String> {
    let mut config = match &arguments.config {
        None => SandboxConfig::default(),
        Some(path) => {
            let text =
                std::fs::read(path).map_err(|fault| format!("can't read {}: {fault}", path.display()))?;
            serde_json::from_slice(&text).map_err(|fault| {
                let (line, column) = (fault.line(), fault.column());
                format!("{} can't be used at line {line}, column {column}: check its fields", path.display())
            })?
        }
    };
    config.port = arguments.port.unwrap_or(config.port);
    let sandbox = Sandbox::start(config).await.map_err(|fault| fault.to_string())?;
    println!("{}", sandbox.url());
    ended().await.map_err(|fault| format!("can't wait for a signal: {fault}"))
}

/// Waits for Ctrl-C or SIGTERM.
async fn ended() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = signal(SignalKind::terminate())?;
    tokio::select! {
        done = tokio::signal::ctrl_c() => done,
        _ = term.recv() => Ok(()),
    }
}
