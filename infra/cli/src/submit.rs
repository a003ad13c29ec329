//! `glassline submit`.

use crate::args::Options;
use crate::connect::{Connection, connect};
use crate::failure::Failure;
use crate::{local, output};
use glassline_protocol::ids::ParentKey;
use glassline_protocol::intake::{
    BadPost, Submission, Submitted, parse_stories_csv, parse_submissions, submit_post, submit_story,
    wake_series,
};
use glassline_protocol::ports::Store as _;
use glassline_protocol::row::LaneRow;
use serde_json::json;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

/// Largest input read, in bytes.
const MAX_INPUT_BYTES: u64 = 256 << 20;

fn read(file: &Path) -> Result<String, Failure> {
    let fail = |error: std::io::Error| Failure::new(format!("{} can't be read: {error}", file.display()));
    let reader: Box<dyn std::io::Read> = if file == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(file).map_err(fail)?)
    };
    let mut text = String::new();
    reader.take(MAX_INPUT_BYTES + 1).read_to_string(&mut text).map_err(fail)?;
    if text.len() as u64 > MAX_INPUT_BYTES {
        return Err(Failure::new(format!(
            "{} has more than {} MiB; split it",
            file.display(),
            MAX_INPUT_BYTES >> 20
        )));
    }
    Ok(text)
}

/// What became of one post of the input.
struct Line {
    id: String,
    /// Where it stands in the input, if it has no id that could be read.
    place: Option<String>,
    what: String,
    good: bool,
}

async fn one(
    connection: &Connection,
    lanes: &[LaneRow],
    submission: Result<Submission, BadPost>,
) -> (Line, Option<Submission>) {
    let submission = match submission {
        Ok(submission) => submission,
        // What can't be read has no id that could be believed; where it stands in the input names it.
        Err(bad) => {
            let (place, what) = (Some(bad.place.clone()), bad.to_string());
            return (Line { id: String::new(), place, what, good: false }, None);
        }
    };
    let ports = &connection.ports;
    let (id, kind, submitted) = match &submission {
        Submission::Post(post) => (post.id.to_string(), "jobs", submit_post(ports, post, lanes).await),
        Submission::Story(story) => {
            (story.story_key().to_string(), "story", submit_story(ports, story, lanes).await)
        }
    };
    let (what, good) = match submitted {
        Ok(Submitted::New(1)) => ("submitted".to_owned(), true),
        Ok(Submitted::New(count)) => (format!("submitted, {count} {kind}"), true),
        Ok(Submitted::Already(0)) => ("was there already, the same".to_owned(), true),
        Ok(Submitted::Already(count)) => (format!("was there already; {count} missing {kind} added"), true),
        Err(error) => (error.to_string(), false),
    };
    (Line { id, place: None, what, good }, good.then_some(submission))
}

/// Wakes the series of new stories, each once.
async fn wake(connection: &Connection, taken: &[Submission]) {
    let mut series = std::collections::BTreeSet::new();
    for submission in taken {
        if let Submission::Story(story) = submission {
            series.insert(story.series.clone());
        }
    }
    for name in series {
        wake_series(&connection.ports, &name).await;
    }
}

fn parse(file: &Path, text: &str) -> Result<Vec<Result<Submission, BadPost>>, BadPost> {
    if file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv")) {
        let stories = parse_stories_csv(text)?;
        return Ok(stories.into_iter().map(|story| story.map(Submission::Story)).collect());
    }
    parse_submissions(text)
}

pub(crate) async fn run(options: &Options, file: &Path, wait: bool) -> Result<ExitCode, Failure> {
    let submissions = parse(file, &read(file)?)?;
    let connection = connect(options).await?;
    let lanes = connection.ports.lanes().await?;
    let (mut lines, mut taken) = (Vec::new(), Vec::new());
    for submission in submissions {
        let (line, submission) = one(&connection, &lanes, submission).await;
        lines.push(line);
        taken.extend(submission);
    }
    wake(&connection, &taken).await;
    let bad = lines.iter().filter(|line| !line.good).count();
    if !options.json {
        lines.iter().for_each(print);
    }
    let (ended, waited) =
        if wait { wait_for(options, &connection, &taken).await? } else { (Vec::new(), true) };
    if options.json {
        let post = |line: &Line| match &line.place {
            Some(place) => json!({"id": null, "place": place, "ok": line.good, "what": line.what}),
            None => json!({"id": line.id, "ok": line.good, "what": line.what}),
        };
        let posts: Vec<_> = lines.iter().map(post).collect();
        let mut report = json!({ "submitted": posts });
        if wait {
            let ended = ended.iter().map(|it| json!({"parent": it.parent, "ended": it.words, "ok": it.well}));
            report["ended"] = ended.collect();
        }
        output::json(&report);
    }
    if !connection.running && !taken.is_empty() {
        let waited = if wait { " Nothing was waited for." } else { "" };
        eprintln!(
            "No stack is running on {}: `glassline local` renders them.{waited}",
            options.data.display()
        );
    }
    let well = bad == 0 && waited && ended.iter().all(|it| it.well);
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(line: &Line) {
    let Line { id, place: _, what, good } = line;
    let prefix = if id.is_empty() { String::new() } else { format!("{id}: ") };
    if *good {
        say!("{prefix}{what}");
    } else if what.contains(id) {
        eprintln!("glassline: {what}");
    } else {
        eprintln!("glassline: {prefix}{what}");
    }
}

/// Waits for the posts; what each came to, and whether there was a stack to wait for.
async fn wait_for(
    options: &Options,
    connection: &Connection,
    taken: &[Submission],
) -> Result<(Vec<local::Ended>, bool), Failure> {
    if !connection.running {
        return Ok((Vec::new(), taken.is_empty()));
    }
    let parents = taken.iter().filter_map(|submission| match submission {
        Submission::Post(post) => Some(ParentKey::Post(post.id.clone())),
        Submission::Story(_) => None,
    });
    let parents: Vec<ParentKey> = parents.collect();
    local::wait_for(&connection.ports, &parents).await?;
    let ended = local::ends(&connection.ports, &parents).await?;
    if !options.json {
        for it in &ended {
            say!("{}: {}", it.parent, it.words);
        }
    }
    Ok((ended, true))
}
