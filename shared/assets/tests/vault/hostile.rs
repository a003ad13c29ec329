//! Hostile bytes never panic, and never make a decoder run away.

use crate::fixtures::{Sample, samples};
use glassline_assets::Limits;
use glassline_assets::sniff::{Kind, sniff};
use glassline_assets::validate::validate;
use glassline_protocol::provider::Media;
use proptest::collection::vec;
use proptest::prelude::*;
use std::io::Cursor;
use std::sync::LazyLock;

static SAMPLES: LazyLock<Vec<Sample>> = LazyLock::new(samples);

fn judge(bytes: &[u8]) {
    let limits = Limits {
        picture_max_px: 1 << 20,
        animation_max_px: 4 << 20,
        decode_max_bytes: 16 << 20,
        index_max_bytes: 1 << 20,
        ..Limits::default()
    };
    let _ = sniff(bytes);
    for media in [Media::Image, Media::Video] {
        let _ = validate(&mut Cursor::new(bytes), bytes.len() as u64, media, &limits);
    }
}

#[derive(Clone, Debug)]
enum Change {
    Set(usize, Vec<u8>),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    Repeat(usize, usize),
    Cut(usize),
}

fn change() -> impl Strategy<Value = Change> {
    // Sizes and counts at their extremes find more than random bytes.
    let bytes = prop_oneof![
        vec(any::<u8>(), 1..9),
        Just(vec![0xff; 4]),
        Just(vec![0xff; 8]),
        Just(vec![0; 4]),
        Just(vec![0x7f, 0xff, 0xff, 0xff]),
        Just(vec![0, 0, 0, 1]),
        Just(vec![1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
    ];
    prop_oneof![
        6 => (any::<usize>(), bytes.clone()).prop_map(|(at, bytes)| Change::Set(at, bytes)),
        1 => (any::<usize>(), bytes).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        1 => (any::<usize>(), 1..40usize).prop_map(|(at, len)| Change::Remove(at, len)),
        1 => (any::<usize>(), 1..400usize).prop_map(|(at, len)| Change::Repeat(at, len)),
        1 => any::<usize>().prop_map(Change::Cut),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    let len = bytes.len().max(1);
    let within = |at: &usize| (at % len).min(bytes.len());
    match change {
        Change::Set(at, new) => {
            let at = within(at);
            for (old, new) in bytes[at..].iter_mut().zip(new) {
                *old = *new;
            }
        }
        Change::Insert(at, new) => {
            let at = within(at);
            bytes.splice(at..at, new.iter().copied());
        }
        Change::Remove(at, count) => {
            let at = within(at);
            let end = (at + count).min(bytes.len());
            bytes.drain(at..end);
        }
        Change::Repeat(at, count) => {
            let at = within(at);
            let part = bytes[at..(at + count).min(bytes.len())].to_vec();
            bytes.splice(at..at, part);
        }
        Change::Cut(at) => {
            let at = within(at);
            bytes.truncate(at);
        }
    }
}

const MAGICS: [&[u8]; 9] = [
    b"",
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff",
    b"GIF89a",
    b"RIFF\xf0\0\0\0WEBP",
    b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom\0\0\0\0moov",
    b"\0\0\0\x14ftypavif\0\0\0\0avif\0\0\0\xf9meta",
    b"\0\0\0\x14ftypqt  \0\0\0\0qt  ",
    b"\x1a\x45\xdf\xa3\x84\x42\x82\x81w\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(magic in 0..MAGICS.len(), rest in vec(any::<u8>(), 0..600)) {
        judge(&[MAGICS[magic], &rest].concat());
    }

    #[test]
    fn changed_files_never_panic(sample in any::<prop::sample::Index>(), changes in vec(change(), 1..6)) {
        let mut bytes = sample.get(&SAMPLES).bytes.clone();
        for change in &changes {
            apply(&mut bytes, change);
        }
        judge(&bytes);
    }
}

/// Every byte of every film's index set to both extremes: the fields of sizes, counts and offsets are all among them.
#[test]
fn extreme_fields_never_panic() {
    for sample in
        SAMPLES.iter().filter(|sample| sample.kind.media() == Media::Video || sample.kind == Kind::Avif)
    {
        for at in 0..sample.bytes.len() {
            for value in [0, 0x7f, 0xff] {
                let mut bytes = sample.bytes.clone();
                bytes[at] = value;
                judge(&bytes);
            }
        }
    }
    assert!(SAMPLES.iter().any(|sample| sample.kind == Kind::Webm));
}
