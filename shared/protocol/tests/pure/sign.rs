//! Signatures of handoffs.

use crate::arbitrary::handoff;
use crate::fixtures::{cases, job_key, lane, token};
use glassline_protocol::ids::LaneName;
use glassline_protocol::message::{Handoff, Message};
use glassline_protocol::provider::Media;
use glassline_protocol::sign::{MIN_SECRET_BYTES, Secret, Secrets};
use proptest::prelude::*;
use serde_json::{Value, json};

fn secrets(current: &str, previous: Option<&str>) -> Secrets {
    let secret = |text: &str| Secret::new(text.as_bytes()).unwrap();
    Secrets { current: secret(current), previous: previous.map(secret) }
}

fn ours() -> Secrets {
    secrets("0123456789abcdef", None)
}

fn unsigned() -> Handoff {
    Handoff {
        parent: job_key().parent,
        member: job_key().member,
        lane: lane(),
        attempt: 3,
        token: token(1),
        slot: 4,
        prompt: "a pear".into(),
        params: json!({"steps": 30, "scale": 7.5}),
        media: Media::Image,
        mac: String::new(),
    }
}

/// The signature of a handoff, computed apart from the code: HMAC-SHA256 over the parts, each after its length as eight
/// bytes. With Python's standard library:
///
/// ```python
/// import hashlib, hmac
/// sha = lambda text: hashlib.sha256(text.encode()).hexdigest()
/// parts = ["glassline-handoff-1", "POST#p1/SHOT#s1", "luma", "3", "01" * 16, "4", "image", sha("a pear"),
///          sha('{"scale":7.5,"steps":30}')]
/// data = b"".join(len(p).to_bytes(8, "big") + p.encode() for p in parts)
/// hmac.new(b"0123456789abcdef", data, "sha256").hexdigest()
/// ```
const MAC: &str = "fa7a007035068e06220b2d861f53065ea8a45a090a2b2c9d0f17e93f1eef4dd9";

#[test]
fn the_signature_is_what_it_is_said_to_be() {
    assert_eq!(ours().sign(unsigned()).mac, MAC);
    assert!(ours().verify(&Handoff { mac: MAC.into(), ..unsigned() }));
}

/// One change of each field that is signed. A new field doesn't compile here until it is changed, too.
fn changes(handoff: &Handoff) -> Vec<Handoff> {
    let Handoff {
        parent: _,
        member: _,
        lane: _,
        attempt,
        token: _,
        slot,
        prompt,
        params: _,
        media: _,
        mac: _,
    } = handoff;
    let of = |change: &dyn Fn(&mut Handoff)| {
        let mut changed = handoff.clone();
        change(&mut changed);
        changed
    };
    let mut changed = vec![
        of(&|handoff| handoff.parent = "POST#p2".parse().unwrap()),
        of(&|handoff| handoff.member = "SHOT#s2".parse().unwrap()),
        of(&|handoff| handoff.lane = LaneName::new("runway").unwrap()),
        of(&|handoff| handoff.attempt = attempt.wrapping_add(1)),
        of(&|handoff| handoff.token = token(2)),
        of(&|handoff| handoff.slot = slot.wrapping_add(1)),
        of(&|handoff| handoff.prompt = format!("{prompt} ")),
        of(&|handoff| handoff.prompt = String::new()),
        of(&|handoff| handoff.media = Media::Video),
    ];
    for params in [Value::Null, json!({}), json!({"steps": 31, "scale": 7.5}), json!({"steps": 30})] {
        changed.push(of(&|handoff| handoff.params = params.clone()));
    }
    changed
}

#[test]
fn a_single_changed_field_breaks_it() {
    let signed = ours().sign(unsigned());
    assert!(ours().verify(&signed));
    for changed in changes(&signed) {
        assert!(!ours().verify(&changed), "{changed:?}");
    }
    // What moves from one field to the next isn't the same.
    let moved = Handoff { attempt: 34, slot: 4, ..signed.clone() };
    let other = Handoff { attempt: 3, slot: 44, ..signed };
    assert_ne!(ours().sign(moved).mac, ours().sign(other).mac);
}

#[test]
fn no_params_and_null_params_are_the_same_and_empty_ones_are_not() {
    let signed = ours().sign(Handoff { params: Value::Null, ..unsigned() });
    let mut body: Value = serde_json::from_str(&Message::Handoff(signed.clone()).to_body()).unwrap();
    body.as_object_mut().unwrap().remove("params");
    let Message::Handoff(read) = Message::from_body(&body.to_string()).unwrap() else { panic!("a handoff") };
    assert!(ours().verify(&read));
    assert!(!ours().verify(&Handoff { params: json!({}), ..signed }));
}

#[test]
fn the_previous_secret_verifies_during_a_rotation_and_never_signs() {
    let (old, new) = ("an old secret, 16+", "a new secret, 16+");
    let before = secrets(old, None).sign(unsigned());
    let during = secrets(new, Some(old));
    assert!(during.verify(&before), "what waits in the queue is still let in");
    let after = during.sign(unsigned());
    assert!(secrets(new, None).verify(&after), "new handoffs are signed with the new secret");
    assert!(!secrets(old, None).verify(&after));
    assert!(!secrets(new, None).verify(&before), "after the rotation the old secret is out");
}

#[test]
fn a_signature_that_is_none_is_refused() {
    let signed = ours().sign(unsigned());
    let mac = signed.mac.clone();
    assert_eq!(mac.len(), 64);
    for bad in [
        String::new(),
        "0".into(),
        mac[..63].into(),
        mac[..62].into(),
        format!("{mac}00"),
        format!("{mac}{mac}"),
        format!(" {mac}"),
        format!("{mac}\n"),
        format!("0x{}", &mac[..62]),
        "g".repeat(64),
        "0".repeat(64),
        "é".repeat(32),
        "\u{0}".repeat(64),
        "x".repeat(1_000_000),
    ] {
        assert!(!ours().verify(&Handoff { mac: bad.clone(), ..signed.clone() }), "{} bytes", bad.len());
    }
    for at in 0..64 {
        let mut bytes = mac.clone().into_bytes();
        bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
        let changed = String::from_utf8(bytes).unwrap();
        assert!(!ours().verify(&Handoff { mac: changed, ..signed.clone() }), "digit {at}");
    }
}

#[test]
fn a_short_secret_is_refused_and_none_prints() {
    assert!(Secret::new(vec![7; MIN_SECRET_BYTES]).is_some());
    for bytes in [0, 1, MIN_SECRET_BYTES - 1] {
        assert!(Secret::new(vec![7; bytes]).is_none(), "{bytes} bytes");
    }
    let print = format!("{:?}", secrets("SECRETSECRETSECRET", Some("SECRETSECRETSECRET")));
    assert!(!print.contains("SECRET"), "{print}");
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn a_handoff_verifies_after_its_way_through_the_queue(handoff in handoff()) {
        let signed = ours().sign(handoff);
        prop_assert!(ours().verify(&signed));
        let body = Message::Handoff(signed.clone()).to_body();
        let Ok(Message::Handoff(read)) = Message::from_body(&body) else { panic!("a handoff: {body}") };
        prop_assert!(ours().verify(&read));
        prop_assert!(!secrets("another secret, long", None).verify(&read));
    }

    #[test]
    fn any_change_of_a_random_handoff_breaks_it(first in handoff(), second in handoff()) {
        let signed = ours().sign(first);
        let taken = Handoff { mac: signed.mac.clone(), ..second };
        prop_assert_eq!(ours().verify(&taken), taken == signed);
        for changed in changes(&signed).into_iter().filter(|changed| *changed != signed) {
            prop_assert!(!ours().verify(&changed), "{:?}", changed);
        }
    }
}

#[test]
fn only_a_secret_in_force_is_admitted() {
    let secret = |text: &str| Secret::new(text).unwrap();
    let (current, previous) = ("the current secret", "the previous secret");
    let both = Secrets { current: secret(current), previous: Some(secret(previous)) };
    let one = Secrets { current: secret(current), previous: None };
    for (text, by_both, by_one) in [
        (current, true, true),
        (previous, true, false),
        ("the current secre", false, false),
        ("the current secret ", false, false),
        ("The current secret", false, false),
        ("", false, false),
    ] {
        assert_eq!((both.admit(text.as_bytes()), one.admit(text.as_bytes())), (by_both, by_one), "{text}");
    }
}
