//! The job row and its spec.

use super::{BadRow, PrimaryKey, RowKey, row, text_attr, word_enum};
use crate::ids::{Attempt, JobKey, LaneName, Ms, Receipt, Run, SlotNo, TaskId, Token};
use crate::provider::{ErrorClass, Media};

word_enum! {
    /// Where a job stands. Only a transition changes it.
    Status {
        /// Waits in its lane (or, after a failure, for its due time).
        Ready = "ready",
        /// A dispatcher took it under a token and a slot; nothing was submitted.
        Claimed = "claimed",
        /// A worker recorded its intent to submit, or the provider has it.
        Rendering = "rendering",
        /// Nobody can tell whether, or how, the last submit ended; it waits for evidence or a person, without a slot.
        Held = "held",
        /// Stored, registered and handed to QA.
        Succeeded = "succeeded",
        /// Ended without success, for good unless a person asks again.
        Failed = "failed",
        /// Ended because somebody asked.
        Cancelled = "cancelled",
    }
}

impl Status {
    /// Whether the job has ended: nothing but a person's Requeue or Review changes it any more.
    #[must_use]
    pub fn ended(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed | Self::Cancelled => true,
            Self::Ready | Self::Claimed | Self::Rendering | Self::Held => false,
        }
    }

    /// Whether a job in this status fills its slot.
    #[must_use]
    pub fn fills_slot(self) -> bool {
        match self {
            Self::Claimed | Self::Rendering => true,
            Self::Ready | Self::Held | Self::Succeeded | Self::Failed | Self::Cancelled => false,
        }
    }
}

word_enum! {
    /// What quality assurance said of a succeeded job.
    QaState {
        /// Handed over, no verdict yet.
        Pending = "pending",
        /// Approved.
        Approved = "approved",
        /// Rejected by a person.
        Rejected = "rejected",
    }
}

impl std::fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Throttled => "throttled",
            Self::Transient => "transient",
            Self::InvalidInput => "invalid_input",
            Self::Moderated => "moderated",
            Self::PaymentRequired => "payment_required",
            Self::Unauthorized => "unauthorized",
            Self::BadOutput => "bad_output",
        })
    }
}

impl std::str::FromStr for ErrorClass {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        Ok(match word {
            "throttled" => Self::Throttled,
            "transient" => Self::Transient,
            "invalid_input" => Self::InvalidInput,
            "moderated" => Self::Moderated,
            "payment_required" => Self::PaymentRequired,
            "unauthorized" => Self::Unauthorized,
            "bad_output" => Self::BadOutput,
            other => return Err(format!("`{other}` is not a known error class")),
        })
    }
}

impl std::fmt::Display for Media {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Image => "image",
            Self::Video => "video",
        })
    }
}

impl std::str::FromStr for Media {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "image" => Ok(Self::Image),
            "video" => Ok(Self::Video),
            other => Err(format!("`{other}` is not a media kind: use image or video")),
        }
    }
}

text_attr!(ErrorClass, Media);

row! {
    /// A job: a shot of a post or a frame of an episode. Kept under 1 KB, one write unit; the prompt lives in [`SpecRow`].
    JobRow, JobField, JobKey {
        /// Where it stands.
        status: Status = Status "status",
        /// Number of the current (or last) attempt; 0 before the first claim.
        attempt: Attempt = Attempt "attempt",
        /// Failures counted so far.
        failures: u32 = Failures "failures",
        /// Who owns the current attempt; absent when nobody does.
        token: Option<Token> = Token "token",
        /// Nonce of the invocation that acts for the attempt; void once somebody else renews the lease.
        run: Option<Run> = Run "run",
        /// What its lane said a render costs when this attempt was claimed, in millionths of the currency unit.
        price_micros: Option<u64> = PriceMicros "price_micros",
        /// The slot it fills.
        slot: Option<SlotNo> = Slot "slot",
        /// When the owner's lease ends, in epoch milliseconds; of a held job, when it is next looked at.
        lease_ms: Option<Ms> = LeaseMs "lease_ms",
        /// When an outside dispatcher's handoff was taken, in epoch milliseconds.
        accepted_ms: Option<Ms> = AcceptedMs "accepted_ms",
        /// What is left of the last owner's token, until the next claim: whoever held it can still be told whether its
        /// handoff was taken.
        receipt: Option<Receipt> = Receipt "receipt",
        /// When the submit intent of this attempt was written, in epoch milliseconds.
        started_ms: Option<Ms> = StartedMs "started_ms",
        /// Its lane.
        lane: LaneName = Lane "lane",
        /// Its place in the lane, sorting as text; fixed at creation.
        rank: String = Rank "rank",
        /// When it was created, in epoch milliseconds.
        created_ms: Ms = CreatedMs "created_ms",
        /// The kind of output expected, as in its spec.
        media: Media = Media "media",
        /// The width in pixels that its spec's parameters ask of a picture, if they do.
        width_px: Option<u32> = WidthPx "width_px",
        /// The height in pixels that they ask for.
        height_px: Option<u32> = HeightPx "height_px",
        /// The provider's id for the accepted render of this attempt.
        task: Option<TaskId> = Task "task",
        /// The class of the last failure.
        error_class: Option<ErrorClass> = ErrorClass "error_class",
        /// The last failure, or why it is held, in one sentence of at most 160 bytes.
        error: Option<String> = Error "error",
        /// Somebody asked to cancel it.
        cancel_requested: bool = CancelRequested "cancel_requested",
        /// What QA said, once it succeeded.
        qa: Option<QaState> = Qa "qa",
        /// When it ended, in epoch milliseconds.
        ended_ms: Option<Ms> = EndedMs "ended_ms",
        /// Partition of the sparse index `queue`: `READY#lane`, `LATER#lane` or `HELD#lane`.
        queue_pk: Option<String> = QueuePk "queue_pk",
        /// Sort key of the sparse index `queue`.
        queue_sk: Option<String> = QueueSk "queue_sk",
    }
}

impl JobRow {
    /// Whether `token` owns the job's current attempt.
    #[must_use]
    pub fn owned_by(&self, token: &Token) -> bool {
        self.token.as_ref() == Some(token)
    }

    /// What is wrong with the size of an output, one sentence; `None` if it is near what was asked for, or if nothing was
    /// asked or is known. Providers round a size to what their models can do: up to an eighth off is taken.
    #[must_use]
    pub fn wrong_size(&self, width_px: Option<u32>, height_px: Option<u32>) -> Option<String> {
        let (asked, came) = (self.width_px.zip(self.height_px)?, width_px.zip(height_px)?);
        let far = |asked: u32, came: u32| asked.abs_diff(came) > asked / 8;
        (far(asked.0, came.0) || far(asked.1, came.1)).then(|| {
            let ((asked_x, asked_y), (came_x, came_y)) = (asked, came);
            format!("the output has {came_x} × {came_y} pixels, but {asked_x} × {asked_y} were asked for")
        })
    }

    /// Whether the lease has run out at `now_ms`. A job without a lease has none to run out.
    #[must_use]
    pub fn lease_over(&self, now_ms: Ms) -> bool {
        self.lease_ms.is_some_and(|lease_ms| lease_ms <= now_ms)
    }
}

row! {
    /// What to render. Written before its job and never changed.
    SpecRow, SpecField, SpecKey {
        /// What to draw.
        prompt: String = Prompt "prompt",
        /// The provider's own parameters, as JSON text of an object; absent for none.
        params: Option<String> = Params "params",
        /// The kind of output expected.
        media: Media = Media "media",
    }
}

/// The key of a spec: its job's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpecKey(
    /// The job.
    pub JobKey,
);

impl RowKey for SpecKey {
    fn primary(&self) -> PrimaryKey {
        PrimaryKey { pk: self.0.parent.to_string(), sk: format!("{}#SPEC", self.0.member) }
    }
    fn parse(key: &PrimaryKey) -> Result<Self, BadRow> {
        let member =
            key.sk.strip_suffix("#SPEC").ok_or_else(|| BadRow::new(key, "its sk doesn't end in #SPEC"))?;
        JobKey::parse(&PrimaryKey { pk: key.pk.clone(), sk: member.into() }).map(Self)
    }
}
