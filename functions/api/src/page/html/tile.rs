//! Tiles, and the film strip they are on.

use super::layout::{age, id_of};
use crate::page::view::{Ages, Picture, Tile, job_path, span};
use glassline_protocol::provider::Media;
use glassline_protocol::row::{QaState, Status};
use maud::{Markup, html};

/// The class of a status, for its colour; the words say it too.
pub(super) fn class_of(status: Status) -> &'static str {
    match status {
        Status::Ready => "ready",
        Status::Claimed => "claimed",
        Status::Rendering => "rendering",
        Status::Held => "held",
        Status::Succeeded => "succeeded",
        Status::Failed => "failed",
        Status::Cancelled => "cancelled",
    }
}

/// What a picture shows, for who can't see it: its prompt, cut short.
fn described(tile: &Tile) -> String {
    const LONGEST: usize = 160;
    match tile.prompt.as_deref() {
        None => format!("{}: the stored output", tile.name()),
        Some(prompt) if prompt.chars().count() <= LONGEST => format!("{}: {prompt}", tile.name()),
        Some(prompt) => {
            let cut: String = prompt.chars().take(LONGEST).collect();
            format!("{}: {cut}…", tile.name())
        }
    }
}

/// A stored output: a picture, or a film that plays in place.
pub(super) fn picture(tile: &Tile, picture: &Picture, lazy: bool) -> Markup {
    html! {
        @match picture.media {
            Media::Image => img src=(picture.src) alt=(described(tile)) width=[picture.width_px]
                height=[picture.height_px] decoding="async" loading=[lazy.then_some("lazy")];,
            Media::Video => video src=(picture.src) aria-label=(described(tile)) width=[picture.width_px]
                height=[picture.height_px] controls preload="metadata" playsinline {},
        }
    }
}

fn waiting(tile: &Tile) -> Markup {
    html! {
        span class="wait" {
            span class="wait-label" { (tile.label) }
            @if !tile.words.is_empty() { span class="wait-words" { (tile.words) } }
        }
    }
}

/// The chip that names a status.
pub(super) fn chip(tile: &Tile) -> Markup {
    html! { span class={ "chip is-" (class_of(tile.status)) } { (tile.label) } }
}

/// What QA said.
pub(super) fn qa(state: Option<QaState>) -> Markup {
    html! {
        @match state {
            Some(QaState::Pending) => span class="chip qa-pending" { "To review" },
            Some(QaState::Approved) => span class="chip qa-approved" { "Approved" },
            Some(QaState::Rejected) => span class="chip qa-rejected" { "Rejected" },
            None => {},
        }
    }
}

/// One tile, as an item of a strip or a sheet.
pub(super) fn tile(tile: &Tile, ages: Ages) -> Markup {
    let path = job_path(&tile.job);
    let video = tile.picture.as_ref().filter(|picture| picture.media == Media::Video);
    html! {
        li class={ "tile is-" (class_of(tile.status)) } id=(id_of("t", &tile.job)) {
            // A film has controls of its own, which can't be inside a link.
            @if let Some(film) = video {
                div class="pane" { (picture(tile, film, true)) }
            } @else {
                a class="pane" href=(path) {
                    @if let Some(still) = &tile.picture { (picture(tile, still, true)) }
                    @else { (waiting(tile)) }
                }
            }
            p class="caption" {
                a class="name" href=(path) { (tile.name()) }
                // A picture shows that it is stored: its chip says what is still to be done.
                @if tile.status == Status::Succeeded && tile.qa.is_some() { (qa(tile.qa)) } @else { (chip(tile)) }
                (facts(tile, ages))
            }
        }
    }
}

/// What is said of a tile beside its name and status: which attempt, since when, how long it plays.
fn facts(tile: &Tile, ages: Ages) -> Markup {
    let duration_ms = tile.picture.as_ref().and_then(|picture| picture.duration_ms);
    html! {
        @if tile.attempt > 1 { span { "attempt " (tile.attempt) } }
        @if let Some(duration_ms) = duration_ms { span { "plays " (span(duration_ms)) } }
        @if let Some(since_ms) = tile.since_ms {
            span { @if tile.status.ended() { (age(ages, since_ms)) " ago" } @else { "for " (age(ages, since_ms)) } }
        }
    }
}

/// An episode's frames on a strip of film.
pub(super) fn strip(tiles: &[Tile], ages: Ages, label: &str) -> Markup {
    html! {
        div class="film" {
            ol class="strip" aria-label=(label) {
                @for one in tiles { (tile(one, ages)) }
            }
        }
    }
}

/// A post's shots on a sheet.
pub(super) fn sheet(tiles: &[Tile], ages: Ages, label: &str) -> Markup {
    html! {
        ol class="sheet" aria-label=(label) {
            @for one in tiles { (tile(one, ages)) }
        }
    }
}
