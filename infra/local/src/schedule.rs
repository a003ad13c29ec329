//! A stand-in for EventBridge Scheduler: a function invoked at a fixed rate, asynchronously as the Scheduler does it:
//! the next firing doesn't wait for the last, throttled invocations are tried again, failed ones twice more
//! (<https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html>).

use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

use crate::draw;
use crate::lambda::{Host, InvokeError, ids};

/// The longest pause between two tries of a throttled invocation: 5 minutes.
const MAX_THROTTLE_PAUSE_MS: u64 = 300_000;

/// A fixed rate, written `rate(5 minutes)`; hours, days, and for local use seconds, are other units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// From one firing to the next, at least 1.
    pub every_ms: u64,
}

/// The text isn't a rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a rate: write rate(N unit), N at least 1, unit second(s), minute(s), hour(s) or day(s)"
)]
pub struct NotARate {
    /// The text as given.
    pub text: String,
}

impl FromStr for Rate {
    type Err = NotARate;

    fn from_str(text: &str) -> Result<Self, NotARate> {
        let every_ms = || {
            let inner = text.trim().strip_prefix("rate(")?.strip_suffix(')')?;
            let mut words = inner.split_whitespace();
            let (count, unit, None) = (words.next()?, words.next()?, words.next()) else { return None };
            let unit_ms: u64 = match unit.strip_suffix('s').unwrap_or(unit) {
                "second" => 1_000,
                "minute" => 60_000,
                "hour" => 3_600_000,
                "day" => 86_400_000,
                _ => return None,
            };
            let count = count.parse::<u64>().ok().filter(|count| *count > 0)?;
            count.checked_mul(unit_ms)
        };
        every_ms().map(|every_ms| Self { every_ms }).ok_or_else(|| NotARate { text: text.to_owned() })
    }
}

/// What is invoked, how often, with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleSpec {
    /// The schedule's name, part of its ARN.
    pub name: String,
    /// The function.
    pub function: String,
    /// How often. The first firing comes after this time, as the Scheduler does it.
    pub rate: Rate,
    /// The payload, JSON. `<aws.scheduler.scheduled-time>`, `<aws.scheduler.execution-id>`,
    /// `<aws.scheduler.attempt-number>` and `<aws.scheduler.schedule-arn>` are replaced in it
    /// (<https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-schedule-context-attributes.html>).
    pub input: String,
    /// Tries after the first when the function fails; Lambda's default is 2.
    pub retries: u32,
    /// The pause before the first of them, doubled for each further one; Lambda's is a minute.
    pub retry_ms: u64,
}

/// What a schedule did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ScheduleCounts {
    /// Firings, by the clock and by hand.
    pub fired: u64,
    /// Firings that were delivered twice.
    pub duplicated: u64,
    /// Deliveries that ended well.
    pub succeeded: u64,
    /// Invocations that failed, each try counted.
    pub failed: u64,
    /// Invocations that were throttled.
    pub throttled: u64,
    /// Deliveries given up.
    pub given_up: u64,
    /// Deliveries under way now.
    pub running: u64,
}

/// A running schedule. Dropping it stops it without waiting.
#[derive(Debug)]
pub struct Schedule {
    shared: Arc<Shared>,
    clock: JoinHandle<()>,
}

impl Drop for Schedule {
    fn drop(&mut self) {
        self.clock.abort();
        self.shared.stop.send_replace(true);
    }
}

#[derive(Debug)]
struct Shared {
    host: Host,
    spec: ScheduleSpec,
    stop: watch::Sender<bool>,
    running: watch::Sender<u64>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    counts: ScheduleCounts,
    duplicate_percent: u8,
    seed: u64,
}

/// How a delivery ended: the function's answer, or the error it was given up with.
pub type Delivery = Result<Vec<u8>, InvokeError>;

impl Schedule {
    /// Starts a schedule; must be called in a tokio runtime.
    pub fn spawn(host: Host, spec: ScheduleSpec) -> Self {
        let every = Duration::from_millis(spec.rate.every_ms.max(1));
        let shared = Arc::new(Shared {
            host,
            spec,
            stop: watch::Sender::new(false),
            running: watch::Sender::new(0),
            state: Mutex::default(),
        });
        let firing = Arc::clone(&shared);
        let clock = tokio::spawn(async move {
            let mut ticks = interval_at(Instant::now() + every, every);
            // A machine that slept doesn't fire what it missed.
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                ticks.tick().await;
                drop(firing.fire());
            }
        });
        Self { shared, clock }
    }

    /// Fires now, beside the clock, and waits until every delivery of it has ended: one, or two when the firing is
    /// duplicated. None after [`stop`](Self::stop).
    pub async fn trigger(&self) -> Vec<Delivery> {
        let mut ended = Vec::new();
        for delivery in self.shared.fire() {
            if let Ok(Some(delivery)) = delivery.await {
                ended.push(delivery);
            }
        }
        ended
    }

    /// Delivers this share of the firings twice, 0 to 100 percent, drawn from the seed: the Scheduler promises at
    /// least once.
    pub fn set_duplicates(&self, percent: u8, seed: u64) {
        let mut state = self.shared.state();
        (state.duplicate_percent, state.seed) = (percent, seed);
    }

    /// What it did so far.
    pub fn counts(&self) -> ScheduleCounts {
        let running = *self.shared.running.borrow();
        ScheduleCounts { running, ..self.shared.state().counts }
    }

    /// Fires no more, drops what waits for another try, and waits at most `within_ms` for running invocations. Returns
    /// whether all have ended.
    pub async fn stop(&self, within_ms: u64) -> bool {
        self.clock.abort();
        self.shared.stop.send_replace(true);
        let mut running = self.shared.running.subscribe();
        let ended = running.wait_for(|running| *running == 0);
        timeout(Duration::from_millis(within_ms), ended).await.is_ok()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is one step, so a panicking holder leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the deliveries of one firing.
    fn fire(self: &Arc<Self>) -> Vec<JoinHandle<Option<Delivery>>> {
        if *self.stop.borrow() {
            return Vec::new();
        }
        let deliveries = {
            let mut state = self.state();
            let drawn = draw::number(state.seed, 0, state.counts.fired);
            let twice = draw::is_among(drawn, state.duplicate_percent);
            state.counts.fired += 1;
            state.counts.duplicated += u64::from(twice);
            if twice { 2 } else { 1 }
        };
        // Both deliveries of a duplicate carry the same execution id: it is one execution, delivered twice.
        let execution = Execution { id: ids::uuid(), scheduled: jiff::Timestamp::now() };
        (0..deliveries)
            .map(|_| {
                self.running.send_modify(|running| *running += 1);
                let (shared, execution) = (Arc::clone(self), execution.clone());
                tokio::spawn(async move {
                    let ended = shared.deliver(&execution).await;
                    shared.running.send_modify(|running| *running = running.saturating_sub(1));
                    ended
                })
            })
            .collect()
    }

    /// One delivery with its tries; `None` when it was dropped by `stop` before it ended.
    async fn deliver(&self, execution: &Execution) -> Option<Delivery> {
        let (mut failures, mut throttles) = (0_u32, 0_u32);
        loop {
            let payload = self.payload(execution, failures + 1).into_bytes();
            let error = match self.host.invoke(&self.spec.function, payload, None).await {
                Ok(answer) => {
                    self.state().counts.succeeded += 1;
                    return Some(Ok(answer));
                }
                Err(error) => error,
            };
            let pause_ms = self.after(&error, &mut failures, &mut throttles);
            let Some(pause_ms) = pause_ms else {
                self.state().counts.given_up += 1;
                tracing::warn!(function = %self.spec.function, error_type = error.error_type(),
                    "a scheduled invocation was given up");
                return Some(Err(error));
            };
            let mut stop = self.stop.subscribe();
            tokio::select! {
                () = sleep(Duration::from_millis(pause_ms)) => {}
                _ = stop.wait_for(|stop| *stop) => return None,
            }
        }
    }

    /// How long to wait before the next try, in milliseconds; `None`: there is none.
    fn after(&self, error: &InvokeError, failures: &mut u32, throttles: &mut u32) -> Option<u64> {
        match error {
            InvokeError::Throttled { .. } => {
                self.state().counts.throttled += 1;
                let pause_ms = 1_000_u64.saturating_mul(1 << (*throttles).min(16));
                *throttles = throttles.saturating_add(1);
                Some(pause_ms.min(MAX_THROTTLE_PAUSE_MS))
            }
            InvokeError::Timeout { .. }
            | InvokeError::Function { .. }
            | InvokeError::Exited { .. }
            | InvokeError::InitFailed { .. } => {
                self.state().counts.failed += 1;
                *failures = failures.saturating_add(1);
                let pause_ms = self.spec.retry_ms.saturating_mul(1 << (*failures - 1).min(32));
                (*failures <= self.spec.retries).then_some(pause_ms)
            }
            InvokeError::UnknownFunction { .. } | InvokeError::Payload { .. } | InvokeError::ShuttingDown => {
                self.state().counts.failed += 1;
                None
            }
        }
    }

    fn payload(&self, execution: &Execution, attempt: u32) -> String {
        let options = self.host.options();
        let arn = format!(
            "arn:aws:scheduler:{}:{}:schedule/default/{}",
            options.region, options.account, self.spec.name
        );
        self.spec
            .input
            .replace(
                "<aws.scheduler.scheduled-time>",
                &execution.scheduled.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            )
            .replace("<aws.scheduler.execution-id>", &execution.id)
            .replace("<aws.scheduler.attempt-number>", &attempt.to_string())
            .replace("<aws.scheduler.schedule-arn>", &arn)
    }
}

#[derive(Debug, Clone)]
struct Execution {
    id: String,
    scheduled: jiff::Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_the_scheduler_reads_them() {
        let rates = [
            ("rate(1 minute)", 60_000),
            ("rate(5 minutes)", 300_000),
            (" rate( 2  hours ) ", 7_200_000),
            ("rate(1 day)", 86_400_000),
            ("rate(3 seconds)", 3_000),
        ];
        for (text, every_ms) in rates {
            assert_eq!(text.parse(), Ok(Rate { every_ms }), "{text}");
        }
        let refused = [
            "",
            "rate()",
            "rate(0 minutes)",
            "rate(-1 minutes)",
            "rate(1.5 hours)",
            "rate(1 week)",
            "rate(1 minute",
        ];
        let worse = ["cron(0 * * * ? *)", "rate(1 minute 2)", "rate(1)", "rate(99999999999999999999 days)"];
        for text in refused.into_iter().chain(worse).chain(["rate(9999999999999999 days)"]) {
            assert_eq!(text.parse::<Rate>(), Err(NotARate { text: text.to_owned() }));
        }
    }
}
