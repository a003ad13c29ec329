//! AWS signatures by AWS's own signing crate, without an SDK's client around it: that one repeats requests.
#![allow(clippy::disallowed_methods, reason = "a signature carries the wall-clock time")]

use crate::config::ProvidersError;
use crate::lane::Setup;
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use std::fmt;
use std::time::SystemTime;

/// Signs requests to Bedrock in one region.
#[derive(Clone)]
pub(crate) struct Signer {
    credentials: Credentials,
    region: String,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("region", &self.region).finish_non_exhaustive()
    }
}

impl Signer {
    /// Takes the credentials of the environment. A function on Lambda has those of its role there, for as long as its
    /// process lives (<https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html>).
    pub(crate) fn from_environment(setup: &Setup<'_>, region: &str) -> Result<Self, ProvidersError> {
        let needed = |name: &str| {
            (setup.environment)(name)
                .filter(|text| !text.is_empty())
                .ok_or_else(|| ProvidersError::NoKey { lane: setup.lane.clone(), variable: name.to_owned() })
        };
        let (key, secret) = (needed("AWS_ACCESS_KEY_ID")?, needed("AWS_SECRET_ACCESS_KEY")?);
        let session = (setup.environment)("AWS_SESSION_TOKEN").filter(|text| !text.is_empty());
        let credentials = Credentials::new(key, secret, session, None, "environment");
        Ok(Self { credentials, region: region.to_owned() })
    }

    /// The headers of a signed request; `None` if it can't be signed.
    pub(crate) fn sign(&self, method: &str, url: &str, body: &[u8]) -> Option<HeaderMap> {
        let identity = self.credentials.clone().into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name("bedrock")
            .time(SystemTime::now())
            .settings(SigningSettings::default())
            .build()
            .ok()?
            .into();
        let content = [("content-type", "application/json")];
        let request =
            SignableRequest::new(method, url, content.into_iter(), SignableBody::Bytes(body)).ok()?;
        let (instructions, _) = sign(request, &params).ok()?.into_parts();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in instructions.headers() {
            let mut value = HeaderValue::from_str(value).ok()?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_bytes(name.as_bytes()).ok()?, value);
        }
        Some(headers)
    }
}
