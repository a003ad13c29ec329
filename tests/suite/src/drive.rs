//! Driving the handlers: deliver what the queues hold, tick the lanes, move the clock.

use crate::faulty::Faulty;
use crate::plan::Plan;
use crate::world::{Ports, World};
use glassline_dispatch::{Look, Ticked, answer, looks, tick, tick_all};
use glassline_protocol::ids::{LaneName, Ms};
use glassline_protocol::message::Message;
use glassline_protocol::note::Note;
use glassline_protocol::ports::Store as _;
use glassline_protocol::row::Status;
use glassline_protocol::settle::Fault as HandlerFault;

/// A minute.
pub const MINUTE_MS: u64 = 60_000;

/// The queues in the order in which a step delivers them.
const QUEUES: [&str; 6] = ["render", "finish", "rollback", "wake", "render-dlq", "finish-dlq"];

/// What driving a world did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Driven {
    /// Notes of handled messages, in order.
    pub notes: Vec<String>,
    /// Messages given back.
    pub given_back: usize,
    /// Handlers that died.
    pub crashes: usize,
}

impl Driven {
    /// How often a message came to this.
    #[must_use]
    pub fn count(&self, note: Note) -> usize {
        self.notes.iter().filter(|noted| *noted == note.word()).count()
    }
}

type Handled = Option<Result<String, HandlerFault>>;

impl World {
    /// Handles one message as its queue's function would. `None`: the handler died.
    pub async fn handle(&self, plan: &Plan, message: Message) -> Handled {
        let (settings, secrets) = (&self.settings, &self.secrets);
        let note = match message {
            Message::Handoff(_) | Message::Check(_) => {
                let ports = Faulty::new(&self.ports, plan, "worker");
                ports.run(Box::pin(glassline_worker::handle(&ports, settings, secrets, message))).await
            }
            Message::Finish(_) => {
                let ports = Faulty::new(&self.ports, plan, "finisher");
                ports.run(Box::pin(glassline_finisher::handle(&ports, settings, message))).await
            }
            Message::Rollback(_) => return self.handle_dead(plan, message).await,
            Message::Wake(_) => {
                let ports = Faulty::new(&self.ports, plan, "dispatch");
                return ports.run(Box::pin(self.wake(&ports, message))).await;
            }
            Message::Qa(_) => panic!("nobody here reads the QA queue"),
        };
        Some(note?.map(|note| note.word().to_owned()))
    }

    async fn wake(&self, ports: &Faulty<'_, Ports>, wake: Message) -> Result<String, HandlerFault> {
        for (lane, look) in looks(vec![wake]) {
            answer(ports, &self.settings, &self.secrets, &lane, look, Ms::MAX).await?;
        }
        Ok("woken".into())
    }

    /// Handles a message from the rollback queue or a dead-letter queue. `None`: the handler died.
    pub async fn handle_dead(&self, plan: &Plan, message: Message) -> Handled {
        let ports = Faulty::new(&self.ports, plan, "rollback");
        let handled =
            ports.run(Box::pin(glassline_rollback::handle(&ports, &self.settings, message))).await?;
        Some(handled.map(|note| note.word().to_owned()))
    }

    /// A full tick of every lane, as the schedule makes it.
    pub async fn tick(&self, plan: &Plan) {
        let ports = Faulty::new(&self.ports, plan, "dispatch");
        ports
            .run(Box::pin(async {
                let _ = tick_all(&ports, &self.settings, &self.secrets, Ms::MAX).await;
            }))
            .await;
    }

    /// A full tick of one lane. `None`: the dispatcher died.
    pub async fn tick_lane_with(&self, plan: &Plan, lane: &LaneName) -> Option<Ticked> {
        let ports = Faulty::new(&self.ports, plan, "dispatch");
        let ticked = tick(&ports, &self.settings, &self.secrets, lane, Look::Full, Ms::MAX);
        ports.run(Box::pin(ticked)).await.map(Result::unwrap)
    }

    /// A full tick of one lane, without faults.
    pub async fn tick_lane(&self, lane: &LaneName) -> Ticked {
        self.tick_lane_with(&Plan::none(), lane).await.unwrap()
    }

    /// Delivers every visible message of every queue once; `copies` times each, as SQS may.
    pub async fn deliver(&self, plan: &Plan, copies: usize, driven: &mut Driven) -> bool {
        let mut any = false;
        for queue in QUEUES {
            any |= self.deliver_from(queue, plan, copies, driven).await;
        }
        any
    }

    /// Delivers up to ten visible messages of a queue.
    pub async fn deliver_from(&self, queue: &str, plan: &Plan, copies: usize, driven: &mut Driven) -> bool {
        let received = self.engine.receive(queue, 10, 0, Some(1_000)).await.unwrap();
        let any = !received.is_empty();
        for received in received {
            let Ok(message) = Message::from_body(&received.body) else {
                driven.given_back += 1;
                continue;
            };
            self.delivered.lock().unwrap().push(message.clone());
            let mut handled = true;
            for _ in 0..copies {
                let outcome = if queue.ends_with("-dlq") {
                    Box::pin(self.handle_dead(plan, message.clone())).await
                } else {
                    Box::pin(self.handle(plan, message.clone())).await
                };
                handled &= driven.enter(outcome);
            }
            if handled {
                self.engine.delete(queue, &[received.receipt]).await.unwrap();
            }
        }
        any
    }

    /// Delivers, ticks and moves the clock until `done` or for `limit_ms`. Ticks once a minute.
    pub async fn drive_until(
        &self,
        plan: &Plan,
        copies: usize,
        limit_ms: u64,
        done: impl AsyncFn(&World) -> bool,
    ) -> Driven {
        let mut driven = Driven::default();
        let end_ms = self.now_ms() + limit_ms;
        let mut next_tick_ms = self.now_ms();
        while self.now_ms() < end_ms {
            let mut any = false;
            if self.now_ms() >= next_tick_ms {
                Box::pin(self.tick(plan)).await;
                next_tick_ms = self.now_ms() + MINUTE_MS;
                any = true;
            }
            while Box::pin(self.deliver(plan, copies, &mut driven)).await {
                any = true;
            }
            if any && done(self).await {
                break;
            }
            self.clock.manual.advance(self.step_ms(plan, next_tick_ms).await);
        }
        driven
    }

    /// How far to the next thing that can happen.
    async fn step_ms(&self, plan: &Plan, next_tick_ms: Ms) -> u64 {
        let now_ms = self.now_ms();
        let to_tick_ms = next_tick_ms.saturating_sub(now_ms).max(1);
        let mut delayed = false;
        for queue in QUEUES {
            let depth = self.engine.depth(queue).await.unwrap();
            if depth.visible + depth.in_flight > 0 {
                // A message given back is visible again after a second.
                return to_tick_ms.min(1_000);
            }
            delayed |= depth.delayed > 0;
        }
        match plan.next_arrival_ms(now_ms) {
            Some(arrival_ms) => to_tick_ms.min(arrival_ms - now_ms),
            None if delayed => to_tick_ms.min(1_000),
            None => to_tick_ms,
        }
    }

    /// Drives until every job of these posts has ended or is held, for at most `limit_ms`.
    pub async fn drive(&self, plan: &Plan, copies: usize, limit_ms: u64, posts: &[&str]) -> Driven {
        let quiet = async |world: &World| world.quiet(posts).await;
        Box::pin(self.drive_until(plan, copies, limit_ms, quiet)).await
    }

    /// Drives until every job of these posts has ended, for at most `limit_ms`.
    pub async fn drive_to_end(&self, plan: &Plan, limit_ms: u64, posts: &[&str]) -> Driven {
        let ended = async |world: &World| {
            for id in posts {
                if world.jobs(id).await.iter().any(|job| !job.status.ended()) {
                    return false;
                }
            }
            true
        };
        Box::pin(self.drive_until(plan, 1, limit_ms, ended)).await
    }

    /// Drives on for `for_ms`, whatever the jobs do: what is late comes, too.
    pub async fn drive_on(&self, plan: &Plan, for_ms: u64) -> Driven {
        Box::pin(self.drive_until(plan, 1, for_ms, async |_: &World| false)).await
    }

    /// Three times every lease and slow check runs out and whatever that brings is delivered.
    pub async fn drive_late(&self) -> Driven {
        let mut driven = Driven::default();
        for _ in 0..3 {
            self.clock.manual.advance(16 * MINUTE_MS);
            self.tick(&Plan::none()).await;
            while self.deliver(&Plan::none(), 1, &mut driven).await {}
        }
        driven
    }

    /// Whether every job of these posts has ended, or is held.
    pub async fn quiet(&self, posts: &[&str]) -> bool {
        for id in posts {
            for job in self.jobs(id).await {
                match job.status {
                    Status::Ready | Status::Claimed | Status::Rendering => return false,
                    Status::Held | Status::Succeeded | Status::Failed | Status::Cancelled => {}
                }
            }
        }
        true
    }

    /// The lanes' names.
    pub async fn lane_names(&self) -> Vec<LaneName> {
        self.look.lanes().await.unwrap().into_iter().map(|lane| lane.key).collect()
    }
}

impl Driven {
    /// Enters what became of a message; whether it was handled.
    fn enter(&mut self, handled: Handled) -> bool {
        match handled {
            Some(Ok(note)) => {
                self.notes.push(note);
                true
            }
            Some(Err(_)) => {
                self.given_back += 1;
                false
            }
            None => {
                self.crashes += 1;
                false
            }
        }
    }
}
