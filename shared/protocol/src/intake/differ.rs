//! What differs between what is sent and what is there under the same id: field names, never contents.

use super::parse::Post;
use super::story::Story;
use super::story_submit::prompts;
use crate::ids::{JobKey, MemberKey, ParentKey};
use crate::ports::{Read, Store};
use crate::registry::Registry;
use crate::row::{HeadRow, SeriesKey, SpecRow, StoryRow, StorySpecRow};
use std::collections::{BTreeMap, BTreeSet};

/// The fields of a post that differ from the post which is there under its id, such as `lane`, `shots.s2.prompt`, or
/// `shots` where only their order does. Empty when nothing is there, or nothing differs.
///
/// # Errors
/// [`crate::ports::Unread`]
pub async fn post_differences<P: Store + Registry>(ports: &P, post: &Post) -> Read<Vec<String>> {
    let parent = ParentKey::Post(post.id.clone());
    let Some(view) = ports.parent(&parent).await? else { return Ok(Vec::new()) };
    let Some(head) = &view.head else { return Ok(Vec::new()) };
    let mut keys: BTreeSet<JobKey> = view.jobs.iter().map(|job| job.key.clone()).collect();
    keys.extend(post.shots.iter().map(|shot| JobKey::shot(post.id.clone(), shot.id.clone())));
    let keys: Vec<JobKey> = keys.into_iter().collect();
    let mut specs = Vec::new();
    for keys in keys.chunks(100) {
        specs.extend(ports.specs(keys).await?);
    }
    if head.fingerprint == post.fingerprint() {
        return Ok(Vec::new());
    }
    Ok(of_post(post, head, &specs))
}

fn of_post(post: &Post, head: &HeadRow, specs: &[SpecRow]) -> Vec<String> {
    let mut fields = Vec::new();
    let mut unequal = |field: &str, differs: bool| {
        if differs {
            fields.push(field.to_owned());
        }
    };
    unequal("lane", post.lane != head.lane);
    unequal("priority", post.priority != head.priority);
    let had: BTreeMap<&MemberKey, &SpecRow> = specs.iter().map(|spec| (&spec.key.0.member, spec)).collect();
    let mut sent = BTreeSet::new();
    for shot in &post.shots {
        let member = MemberKey::Shot(shot.id.clone());
        let field = format!("shots.{}", shot.id);
        match had.get(&member) {
            None => unequal(&field, true),
            Some(spec) => {
                unequal(&format!("{field}.prompt"), spec.prompt != shot.prompt);
                unequal(&format!("{field}.params"), spec.params != shot.params_text());
                unequal(&format!("{field}.media"), spec.media != shot.media);
            }
        }
        sent.insert(member);
    }
    for member in had.keys().filter(|member| !sent.contains(**member)) {
        let name = member.to_string();
        unequal(&format!("shots.{}", name.strip_prefix("SHOT#").unwrap_or(&name)), true);
    }
    if fields.is_empty() {
        // The same shots in another order.
        fields.push("shots".to_owned());
    }
    fields
}

/// The fields of a story that differ from the story which is there under its key, such as `priority`, `frames.2`, or
/// `premise` where it makes other prompts. Empty when nothing is there, or nothing differs.
///
/// # Errors
/// [`crate::ports::Unread`]
pub async fn story_differences<P: Store>(ports: &P, story: &Story) -> Read<Vec<String>> {
    let key = story.story_key();
    let (found, spec) = (ports.story(&key).await?, ports.story_spec(&key).await?);
    let series = ports.series(&SeriesKey(story.series.clone())).await?;
    let (Some(found), Some(spec), Some(series)) = (found, spec, series) else { return Ok(Vec::new()) };
    if found.fingerprint == story.fingerprint() {
        return Ok(Vec::new());
    }
    let prompts = prompts(story, &series).unwrap_or_default();
    Ok(of_story(story, &prompts, &found, &spec))
}

fn of_story(story: &Story, prompts: &[String; 4], found: &StoryRow, spec: &StorySpecRow) -> Vec<String> {
    let mut fields = Vec::new();
    let mut unequal = |field: String, differs: bool| {
        if differs {
            fields.push(field);
        }
    };
    unequal("lane".into(), story.lane != found.lane);
    unequal("priority".into(), story.priority != found.priority);
    unequal("score".into(), story.score.as_ref().map(ToString::to_string) != found.score);
    let differing = prompts.iter().zip(spec.prompts()).map(|(sent, had)| sent != had);
    let differing: Vec<bool> = differing.collect();
    if story.frames.is_some() {
        for (index, differs) in differing.into_iter().enumerate() {
            unequal(format!("frames.{}", index + 1), differs);
        }
    } else {
        unequal("premise".into(), differing.contains(&true));
    }
    if fields.is_empty() {
        // The same prompts, given once as frames and once as a premise.
        fields.push(if story.frames.is_some() { "frames" } else { "premise" }.to_owned());
    }
    fields
}
