//! Intake: months, the rows of a post, and its fingerprint.

use crate::arbitrary::{id, lane, media, params, prompt};
use crate::fixtures::cases;
use glassline_protocol::ids::{Id, LaneName};
use glassline_protocol::intake::{Post, Shot, month_of, parse_posts, rows_of};
use glassline_protocol::provider::Media;
use glassline_protocol::row::{HeadKey, HeadRow, JobRow, LaneRow, SpecKey, SpecRow, Status};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// The last millisecond of a month, and the months on both sides of it; computed with Python's datetime.
#[test]
fn a_month_ends_with_its_last_millisecond() {
    for (last_ms, month, next) in [
        (2_678_399_999, "1970-01", "1970-02"),
        (951_868_799_999, "2000-02", "2000-03"), // leap: the 29th of a century's year divisible by 400
        (1_677_628_799_999, "2023-02", "2023-03"), // the 28th
        (1_709_251_199_999, "2024-02", "2024-03"), // leap: the 29th
        (1_793_491_199_999, "2026-10", "2026-11"),
        (1_798_761_599_999, "2026-12", "2027-01"),
        (4_107_542_399_999, "2100-02", "2100-03"), // no leap: the 28th of a century's year
    ] {
        assert_eq!(month_of(last_ms), month, "{last_ms}");
        assert_eq!(month_of(last_ms + 1), next, "{last_ms} + 1");
    }
    assert_eq!(month_of(0), "1970-01");
    // The 29th of February exists in leap years only.
    assert_eq!(month_of(1_709_164_800_000), "2024-02");
    assert_eq!(month_of(1_677_628_800_000), "2023-03");
}

/// Year and month of a day counted from 1970, after
/// <https://howardhinnant.github.io/date_algorithms.html#civil_from_days>.
fn civil(days: u64) -> (u64, u64) {
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month)
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn every_month_up_to_the_year_9998_is_right(now_ms in 0u64..253_370_764_800_000) {
        let (year, month) = civil(now_ms / 86_400_000);
        prop_assert_eq!(month_of(now_ms), format!("{year:04}-{month:02}"));
    }

    #[test]
    fn a_time_beyond_every_calendar_has_a_month_still(now_ms in any::<u64>()) {
        let month = month_of(now_ms);
        prop_assert_eq!((month.len(), month.as_bytes()[4]), (7, b'-'));
    }
}

fn shot(name: &str) -> Shot {
    Shot {
        id: Id::new(name).unwrap(),
        prompt: format!("a pear, {name}"),
        params: Some(json!({"steps": 30}).as_object().unwrap().clone()),
        media: Media::Video,
    }
}

fn post() -> Post {
    let shots = vec![shot("s2"), Shot { params: None, media: Media::Image, ..shot("s1") }, shot("s3")];
    Post { id: Id::new("p1").unwrap(), lane: LaneName::new("luma").unwrap(), priority: 700, shots }
}

fn lane_row(boost_ms: Option<u64>) -> LaneRow {
    LaneRow { boost_ms, ..LaneRow::new(LaneName::new("luma").unwrap(), 4) }
}

const CREATED_MS: u64 = 1_790_000_000_000;

#[test]
fn a_post_has_a_head_and_a_spec_and_a_job_for_each_shot() {
    let post = post();
    let (head, jobs) = rows_of(&post, &lane_row(None), CREATED_MS, "2026-09");
    assert_eq!(
        head,
        HeadRow {
            key: HeadKey("POST#p1".parse().unwrap()),
            jobs: 3,
            lane: post.lane.clone(),
            priority: 700,
            created_ms: CREATED_MS,
            fingerprint: post.fingerprint(),
            queue_pk: Some("POSTS#2026-09".into()),
            queue_sk: Some("01790000000000#p1".into()),
        }
    );
    assert_eq!(jobs.len(), 3);
    let (spec, job) = &jobs[0];
    assert_eq!(
        *spec,
        SpecRow {
            key: SpecKey("POST#p1/SHOT#s2".parse().unwrap()),
            prompt: "a pear, s2".into(),
            params: Some(r#"{"steps":30}"#.into()),
            media: Media::Video,
        }
    );
    assert_eq!(
        *job,
        JobRow {
            key: "POST#p1/SHOT#s2".parse().unwrap(),
            status: Status::Ready,
            attempt: 0,
            failures: 0,
            token: None,
            run: None,
            slot: None,
            price_micros: None,
            lease_ms: None,
            accepted_ms: None,
            receipt: None,
            started_ms: None,
            lane: post.lane.clone(),
            rank: "0300#01790000000000#0000".into(),
            created_ms: CREATED_MS,
            media: Media::Video,
            width_px: None,
            height_px: None,
            task: None,
            error_class: None,
            error: None,
            cancel_requested: false,
            qa: None,
            ended_ms: None,
            queue_pk: Some("READY#luma".into()),
            queue_sk: Some("0300#01790000000000#0000#000000".into()),
        }
    );
    let (spec, job) = &jobs[1];
    assert_eq!((spec.params.as_deref(), spec.media, job.media), (None, Media::Image, Media::Image));
    // Shots keep their order, whatever their ids.
    let ranks: Vec<&str> = jobs.iter().map(|(_, job)| job.rank.as_str()).collect();
    assert!(ranks.is_sorted(), "{ranks:?}");
    assert_eq!(jobs.iter().map(|(_, job)| job.key.clone()).collect::<HashSet<_>>().len(), 3);
}

#[test]
fn a_job_knows_the_size_that_its_picture_is_asked_for() {
    let size = |media, params: serde_json::Value| {
        let asked = Shot { params: params.as_object().cloned(), media, ..shot("s1") };
        let (_, jobs) =
            rows_of(&Post { shots: vec![asked], ..post() }, &lane_row(None), CREATED_MS, "2026-09");
        (jobs[0].1.width_px, jobs[0].1.height_px)
    };
    assert_eq!(size(Media::Image, json!({"width": 640, "height": 360})), (Some(640), Some(360)));
    for unclear in [
        json!({}),
        json!({"width": 640}),
        json!({"width": 640, "height": 0}),
        json!({"width": "640", "height": "360"}),
        json!({"width": 640.5, "height": 360}),
        json!({"width": -640, "height": 360}),
        json!({"width": 4_294_967_296u64, "height": 360}),
    ] {
        assert_eq!(size(Media::Image, unclear.clone()), (None, None), "{unclear}");
    }
    assert_eq!(size(Media::Video, json!({"width": 640, "height": 360})), (None, None));
}

#[test]
fn with_aging_the_rank_is_the_boosted_age() {
    let (_, jobs) = rows_of(&post(), &lane_row(Some(1_000)), CREATED_MS, "2026-09");
    assert_eq!(jobs[2].1.rank, "0000#01789999300000#0002");
    assert_eq!(jobs[2].1.queue_sk.as_deref(), Some("0000#01789999300000#0002#000000"));
}

#[test]
fn the_same_post_written_again_has_the_same_rows() {
    let again = || rows_of(&post(), &lane_row(None), CREATED_MS, "2026-09");
    assert_eq!(again(), again());
}

fn fingerprint_of(text: &str) -> String {
    parse_posts(text).unwrap().remove(0).unwrap().fingerprint()
}

const PLAIN: &str = r#"{"id":"p1","lane":"luma","priority":500,"shots":[{"id":"s1","prompt":"a pear",
    "params":{"steps":30,"style":{"ink":1,"wash":0.5}},"media":"image"},{"id":"s2","prompt":"a plum"}]}"#;

#[test]
fn spelling_does_not_change_the_fingerprint() {
    for same in [
        // Order of fields, at every depth.
        r#"{"shots":[{"media":"image","params":{"style":{"wash":0.5,"ink":1},"steps":30},"prompt":"a pear","id":"s1"},
            {"prompt":"a plum","id":"s2"}],"priority":500,"lane":"luma","id":"p1"}"#,
        // Blanks, escapes and other spellings of a number.
        "\u{feff}{ \"id\" : \"p1\",\n\t\"lane\":\"luma\", \"priority\":500, \"shots\":[ {\"id\":\"s1\",
            \"prompt\":\"\\u0061 pear\",\"params\":{\"steps\":30,\"style\":{\"ink\":1,\"wash\":5e-1}},\"media\":\"image\"},
            {\"id\":\"s2\", \"prompt\":\"a plum\"} ] } ",
        // Defaults, said or left out; no parameters in three ways.
        &PLAIN.replace(r#""priority":500,"#, ""),
        &PLAIN.replace(r#","media":"image""#, ""),
        &PLAIN.replace(r#""prompt":"a plum""#, r#""prompt":"a plum","media":"image""#),
        &PLAIN.replace(r#""prompt":"a plum""#, r#""prompt":"a plum","params":null"#),
        &PLAIN.replace(r#""prompt":"a plum""#, r#""prompt":"a plum","params":{}"#),
        &format!("[{PLAIN}]"),
    ] {
        assert_eq!(fingerprint_of(same), fingerprint_of(PLAIN), "{same}");
    }
}

#[test]
fn every_field_changes_the_fingerprint() {
    let mut seen = HashSet::from([fingerprint_of(PLAIN)]);
    for (from, to) in [
        (r#""id":"p1""#, r#""id":"p2""#),
        (r#""lane":"luma""#, r#""lane":"runway""#),
        (r#""priority":500"#, r#""priority":501"#),
        (r#""id":"s1""#, r#""id":"s3""#),
        ("a pear", "a pear "),
        (r#""steps":30"#, r#""steps":31"#),
        (r#""steps":30"#, r#""steps":"30""#),
        (r#""steps":30,"#, ""),
        (r#""wash":0.5"#, r#""wash":0.51"#),
        (r#""wash":0.5"#, r#""wash":null"#),
        (r#""media":"image""#, r#""media":"video""#),
        (r#",{"id":"s2","prompt":"a plum"}"#, ""),
        (
            r#"{"id":"s2","prompt":"a plum"}"#,
            r#"{"id":"s2","prompt":"a plum"},{"id":"s3","prompt":"a plum"}"#,
        ),
    ] {
        let text = PLAIN.replace(from, to);
        assert_ne!(text, PLAIN, "{from}");
        assert!(seen.insert(fingerprint_of(&text)), "{from} -> {to}");
    }
    // The order of shots is their order in the post.
    let Post { id, lane, priority, mut shots } = parse_posts(PLAIN).unwrap().remove(0).unwrap();
    shots.reverse();
    assert!(seen.insert(Post { id, lane, priority, shots }.fingerprint()));
}

prop_compose! {
    fn any_post()(
        (id, lane, priority) in (id(), lane(), 0u32..=1_000),
        shots in proptest::collection::vec((prompt(), params(), media()), 1..4),
    ) -> Post {
        let shots = shots.into_iter().enumerate().map(|(index, (prompt, params, media))| {
            Shot { id: Id::new(format!("s{index}")).unwrap(), prompt, params, media }
        });
        Post { id, lane, priority, shots: shots.collect() }
    }
}

/// The same object with its fields the other way round, and spread over lines.
fn respelt(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let fields: Vec<String> = object
                .iter()
                .rev()
                .map(|(name, value)| format!("{} :\n{}", json!(name), respelt(value)))
                .collect();
            format!("{{ {} }}", fields.join(" ,\t"))
        }
        Value::Array(items) => format!("[ {}]", items.iter().map(respelt).collect::<Vec<_>>().join(" , ")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn a_random_post_survives_another_spelling(post in any_post()) {
        let text = respelt(&serde_json::to_value(&post).unwrap());
        let read = parse_posts(&text).unwrap().remove(0).unwrap();
        prop_assert_eq!(read.fingerprint(), post.fingerprint());
        let empty_means_none = |shot: &Shot| shot.params.clone().filter(|params: &Map<String, Value>| !params.is_empty());
        for (read, sent) in read.shots.iter().zip(&post.shots) {
            prop_assert_eq!(&read.prompt, &sent.prompt);
            prop_assert_eq!(empty_means_none(read), empty_means_none(sent));
            prop_assert_eq!(read.params_text(), sent.params_text(), "every digit of a number arrives");
        }
    }

    #[test]
    fn random_input_is_refused_without_ado(text in "\\PC{0,60}") {
        if let Ok(posts) = parse_posts(&text) {
            prop_assert!(posts.iter().all(Result::is_err));
        }
    }
}

/// One id, several posts in one input: the first is the post, an equal one is the same, another is refused.
#[test]
fn the_first_post_of_an_id_is_the_one_that_counts() {
    let one = PLAIN.replace('\n', " ");
    let two = one.replace("a pear", "a fig");
    let lines = |lines: &[&str]| -> Vec<bool> {
        parse_posts(&lines.join("\n")).unwrap().iter().map(Result::is_ok).collect()
    };
    assert_eq!(lines(&[&one, &one]), [true, true]);
    assert_eq!(lines(&[&one, &two]), [true, false]);
    assert_eq!(lines(&[&one, &two, &two]), [true, false, false]);
    assert_eq!(lines(&[&one, &two, &one]), [true, false, true]);
}
