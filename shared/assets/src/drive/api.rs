//! The calls of Google Drive's API, version 3, that a store needs.
//!
//! Documented at <https://developers.google.com/workspace/drive/api/reference/rest/v3/files>,
//! <https://developers.google.com/workspace/drive/api/guides/manage-uploads#resumable>,
//! <https://developers.google.com/workspace/drive/api/guides/search-files> and
//! <https://developers.google.com/workspace/drive/api/guides/handle-errors>.

use super::token::Tokens;
use crate::config::DriveAccount;
use crate::wait::wait;
use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, HeaderValue, LOCATION, RANGE};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// How often a call is made before it is given up.
const TRIES: u32 = 4;
/// How long a connection may take to open, and a call with a part of 8 MiB to end.
const CONNECT_TIME: Duration = Duration::from_secs(10);
const CALL_TIME: Duration = Duration::from_secs(60);
/// The longest answer that is read.
const ANSWER_MAX_BYTES: usize = 4 << 20;
/// What is asked of a file.
const FIELDS: &str = "id,size,sha256Checksum,createdTime,appProperties";
/// The type of folders.
pub(super) const FOLDER: &str = "application/vnd.google-apps.folder";

/// A file or folder, as far as it is asked for.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct File {
    pub(super) id: String,
    /// Its size in bytes, as a text; folders have none.
    size: Option<String>,
    pub(super) sha256_checksum: Option<String>,
    /// RFC 3339 in UTC with milliseconds: sorts as text.
    #[serde(default)]
    pub(super) created_time: String,
    #[serde(default)]
    pub(super) app_properties: BTreeMap<String, String>,
}

impl File {
    pub(super) fn size_bytes(&self) -> Option<u64> {
        self.size.as_deref()?.parse().ok()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    #[serde(default)]
    files: Vec<File>,
    next_page_token: Option<String>,
    /// Not every place was searched: what isn't found may be there all the same.
    #[serde(default)]
    incomplete_search: bool,
}

/// Why a call failed. The texts name no secrets and no addresses of uploads.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// What was asked for isn't there.
    #[error("Drive doesn't know it")]
    Missing,
    /// It will not do it, whatever is repeated.
    #[error("Drive refuses with {0}")]
    Refused(StatusCode),
    /// Not now.
    #[error("Drive can't be asked now: {0}")]
    Unavailable(String),
}

/// How far an upload came.
#[derive(Debug)]
pub(super) enum Sent {
    /// It is whole.
    Whole(File),
    /// So many bytes are there.
    UpTo(u64),
    /// The upload isn't known any more.
    Gone,
}

/// The API, with the account's right to it.
pub(super) struct Api {
    client: Client,
    base: Url,
    tokens: Tokens,
    /// The shared drive, if the files are in one.
    shared: Option<String>,
}

impl Api {
    pub(super) fn new(
        base: Url,
        token_url: Url,
        account: DriveAccount,
        shared: Option<String>,
    ) -> Result<Self, reqwest::Error> {
        let secure = base.scheme() == "https" && token_url.scheme() == "https";
        let client = Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .https_only(secure)
            .connect_timeout(CONNECT_TIME)
            .timeout(CALL_TIME)
            .user_agent(concat!("glassline/", env!("CARGO_PKG_VERSION")))
            .build()?;
        let tokens = Tokens::new(client.clone(), token_url, account);
        Ok(Self { client, base, tokens, shared })
    }

    fn url(&self, path: &str, query: &[(&str, &str)]) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        url.query_pairs_mut().append_pair("supportsAllDrives", "true").extend_pairs(query);
        url
    }

    /// Makes a call, again when that makes sense, and returns an answer that isn't an error.
    async fn call(&self, make: impl Fn(&Client) -> RequestBuilder) -> Result<Response, CallError> {
        let mut last = CallError::Unavailable("it was not asked".into());
        for round in 0..TRIES {
            if round > 0 {
                wait(round).await;
            }
            let token = match self.tokens.get().await {
                Ok(token) => token,
                Err(cause) => {
                    last = CallError::Unavailable(cause);
                    continue;
                }
            };
            let mut bearer = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| CallError::Unavailable("its token is no token".into()))?;
            bearer.set_sensitive(true);
            let answer = match make(&self.client).header(AUTHORIZATION, bearer).send().await {
                Ok(answer) => answer,
                Err(error) => {
                    last = CallError::Unavailable(error.without_url().to_string());
                    continue;
                }
            };
            match answer.status().as_u16() {
                200..=299 | 308 => return Ok(answer),
                401 => {
                    self.tokens.forget(&token).await;
                    last = CallError::Unavailable("the token isn't taken".into());
                }
                404 | 410 => return Err(CallError::Missing),
                429 | 408 | 500..=599 => {
                    last = CallError::Unavailable(format!("it answers {}", answer.status()));
                }
                403 => {
                    if !rate_limited(answer).await {
                        return Err(CallError::Refused(StatusCode::FORBIDDEN));
                    }
                    last = CallError::Unavailable("it answers 403, too many requests".into());
                }
                _ => return Err(CallError::Refused(answer.status())),
            }
        }
        Err(last)
    }

    async fn json<T: serde::de::DeserializeOwned>(answer: Response) -> Result<T, CallError> {
        let body = body(answer).await?;
        serde_json::from_slice(&body)
            .map_err(|_| CallError::Unavailable("its answer isn't of the documented form".into()))
    }

    /// The files that a query matches, oldest first. Queries are built of our own words and of hashes alone.
    pub(super) async fn search(&self, query: &str) -> Result<Vec<File>, CallError> {
        let fields = format!("nextPageToken,incompleteSearch,files({FIELDS})");
        let (mut found, mut token) = (Vec::new(), None::<String>);
        loop {
            let mut pairs = vec![
                ("q", query),
                ("fields", fields.as_str()),
                ("pageSize", "1000"),
                ("spaces", "drive"),
                ("includeItemsFromAllDrives", "true"),
            ];
            if let Some(shared) = &self.shared {
                pairs.extend([("corpora", "drive"), ("driveId", shared.as_str())]);
            }
            if let Some(token) = &token {
                pairs.push(("pageToken", token));
            }
            let url = self.url("/drive/v3/files", &pairs);
            let page: Page = Self::json(self.call(|client| client.get(url.clone())).await?).await?;
            if page.incomplete_search {
                return Err(CallError::Unavailable("it searched not everywhere".into()));
            }
            found.extend(page.files);
            token = page.next_page_token;
            if token.is_none() {
                break;
            }
        }
        found.sort_by(|a, b| (&a.created_time, &a.id).cmp(&(&b.created_time, &b.id)));
        Ok(found)
    }

    /// Makes a folder.
    pub(super) async fn make_folder(
        &self,
        name: &str,
        parent: &str,
        properties: &BTreeMap<String, String>,
    ) -> Result<File, CallError> {
        let url = self.url("/drive/v3/files", &[("fields", FIELDS)]);
        let body =
            json!({"name": name, "mimeType": FOLDER, "parents": [parent], "appProperties": properties});
        Self::json(self.call(|client| client.post(url.clone()).json(&body)).await?).await
    }

    /// Begins an upload; returns the address that its parts go to, which is a secret.
    pub(super) async fn begin(
        &self,
        metadata: &Value,
        content_type: &str,
        size_bytes: u64,
    ) -> Result<Url, CallError> {
        let url = self.url("/upload/drive/v3/files", &[("uploadType", "resumable"), ("fields", FIELDS)]);
        let begun = self.call(|client| {
            client
                .post(url.clone())
                .header("X-Upload-Content-Type", content_type)
                .header("X-Upload-Content-Length", size_bytes)
                .json(metadata)
        });
        let begun = begun.await?;
        let place = begun.headers().get(LOCATION).and_then(|place| place.to_str().ok());
        // Our bytes go only to where we asked.
        place
            .and_then(|place| Url::parse(place).ok())
            .filter(|place| place.origin() == self.base.origin())
            .ok_or_else(|| CallError::Unavailable("it named no place for the upload".into()))
    }

    /// Sends bytes of an upload from `at` on; without bytes, asks how far it came.
    pub(super) async fn send(
        &self,
        place: &Url,
        bytes: Vec<u8>,
        at: u64,
        size_bytes: u64,
    ) -> Result<Sent, CallError> {
        let range = match (bytes.len() as u64).checked_sub(1) {
            Some(last) => format!("bytes {at}-{}/{size_bytes}", at + last),
            None => format!("bytes */{size_bytes}"),
        };
        let request = self
            .client
            .request(Method::PUT, place.clone())
            .header(CONTENT_LENGTH, bytes.len())
            .header(CONTENT_RANGE, range)
            .body(bytes);
        let answer = request.send().await;
        let answer = answer.map_err(|error| CallError::Unavailable(error.without_url().to_string()))?;
        match answer.status().as_u16() {
            200 | 201 => Ok(Sent::Whole(Self::json(answer).await?)),
            308 => Ok(Sent::UpTo(received(&answer))),
            404 | 410 => Ok(Sent::Gone),
            408 | 429 | 500..=599 => Err(CallError::Unavailable(format!("it answers {}", answer.status()))),
            403 => {
                if rate_limited(answer).await {
                    return Err(CallError::Unavailable("it answers 403, too many requests".into()));
                }
                Err(CallError::Refused(StatusCode::FORBIDDEN))
            }
            _ => Err(CallError::Refused(answer.status())),
        }
    }

    /// The bytes of a file.
    pub(super) async fn media(&self, id: &str) -> Result<Response, CallError> {
        let url = self.url(&format!("/drive/v3/files/{id}"), &[("alt", "media")]);
        self.call(|client| client.get(url.clone())).await
    }

    /// Deletes a file for good; fine if it isn't there.
    pub(super) async fn delete(&self, id: &str) -> Result<(), CallError> {
        let url = self.url(&format!("/drive/v3/files/{id}"), &[]);
        match self.call(|client| client.delete(url.clone())).await {
            Ok(_) | Err(CallError::Missing) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// How many bytes of an upload are there: `Range: bytes=0-N`; without it none.
fn received(answer: &Response) -> u64 {
    let range = answer.headers().get(RANGE).and_then(|range| range.to_str().ok());
    let last = range.and_then(|range| range.strip_prefix("bytes=0-")?.parse::<u64>().ok());
    last.map_or(0, |last| last.saturating_add(1))
}

async fn body(mut answer: Response) -> Result<Vec<u8>, CallError> {
    let mut body = Vec::new();
    while let Some(chunk) =
        answer.chunk().await.map_err(|error| CallError::Unavailable(error.without_url().to_string()))?
    {
        if body.len() + chunk.len() > ANSWER_MAX_BYTES {
            return Err(CallError::Unavailable("its answer is too long".into()));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Whether a 403 says "too many", which passes, and not "you may not".
async fn rate_limited(answer: Response) -> bool {
    let Ok(body) = body(answer).await else { return true };
    let text = String::from_utf8_lossy(&body);
    text.contains("rateLimitExceeded") || text.contains("userRateLimitExceeded")
}
