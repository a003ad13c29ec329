//! The first page: series and posts, newest first.

use super::layout::{Chrome, age};
use super::parent::{episode_card, series_facts};
use super::tile::sheet;
use crate::page::view::{PostView, SeriesView, summary};
use maud::{Markup, html};

/// Shots of a post that the list shows.
const SHOWN: usize = 6;

fn series_block(series: &SeriesView, chrome: &Chrome<'_>) -> Markup {
    html! {
        section class="block" aria-labelledby={ "series-" (series.name) } {
            header class="block-head" {
                h2 id={ "series-" (series.name) } { a href={ "/series/" (series.name) } { "Series " (series.name) } }
                (series_facts(series))
            }
            @for episode in &series.latest { (episode_card(episode, chrome, false)) }
            @if series.latest.is_empty() { p class="empty" { "No episode yet: a story opens one when there is room." } }
        }
    }
}

fn post_card(post: &PostView, chrome: &Chrome<'_>) -> Markup {
    let shown = post.tiles.get(..SHOWN).unwrap_or(&post.tiles);
    let hidden = post.tiles.len() - shown.len();
    html! {
        article class="card" id={ "p-" (post.id) } {
            header class="card-head" {
                h3 { a href={ "/posts/" (post.id) } { (post.id) } }
                span class="facts" {
                    "lane " (post.lane) " · " (age(chrome.ages, post.created_ms)) " ago · " (summary(&post.tiles))
                }
            }
            (sheet(shown, chrome.ages, &format!("Shots of {}", post.id)))
            @if hidden > 0 { p class="more" { a href={ "/posts/" (post.id) } { "and " (hidden) " more" } } }
        }
    }
}

/// The registry. `older` is the month before the ones shown, as `2026-10`.
#[must_use]
pub fn registry(
    series: &[SeriesView],
    posts: &[PostView],
    older: Option<&str>,
    chrome: &Chrome<'_>,
) -> Markup {
    html! {
        h1 class="unseen" { "Registry" }
        @for one in series { (series_block(one, chrome)) }
        section class="block" aria-labelledby="posts" {
            header class="block-head" { h2 id="posts" { "Posts" } }
            @if posts.is_empty() {
                p class="empty" { "No post here yet: " code { "glassline submit FILE.json" } " adds some." }
            }
            @for post in posts { (post_card(post, chrome)) }
            @if let Some(month) = older { p class="more" { a href={ "/?month=" (month) } { "Posts of " (month) } } }
        }
    }
}
