//! Serves the queues of a file: `cargo run -p glassline-sqs --example serve -- queues.sqlite 127.0.0.1:4100`.

use std::path::PathBuf;

use glassline_sqs::{Engine, serve};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(address)) = (arguments.next(), arguments.next()) else {
        return Err("Give the file of the queues and the address to listen on.".into());
    };
    let engine = Engine::open(&PathBuf::from(path))?;
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    serve(listener, engine, async {
        // Without a signal handler the process just ends at the signal, and loses nothing by it.
        let _ = tokio::signal::ctrl_c().await;
    })
    .await?;
    Ok(())
}
