//! The forms that change something. Each names the attempt that it means, so that a late one changes nothing.

use super::layout::{Chrome, id_of};
use crate::page::view::{Tile, job_path};
use glassline_protocol::ids::{Attempt, JobKey, LaneName, TaskId};
use maud::{Markup, html};

/// Where a form's answer leads back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Back {
    Job,
    Parent,
    Held,
}

impl Back {
    fn word(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Parent => "parent",
            Self::Held => "held",
        }
    }
}

fn hidden(chrome: &Chrome<'_>, attempt: Attempt, back: Back) -> Markup {
    html! {
        @if let Some(csrf) = chrome.csrf { input type="hidden" name="csrf" value=(csrf); }
        input type="hidden" name="attempt" value=(attempt);
        input type="hidden" name="back" value=(back.word());
    }
}

/// Pause or resume a lane.
pub(super) fn pause(chrome: &Chrome<'_>, lane: &LaneName, paused: bool) -> Markup {
    let (action, verb) = if paused { ("resume", "Resume") } else { ("pause", "Pause") };
    html! {
        form class="switch" method="post" action={ "/lanes/" (lane) "/" (action) } {
            @if let Some(csrf) = chrome.csrf { input type="hidden" name="csrf" value=(csrf); }
            button id={ "switch-" (lane) } class=(if paused { "primary" } else { "plain" }) {
                (verb) " " span class="unseen" { (lane) }
            }
        }
    }
}

/// The three ways to resolve a held job.
pub(super) fn resolve(
    chrome: &Chrome<'_>,
    job: &JobKey,
    attempt: Attempt,
    task: Option<&TaskId>,
    back: Back,
) -> Markup {
    let action = format!("{}/resolve", job_path(job));
    let (task_id, hint_id) = (id_of("task", job), id_of("hint", job));
    html! {
        div class="ways" {
            @if task.is_none() {
                form method="post" action=(action) {
                    (hidden(chrome, attempt, back))
                    h3 { "Nothing was accepted" }
                    p { "The provider never took attempt " (attempt) ". It is tried again." }
                    button name="way" value="lost" { "Try again" }
                }
                form method="post" action=(action) {
                    (hidden(chrome, attempt, back))
                    h3 { "It was accepted" }
                    p id=(hint_id) { "The provider's id of attempt " (attempt) ", from its own list." }
                    label for=(task_id) { "Task" }
                    span class="row" {
                        input id=(task_id) name="task" required maxlength="256" autocomplete="off" spellcheck="false"
                            aria-describedby=(hint_id);
                        button name="way" value="task" { "Record" }
                    }
                }
            }
            form method="post" action=(action) {
                (hidden(chrome, attempt, back))
                h3 { "Give up" }
                p { "Attempt " (attempt) " ends without an output. It may have been charged." }
                button class="grave" name="way" value="give-up" { "Give up" }
            }
        }
    }
}

/// Approve an output, or reject it with a note.
pub(super) fn review(chrome: &Chrome<'_>, tile: &Tile, back: Back) -> Markup {
    if !tile.to_judge() {
        return html! {};
    }
    let action = format!("{}/review", job_path(&tile.job));
    let note = id_of("note", &tile.job);
    html! {
        div class="review" {
            form method="post" action=(action) {
                (hidden(chrome, tile.attempt, back))
                button class="primary" name="verdict" value="approve" {
                    "Approve" span class="unseen" { " " (tile.name()) }
                }
            }
            details {
                summary { "Reject" span class="unseen" { " " (tile.name()) } "…" }
                form method="post" action=(action) {
                    (hidden(chrome, tile.attempt, back))
                    label for=(note) { "What is wrong with it? It is rendered again." }
                    textarea id=(note) name="note" rows="2" maxlength="160" required {}
                    button class="grave" name="verdict" value="reject" { "Reject and render again" }
                }
            }
        }
    }
}

/// One button that acts on a job.
pub(super) fn act(
    chrome: &Chrome<'_>,
    job: &JobKey,
    attempt: Attempt,
    verb: &'static str,
    text: &str,
) -> Markup {
    html! {
        form method="post" action={ (job_path(job)) "/" (verb) } {
            (hidden(chrome, attempt, Back::Job))
            button class="plain" { (text) }
        }
    }
}
