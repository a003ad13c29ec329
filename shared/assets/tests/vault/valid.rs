//! What is accepted, and that nothing less is.

use crate::fixtures::{Sample, bomb, boxes, data, png, png_claiming, samples, without_box};
use glassline_assets::Limits;
use glassline_assets::sniff::{Kind, sniff};
use glassline_assets::validate::{Facts, Invalid, Unfit, validate};
use glassline_protocol::provider::Media;
use std::io::Cursor;

fn judge(bytes: &[u8], expected: Media, limits: &Limits) -> Result<Facts, Invalid> {
    match validate(&mut Cursor::new(bytes), bytes.len() as u64, expected, limits) {
        Ok(facts) => Ok(facts),
        Err(Unfit::Invalid(why)) => Err(why),
        Err(Unfit::Io(error)) => panic!("memory can be read: {error}"),
    }
}

fn code(bytes: &[u8], expected: Media) -> &'static str {
    judge(bytes, expected, &Limits::default()).unwrap_err().code()
}

#[test]
fn whole_files_are_accepted_with_their_facts() {
    for sample in samples() {
        let facts = judge(&sample.bytes, sample.kind.media(), &Limits::default());
        let facts = facts.unwrap_or_else(|why| panic!("{}: {why}", sample.name));
        assert_eq!(facts.kind, sample.kind, "{}", sample.name);
        assert_eq!(
            (facts.width_px, facts.height_px),
            (Some(sample.size.0), Some(sample.size.1)),
            "{}",
            sample.name
        );
        assert_eq!(facts.duration_ms, sample.duration_ms, "{}", sample.name);
        assert_eq!(facts.frames, sample.frames, "{}", sample.name);
    }
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    for sample in samples() {
        // Between two fragments, or two clusters of unknown length, a cut can't be seen: the format has no end mark.
        let open_ended = ["mp4 in fragments", "live webm"].contains(&sample.name);
        let mut passed = Vec::new();
        for cut in 0..sample.bytes.len() {
            if let Ok(facts) = judge(&sample.bytes[..cut], sample.kind.media(), &Limits::default()) {
                assert_eq!(facts.kind, sample.kind);
                passed.push(cut);
            }
        }
        if open_ended {
            assert!(passed.len() * 50 < sample.bytes.len(), "{}: {passed:?}", sample.name);
        } else {
            assert!(
                passed.is_empty(),
                "{} of {} bytes passes when cut at {passed:?}",
                sample.name,
                sample.bytes.len()
            );
        }
    }
}

#[test]
fn a_picture_whose_rest_is_zeros_is_refused() {
    // WebP has neither checksums nor an end mark: zeros within its length are data like any other.
    for sample in
        samples().into_iter().filter(|sample| matches!(sample.kind, Kind::Png | Kind::Jpeg | Kind::Gif))
    {
        for part in 2..10 {
            let mut bytes = sample.bytes.clone();
            let start = bytes.len() * part / 10;
            bytes[start..].fill(0);
            let judged = judge(&bytes, Media::Image, &Limits::default());
            assert!(judged.is_err(), "{} from {part}/10", sample.name);
        }
    }
}

#[test]
fn an_avif_that_claims_a_great_size_is_refused() {
    let whole = data!("still.avif");
    // Another first brand with `avif` among the compatible ones is AVIF too.
    let mut other = whole.clone();
    other[8..12].copy_from_slice(b"mif1");
    assert_eq!(judge(&other, Media::Image, &Limits::default()).unwrap().kind, Kind::Avif);
    // The bitstream's header counts, whatever the container says of the size.
    let mut claiming = whole.clone();
    let extents = whole.windows(4).position(|part| part == b"ispe").unwrap() + 8;
    claiming[extents..extents + 4].copy_from_slice(&u32::MAX.to_be_bytes());
    let judged = judge(&claiming, Media::Image, &Limits::default());
    assert!(judged.is_err() || judged.unwrap().width_px == Some(64));
    let without = without_box(&whole, "mdat");
    assert!(judge(&without, Media::Image, &Limits::default()).is_err());
    assert!(judge(&without_box(&whole, "meta"), Media::Image, &Limits::default()).is_err());
}

#[test]
fn a_jpeg_with_undecodable_data_is_refused() {
    let whole = data!("baseline.jpg");
    let scan = whole.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap() + 16;
    let damaged = (scan..whole.len() - 32).filter(|at| {
        let mut bytes = whole.clone();
        bytes[*at..*at + 24].fill(0xfe);
        judge(&bytes, Media::Image, &Limits::default()).is_err()
    });
    // Not all damage leads to codes that don't exist; a lenient decoder refuses next to none of it.
    assert!(damaged.count() > 100);
}

#[test]
fn bytes_after_the_end_of_a_picture_are_allowed() {
    // An AVIF file is a row of boxes, as a film is: what follows the last one would have to be one too.
    let ending = |sample: &Sample| sample.kind.media() == Media::Image && sample.kind != Kind::Avif;
    for mut sample in samples().into_iter().filter(ending) {
        sample.bytes.extend_from_slice(b"appended");
        assert!(judge(&sample.bytes, Media::Image, &Limits::default()).is_ok(), "{}", sample.name);
    }
}

#[test]
fn what_is_no_media_is_named() {
    let cases: [(&[u8], &str); 21] = [
        (b"", "empty"),
        (b"<!DOCTYPE html><p>Sign in</p>", "html"),
        (b"\n\n  <HTML><body>", "html"),
        (b"<!-- page --><html>", "html"),
        (b"\xef\xbb\xbf<!doctype html>", "html"),
        (b"{\"error\":\"not ready\"}", "json"),
        (b" [1,2]", "json"),
        (b"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "xml"),
        (b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>", "xml"),
        (b"Gateway timeout", "text"),
        (b"   ", "text"),
        (b"\0\0\0\0", "unknown_type"),
        (b"\xff\xd8", "unknown_type"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "unknown_type"),
        (b"PK\x03\x04\x14\0", "unknown_type"),
        (b"\x1f\x8b\x08\0\0\0\0\0", "unknown_type"),
        (b"BM\x46\0\0\0\0\0\0\0", "unknown_type"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "unsupported_type"),
        (b"RIFF\x24\0", "truncated"),
        (b"\x89PNG\r\n\x1a\n", "truncated"),
        (b"GIF89a", "truncated"),
    ];
    for (bytes, expected) in cases {
        assert_eq!(code(bytes, Media::Image), expected, "{}", String::from_utf8_lossy(bytes));
    }
    let heif =
        data!("still.avif").iter().map(|byte| if *byte == b'v' { b'x' } else { *byte }).collect::<Vec<_>>();
    let heif = [b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", &heif[32..]].concat();
    assert_eq!(code(&heif, Media::Image), "unsupported_type");
    // A text cut within a character is a text still.
    let text = "é".repeat(400);
    assert_eq!(sniff(&text.as_bytes()[..511]), Err(Invalid::Text));
}

#[test]
fn the_wrong_medium_is_refused() {
    for sample in samples() {
        let other = match sample.kind.media() {
            Media::Image => Media::Video,
            Media::Video => Media::Image,
        };
        assert_eq!(code(&sample.bytes, other), "wrong_media", "{}", sample.name);
    }
}

#[test]
fn films_without_a_film_are_refused() {
    assert_eq!(code(&data!("sound.m4a"), Media::Video), "no_video_track");
    assert_eq!(code(&data!("sound.webm"), Media::Video), "no_video_track");
    assert_eq!(code(&data!("clip.mkv"), Media::Video), "unsupported_type");
    let clip = data!("clip.mp4");
    assert_eq!(code(&without_box(&clip, "moov"), Media::Video), "no_index");
    assert_eq!(code(&without_box(&data!("clip-faststart.mp4"), "mdat"), Media::Video), "truncated");
    let fragments = data!("clip-fragments.mp4");
    let (_, start, _) = boxes(&fragments).into_iter().find(|(name, ..)| name == "moof").unwrap();
    assert_eq!(code(&fragments[..start], Media::Video), "no_frames");
    let (_, start, _) = boxes(&fragments).into_iter().find(|(name, ..)| name == "mdat").unwrap();
    assert_eq!(code(&fragments[..start], Media::Video), "truncated");
}

#[test]
fn a_media_box_that_reaches_to_the_end_is_checked_against_the_index() {
    let mut clip = data!("clip-faststart.mp4");
    let (_, at, size) = boxes(&clip).into_iter().find(|(name, ..)| name == "mdat").unwrap();
    assert_eq!(at + size, clip.len(), "the media box is the last");
    clip[at..at + 4].copy_from_slice(&[0; 4]);
    assert!(judge(&clip, Media::Video, &Limits::default()).is_ok());
    clip.truncate(clip.len() - 1);
    assert_eq!(code(&clip, Media::Video), "truncated");
}

#[test]
fn decompression_bombs_are_refused_before_they_go_off() {
    assert_eq!(code(&png_claiming(60_000, 60_000), Media::Image), "too_large");
    assert_eq!(code(&png_claiming(16_385, 1), Media::Image), "too_large");
    assert_eq!(code(&png_claiming(16_384, 16_384), Media::Image), "too_large");
    assert!(judge(&png_claiming(0, 10), Media::Image, &Limits::default()).is_err());
    let bomb = bomb();
    assert!(bomb.len() < 100_000 && judge(&bomb, Media::Image, &Limits::default()).is_ok());
    for limits in [
        Limits { picture_max_px: 4096 * 4096 - 1, ..Limits::default() },
        Limits { side_max_px: 4095, ..Limits::default() },
        Limits { decode_max_bytes: 1 << 20, ..Limits::default() },
        Limits { image_max_bytes: bomb.len() as u64 - 1, ..Limits::default() },
    ] {
        assert_eq!(judge(&bomb, Media::Image, &limits).unwrap_err().code(), "too_large", "{limits:?}");
    }
}

#[test]
fn every_kind_keeps_the_limits() {
    for sample in samples() {
        let (width, height) = sample.size;
        let narrow = Limits { side_max_px: width.max(height) - 1, ..Limits::default() };
        let judged = judge(&sample.bytes, sample.kind.media(), &narrow);
        assert_eq!(judged.unwrap_err().code(), "too_large", "{}", sample.name);
        let short = match sample.kind.media() {
            Media::Image => Limits { decode_max_bytes: u64::from(width), ..Limits::default() },
            Media::Video => Limits { index_max_bytes: 32, ..Limits::default() },
        };
        let judged = judge(&sample.bytes, sample.kind.media(), &short);
        assert_eq!(judged.unwrap_err().code(), "too_large", "{}", sample.name);
    }
    for moving in [data!("moving.gif"), data!("moving.webp"), data!("moving.apng")] {
        let few = Limits { animation_max_px: 48 * 32 * 3, ..Limits::default() };
        assert_eq!(judge(&moving, Media::Image, &few).unwrap_err().code(), "too_large");
    }
}

#[test]
fn a_flipped_bit_in_the_pixels_of_a_png_is_noticed() {
    let whole = png();
    let noticed = (45..whole.len() - 16).filter(|at| {
        let mut bytes = whole.clone();
        bytes[*at] ^= 1;
        judge(&bytes, Media::Image, &Limits::default()).is_err()
    });
    assert_eq!(noticed.count(), whole.len() - 61);
}
