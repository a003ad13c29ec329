//! Random values of the protocol's types, within their rules.

use glassline_protocol::ids::{Id, JobKey, LaneName, MemberKey, ParentKey, Receipt, Run, TaskId, Token};
use glassline_protocol::message::{
    Check, CheckCause, Finish, FreedSlot, Handoff, Message, Qa, Rollback, RollbackCause, Subject, Wake,
};
use glassline_protocol::provider::{ErrorClass, Media, Output};
use proptest::prelude::*;
use serde_json::{Map, Value};

pub(crate) fn id() -> impl Strategy<Value = Id> {
    "[A-Za-z0-9._-]{1,64}".prop_map(|text| Id::new(text).unwrap())
}

pub(crate) fn lane() -> impl Strategy<Value = LaneName> {
    "[A-Za-z0-9._-]{1,64}".prop_map(|text| LaneName::new(text).unwrap())
}

pub(crate) fn token() -> impl Strategy<Value = Token> {
    "[0-9a-f]{8,64}".prop_map(|text| Token::new(text).unwrap())
}

pub(crate) fn run() -> impl Strategy<Value = Run> {
    "[0-9a-f]{8,64}".prop_map(|text| Run::new(text).unwrap())
}

pub(crate) fn receipt() -> impl Strategy<Value = Receipt> {
    "[0-9a-f]{8,64}".prop_map(|text| Receipt::new(text).unwrap())
}

pub(crate) fn task() -> impl Strategy<Value = TaskId> {
    "[!-~]{1,256}".prop_map(|text| TaskId::new(text).unwrap())
}

/// Any text that may stand in JSON or the table: controls, quotes, every plane.
pub(crate) fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<char>(), 0..40).prop_map(|chars| chars.into_iter().collect())
}

pub(crate) fn media() -> impl Strategy<Value = Media> {
    prop_oneof![Just(Media::Image), Just(Media::Video)]
}

pub(crate) fn class() -> impl Strategy<Value = ErrorClass> {
    prop_oneof![
        Just(ErrorClass::Throttled),
        Just(ErrorClass::Transient),
        Just(ErrorClass::InvalidInput),
        Just(ErrorClass::Moderated),
        Just(ErrorClass::PaymentRequired),
        Just(ErrorClass::Unauthorized),
        Just(ErrorClass::BadOutput),
    ]
}

pub(crate) fn job_key() -> impl Strategy<Value = JobKey> {
    prop_oneof![
        (id(), id()).prop_map(|(post, shot)| JobKey::shot(post, shot)),
        (id(), 1..=u32::MAX, 1..=u8::MAX).prop_map(|(series, number, frame)| JobKey {
            parent: ParentKey::Episode { series, number },
            member: MemberKey::Frame(frame),
        }),
    ]
}

/// Any JSON, a few levels deep; floats included, for they must survive on the way to the provider.
pub(crate) fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no such number", |float| float.is_finite()).prop_map(Value::from),
        // Sliders and scales: many digits near 1.
        (0.0f64..2.0).prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map(text(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

pub(crate) fn params() -> impl Strategy<Value = Option<Map<String, Value>>> {
    let object = proptest::collection::btree_map(text(), json(), 0..5)
        .prop_map(|map| map.into_iter().collect::<Map<String, Value>>());
    proptest::option::of(object)
}

pub(crate) fn prompt() -> impl Strategy<Value = String> {
    text().prop_map(|text| format!("a pear {text}"))
}

prop_compose! {
    pub(crate) fn handoff()(
        job in job_key(),
        lane in lane(),
        token in token(),
        (attempt, slot) in any::<(u32, u32)>(),
        prompt in prompt(),
        params in params(),
        media in media(),
        mac in "[0-9a-f]{0,64}",
    ) -> Handoff {
        let params = params.map_or(Value::Null, Value::Object);
        let JobKey { parent, member } = job;
        Handoff { parent, member, lane, attempt, token, slot, prompt, params, media, mac }
    }
}

prop_compose! {
    pub(crate) fn subject()(
        job in job_key(),
        lane in lane(),
        attempt in any::<u32>(),
        token in token(),
    ) -> Subject {
        let JobKey { parent, member } = job;
        Subject { parent, member, lane, attempt, token }
    }
}

fn cause() -> impl Strategy<Value = CheckCause> {
    prop_oneof![
        any::<u64>().prop_map(|lease_ms| CheckCause::Chain { lease_ms }),
        Just(CheckCause::Resume),
        Just(CheckCause::Callback),
    ]
}

fn rollback_cause() -> impl Strategy<Value = RollbackCause> {
    prop_oneof![Just(RollbackCause::Unsent), Just(RollbackCause::LeaseOver), Just(RollbackCause::Held)]
}

fn output() -> impl Strategy<Value = Output> {
    (text(), any::<Option<u64>>()).prop_map(|(url, expires_ms)| Output { url, expires_ms })
}

fn qa() -> impl Strategy<Value = Qa> {
    (text(), job_key(), any::<u32>(), text(), text(), text()).prop_map(
        |(outcome, job, attempt, location, sha256, content_type)| Qa {
            outcome,
            job,
            attempt,
            location,
            sha256,
            content_type,
        },
    )
}

/// Any message.
pub(crate) fn message() -> impl Strategy<Value = Message> {
    let freed = proptest::option::of((any::<u32>(), token()));
    prop_oneof![
        handoff().prop_map(Message::Handoff),
        (subject(), cause(), any::<u32>(), any::<u32>()).prop_map(|(subject, cause, resumes, tries)| {
            Message::Check(Check { subject, cause, resumes, tries })
        }),
        (subject(), task(), proptest::collection::vec(output(), 0..3), any::<u32>()).prop_map(
            |(subject, task, outputs, resumes)| Message::Finish(Finish { subject, task, outputs, resumes })
        ),
        (subject(), rollback_cause())
            .prop_map(|(subject, cause)| Message::Rollback(Rollback { subject, cause })),
        (lane(), freed).prop_map(|(lane, freed)| Message::Wake(Wake {
            lane,
            freed: freed.map(|(slot, token)| FreedSlot { slot, token }),
        })),
        qa().prop_map(Message::Qa),
    ]
}
