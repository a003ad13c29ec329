//! Replaying an invocation of a deployed handler: from its start through everything that its ports answered so far, to
//! its next call or its end. The future itself can't be kept in a state; what it was told can.

use crate::config::Config;
use crate::handlers::handler;
use crate::ports::{Call, Op, Ports, Recorder};
use crate::state::{Entry, Inv, Kind, Reply, T};
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

/// How an invocation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Its message is acknowledged; what it came to.
    Done(String),
    /// Its message is given back, and why.
    GivenBack(String),
}

/// Fresh tokens and runs handed out, and what a random number is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fresh {
    pub(crate) tokens: u8,
    pub(crate) runs: u8,
    pub(crate) random: u8,
}

fn answered(log: &[Entry]) -> u128 {
    log.iter().fold(0, |bits, entry| match entry {
        Entry::Done(id, _) => bits | 1 << id,
        Entry::Token(_) | Entry::Run(_) | Entry::Random(_) | Entry::Clock(_) => bits,
    })
}

fn behind(log: &[Entry]) -> T {
    log.iter().map(|entry| if let Entry::Clock(by) = entry { *by } else { 0 }).sum()
}

impl Recorder {
    /// Puts the next recorded answer in place; `false`: there is none left.
    fn release(&mut self) -> bool {
        while let Some(entry) = self.log.get(self.at) {
            match entry {
                Entry::Clock(by) => {
                    self.now += by;
                    self.at += 1;
                }
                Entry::Done(id, reply) => {
                    let (id, reply) = (usize::from(*id), reply.clone());
                    self.at += 1;
                    self.answer(id, reply);
                    return true;
                }
                Entry::Token(_) | Entry::Run(_) | Entry::Random(_) => {
                    panic!("a handler took another way in its replay")
                }
            }
        }
        false
    }

    fn answer(&mut self, id: usize, reply: Reply) {
        let call = &mut self.calls[id];
        call.reply = Some(reply);
        call.done = true;
        if let Some(waker) = call.waker.take() {
            waker.wake();
        }
    }
}

fn wants(calls: &[Call]) -> Vec<(u8, Kind)> {
    let open = calls.iter().enumerate().filter(|(_, call)| !call.done);
    open.filter_map(|(id, call)| Some((crate::codec::small(id), call.op.as_ref()?.kind()))).collect()
}

/// Replays `inv`; at the end of what is recorded, answers the call `id` with what `answer` makes of it, and goes on to
/// the next wait. `None`: it waits (and `inv` says for what). `answer` returning `None` leaves the call unanswered.
pub(crate) fn replay(
    config: &Config,
    inv: &mut Inv,
    fresh: &mut Fresh,
    id: Option<u8>,
    mut answer: impl FnMut(&Op) -> Option<Reply>,
) -> Option<End> {
    crate::mutants::switch(config.mutant);
    let log = std::mem::take(&mut inv.log);
    let recorder = Recorder {
        at: 0,
        now: -behind(&log),
        calls: Vec::with_capacity(24),
        answered: answered(&log),
        log,
        tokens: fresh.tokens,
        runs: fresh.runs,
        random: fresh.random,
    };
    let ports = Ports { config, recorder: Mutex::new(recorder) };
    let mut id = id;
    let end = {
        let mut handled = handler(&ports, config, inv.who, inv.msg.as_ref());
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(end) = handled.as_mut().poll(&mut context) {
                break Some(end);
            }
            if ports.lock().release() {
                continue;
            }
            let Some(call) = id.take() else { break None };
            let op = ports.lock().calls[usize::from(call)].op.clone().expect("a call that is waited for");
            let Some(reply) = answer(&op) else { break None };
            let mut recorder = ports.lock();
            recorder.log.push(Entry::Done(call, reply.clone()));
            recorder.at += 1;
            recorder.answer(usize::from(call), reply);
        }
    };
    let recorder = ports.recorder.into_inner().unwrap();
    (fresh.tokens, fresh.runs) = (recorder.tokens, recorder.runs);
    inv.wants = wants(&recorder.calls);
    inv.log = recorder.log;
    end
}
