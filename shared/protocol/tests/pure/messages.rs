//! Random messages: what is sent is what is read, and nothing secret prints.

use crate::arbitrary::message;
use crate::bodies::samples;
use crate::fixtures::{cases, job_key, lane, token};
use glassline_protocol::message::{Finish, Handoff, Message, Queue};
use glassline_protocol::ports::{Envelope, NewRow};
use glassline_protocol::provider::{Media, Output, RenderRequest, TaskState};
use glassline_protocol::row::{SpecKey, SpecRow};
use proptest::prelude::*;
use serde_json::json;

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn what_is_sent_is_what_is_read(message in message()) {
        let body = message.to_body();
        prop_assert_eq!(Message::from_body(&body), Ok(message.clone()));
        let string = serde_json::to_string(&body).unwrap();
        prop_assert_eq!(Message::from_body(&string), Ok(message), "as a string holding it");
    }

    #[test]
    fn random_text_is_refused_without_ado(text in "\\PC{0,80}") {
        prop_assert!(Message::from_body(&text).is_err());
    }

    #[test]
    fn a_message_with_bytes_changed_is_refused_or_still_a_message(
        message in message(),
        at in any::<prop::sample::Index>(),
        to in any::<char>(),
    ) {
        let mut chars: Vec<char> = message.to_body().chars().collect();
        let at = at.index(chars.len());
        chars[at] = to;
        let body: String = chars.into_iter().collect();
        if let Ok(read) = Message::from_body(&body) {
            prop_assert_eq!(Message::from_body(&read.to_body()), Ok(read));
        }
    }
}

#[test]
fn each_kind_goes_to_its_queue() {
    let queues: Vec<Queue> =
        samples().iter().map(|body| Message::from_body(&body.to_string()).unwrap().queue()).collect();
    use Queue::{Finish, Qa, Render, Rollback, Wake};
    assert_eq!(queues, [Render, Render, Render, Render, Finish, Rollback, Wake, Qa]);
    assert_eq!(
        Queue::ALL.iter().map(|queue| queue.name()).collect::<Vec<_>>(),
        ["render", "finish", "rollback", "wake", "qa"]
    );
}

/// Debug is what ends up in a log: of everything that carries a prompt, parameters, a signature, an address or a token.
#[test]
fn nothing_secret_prints() {
    let (prompt, url) = ("PROMPT of a pear".to_owned(), "https://cdn.example/x.png?sig=SIGNED".to_owned());
    let params = json!({"style": "PARAMETER"});
    let (parent, member) = (job_key().parent, job_key().member);
    let handoff = Handoff {
        parent,
        member,
        lane: lane(),
        attempt: 3,
        token: token(0xab),
        slot: 4,
        prompt: prompt.clone(),
        params: params.clone(),
        media: Media::Image,
        mac: "c0ffee".repeat(10),
    };
    let output = Output { url, expires_ms: None };
    let outputs = vec![output.clone(), output.clone()];
    let subject = handoff.subject();
    let finish = Finish { subject: subject.clone(), task: "t".parse().unwrap(), outputs, resumes: 0 };
    let spec = SpecRow {
        key: SpecKey(job_key()),
        prompt: prompt.clone(),
        params: Some(params.to_string()),
        media: Media::Image,
    };
    let request = RenderRequest { prompt, params, media: Media::Image };
    let envelope = Envelope { message: Message::Handoff(handoff.clone()), delay_ms: 0 };
    let mut prints = vec![
        format!("{subject:?}{subject:#?}"),
        format!("{handoff:?}{handoff:#?}"),
        format!("{finish:?}{finish:#?}"),
        format!("{envelope:?}{envelope:#?}"),
        format!("{:?}{:#?}", Message::Finish(finish.clone()), Message::Finish(finish)),
        format!("{output:?}{:?}", TaskState::Completed(vec![output.clone()])),
        format!("{spec:?}{spec:#?}{:?}", NewRow::Spec(spec.clone())),
        format!("{request:?}{request:#?}"),
    ];
    for body in samples() {
        let body = body.to_string().replace("0123456789abcdef0123456789abcdef", &"ab".repeat(16));
        prints.push(format!("{:?}", Message::from_body(&body).unwrap()));
    }
    for print in prints {
        for secret in ["PROMPT", "PARAMETER", "c0ffee", "SIGNED", "sig=", "abababab", "pear"] {
            assert!(!print.contains(secret), "{secret} in {print}");
        }
        assert!(print.len() > 10, "{print}");
    }
}
