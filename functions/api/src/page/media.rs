//! Stored outputs. Only what an outcome row names is served, under the content type that was told from its bytes, and
//! never so that it could do anything: no sniffing, no script, no access to the page.

use super::session::Session;
use crate::{Api, Ports};
use axum::extract::{Path, State};
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    ETAG, IF_NONE_MATCH, LOCATION, RANGE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use glassline_assets::{Location, Place};
use glassline_protocol::vault::Asset;
use std::io::SeekFrom;
use std::path::Path as FilePath;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

/// The most of a file that one answer to a range carries, in bytes: a function's answer has at most 6 MB, and its bytes
/// grow by a third on the way. The browser asks for the rest.
const PART_BYTES: u64 = 4 << 20;

/// How long an address in the store works: long enough to watch a film.
const ADDRESS_LIFETIME: Duration = Duration::from_secs(15 * 60);

/// Nothing of an output runs: it is only painted or played.
const POLICY: &str =
    "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; sandbox";

/// The asset that an outcome row records at this very location.
async fn recorded<P: Ports>(ports: &P, location: &Location) -> Result<Option<Asset>, StatusCode> {
    let view = ports.job(&location.job).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    let text = location.to_string();
    Ok(view
        .and_then(|view| view.outcome(location.attempt)?.asset())
        .filter(|asset| asset.location == text && asset.sha256 == location.sha256))
}

/// `/media/{location}`
pub(super) async fn serve<P: Ports>(
    State(api): State<Api<P>>,
    Path(location): Path<String>,
    headers: HeaderMap,
) -> Response {
    if Session::of(&api.config().entry, &headers, api.ports().now_ms()).is_none() {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let (Some(shelf), Some(location)) = (api.shelf(), Location::parse(&location)) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let asset = match recorded(api.ports(), &location).await {
        Ok(Some(asset)) => asset,
        Ok(None) => return StatusCode::NOT_FOUND.into_response(),
        Err(status) => return status.into_response(),
    };
    let etag = format!("\"{}\"", asset.sha256);
    let mut response = if headers.get(IF_NONE_MATCH).is_some_and(|given| given.as_bytes() == etag.as_bytes())
    {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        match shelf.place_of(&location, ADDRESS_LIFETIME).await {
            Ok(Place::File(path)) => file(&path, headers.get(RANGE)).await,
            // Asked for anew each time, because it expires.
            Ok(Place::Address(address)) => return elsewhere(address.expose()),
            Ok(Place::Nowhere) => return StatusCode::NOT_FOUND.into_response(),
            Err(error) => {
                tracing::error!(%error, "no address of a stored output can be signed");
                return StatusCode::SERVICE_UNAVAILABLE.into_response();
            }
        }
    };
    let said = [
        (CONTENT_TYPE, asset.content_type.as_str()),
        (ETAG, &etag),
        // The bytes behind a location never change.
        (CACHE_CONTROL, "private, max-age=3600, immutable"),
        (CONTENT_DISPOSITION, "inline"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (ACCEPT_RANGES, "bytes"),
    ];
    if response.status().is_success() || response.status() == StatusCode::NOT_MODIFIED {
        say(&mut response, &said);
    }
    response
}

/// Leads the browser to an address that is good for a while.
fn elsewhere(address: &str) -> Response {
    match HeaderValue::from_str(address) {
        Ok(address) => (StatusCode::FOUND, [(LOCATION, address)]).into_response(),
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

fn say(response: &mut Response, said: &[(HeaderName, &str)]) {
    for (name, value) in said {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    }
}

/// The first and last byte that a range asks for, cut to [`PART_BYTES`]; `Ok(None)` when all is asked for, or several
/// ranges, which may be answered so; an error when it lies outside.
fn part(range: Option<&HeaderValue>, size_bytes: u64) -> Result<Option<(u64, u64)>, ()> {
    let Some(text) = range.and_then(|range| range.to_str().ok()) else { return Ok(None) };
    let Ok(asked) = http_range_header::parse_range_header(text) else { return Ok(None) };
    if asked.ranges.len() != 1 {
        return Ok(None);
    }
    let ranges = asked.validate(size_bytes).map_err(|_| ())?;
    let Some(range) = ranges.first() else { return Err(()) };
    let last = (*range.end()).min(range.start().saturating_add(PART_BYTES - 1));
    Ok(Some((*range.start(), last)))
}

/// A file, or the part of it that is asked for.
async fn file(path: &FilePath, range: Option<&HeaderValue>) -> Response {
    let read = async {
        let mut file = tokio::fs::File::open(path).await?;
        let size_bytes = file.metadata().await?.len();
        let asked = part(range, size_bytes);
        let Ok(asked) = asked else { return Ok((asked, size_bytes, Vec::new())) };
        let (first, length) = asked.map_or((0, size_bytes), |(first, last)| (first, last - first + 1));
        file.seek(SeekFrom::Start(first)).await?;
        let mut bytes = Vec::new();
        file.take(length).read_to_end(&mut bytes).await?;
        std::io::Result::Ok((Ok(asked), size_bytes, bytes))
    };
    match read.await {
        Ok((Ok(None), _, bytes)) => bytes.into_response(),
        Ok((Ok(Some((first, last))), size_bytes, bytes)) => {
            let range = format!("bytes {first}-{last}/{size_bytes}");
            (StatusCode::PARTIAL_CONTENT, [(CONTENT_RANGE, range)], bytes).into_response()
        }
        Ok((Err(()), size_bytes, _)) => {
            (StatusCode::RANGE_NOT_SATISFIABLE, [(CONTENT_RANGE, format!("bytes */{size_bytes}"))])
                .into_response()
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => StatusCode::NOT_FOUND.into_response(),
        Err(error) => {
            tracing::error!(%error, "a stored output can't be read");
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_to_what_an_answer_may_carry() {
        let size = 10 * PART_BYTES;
        for (text, expected) in [
            ("bytes=0-", Ok(Some((0, PART_BYTES - 1)))),
            ("bytes=5-9", Ok(Some((5, 9)))),
            ("bytes=-3", Ok(Some((size - 3, size - 1)))),
            ("bytes=0-1,5-6", Ok(None)),
            ("lines=0-1", Ok(None)),
            ("bytes=x", Ok(None)),
        ] {
            assert_eq!(part(Some(&HeaderValue::from_static(text)), size), expected, "{text}");
        }
        let outside = HeaderValue::from_str(&format!("bytes={size}-")).unwrap();
        assert_eq!(part(Some(&outside), size), Err(()));
        assert_eq!(part(None, size), Ok(None));
    }
}
