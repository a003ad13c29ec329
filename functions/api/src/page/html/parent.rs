//! A post, a series, an episode.

use super::forms::{Back, review};
use super::layout::{Chrome, age, id_of, moment};
use super::tile::{sheet, strip};
use crate::page::view::{EpisodeView, PostView, SeriesView, Tile, job_path, parent_path, summary};
use glassline_protocol::row::EpisodeStatus;
use maud::{Markup, html};

pub(super) fn status_chip(status: EpisodeStatus) -> Markup {
    let (class, word) = match status {
        EpisodeStatus::Open => ("is-rendering", "Open"),
        EpisodeStatus::Complete => ("is-succeeded", "Complete"),
        EpisodeStatus::Failed => ("is-failed", "Failed"),
    };
    html! { span class={ "chip " (class) } { (word) } }
}

/// An episode's name: `Season 1, episode 3`.
pub(super) fn title(episode: &EpisodeView) -> String {
    format!("Season {}, episode {}", episode.season, episode.episode)
}

/// An episode as part of a list.
pub(super) fn episode_card(episode: &EpisodeView, chrome: &Chrome<'_>, level_two: bool) -> Markup {
    let path = parent_path(&episode.key.parent());
    let (name, strip_label) = (title(episode), format!("Frames of episode {}", episode.key.number));
    html! {
        article class="card" id={ "e-" (episode.key.series) "-" (episode.key.number) } {
            header class="card-head" {
                @if level_two { h2 { a href=(path) { (name) } } }
                @else { h3 { a href=(path) { (name) } } }
                (status_chip(episode.status))
                span class="facts" {
                    "story " (episode.story) " · opened " (age(chrome.ages, episode.created_ms)) " ago"
                }
            }
            @if let Some(reason) = &episode.reason { p class="why" { (reason) } }
            (strip(&episode.tiles, chrome.ages, &strip_label))
        }
    }
}

/// The prompts of tiles, with what may be said of their outputs.
fn scenes(tiles: &[Tile], chrome: &Chrome<'_>) -> Markup {
    html! {
        section class="scenes" aria-labelledby="scenes" {
            h2 id="scenes" { "Prompts" }
            @for tile in tiles {
                article class="scene" id=(id_of("s", &tile.job)) {
                    h3 { a href=(job_path(&tile.job)) { (tile.name()) } }
                    @if let Some(prompt) = &tile.prompt { p class="prompt" dir="auto" { (prompt) } }
                    (review(chrome, tile, Back::Parent))
                }
            }
        }
    }
}

/// A post's page.
#[must_use]
pub fn post(post: &PostView, chrome: &Chrome<'_>) -> Markup {
    html! {
        nav class="trail" aria-label="Where this is" { a href="/" { "Registry" } " / posts" }
        h1 { "Post " (post.id) }
        p class="facts" {
            "lane " a href={ "/lanes#lane-" (post.lane) } { (post.lane) } " · priority " (post.priority) " · submitted "
            (age(chrome.ages, post.created_ms)) " ago · " (summary(&post.tiles))
        }
        (sheet(&post.tiles, chrome.ages, "Shots"))
        (scenes(&post.tiles, chrome))
    }
}

/// An episode's page.
#[must_use]
pub fn episode(episode: &EpisodeView, chrome: &Chrome<'_>) -> Markup {
    let series = &episode.key.series;
    html! {
        nav class="trail" aria-label="Where this is" {
            a href="/" { "Registry" } " / " a href={ "/series/" (series) } { (series) }
        }
        div class="title" { h1 { (title(episode)) } (status_chip(episode.status)) }
        p class="facts" {
            "story " (episode.story) " · lane " a href={ "/lanes#lane-" (episode.lane) } { (episode.lane) } " · opened "
            (moment(episode.created_ms))
            @if let Some(closed_ms) = episode.closed_ms { " · closed " (moment(closed_ms)) }
        }
        @if let Some(reason) = &episode.reason { p class="why" { (reason) } }
        (strip(&episode.tiles, chrome.ages, "Frames"))
        (scenes(&episode.tiles, chrome))
    }
}

/// A series' page.
#[must_use]
pub fn series(series: &SeriesView, chrome: &Chrome<'_>) -> Markup {
    html! {
        nav class="trail" aria-label="Where this is" { a href="/" { "Registry" } " / series" }
        h1 { "Series " (series.name) }
        (series_facts(series))
        @if series.latest.is_empty() { p class="empty" { "No episode yet: a story opens one when there is room." } }
        @for episode in &series.latest { (episode_card(episode, chrome, true)) }
        @if let Some(before) = series.before {
            p class="more" { a href={ "/series/" (series.name) "?before=" (before) } { "Earlier episodes" } }
        }
    }
}

pub(super) fn series_facts(series: &SeriesView) -> Markup {
    let plural = if series.episodes == 1 { "episode" } else { "episodes" };
    html! {
        p class="facts" {
            (series.episodes) " " (plural) " · " (series.open) " of " (series.open_limit) " open"
            @if let Some(stories) = series.stories { " · " (stories) " stories left" }
            " · lane " a href={ "/lanes#lane-" (series.lane) } { (series.lane) }
        }
    }
}
