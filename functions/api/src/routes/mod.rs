//! What is served below `/v1`, a module for each group, and the document of it.

pub mod callbacks;
pub mod handoffs;
pub mod jobs;
pub mod lanes;
pub mod ops;
pub mod posts;
pub mod queues;
pub mod series;
pub mod stories;

use crate::openapi::{Operation, document};
use crate::{Api, Ports};
use axum::Json;
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::MethodRouter;
use serde_json::Value;

/// One method of one path: its handler, and what the document says of it.
pub struct Served<P> {
    /// The method.
    pub method: Method,
    /// The path, with its parameters in braces.
    pub path: &'static str,
    /// The handler.
    pub route: MethodRouter<Api<P>>,
    /// What the document says.
    pub operation: Operation,
}

impl<P: Ports> Served<P> {
    /// A read.
    pub fn get<H: Handler<T, Api<P>>, T: 'static>(
        path: &'static str,
        handler: H,
        operation: Operation,
    ) -> Self {
        Self { method: Method::GET, path, route: axum::routing::get(handler), operation }
    }

    /// A change.
    pub fn post<H: Handler<T, Api<P>>, T: 'static>(
        path: &'static str,
        handler: H,
        operation: Operation,
    ) -> Self {
        Self { method: Method::POST, path, route: axum::routing::post(handler), operation }
    }

    /// A change that may be repeated.
    pub fn put<H: Handler<T, Api<P>>, T: 'static>(
        path: &'static str,
        handler: H,
        operation: Operation,
    ) -> Self {
        Self { method: Method::PUT, path, route: axum::routing::put(handler), operation }
    }

    /// With another limit of its body, in bytes.
    #[must_use]
    pub fn taking(mut self, bytes: usize) -> Self {
        self.route = self.route.layer(DefaultBodyLimit::max(bytes));
        self
    }
}

/// Everything that is served and documented.
#[must_use]
pub fn all<P: Ports>() -> Vec<Served<P>> {
    let groups = [
        vec![Served::get(
            "/openapi.json",
            openapi::<P>,
            Operation::new("openapi", "document", "This document.")
                .open()
                .answer::<Value>(200, "The OpenAPI document."),
        )],
        posts::routes(),
        stories::routes(),
        series::routes(),
        lanes::routes(),
        jobs::routes(),
        ops::routes(),
        handoffs::routes(),
        callbacks::routes(),
        queues::routes(),
    ];
    groups.into_iter().flatten().collect()
}

/// The document of everything that is served.
#[must_use]
pub fn openapi_document<P: Ports>() -> Value {
    document(all::<P>().into_iter().map(|served| (served.method, served.path, served.operation)).collect())
}

async fn openapi<P: Ports>() -> Json<Value> {
    Json(openapi_document::<P>())
}
