//! The type of an output, told by its first bytes. A header or a file name is never asked.

use crate::validate::Invalid;
use glassline_protocol::provider::Media;

/// How many first bytes [`sniff`] looks at, at most.
pub const HEAD_BYTES: usize = 512;

/// A kind of file that an output may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// PNG, moving or still.
    Png,
    /// JPEG.
    Jpeg,
    /// GIF, moving or still.
    Gif,
    /// WebP, moving or still.
    Webp,
    /// AVIF, moving or still.
    Avif,
    /// MP4.
    Mp4,
    /// QuickTime.
    Mov,
    /// WebM (or, until its header is read, another Matroska file).
    Webm,
}

impl Kind {
    /// Its content type, such as `image/png`.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
            Self::Avif => "image/avif",
            Self::Mp4 => "video/mp4",
            Self::Mov => "video/quicktime",
            Self::Webm => "video/webm",
        }
    }

    /// Its file name extension, without the dot.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpg",
            Self::Gif => "gif",
            Self::Webp => "webp",
            Self::Avif => "avif",
            Self::Mp4 => "mp4",
            Self::Mov => "mov",
            Self::Webm => "webm",
        }
    }

    /// Whether it is a picture or a film.
    #[must_use]
    pub fn media(self) -> Media {
        match self {
            Self::Png | Self::Jpeg | Self::Gif | Self::Webp | Self::Avif => Media::Image,
            Self::Mp4 | Self::Mov | Self::Webm => Media::Video,
        }
    }
}

/// Brands of ISO base media files that hold pictures, not films.
const PICTURE_BRANDS: [&[u8; 4]; 10] =
    [b"avif", b"avis", b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"];

/// Tells the kind of a file by its first bytes (up to [`HEAD_BYTES`] of them; fewer if the file is shorter).
///
/// # Errors
/// [`Invalid`] when it is no kind that an output may be; text is told apart for the reason.
pub fn sniff(head: &[u8]) -> Result<Kind, Invalid> {
    let head = head.get(..HEAD_BYTES).unwrap_or(head);
    if head.is_empty() {
        return Err(Invalid::Empty);
    }
    if head.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Ok(Kind::Png);
    }
    if head.starts_with(b"\xff\xd8\xff") {
        return Ok(Kind::Jpeg);
    }
    if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") {
        return Ok(Kind::Gif);
    }
    if head.starts_with(b"\x1a\x45\xdf\xa3") {
        return Ok(Kind::Webm);
    }
    if head.starts_with(b"RIFF") {
        return match head.get(8..12) {
            Some(b"WEBP") => Ok(Kind::Webp),
            Some(_) => Err(Invalid::Unsupported("another RIFF file")),
            None => Err(Invalid::Truncated("RIFF")),
        };
    }
    if head.get(4..8) == Some(b"ftyp") {
        return match head.get(8..12) {
            Some(b"qt  ") => Ok(Kind::Mov),
            Some(brand) if PICTURE_BRANDS.iter().any(|known| known.as_slice() == brand) => {
                if has_brand(head, b"avif") { Ok(Kind::Avif) } else { Err(Invalid::Unsupported("HEIF")) }
            }
            Some(_) => Ok(Kind::Mp4),
            None => Err(Invalid::Truncated("MP4")),
        };
    }
    Err(text(head))
}

/// Whether a file's first box names a brand, as its own or one that it is compatible with.
fn has_brand(head: &[u8], brand: &[u8; 4]) -> bool {
    let size = head.get(..4).and_then(|size| size.try_into().ok()).map_or(0, u32::from_be_bytes);
    let end = usize::try_from(size).unwrap_or(usize::MAX).min(head.len());
    // The second word is the version of the first brand.
    let brands = head.get(8..end).unwrap_or(&[]).chunks_exact(4).enumerate();
    brands.filter(|(place, _)| *place != 1).any(|(_, found)| found == brand)
}

/// What a head that isn't media is.
fn text(head: &[u8]) -> Invalid {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let readable = match std::str::from_utf8(head) {
        Ok(text) => text,
        // The head may end within a character.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(head.get(..error.valid_up_to()).unwrap_or(&[])).unwrap_or("")
        }
        Err(_) => return Invalid::Unknown,
    };
    if readable.chars().any(|c| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{c}')) {
        return Invalid::Unknown;
    }
    let start = readable.trim_start();
    let lower = start.to_ascii_lowercase();
    if start.is_empty() {
        Invalid::Text
    } else if ["<!doctype html", "<html", "<head", "<body"].iter().any(|tag| lower.starts_with(tag)) {
        Invalid::Html
    } else if start.starts_with('<') {
        if lower.contains("<html") { Invalid::Html } else { Invalid::Xml }
    } else if start.starts_with(['{', '[']) {
        Invalid::Json
    } else {
        Invalid::Text
    }
}
