//! Driving the handlers: deliver what the queues hold, tick the lanes, move the clock.

use crate::faulty::{Faulty, Plan};
use crate::world::World;
use glassline_dispatch::{Look, looks, tick};
use glassline_protocol::ids::{LaneName, Ms};
use glassline_protocol::message::Message;
use glassline_protocol::ports::{Local as _, Store as _};
use glassline_protocol::settle::Fault as HandlerFault;

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

impl World {
    /// Handles one message as its queue's function would. `None`: the handler died.
    pub async fn handle(&self, plan: &Plan, message: Message) -> Option<Result<String, HandlerFault>> {
        let ports = &Faulty { inner: &self.ports, plan };
        let (settings, secrets) = (&self.settings, &self.secrets);
        let word = |note: glassline_protocol::note::Note| note.word().to_owned();
        plan.run(async {
            match message {
                Message::Handoff(_) | Message::Check(_) => {
                    glassline_worker::handle(ports, settings, secrets, message).await.map(word)
                }
                Message::Finish(_) => glassline_finisher::handle(ports, settings, message).await.map(word),
                Message::Rollback(_) => glassline_rollback::handle(ports, settings, message).await.map(word),
                Message::Wake(_) => self.wake(ports, message).await,
                Message::Qa(_) => panic!("nobody here reads the QA queue"),
            }
        })
        .await
    }

    async fn wake(&self, ports: &Faulty<'_, crate::Ports>, wake: Message) -> Result<String, HandlerFault> {
        for (lane, look) in looks(vec![wake]) {
            tick(ports, &self.settings, &self.secrets, &lane, look, Ms::MAX).await?;
        }
        Ok("woken".into())
    }

    /// Handles a message from a dead-letter queue. `None`: the handler died.
    async fn handle_dead(&self, plan: &Plan, message: Message) -> Option<Result<String, HandlerFault>> {
        let ports = &Faulty { inner: &self.ports, plan };
        let handled = plan.run(glassline_rollback::handle(ports, &self.settings, message)).await?;
        Some(handled.map(|note| note.word().to_owned()))
    }

    /// A full tick of every lane, as the schedule makes it.
    pub async fn tick(&self, plan: &Plan) {
        let ports = &Faulty { inner: &self.ports, plan };
        let until = Ms::MAX;
        plan.run(async {
            let _ = glassline_dispatch::tick_all(ports, &self.settings, &self.secrets, until).await;
        })
        .await;
    }

    /// A full tick of one lane, without faults.
    pub async fn tick_lane(&self, lane: &LaneName) -> glassline_dispatch::Ticked {
        tick(&self.ports, &self.settings, &self.secrets, lane, Look::Full, Ms::MAX).await.unwrap()
    }

    /// Delivers every visible message of every queue once; `copies` times each, as SQS may.
    pub async fn deliver(&self, plan: &Plan, copies: usize, driven: &mut Driven) -> bool {
        let mut any = false;
        for queue in QUEUES {
            for received in self.engine.receive(queue, 10, 0, Some(1_000)).await.unwrap() {
                any = true;
                let Ok(message) = Message::from_body(&received.body) else {
                    driven.given_back += 1;
                    continue;
                };
                let mut handled = true;
                for _ in 0..copies {
                    let dead = queue.ends_with("-dlq");
                    let outcome = if dead {
                        self.handle_dead(plan, message.clone()).await
                    } else {
                        self.handle(plan, message.clone()).await
                    };
                    match outcome {
                        Some(Ok(note)) => driven.notes.push(note),
                        Some(Err(_)) => {
                            driven.given_back += 1;
                            handled = false;
                        }
                        None => {
                            driven.crashes += 1;
                            handled = false;
                        }
                    }
                }
                if handled {
                    self.engine.delete(queue, &[received.receipt]).await.unwrap();
                }
            }
        }
        any
    }

    /// Delivers, ticks and moves the clock second by second until `done` or for `limit_ms`. Ticks once a minute.
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
            if self.now_ms() >= next_tick_ms {
                self.tick(plan).await;
                next_tick_ms = self.now_ms() + 60_000;
            }
            while self.deliver(plan, copies, &mut driven).await {}
            if done(self).await {
                break;
            }
            self.clock.manual.advance(self.step_ms(next_tick_ms).await);
        }
        driven
    }

    /// How far to the next thing that can happen: a second while messages wait, else the next tick.
    async fn step_ms(&self, next_tick_ms: Ms) -> u64 {
        for queue in QUEUES {
            let depth = self.engine.depth(queue).await.unwrap();
            if depth.visible + depth.in_flight + depth.delayed > 0 {
                return 1_000;
            }
        }
        next_tick_ms.saturating_sub(self.now_ms()).max(1)
    }

    /// Drives until every job of these parents has ended or is held, for at most `limit_ms`.
    pub async fn drive(&self, plan: &Plan, copies: usize, limit_ms: u64, posts: &[&str]) -> Driven {
        self.drive_until(plan, copies, limit_ms, async |world: &World| world.quiet(posts).await).await
    }

    /// Whether every job of these posts has ended, or is held.
    pub async fn quiet(&self, posts: &[&str]) -> bool {
        use glassline_protocol::row::Status;
        for id in posts {
            for job in self.jobs(id).await {
                let waits = match job.status {
                    Status::Ready | Status::Claimed | Status::Rendering => true,
                    Status::Held | Status::Succeeded | Status::Failed | Status::Cancelled => false,
                };
                if waits {
                    return false;
                }
            }
        }
        true
    }

    /// The lanes' names.
    pub async fn lane_names(&self) -> Vec<LaneName> {
        self.ports.lanes().await.unwrap().into_iter().map(|lane| lane.key).collect()
    }

    /// Now, by the ports' clock.
    #[must_use]
    pub fn port_now_ms(&self) -> Ms {
        self.ports.now_ms()
    }
}
