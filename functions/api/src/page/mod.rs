//! The registry page.

use crate::{Api, Ports};
use axum::Router;

/// What the page serves. Its sign-in, too, is in here: [`crate::auth`] asks for the secret below `/v1` only.
pub fn router<P: Ports>() -> Router<Api<P>> {
    Router::new()
}
