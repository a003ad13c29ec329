//! One job with its history.

use super::forms::{Back, act, resolve, review};
use super::layout::{Chrome, age, moment};
use super::tile::{chip, class_of, picture, qa};
use crate::page::view::{AttemptView, JobPage, OrphanView, parent_name, parent_path, span};
use glassline_protocol::ids::TaskId;
use glassline_protocol::row::outcome::Cost;
use glassline_protocol::row::{Status, Verdict};
use maud::{Markup, html};

fn cost(cost: Cost) -> &'static str {
    match cost {
        Cost::None => "nothing was charged",
        Cost::Paid => "paid for",
        Cost::AtRisk => "may have been charged",
    }
}

fn attempt(one: &AttemptView, current: bool) -> Markup {
    let (class, word) = match one.verdict {
        Verdict::Stored => ("is-succeeded", "Stored"),
        Verdict::Failed => ("is-failed", "Failed"),
        Verdict::Cancelled => ("is-cancelled", "Cancelled"),
    };
    html! {
        li class="attempt-row" id={ "a-" (one.attempt) } {
            h3 { "Attempt " (one.attempt) " " span class={ "chip " (class) } { (word) } }
            p {
                (one.words)
                @if let Some(picture) = &one.picture {
                    " · " (size(picture.size_bytes))
                    @if let (Some(width), Some(height)) = (picture.width_px, picture.height_px) {
                        " · " (width) " × " (height)
                    }
                    @if !current { " · " a href=(picture.src) { "open the file" } }
                }
            }
            p class="facts" {
                (cost(one.cost)) " · ended " (moment(one.at_ms))
                @if let Some(started_ms) = one.started_ms { " after " (span(one.at_ms.saturating_sub(started_ms))) }
                @if let Some(task) = &one.task { " · task " code { (task) } }
            }
        }
    }
}

fn orphan(one: &OrphanView) -> Markup {
    html! {
        li class="attempt-row" {
            h3 { "Task " code { (one.task) } " of attempt " (one.attempt) }
            p { (one.reason) }
            p class="facts" { "found " (moment(one.at_ms)) " · the provider's answer to the cancel: " (one.cancel) }
        }
    }
}

/// A size as people read it.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} KB", bytes / 1_000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

fn actions(job: &JobPage, chrome: &Chrome<'_>) -> Markup {
    let (key, attempt) = (&job.tile.job, job.tile.attempt);
    html! {
        @match job.tile.status {
            Status::Held => {
                h2 { "Resolve it" }
                (resolve(chrome, key, attempt, job.task.as_deref().and_then(|task| TaskId::new(task).ok()).as_ref(), Back::Job))
            },
            Status::Ready | Status::Claimed | Status::Rendering => {
                @if !job.cancel_requested { (act(chrome, key, attempt, "cancel", "Cancel")) }
            },
            Status::Failed | Status::Cancelled => { (act(chrome, key, attempt, "requeue", "Render again")) },
            Status::Succeeded => { (review(chrome, &job.tile, Back::Job)) },
        }
    }
}

fn facts(job: &JobPage, chrome: &Chrome<'_>) -> Markup {
    let tile = &job.tile;
    html! {
        dl class="figures" {
            div { dt { "Attempt" } dd { (tile.attempt) } }
            div { dt { "Failures counted" } dd { (job.failures) } }
            div { dt { "Lane" } dd { a href={ "/lanes#lane-" (job.lane) } { (job.lane) } } }
            div { dt { "Created" } dd { (moment(job.created_ms)) } }
            @if let Some(since_ms) = tile.since_ms.filter(|_| !tile.status.ended()) {
                div { dt { "For" } dd { (age(chrome.ages, since_ms)) } }
            }
            @if let Some(task) = &job.task { div { dt { "Task" } dd { code { (task) } } } }
            @if let Some(picture) = &tile.picture { div { dt { "SHA-256" } dd { code { (picture.sha256) } } } }
        }
    }
}

fn texts(job: &JobPage) -> Markup {
    html! {
        @if let Some(prompt) = &job.tile.prompt {
            section aria-labelledby="prompt" { h2 id="prompt" { "Prompt" } p class="prompt" dir="auto" { (prompt) } }
        }
        @if let Some(params) = &job.params {
            section aria-labelledby="params" { h2 id="params" { "Parameters" } pre { code { (params) } } }
        }
    }
}

/// A job's page.
#[must_use]
pub fn job(job: &JobPage, chrome: &Chrome<'_>) -> Markup {
    let tile = &job.tile;
    html! {
        nav class="trail" aria-label="Where this is" {
            a href="/" { "Registry" } " / "
            a href=(parent_path(&tile.job.parent)) { (parent_name(&tile.job.parent)) }
        }
        div class="title" { h1 { (tile.name()) } (chip(tile)) (qa(tile.qa)) }
        @if let Some(explained) = &job.explained { p class="lead" { (explained) } }
        @else if !tile.words.is_empty() { p class="lead" { (tile.words) } }
        div class="job" {
            div class={ "stage is-" (class_of(tile.status)) } {
                @match &tile.picture {
                    Some(stored) => (picture(tile, stored, false)),
                    None => span class="wait" { span class="wait-label" { (tile.label) } },
                }
            }
            div class="side" { (actions(job, chrome)) (facts(job, chrome)) }
        }
        (texts(job))
        section aria-labelledby="history" {
            h2 id="history" { "History" }
            @if job.attempts.is_empty() { p class="empty" { "No attempt has ended yet." } }
            ol class="history" { @for one in &job.attempts { (attempt(one, one.attempt == tile.attempt)) } }
        }
        @if !job.orphans.is_empty() {
            section aria-labelledby="orphans" {
                h2 id="orphans" { "Tasks that were given up" }
                ol class="history" { @for one in &job.orphans { (orphan(one)) } }
            }
        }
    }
}
