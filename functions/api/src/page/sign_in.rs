//! Signing in and out.

use super::html::{problem, sign_in};
use super::respond::{Visit, outside, see, see_with};
use super::session::{Session, ended, from_our_page};
use crate::{Api, Ports};
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;

/// Where to go after the sign-in.
#[derive(Deserialize)]
pub(super) struct Next {
    next: Option<String>,
}

/// A path of this page, or the first page: never an address elsewhere.
fn inside(next: Option<&str>) -> &str {
    let plain = |path: &&str| {
        path.starts_with('/')
            && !path.starts_with("//")
            && !path.starts_with("/sign-")
            && path.bytes().all(|b| b.is_ascii_graphic() && b != b'\\')
    };
    next.filter(plain).unwrap_or("/")
}

/// The form.
pub(super) async fn show<P: Ports>(
    State(api): State<Api<P>>,
    Query(next): Query<Next>,
    headers: HeaderMap,
) -> Response {
    let next = inside(next.next.as_deref());
    if Session::of(&api.config().entry, &headers, api.ports().now_ms()).is_some() {
        return see(next);
    }
    outside(StatusCode::OK, "Sign in", None, &sign_in(false, next))
}

/// What the form sends.
#[derive(Deserialize)]
pub(super) struct Entry {
    secret: String,
    next: Option<String>,
}

/// Begins a session for whoever knows the secret.
pub(super) async fn enter<P: Ports>(
    State(api): State<Api<P>>,
    headers: HeaderMap,
    form: Result<Form<Entry>, FormRejection>,
) -> Response {
    if !from_our_page(&headers) {
        return foreign();
    }
    let entry = form.map(|Form(entry)| entry).unwrap_or(Entry { secret: String::new(), next: None });
    let next = inside(entry.next.as_deref());
    // Pasted secrets often end in a line's end.
    if !api.config().entry.admit(entry.secret.trim().as_bytes()) {
        tracing::warn!(event = "secret_refused", "a sign-in without the shared secret was refused");
        return outside(StatusCode::UNAUTHORIZED, "Sign in", None, &sign_in(true, next));
    }
    let nonce = api.ports().fresh_token();
    let session = Session::begin(&api.config().entry, api.ports().now_ms(), nonce.as_str());
    see_with(next, session.cookie(&headers))
}

/// The token that ends a session.
#[derive(Deserialize)]
pub(super) struct Leave {
    csrf: String,
}

/// Ends the session in this browser.
pub(super) async fn leave<P: Ports>(
    State(api): State<Api<P>>,
    visit: Visit,
    form: Result<Form<Leave>, FormRejection>,
) -> Response {
    let allowed = form.is_ok_and(|Form(form)| visit.session.allows(&api.config().entry, &form.csrf));
    if allowed && from_our_page(&visit.headers) {
        see_with("/sign-in", ended(&visit.headers))
    } else {
        foreign()
    }
}

/// The answer to a change that no page of ours sent.
pub(super) fn foreign() -> Response {
    let heading = "Nothing was changed";
    let sentence = "This didn't come from a page of this registry, or from one that was shown in another session. \
        Open the page again and repeat it there.";
    outside(StatusCode::FORBIDDEN, heading, None, &problem(heading, sentence))
}

#[cfg(test)]
mod tests {
    use super::inside;

    #[test]
    fn the_way_on_stays_inside() {
        for path in ["/lanes", "/jobs/POST:a/SHOT:b", "/series/a?before=3"] {
            assert_eq!(inside(Some(path)), path);
        }
        for path in [
            "",
            "lanes",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "/a b",
            "/\r\nx",
            "/sign-in",
        ] {
            assert_eq!(inside(Some(path)), "/", "{path:?}");
        }
        assert_eq!(inside(None), "/");
    }
}
