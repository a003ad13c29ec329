//! Batches of SQS records: each is parsed and handled on its own, and exactly those that must come again are named.

use crate::support::{HOUR_MS, claimed, message, s1, stands, take_all, world};
use glassline_aws::lambda::{handle_batch, handle_groups, records};
use glassline_aws::sqs::Redelivery;
use glassline_dispatch::{Look, looks};
use glassline_protocol::message::{FreedSlot, Message, Wake};
use glassline_protocol::note::Note;
use glassline_protocol::row::Status;
use glassline_protocol::settings::Settings;
use glassline_protocol::settle::Fault;
use glassline_tests::{Plan, World, lane_name};
use serde_json::{Value, json};
use std::sync::Mutex;

/// A record as SQS sends it to a function.
fn record(id: &str, body: &str) -> Value {
    json!({
        "messageId": id,
        "receiptHandle": format!("handle of {id}"),
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": "1764000000000",
            "SenderId": "AIDAEXAMPLE",
            "ApproximateFirstReceiveTimestamp": "1764000000001",
        },
        "messageAttributes": {},
        "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:render",
        "awsRegion": "us-east-1",
    })
}

fn without(mut record: Value, field: &str) -> Value {
    record.as_object_mut().unwrap().remove(field);
    record
}

fn with(mut record: Value, field: &str, value: Value) -> Value {
    record[field] = value;
    record
}

fn event(records: Vec<Value>) -> Value {
    json!({ "Records": records })
}

/// The identifiers of the records that must come again.
fn named(response: &Value) -> Vec<String> {
    let failures = response["batchItemFailures"].as_array().unwrap();
    let mut ids: Vec<String> =
        failures.iter().map(|failure| failure["itemIdentifier"].as_str().unwrap().to_owned()).collect();
    assert!(ids.iter().all(|id| !id.is_empty()), "an empty identifier fails the whole batch: {response}");
    ids.sort();
    ids
}

/// Every body that is not a message of ours, by a name.
fn poison() -> Vec<(&'static str, String)> {
    let wake = r#"{"v":1,"kind":"wake","lane":"a"}"#;
    let megabyte =
        |bytes: usize| format!("{{\"v\":1,\"kind\":\"wake\",\"lane\":\"{}\"}}", "x".repeat(bytes - 34));
    vec![
        ("empty", String::new()),
        ("blank", " ".into()),
        ("array", format!("[{wake}]")),
        ("number", "7".into()),
        ("null", "null".into()),
        ("boolean", "true".into()),
        ("text", "\"wake\"".into()),
        ("half", wake[..20].into()),
        ("two", format!("{wake}{wake}")),
        ("nested", serde_json::to_string(&serde_json::to_string(wake).unwrap()).unwrap()),
        ("string of array", serde_json::to_string(&format!("[{wake}]")).unwrap()),
        ("string of null", "\"null\"".into()),
        ("unknown kind", wake.replace("wake", "nap")),
        ("no kind", wake.replace("\"kind\":\"wake\",", "")),
        ("no version", wake.replace("\"v\":1,", "")),
        ("version as text", wake.replace("\"v\":1", "\"v\":\"1\"")),
        ("newer version", wake.replace("\"v\":1", "\"v\":2")),
        ("unknown field", wake.replace("\"lane\"", "\"lanes\":1,\"lane\"")),
        ("bad lane", wake.replace("\"a\"", "\"a b\"")),
        ("a megabyte", megabyte(1_048_576)),
        ("more than a megabyte", megabyte(1_048_577)),
        ("deep", format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))),
        ("control characters", "\u{0}\u{1}\u{2}".into()),
    ]
}

/// Each kind of poison between two good neighbours, and all of them together.
#[tokio::test]
async fn poison_does_not_fail_its_neighbours() {
    let good = Message::Wake(Wake { lane: lane_name("good"), freed: None }).to_body();
    let handle = async |records: Vec<Value>| {
        let handled = Mutex::new(0);
        let response = handle_batch("dispatch", crate::batch::records_of(&event(records)), &(), |_| {
            *handled.lock().unwrap() += 1;
            async { Ok(Note::Followed) }
        })
        .await
        .unwrap();
        (named(&response), *handled.lock().unwrap())
    };
    for (name, body) in poison() {
        let batch = vec![record("g1", &good), record("bad", &body), record("g2", &good)];
        assert_eq!(handle(batch).await, (vec!["bad".to_owned()], 2), "{name}");
    }
    let mut all = vec![record("g1", &good)];
    all.extend(poison().iter().enumerate().map(|(n, (_, body))| record(&format!("bad{n:02}"), body)));
    all.push(record("g2", &good));
    let expected: Vec<String> = (0..poison().len()).map(|n| format!("bad{n:02}")).collect();
    assert_eq!(handle(all).await, (expected, 2));
    assert_eq!(handle(vec![]).await, (vec![], 0));
    // A string that holds one is one.
    let stringed = serde_json::to_string(&good).unwrap();
    assert_eq!(handle(vec![record("s", &stringed)]).await, (vec![], 1));
}

fn records_of(event: &Value) -> Vec<glassline_aws::lambda::Record> {
    records(event).expect("it is a batch of records")
}

/// Records that lack what SQS always sends, or have it in another shape, spoil nobody's record but their own.
#[tokio::test]
async fn records_of_another_shape_spoil_only_themselves() {
    let good = Message::Wake(Wake { lane: lane_name("good"), freed: None }).to_body();
    let strange: Vec<(&str, Value, bool)> = vec![
        ("no attributes", without(record("odd", &good), "attributes"), true),
        ("no message attributes", without(record("odd", &good), "messageAttributes"), true),
        ("null message attributes", with(record("odd", &good), "messageAttributes", Value::Null), true),
        ("no receipt", without(record("odd", &good), "receiptHandle"), true),
        ("numbers as attributes", with(record("odd", &good), "attributes", json!({"a": 1})), true),
        ("a field of tomorrow", with(record("odd", &good), "tomorrow", json!([1])), true),
        ("no body", without(record("odd", &good), "body"), false),
        ("null body", with(record("odd", &good), "body", Value::Null), false),
        ("a number as body", with(record("odd", &good), "body", json!(7)), false),
        ("an object as body", with(record("odd", &good), "body", json!({"v": 1})), false),
    ];
    for (name, odd, is_good) in strange {
        let event = event(vec![record("g1", &good), odd, record("g2", &good)]);
        let response = handle_batch("dispatch", records_of(&event), &(), |_| async { Ok(Note::Followed) })
            .await
            .unwrap();
        let expected: Vec<String> = if is_good { vec![] } else { vec!["odd".into()] };
        assert_eq!(named(&response), expected, "{name}");
    }
}

/// A record without an id: handled as the others; if it must come again there is no way to say which, so all come again.
#[tokio::test]
async fn a_record_without_an_id_is_never_named_by_an_empty_one() {
    let good = Message::Wake(Wake { lane: lane_name("good"), freed: None }).to_body();
    for odd in [
        without(record("", &good), "messageId"),
        with(record("", &good), "messageId", Value::Null),
        record("", &good),
    ] {
        let batch = event(vec![record("g1", &good), odd.clone(), record("bad", "7")]);
        let response = handle_batch("dispatch", records_of(&batch), &(), |_| async { Ok(Note::Followed) })
            .await
            .unwrap();
        assert_eq!(named(&response), ["bad"]);
        let bad = with(odd, "body", json!("7"));
        let batch = event(vec![record("g1", &good), bad]);
        let whole = handle_batch("dispatch", records_of(&batch), &(), |_| async { Ok(Note::Followed) }).await;
        assert!(whole.is_err(), "the whole batch comes again");
    }
}

#[test]
fn what_is_no_batch_is_told_apart() {
    for other in [json!({}), json!({"source": "aws.scheduler"}), json!(null), json!([]), json!("Records")] {
        assert!(records(&other).is_none(), "{other}");
    }
    assert_eq!(records(&event(vec![])).unwrap().len(), 0);
}

/// A fault of ours in one record, of every kind.
#[tokio::test]
async fn a_handler_that_fails_or_panics_takes_no_neighbour_with_it() {
    let lanes = ["fine", "retry", "poison", "panic", "fine2"];
    let batch: Vec<Value> = lanes
        .iter()
        .map(|lane| record(lane, &Message::Wake(Wake { lane: lane_name(lane), freed: None }).to_body()))
        .collect();
    let response = handle_batch("dispatch", records_of(&event(batch.clone())), &(), |message| async move {
        let Message::Wake(wake) = message else { panic!("only wakes") };
        match wake.lane.as_str() {
            "retry" => Err(Fault::retry("not now")),
            "poison" => Err(Fault::Poison("never".into())),
            "panic" => panic!("on purpose"),
            _ => Ok(Note::Followed),
        }
    })
    .await
    .unwrap();
    assert_eq!(named(&response), ["panic", "poison", "retry"]);

    let lane = |message: &Message| match message {
        Message::Wake(wake) => Some(wake.lane.clone()),
        _ => None,
    };
    let response = handle_groups("dispatch", records_of(&event(batch)), &(), lane, |lane, _| async move {
        match lane.as_str() {
            "retry" => Err(Fault::retry("not now")),
            "poison" => Err(Fault::Poison("never".into())),
            "panic" => panic!("on purpose"),
            _ => Ok(()),
        }
    })
    .await
    .unwrap();
    assert_eq!(named(&response), ["panic", "poison", "retry"]);
}

/// Wakes are grouped by lane; poison and other queues' messages among them spoil no group.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wakes_are_grouped_and_a_group_that_fails_comes_again_whole() {
    let token = glassline_protocol::ids::Token::new("00000000000000aa").unwrap();
    let wake = |lane: &str, slot: Option<u32>| {
        let freed = slot.map(|slot| FreedSlot { slot, token: token.clone() });
        Message::Wake(Wake { lane: lane_name(lane), freed }).to_body()
    };
    let world = world("blind", 1).await;
    let handoff = message(&claimed(&world, "p1").await).to_body();
    let batch = event(vec![
        record("a0", &wake("a", Some(0))),
        record("b0", &wake("b", Some(0))),
        record("bad", "[]"),
        record("a1", &wake("a", Some(1))),
        record("a0 again", &wake("a", Some(0))),
        record("b", &wake("b", None)),
        record("handoff", &handoff),
    ]);
    let seen = Mutex::new(Vec::new());
    let lane = |message: &Message| match message {
        Message::Wake(wake) => Some(wake.lane.clone()),
        _ => None,
    };
    let response = handle_groups("dispatch", records_of(&batch), &(), lane, |lane, wakes| {
        let look = looks(wakes).remove(&lane).unwrap();
        seen.lock().unwrap().push((lane.to_string(), look));
        async move { if lane.as_str() == "a" { Err(Fault::retry("not now")) } else { Ok(()) } }
    })
    .await
    .unwrap();
    assert_eq!(named(&response), ["a0", "a0 again", "a1", "bad", "handoff"]);
    let freed = |slot| FreedSlot { slot, token: token.clone() };
    let expected = [("a".to_owned(), Look::Freed(vec![freed(0), freed(1)])), ("b".to_owned(), Look::Full)];
    assert_eq!(*seen.lock().unwrap(), expected);
}

async fn worker_batch(world: &World, batch: Vec<Value>) -> Vec<String> {
    let response = handle_batch("worker", records_of(&event(batch)), &(), |message| {
        glassline_worker::handle(&world.ports, &world.settings, &world.secrets, message)
    })
    .await
    .unwrap();
    named(&response)
}

/// The worker itself, on real engines: good handoffs, unsigned and forged ones, messages of other queues, and poison.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worker_submits_the_good_ones_of_a_batch() {
    let world = world("blind", 2).await;
    world.submit(&glassline_tests::post("p1", "blind", 2)).await;
    world.tick(&Plan::none()).await;
    let handoffs = take_all(&world, "render").await;
    assert_eq!(handoffs.len(), 2);
    let Message::Handoff(first) = &handoffs[0] else { panic!("it is a handoff") };
    let mut forged = first.clone();
    forged.prompt = "something else".into();
    let mut unsigned = first.clone();
    unsigned.mac = String::new();
    let mut batch = vec![
        record("forged", &message(&forged).to_body()),
        record("unsigned", &message(&unsigned).to_body()),
        record("good1", &handoffs[0].to_body()),
        record("wake", &Message::Wake(Wake { lane: lane_name("blind"), freed: None }).to_body()),
    ];
    batch.extend(poison().iter().enumerate().map(|(n, (_, body))| record(&format!("p{n:02}"), body)));
    batch.push(record("good2", &handoffs[1].to_body()));
    batch.push(record("good1 again", &handoffs[0].to_body()));
    let named = worker_batch(&world, batch).await;
    // The poison's megabyte of a lane's name is no wake, and a real wake is another queue's.
    let mut expected = vec!["forged".to_owned(), "unsigned".into(), "wake".into()];
    expected.extend((0..poison().len()).map(|n| format!("p{n:02}")));
    expected.sort();
    assert_eq!(named, expected);
    assert_eq!(world.sandbox.books().totals.posts, 2, "each once, the duplicate not at all");
    world.drive(&Plan::none(), 1, HOUR_MS, &["p1"]).await;
    assert_eq!(stands(&world, "p1").await, (Status::Succeeded, 1, 0));
    assert_eq!(world.renders_of(&s1("p1")), 1);
    world.check(&["p1"], true).await;
}

/// What is given back comes again after a short time, not after its queue's visibility; poison has no haste.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_back_comes_again_soon() {
    // One alone, and several in one request.
    for wakes in [1, 2] {
        let world = world("keyed", 1).await;
        let wake = Message::Wake(Wake { lane: lane_name("keyed"), freed: None }).to_body();
        for body in std::iter::repeat_n(wake.as_str(), wakes).chain(["[]"]) {
            world.engine.send("wake", glassline_sqs::Outgoing::new(body)).await.unwrap();
        }
        // 3 s after the first receive, 18 s after the second; the queue's own visibility is 30 s.
        for wait_ms in [3_000, 18_000] {
            give_back(&world, Settings { retry_base_ms: 3_000, ..Settings::default() }).await;
            world.clock.manual.advance(wait_ms - 1);
            assert_eq!(world.engine.depth("wake").await.unwrap().visible, 0, "{wait_ms}: too early");
            world.clock.manual.advance(1);
            let visible = world.engine.depth("wake").await.unwrap().visible;
            assert_eq!(visible, wakes as u64, "after {wait_ms} ms: the wakes, and not the poison");
        }
    }
}

/// Receives what is visible of the wakes and gives it back.
async fn give_back(world: &World, settings: Settings) {
    let received = world.engine.receive("wake", 10, 0, None).await.unwrap();
    let records = received.iter().map(|message| {
        let with_receipt = with(record(&message.id, &message.body), "receiptHandle", json!(message.receipt));
        let arn = json!(glassline_sqs::queue_arn("wake"));
        with(with(with_receipt, "attributes", json!(message.attributes)), "eventSourceARN", arn)
    });
    let batch = records_of(&event(records.collect()));
    let back = Redelivery { queues: &world.ports.queues, settings: &settings };
    let failing = |_| async { Err::<Note, _>(Fault::retry("not now")) };
    let response = handle_batch("dispatch", batch, &back, failing).await.unwrap();
    assert_eq!(named(&response).len(), received.len());
}
