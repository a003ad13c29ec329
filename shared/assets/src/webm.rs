//! WebM: the elements must fill the file, and its tracks must hold a film.
//!
//! The file is walked here, without reading its media. Its header, `Info` and `Tracks` are then copied into a small
//! file of their own for a Matroska parser: it never sees the rest, so its work and memory stay bounded.

use crate::config::Limits;
use crate::sniff::Kind;
use crate::validate::{Facts, Invalid, Unfit};
use matroska_demuxer::{MatroskaFile, TrackType};
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};

// Element ids, with their length marks: https://www.rfc-editor.org/rfc/rfc9559.html#name-matroska-schema
const EBML: u32 = 0x1a45_dfa3;
const SEGMENT: u32 = 0x1853_8067;
const INFO: u32 = 0x1549_a966;
const TRACKS: u32 = 0x1654_ae6b;
const CLUSTER: u32 = 0x1f43_b675;
/// The other elements that stand directly in a segment, and so end a cluster of unknown size.
const OTHERS: [u32; 5] = [0x114d_9b74, 0x1c53_bb6b, 0x1941_a469, 0x1043_a770, 0x1254_c367];

/// How many elements are walked: an hour of film and sound with every block on its own has 400,000.
const ELEMENTS_MAX: u32 = 4_000_000;
/// The longest EBML header.
const HEADER_MAX_BYTES: u64 = 4096;

struct Element {
    id: u32,
    /// Where its content starts.
    start: u64,
    /// Where its content ends; `None` if it is of unknown size.
    end: Option<u64>,
}

struct Walker<'r, R> {
    reader: BufReader<&'r mut R>,
    at: u64,
    elements: u32,
}

/// Judges a WebM file of `size_bytes` bytes.
pub(crate) fn check<R: Read + Seek>(
    reader: &mut R,
    size_bytes: u64,
    limits: &Limits,
) -> Result<Facts, Unfit> {
    reader.seek(SeekFrom::Start(0))?;
    let mut walker = Walker { reader: BufReader::new(reader), at: 0, elements: 0 };
    let header = walker.next(size_bytes)?;
    let header = walker.content(&header, HEADER_MAX_BYTES)?;
    let segment = loop {
        if walker.at >= size_bytes {
            return Err(Invalid::Truncated("WebM").into());
        }
        let element = walker.next(size_bytes)?;
        match (element.id, element.end) {
            (SEGMENT, _) => break element,
            (_, Some(end)) => walker.skip_to(end)?,
            (_, None) => return Err(Invalid::corrupt("WebM", "an element of unknown size").into()),
        }
    };
    let (info, tracks, clusters) = walk_segment(&mut walker, segment.end.unwrap_or(size_bytes), limits)?;
    let (Some(info), Some(tracks)) = (info, tracks) else { return Err(Invalid::NoIndex.into()) };
    let facts = read_index(&header, &info, &tracks)?;
    if clusters == 0 { Err(Invalid::NoFrames.into()) } else { Ok(facts) }
}

type Index = (Option<Vec<u8>>, Option<Vec<u8>>, u64);

/// Walks the elements of a segment up to `end`; returns the contents of `Info` and `Tracks` and the number of clusters.
fn walk_segment<R: Read + Seek>(
    walker: &mut Walker<'_, R>,
    end: u64,
    limits: &Limits,
) -> Result<Index, Unfit> {
    let (mut info, mut tracks, mut clusters) = (None, None, 0);
    let mut in_cluster = false;
    while walker.at < end {
        let element = walker.next(end)?;
        let top = [INFO, TRACKS, CLUSTER].contains(&element.id) || OTHERS.contains(&element.id);
        // What is no element of the segment itself belongs to the cluster of unknown size before it.
        in_cluster = in_cluster && !top;
        match (element.id, element.end) {
            (CLUSTER, None) => {
                clusters += 1;
                in_cluster = true;
            }
            (_, None) => return Err(Invalid::corrupt("WebM", "an element of unknown size").into()),
            (CLUSTER, Some(end)) => {
                clusters += u64::from(end > element.start);
                walker.skip_to(end)?;
            }
            (INFO, Some(_)) if info.is_none() => {
                info = Some(walker.content(&element, limits.index_max_bytes)?);
            }
            (TRACKS, Some(_)) if tracks.is_none() => {
                tracks = Some(walker.content(&element, limits.index_max_bytes)?);
            }
            (_, Some(end)) => walker.skip_to(end)?,
        }
    }
    Ok((info, tracks, clusters))
}

impl<R: Read + Seek> Walker<'_, R> {
    /// Reads the head of the next element, which must end before `limit`.
    fn next(&mut self, limit: u64) -> Result<Element, Unfit> {
        self.elements += 1;
        if self.elements > ELEMENTS_MAX {
            return Err(Invalid::corrupt("WebM", "it has too many elements").into());
        }
        let id = self.number(limit, 4, false)?;
        let id = u32::try_from(id.unwrap_or(0)).unwrap_or(0);
        let size = self.number(limit, 8, true)?;
        let start = self.at;
        let end = match size {
            Some(size) => {
                Some(start.checked_add(size).filter(|end| *end <= limit).ok_or(Invalid::Truncated("WebM"))?)
            }
            None => None,
        };
        Ok(Element { id, start, end })
    }

    /// Reads a number of variable length; `None` if all its bits are set, which stands for "unknown".
    fn number(&mut self, limit: u64, length_max: u32, unmark: bool) -> Result<Option<u64>, Unfit> {
        let first = self.byte(limit)?;
        let length = first.leading_zeros() + 1;
        if length > length_max {
            return Err(Invalid::corrupt("WebM", "a number is too long").into());
        }
        let ones = u64::MAX >> (64 - 7 * length);
        let mut number = u64::from(first);
        for _ in 1..length {
            number = (number << 8) | u64::from(self.byte(limit)?);
        }
        Ok(match number & ones {
            value if value == ones => None,
            value if unmark => Some(value),
            _ => Some(number),
        })
    }

    fn byte(&mut self, limit: u64) -> Result<u8, Unfit> {
        if self.at >= limit {
            return Err(Invalid::Truncated("WebM").into());
        }
        let mut byte = [0];
        self.reader.read_exact(&mut byte)?;
        self.at += 1;
        let [byte] = byte;
        Ok(byte)
    }

    fn skip_to(&mut self, end: u64) -> Result<(), Unfit> {
        let distance = end.saturating_sub(self.at);
        // Keeps what is buffered where it can: most elements are small.
        self.reader.seek_relative(i64::try_from(distance).unwrap_or(i64::MAX))?;
        self.at = end;
        Ok(())
    }

    fn content(&mut self, element: &Element, limit_bytes: u64) -> Result<Vec<u8>, Unfit> {
        let size = match element.end {
            Some(end) => end - element.start,
            None => return Err(Invalid::corrupt("WebM", "an element of unknown size").into()),
        };
        if size > limit_bytes {
            return Err(Invalid::TooLarge("index").into());
        }
        let mut content = Vec::new();
        self.reader.by_ref().take(size).read_to_end(&mut content)?;
        self.at += size;
        Ok(content)
    }
}

/// Reads the facts from the contents of the EBML header, `Info` and `Tracks`.
fn read_index(header: &[u8], info: &[u8], tracks: &[u8]) -> Result<Facts, Invalid> {
    let mut excerpt = Vec::new();
    put(&mut excerpt, EBML, header);
    let mut segment = Vec::new();
    put(&mut segment, INFO, info);
    put(&mut segment, TRACKS, tracks);
    put(&mut segment, CLUSTER, &[]);
    put(&mut excerpt, SEGMENT, &segment);
    let file = MatroskaFile::open(Cursor::new(excerpt)).map_err(|error| Invalid::corrupt("WebM", error))?;
    if file.ebml_header().doc_type().trim_end_matches('\0') != "webm" {
        return Err(Invalid::Unsupported("Matroska other than WebM"));
    }
    let film = file.tracks().iter().find(|track| track.track_type() == TrackType::Video);
    let video = film.and_then(|track| track.video()).ok_or(Invalid::NoVideoTrack)?;
    let pixels = |count: std::num::NonZeroU64| Some(u32::try_from(count.get()).unwrap_or(u32::MAX));
    Ok(Facts {
        kind: Kind::Webm,
        width_px: pixels(video.pixel_width()),
        height_px: pixels(video.pixel_height()),
        duration_ms: duration_ms(file.info().duration(), file.info().timestamp_scale().get()),
        // Only its blocks would tell, and they aren't read.
        frames: None,
    })
}

/// Appends an element with a size of eight bytes.
fn put(out: &mut Vec<u8>, id: u32, content: &[u8]) {
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(&((1u64 << 56) | content.len() as u64).to_be_bytes());
    out.extend_from_slice(content);
}

/// Milliseconds of a duration in ticks of `scale_ns` nanoseconds.
fn duration_ms(ticks: Option<f64>, scale_ns: u64) -> Option<u64> {
    let ms = ticks? * scale_ns as f64 / 1e6;
    // Beyond 2^53 a float no longer counts in ones; no film is that long.
    if (1.0..9_007_199_254_740_992.0).contains(&ms) {
        #[allow(clippy::cast_possible_truncation)] // checked just above
        let whole = ms as u64;
        Some(whole)
    } else {
        None
    }
}
