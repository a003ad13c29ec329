//! Fetching an output: a guarded GET, streamed into a file that has no name, with constant memory.

use crate::config::{Limits, VaultConfigError};
use crate::dial::{Resolver, blocked_within};
use crate::policy::{Blocked, Policy};
use glassline_protocol::ids::LaneName;
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, LOCATION};
use reqwest::{Client, Response, StatusCode, Url};
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;

/// Where outputs are fetched from with headers of the account, such as its key. They go to addresses with this scheme,
/// host, port and path before them and nowhere else, redirects included.
#[derive(Clone)]
pub struct Access {
    /// The address before those of the outputs.
    pub base: Url,
    /// The headers; mark a key among them as sensitive.
    pub headers: HeaderMap,
}

impl std::fmt::Debug for Access {
    /// Without the headers, which may hold a key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

impl Access {
    fn covers(&self, url: &Url) -> bool {
        let path = self.base.path().trim_end_matches('/');
        let below = url.path().strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        below && url.origin() == self.base.origin()
    }
}

/// Fetches the outputs of one lane.
pub(crate) struct Fetcher {
    client: Client,
    policy: Arc<Policy>,
    access: Option<Access>,
    limits: Limits,
    temp_dir: Option<PathBuf>,
}

/// A body that came whole, as far as the connection can tell.
pub(crate) struct Fetched {
    /// Its bytes. The file has no name: nothing is left behind by a crash.
    pub(crate) file: std::fs::File,
    /// Its size in bytes.
    pub(crate) size_bytes: u64,
    /// SHA-256 of its bytes, 64 lower-case hex digits.
    pub(crate) sha256: String,
}

/// Why an output wasn't fetched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    /// The address may not be asked.
    #[error(transparent)]
    Blocked(#[from] Blocked),
    /// The other side says that the output is no longer there.
    #[error("the output's address answers {0}")]
    Expired(StatusCode),
    /// The other side will not serve the output.
    #[error("the output's address answers {0}")]
    Answer(StatusCode),
    /// More bytes than allowed.
    #[error("the output is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// Not now: the network or the other side failed. The text is free of addresses.
    #[error("the output can't be fetched now: {0}")]
    Network(String),
    /// Not now: the download can't be written down here.
    #[error("the download can't be written to the temporary folder: {0}")]
    Disk(#[from] std::io::Error),
}

/// How much of an error's body is read to find out why.
const ERROR_BODY_MAX_BYTES: usize = 4096;

impl Fetcher {
    /// A fetcher for a lane: no proxy from the environment, no cookies, no Referer, no automatic redirect.
    pub(crate) fn new(
        lane: &LaneName,
        policy: Policy,
        limits: &Limits,
        temp_dir: Option<PathBuf>,
        access: Option<Access>,
    ) -> Result<Self, VaultConfigError> {
        let policy = Arc::new(policy);
        let client = Client::builder()
            .no_proxy()
            .referer(false)
            .redirect(reqwest::redirect::Policy::none())
            .https_only(policy.https_only())
            .connect_timeout(Duration::from_millis(limits.connect_ms))
            .dns_resolver(Arc::new(Resolver::new(Arc::clone(&policy))))
            .user_agent(concat!("glassline/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| VaultConfigError::Client { lane: lane.clone(), cause: chain(&error) })?;
        Ok(Self { client, policy, access, limits: limits.clone(), temp_dir })
    }

    /// Fetches an output of at most `limit_bytes` bytes, following redirects that keep the lane's rules.
    pub(crate) async fn fetch(&self, address: &str, limit_bytes: u64) -> Result<Fetched, FetchError> {
        let deadline = Duration::from_millis(self.limits.deadline_ms);
        match tokio::time::timeout(deadline, self.follow(address, limit_bytes)).await {
            Ok(result) => result,
            Err(_) => Err(FetchError::Network("the deadline passed".into())),
        }
    }

    async fn follow(&self, address: &str, limit_bytes: u64) -> Result<Fetched, FetchError> {
        let mut url = Url::parse(address).map_err(|_| Blocked::NotUrl)?;
        for _ in 0..=self.limits.redirects {
            self.policy.check(&url).inspect_err(|why| {
                // The host alone is no secret, and whoever keeps the allow-list needs it.
                tracing::warn!(
                    code = why.code(),
                    host = url.host_str().unwrap_or(""),
                    "output address refused"
                );
            })?;
            let response = self.get(url.clone()).await?;
            match self.judge(response).await? {
                Next::Body(response) => return self.body(response, limit_bytes).await,
                Next::Redirect(target) => url = url.join(&target).map_err(|_| Blocked::Redirect)?,
            }
        }
        Err(Blocked::Redirects.into())
    }

    async fn get(&self, url: Url) -> Result<Response, FetchError> {
        let headers = self.access.as_ref().filter(|access| access.covers(&url));
        let headers = headers.map(|access| access.headers.clone()).unwrap_or_default();
        let request = self.client.get(url).headers(headers).header(ACCEPT_ENCODING, "identity").send();
        let wait = Duration::from_millis(self.limits.connect_ms.saturating_add(self.limits.stall_ms));
        match tokio::time::timeout(wait, request).await {
            Ok(result) => result.map_err(network),
            Err(_) => Err(FetchError::Network("no answer came in time".into())),
        }
    }

    async fn judge(&self, mut response: Response) -> Result<Next, FetchError> {
        let status = response.status();
        match status.as_u16() {
            200 | 203 => Ok(Next::Body(response)),
            301 | 302 | 303 | 307 | 308 => {
                let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
                Ok(Next::Redirect(target.ok_or(Blocked::Redirect)?.to_owned()))
            }
            403 | 404 | 410 => Err(FetchError::Expired(status)),
            // S3 and Google Cloud Storage say so when a signed address ran out:
            // https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html#ErrorCodeList
            400 if self.says_expired(&mut response).await => Err(FetchError::Expired(status)),
            // These say "not now", whatever their class.
            408 | 425 | 429 | 500..=599 => {
                Err(FetchError::Network(format!("the output's address answers {status}")))
            }
            _ => Err(FetchError::Answer(status)),
        }
    }

    async fn says_expired(&self, response: &mut Response) -> bool {
        let mut body = Vec::new();
        while body.len() < ERROR_BODY_MAX_BYTES {
            match self.chunk(response).await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) | Err(_) => break,
            }
        }
        let body = body.get(..ERROR_BODY_MAX_BYTES).unwrap_or(&body);
        body.windows(12).any(|window| window == b"ExpiredToken")
    }

    async fn body(&self, mut response: Response, limit_bytes: u64) -> Result<Fetched, FetchError> {
        let too_large = || FetchError::TooLarge { limit_bytes };
        if response.content_length().is_some_and(|size_bytes| size_bytes > limit_bytes) {
            return Err(too_large());
        }
        let file = match &self.temp_dir {
            Some(folder) => tempfile::tempfile_in(folder)?,
            None => tempfile::tempfile()?,
        };
        let mut out = tokio::fs::File::from_std(file);
        let (mut hash, mut size_bytes) = (Sha256::new(), 0u64);
        while let Some(chunk) = self.chunk(&mut response).await? {
            size_bytes = size_bytes.saturating_add(chunk.len() as u64);
            if size_bytes > limit_bytes {
                return Err(too_large());
            }
            hash.update(&*chunk);
            out.write_all(&chunk).await?;
        }
        out.flush().await?;
        let file = out.into_std().await;
        Ok(Fetched { file, size_bytes, sha256: hex::encode(hash.finalize()) })
    }

    async fn chunk(
        &self,
        response: &mut Response,
    ) -> Result<Option<impl std::ops::Deref<Target = [u8]> + use<>>, FetchError> {
        let stall = Duration::from_millis(self.limits.stall_ms);
        match tokio::time::timeout(stall, response.chunk()).await {
            Ok(result) => result.map_err(network),
            Err(_) => Err(FetchError::Network("the download stalled".into())),
        }
    }
}

/// What an answer asks us to do next.
enum Next {
    Body(Response),
    Redirect(String),
}

fn network(error: reqwest::Error) -> FetchError {
    match blocked_within(&error) {
        Some(blocked) => FetchError::Blocked(blocked),
        None => FetchError::Network(chain(&error.without_url())),
    }
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
