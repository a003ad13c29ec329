//! Entry: the shared secret in `Authorization: Bearer …`. What a caller may change is decided by tokens on rows, later.

use crate::problem::{Code, Problem};
use crate::{Api, Ports};
use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use glassline_protocol::sign::Secrets;

/// Where callbacks arrive. They are signed by whom they come from, and have no shared secret.
pub const CALLBACKS: &str = "/v1/callbacks/";

/// Whether a path asks for the shared secret. The page has a sign-in of its own, and the document is for everybody.
#[must_use]
pub fn asks(path: &str) -> bool {
    (path == "/v1" || path.starts_with("/v1/")) && !path.starts_with(CALLBACKS)
}

/// Whether a request presents a secret in force: in one header, as `Bearer` and the secret.
#[must_use]
pub fn presents(secrets: &Secrets, headers: &HeaderMap) -> bool {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (first, second) = (given.next(), given.next());
    let bearer = first.map(HeaderValue::as_bytes).and_then(|header| {
        let (scheme, secret) = header.split_at_checked(b"Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then_some(secret)
    });
    // Compared in every case, so that no refusal is told from another by its time.
    secrets.admit(bearer.unwrap_or_default()) && second.is_none()
}

/// The one refusal: it doesn't say what was wrong.
#[must_use]
pub fn refusal() -> Problem {
    Problem::new(Code::Unauthorized, "Present the shared secret as `Authorization: Bearer …`.")
}

/// Lets requests in, or refuses them before anything of them is read.
pub(crate) async fn gate<P: Ports>(State(api): State<Api<P>>, request: Request, next: Next) -> Response {
    if asks(request.uri().path()) && !presents(&api.config().entry, request.headers()) {
        tracing::warn!(event = "secret_refused", method = %request.method(), "a request without the shared secret was refused");
        return refusal().into_response();
    }
    next.run(request).await
}
