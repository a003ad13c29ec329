//! The page that people look at: HTML from the same rows as `/v1`, signed in by the shared secret.
//!
//! [`view`] builds what is shown from rows and the time, [`html`] writes it; both are pure. [`load`] reads rows, [`act`]
//! changes them, [`session`] says who may, and [`media`] serves stored outputs. Nothing needs script; with it, the page
//! asks for itself again every two seconds and changes what changed.

mod act;
pub mod html;
mod load;
mod media;
mod read;
mod respond;
pub mod session;
mod sign_in;
pub mod view;

use crate::{Api, Ports};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::HeaderValue;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

/// Longest form, in bytes.
const MAX_FORM_BYTES: usize = 16 << 10;

/// What the browser may load: our own files, and outputs from the store that the page names by https. No inline script or
/// style, no frames, no forms to elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' https:; media-src 'self' https:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/page.js");
const ICON: &str = include_str!("assets/icon.svg");

/// Names these very files in their addresses, so that they may be kept for ever.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for file in [STYLE, SCRIPT, ICON] {
        hash.update(file);
    }
    hex::encode(hash.finalize()).get(..12).unwrap_or_default().to_owned()
});

/// Everything that the page serves.
pub fn router<P: Ports>() -> Router<Api<P>> {
    Router::new()
        .route("/", get(read::registry))
        .route("/posts/{id}", get(read::post))
        .route("/series/{series}", get(read::series))
        .route("/series/{series}/episodes/{number}", get(read::episode))
        .route("/lanes", get(read::lanes))
        .route("/lanes/{lane}/{action}", post(act::lane))
        .route("/held", get(read::held))
        .route("/jobs/{parent}/{member}", get(read::job))
        .route("/jobs/{parent}/{member}/{action}", post(act::job))
        .route("/sign-in", get(sign_in::show).post(sign_in::enter))
        .route("/sign-out", post(sign_in::leave))
        .route("/media/{*location}", get(media::serve))
        .route("/page/style.css", get(async || asset("text/css; charset=utf-8", STYLE)))
        .route("/page/page.js", get(async || asset("text/javascript; charset=utf-8", SCRIPT)))
        .route("/page/icon.svg", get(async || asset("image/svg+xml", ICON)))
        .layer(DefaultBodyLimit::max(MAX_FORM_BYTES))
        .layer(from_fn(guarded))
}

fn asset(kind: &'static str, text: &'static str) -> impl IntoResponse {
    let kept = "public, max-age=31536000, immutable";
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, kept)], text)
}

/// What every answer of the page says of what the browser may do with it.
async fn guarded(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        // Not `no-referrer`: browsers would then say `Origin: null` of our own forms.
        (REFERRER_POLICY, "same-origin"),
        (CACHE_CONTROL, "no-store"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    for (name, value) in
        [("cross-origin-opener-policy", "same-origin"), ("cross-origin-resource-policy", "same-origin")]
    {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}
