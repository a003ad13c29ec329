//! Answers: pages, redirects, problems.

use super::VERSION;
use super::html::{self, Chrome, Place, Said, page, problem};
use super::session::Session;
use super::view::Ages;
use crate::{Api, Ports};
use axum::extract::FromRequestParts;
use axum::http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use glassline_protocol::ids::Ms;
use glassline_protocol::ports::Unread;
use maud::Markup;
use sha2::{Digest, Sha256};

/// Somebody who is signed in and looks at a page.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    pub(super) session: Session,
    pub(super) csrf: String,
    pub(super) now_ms: Ms,
    pub(super) headers: HeaderMap,
    said: Option<Said>,
}

impl<P: Ports> FromRequestParts<Api<P>> for Visit {
    type Rejection = Response;
    async fn from_request_parts(parts: &mut Parts, api: &Api<P>) -> Result<Self, Response> {
        let (secrets, now_ms) = (&api.config().entry, api.ports().now_ms());
        let Some(session) = Session::of(secrets, &parts.headers, now_ms) else {
            let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
            let next = if parts.method == "GET" && path != "/" {
                format!("?next={}", encoded(path))
            } else {
                String::new()
            };
            return Err(see(&format!("/sign-in{next}")));
        };
        let csrf = session.token(secrets);
        let said = parts.uri.query().and_then(said_of);
        Ok(Self { session, csrf, now_ms, headers: parts.headers.clone(), said })
    }
}

/// A text as a part of a query.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// What a change came to, by the word in the address. Only these sentences are ever shown.
macro_rules! sayings {
    ($($name:ident $word:literal $said:ident $text:literal;)*) => {
        /// What a change came to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Saying { $($name),* }
        impl Saying {
            /// The word in the address.
            pub(super) fn word(self) -> &'static str { match self { $(Self::$name => $word),* } }
            fn of(word: &str) -> Option<Said> {
                match word { $($word => Some(Said::$said($text)),)* _ => None }
            }
        }
    };
}
sayings! {
    Paused "paused" Done "The lane is paused: nothing new starts in it. What runs goes on.";
    Resumed "resumed" Done "The lane is resumed.";
    Cancelled "cancelled" Done "It is cancelled.";
    Requeued "requeued" Done "It is rendered again.";
    Retried "retried" Done "It is tried again: nothing of the last attempt was accepted, as you said.";
    Recorded "recorded" Done "The task is recorded; the provider is asked about it.";
    GivenUp "given-up" Done "The attempt was given up.";
    Approved "approved" Done "The output is approved.";
    Rejected "rejected" Done "The output is rejected; it is rendered again.";
    Stopping "stopping" Done "It was asked to stop; what the provider then says ends it.";
    Finishing "finishing" Done "Its output turned out to be stored: it is finished instead.";
    RejectedOnly "rejected-only" Done "The output is rejected. It can't be rendered again by itself now.";
    Moved "moved" Refused "Nothing was changed: it has moved on since this page was shown. Look at it as it is now.";
    Later "later" Refused "Nobody can tell now whether that was done. Look, and try again.";
    Unfit "unfit" Refused "Nothing was changed: something was missing in the form, or can't be used.";
}

fn said_of(query: &str) -> Option<Said> {
    query.split('&').find_map(|pair| pair.strip_prefix("said=")).and_then(Saying::of)
}

/// Leads the browser to an address of ours.
pub(super) fn see(path: &str) -> Response {
    match HeaderValue::from_str(path) {
        Ok(path) => (StatusCode::SEE_OTHER, [(LOCATION, path)]).into_response(),
        Err(_) => (StatusCode::SEE_OTHER, [(LOCATION, HeaderValue::from_static("/"))]).into_response(),
    }
}

/// The same, and sets a cookie.
pub(super) fn see_with(path: &str, cookie: Option<HeaderValue>) -> Response {
    let mut response = see(path);
    if let Some(cookie) = cookie {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// A page's own part.
pub(super) struct Shown<'a> {
    pub(super) title: &'a str,
    pub(super) place: Place,
    /// In a few words how things stand.
    pub(super) summary: &'a str,
}

fn html_of(status: StatusCode, text: String) -> Response {
    (status, [(CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response()
}

/// Answers with a page that is watched: with an `ETag` of all that it says but ages, and with nothing if the browser has
/// the same.
pub(super) fn answer(visit: &Visit, shown: &Shown<'_>, main: impl Fn(&Chrome<'_>) -> Markup) -> Response {
    let chrome = |ages| Chrome {
        title: shown.title,
        place: shown.place,
        csrf: Some(&visit.csrf),
        ages,
        said: visit.said,
        summary: shown.summary,
        live: true,
        etag: None,
        version: &VERSION,
    };
    let still = main(&chrome(Ages::hidden())).into_string();
    let hash =
        Sha256::new().chain_update(&*VERSION).chain_update(shown.summary).chain_update(still).finalize();
    let etag = format!("\"{}\"", hex::encode(hash.get(..16).unwrap_or_default()));
    let same = visit.headers.get(IF_NONE_MATCH).is_some_and(|given| given.as_bytes() == etag.as_bytes());
    let mut response = if same {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let chrome = Chrome { etag: Some(&etag), ..chrome(Ages::at(visit.now_ms)) };
        html_of(StatusCode::OK, page(&chrome, &main(&chrome)))
    };
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(ETAG, etag);
    }
    response
}

/// A page that isn't watched, for who may not be signed in.
pub(super) fn outside(status: StatusCode, title: &str, csrf: Option<&str>, main: &Markup) -> Response {
    let chrome = Chrome {
        title,
        place: Place::Outside,
        csrf,
        ages: Ages::hidden(),
        said: None,
        summary: "",
        live: false,
        etag: None,
        version: &VERSION,
    };
    html_of(status, page(&chrome, main))
}

/// Why a page can't be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// There is no such thing.
    Missing(String),
    /// The table gave no answer, or a row that can't be understood.
    Unread(Unread),
}

impl From<Unread> for Trouble {
    fn from(unread: Unread) -> Self {
        Self::Unread(unread)
    }
}

/// The answer to a change that was refused: why, and the way to how things are now.
pub(super) fn refused(visit: &Visit, why: &str, path: &str) -> Response {
    outside(StatusCode::CONFLICT, "Nothing was changed", Some(&visit.csrf), &html::refused(why, path))
}

impl Trouble {
    pub(super) fn answer(self, visit: &Visit) -> Response {
        let (status, heading, sentence) = match self {
            Self::Missing(what) => {
                (StatusCode::NOT_FOUND, "It isn't there", format!("There is no {what} in this registry."))
            }
            Self::Unread(Unread::Unavailable) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Not now",
                "The table doesn't answer. Nothing is lost; try again in a moment.".to_owned(),
            ),
            Self::Unread(Unread::Bad(row)) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "A row can't be understood", row.to_string())
            }
        };
        outside(status, heading, Some(&visit.csrf), &problem(heading, &sentence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_sentences_are_said() {
        assert!(matches!(said_of("before=3&said=paused"), Some(Said::Done(_))));
        assert!(matches!(said_of("said=moved"), Some(Said::Refused(_))));
        for query in ["", "said=", "said=<script>", "xsaid=paused", "said=Paused"] {
            assert_eq!(said_of(query), None, "{query}");
        }
    }

    #[test]
    fn an_address_within_an_address_is_encoded() {
        assert_eq!(encoded("/jobs/POST:a/SHOT:b?x=1&y=é"), "/jobs/POST%3Aa/SHOT%3Ab%3Fx%3D1%26y%3D%C3%A9");
    }
}
