//! Every shape that a message's body may have, kind by kind, against lists written by hand.

use glassline_protocol::body::{BadBody, MAX_BODY_BYTES};
use glassline_protocol::message::Message;
use serde_json::{Value, json};

/// One body of each kind, two of the check and the finish, as they are on the wire.
pub(crate) fn samples() -> Vec<Value> {
    let subject = json!({
        "parent": "POST#p1", "member": "SHOT#s1", "lane": "luma", "attempt": 3,
        "token": "0123456789abcdef0123456789abcdef"
    });
    let mut episode = subject.clone();
    episode["parent"] = json!("EPISODE#main#000013");
    episode["member"] = json!("FRAME#2");
    vec![
        json!({
            "v": 1, "kind": "handoff", "parent": "POST#p1", "member": "SHOT#s1", "lane": "luma", "attempt": 3,
            "token": "0123456789abcdef0123456789abcdef", "slot": 4, "prompt": "a pear on a sill",
            "params": {"steps": 30, "scale": 7.5}, "media": "image", "mac": "00ff"
        }),
        json!({
            "v": 1, "kind": "check", "subject": subject, "cause": {"as": "chain", "lease_ms": 9}, "resumes": 1,
            "tries": 2
        }),
        json!({"v": 1, "kind": "check", "subject": episode, "cause": {"as": "resume"}, "resumes": 1, "tries": 2}),
        json!({"v": 1, "kind": "check", "subject": episode, "cause": {"as": "callback"}, "resumes": 1, "tries": 2}),
        json!({
            "v": 1, "kind": "finish", "subject": subject, "task": "t-1", "resumes": 1,
            "outputs": [{"url": "https://cdn.example/a.png?sig=abc", "expires_ms": 5}]
        }),
        json!({"v": 1, "kind": "rollback", "subject": subject, "cause": "lease_over"}),
        json!({
            "v": 1, "kind": "wake", "lane": "luma",
            "freed": {"slot": 4, "token": "0123456789abcdef0123456789abcdef"}
        }),
        json!({
            "v": 1, "kind": "qa", "outcome": "POST#p1/SHOT#s1/3", "job": "POST#p1/SHOT#s1", "attempt": 3,
            "location": "p1/s1/3-00.png", "sha256": "00", "content_type": "image/png"
        }),
    ]
}

fn read(body: &Value) -> Result<Message, BadBody> {
    Message::from_body(&body.to_string())
}

fn is_poison(result: &Result<Message, BadBody>) -> bool {
    match result {
        Err(BadBody::Fields(_) | BadBody::NotJson(_) | BadBody::NotAnObject(_) | BadBody::TooLarge(_)) => {
            true
        }
        Err(BadBody::Newer(_)) | Ok(_) => false,
    }
}

/// The place of every value within a body, but for what lies within the provider's own parameters.
fn places(value: &Value, place: &str, found: &mut Vec<String>) {
    if !place.is_empty() {
        found.push(place.to_owned());
    }
    if place.ends_with("/params") {
        return;
    }
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                places(value, &format!("{place}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                places(value, &format!("{place}/{index}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn places_of(body: &Value) -> Vec<String> {
    let mut found = Vec::new();
    places(body, "", &mut found);
    found
}

fn with(body: &Value, place: &str, value: Value) -> Value {
    let mut body = body.clone();
    *body.pointer_mut(place).unwrap() = value;
    body
}

fn without(body: &Value, place: &str) -> Value {
    let mut body = body.clone();
    let (parent, name) = place.rsplit_once('/').unwrap();
    match body.pointer_mut(parent).unwrap() {
        Value::Object(object) => drop(object.remove(name)),
        Value::Array(items) => drop(items.remove(name.parse().unwrap())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            panic!("{parent} holds nothing")
        }
    }
    body
}

#[test]
fn an_object_and_a_string_holding_one_are_read_alike() {
    for body in samples() {
        let message = read(&body).unwrap();
        assert_eq!(read(&json!(body.to_string())).unwrap(), message);
        assert_eq!(Message::from_body(&format!(" \n{body:#}\t")).unwrap(), message);
        assert_eq!(serde_json::from_str::<Value>(&message.to_body()).unwrap(), body, "as it was on the wire");
    }
}

#[test]
fn every_other_shape_is_refused() {
    for body in samples() {
        for bad in [
            json!([body]),
            json!({ "message": body }),
            json!([]),
            json!(7),
            json!(null),
            json!(true),
            json!("text"),
            json!(json!(body.to_string()).to_string()),
            json!(json!([body]).to_string()),
            json!("null"),
            json!("7"),
            json!({}),
        ] {
            let result = read(&bad);
            assert!(is_poison(&result), "{bad}: {result:?}");
        }
        for cut in [0, 1, body.to_string().len() / 2, body.to_string().len() - 1] {
            let result = Message::from_body(&body.to_string()[..cut]);
            assert!(is_poison(&result), "cut at {cut}: {result:?}");
        }
        assert!(is_poison(&Message::from_body(&format!("{body}{body}"))), "two bodies in one");
    }
}

#[test]
fn an_unknown_field_is_refused_wherever_it_stands() {
    for body in samples() {
        let mut objects = vec![String::new()];
        objects.extend(places_of(&body).into_iter().filter(|place| {
            !place.ends_with("/params") && body.pointer(place).is_some_and(Value::is_object)
        }));
        for place in objects {
            let mut bad = body.clone();
            bad.pointer_mut(&place).unwrap()["surprise"] = json!(1);
            let result = read(&bad);
            assert!(is_poison(&result), "{bad}: {result:?}");
            let refusal = result.unwrap_err().to_string();
            assert!(refusal.contains("surprise"), "{refusal}");
        }
    }
}

/// Fields that may be left out; their value then, in words: none, no time, 0, none.
const MAY_BE_MISSING: [&str; 7] = ["params", "mac", "resumes", "tries", "outputs", "expires_ms", "freed"];

#[test]
fn a_missing_field_is_named() {
    for body in samples() {
        for place in places_of(&body) {
            let name = place.rsplit('/').next().unwrap();
            let result = read(&without(&body, &place));
            if MAY_BE_MISSING.contains(&name) || name.parse::<usize>().is_ok() {
                assert!(result.is_ok(), "{place} of {body}: {result:?}");
            } else {
                assert!(is_poison(&result), "{place} of {body}: {result:?}");
                let refusal = result.unwrap_err().to_string();
                assert!(refusal.contains(&format!("`{name}`")), "{place} of {body}: {refusal}");
            }
        }
    }
}

/// Whether a field takes a value. By hand; everything that isn't listed is refused.
fn fits(name: &str, value: &Value) -> bool {
    match name {
        "attempt" | "slot" | "resumes" | "tries" => *value == json!(7),
        "lease_ms" => value.is_u64(),
        "expires_ms" => value.is_u64() || value.is_null(),
        "prompt" => value.as_str().is_some_and(|text| !text.is_empty()),
        "mac" | "url" | "outcome" | "location" | "sha256" | "content_type" => value.is_string(),
        "params" => value.is_object() || value.is_null(),
        "freed" => value.is_null(),
        "outputs" => *value == json!([]),
        _ => false,
    }
}

#[test]
fn a_field_of_a_wrong_type_or_out_of_range_is_refused() {
    let values = [
        json!(null),
        json!(true),
        json!(7),
        json!(-1),
        json!(1.5),
        json!(7.0),
        json!(u64::from(u32::MAX) + 1),
        json!(1e300),
        json!(""),
        json!("\u{0}"),
        json!("two words"),
        json!("7"),
        json!("x".repeat(2_000)),
        json!([]),
        json!([[]]),
        json!({}),
        json!({"x": 1}),
    ];
    for body in samples() {
        for place in places_of(&body).into_iter().filter(|place| place != "/v") {
            let name = place.rsplit('/').next().unwrap();
            for value in &values {
                let changed = with(&body, &place, value.clone());
                // `{}` where an object is expected is that object without its fields: covered by missing fields.
                let result = read(&changed);
                let loose = ["lane", "task"].contains(&name) && *value == json!("7");
                assert_eq!(result.is_ok(), fits(name, value) || loose, "{place} of {changed}: {result:?}");
                assert!(result.is_ok() || is_poison(&result), "{place}: {result:?}");
            }
        }
    }
}

#[test]
fn a_refusal_never_quotes_what_it_refuses() {
    let secret = "SECRET https://cdn.example/a.png?sig=abc `, expected \" nothing";
    let values =
        [json!(secret), json!([secret]), json!({ "as": secret }), json!([{ "url": secret, "x": secret }])];
    for body in samples() {
        for place in places_of(&body) {
            for value in &values {
                if let Err(refusal) = read(&with(&body, &place, value.clone())) {
                    let texts = format!("{refusal} {refusal:?}");
                    assert!(!texts.contains("SECRET") && !texts.contains("sig="), "{place}: {texts}");
                    assert!(refusal.to_string().len() < 400, "{place}: {refusal}");
                }
            }
        }
        // A token that is almost one, and a field whose name isn't a word.
        let almost =
            body.to_string().replace("0123456789abcdef0123456789abcdef", "0123456789ABCDEF0123456789abcdef");
        if let Err(refusal) = Message::from_body(&almost) {
            assert!(!refusal.to_string().contains("89ABCDEF"), "{refusal}");
        }
        let mut named = body.clone();
        named[secret] = json!(1);
        let refusal = read(&named).unwrap_err().to_string();
        assert!(!refusal.contains("SECRET") && refusal.contains("unknown field"), "{refusal}");
    }
}

#[test]
fn a_newer_version_is_left_for_newer_code_whatever_else_it_holds() {
    for newer in [2, 3, u64::MAX] {
        for body in samples() {
            assert_eq!(read(&with(&body, "/v", json!(newer))), Err(BadBody::Newer(newer)));
        }
        let unknown = json!({"v": newer, "kind": "hologram", "surprise": [1]});
        assert_eq!(read(&unknown), Err(BadBody::Newer(newer)));
        assert_eq!(read(&json!(unknown.to_string())), Err(BadBody::Newer(newer)));
    }
}

#[test]
fn a_version_that_never_was_is_poison() {
    for body in samples() {
        for bad in [
            json!(0),
            json!(-1),
            json!(1.0),
            json!(1e30),
            json!("1"),
            json!("2"),
            json!(null),
            json!([1]),
            json!(true),
        ] {
            let result = read(&with(&body, "/v", bad.clone()));
            assert!(is_poison(&result), "version {bad}: {result:?}");
        }
        assert!(is_poison(&read(&without(&body, "/v"))));
    }
}

#[test]
fn a_body_of_one_kind_is_never_read_as_another() {
    let kinds = ["handoff", "check", "finish", "rollback", "wake", "qa", "Wake", "", "hologram"];
    for body in samples() {
        for kind in kinds.iter().filter(|kind| body["kind"] != **kind) {
            let result = read(&with(&body, "/kind", json!(kind)));
            assert!(is_poison(&result), "{} as {kind}: {result:?}", body["kind"]);
        }
    }
}

#[test]
fn a_posts_frame_and_an_episodes_shot_are_no_jobs() {
    let pairs = [("POST#p1", "FRAME#2"), ("EPISODE#main#000013", "SHOT#s1")];
    for body in samples() {
        for (parent, member) in pairs {
            let mut bad = body.clone();
            match bad["kind"].as_str() {
                Some("handoff") => (bad["parent"], bad["member"]) = (json!(parent), json!(member)),
                Some("qa") => bad["job"] = json!(format!("{parent}/{member}")),
                Some("wake") => continue,
                _ => {
                    bad["subject"]["parent"] = json!(parent);
                    bad["subject"]["member"] = json!(member);
                }
            }
            let result = read(&bad);
            assert!(is_poison(&result), "{bad}: {result:?}");
        }
    }
}

#[test]
fn a_megabyte_is_read_and_a_byte_more_is_not() {
    for body in samples() {
        let text = body.to_string();
        let padded = format!("{text}{}", " ".repeat(MAX_BODY_BYTES - text.len()));
        assert!(Message::from_body(&padded).is_ok());
        assert_eq!(Message::from_body(&format!("{padded} ")), Err(BadBody::TooLarge(MAX_BODY_BYTES + 1)));
    }
    // A prompt of a megabyte fits the queue and still isn't a prompt.
    let long = with(&samples()[0], "/prompt", json!("x".repeat(MAX_BODY_BYTES - 1_000)));
    let refusal = read(&long).unwrap_err().to_string();
    assert!(refusal.contains("`prompt` has 1047576 bytes") && refusal.len() < 200, "{refusal}");
    assert!(read(&with(&samples()[0], "/prompt", json!("x".repeat(32_768)))).is_ok());
    assert!(read(&with(&samples()[0], "/prompt", json!("x".repeat(32_769)))).is_err());
}

#[test]
fn deep_nesting_is_refused_without_ado() {
    for times in [200, 100_000] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let nested = format!("{}1{}", open.repeat(times), close.repeat(times));
            let within = samples()[0].to_string().replace("{\"scale\":7.5,\"steps\":30}", &nested);
            for body in [nested.clone(), within, json!(nested).to_string()] {
                let result = Message::from_body(&body);
                assert!(matches!(result, Err(BadBody::NotJson(_))), "{times} of {open}: {result:?}");
            }
        }
    }
}
