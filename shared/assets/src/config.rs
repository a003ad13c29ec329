//! What a vault is configured with: where it stores, from which hosts each lane may fetch, and its limits.

use glassline_protocol::ids::LaneName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The configuration of an [`crate::AssetVault`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VaultConfig {
    /// Where outputs are stored.
    pub store: StoreConfig,
    /// For each lane the hosts that its provider serves outputs from. A lane that isn't named here can't fetch.
    pub lanes: BTreeMap<LaneName, Vec<AllowedHost>>,
    /// Limits on what is fetched and decoded.
    #[serde(default)]
    pub limits: Limits,
    /// The folder for downloads in progress; the system's own if absent. It needs room for the largest output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temp_dir: Option<PathBuf>,
}

/// The storage backend. All of them are reached through one library (Apache OpenDAL).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum StoreConfig {
    /// A folder on this machine.
    Fs {
        /// The folder; it is created if absent. `.partial` within it holds writes in progress.
        root: PathBuf,
    },
    /// A bucket of S3, or of a service that speaks S3. The account's keys are those of the environment, as for AWS's
    /// own SDKs.
    S3 {
        /// The bucket's name.
        bucket: String,
        /// Its region, such as `eu-central-1`.
        region: String,
        /// The address of another service than AWS; if absent that of `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`, else
        /// AWS's own. Buckets lie below its path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        endpoint: Option<String>,
        /// Other keys than those of the environment. They are never read from JSON, nor written to it.
        #[serde(skip)]
        keys: Option<S3Keys>,
    },
    /// A folder in Google Drive, with a folder in it for each post or series.
    Drive {
        /// The folder's id, as in its address. The account must be allowed to write there.
        folder: String,
        /// The id of the shared drive that the folder is in, if it is in one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shared_drive: Option<String>,
        /// The account.
        account: DriveAccount,
        /// The API's address, if it isn't Google's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        endpoint: Option<String>,
        /// The address that gives tokens, if it isn't Google's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token_endpoint: Option<String>,
    },
    /// This process's memory, for tests: it holds every stored byte and forgets it on exit.
    Memory {},
}

/// Keys of an S3 account.
#[derive(Clone, PartialEq, Eq)]
pub struct S3Keys {
    /// The access key id.
    pub id: String,
    /// The secret access key.
    pub secret: String,
}

impl std::fmt::Debug for S3Keys {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("S3Keys").field("id", &self.id).finish_non_exhaustive()
    }
}

/// An account of Google Drive: an OAuth client, and the refresh token that its user granted to it with the scope
/// `https://www.googleapis.com/auth/drive.file`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveAccount {
    /// The client's id.
    pub client_id: String,
    /// The client's secret; never written out.
    #[serde(skip_serializing)]
    pub client_secret: Hidden,
    /// The refresh token; never written out.
    #[serde(skip_serializing)]
    pub refresh_token: Hidden,
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Hidden(String);

impl Hidden {
    /// Hides a text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hidden(…)")
    }
}

/// A host that a lane's provider serves outputs from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowedHost {
    /// A host name in lower case, `*.example.com` for every name below `example.com` (not itself), or an address.
    pub host: String,
    /// The port; the scheme's own (443, or 80 for plain http) if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Whether plain http is allowed too. Such a host is dialled on loopback addresses only, so it needs
    /// `allow_private`.
    #[serde(default)]
    pub allow_http: bool,
    /// Whether the host may resolve to loopback and private addresses. Link-local, metadata, multicast and
    /// unspecified addresses are never dialled.
    #[serde(default)]
    pub allow_private: bool,
}

/// Limits on what is fetched and decoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The largest picture file, in bytes. A picture is held in memory whole while it is decoded.
    pub image_max_bytes: u64,
    /// The largest film file, in bytes.
    pub video_max_bytes: u64,
    /// The longest a whole download may take, redirects included, in milliseconds. Keep it well below the time limit
    /// of the function that saves.
    pub deadline_ms: u64,
    /// The longest the other side may send nothing, in milliseconds.
    pub stall_ms: u64,
    /// The longest a connection may take to open, in milliseconds.
    pub connect_ms: u64,
    /// How many redirects are followed.
    pub redirects: u32,
    /// The largest width and height, in pixels.
    pub side_max_px: u32,
    /// The most pixels (width × height) of a picture.
    pub picture_max_px: u64,
    /// The most pixels of a moving picture (width × height × frames).
    pub animation_max_px: u64,
    /// The most memory that a decoder may use for the pixels of one picture, in bytes.
    pub decode_max_bytes: u64,
    /// The most of a film's index (`moov`, `Tracks`) that is read into memory, in bytes.
    pub index_max_bytes: u64,
    /// How many outputs are decoded at the same time, at least 1.
    pub decoders: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            image_max_bytes: 64 << 20,
            video_max_bytes: 4 << 30,
            deadline_ms: 300_000,
            stall_ms: 15_000,
            connect_ms: 10_000,
            redirects: 5,
            side_max_px: 16_384,
            picture_max_px: 64 << 20,
            animation_max_px: 1 << 30,
            decode_max_bytes: 512 << 20,
            index_max_bytes: 32 << 20,
            decoders: 1,
        }
    }
}

/// A configuration that can't work.
#[derive(Debug, thiserror::Error)]
pub enum VaultConfigError {
    /// An entry of an allow-list that breaks a rule.
    #[error("lane `{lane}` allows the host `{host}`, but {rule}: correct the entry")]
    Host {
        /// The lane.
        lane: LaneName,
        /// The entry's host.
        host: String,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// A limit of zero, which would refuse every output.
    #[error("the limit `{name}` is 0, which refuses every output: give it a value or leave it out")]
    Limit {
        /// The limit's name.
        name: &'static str,
    },
    /// The https client can't be built, for instance because the machine has no root certificates.
    #[error(
        "the https client of lane `{lane}` can't be built ({cause}): check the machine's root certificates"
    )]
    Client {
        /// The lane.
        lane: LaneName,
        /// What the client said.
        cause: String,
    },
    /// The store can't be opened.
    #[error(
        "the store at `{root}` can't be opened ({cause}): check its configuration, and a folder's permissions"
    )]
    Store {
        /// The store's root.
        root: String,
        /// What the store said.
        cause: String,
    },
    /// The folder for downloads can't be used.
    #[error("the download folder `{path}` isn't a folder that exists: create it or leave `temp_dir` out")]
    TempDir {
        /// The folder.
        path: PathBuf,
    },
}

impl Limits {
    /// Refuses limits that would refuse every output.
    pub(crate) fn check(&self) -> Result<(), VaultConfigError> {
        let limits = [
            ("image_max_bytes", self.image_max_bytes),
            ("video_max_bytes", self.video_max_bytes),
            ("deadline_ms", self.deadline_ms),
            ("stall_ms", self.stall_ms),
            ("connect_ms", self.connect_ms),
            ("side_max_px", u64::from(self.side_max_px)),
            ("picture_max_px", self.picture_max_px),
            ("animation_max_px", self.animation_max_px),
            ("decode_max_bytes", self.decode_max_bytes),
            ("index_max_bytes", self.index_max_bytes),
            ("decoders", u64::from(self.decoders > 0)),
        ];
        match limits.iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(VaultConfigError::Limit { name }),
            None => Ok(()),
        }
    }
}
