//! What must hold, checked from the table, the queues, the storage and the provider's own books.

use crate::world::World;
use glassline_protocol::ids::{JobKey, LaneName, ParentKey};
use glassline_protocol::message::{Message, Qa};
use glassline_protocol::ports::Store as _;
use glassline_protocol::registry::{ParentView, Registry as _};
use glassline_protocol::row::{JobRow, Status};
use std::collections::{BTreeMap, BTreeSet};

impl World {
    /// Everything of a post.
    pub async fn parent(&self, post: &str) -> ParentView {
        let key: ParentKey = format!("POST#{post}").parse().unwrap();
        self.look.parent(&key).await.unwrap().unwrap_or_default()
    }

    /// The jobs of a post.
    pub async fn jobs(&self, post: &str) -> Vec<JobRow> {
        self.parent(post).await.jobs
    }

    /// One job.
    pub async fn job(&self, key: &JobKey) -> JobRow {
        self.look.job(key).await.unwrap().expect("the job exists").job
    }

    /// Every QA message, by job.
    pub async fn qa(&self) -> BTreeMap<JobKey, Vec<Qa>> {
        let mut messages: BTreeMap<JobKey, Vec<Qa>> = BTreeMap::new();
        for message in self.engine.peek("qa.fifo", 10_000).await.unwrap() {
            let Ok(Message::Qa(qa)) = Message::from_body(&message.body) else { panic!("not a QA message") };
            messages.entry(qa.job.clone()).or_default().push(qa);
        }
        messages
    }

    /// Accepted renders by reference, from the provider's books.
    #[must_use]
    pub fn accepted(&self) -> BTreeMap<String, usize> {
        let mut accepted = BTreeMap::new();
        for entry in self.sandbox.books().renders {
            *accepted.entry(entry.reference).or_default() += 1;
        }
        accepted
    }

    /// How often the provider accepted a render for this job, over all of its attempts.
    #[must_use]
    pub fn renders_of(&self, job: &JobKey) -> usize {
        let prefix = format!("{job}/");
        self.accepted().iter().filter(|(key, _)| key.starts_with(&prefix)).map(|(_, count)| count).sum()
    }

    /// Checks the invariants of the table's history and of these posts; the sentence says which one is broken. `paid_once`: no job was rendered by
    /// more than one attempt either.
    pub async fn check(&self, posts: &[&str], paid_once: bool) {
        self.check_history();
        for (reference, count) in self.accepted() {
            assert!(count <= 1, "{reference} was accepted {count} times: paid twice");
        }
        let qa = self.qa().await;
        let mut live: BTreeMap<LaneName, u32> = BTreeMap::new();
        for id in posts {
            let view = self.parent(id).await;
            for job in &view.jobs {
                self.check_job(&view, job, &qa).await;
                if paid_once {
                    let renders = self.renders_of(&job.key);
                    assert!(renders <= 1, "{} was rendered {renders} times", job.key);
                }
                if job.status.fills_slot() {
                    *live.entry(job.lane.clone()).or_default() += 1;
                }
            }
        }
        for (lane, jobs) in live {
            let row = self.look.lane(&lane).await.unwrap().unwrap();
            assert!(jobs <= row.capacity, "{jobs} jobs fill lane {lane} of capacity {}", row.capacity);
        }
    }

    async fn check_job(&self, view: &ParentView, job: &JobRow, qa: &BTreeMap<JobKey, Vec<Qa>>) {
        let key = &job.key;
        let outcome = view.outcomes.iter().find(|row| row.key.job == *key && row.key.attempt == job.attempt);
        let sent = qa.get(key).map(Vec::as_slice).unwrap_or_default();
        let ids: BTreeSet<_> = sent.iter().map(|message| message.outcome.clone()).collect();
        assert!(ids.len() <= 1 || job.attempt > 1, "{key}: QA has {ids:?}");
        let in_index = job.queue_pk.is_some();
        match job.status {
            Status::Succeeded => {
                let asset = outcome.and_then(|row| row.asset());
                let asset = asset.unwrap_or_else(|| panic!("{key} succeeded without a stored outcome"));
                let whole = self.ports.vault.verify(&asset).await.unwrap();
                assert!(whole, "{key} succeeded, and its file isn't as recorded");
                assert!(!sent.is_empty(), "{key} succeeded without a QA message");
            }
            Status::Failed => assert!(outcome.is_some(), "{key} failed without an outcome"),
            Status::Ready | Status::Claimed | Status::Rendering | Status::Held | Status::Cancelled => {}
        }
        if job.status.ended() {
            assert!(job.token.is_none() && job.lease_ms.is_none() && !in_index, "{key} ended with {job:?}");
        }
        assert_eq!(
            in_index,
            matches!(job.status, Status::Ready | Status::Held),
            "{key} is {} and its index entry is {:?}",
            job.status,
            job.queue_pk
        );
    }
}
