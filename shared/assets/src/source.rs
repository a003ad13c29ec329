//! Outputs that a provider puts into a bucket itself (`s3://bucket/key`), read with our own rights.

use crate::config::{AllowedHost, StoreConfig, VaultConfigError};
use crate::download::{FetchError, Fetched};
use crate::objects::Objects;
use crate::policy::Blocked;
use crate::s3;
use futures_util::TryStreamExt;
use glassline_protocol::ids::LaneName;
use opendal::ErrorKind;
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::AsyncWriteExt;

/// What an entry of a lane's list starts with when it names a place in a bucket, not a host.
pub(crate) const SCHEME: &str = "s3://";

/// A place in a bucket that a lane may be served from.
pub(crate) struct Source {
    /// `bucket/prefix/`: keys lie below it.
    within: String,
    /// The length of the bucket's name.
    bucket: usize,
    objects: Objects,
}

impl Source {
    /// Opens the place that an entry of a lane's list names: `s3://bucket/prefix/`, in the region and with the keys of
    /// the store, which must be a bucket.
    pub(crate) fn new(
        lane: &LaneName,
        entry: &AllowedHost,
        store: &StoreConfig,
    ) -> Result<Self, VaultConfigError> {
        let bad = |rule| VaultConfigError::Host { lane: lane.clone(), host: entry.host.clone(), rule };
        let within = entry.host.strip_prefix(SCHEME).unwrap_or_default();
        let Some((bucket, _)) = within.split_once('/') else {
            return Err(bad("a place in a bucket is written `s3://bucket/prefix/`"));
        };
        if !within.ends_with('/') || !plain(within) || entry.port.is_some() || entry.allow_http {
            return Err(bad("a place in a bucket is written `s3://bucket/prefix/`, without a port"));
        }
        let StoreConfig::S3 { region, endpoint, keys, .. } = store else {
            return Err(bad("a place in a bucket can be read only where the store is a bucket too"));
        };
        let place = s3::Place { bucket, region, endpoint: endpoint.as_deref(), keys: keys.as_ref() };
        Ok(Self { within: within.to_owned(), bucket: bucket.len(), objects: Objects::bucket(place)? })
    }

    /// The key of an address within this place.
    fn key<'a>(&self, address: &'a str) -> Option<&'a str> {
        let path = address.strip_prefix(SCHEME)?;
        let below = path.strip_prefix(&self.within)?;
        (!below.is_empty() && !below.ends_with('/') && plain(path)).then(|| path.get(self.bucket + 1..))?
    }
}

/// Whether a path has only plain parts: nothing that a store or a library would read as another path.
fn plain(path: &str) -> bool {
    let byte = |b: u8| b.is_ascii_alphanumeric() || b"/._-=".contains(&b);
    let parts = path.strip_suffix('/').unwrap_or(path);
    path.bytes().all(byte) && parts.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Reads an output of at most `limit_bytes` bytes from one of a lane's places into a file that has no name.
pub(crate) async fn fetch(
    sources: &[Source],
    address: &str,
    limit_bytes: u64,
    deadline: Duration,
    temp_dir: Option<&PathBuf>,
) -> Result<Fetched, FetchError> {
    let found = sources.iter().find_map(|source| Some((source, source.key(address)?)));
    let Some((source, key)) = found else {
        tracing::warn!("an output's place in a bucket is not on the lane's list");
        return Err(Blocked::Host.into());
    };
    match tokio::time::timeout(deadline, copy(source, key, limit_bytes, temp_dir)).await {
        Ok(result) => result,
        Err(_) => Err(FetchError::Network("the deadline passed".into())),
    }
}

async fn copy(
    source: &Source,
    key: &str,
    limit_bytes: u64,
    temp_dir: Option<&PathBuf>,
) -> Result<Fetched, FetchError> {
    let failed = |error: opendal::Error| {
        if error.kind() == ErrorKind::NotFound {
            FetchError::Expired(reqwest::StatusCode::NOT_FOUND)
        } else {
            FetchError::Network(format!("the bucket answers {}", error.kind()))
        }
    };
    let Some((size_bytes, mut stream)) = source.objects.read(key).await.map_err(failed)? else {
        return Err(FetchError::Expired(reqwest::StatusCode::NOT_FOUND));
    };
    if size_bytes > limit_bytes {
        return Err(FetchError::TooLarge { limit_bytes });
    }
    let file = match temp_dir {
        Some(folder) => tempfile::tempfile_in(folder)?,
        None => tempfile::tempfile()?,
    };
    let mut out = tokio::fs::File::from_std(file);
    let (mut hash, mut read_bytes) = (Sha256::new(), 0u64);
    while let Some(buffer) = stream.try_next().await.map_err(failed)? {
        for bytes in buffer {
            hash.update(&bytes);
            read_bytes += bytes.len() as u64;
            out.write_all(&bytes).await?;
        }
    }
    out.flush().await?;
    if read_bytes != size_bytes {
        return Err(FetchError::Network("the bucket sent another number of bytes than it has".into()));
    }
    Ok(Fetched { file: out.into_std().await, size_bytes, sha256: hex::encode(hash.finalize()) })
}
