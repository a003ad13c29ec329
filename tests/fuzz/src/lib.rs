//! What a fuzzer calls: everything that reads bytes from outside, with what must be true of any answer. A fault is a
//! panic. The test of this crate runs it on mutated seeds, bounded; `fuzz/` runs it under cargo-fuzz for as long as one
//! likes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a panic is how a fuzzer is told of a fault"
)]

mod callback;

pub use callback::callback;

use glassline_assets::Limits;
use glassline_assets::validate::{Unfit, validate};
use glassline_protocol::intake::parse_submissions;
use glassline_protocol::message::Message;
use glassline_protocol::provider::Media;
use std::io::Cursor;

/// Messages between functions, and posts and stories of producers.
pub fn payload(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(message) = Message::from_body(text) {
        let again = Message::from_body(&message.to_body());
        assert_eq!(again.as_ref(), Ok(&message), "what is read can be sent on and is read the same");
    }
    let read = parse_submissions(text);
    assert_eq!(read, parse_submissions(text), "reading is deterministic");
}

/// Pictures and films, asked for as either. Decoders stay within small limits.
pub fn container(data: &[u8]) {
    let limits = Limits {
        image_max_bytes: 1 << 20,
        side_max_px: 1_024,
        picture_max_px: 1 << 20,
        animation_max_px: 1 << 22,
        decode_max_bytes: 16 << 20,
        index_max_bytes: 1 << 20,
        ..Limits::default()
    };
    let size_bytes = u64::try_from(data.len()).unwrap();
    for media in [Media::Image, Media::Video] {
        match validate(&mut Cursor::new(data), size_bytes, media, &limits) {
            Ok(facts) => {
                assert_eq!(facts.kind.media(), media, "what was asked for came");
                for side_px in [facts.width_px, facts.height_px].into_iter().flatten() {
                    assert!((1..=limits.side_max_px).contains(&side_px), "{side_px} px passed");
                }
            }
            Err(Unfit::Invalid(invalid)) => {
                let sentence = invalid.to_string();
                assert!(sentence.len() < 300 && !sentence.contains(['\n', '\u{1b}']), "{sentence}");
            }
            Err(Unfit::Io(error)) => {
                panic!("bytes in memory can be read, so this is the file's fault, not the disk's: {error}")
            }
        }
    }
}
