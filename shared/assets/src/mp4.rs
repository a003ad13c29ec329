//! MP4 and QuickTime: the boxes must fill the file exactly, and the index must describe a film that lies within it.
//!
//! Only the index (`moov`) is read; a parser hardened in a browser (`mp4parse`) takes it apart.

use crate::config::Limits;
use crate::sniff::Kind;
use crate::validate::{Facts, Invalid, Unfit};
use mp4parse::{MediaContext, SampleEntry, Track, TrackType};
use std::io::{Cursor, Read, Seek, SeekFrom};

/// How many boxes a file may have at its top level: a film in fragments of a second has two for each.
const BOXES_MAX: u32 = 200_000;

/// What the walk along the top-level boxes finds.
#[derive(Default)]
struct Walk {
    /// The first `moov` box, header included.
    index: Option<Vec<u8>>,
    /// The number of fragments (`moof`) with media data after them.
    fragments: u32,
    /// Whether the last fragment still waits for its media data.
    open_fragment: bool,
}

/// Judges an MP4 or QuickTime file of `size_bytes` bytes.
pub(crate) fn check<R: Read + Seek>(
    reader: &mut R,
    size_bytes: u64,
    kind: Kind,
    limits: &Limits,
) -> Result<Facts, Unfit> {
    let walk = walk(reader, size_bytes, limits)?;
    let index = walk.index.ok_or(Invalid::NoIndex)?;
    let media =
        mp4parse::read_mp4(&mut Cursor::new(&index)).map_err(|error| Invalid::corrupt("MP4", error))?;
    let film = media
        .tracks
        .iter()
        .find(|track| track.track_type == TrackType::Video)
        .ok_or(Invalid::NoVideoTrack)?;
    let mut chunks = 0;
    for track in &media.tracks {
        let counted = check_chunks(track, size_bytes)?;
        if track.track_type == TrackType::Video {
            chunks += counted;
        }
    }
    if walk.open_fragment {
        return Err(Invalid::Truncated("MP4").into());
    }
    let fragmented = media.mvex.is_some() && walk.fragments > 0;
    if chunks == 0 && !fragmented {
        return Err(Invalid::NoFrames.into());
    }
    let (width_px, height_px) = size(film);
    // The index of a film in fragments doesn't tell.
    let frames = if fragmented { None } else { frames(film) };
    Ok(Facts { kind, width_px, height_px, duration_ms: duration_ms(&media, film), frames })
}

/// Checks that the boxes of a file fill it exactly; returns whether a film's index is among them.
pub(crate) fn whole<R: Read + Seek>(reader: &mut R, size_bytes: u64, limits: &Limits) -> Result<bool, Unfit> {
    Ok(walk(reader, size_bytes, limits)?.index.is_some())
}

fn walk<R: Read + Seek>(reader: &mut R, size_bytes: u64, limits: &Limits) -> Result<Walk, Unfit> {
    let mut found = Walk::default();
    let (mut at, mut boxes) = (0u64, 0);
    while at < size_bytes {
        boxes += 1;
        if boxes > BOXES_MAX {
            return Err(Invalid::corrupt("MP4", "it has too many boxes").into());
        }
        let (name, size) = header(reader, at, size_bytes)?;
        match &name {
            b"moov" if found.index.is_none() => {
                if size > limits.index_max_bytes {
                    return Err(Invalid::TooLarge("index").into());
                }
                reader.seek(SeekFrom::Start(at))?;
                let mut index = Vec::new();
                reader.by_ref().take(size).read_to_end(&mut index)?;
                found.index = Some(index);
            }
            b"moof" => found.open_fragment = true,
            b"mdat" if found.open_fragment => {
                found.fragments += 1;
                found.open_fragment = false;
            }
            _ => {}
        }
        at += size;
    }
    Ok(found)
}

/// The name and the size in bytes of the box at `at`, which must end within the file.
fn header<R: Read + Seek>(reader: &mut R, at: u64, size_bytes: u64) -> Result<([u8; 4], u64), Unfit> {
    let left = size_bytes - at;
    if left < 8 {
        return Err(Invalid::Truncated("MP4").into());
    }
    reader.seek(SeekFrom::Start(at))?;
    let (mut size, mut name) = ([0; 4], [0; 4]);
    reader.read_exact(&mut size)?;
    reader.read_exact(&mut name)?;
    let (size, least) = match u32::from_be_bytes(size) {
        // The box reaches to the end of the file.
        0 => (left, 8),
        1 if left < 16 => return Err(Invalid::Truncated("MP4").into()),
        1 => {
            let mut large = [0; 8];
            reader.read_exact(&mut large)?;
            (u64::from_be_bytes(large), 16)
        }
        size => (u64::from(size), 8),
    };
    if size < least {
        return Err(Invalid::corrupt("MP4", "a box is smaller than its header").into());
    }
    if size > left {
        return Err(Invalid::Truncated("MP4").into());
    }
    Ok((name, size))
}

/// Checks that a track's data lies within the file, and counts its chunks: a file cut within a media box that reaches
/// "to the end" shows only here.
fn check_chunks(track: &Track, size_bytes: u64) -> Result<usize, Invalid> {
    let (Some(chunks), Some(layout), Some(sizes)) = (&track.stco, &track.stsc, &track.stsz) else {
        return Ok(0);
    };
    let mut runs = layout.samples.iter().peekable();
    let mut samples = sizes.sample_sizes.iter();
    let (mut per_chunk, mut number) = (0, 0u32);
    for start in &chunks.offsets {
        number = number.saturating_add(1);
        while let Some(run) = runs.next_if(|run| run.first_chunk <= number) {
            per_chunk = run.samples_per_chunk;
        }
        // Where all samples have one size, the last chunk may hold fewer of them than the layout says.
        let held: u64 = match sizes.sample_size {
            0 => samples.by_ref().take(per_chunk as usize).map(|size| u64::from(*size)).sum(),
            one => u64::from(one),
        };
        if start.saturating_add(held) > size_bytes {
            return Err(Invalid::Truncated("MP4"));
        }
    }
    Ok(chunks.offsets.len())
}

/// The number of frames that the track's table of times has.
fn frames(film: &Track) -> Option<u64> {
    let runs = film.stts.as_ref()?.samples.iter();
    Some(runs.map(|run| u64::from(run.sample_count)).sum()).filter(|frames| *frames > 0)
}

fn size(film: &Track) -> (Option<u32>, Option<u32>) {
    // The header's size is what is shown, as a 16.16 fixed-point number.
    let shown = film.tkhd.as_ref().map(|header| (header.width >> 16, header.height >> 16));
    let coded = film.stsd.as_ref().and_then(|entries| match entries.descriptions.first() {
        Some(SampleEntry::Video(entry)) => Some((u32::from(entry.width), u32::from(entry.height))),
        Some(SampleEntry::Audio(_) | SampleEntry::Unknown) | None => None,
    });
    match shown.filter(|(width, height)| *width > 0 && *height > 0).or(coded) {
        Some((width, height)) => (Some(width), Some(height)),
        None => (None, None),
    }
}

fn duration_ms(media: &MediaContext, film: &Track) -> Option<u64> {
    let scaled = |time: u64, per_second: u64| {
        let ms = u128::from(time) * 1000 / u128::from(per_second.max(1));
        u64::try_from(ms).ok().filter(|ms| *ms > 0)
    };
    let track = match (&film.duration, &film.timescale) {
        (Some(time), Some(per_second)) => scaled(time.0, per_second.0),
        (Some(_), None) | (None, _) => None,
    };
    // In a film of fragments the track's own duration is that of no fragment.
    track.or_else(|| {
        let time = media.mvex.as_ref()?.fragment_duration?;
        scaled(time.0, media.timescale.as_ref()?.0)
    })
}
