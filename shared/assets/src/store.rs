//! Where outputs are stored: behind one face, objects (a folder, a bucket, memory) or files of Google Drive.

use crate::config::{StoreConfig, VaultConfigError};
use crate::drive::{self, Drive};
use crate::entry::Entry;
use crate::location::Location;
use crate::objects::Objects;
use crate::s3;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A store that failed. What was asked for may or may not have happened: ask again.
#[derive(Debug, thiserror::Error)]
#[error(
    "the store failed at `{location}` ({cause}): check that it can be reached, its space and permissions"
)]
pub struct StoreError {
    /// Where: the object's location, under the store's root.
    pub location: String,
    /// What the store said.
    pub cause: String,
}

/// An address at which anybody may read an object for a while. It isn't shown in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedUrl(String);

impl SignedUrl {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }

    /// The address itself: for a browser, never for a log.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for SignedUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SignedUrl(…)")
    }
}

/// Where outputs are stored.
#[derive(Clone, Debug)]
pub(crate) enum Store {
    /// A folder, a bucket or memory.
    Objects(Objects),
    /// A folder in Google Drive.
    Drive(Arc<Drive>),
}

impl Store {
    pub(crate) fn open(config: &StoreConfig) -> Result<Self, VaultConfigError> {
        match config {
            StoreConfig::Fs { root } => Objects::folder(root).map(Self::Objects),
            StoreConfig::Memory {} => Objects::memory().map(Self::Objects),
            StoreConfig::S3 { bucket, region, endpoint, keys } => {
                let place = s3::Place { bucket, region, endpoint: endpoint.as_deref(), keys: keys.as_ref() };
                Objects::bucket(place).map(Self::Objects)
            }
            StoreConfig::Drive { folder, shared_drive, account, endpoint, token_endpoint } => {
                let place = drive::Place {
                    folder,
                    shared_drive: shared_drive.as_deref(),
                    account,
                    endpoint: endpoint.as_deref(),
                    token_endpoint: token_endpoint.as_deref(),
                };
                Drive::open(place).map(|drive| Self::Drive(Arc::new(drive)))
            }
        }
    }

    /// Stores a file of known size and hash, unless the same bytes are there already. Afterwards the object is whole
    /// and durable.
    pub(crate) async fn put(
        &self,
        location: &Location,
        file: std::fs::File,
        size_bytes: u64,
        content_type: &str,
    ) -> Result<(), StoreError> {
        match self {
            Self::Objects(objects) => objects.put(location, file, size_bytes, content_type).await,
            Self::Drive(drive) => drive.put(location, file, size_bytes, content_type).await,
        }
    }

    /// Whether the object is there, with this size and hash. Reads it whole where the store doesn't keep the hash.
    pub(crate) async fn holds(&self, path: &str, size_bytes: u64, sha256: &str) -> Result<bool, StoreError> {
        match self {
            Self::Objects(objects) => objects.holds(path, size_bytes, sha256).await,
            Self::Drive(drive) => drive.holds(path, size_bytes, sha256).await,
        }
    }

    /// Gives up an object that lost to another. Only where nothing else would ever tell of it: objects of a folder or a
    /// bucket are left to the audit.
    pub(crate) async fn discard(&self, path: &str) -> Result<(), StoreError> {
        match self {
            Self::Objects(_) => Ok(()),
            Self::Drive(drive) => drive.delete(path).await,
        }
    }

    /// Everything that is stored.
    pub(crate) async fn list(&self) -> Result<Vec<Entry>, StoreError> {
        match self {
            Self::Objects(objects) => objects.list().await,
            Self::Drive(drive) => drive.list().await,
        }
    }

    /// Deletes an entry of [`Store::list`].
    pub(crate) async fn delete(&self, entry: &Entry) -> Result<(), StoreError> {
        match (self, &entry.id) {
            (Self::Objects(objects), _) => objects.delete(&entry.path).await,
            (Self::Drive(drive), Some(id)) => drive.delete_entry(id).await,
            (Self::Drive(_), None) => Ok(()),
        }
    }

    /// An address at which anybody may read the object for a while; `None` where the store has no such thing.
    pub(crate) async fn sign(&self, path: &str, lifetime: Duration) -> Result<Option<SignedUrl>, StoreError> {
        match self {
            Self::Objects(objects) => objects.sign(path, lifetime).await,
            Self::Drive(_) => Ok(None),
        }
    }

    /// The place of a stored object on disk, if the store is on disk.
    pub(crate) fn path_of(&self, location: &Location) -> Option<PathBuf> {
        match self {
            Self::Objects(objects) => objects.path_of(location),
            Self::Drive(_) => None,
        }
    }
}
