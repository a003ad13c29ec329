//! What handlers take of a request. Whatever can't be read is a [`Problem`], and never a panic or another shape.

use crate::problem::{Code, Problem};
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

/// The parts of the path that a route names.
#[derive(Debug)]
pub struct Params<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let refused = |rejection: PathRejection| Problem::new(Code::BadParameter, rejection.body_text());
        Path::from_request_parts(parts, state).await.map(|Path(params)| Self(params)).map_err(refused)
    }
}

/// The query. The type should refuse unknown fields, so that a misspelt one doesn't count as absent.
#[derive(Debug)]
pub struct Search<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Search<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let refused = |rejection: QueryRejection| Problem::new(Code::BadParameter, rejection.body_text());
        Query::from_request_parts(parts, state).await.map(|Query(query)| Self(query)).map_err(refused)
    }
}

/// The body as it came, within the route's limit.
#[derive(Debug)]
pub struct Raw(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for Raw {
    type Rejection = Problem;
    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let refused = |rejection: BytesRejection| {
            if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
                Problem::new(Code::TooLarge, "The body is longer than this address takes; send less at once.")
            } else {
                Problem::new(Code::BadBody, "The body can't be read to its end.")
            }
        };
        Bytes::from_request(request, state).await.map(Self).map_err(refused)
    }
}

/// The media type of the body, lower case and without parameters.
#[must_use]
pub fn media_type(headers: &HeaderMap) -> String {
    let header = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    header.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// A JSON body of a type, sent as `application/json`.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;
    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if media_type(request.headers()) != "application/json" {
            return Err(Problem::new(Code::BadType, "Send the body as application/json."));
        }
        let Raw(bytes) = Raw::from_request(request, state).await?;
        parse(&bytes).map(Self)
    }
}

/// Reads a JSON object of a type, and names the field that doesn't fit.
///
/// # Errors
/// A [`Problem`] for the caller.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // A type that is read from an object would be read from an array too, its fields in order.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Problem::new(Code::BadBody, "The body isn't a JSON object."));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let (path, what) = (error.path().to_string(), error.inner().to_string());
        let place = if path == "." { String::new() } else { format!(" at `{path}`") };
        Problem::new(Code::BadBody, format!("The body isn't what is expected{place}: {what}."))
    })?;
    reader
        .end()
        .map_err(|_| Problem::new(Code::BadBody, "The body goes on after its JSON; send one value."))?;
    Ok(value)
}
