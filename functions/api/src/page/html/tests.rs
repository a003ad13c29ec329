//! Pages as they come out of made-up views.

use super::*;
use crate::page::view::{Ages, EpisodeView, HeldJob, JobPage, Picture, PostView, Tile};
use glassline_protocol::ids::{Id, LaneName};
use glassline_protocol::provider::Media;
use glassline_protocol::row::{EpisodeKey, EpisodeStatus, QaState, Status};
use maud::Markup;

const NOW_MS: u64 = 1_795_965_840_000;
const MARKUP: &str = "<script>alert(1)</script><img src=x onerror=alert(1)> & \"quoted\" 'single'";

fn tile(key: &str, status: Status) -> Tile {
    let stored = status == Status::Succeeded;
    let picture = Picture {
        src: "/media/POST/a/SHOT/b/1-ab.png".into(),
        media: Media::Image,
        width_px: Some(4),
        height_px: Some(3),
        duration_ms: None,
        size_bytes: 5,
        sha256: "ab".into(),
    };
    Tile {
        job: key.parse().unwrap(),
        status,
        label: "Label",
        words: MARKUP.into(),
        since_ms: Some(NOW_MS - 3_000),
        attempt: 7,
        media: Media::Image,
        picture: stored.then_some(picture),
        qa: stored.then_some(QaState::Pending),
        prompt: Some(MARKUP.into()),
    }
}

fn chrome<'a>(ages: Ages, said: Option<Said>) -> Chrome<'a> {
    Chrome {
        title: MARKUP,
        place: Place::Registry,
        csrf: Some("token-of-changes"),
        ages,
        said,
        summary: MARKUP,
        live: true,
        etag: None,
        version: "1",
    }
}

fn written(main: impl Fn(&Chrome<'_>) -> Markup) -> String {
    let chrome = chrome(Ages::at(NOW_MS), None);
    page(&chrome, &main(&chrome))
}

fn lane(name: &str) -> LaneName {
    LaneName::new(name).unwrap()
}

fn post_view() -> PostView {
    let tiles = ["s1", "s2"].map(|shot| tile(&format!("POST#p/SHOT#{shot}"), Status::Succeeded));
    PostView {
        id: Id::new("p").unwrap(),
        lane: lane("a"),
        priority: 1,
        created_ms: NOW_MS,
        tiles: tiles.into(),
    }
}

fn episode_view() -> EpisodeView {
    let frames = [Status::Succeeded, Status::Rendering, Status::Held, Status::Failed];
    let tiles = (1..).zip(frames).map(|(n, status)| tile(&format!("EPISODE#m#000013/FRAME#{n}"), status));
    EpisodeView {
        key: EpisodeKey { series: Id::new("m").unwrap(), number: 13 },
        season: 2,
        episode: 3,
        status: EpisodeStatus::Open,
        story: Id::new("s").unwrap(),
        lane: lane("a"),
        created_ms: NOW_MS,
        closed_ms: None,
        reason: Some(MARKUP.into()),
        tiles: tiles.collect(),
    }
}

fn job_page(status: Status) -> JobPage {
    JobPage {
        tile: tile("POST#p/SHOT#s1", status),
        lane: lane("a"),
        failures: 0,
        created_ms: NOW_MS,
        task: None,
        cancel_requested: false,
        params: Some(MARKUP.into()),
        attempts: Vec::new(),
        orphans: Vec::new(),
        explained: None,
    }
}

fn held_job() -> HeldJob {
    HeldJob {
        tile: tile("POST#p/SHOT#s1", Status::Held),
        lane: lane("a"),
        task: None,
        next_look_ms: Some(NOW_MS),
        error: MARKUP.into(),
        cancel_requested: false,
    }
}

fn all() -> Vec<String> {
    vec![
        written(|chrome| post(&post_view(), chrome)),
        written(|chrome| episode(&episode_view(), chrome)),
        written(|chrome| job(&job_page(Status::Succeeded), chrome)),
        written(|chrome| job(&job_page(Status::Held), chrome)),
        written(|chrome| held(&[held_job()], true, chrome)),
        written(|_| sign_in(true, MARKUP)),
        written(|_| problem(MARKUP, MARKUP)),
    ]
}

#[test]
fn no_text_becomes_markup() {
    for text in all() {
        assert!(!text.contains("<script>") && !text.contains("<img src=x"), "{text}");
        assert!(text.contains("&lt;script&gt;"), "{text}");
    }
}

#[test]
fn nothing_is_inline_that_the_policy_would_refuse() {
    for text in all() {
        // Outside of quotes: what stands in a value is text.
        let bare: String = text.split('"').step_by(2).collect::<Vec<_>>().join("\"\"");
        let tags = bare.split('<').map(|tag| tag.split('>').next().unwrap_or_default());
        for tag in tags {
            let names: Vec<&str> = tag.split_whitespace().skip(1).collect();
            assert!(!names.iter().any(|name| name.starts_with("style=") || name.starts_with("on")), "{tag}");
        }
    }
}

#[test]
fn every_form_of_a_job_names_its_attempt_and_carries_the_token() {
    let pages = [
        written(|chrome| held(&[held_job()], false, chrome)),
        written(|chrome| job(&job_page(Status::Held), chrome)),
        written(|chrome| job(&job_page(Status::Succeeded), chrome)),
        written(|chrome| job(&job_page(Status::Failed), chrome)),
        written(|chrome| job(&job_page(Status::Ready), chrome)),
    ];
    for text in pages {
        let forms: Vec<&str> =
            text.split("<form ").skip(1).filter(|form| form.contains("action=\"/jobs/")).collect();
        assert!(!forms.is_empty());
        for form in forms {
            let form = form.split("</form>").next().unwrap();
            assert!(form.contains("action=\"/jobs/POST:p/SHOT:s1/"), "{form}");
            assert!(form.contains("name=\"attempt\" value=\"7\""), "{form}");
            assert!(form.contains("name=\"csrf\" value=\"token-of-changes\""), "{form}");
        }
    }
}

#[test]
fn what_is_stored_is_shown_and_the_rest_says_what_it_waits_for() {
    let text = written(|chrome| episode(&episode_view(), chrome));
    assert_eq!(text.matches("<img ").count(), 1);
    assert_eq!(text.matches("class=\"wait\"").count(), 3);
    for status in ["rendering", "held", "failed"] {
        assert!(text.contains(&format!("tile is-{status}")), "{status}");
    }
    assert!(text.contains("alt=\"Frame 1: &lt;script"));
}

#[test]
fn the_same_rows_give_the_same_page_whenever_ages_are_left_out() {
    let still = |now_ms| {
        let chrome = chrome(Ages::hidden(), None);
        let mut view = post_view();
        view.tiles = view.tiles.into_iter().map(|tile| Tile { since_ms: Some(now_ms), ..tile }).collect();
        post(&view, &chrome).into_string()
    };
    assert_eq!(still(5), still(5));
    assert_ne!(still(5), still(6));
    assert!(!still(NOW_MS - 3_000).contains("3 s"));
}

#[test]
fn a_film_plays_in_place_and_is_no_link() {
    let mut view = post_view();
    for tile in &mut view.tiles {
        if let Some(picture) = &mut tile.picture {
            picture.media = Media::Video;
        }
    }
    let text = written(|chrome| post(&view, chrome));
    let film = text.split("<video ").nth(1).unwrap();
    assert!(film.contains(" controls preload=\"metadata\""));
    assert!(!text.contains("<a class=\"pane\""));
}
