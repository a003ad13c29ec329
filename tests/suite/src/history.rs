//! The table's whole history, write by write in the order in which they took effect (its stream), and what must have
//! held after every one of them.

use crate::world::{TABLE, World};
use dynoxide::AttributeValue;
use dynoxide::actions::get_records::GetRecordsRequest;
use dynoxide::actions::get_shard_iterator::encode_shard_iterator;
use glassline_protocol::ids::{Attempt, JobKey, LaneName, Token};
use glassline_protocol::row::{
    JobRow, LaneRow, OutcomeKey, OutcomeRow, PrimaryKey, Row, RowKey, Status, Value, Verdict,
};
use std::collections::{BTreeMap, HashMap};

type Image = HashMap<String, AttributeValue>;

/// One write.
struct Change {
    key: PrimaryKey,
    old: Option<Image>,
    new: Option<Image>,
}

fn row<R: Row>(key: &PrimaryKey, image: &Image) -> R {
    let value = |attribute: &AttributeValue| match attribute {
        AttributeValue::S(text) => Value::Text(text.clone()),
        AttributeValue::N(number) => Value::Number(number.parse().unwrap()),
        AttributeValue::BOOL(flag) => Value::Flag(*flag),
        other => panic!("{key:?} holds {other:?}"),
    };
    R::read(R::Key::parse(key).unwrap(), |name| image.get(name).map(value)).unwrap()
}

/// What the writes so far came to.
#[derive(Default)]
struct Ledger {
    filled: BTreeMap<LaneName, u32>,
    capacity: BTreeMap<LaneName, u32>,
    owners: HashMap<Token, (JobKey, Attempt)>,
    outcomes: HashMap<OutcomeKey, Verdict>,
}

impl World {
    fn changes(&self) -> Vec<Change> {
        let shard = dynoxide::streams::shard_id(TABLE);
        let mut next = Some(encode_shard_iterator(TABLE, &shard, 0));
        let mut changes = Vec::new();
        while let Some(shard_iterator) = next.take() {
            let page = self.db.get_records(GetRecordsRequest { shard_iterator, limit: None }).unwrap();
            let text = |image: &Image, name: &str| match &image[name] {
                AttributeValue::S(text) => text.clone(),
                other => panic!("{name} is {other:?}"),
            };
            if !page.records.is_empty() {
                next = page.next_shard_iterator;
            }
            changes.extend(page.records.into_iter().map(|record| {
                let keys = &record.dynamodb.keys;
                let key = PrimaryKey { pk: text(keys, "pk"), sk: text(keys, "sk") };
                Change { key, old: record.dynamodb.old_image, new: record.dynamodb.new_image }
            }));
        }
        changes
    }

    /// Every state of a job, in order.
    pub fn history_of(&self, job: &JobKey) -> Vec<JobRow> {
        let key = job.primary();
        let changes = self.changes().into_iter().filter(|change| change.key == key);
        changes.filter_map(|change| change.new.map(|image| row(&key, &image))).collect()
    }

    /// Checks every write since the table was created; how many jobs filled each lane at most.
    ///
    /// After every single write: no job was claimed beyond its lane's capacity; every job moved along an
    /// edge of the design's table; a token belonged to one attempt of one job; an attempt that was started ended only
    /// with an outcome that says so; outcomes never changed.
    pub fn check_history(&self) -> BTreeMap<LaneName, u32> {
        let mut ledger = Ledger::default();
        let mut most = BTreeMap::new();
        for Change { key, old, new } in self.changes() {
            let (old, new) = (old.as_ref(), new.as_ref());
            if key.pk == "LANES" {
                let lane: LaneRow = row(&key, new.unwrap());
                ledger.capacity.insert(lane.key, lane.capacity);
            } else if OutcomeKey::parse(&key).is_ok() {
                assert!(old.is_none(), "the outcome {key:?} was written twice");
                let outcome: OutcomeRow = row(&key, new.unwrap());
                ledger.outcomes.insert(outcome.key, outcome.verdict);
            } else if JobKey::parse(&key).is_ok() {
                let old = old.map(|image| row::<JobRow>(&key, image));
                ledger.enter_job(old, row(&key, new.unwrap()), &mut most);
            }
        }
        most
    }
}

impl Ledger {
    fn enter_job(&mut self, old: Option<JobRow>, new: JobRow, most: &mut BTreeMap<LaneName, u32>) {
        let filled = self.filled.entry(new.lane.clone()).or_default();
        let filled_before = old.as_ref().is_some_and(|old| old.status.fills_slot());
        *filled += u32::from(new.status.fills_slot());
        *filled -= u32::from(filled_before);
        let capacity = self.capacity.get(&new.lane).copied().unwrap_or(0);
        // A capacity that was lowered is reached by waiting.
        let fits = filled_before || *filled <= capacity;
        assert!(fits, "{filled} jobs fill lane {} of capacity {capacity}: {new:?}", new.lane);
        let reached = most.entry(new.lane.clone()).or_default();
        *reached = (*reached).max(*filled);
        if let Some(token) = &new.token {
            let owner = (new.key.clone(), new.attempt);
            let known = self.owners.entry(token.clone()).or_insert_with(|| owner.clone());
            assert_eq!(*known, owner, "a token of two attempts");
        }
        if new.status.ended() {
            let owned = new.token.is_some() || new.lease_ms.is_some() || new.queue_pk.is_some();
            assert!(!owned, "it ended, and is owned or queued: {new:?}");
        }
        let Some(old) = old else {
            assert_eq!((new.status, new.attempt, new.token.as_ref()), (Status::Ready, 0, None), "{new:?}");
            return;
        };
        self.check_edge(&old, &new);
    }

    /// Whether the design's table has a transition from `old` to `new`, and what that needs.
    fn check_edge(&self, old: &JobRow, new: &JobRow) {
        use Status::{Cancelled, Claimed, Failed, Held, Ready, Rendering, Succeeded};
        let about = || format!("from {old:?} to {new:?}");
        let more = new.attempt - old.attempt;
        let same_owner = new.token == old.token;
        let outcome = self.outcomes.get(&OutcomeKey { job: new.key.clone(), attempt: old.attempt }).copied();
        match (old.status, new.status) {
            // Claim, with a fresh token.
            (Ready, Claimed) => assert!(more == 1 && new.token.is_some() && !same_owner, "{}", about()),
            // Void.
            (Ready, Ready) => assert!(more == 1 && new.token.is_none(), "{}", about()),
            // Requeue.
            (Failed | Cancelled | Succeeded, Ready) => assert!(more == 1, "{}", about()),
            // Requeue of a held job adds an attempt; Retry doesn't.
            (Held, Ready) if more == 1 => assert_eq!(outcome, Some(Verdict::Cancelled), "{}", about()),
            (Rendering | Held, Ready) => {
                assert!(more == 0 && outcome == Some(Verdict::Failed), "{}, {outcome:?}", about());
            }
            // Release.
            (Claimed, Ready) => assert!(more == 0 && outcome.is_none(), "{}", about()),
            // Accept, RequestCancel, RecordTask, Renew.
            (Claimed, Claimed) | (Rendering, Rendering) | (Held, Held) => {
                assert!(more == 0 && same_owner, "{}", about());
                assert!(old.task.is_none() || old.task == new.task, "a task was lost {}", about());
            }
            // Start, Hold.
            (Claimed, Rendering) | (Rendering, Held) => assert!(more == 0 && same_owner, "{}", about()),
            (Rendering | Held, Succeeded) => {
                assert!(more == 0 && outcome == Some(Verdict::Stored), "{}, {outcome:?}", about());
            }
            (Claimed | Rendering | Held, Failed) => {
                assert!(more == 0 && outcome == Some(Verdict::Failed), "{}, {outcome:?}", about());
            }
            (Rendering | Held, Cancelled) => {
                let ended = matches!(outcome, Some(Verdict::Failed | Verdict::Cancelled));
                assert!(more == 0 && ended && old.cancel_requested, "{}, {outcome:?}", about());
            }
            (Claimed, Cancelled) => assert!(more == 0 && old.cancel_requested, "{}", about()),
            (Ready, Cancelled) => assert_eq!(more, 0, "{}", about()),
            // Review.
            (Succeeded, Succeeded) => assert!(more == 0 && old.qa != new.qa, "{}", about()),
            _ => panic!("the design has no transition {}", about()),
        }
    }
}
