//! How an attempt ended: the outcome row, and accepted tasks that turned out not to be ours any more.

use super::{BadRow, PrimaryKey, RowKey, row, word_enum};
use crate::ids::{Attempt, JobKey, LaneName, Ms, TaskId};
use crate::provider::{ErrorClass, Reference};
use crate::vault::Asset;

word_enum! {
    /// How an attempt ended.
    Verdict {
        /// Its output is stored: the row is the asset record.
        Stored = "stored",
        /// It ended without a usable output.
        Failed = "failed",
        /// It ended because somebody asked.
        Cancelled = "cancelled",
    }
}

word_enum! {
    /// What the attempt cost.
    Cost {
        /// Nothing was accepted.
        None = "none",
        /// A render was accepted and is paid for.
        Paid = "paid",
        /// Nobody can tell.
        AtRisk = "at_risk",
    }
}

row! {
    /// How one attempt of a job ended. Written once, if absent, before anything acts on it; whoever comes second
    /// follows it. Build one with [`OutcomeRow::stored`], [`OutcomeRow::failed`] or [`OutcomeRow::cancelled`].
    OutcomeRow, OutcomeField, OutcomeKey {
        /// How it ended.
        verdict: Verdict = Verdict "verdict",
        /// The job's lane.
        lane: LaneName = Lane "lane",
        /// When this was decided, in epoch milliseconds.
        at_ms: Ms = AtMs "at_ms",
        /// When the attempt was started, in epoch milliseconds.
        started_ms: Option<Ms> = StartedMs "started_ms",
        /// The provider's task, if one was accepted.
        task: Option<TaskId> = Task "task",
        /// What it cost.
        cost: Cost = Cost "cost",
        /// The price of a render when it was claimed, in millionths of the currency unit, if the lane had one.
        price_micros: Option<u64> = PriceMicros "price_micros",
        /// Stored: where.
        location: Option<String> = Location "location",
        /// Stored: SHA-256, hex.
        sha256: Option<String> = Sha256 "sha256",
        /// Stored: size in bytes.
        size_bytes: Option<u64> = SizeBytes "size_bytes",
        /// Stored: type by content.
        content_type: Option<String> = ContentType "content_type",
        /// Stored: width in pixels.
        width_px: Option<u32> = WidthPx "width_px",
        /// Stored: height in pixels.
        height_px: Option<u32> = HeightPx "height_px",
        /// Stored: play time in milliseconds.
        duration_ms: Option<u64> = DurationMs "duration_ms",
        /// Stored: number of frames.
        frames: Option<u64> = Frames "frames",
        /// Failed: class.
        class: Option<ErrorClass> = Class "class",
        /// Failed or cancelled: one sentence.
        reason: Option<String> = Reason "reason",
        /// Failed: it counts as a failure of the job.
        counted: bool = Counted "counted",
        /// Failed: not to be tried again before, in epoch milliseconds.
        retry_at_ms: Option<Ms> = RetryAtMs "retry_at_ms",
    }
}

/// The key of an outcome: a job and an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutcomeKey {
    /// The job.
    pub job: JobKey,
    /// The attempt that ended.
    pub attempt: Attempt,
}

impl RowKey for OutcomeKey {
    fn primary(&self) -> PrimaryKey {
        PrimaryKey {
            pk: self.job.parent.to_string(),
            sk: format!("{}#OUTCOME#{:06}", self.job.member, self.attempt),
        }
    }
    fn parse(key: &PrimaryKey) -> Result<Self, BadRow> {
        let bad = || BadRow::new(key, "it isn't an outcome key (member#OUTCOME#attempt)");
        let (member, attempt) = key.sk.rsplit_once("#OUTCOME#").ok_or_else(bad)?;
        let job = JobKey::parse(&PrimaryKey { pk: key.pk.clone(), sk: member.into() })?;
        let read = Self { job, attempt: attempt.parse().map_err(|_| bad())? };
        // One text per key: `#OUTCOME#3` would be another row of the same attempt.
        if read.primary() == *key { Ok(read) } else { Err(bad()) }
    }
}

/// What every outcome of an attempt records, whatever the verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptEnd {
    /// The job and the attempt.
    pub key: OutcomeKey,
    /// Its lane.
    pub lane: LaneName,
    /// Now, in epoch milliseconds.
    pub at_ms: Ms,
    /// When it was started.
    pub started_ms: Option<Ms>,
    /// The accepted task, if any.
    pub task: Option<TaskId>,
    /// The price of a render when it was claimed, in millionths of the currency unit.
    pub price_micros: Option<u64>,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The class.
    pub class: ErrorClass,
    /// One sentence.
    pub reason: String,
    /// Whether it counts as a failure of the job.
    pub counted: bool,
    /// Not to be tried again before, in epoch milliseconds.
    pub retry_at_ms: Option<Ms>,
    /// What it cost.
    pub cost: Cost,
}

impl OutcomeRow {
    fn blank(end: AttemptEnd, verdict: Verdict, cost: Cost) -> Self {
        Self {
            key: end.key,
            verdict,
            lane: end.lane,
            at_ms: end.at_ms,
            started_ms: end.started_ms,
            task: end.task,
            cost,
            price_micros: end.price_micros,
            location: None,
            sha256: None,
            size_bytes: None,
            content_type: None,
            width_px: None,
            height_px: None,
            duration_ms: None,
            frames: None,
            class: None,
            reason: None,
            counted: false,
            retry_at_ms: None,
        }
    }

    /// The output is stored.
    #[must_use]
    pub fn stored(end: AttemptEnd, asset: &Asset) -> Self {
        Self {
            location: Some(asset.location.clone()),
            sha256: Some(asset.sha256.clone()),
            size_bytes: Some(asset.size_bytes),
            content_type: Some(asset.content_type.clone()),
            width_px: asset.width_px,
            height_px: asset.height_px,
            duration_ms: asset.duration_ms,
            frames: asset.frames,
            ..Self::blank(end, Verdict::Stored, Cost::Paid)
        }
    }

    /// It ended without a usable output.
    #[must_use]
    pub fn failed(end: AttemptEnd, failure: Failure) -> Self {
        Self {
            class: Some(failure.class),
            reason: Some(short(&failure.reason)),
            counted: failure.counted,
            retry_at_ms: failure.retry_at_ms,
            ..Self::blank(end, Verdict::Failed, failure.cost)
        }
    }

    /// It ended because somebody asked.
    #[must_use]
    pub fn cancelled(end: AttemptEnd, reason: &str, cost: Cost) -> Self {
        Self { reason: Some(short(reason)), ..Self::blank(end, Verdict::Cancelled, cost) }
    }

    /// The asset, when the verdict is stored and the row is whole.
    #[must_use]
    pub fn asset(&self) -> Option<Asset> {
        match self.verdict {
            Verdict::Stored => Some(Asset {
                location: self.location.clone()?,
                sha256: self.sha256.clone()?,
                size_bytes: self.size_bytes?,
                content_type: self.content_type.clone()?,
                width_px: self.width_px,
                height_px: self.height_px,
                duration_ms: self.duration_ms,
                frames: self.frames,
            }),
            Verdict::Failed | Verdict::Cancelled => None,
        }
    }

    /// The outcome's own id, which its QA message carries: the attempt's reference.
    #[must_use]
    pub fn reference(&self) -> Reference {
        Reference { job: self.key.job.clone(), attempt: self.key.attempt }
    }
}

/// Cuts a sentence to 160 bytes at a character's edge, so that a row stays within one write unit.
#[must_use]
pub fn short(reason: &str) -> String {
    const LIMIT_BYTES: usize = 160;
    if reason.len() <= LIMIT_BYTES {
        return reason.to_owned();
    }
    let mut end = LIMIT_BYTES - '…'.len_utf8();
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", reason.get(..end).unwrap_or_default())
}

row! {
    /// An accepted task that was not ours any more when its answer came: cancelled at the provider, kept for the ledger.
    OrphanRow, OrphanField, OrphanKey {
        /// The attempt that submitted it.
        attempt: Attempt = Attempt "attempt",
        /// The job's lane.
        lane: LaneName = Lane "lane",
        /// When it was found, in epoch milliseconds.
        at_ms: Ms = AtMs "at_ms",
        /// Why it isn't ours, one sentence.
        reason: String = Reason "reason",
        /// What the provider said to the cancel.
        cancel: String = Cancel "cancel",
        /// The price of a render when the attempt was claimed, in millionths of the currency unit, if it is known.
        price_micros: Option<u64> = PriceMicros "price_micros",
    }
}

/// The key of an orphan: a job and a task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OrphanKey {
    /// The job.
    pub job: JobKey,
    /// The task.
    pub task: TaskId,
}

impl RowKey for OrphanKey {
    fn primary(&self) -> PrimaryKey {
        PrimaryKey {
            pk: self.job.parent.to_string(),
            sk: format!("{}#ORPHAN#{}", self.job.member, self.task),
        }
    }
    fn parse(key: &PrimaryKey) -> Result<Self, BadRow> {
        let bad = || BadRow::new(key, "it isn't an orphan key (member#ORPHAN#task)");
        let (member, task) = key.sk.split_once("#ORPHAN#").ok_or_else(bad)?;
        let job = JobKey::parse(&PrimaryKey { pk: key.pk.clone(), sk: member.into() })?;
        Ok(Self { job, task: TaskId::new(task).map_err(|_| bad())? })
    }
}
