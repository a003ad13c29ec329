//! The lanes.

use super::forms::pause;
use super::layout::{Chrome, age, moment};
use crate::page::view::{LaneCard, counted, money};
use maud::{Markup, html};

/// Slots that are drawn one by one; more are told by a bar.
const DRAWN: u32 = 48;

fn slots(lane: &LaneCard) -> Markup {
    let words = format!("{} of {} slots in use", lane.in_use, lane.capacity);
    html! {
        p class="slots-words" { strong { (lane.in_use) } " of " (lane.capacity) " slots in use" }
        @if lane.capacity <= DRAWN {
            span class="slots" aria-hidden="true" {
                @for number in 0..lane.capacity {
                    span class=(if (number as usize) < lane.in_use { "slot full" } else { "slot" }) {}
                }
            }
        } @else {
            progress max=(lane.capacity) value=(lane.in_use) aria-label=(words) {}
        }
    }
}

fn spend(lane: &LaneCard) -> Markup {
    html! {
        @if let Some(budget_micros) = lane.budget_micros {
            div class="spend" {
                dt { "Spent today" }
                dd {
                    (money(lane.spent_micros)) " of " (money(budget_micros))
                    progress max=(budget_micros.max(1)) value=(lane.spent_micros.min(budget_micros))
                        aria-label={ "Budget of " (lane.name) " used today" } {}
                }
            }
        } @else if lane.price_micros.is_some() {
            div { dt { "Spent today" } dd { (money(lane.spent_micros)) } }
        }
        @if let Some(price_micros) = lane.price_micros { div { dt { "Per render" } dd { (money(price_micros)) } } }
    }
}

fn lane(lane: &LaneCard, chrome: &Chrome<'_>) -> Markup {
    html! {
        article class=(if lane.pause.is_some() { "card lane paused" } else { "card lane" }) id={ "lane-" (lane.name) } {
            header class="card-head" {
                h2 { (lane.name) }
                @match &lane.pause {
                    Some(_) => span class="chip is-held" { "Paused" },
                    None => span class="chip is-succeeded" { "Running" },
                }
                (pause(chrome, &lane.name, lane.pause.is_some()))
            }
            @if let Some(pause) = &lane.pause {
                p class="why" {
                    @match pause.until_ms {
                        Some(until_ms) => { "Until " (moment(until_ms)) },
                        None => "Until a person resumes it",
                    }
                    @if let Some(reason) = &pause.reason { ": " (reason) }
                    "."
                }
            }
            (slots(lane))
            dl class="figures" {
                div { dt { "Ready" } dd { (counted(lane.ready)) } }
                div {
                    dt { "First in line waits" }
                    dd { @match lane.first_ready_ms { Some(ms) => (age(chrome.ages, ms)), None => "–" } }
                }
                div { dt { "Wait to retry" } dd { (counted(lane.later)) } }
                div {
                    dt { "Held" }
                    dd {
                        @if lane.held > 0 { a href="/held" { (counted(lane.held)) } } @else { "0" }
                    }
                }
                @if let Some(starts) = lane.starts_per_minute { div { dt { "Starts a minute" } dd { "at most " (starts) } } }
                (spend(lane))
            }
        }
    }
}

/// The lanes' page.
#[must_use]
pub fn lanes(lanes: &[LaneCard], chrome: &Chrome<'_>) -> Markup {
    html! {
        h1 { "Lanes" }
        @if lanes.is_empty() { p class="empty" { "There is no lane yet." } }
        div class="lanes" { @for one in lanes { (lane(one, chrome)) } }
    }
}
