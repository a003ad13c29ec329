//! Whether a file is a complete, usable output: its type by content, decoded whole (pictures; of AVIF the header) or with a complete
//! container that holds a film (MP4, QuickTime, WebM).

use crate::config::Limits;
use crate::sniff::{HEAD_BYTES, Kind, sniff};
use glassline_protocol::provider::Media;
use std::io::{Read, Seek, SeekFrom};

/// Why a file can't be an output. The messages are one sentence for a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// No bytes at all.
    #[error("the output is empty")]
    Empty,
    /// An HTML page.
    #[error("the output is an HTML page, not a picture or a film")]
    Html,
    /// A JSON text.
    #[error("the output is a JSON text, not a picture or a film")]
    Json,
    /// An XML text, SVG included.
    #[error("the output is an XML text, not a picture or a film")]
    Xml,
    /// Another text.
    #[error("the output is a text, not a picture or a film")]
    Text,
    /// Bytes of no known type.
    #[error("the output is of an unknown type")]
    Unknown,
    /// A known type or variant that isn't accepted.
    #[error("the output is of a type that isn't accepted ({0})")]
    Unsupported(&'static str),
    /// A picture where a film was asked for, or the other way round.
    #[error("the output is {found}, but {wanted} was asked for")]
    WrongMedia {
        /// What came.
        found: &'static str,
        /// What was asked for.
        wanted: &'static str,
    },
    /// It ends before it is complete.
    #[error("the output ends before its {0} data is complete")]
    Truncated(&'static str),
    /// It breaks the rules of its type.
    #[error("the output is not a valid {kind} file: {detail}")]
    Corrupt {
        /// The type.
        kind: &'static str,
        /// What the decoder said, shortened.
        detail: String,
    },
    /// A size within it is beyond a limit.
    #[error("the output is too large to decode ({0})")]
    TooLarge(&'static str),
    /// A film without a video track.
    #[error("the output has no video track")]
    NoVideoTrack,
    /// A film whose index is missing.
    #[error("the output has no index of its frames (no `moov` or `Tracks`)")]
    NoIndex,
    /// A film without a single frame.
    #[error("the output has no frames")]
    NoFrames,
}

impl Invalid {
    /// A stable code for logs and metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Html => "html",
            Self::Json => "json",
            Self::Xml => "xml",
            Self::Text => "text",
            Self::Unknown => "unknown_type",
            Self::Unsupported(_) => "unsupported_type",
            Self::WrongMedia { .. } => "wrong_media",
            Self::Truncated(_) => "truncated",
            Self::Corrupt { .. } => "corrupt",
            Self::TooLarge(_) => "too_large",
            Self::NoVideoTrack => "no_video_track",
            Self::NoIndex => "no_index",
            Self::NoFrames => "no_frames",
        }
    }

    /// A corrupt file, with a decoder's words made safe for a log line.
    pub(crate) fn corrupt(kind: &'static str, detail: impl std::fmt::Display) -> Self {
        let detail =
            detail.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).take(160).collect();
        Self::Corrupt { kind, detail }
    }
}

/// A file that could not be judged, or was judged unfit.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// It can't be an output.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// It could not be read here; nothing is said about the file.
    #[error("the downloaded file can't be read: {0}")]
    Io(#[from] std::io::Error),
}

/// What is known of a valid output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its kind.
    pub kind: Kind,
    /// Its width in pixels, when known.
    pub width_px: Option<u32>,
    /// Its height in pixels, when known.
    pub height_px: Option<u32>,
    /// The play time of a film in milliseconds, when known.
    pub duration_ms: Option<u64>,
    /// The number of its frames, when known: 1 for a picture that doesn't move.
    pub frames: Option<u64>,
}

/// Judges a file of `size_bytes` bytes. A picture is read into memory and decoded; of a film only the index is read.
/// It works for as long as decoding takes: call it where blocking is allowed.
///
/// # Errors
/// [`Unfit::Invalid`] when it can't be an output, [`Unfit::Io`] when it can't be read.
pub fn validate<R: Read + Seek>(
    reader: &mut R,
    size_bytes: u64,
    expected: Media,
    limits: &Limits,
) -> Result<Facts, Unfit> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    reader.seek(SeekFrom::Start(0))?;
    reader.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    let kind = sniff(&head)?;
    if kind.media() != expected {
        return Err(Invalid::WrongMedia { found: noun(kind.media()), wanted: noun(expected) }.into());
    }
    let facts = match kind {
        Kind::Png | Kind::Jpeg | Kind::Gif | Kind::Webp | Kind::Avif => {
            if size_bytes > limits.image_max_bytes {
                return Err(Invalid::TooLarge("bytes").into());
            }
            reader.seek(SeekFrom::Start(0))?;
            let mut bytes = Vec::new();
            reader.by_ref().take(size_bytes).read_to_end(&mut bytes)?;
            let found = crate::still::check(kind, &bytes, limits)?;
            let (width_px, height_px) = (Some(found.size.0), Some(found.size.1));
            Facts { kind, width_px, height_px, duration_ms: None, frames: found.frames }
        }
        Kind::Mp4 | Kind::Mov => crate::mp4::check(reader, size_bytes, kind, limits)?,
        Kind::Webm => crate::webm::check(reader, size_bytes, limits)?,
    };
    let too_wide = |side_px: Option<u32>| side_px.is_some_and(|side_px| side_px > limits.side_max_px);
    if too_wide(facts.width_px) || too_wide(facts.height_px) {
        return Err(Invalid::TooLarge("width or height").into());
    }
    Ok(facts)
}

fn noun(media: Media) -> &'static str {
    match media {
        Media::Image => "a picture",
        Media::Video => "a film",
    }
}
