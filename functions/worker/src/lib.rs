//! The worker: submits claimed jobs to their provider, at most once per attempt, and watches what was accepted.
//!
//! It reads the render queue: handoffs (a claim to submit) and checks (a look at an attempt under way).

pub mod bootstrap;
mod check;
mod handoff;
mod resolve;

use glassline_protocol::message::Message;
use glassline_protocol::note::Note;
use glassline_protocol::ports::{Local, Queues, Store};
use glassline_protocol::provider::Provider;
use glassline_protocol::settings::Settings;
use glassline_protocol::settle::Fault;
use glassline_protocol::sign::Secrets;

/// What the worker needs of the world.
pub trait Ports: Store + Queues + Provider + Local {}
impl<T: Store + Queues + Provider + Local> Ports for T {}

/// Handles one message of the render queue.
///
/// # Errors
/// [`Fault`]: the message is given back to the queue, or it is poison.
pub async fn handle<P: Ports>(
    ports: &P,
    settings: &Settings,
    secrets: &Secrets,
    message: Message,
) -> Result<Note, Fault> {
    match message {
        Message::Handoff(handoff) => handoff::handle(ports, settings, secrets, handoff).await,
        Message::Check(check) => check::handle(ports, settings, check).await,
        Message::Finish(_) | Message::Rollback(_) | Message::Wake(_) | Message::Qa(_) => {
            Err(Fault::Poison("a message of another queue is on the render queue".into()))
        }
    }
}
