//! `glassline submit`.

use crate::args::Options;
use crate::connect::{Connection, connect};
use crate::failure::Failure;
use crate::{local, output};
use glassline_protocol::ids::ParentKey;
use glassline_protocol::intake::{BadPost, Post, Submitted, parse_posts, submit_post};
use glassline_protocol::ports::Store as _;
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
    what: String,
    good: bool,
}

async fn one(
    connection: &Connection,
    lanes: &[glassline_protocol::row::LaneRow],
    post: Result<Post, BadPost>,
) -> (Line, Option<ParentKey>) {
    let post = match post {
        Ok(post) => post,
        Err(bad) => return (Line { id: String::new(), what: bad.to_string(), good: false }, None),
    };
    let id = post.id.to_string();
    match submit_post(&connection.ports, &post, lanes).await {
        Ok(submitted) => {
            let what = match submitted {
                Submitted::New(jobs) => format!("submitted, {jobs} jobs"),
                Submitted::Already(0) => "was there already, the same".into(),
                Submitted::Already(jobs) => format!("was there already; {jobs} missing jobs added"),
            };
            (Line { id, what, good: true }, Some(ParentKey::Post(post.id)))
        }
        Err(error) => (Line { id, what: error.to_string(), good: false }, None),
    }
}

pub(crate) async fn run(options: &Options, file: &Path, wait: bool) -> Result<ExitCode, Failure> {
    let posts = parse_posts(&read(file)?)?;
    let connection = connect(&options.data).await?;
    let lanes = connection.ports.lanes().await?;
    let (mut lines, mut parents) = (Vec::new(), Vec::new());
    for post in posts {
        let (line, parent) = one(&connection, &lanes, post).await;
        lines.push(line);
        parents.extend(parent);
    }
    let bad = lines.iter().filter(|line| !line.good).count();
    if options.json {
        let posts: Vec<_> =
            lines.iter().map(|line| json!({"id": line.id, "ok": line.good, "what": line.what})).collect();
        output::json(&json!({ "posts": posts }));
    } else {
        for line in &lines {
            let id = if line.id.is_empty() { String::new() } else { format!("{}: ", line.id) };
            if line.good {
                println!("{id}{}", line.what);
            } else {
                eprintln!(
                    "glassline: {}",
                    if line.what.contains(&line.id) {
                        line.what.clone()
                    } else {
                        format!("{id}{}", line.what)
                    }
                );
            }
        }
    }
    if !connection.running && !parents.is_empty() {
        eprintln!("No stack is running on {}: `glassline local` renders them.", options.data.display());
    } else if wait {
        local::wait_for(&connection.ports, &parents).await?;
    }
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
