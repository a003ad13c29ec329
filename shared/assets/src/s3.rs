//! An S3 bucket (or one of a service that speaks S3) as a store, through OpenDAL.
//!
//! Facts that this rests on: `If-None-Match: *` on PutObject and CompleteMultipartUpload creates an object only if it is
//! absent; 412 says that it is there, 409 that another write is under way and this one is to be tried again
//! (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html>). An object appears whole or not at
//! all. Parts have at least 5 MiB and there are at most 10,000 of them.

use crate::config::{S3Keys, VaultConfigError};
use opendal::layers::RetryLayer;
use opendal::{HttpTransporter, OperationContext, Operator, services};
use opendal_http_transport_reqwest::ReqwestTransport;
use reqwest::Url;
use std::time::Duration;

/// The size of a part of an upload, in bytes. What is smaller goes in one request.
pub(crate) const PART_BYTES: usize = 8 << 20;
/// How many parts are under way at once. With what is being filled and what waits, memory stays below 6 parts.
pub(crate) const PARTS_AT_ONCE: usize = 3;

/// How long a connection may take to open.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// How long a request with a part of 8 MiB, or an answer with 4 MiB, may take.
const REQUEST_TIME: Duration = Duration::from_secs(60);
/// How often a request that was throttled or broke off is sent again, and the wait before the first time.
const RETRIES: usize = 3;
const RETRY_WAIT: Duration = Duration::from_millis(200);

/// Where a bucket is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) bucket: &'a str,
    pub(crate) region: &'a str,
    pub(crate) endpoint: Option<&'a str>,
    pub(crate) keys: Option<&'a S3Keys>,
}

/// Opens a bucket. Nothing is asked of it yet.
pub(crate) fn open(place: Place<'_>) -> Result<Operator, VaultConfigError> {
    let bad = |cause: String| VaultConfigError::Store { root: format!("s3://{}", place.bucket), cause };
    let endpoint = place.endpoint.map(str::to_owned).or_else(endpoint_of_environment);
    // Names of buckets: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.');
    if !(3..=63).contains(&place.bucket.len()) || !place.bucket.bytes().all(plain) {
        return Err(bad("it is no name of a bucket".into()));
    }
    let mut service = services::S3::default()
        .bucket(place.bucket)
        .region(place.region)
        .disable_ec2_metadata()
        // AWS checks each request's body against it, and keeps it with the object.
        .checksum_algorithm("crc32c");
    match &endpoint {
        Some(endpoint) => {
            let url = Url::parse(endpoint).ok().filter(|url| matches!(url.scheme(), "https" | "http"));
            url.ok_or_else(|| bad("its endpoint is no http or https address".into()))?;
            service = service.endpoint(endpoint.trim_end_matches('/'));
        }
        // A dot within the name wouldn't fit the certificate.
        None if !place.bucket.contains('.') => service = service.enable_virtual_host_style(),
        None => {}
    }
    if let Some(keys) = place.keys {
        service = service.access_key_id(&keys.id).secret_access_key(&keys.secret).disable_config_load();
    }
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .https_only(endpoint.is_none_or(|endpoint| endpoint.starts_with("https:")))
        .connect_timeout(CONNECT_TIME)
        .timeout(REQUEST_TIME)
        .user_agent(concat!("glassline/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| bad(error.to_string()))?;
    let transport = HttpTransporter::new(ReqwestTransport::new(client));
    let retry = RetryLayer::new().with_jitter().with_min_delay(RETRY_WAIT).with_max_times(RETRIES);
    let operator = Operator::new(service).map_err(|error| bad(error.to_string()))?;
    Ok(operator.with_context(OperationContext::new().with_http_transport(transport)).layer(retry))
}

/// The endpoint that the environment names, as for AWS's own SDKs:
/// <https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html>
#[allow(clippy::disallowed_methods, reason = "the keys are read from the environment by the library too")]
fn endpoint_of_environment() -> Option<String> {
    let names = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
    names.iter().filter_map(|name| std::env::var(name).ok()).find(|value| !value.is_empty())
}
