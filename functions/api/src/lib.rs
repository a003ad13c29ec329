//! The api function: authenticated intake, the registry as JSON, and the page that people look at.
//!
//! [`Api`] is what every handler gets: the ports, and what the function was configured with. [`router`] puts the routes
//! together. Each group of routes is a module of [`routes`] that lists what it serves as [`routes::Served`]: method, path,
//! handler and [`openapi::Operation`] in one place, so that the document at `/openapi.json` and the router are made from
//! the same list and can't tell different stories. The page at `/` is a router of its own ([`page`]) and isn't in the
//! document.
//!
//! Entry is decided before routing ([`auth`]): whatever lies below `/v1` asks for the shared secret, also paths and methods
//! that don't exist, but for callbacks, which carry their own signature. Every refusal is a [`problem::Problem`].

pub mod auth;
pub mod bootstrap;
pub mod extract;
pub mod intake;
pub mod keys;
pub mod openapi;
pub mod page;
pub mod paging;
pub mod problem;
pub mod routes;
pub mod url;
pub mod views;
pub mod words;

use crate::problem::{Code, Problem};
use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request};
use axum::http::HeaderValue;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use glassline_assets::Shelf;
use glassline_protocol::ports::{DeadLetters, JobScan, Local, Queues, Store};
use glassline_protocol::provider::Callbacks;
use glassline_protocol::registry::Registry;
use glassline_protocol::settings::Settings;
use glassline_protocol::sign::Secrets;
use std::sync::Arc;

/// Longest body that a route takes, unless it says otherwise, in bytes.
pub const MAX_BODY_BYTES: usize = 1 << 20;

/// What the function needs of the world.
pub trait Ports:
    Store + Registry + JobScan + Queues + DeadLetters + Callbacks + Local + Send + Sync + 'static
{
}
impl<T: Store + Registry + JobScan + Queues + DeadLetters + Callbacks + Local + Send + Sync + 'static> Ports
    for T
{
}

/// What the function is configured with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Times and limits.
    pub settings: Settings,
    /// What callers present.
    pub entry: Secrets,
    /// What signs handoffs.
    pub handoff: Secrets,
}

/// The state of every handler: ports and configuration. Clones are the same.
pub struct Api<P>(Arc<(P, Config, Option<Shelf>)>);

impl<P> Clone for Api<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P> Api<P> {
    /// Puts ports and configuration together.
    #[must_use]
    pub fn new(ports: P, config: Config) -> Self {
        Self::with_shelf(ports, config, None)
    }

    /// The same with the place where the page reads stored outputs.
    #[must_use]
    pub fn with_shelf(ports: P, config: Config, shelf: Option<Shelf>) -> Self {
        Self(Arc::new((ports, config, shelf)))
    }

    /// Where stored outputs are read; `None` where they can't be, and aren't shown.
    #[must_use]
    pub fn shelf(&self) -> Option<&Shelf> {
        self.0.2.as_ref()
    }

    /// The ports.
    #[must_use]
    pub fn ports(&self) -> &P {
        &self.0.0
    }

    /// What the function was configured with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.0.1
    }
}

/// Everything that the function serves.
pub fn router<P: Ports>(api: Api<P>) -> Router {
    let mut router = Router::new();
    for served in routes::all::<P>() {
        router = router.route(served.path, served.route);
    }
    let inner = router
        .merge(page::router())
        .fallback(|| async {
            Problem::new(Code::NoSuchRoute, "Nothing is served here; /openapi.json lists what is.")
        })
        .method_not_allowed_fallback(|| async {
            Problem::new(Code::BadMethod, "It doesn't take this method; /openapi.json lists which it takes.")
        })
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(from_fn(log))
        .with_state(api.clone());
    // The gate stands before all routing: a refusal must not even say which methods an address takes.
    Router::new()
        .fallback_service(inner)
        .layer(from_fn_with_state(api, auth::gate::<P>))
        .layer(from_fn(keep_nothing))
}

/// Whoever keeps or shows an answer is told to keep nothing and to guess nothing.
async fn keep_nothing(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [("cache-control", "no-store"), ("x-content-type-options", "nosniff")] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Logs what was answered, with its route and never with its address, which may carry tokens.
async fn log(request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    tracing::info!(event = "answered", %method, route, status = response.status().as_u16());
    response
}
