//! The API as the command uses it: at an address with the shared secret, or in this very process over the stores that it
//! has opened. Both are the same routes, so a command does the same wherever it works.

use crate::args::Options;
use crate::connect::{Connection, connect};
use crate::failure::Failure;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request};
use glassline_api::{Api, Config, router};
use glassline_protocol::ids::JobKey;
use glassline_protocol::settings::Settings;
use glassline_protocol::sign::{Secret, Secrets};
use serde_json::Value;
use std::time::Duration;
use tower::ServiceExt as _;

/// The variable with the shared secret of an API at an address.
const SECRET: &str = "GLASSLINE_API_SECRET";
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(35);
/// The longest answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 8 << 20;

/// Where the API is.
pub(crate) enum Client {
    /// At an address.
    There { base: reqwest::Url, secret: String, client: reqwest::Client },
    /// In this process.
    Here { router: axum::Router, secret: String, connection: Box<Connection> },
}

/// The base address of an API, without a slash at its end.
fn base(url: &str) -> Result<reqwest::Url, Failure> {
    let bad =
        || Failure::new(format!("`{url}` isn't the address of an API; it looks like https://example.org/"));
    let base = reqwest::Url::parse(url).map_err(|_| bad())?;
    let near = matches!(base.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    match base.scheme() {
        "https" => Ok(base),
        "http" if near => Ok(base),
        "http" => Err(Failure::new(format!("the secret would go to {url} in plain; use https"))),
        _ => Err(bad()),
    }
}

impl Client {
    #[allow(clippy::disallowed_methods, reason = "the secret of an address comes from the environment")]
    pub(crate) async fn open(options: &Options) -> Result<Self, Failure> {
        if let Some(url) = &options.url {
            let secret = std::env::var(SECRET)
                .map_err(|_| Failure::new(format!("set {SECRET} to the shared secret of {url}")))?;
            let client = reqwest::Client::builder().timeout(TIMEOUT).build();
            let client =
                client.map_err(|error| Failure::new(format!("no HTTP client can be set up: {error}")))?;
            return Ok(Self::There { base: base(url)?, secret, client });
        }
        let connection = Box::new(connect(options).await?);
        // Nobody but this process can reach this router, and no message is signed by what is done with it.
        let secret = glassline_protocol::ports::Local::fresh_token(&connection.ports).as_str().to_owned();
        let wrapped = Secret::new(secret.clone())
            .ok_or_else(|| Failure::new("no secret can be made for this process"))?;
        let secrets = Secrets { current: wrapped, previous: None };
        let config = Config { settings: Settings::default(), entry: secrets.clone(), handoff: secrets };
        let router = router(Api::new(connection.ports.clone(), config));
        Ok(Self::Here { router, secret, connection })
    }

    /// Whether functions are running that act on what is asked.
    pub(crate) fn running(&self) -> bool {
        match self {
            Self::There { .. } => true,
            Self::Here { connection, .. } => connection.running,
        }
    }

    /// Asks for a path, with a body if there is one. The answer's status and body.
    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<(u16, Value), Failure> {
        let (status, bytes) = match self {
            Self::There { base, secret, client } => {
                let failed = |error: reqwest::Error| {
                    Failure::new(format!("{base} gave no answer: {}", error.without_url()))
                };
                let url = base
                    .join(path.trim_start_matches('/'))
                    .map_err(|_| Failure::new("the address is bad"))?;
                let mut request = client.request(method, url).bearer_auth(secret);
                if let Some(body) = body {
                    request = request.header("content-type", "application/json").body(body.to_string());
                }
                let mut answer = request.send().await.map_err(failed)?;
                let (status, mut bytes) = (answer.status().as_u16(), Vec::new());
                while let Some(chunk) = answer.chunk().await.map_err(failed)? {
                    if bytes.len() + chunk.len() > MAX_ANSWER_BYTES {
                        return Err(Failure::new(format!("{base} answers too much")));
                    }
                    bytes.extend_from_slice(&chunk);
                }
                (status, bytes)
            }
            Self::Here { router, secret, .. } => {
                let request = Request::builder()
                    .method(method)
                    .uri(path)
                    .header("authorization", format!("Bearer {secret}"))
                    .header("content-type", "application/json")
                    .body(body.map_or_else(Body::empty, |body| Body::from(body.to_string())));
                let request = request.map_err(|_| Failure::new(format!("`{path}` can't be asked for")))?;
                let answer = router.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
                let status = answer.status().as_u16();
                let bytes = to_bytes(answer.into_body(), MAX_ANSWER_BYTES).await;
                (status, bytes.map_err(|_| Failure::new("the answer can't be read"))?.to_vec())
            }
        };
        Ok((status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
    }

    /// The answer's body; a refusal is a failure with its sentence.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let (status, value) = self.send(method, path, body).await?;
        if (200..300).contains(&status) {
            return Ok(value);
        }
        let detail = value["detail"].as_str().map(|detail| detail.trim_end_matches('.').to_owned());
        Err(Failure::new(match (status, detail) {
            (401, _) => format!("the secret in {SECRET} isn't one that is in force there"),
            (_, Some(detail)) => detail,
            (_, None) => format!("the answer has status {status} and says nothing"),
        }))
    }

    /// Whether something is there.
    pub(crate) async fn exists(&self, path: &str) -> Result<bool, Failure> {
        match self.send(Method::GET, path, None).await? {
            (404, _) => Ok(false),
            (200..300, _) => Ok(true),
            (status, value) => {
                let detail = value["detail"].as_str().unwrap_or("it says nothing").to_owned();
                Err(Failure::new(format!("{path} can't be looked at (status {status}): {detail}")))
            }
        }
    }
}

/// A job's address.
pub(crate) fn job_path(job: &JobKey) -> String {
    glassline_api::keys::job_path(job)
}
