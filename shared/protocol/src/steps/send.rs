//! Sending messages from a handler.

use crate::message::{FreedSlot, Message, Wake};
use crate::ports::{Envelope, Queues, Sent};
use crate::row::JobRow;
use crate::settle::Fault;

/// Sends one message that must arrive: an unknown answer is repeated (every receiver of ours takes duplicates).
///
/// # Errors
/// [`Fault::RetryAfter`] when no send was answered with success.
pub async fn send_one<Q: Queues>(
    queues: &Q,
    repeats: u32,
    message: Message,
    delay_ms: u64,
) -> Result<(), Fault> {
    let what = message.queue().name();
    for _ in 0..=repeats {
        let sent = queues.send(vec![Envelope { message: message.clone(), delay_ms }]).await;
        if sent.first() == Some(&Sent::Accepted) {
            return Ok(());
        }
    }
    Err(Fault::retry(format!("a message to the queue {what} was not taken")))
}

/// Sends several messages once; answers in order, a missing answer counting as unknown.
pub async fn send_all<Q: Queues>(queues: &Q, envelopes: Vec<Envelope>) -> Vec<Sent> {
    let count = envelopes.len();
    let mut sent = if count == 0 { Vec::new() } else { queues.send(envelopes).await };
    sent.resize(count, Sent::Unknown);
    sent
}

/// Tells dispatch that the job's slot is free. Sent once: a lost wake costs at most the time to the next full tick.
/// `before` is the row while it still filled the slot.
pub async fn wake<Q: Queues>(queues: &Q, before: &JobRow) {
    let (Some(slot), Some(token)) = (before.slot, before.token.clone()) else { return };
    let wake = Wake { lane: before.lane.clone(), freed: Some(FreedSlot { slot, token }) };
    let _: Vec<Sent> = queues.send(vec![Envelope { message: Message::Wake(wake), delay_ms: 0 }]).await;
}
