//! `glassline demo`: a bundled set of shots through the whole stack, with faults, and the proof from the books.

mod report;

use crate::args::Options;
use crate::connect::lock;
use crate::failure::Failure;
use crate::local::{addresses, stack_config, wait_for};
use glassline_local::lambda::Host;
use glassline_local::stack::Stack;
use glassline_protocol::ids::{Id, ParentKey};
use glassline_protocol::intake::{
    Post, Story, parse_posts, parse_stories, submit_post, submit_story, wake_series,
};
use glassline_protocol::ports::{Local as _, Store as _};
use glassline_protocol::row::{EpisodeKey, StoryStatus};
use glassline_sandbox::{AcceptEvent, AcceptHook, FaultKind, FaultRule};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The bundled posts.
const POSTS: &str = include_str!("../../demo/posts.json");
/// The bundled story.
const STORY: &str = include_str!("../../demo/story.json");
/// The job whose worker is killed while its submit is under way: the first post's only one.
const KILLED: (&str, &str) = ("overture", "s1");
/// One lost answer in ten jobs.
const LOST_PERCENT: usize = 10;
/// The longest the demo waits, in seconds; it takes well under one minute.
const LIMIT: Duration = Duration::from_secs(300);

/// The bundled posts under ids of this run, so that a demo can be repeated on the same data.
fn posts(run: &str) -> Result<Vec<Post>, Failure> {
    parse_posts(POSTS)?
        .into_iter()
        .map(|post| {
            let post = post?;
            Ok(Post { id: Id::new(format!("{}-{run}", post.id))?, ..post })
        })
        .collect()
}

/// The bundled story under a key of this run.
fn story(run: &str) -> Result<Story, Failure> {
    let story = parse_stories(STORY)?.into_iter().next();
    let story = story.ok_or_else(|| Failure::new("the bundled story is missing"))??;
    Ok(Story { key: Id::new(format!("{}-{run}", story.key))?, ..story })
}

/// Waits until the story is an episode, and gives its key.
async fn episode_of(stack: &Stack, story: &Story) -> Result<EpisodeKey, Failure> {
    loop {
        let row = stack.ports.story(&story.story_key()).await?;
        if let Some(number) = row.filter(|row| row.status == StoryStatus::Used).and_then(|row| row.episode) {
            return Ok(EpisodeKey { series: story.series.clone(), number });
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The references of every tenth job (and at least one of each lane), but not of the one whose worker is killed.
fn lost_answers(posts: &[Post], killed: &str) -> Vec<String> {
    let mut lost = Vec::new();
    let jobs: Vec<_> = posts
        .iter()
        .flat_map(|post| {
            let reference = move |shot: &glassline_protocol::intake::Shot| {
                (post.lane.clone(), format!("POST#{}/SHOT#{}/1", post.id, shot.id))
            };
            post.shots.iter().map(reference)
        })
        .filter(|(_, reference)| reference != killed)
        .collect();
    let wanted = (jobs.len() * LOST_PERCENT).div_ceil(100);
    let mut lanes = std::collections::BTreeSet::new();
    // One of each lane first, so that both ways to find a lost render are seen.
    for (lane, reference) in &jobs {
        if lanes.insert(lane.clone()) {
            lost.push(reference.clone());
        }
    }
    for (_, reference) in &jobs {
        if lost.len() < wanted && !lost.contains(reference) {
            lost.push(reference.clone());
        }
    }
    lost
}

/// Kills the worker whose submit of `reference` the provider has just accepted. It is the only busy one: nothing else
/// is submitted until it is dead.
fn killer(reference: String, host: Arc<OnceLock<Host>>, kills: Arc<AtomicU64>) -> AcceptHook {
    Arc::new(move |event: &AcceptEvent| {
        if event.reference != reference || kills.load(Ordering::SeqCst) > 0 {
            return;
        }
        if let Some(host) = host.get()
            && let Some(pid) = host.kill_any_busy("worker", 0)
        {
            // Not answered before it is dead: a worker that still gets the answer would record it.
            let until = Instant::now() + Duration::from_secs(5);
            while host.environments("worker").iter().any(|one| one.pid == pid) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(2));
            }
            kills.fetch_add(1, Ordering::SeqCst);
        }
    })
}

fn say(options: &Options, what: &str) {
    if !options.json {
        say!("{what}");
    }
}

pub(crate) async fn run(options: &Options) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let lock = lock(&options.data)?;
    let run = format!("{:x}", glassline_aws::local::SystemLocal.now_ms());
    let posts = posts(&run)?;
    let killed = format!("POST#{}-{run}/SHOT#{}/1", KILLED.0, KILLED.1);
    let (host, kills) = (Arc::new(OnceLock::new()), Arc::new(AtomicU64::new(0)));
    let mut config = stack_config(options.data.clone())?;
    let lanes = config.lanes.clone();
    let rule = |fault, references| FaultRule::references(fault, references);
    config.faults = vec![rule(FaultKind::DropAnswer, lost_answers(&posts, &killed))];
    config.on_accept = Some(killer(killed, Arc::clone(&host), Arc::clone(&kills)));
    let stack = Stack::start(config).await?;
    let _ = host.set(stack.host.clone());
    lock.publish(&addresses(&stack))?;
    let jobs: usize = posts.iter().map(|post| post.shots.len()).sum();
    let story = story(&run)?;
    say(
        options,
        &format!("Glassline is up on {}: {jobs} shots for two lanes, and a story.", options.data.display()),
    );
    say(options, &format!("The registry is at http://{}/ while it runs.", stack.api.address));
    say(options, "A worker is killed in mid-submit, and one answer in ten of the provider is lost.");
    let mut parents = submit(&stack, &posts, &story, &kills).await?;
    let waited = tokio::time::timeout(LIMIT, async {
        parents.push(episode_of(&stack, &story).await?.parent());
        wait_for(&stack.ports, &parents).await
    });
    let waited = waited.await;
    let report = report::collect(&stack, &lanes, &parents, kills.load(Ordering::SeqCst), started).await?;
    stack.stop().await;
    if let Ok(waited) = waited {
        waited?;
    }
    report.print(options);
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Submits the first post, waits until its worker is dead, and submits the rest.
async fn submit(
    stack: &Stack,
    posts: &[Post],
    story: &Story,
    kills: &AtomicU64,
) -> Result<Vec<ParentKey>, Failure> {
    let lanes = stack.ports.lanes().await?;
    let mut parents = Vec::new();
    for post in posts {
        submit_post(&stack.ports, post, &lanes).await?;
        parents.push(ParentKey::Post(post.id.clone()));
        let until = Instant::now() + Duration::from_secs(20);
        while kills.load(Ordering::SeqCst) == 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    submit_story(&stack.ports, story, &lanes).await?;
    wake_series(&stack.ports, &story.series).await;
    Ok(parents)
}
