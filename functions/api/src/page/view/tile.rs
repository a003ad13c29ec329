//! A tile: one frame or shot, as its picture or as what it waits for.

use glassline_protocol::ids::{Attempt, JobKey, MemberKey, Ms};
use glassline_protocol::provider::Media;
use glassline_protocol::row::{JobRow, OutcomeRow, QaState, Status, Verdict};

/// A stored output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The path that serves it.
    pub src: String,
    /// Whether it is a picture or a film.
    pub media: Media,
    /// Its width in pixels, where known.
    pub width_px: Option<u32>,
    /// Its height in pixels, where known.
    pub height_px: Option<u32>,
    /// Its play time in milliseconds.
    pub duration_ms: Option<u64>,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// SHA-256 of its bytes: the outcome that a verdict judges.
    pub sha256: String,
}

impl Picture {
    /// The output of an outcome that is stored.
    #[must_use]
    pub fn of(outcome: &OutcomeRow) -> Option<Self> {
        let asset = outcome.asset()?;
        let media = if asset.content_type.starts_with("video/") { Media::Video } else { Media::Image };
        Some(Self {
            src: media_path(&asset.location),
            media,
            width_px: asset.width_px,
            height_px: asset.height_px,
            duration_ms: asset.duration_ms,
            size_bytes: asset.size_bytes,
            sha256: asset.sha256,
        })
    }
}

/// The path that serves a stored output. A location holds letters, digits, `.`, `_`, `-`, `/` and, for the ids `.` and
/// `..`, `%`.
#[must_use]
pub fn media_path(location: &str) -> String {
    format!("/media/{}", location.replace('%', "%25"))
}

/// A member as people call it.
#[must_use]
pub fn member_name(member: &MemberKey) -> String {
    match member {
        MemberKey::Shot(id) => format!("Shot {id}"),
        MemberKey::Frame(number) => format!("Frame {number}"),
    }
}

/// One frame or shot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The job.
    pub job: JobKey,
    /// Where it stands.
    pub status: Status,
    /// In two or three words.
    pub label: &'static str,
    /// What it waits for, or why it ended so; one short sentence, perhaps empty.
    pub words: String,
    /// Since when it stands so, in epoch milliseconds.
    pub since_ms: Option<Ms>,
    /// Its attempt.
    pub attempt: Attempt,
    /// The kind of output expected.
    pub media: Media,
    /// Its output, once stored.
    pub picture: Option<Picture>,
    /// What QA said.
    pub qa: Option<QaState>,
    /// Its prompt, where it was read.
    pub prompt: Option<String>,
}

/// The time after which a retry may start, from its index entry.
fn due_ms(job: &JobRow) -> Option<Ms> {
    job.queue_pk.as_deref().filter(|pk| pk.starts_with("LATER#"))?;
    job.queue_sk.as_deref()?.split('#').next()?.parse().ok()
}

fn label(job: &JobRow, now_ms: Ms) -> &'static str {
    match job.status {
        Status::Ready if due_ms(job).is_some_and(|due_ms| due_ms > now_ms) => "Waits to retry",
        Status::Ready => "Ready",
        Status::Claimed => "Claimed",
        Status::Rendering if job.task.is_none() => "Being submitted",
        Status::Rendering => "Rendering",
        Status::Held => "Held",
        Status::Succeeded => "Stored",
        Status::Failed => "Failed",
        Status::Cancelled => "Cancelled",
    }
}

fn words(job: &JobRow) -> String {
    let error = job.error.clone().unwrap_or_default();
    if job.cancel_requested && !job.status.ended() {
        return "asked to stop".into();
    }
    match job.status {
        Status::Ready if !error.is_empty() => format!("tries again after: {error}"),
        Status::Ready => format!("waits for a slot of {}", job.lane),
        Status::Claimed => "waits for its worker".into(),
        Status::Rendering if job.task.is_none() => "waits for the provider's answer".into(),
        Status::Rendering => format!("at the provider of {}", job.lane),
        Status::Held => format!("waits for evidence or a person: {error}"),
        Status::Succeeded => String::new(),
        Status::Failed => match job.error_class {
            Some(class) => format!("{}: {error}", class.to_string().replace('_', " ")),
            None => error,
        },
        Status::Cancelled => "cancelled as asked".into(),
    }
}

fn since_ms(job: &JobRow) -> Option<Ms> {
    match job.status {
        Status::Ready if job.attempt == 0 => Some(job.created_ms),
        Status::Ready | Status::Claimed => None,
        Status::Rendering | Status::Held => job.started_ms,
        Status::Succeeded | Status::Failed | Status::Cancelled => job.ended_ms,
    }
}

impl Tile {
    /// A job's tile at `now_ms`; `outcomes` may hold those of other jobs too.
    #[must_use]
    pub fn new(job: &JobRow, outcomes: &[OutcomeRow], prompt: Option<String>, now_ms: Ms) -> Self {
        let stored = outcomes.iter().find(|outcome| {
            outcome.key.job == job.key
                && outcome.key.attempt == job.attempt
                && outcome.verdict == Verdict::Stored
        });
        Self {
            job: job.key.clone(),
            status: job.status,
            label: label(job, now_ms),
            words: words(job),
            since_ms: since_ms(job),
            attempt: job.attempt,
            media: job.media,
            // An output that is stored and not yet taken for the job's success is there to be seen all the same.
            picture: stored.and_then(Picture::of),
            qa: job.qa,
            prompt,
        }
    }

    /// The tile's job as people call it.
    #[must_use]
    pub fn name(&self) -> String {
        member_name(&self.job.member)
    }

    /// Whether a person may judge its output now.
    #[must_use]
    pub fn to_judge(&self) -> bool {
        self.status == Status::Succeeded && self.qa == Some(QaState::Pending)
    }
}
