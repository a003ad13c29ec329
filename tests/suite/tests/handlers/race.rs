//! Many dispatchers, workers and finishers at once.

use glassline_dispatch::{Look, looks, tick};
use glassline_protocol::ids::{LaneName, Ms};
use glassline_protocol::message::Message;
use glassline_protocol::row::Status;
use glassline_tests::{Lane, Plan, World, WorldOptions, lane_name, post};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const JOBS: usize = 200;
const CAPACITY: u32 = 16;

/// A crowd of handlers on one world.
struct Crowd {
    world: World,
    lane: LaneName,
    done: AtomicBool,
    started: AtomicUsize,
}

impl Crowd {
    fn open(&self) -> bool {
        !self.done.load(Ordering::Relaxed)
    }

    async fn receive(&self, queue: &str) -> Vec<(Message, String)> {
        let received = self.world.engine.receive(queue, 3, 0, Some(30_000)).await.unwrap();
        received
            .into_iter()
            .map(|message| (Message::from_body(&message.body).unwrap(), message.receipt))
            .collect()
    }

    /// Full ticks and wakes in turns, without end.
    async fn dispatch(&self) {
        let ports = self.world.ports.clone();
        let (settings, secrets) = (&self.world.settings, &self.world.secrets);
        while self.open() {
            let full = tick(&ports, settings, secrets, &self.lane, Look::Full, Ms::MAX).await.unwrap();
            self.started.fetch_add(full.started, Ordering::Relaxed);
            let (wakes, receipts): (Vec<_>, Vec<_>) = self.receive("wake").await.into_iter().unzip();
            for (lane, look) in looks(wakes) {
                let ticked = tick(&ports, settings, secrets, &lane, look, Ms::MAX).await.unwrap();
                self.started.fetch_add(ticked.started, Ordering::Relaxed);
            }
            if !receipts.is_empty() {
                self.world.engine.delete("wake", &receipts).await.unwrap();
            }
            tokio::task::yield_now().await;
        }
    }

    async fn consume(&self, queue: &str) {
        while self.open() {
            for (message, receipt) in self.receive(queue).await {
                self.world.handle(&Plan::none(), message).await.unwrap().unwrap();
                self.world.engine.delete(queue, &[receipt]).await.unwrap();
            }
            tokio::task::yield_now().await;
        }
    }

    /// Moves the clock while nothing is to be received, and ends it all when every job has ended.
    async fn keep_time(&self) {
        while self.open() {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let mut waiting = 0;
            for queue in ["render", "finish", "rollback", "wake"] {
                waiting += self.world.engine.depth(queue).await.unwrap().visible;
            }
            if waiting == 0 {
                self.world.clock.manual.advance(250);
            }
            let jobs = self.world.jobs("p1").await;
            if jobs.iter().all(|job| job.status.ended()) {
                self.done.store(true, Ordering::Relaxed);
            }
        }
    }
}

async fn crowd(dispatchers: usize) {
    let mut lane = Lane::keyed(CAPACITY);
    // The provider itself would refuse a job too many.
    lane.max_concurrent = Some(CAPACITY);
    let world = World::new(WorldOptions::one(lane)).await;
    world.submit(&post("p1", "keyed", JOBS)).await;
    let lane = lane_name("keyed");
    let crowd = Crowd { world, lane, done: AtomicBool::new(false), started: AtomicUsize::new(0) };
    let dispatchers = (0..dispatchers).map(|_| crowd.dispatch());
    let consumers =
        ["render", "render", "render", "finish", "finish", "rollback"].map(|queue| crowd.consume(queue));
    let all = async {
        tokio::join!(
            futures_util::future::join_all(dispatchers),
            futures_util::future::join_all(consumers),
            crowd.keep_time(),
        )
    };
    tokio::time::timeout(Duration::from_secs(300), all).await.expect("it comes to an end");

    let world = &crowd.world;
    let jobs = world.jobs("p1").await;
    let well = |job: &&glassline_protocol::row::JobRow| {
        (job.status, job.attempt, job.failures) == (Status::Succeeded, 1, 0)
    };
    assert_eq!(jobs.iter().filter(well).count(), JOBS);
    let most = world.check_history()[&crowd.lane];
    assert!((CAPACITY / 2..=CAPACITY).contains(&most), "{most} jobs at once at most");
    let books = world.sandbox.books();
    assert_eq!((books.totals.accepted, books.totals.paid_again), (JOBS as u64, 0));
    assert!(books.rejected.is_empty(), "the provider never had more than it takes: {:?}", books.rejected);
    assert_eq!(crowd.started.load(Ordering::Relaxed), JOBS, "each was handed over once");
    world.check(&["p1"], true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_dispatchers_never_exceed_the_capacity() {
    crowd(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_dispatchers_never_exceed_the_capacity() {
    crowd(8).await;
}
