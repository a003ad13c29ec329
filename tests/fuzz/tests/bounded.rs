//! A bounded run of the fuzz targets: valid seeds, cut, spliced and changed here and there.
#![allow(missing_docs, clippy::unwrap_used)]

use glassline_fuzz::{callback, container, payload};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::Config;
use std::path::Path;

fn cases(cases: u32) -> Config {
    Config { cases, failure_persistence: None, ..Config::default() }
}

/// The files that the tests of the validation take for good, or nearly.
fn files() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/assets/tests/data");
    let files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .filter(|bytes| bytes.len() < 200_000)
        .collect();
    assert!(files.len() > 15, "the seeds are there");
    files
}

fn texts() -> Vec<Vec<u8>> {
    let subject = concat!(
        r#""subject":{"parent":"POST#p1","member":"SHOT#s1","lane":"a","attempt":1,"#,
        r#""token":"0123456789abcdef0123456789abcdef"}"#
    );
    [
        format!(r#"{{"v":1,"kind":"check",{subject},"cause":{{"as":"callback"}},"resumes":0,"tries":0}}"#),
        format!(r#"{{"v":1,"kind":"finish",{subject},"task":"t1","outputs":[{{"url":"https://a/b","expires_ms":1}}],"resumes":0}}"#),
        format!(r#"{{"v":1,"kind":"rollback",{subject},"cause":"held"}}"#),
        r#"{"v":1,"kind":"wake","lane":"a","freed":{"slot":1,"token":"0123456789abcdef0123456789abcdef"}}"#.to_owned(),
        r#"{"id":"p1","lane":"a","priority":7,"shots":[{"id":"s1","prompt":"x","params":{"a":1e9},"media":"video"}]}"#.to_owned(),
        r#"[{"series":"main","key":"k","frames":["a","b","c","d"]},{"series":"main","key":"l","premise":"é"}]"#.to_owned(),
        r#"{"id":"m1","reference":"POST#p1/SHOT#s1/1","status":"succeeded","output":["https://a/b"]}"#.to_owned(),
        r#"{"status":"completed","request_id":"r1","images":[{"url":"https://a/b.png"}]}"#.to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec()
}

#[derive(Clone, Debug)]
enum Change {
    Byte(Index, u8),
    Cut(Index),
    Double(Index, Index),
    Insert(Index, Vec<u8>),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        1 => any::<Index>().prop_map(Change::Cut),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Change::Double(from, to)),
        1 => (any::<Index>(), proptest::collection::vec(any::<u8>(), 1..16))
            .prop_map(|(at, bytes)| Change::Insert(at, bytes)),
    ]
}

fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        if bytes.is_empty() {
            break;
        }
        match change {
            Change::Byte(at, byte) => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Change::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Change::Double(from, to) => {
                let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
                let piece = bytes[from.min(to)..from.max(to)].to_vec();
                bytes.splice(from..from, piece);
            }
            Change::Insert(at, piece) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, piece.clone());
            }
        }
    }
    bytes
}

fn mutated(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (select(seeds), proptest::collection::vec(change(), 0..6))
        .prop_map(|(bytes, changes)| changed(bytes, &changes))
}

/// The seeds reach what they are meant to reach; else all that follows would be fuzzed at the door.
#[test]
fn the_seeds_are_understood() {
    use glassline_protocol::intake::parse_submissions;
    use glassline_protocol::message::Message;
    let texts = texts();
    let read =
        texts.iter().filter(|text| Message::from_body(std::str::from_utf8(text).unwrap()).is_ok()).count();
    assert_eq!(read, 4, "messages");
    let submitted = texts.iter().filter(|text| {
        parse_submissions(std::str::from_utf8(text).unwrap()).is_ok_and(|all| all.iter().all(Result::is_ok))
    });
    assert_eq!(submitted.count(), 2, "posts and stories");
    texts.iter().for_each(|text| callback(text));
    files().iter().for_each(|file| container(file));
}

proptest! {
    #![proptest_config(cases(1_000))]
    #[test]
    fn payloads(data in mutated(texts())) {
        payload(&data);
    }

    #[test]
    fn callbacks(data in mutated(texts())) {
        callback(&data);
    }
}

proptest! {
    #![proptest_config(cases(1_000))]
    #[test]
    fn containers(data in mutated(files())) {
        container(&data);
    }
}
