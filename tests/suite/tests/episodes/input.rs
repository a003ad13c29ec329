//! Stories as people send them: what is wrong is said, and nothing is written.

use crate::support::world;
use glassline_protocol::intake::{
    BadPost, NewSeries, Story, Submission, Submitted, create_series, parse_stories, parse_stories_csv,
    parse_submissions, submit_story,
};
use glassline_protocol::ports::Store as _;
use glassline_tests::{World, lane_name, series_key, story_key};

const GOOD: &str = r#"{"series":"main","key":"a","frames":["one","two","three","four"]}"#;

fn only_error<T: std::fmt::Debug>(parsed: Result<Vec<Result<T, BadPost>>, BadPost>) -> Option<String> {
    match parsed {
        Err(bad) => Some(bad.to_string()),
        Ok(read) => read.into_iter().find_map(Result::err).map(|bad| bad.to_string()),
    }
}

/// Submits all that can be read, as the command does: the errors of reading and of writing.
async fn submit(world: &World, text: &str) -> Vec<String> {
    let read = match parse_submissions(text) {
        Ok(read) => read,
        Err(bad) => return vec![bad.to_string()],
    };
    let lanes = world.look.lanes().await.unwrap();
    let mut errors = Vec::new();
    for submission in read {
        match submission {
            Ok(Submission::Story(story)) => {
                errors.extend(submit_story(&world.ports, &story, &lanes).await.err().map(|e| e.to_string()));
            }
            Ok(Submission::Post(post)) => panic!("{post:?} is a post"),
            Err(bad) => errors.push(bad.to_string()),
        }
    }
    errors
}

fn with(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from));
    GOOD.replace(from, to)
}

fn bad_stories() -> Vec<(String, &'static str)> {
    let million = "x".repeat(1_000_000);
    vec![
        (with(r#","four""#, ""), "it has 3 frames; a story has exactly four"),
        (with(r#""four""#, r#""four","five""#), "it has 5 frames"),
        (with(r#""three""#, r#""""#), "the prompt of frame 3 has 0 bytes"),
        (with(r#""three""#, r#""  \n ""#), "the prompt of frame 3 is all blank"),
        (with(r#""three""#, "3"), "invalid type"),
        (with(r#""three""#, &format!(r#""{million}""#)), "1000000 bytes; it needs 1 to 32768"),
        (with(r#","frames":["one","two","three","four"]"#, ""), "either four `frames` or a `premise`"),
        (with(r#""frames""#, r#""premise":"p","frames""#), "either four `frames` or a `premise`"),
        (
            with(r#""frames":["one","two","three","four"]"#, r#""premise":" ""#),
            "the story (key a): its premise is all blank",
        ),
        (with(r#""frames""#, r#""frame""#), "unknown field `frame`"),
        (with(r#""key""#, r#""kez""#), "unknown field `kez`"),
        (with(r#""a""#, r#""a b""#), "letters, digits"),
        (with(r#""a""#, r#""../x""#), "letters, digits"),
        (with(r#""a""#, r#""""#), "letters, digits"),
        (with(r#""main""#, "7"), "invalid type"),
        (with(r#""frames""#, r#""priority":1001,"frames""#), "its priority is out of range; use 0 to 1000"),
        (with(r#""frames""#, r#""priority":-1,"frames""#), "invalid value"),
        (with(r#""frames""#, r#""priority":1.5,"frames""#), "invalid"),
        (with(r#""frames""#, r#""score":"9","frames""#), "invalid type"),
        (with(r#""main""#, r#""other""#), "there is no series `other`"),
        (with(r#""frames""#, r#""lane":"nowhere","frames""#), "there is no lane `nowhere`"),
        (format!("[{GOOD}"), "isn't JSON"),
        ("[]".into(), "it holds no"),
        ("[7]".into(), "it isn't a JSON object"),
        ("\"series\"".into(), "neither a"),
        (String::new(), "it is empty"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_is_named_and_writes_nothing() {
    let world = world(1).await;
    world.add_series("main", "keyed", 1).await;
    let before = world.scan().await;
    for (text, says) in bad_stories() {
        let errors = submit(&world, &text).await;
        let shown = &text[..text.len().min(120)];
        assert!(errors.len() == 1 && errors[0].contains(says), "{shown}: {errors:?}");
        assert!(errors[0].len() < 400 && !errors[0].contains("xxxx"), "{errors:?}");
        assert_eq!(world.scan().await, before, "{shown}");
    }
    // On the table, with another body: by its prompts, its lane, its priority or its score.
    assert!(submit(&world, GOOD).await.is_empty());
    let before = world.scan().await;
    for other in [
        with("two", "zwei"),
        with(r#""frames""#, r#""lane":"keyed","frames""#),
        with(r#""frames""#, r#""priority":1,"frames""#),
        with(r#""frames""#, r#""score":1,"frames""#),
    ] {
        let errors = submit(&world, &other).await;
        assert!(errors[0].starts_with("STORY#main#a: it exists with other contents"), "{errors:?}");
        assert_eq!(world.scan().await, before);
    }
    // The same again changes nothing, also when it is an episode by then.
    assert!(submit(&world, GOOD).await.is_empty());
    assert_eq!(world.scan().await, before);
    assert_eq!(world.open("main").await, [1]);
    let before = world.scan().await;
    assert!(submit(&world, GOOD).await.is_empty());
    assert_eq!(world.scan().await, before);
    world.check_series_at_rest("main").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_story_does_not_hide_its_neighbours_and_a_long_one_passes() {
    let world = world(1).await;
    world.add_series("main", "keyed", 3).await;
    let long = "é".repeat(16_384);
    let text = format!(
        "{GOOD}\n{}\n{}",
        with(r#""a""#, r#""b""#).replace("\"four\"", "4"),
        with(r#""a""#, r#""c""#).replace("four", &long).replace("one", &long).replace("two", &long)
    );
    assert_eq!(submit(&world, &text).await.len(), 1);
    assert_eq!(world.open("main").await.len(), 2);
    let views = world.check_series_at_rest("main").await;
    let view = views.iter().find(|view| view.head.story == story_key("main", "c")).unwrap();
    let keys: Vec<_> = view.frames.iter().map(|frame| frame.key.clone()).collect();
    let specs = world.look.specs(&keys).await.unwrap();
    assert_eq!(specs.iter().filter(|spec| spec.prompt == long).count(), 3);
}

#[test]
fn the_same_key_twice_in_one_input_is_one_story() {
    let other = with("two", "zwei");
    let third = with("two", "deux");
    let good = |texts: [&str; 3]| -> Vec<bool> {
        let json = parse_stories(&texts.join("\n")).unwrap().iter().map(Result::is_ok).collect();
        let mixed = parse_submissions(&format!("[{}]", texts.join(","))).unwrap();
        assert_eq!(mixed.iter().map(Result::is_ok).collect::<Vec<_>>(), json);
        json
    };
    assert_eq!(good([GOOD, GOOD, GOOD]), [true, true, true]);
    assert_eq!(good([GOOD, &other, GOOD]), [true, false, true]);
    assert_eq!(good([GOOD, &other, &other]), [true, false, false]);
    assert_eq!(good([GOOD, &other, &third]), [true, false, false]);
    let error = only_error(parse_stories(&format!("{GOOD}\n{other}"))).unwrap();
    assert!(error.starts_with("story a of series main: its key appears twice in this input"), "{error}");
}

#[test]
fn a_csv_heading_that_cannot_be_used_is_named() {
    for (text, says) in [
        ("", "it is empty; give a heading line"),
        ("\u{feff} \n", "it is empty"),
        ("series,key,frame1,frame2,frame3,frame4\n", "it holds no story"),
        ("key,premise\na,p\n", "the column `series` is missing"),
        ("series,premise\nmain,p\n", "the column `key` is missing"),
        ("series,key,frame5\nmain,a,x\n", "the column `frame5` isn't known; use series, key"),
        ("series,key,premise,\nmain,a,p,\n", "the column `` isn't known"),
        ("series;key;premise\nmain;a;p\n", "isn't known"),
        ("series,key,key,premise\nmain,a,b,p\n", "line 1: the column `key` is there twice"),
        ("series,key,premise,premise\nmain,a,p,q\n", "the column `premise` is there twice"),
    ] {
        let error = only_error(parse_stories_csv(text)).unwrap_or_default();
        assert!(error.contains(says), "{text:?}: {error}");
    }
}

#[test]
fn a_bad_csv_line_is_named_and_its_neighbours_are_read() {
    let heading = "series,key,frame1,frame2,frame3,frame4,premise,priority\n";
    for (line, says) in [
        ("main,b,1,2,3,,,", "line 3 (key b): it has 3 frames"),
        ("main,b,1,2,,4,,", "line 3: it has 3 frames"),
        ("main,b,,,,,,", "line 3 (key b): give it either four"),
        ("main,b,1,2,3,4,p,", "line 3 (key b): give it either four"),
        ("main,b,1,2,3,4,,high", "line 3: its priority isn't a number"),
        ("main,b,1,2,3,4,,1001", "line 3 (key b): its priority is out of range"),
        ("main,b,1,2,3,4,,1.5", "line 3 (key b): `priority`: invalid"),
        ("main,b,1,2,3", "line 3: it doesn't have the columns of the heading"),
        ("main,b,1,2,3,4,,,,", "line 3: it doesn't have the columns of the heading"),
        (",b,1,2,3,4,,", "line 3 (key b): missing field `series`"),
        ("main,,1,2,3,4,,", "line 3: missing field `key`"),
        ("main,b c,1,2,3,4,,", "letters, digits"),
    ] {
        let text = format!("{heading}main,a,1,2,3,4,,\n{line}\nmain,c,,,,,premise,7\n");
        let read = parse_stories_csv(&text).unwrap();
        assert_eq!(read.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true], "{line}");
        let error = only_error(Ok(read)).unwrap();
        assert!(error.contains(says), "{line}: {error}");
    }
}

/// The rest of the file would be one story's premise, and the stories in it would be lost without a word.
#[test]
fn a_quotation_mark_that_is_never_closed_is_named() {
    let open = "series,key,premise\nmain,a,good\nmain,b,\"open\nmain,c,lost\nmain,d,lost too\n";
    let read = parse_stories_csv(open).unwrap();
    assert_eq!(read.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false]);
    let error = only_error(Ok(read)).unwrap();
    assert!(error.starts_with("line 3: a quotation mark is opened here and never closed"), "{error}");
    for closed in ["main,b,\"closed\"", "main,b,\"closed\"\n", "main,b,5\" tall\n", "main,b,\"two\nlines\""] {
        let read = parse_stories_csv(&format!("series,key,premise\nmain,a,good\n{closed}")).unwrap();
        assert_eq!(read.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true], "{closed}");
    }
}

#[test]
fn csv_and_json_say_the_same() {
    let csv = "\u{feff} key , series ,frame1,frame2,frame3,frame4,premise,lane,priority,score\r\n\
        a,main,\"one, with a comma\",\"two\nover\nlines\",\"three \"\"quoted\"\"\",four,,keyed,900,8.50\r\n\
        b, main ,,,,,\"A premise, given.\",,,\r\n";
    let json = r#"[{"series":"main","key":"a","lane":"keyed","priority":900,"score":8.50,
            "frames":["one, with a comma","two\nover\nlines","three \"quoted\"","four"]},
        {"series":"main","key":"b","premise":"A premise, given."}]"#;
    let read = |read: Result<Vec<Result<Story, BadPost>>, BadPost>| -> Vec<Story> {
        read.unwrap().into_iter().map(Result::unwrap).collect()
    };
    let (csv, json) = (read(parse_stories_csv(csv)), read(parse_stories(json)));
    assert_eq!(csv, json);
    let prints = |stories: &[Story]| stories.iter().map(Story::fingerprint).collect::<Vec<_>>();
    assert_eq!(prints(&csv), prints(&json));
    assert!(!format!("{csv:?}").contains("comma"), "prompts are never shown");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_premise_becomes_four_prompts_by_the_series_template() {
    let world = world(1).await;
    let own = |text: &str| Some([1, 2, 3, 4].map(|frame| format!("{text} {{premise}} ({frame})")));
    let series = |name: &str, template| NewSeries {
        name: name.parse().unwrap(),
        lane: lane_name("keyed"),
        priority: 500,
        open_limit: 1,
        template,
    };
    create_series(&world.ports, series("own", own("In ink:"))).await.unwrap();
    create_series(&world.ports, series("plain", None)).await.unwrap();
    let bad = create_series(&world.ports, series("bad", Some([1, 2, 3, 4].map(|n| n.to_string())))).await;
    assert!(bad.unwrap_err().to_string().contains("needs {premise}"));
    assert!(world.look.series(&series_key("bad")).await.unwrap().is_none());
    let lanes = world.look.lanes().await.unwrap();
    for (name, first) in [
        ("own", "In ink: A lighthouse {premise} blinks. (1)"),
        ("plain", "A lighthouse {premise} blinks. Opening"),
    ] {
        let text = format!(r#"{{"series":"{name}","key":"a","premise":"A lighthouse {{premise}} blinks."}}"#);
        let story = parse_stories(&text).unwrap().remove(0).unwrap();
        assert_eq!(submit_story(&world.ports, &story, &lanes).await, Ok(Submitted::New(1)));
        assert_eq!(submit_story(&world.ports, &story, &lanes).await, Ok(Submitted::Already(0)));
        assert_eq!(world.open(name).await, [1]);
        let keys: Vec<_> = world.episode(name, 1).await.frames.into_iter().map(|frame| frame.key).collect();
        let mut specs = world.look.specs(&keys).await.unwrap();
        specs.sort_by(|a, b| a.key.0.cmp(&b.key.0));
        assert!(specs[0].prompt.starts_with(first), "{}", specs[0].prompt);
        assert!(specs.iter().all(|spec| spec.prompt.contains("A lighthouse {premise} blinks.")));
        world.check_series_at_rest(name).await;
    }
    // A premise that fits by itself and not in the template.
    let text = format!(r#"{{"series":"own","key":"b","premise":"{}"}}"#, "x".repeat(32_768));
    let story = parse_stories(&text).unwrap().remove(0).unwrap();
    let before = world.scan().await;
    let error = submit_story(&world.ports, &story, &lanes).await.unwrap_err().to_string();
    assert!(error.contains("its premise makes a prompt of 32780 bytes; 32768 are allowed"), "{error}");
    assert_eq!(world.scan().await, before);
}
