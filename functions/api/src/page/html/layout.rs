//! What every page has: head, navigation, the main part.

use crate::page::view::{Ages, time};
use glassline_protocol::ids::Ms;
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Where in the registry a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Series and posts, and what is below them.
    Registry,
    /// The lanes.
    Lanes,
    /// The held jobs.
    Held,
    /// Outside: the sign-in and errors.
    Outside,
}

/// What a page says after a change. The texts are ours: nothing of an address is ever shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// It was done.
    Done(&'static str),
    /// It wasn't, and why.
    Refused(&'static str),
}

/// What is around the main part.
#[derive(Clone, Copy, Debug)]
pub struct Chrome<'a> {
    /// The page's name.
    pub title: &'a str,
    /// Where it is.
    pub place: Place,
    /// The token that changes carry; `None` for who isn't signed in.
    pub csrf: Option<&'a str>,
    /// How ages are written.
    pub ages: Ages,
    /// What a change came to.
    pub said: Option<Said>,
    /// What the page comes to in a few words; it is read out when it changes.
    pub summary: &'a str,
    /// Whether the page is asked for again while it is watched.
    pub live: bool,
    /// The page's `ETag`, to be asked with.
    pub etag: Option<&'a str>,
    /// Version of stylesheet and script, for their addresses.
    pub version: &'a str,
}

/// A pane of glass and a line of light: the mark.
const MARK: &str = r#"<svg class="mark" viewBox="0 0 32 32" aria-hidden="true" focusable="false"><path class="mark-a" d="M4 6 17 3 14 17Z"/><path class="mark-b" d="M17 3 28 11 14 17Z"/><path class="mark-c" d="M28 11 24 27 14 17Z"/><path class="mark-d" d="M4 6 14 17 24 27 8 28Z"/></svg>"#;

fn link(place: Place, own: Place, href: &str, text: &str) -> Markup {
    html! { a href=(href) aria-current=[(place == own).then_some("page")] { (text) } }
}

fn header(chrome: &Chrome<'_>) -> Markup {
    html! {
        header class="top" {
            a class="brand" href="/" { (PreEscaped(MARK)) span { "Glassline" } }
            @if let Some(csrf) = chrome.csrf {
                nav aria-label="Main" {
                    (link(chrome.place, Place::Registry, "/", "Registry"))
                    (link(chrome.place, Place::Lanes, "/lanes", "Lanes"))
                    (link(chrome.place, Place::Held, "/held", "Held"))
                }
                form class="out" method="post" action="/sign-out" {
                    input type="hidden" name="csrf" value=(csrf);
                    button class="quiet" { "Sign out" }
                }
            }
        }
    }
}

/// What a change came to.
fn said(said: Option<Said>) -> Markup {
    html! {
        @match said {
            Some(Said::Done(text)) => p id="said" class="said" role="status" { (text) },
            Some(Said::Refused(text)) => p id="said" class="said refused" role="alert" { (text) },
            None => {},
        }
    }
}

/// A whole page.
#[must_use]
pub fn page(chrome: &Chrome<'_>, main: &Markup) -> String {
    let now = chrome.ages.now_ms().map(|now_ms| now_ms.to_string());
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { (chrome.title) " · Glassline" }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                link rel="icon" type="image/svg+xml" href={ "/page/icon.svg?v=" (chrome.version) };
                link rel="stylesheet" href={ "/page/style.css?v=" (chrome.version) };
                script src={ "/page/page.js?v=" (chrome.version) } defer {}
            }
            body {
                a class="skip" href="#main" { "Skip to the content" }
                (header(chrome))
                (said(chrome.said))
                main id="main" tabindex="-1" data-now=[now] data-live=[chrome.live.then_some("")] data-etag=[chrome.etag]
                    data-summary=(chrome.summary) { (main) }
                p id="live" class="unseen" role="status" aria-live="polite" {}
                footer class="foot" {
                    p {
                        @if chrome.live { span id="pulse" class="pulse" { "As of when this page was opened." } }
                        @else { "Every attempt is paid for once." }
                    }
                }
            }
        }
    }
    .into_string()
}

/// The id of an element that is about a row: unique on its page, for keys are.
pub(super) fn id_of(prefix: &str, key: &impl std::fmt::Display) -> String {
    format!("{prefix}-{}", crate::keys::in_address(key))
}

/// An age that goes on by itself where the script runs.
pub(super) fn age(ages: Ages, since_ms: Ms) -> Markup {
    let (machine, person) = time(since_ms);
    html! { time class="age" datetime=(machine) title={ (person) " UTC" } data-since=(since_ms) { (ages.since(since_ms)) } }
}

/// A moment.
pub(super) fn moment(ms: Ms) -> Markup {
    let (machine, person) = time(ms);
    html! { time datetime=(machine) { (person) " UTC" } }
}
