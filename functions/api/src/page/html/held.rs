//! The held jobs.

use super::forms::{Back, resolve};
use super::layout::{Chrome, age, id_of};
use crate::page::view::{HeldJob, job_path, parent_name, parent_path, time};
use maud::{Markup, html};

fn one(held: &HeldJob, chrome: &Chrome<'_>) -> Markup {
    let tile = &held.tile;
    html! {
        article class="card held" id=(id_of("h", &tile.job)) {
            header class="card-head" {
                h2 {
                    a href=(job_path(&tile.job)) { (tile.name()) } " of "
                    a href=(parent_path(&tile.job.parent)) { (parent_name(&tile.job.parent)) }
                }
                span class="chip is-held" { "Held" }
            }
            p class="why" { (held.error) }
            p class="facts" {
                "lane " (held.lane) " · attempt " (tile.attempt)
                @if let Some(since_ms) = tile.since_ms { " · submitted " (age(chrome.ages, since_ms)) " ago" }
                @if let Some(task) = &held.task { " · task " code { (task) } }
                @if let Some(next_ms) = held.next_look_ms { " · looked at again after " (time(next_ms).1) " UTC" }
                @if held.cancel_requested { " · asked to stop" }
            }
            (resolve(chrome, &tile.job, tile.attempt, held.task.as_ref(), Back::Held))
        }
    }
}

/// The page of held jobs, those that wait longest first; `more` says that there are others.
#[must_use]
pub fn held(jobs: &[HeldJob], more: bool, chrome: &Chrome<'_>) -> Markup {
    html! {
        h1 { "Held jobs" }
        p class="lead" {
            "Nobody can tell whether the last submit of these was accepted, or how it ended. They keep their token, fill no "
            "slot and cost nothing while they wait. You decide, on record, and only for the attempt that is named."
        }
        @if jobs.is_empty() { p class="empty" { "Nothing is held." } }
        @for job in jobs { (one(job, chrome)) }
        @if more { p class="more" { "There are more; these come first." } }
    }
}
