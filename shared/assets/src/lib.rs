//! Outputs: guarded download, validation by content, conditional storage.
//!
//! [`AssetVault`] fetches an output from its provider (only from the lane's own hosts, never from an address inside
//! our network), hashes it, decides its type by its bytes, decodes it whole and stores it under a location that
//! depends only on the job, the attempt and the bytes. Storing the same bytes again gives the same answer.

mod address;
mod avif;
mod config;
mod dial;
mod download;
mod drive;
mod entry;
mod location;
mod mp4;
mod objects;
mod policy;
mod s3;
mod shelf;
pub mod sniff;
mod source;
mod still;
mod store;
pub mod validate;
mod wait;
mod webm;

pub use config::{
    AllowedHost, DriveAccount, Hidden, Limits, S3Keys, StoreConfig, VaultConfig, VaultConfigError,
};
pub use download::Access;
pub use entry::Entry;
pub use location::Location;
pub use policy::Blocked;
pub use shelf::{Place, Shelf};
pub use store::{SignedUrl, StoreError};

use crate::download::{FetchError, Fetched, Fetcher};
use crate::policy::Policy;
use crate::source::Source;
use crate::store::Store;
use crate::validate::{Facts, Invalid, Unfit, validate};
use glassline_protocol::ids::{Attempt, JobKey, LaneName};
use glassline_protocol::provider::{ErrorClass, Media, Output};
use glassline_protocol::vault::{Asset, Saved, Vault};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Fetches, validates and stores outputs. Cheap to clone.
#[derive(Clone)]
pub struct AssetVault {
    inner: Arc<Inner>,
}

struct Inner {
    fetchers: BTreeMap<LaneName, (Fetcher, Vec<Source>)>,
    store: Store,
    limits: Limits,
    temp_dir: Option<PathBuf>,
    /// Decoding takes memory by the hundred megabytes, so few decode at once.
    decoders: Semaphore,
}

/// Why a save didn't end with a stored output.
#[derive(Debug)]
enum Failure {
    Refused { code: &'static str, reason: String },
    Barred { code: &'static str, reason: String },
    Expired,
    Unavailable,
}

impl AssetVault {
    /// Opens a vault. For a store on disk this creates its folder and removes what a crash left half-written.
    ///
    /// # Errors
    /// [`VaultConfigError`] when the configuration can't work; the message names the entry.
    pub fn new(config: VaultConfig) -> Result<Self, VaultConfigError> {
        Self::with_access(config, |_| None)
    }

    /// The same, for providers some of whose outputs are on their API: `access` says for each lane where, and what
    /// headers go there.
    ///
    /// # Errors
    /// As [`AssetVault::new`].
    pub fn with_access(
        config: VaultConfig,
        access: impl Fn(&LaneName) -> Option<Access>,
    ) -> Result<Self, VaultConfigError> {
        config.limits.check()?;
        if let Some(path) = config.temp_dir.as_ref().filter(|path| !path.is_dir()) {
            return Err(VaultConfigError::TempDir { path: path.clone() });
        }
        let mut fetchers = BTreeMap::new();
        for (lane, hosts) in &config.lanes {
            let (places, hosts): (Vec<_>, Vec<_>) =
                hosts.iter().cloned().partition(|entry| entry.host.starts_with(source::SCHEME));
            let places = places.iter().map(|entry| Source::new(lane, entry, &config.store));
            let places = places.collect::<Result<Vec<_>, _>>()?;
            let policy = Policy::new(lane, &hosts)?;
            let fetcher = Fetcher::new(lane, policy, &config.limits, config.temp_dir.clone(), access(lane))?;
            fetchers.insert(lane.clone(), (fetcher, places));
        }
        let store = Store::open(&config.store)?;
        let decoders = Semaphore::new(config.limits.decoders);
        let (limits, temp_dir) = (config.limits, config.temp_dir);
        Ok(Self { inner: Arc::new(Inner { fetchers, store, limits, temp_dir, decoders }) })
    }

    /// Whether an asset is stored with the size and hash that it was recorded with. Reads it whole.
    ///
    /// # Errors
    /// [`StoreError`] when the store can't tell; a missing or different object is `false`.
    pub async fn verify(&self, asset: &Asset) -> Result<bool, StoreError> {
        match Location::parse(&asset.location) {
            Some(location) if location.sha256 == asset.sha256 => {
                self.inner.store.holds(&asset.location, asset.size_bytes, &asset.sha256).await
            }
            Some(_) | None => Ok(false),
        }
    }

    /// Where an asset lies on this machine; `None` if the store isn't on disk, or for a location that this vault
    /// wouldn't give.
    #[must_use]
    pub fn path_of(&self, asset: &Asset) -> Option<PathBuf> {
        self.inner.store.path_of(&Location::parse(&asset.location)?)
    }

    /// Everything that is stored, in no order.
    ///
    /// # Errors
    /// [`StoreError`] when the store can't be listed.
    pub async fn list(&self) -> Result<Vec<Entry>, StoreError> {
        self.inner.store.list().await
    }

    /// Deletes an entry of [`AssetVault::list`]; fine if it is gone. What doesn't lie at a location that this vault gives
    /// is left.
    ///
    /// # Errors
    /// [`StoreError`] when it may still be there.
    pub async fn delete(&self, entry: &Entry) -> Result<(), StoreError> {
        match Location::parse(&entry.path) {
            Some(_) => self.inner.store.delete(entry).await,
            None => Ok(()),
        }
    }

    /// An address at which a browser may read an asset for `lifetime`, without any other right; `None` if the store has no
    /// such thing, or for a location that this vault wouldn't give. It says nothing on whether the object is there.
    ///
    /// # Errors
    /// [`StoreError`] when it can't be signed, for instance for want of keys.
    pub async fn sign_read(
        &self,
        asset: &Asset,
        lifetime: Duration,
    ) -> Result<Option<SignedUrl>, StoreError> {
        match Location::parse(&asset.location) {
            Some(location) => self.inner.store.sign(&location.to_string(), lifetime).await,
            None => Ok(None),
        }
    }

    async fn try_save(
        &self,
        lane: &LaneName,
        job: &JobKey,
        attempt: Attempt,
        output: &Output,
        expected: Media,
    ) -> Result<Asset, Failure> {
        let inner = &self.inner;
        let Some((fetcher, places)) = inner.fetchers.get(lane) else {
            // Our own gap, not the output's fault: it must not cost the attempt.
            tracing::error!(%lane, "no output can be fetched: the vault's configuration doesn't name this lane");
            return Err(Failure::Unavailable);
        };
        let limit_bytes = match expected {
            Media::Image => inner.limits.image_max_bytes,
            Media::Video => inner.limits.video_max_bytes,
        };
        let fetched = if output.url.starts_with(source::SCHEME) {
            let deadline = Duration::from_millis(inner.limits.deadline_ms);
            let temp_dir = inner.temp_dir.as_ref();
            Box::pin(source::fetch(places, &output.url, limit_bytes, deadline, temp_dir)).await?
        } else {
            Box::pin(fetcher.fetch(&output.url, limit_bytes)).await?
        };
        let Fetched { file, size_bytes, sha256 } = fetched;
        let (file, facts) = self.judge(file, size_bytes, expected).await?;
        let extension = facts.kind.extension().to_owned();
        let location = Location { job: job.clone(), attempt, sha256, extension };
        let content_type = facts.kind.content_type();
        let stored = Box::pin(inner.store.put(&location, file, size_bytes, content_type)).await;
        if let Err(error) = stored {
            tracing::error!(%lane, location = error.location, cause = error.cause, "an output can't be stored");
            return Err(Failure::Unavailable);
        }
        Ok(Asset {
            location: location.to_string(),
            sha256: location.sha256,
            size_bytes,
            content_type: content_type.to_owned(),
            width_px: facts.width_px,
            height_px: facts.height_px,
            duration_ms: facts.duration_ms,
            frames: facts.frames,
        })
    }

    async fn judge(
        &self,
        file: std::fs::File,
        size_bytes: u64,
        expected: Media,
    ) -> Result<(std::fs::File, Facts), Failure> {
        let _permit = self.inner.decoders.acquire().await.map_err(|_| Failure::Unavailable)?;
        let limits = self.inner.limits.clone();
        let work = move || {
            let mut file = file;
            let verdict = validate(&mut file, size_bytes, expected, &limits);
            (file, verdict)
        };
        match tokio::task::spawn_blocking(work).await {
            Ok((file, Ok(facts))) => Ok((file, facts)),
            Ok((_, Err(Unfit::Invalid(why)))) => Err(why.into()),
            Ok((_, Err(Unfit::Io(error)))) => {
                tracing::error!(%error, "a download can't be read back from the temporary folder");
                Err(Failure::Unavailable)
            }
            // A decoder that gives up on some bytes will do so again: the bytes are at fault, not the moment.
            Err(error) if error.is_panic() => {
                Err(Failure::Refused { code: "decoder", reason: "a decoder gave up on the output".into() })
            }
            Err(_) => Err(Failure::Unavailable),
        }
    }
}

impl Vault for AssetVault {
    async fn discard(&self, asset: &Asset) {
        let Some(location) = Location::parse(&asset.location) else { return };
        if let Err(error) = self.inner.store.discard(&location.to_string()).await {
            tracing::warn!(location = error.location, cause = error.cause, "an output that lost stays");
        }
    }

    async fn save(
        &self,
        lane: &LaneName,
        job: &JobKey,
        attempt: Attempt,
        output: &Output,
        expected: Media,
    ) -> Saved {
        match Box::pin(self.try_save(lane, job, attempt, output, expected)).await {
            Ok(asset) => {
                tracing::debug!(%lane, %job, attempt, size_bytes = asset.size_bytes, "output stored");
                Saved::Stored(asset)
            }
            Err(Failure::Refused { code, reason }) => {
                tracing::warn!(%lane, %job, attempt, code, reason, "output refused");
                Saved::Refused { class: ErrorClass::BadOutput, reason }
            }
            Err(Failure::Barred { code, reason }) => {
                tracing::error!(%lane, %job, attempt, code, reason, "output barred by our own policy");
                Saved::Barred { reason }
            }
            Err(Failure::Expired) => Saved::Expired,
            Err(Failure::Unavailable) => Saved::Unavailable,
        }
    }
}

impl From<Invalid> for Failure {
    fn from(why: Invalid) -> Self {
        Self::Refused { code: why.code(), reason: why.to_string() }
    }
}

impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        let reason = error.to_string();
        match error {
            FetchError::Blocked(why) => Self::Barred { code: why.code(), reason },
            FetchError::Answer(_) => Self::Refused { code: "answer", reason },
            FetchError::TooLarge { .. } => Self::Refused { code: "too_large", reason },
            FetchError::Expired(status) => {
                tracing::info!(status = status.as_u16(), "an output's address no longer works");
                Self::Expired
            }
            FetchError::Network(cause) => {
                tracing::warn!(cause, "an output can't be fetched now");
                Self::Unavailable
            }
            FetchError::Disk(error) => {
                tracing::error!(%error, "a download can't be written to the temporary folder");
                Self::Unavailable
            }
        }
    }
}
