//! Reads.

use super::item::{Item, from_item, key_item, key_of};
use super::retry::{Trouble, log, trouble};
use super::{DynamoStore, QUEUE_INDEX};
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use glassline_protocol::ids::{JobKey, LaneName, Ms};
use glassline_protocol::ports::{
    Candidate, Created, EpisodeView, JobView, NewRow, NotStarted, OutcomePut, Part, Read, Store, Transacted,
    Unread, Written,
};
use glassline_protocol::rank::{due_bound, parse_entry};
use glassline_protocol::row::{
    EpisodeKey, EpisodeRow, JobRow, LaneRow, OrphanRow, OutcomeRow, PrimaryKey, Row, RowKey, SeriesKey,
    SeriesRow, SlotKey, SlotRow, SpecKey, SpecRow, StoryKey, StoryRow, StorySpecKey, StorySpecRow,
};
use glassline_protocol::transition::{JobTransition, LaneTransition, SlotTransition, StoryTransition};
use std::collections::HashMap;

/// A query of the table or of its index.
pub(super) struct Query {
    pub(super) index: Option<&'static str>,
    pub(super) condition: &'static str,
    pub(super) values: Vec<(&'static str, String)>,
    pub(super) limit: Option<usize>,
    /// From the last sort key to the first.
    pub(super) backward: bool,
    /// After this key.
    pub(super) start: Option<Item>,
}

impl Query {
    /// All of it, forward.
    pub(super) fn of(
        index: Option<&'static str>,
        condition: &'static str,
        values: Vec<(&'static str, String)>,
    ) -> Self {
        Self { index, condition, values, limit: None, backward: false, start: None }
    }
}

impl DynamoStore {
    pub(super) fn unread<E: ProvideErrorMetadata, R>(
        &self,
        operation: &'static str,
        error: &SdkError<E, R>,
    ) -> Unread {
        match trouble(error) {
            Trouble::Busy | Trouble::Unknown => {}
            Trouble::Broken => log(operation, &self.table, error),
        }
        Unread::Unavailable
    }

    pub(super) async fn query(&self, query: Query) -> Read<Vec<Item>> {
        let values: HashMap<String, AttributeValue> =
            query.values.into_iter().map(|(name, text)| (name.to_owned(), AttributeValue::S(text))).collect();
        let (mut items, mut start) = (Vec::new(), query.start);
        loop {
            let left = query.limit.map(|limit| limit.saturating_sub(items.len()));
            let output = self
                .client
                .query()
                .table_name(&self.table)
                .set_index_name(query.index.map(str::to_owned))
                // An index can't be read consistently.
                .set_consistent_read(query.index.is_none().then_some(true))
                .key_condition_expression(query.condition)
                .set_expression_attribute_values(Some(values.clone()))
                .scan_index_forward(!query.backward)
                .set_limit(left.and_then(|left| i32::try_from(left).ok()))
                .set_exclusive_start_key(start)
                .return_consumed_capacity(Self::capacity())
                .send()
                .await
                .map_err(|error| self.unread("Query", &error))?;
            self.used("Query", output.consumed_capacity.as_slice());
            items.extend(output.items.unwrap_or_default());
            start = output.last_evaluated_key;
            if start.is_none() || query.limit.is_some_and(|limit| items.len() >= limit) {
                return Ok(items);
            }
        }
    }

    async fn get<R: Row>(&self, key: &R::Key) -> Read<Option<R>> {
        let output = self
            .client
            .get_item()
            .table_name(&self.table)
            .set_key(Some(key_item(&key.primary())))
            .consistent_read(true)
            .return_consumed_capacity(Self::capacity())
            .send()
            .await
            .map_err(|error| self.unread("GetItem", &error))?;
        self.used("GetItem", output.consumed_capacity.as_slice());
        Ok(output.item.as_ref().map(from_item).transpose()?)
    }

    async fn batch_get<R: Row>(&self, keys: impl Iterator<Item = PrimaryKey>) -> Read<Vec<R>> {
        let mut wanted: Vec<Item> = keys.map(|key| key_item(&key)).collect();
        // The same key twice in one request is an error of the whole request.
        wanted.sort_by_key(|item| key_of(item).ok());
        wanted.dedup();
        if wanted.len() <= 1 {
            let Some(key) = wanted.pop() else { return Ok(Vec::new()) };
            return Ok(self.get::<R>(&R::Key::parse(&key_of(&key)?)?).await?.into_iter().collect());
        }
        let mut rows = Vec::new();
        for _ in 0..5 {
            let request = KeysAndAttributes::builder()
                .set_keys(Some(wanted))
                .consistent_read(true)
                .build()
                .map_err(|_| Unread::Unavailable)?;
            let output = self
                .client
                .batch_get_item()
                .request_items(&self.table, request)
                .return_consumed_capacity(Self::capacity())
                .send()
                .await
                .map_err(|error| self.unread("BatchGetItem", &error))?;
            self.used("BatchGetItem", output.consumed_capacity());
            for item in output.responses.unwrap_or_default().remove(&self.table).unwrap_or_default() {
                rows.push(from_item(&item)?);
            }
            wanted = output
                .unprocessed_keys
                .and_then(|mut keys| keys.remove(&self.table))
                .map(|keys| keys.keys)
                .unwrap_or_default();
            if wanted.is_empty() {
                return Ok(rows);
            }
        }
        Err(Unread::Unavailable)
    }

    async fn candidates(&self, pk: String, until: Option<String>, limit: usize) -> Read<Vec<Candidate>> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let condition =
            if until.is_some() { "queue_pk = :pk AND queue_sk < :until" } else { "queue_pk = :pk" };
        let mut values = vec![(":pk", pk.clone())];
        values.extend(until.map(|until| (":until", until)));
        let query = Query { limit: Some(limit), ..Query::of(Some(QUEUE_INDEX), condition, values) };
        let items = self.query(query).await?;
        // An entry that can't be read is skipped: it must not keep its neighbours from being dispatched.
        Ok(items.iter().filter_map(|item| candidate(&pk, item)).collect())
    }

    /// The keys of a partition of the index, in its order. A key that can't be read is skipped.
    async fn index_keys<K: RowKey>(&self, partition: String, limit: Option<usize>) -> Read<Vec<K>> {
        let values = vec![(":pk", partition)];
        let query = Query { limit, ..Query::of(Some(QUEUE_INDEX), "queue_pk = :pk", values) };
        let items = self.query(query).await?;
        Ok(items.iter().filter_map(|item| K::parse(&key_of(item).ok()?).ok()).collect())
    }
}

/// The rows that can be understood: one that can't must not keep its neighbours from being dispatched.
fn readable<R: Row>(items: &[Item]) -> Vec<R> {
    let row = |item| {
        from_item(item)
            .inspect_err(|bad| tracing::error!(event = "bad_row", error = %bad, "a row can't be understood"))
            .ok()
    };
    items.iter().filter_map(row).collect()
}

fn candidate(pk: &str, item: &Item) -> Option<Candidate> {
    let entry = item.get("queue_sk")?.as_s().ok()?;
    let job = JobKey::parse(&key_of(item).ok()?).ok()?;
    if pk.starts_with("HELD#") {
        let (due, attempt) = entry.rsplit_once('#')?;
        return Some(Candidate { job, attempt: attempt.parse().ok()?, rank: due.to_owned() });
    }
    let (rank, attempt) = parse_entry(pk, entry)?;
    Some(Candidate { job, attempt, rank })
}

impl Store for DynamoStore {
    async fn change_job(&self, job: &JobKey, transition: &JobTransition) -> Written<JobRow> {
        self.change(job, &transition.rule()).await
    }

    async fn change_slot(&self, slot: &SlotKey, transition: &SlotTransition) -> Written<SlotRow> {
        self.change(slot, &transition.rule()).await
    }

    async fn change_lane(&self, lane: &LaneName, transition: &LaneTransition) -> Written<LaneRow> {
        self.change(lane, &transition.rule()).await
    }

    async fn put_outcome(&self, outcome: &OutcomeRow, only_if: Option<&NotStarted>) -> OutcomePut {
        match only_if {
            Some(only_if) => self.put_outcome_if(outcome, only_if).await,
            None => self.put_outcome_always(outcome).await,
        }
    }

    async fn put_orphan(&self, orphan: &OrphanRow) -> bool {
        self.put_same(orphan).await
    }

    async fn create(&self, row: &NewRow) -> Created {
        self.create_row(row).await
    }

    async fn job(&self, job: &JobKey) -> Read<Option<JobView>> {
        let key = job.primary();
        // The job's row, its orphans and its outcomes lie side by side; its spec, which may be long, lies after them.
        let values =
            vec![(":pk", key.pk), (":first", key.sk.clone()), (":last", format!("{}#OUTCOME#~", key.sk))];
        let condition = "pk = :pk AND sk BETWEEN :first AND :last";
        let items = self.query(Query::of(None, condition, values)).await?;
        let (mut row, mut outcomes) = (None, Vec::new());
        for item in &items {
            let found = key_of(item)?;
            if found.sk == key.sk {
                row = Some(from_item(item)?);
            } else if found.sk.starts_with(&format!("{}#OUTCOME#", key.sk)) {
                outcomes.push(from_item(item)?);
            }
        }
        Ok(row.map(|job| JobView { job, outcomes }))
    }

    async fn jobs(&self, jobs: &[JobKey]) -> Read<Vec<JobRow>> {
        self.batch_get(jobs.iter().map(RowKey::primary)).await
    }

    async fn specs(&self, jobs: &[JobKey]) -> Read<Vec<SpecRow>> {
        self.batch_get(jobs.iter().map(|job| SpecKey(job.clone()).primary())).await
    }

    async fn lanes(&self) -> Read<Vec<LaneRow>> {
        let values = vec![(":pk", "LANES".to_owned())];
        let items = self.query(Query::of(None, "pk = :pk", values)).await?;
        Ok(readable(&items))
    }

    async fn lane(&self, lane: &LaneName) -> Read<Option<LaneRow>> {
        self.get(lane).await
    }

    async fn slots(&self, lane: &LaneName) -> Read<Vec<SlotRow>> {
        let values = vec![(":pk", format!("LANE#{lane}"))];
        let items = self.query(Query::of(None, "pk = :pk", values)).await?;
        Ok(readable(&items))
    }

    async fn ready(&self, lane: &LaneName, limit: usize) -> Read<Vec<Candidate>> {
        self.candidates(format!("READY#{lane}"), None, limit).await
    }

    async fn due(&self, lane: &LaneName, now_ms: Ms, limit: usize) -> Read<Vec<Candidate>> {
        self.candidates(format!("LATER#{lane}"), Some(due_bound(now_ms)), limit).await
    }

    async fn held(&self, lane: &LaneName, now_ms: Ms, limit: usize) -> Read<Vec<Candidate>> {
        self.candidates(format!("HELD#{lane}"), Some(due_bound(now_ms)), limit).await
    }

    async fn transact(&self, parts: &[Part]) -> Transacted {
        self.transact_parts(parts).await
    }

    async fn change_story(&self, story: &StoryKey, transition: &StoryTransition) -> Written<StoryRow> {
        self.change(story, &transition.rule()).await
    }

    async fn all_series(&self) -> Read<Vec<SeriesKey>> {
        self.index_keys("SERIES".into(), None).await
    }

    async fn series(&self, series: &SeriesKey) -> Read<Option<SeriesRow>> {
        self.get(series).await
    }

    async fn open_stories(&self, series: &SeriesKey) -> Read<Vec<StoryKey>> {
        self.index_keys(format!("STORIES#{}", series.0), None).await
    }

    async fn story(&self, story: &StoryKey) -> Read<Option<StoryRow>> {
        self.get(story).await
    }

    async fn story_spec(&self, story: &StoryKey) -> Read<Option<StorySpecRow>> {
        self.get(&StorySpecKey(story.clone())).await
    }

    async fn episode(&self, episode: &EpisodeKey) -> Read<Option<EpisodeView>> {
        let Some(head) = self.get::<EpisodeRow>(episode).await? else { return Ok(None) };
        let mut frames: Vec<JobRow> = self.jobs(&episode.frames()).await?;
        frames.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Some(EpisodeView { head, frames }))
    }

    async fn open_episodes(&self, series: &SeriesKey, limit: usize) -> Read<Vec<EpisodeKey>> {
        self.index_keys(format!("OPEN#{}", series.0), Some(limit)).await
    }
}
