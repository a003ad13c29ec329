//! What is to happen at which port call: a fault, or a stop until the test lets it go on.

use glassline_protocol::ids::Ms;
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;

/// What goes wrong at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It never arrives; the caller can't tell.
    LostRequest,
    /// It is done; the caller can't tell.
    LostReply,
    /// The caller dies before it.
    CrashBefore,
    /// It is done, and the caller dies before it learns that.
    CrashAfter,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 4] = [Self::LostRequest, Self::LostReply, Self::CrashBefore, Self::CrashAfter];
}

/// Which calls are meant: all that match, but for the first `skip`, and at most `times` of them.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    function: Option<&'static str>,
    call: Option<&'static str>,
    skip: usize,
    times: usize,
}

impl Spot {
    /// The call with this number, from 0, whatever it is.
    #[must_use]
    pub fn number(number: usize) -> Self {
        Self { function: None, call: None, skip: number, times: 1 }
    }

    /// The first call of this name by this function.
    #[must_use]
    pub fn first(function: &'static str, call: &'static str) -> Self {
        Self { function: Some(function), call: Some(call), skip: 0, times: 1 }
    }

    /// Every call of this name by this function.
    #[must_use]
    pub fn every(function: &'static str, call: &'static str) -> Self {
        Self { times: usize::MAX, ..Self::first(function, call) }
    }

    /// The same, after so many that match have passed.
    #[must_use]
    pub fn skipping(self, skip: usize) -> Self {
        Self { skip, ..self }
    }

    /// The same, so many times.
    #[must_use]
    pub fn times(self, times: usize) -> Self {
        Self { times, ..self }
    }
}

/// Where a caller stops and waits until the test lets it go on.
#[derive(Clone, Debug)]
pub struct Gate {
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Self {
        Self { reached: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) }
    }

    /// Ends when a caller stands at the gate.
    pub async fn reached(&self) {
        self.reached.acquire().await.unwrap().forget();
    }

    /// Lets it go on.
    pub fn open(&self) {
        self.open.add_permits(1);
    }

    async fn stop(&self) {
        self.reached.add_permits(1);
        self.open.acquire().await.unwrap().forget();
    }

    /// Runs `main` until it stands at the gate, then `meanwhile` alone, then `main` to its end. `None` in the second
    /// place when `main` ended without coming to the gate.
    pub async fn interrupt<T, U>(
        &self,
        main: impl Future<Output = T>,
        meanwhile: impl Future<Output = U>,
    ) -> (T, Option<U>) {
        // On the heap, as the stack of a test's thread is small.
        let (mut main, meanwhile) = (Box::pin(main), Box::pin(meanwhile));
        tokio::select! {
            biased;
            done = &mut main => return (done, None),
            () = self.reached() => {}
        }
        let between = meanwhile.await;
        self.open();
        (main.await, Some(between))
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Act {
    Fault(Fault),
    StopBefore(Gate),
    StopAfter(Gate),
}

#[derive(Debug)]
struct Rule {
    spot: Spot,
    act: Act,
    seen: usize,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    fired: Vec<&'static str>,
    log: Vec<&'static str>,
    arrivals: BTreeSet<Ms>,
}

/// Sees every port call of the handlers that it is given to, and says at which one what happens.
#[derive(Debug, Default)]
pub struct Plan {
    state: Mutex<State>,
}

impl Plan {
    /// Nothing goes wrong.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    fn with(self, spot: Spot, act: Act) -> Self {
        self.state.lock().unwrap().rules.push(Rule { spot, act, seen: 0 });
        self
    }

    /// `fault` at these calls.
    #[must_use]
    pub fn fault(spot: Spot, fault: Fault) -> Self {
        Self::none().and_fault(spot, fault)
    }

    /// And `fault` at these.
    #[must_use]
    pub fn and_fault(self, spot: Spot, fault: Fault) -> Self {
        self.with(spot, Act::Fault(fault))
    }

    /// A caller stops before this call.
    #[must_use]
    pub fn stop_before(spot: Spot) -> (Self, Gate) {
        let gate = Gate::new();
        (Self::none().with(spot, Act::StopBefore(gate.clone())), gate)
    }

    /// A caller stops after this call was done, before it learns of it.
    #[must_use]
    pub fn stop_after(spot: Spot) -> (Self, Gate) {
        let gate = Gate::new();
        (Self::none().with(spot, Act::StopAfter(gate.clone())), gate)
    }

    /// The name of the first call at which something was done, if any was.
    pub fn fired(&self) -> Option<&'static str> {
        self.state.lock().unwrap().fired.first().copied()
    }

    /// How often something was done.
    pub fn times(&self) -> usize {
        self.state.lock().unwrap().fired.len()
    }

    /// The calls so far, by name.
    pub fn log(&self) -> Vec<&'static str> {
        self.state.lock().unwrap().log.clone()
    }

    /// A delayed message was sent: a driver that knows this needn't look every second.
    pub(crate) fn will_arrive(&self, now_ms: Ms, delay_ms: u64) {
        if delay_ms > 0 {
            // Queues count whole seconds, rounded up, and at most 900.
            let delay_ms = delay_ms.div_ceil(1_000).min(900) * 1_000;
            self.state.lock().unwrap().arrivals.insert(now_ms + delay_ms);
        }
    }

    /// When the next delayed message that is known of arrives.
    pub(crate) fn next_arrival_ms(&self, now_ms: Ms) -> Option<Ms> {
        let arrivals = &mut self.state.lock().unwrap().arrivals;
        *arrivals = arrivals.split_off(&(now_ms + 1));
        arrivals.first().copied()
    }

    pub(crate) fn next(&self, function: &'static str, call: &'static str) -> Option<Act> {
        let state = &mut *self.state.lock().unwrap();
        state.log.push(call);
        let mut found = None;
        for rule in &mut state.rules {
            let Spot { function: of, call: named, skip, times } = rule.spot;
            if of.is_some_and(|of| of != function) || named.is_some_and(|named| named != call) {
                continue;
            }
            let number = rule.seen;
            rule.seen += 1;
            if found.is_none() && number >= skip && number - skip < times {
                found = Some(rule.act.clone());
            }
        }
        if found.is_some() {
            state.fired.push(call);
        }
        found
    }
}

impl Act {
    /// Makes a call as told. `None`: the caller dies here.
    pub(crate) async fn make<T>(
        self,
        unknown: impl FnOnce() -> T,
        call: impl Future<Output = T>,
    ) -> Option<T> {
        match self {
            Self::Fault(Fault::LostRequest) => Some(unknown()),
            Self::Fault(Fault::LostReply) => {
                call.await;
                Some(unknown())
            }
            Self::Fault(Fault::CrashBefore) => None,
            Self::Fault(Fault::CrashAfter) => {
                call.await;
                None
            }
            Self::StopBefore(gate) => {
                gate.stop().await;
                Some(call.await)
            }
            Self::StopAfter(gate) => {
                let done = call.await;
                gate.stop().await;
                Some(done)
            }
        }
    }
}
