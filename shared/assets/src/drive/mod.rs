//! Google Drive as a store: a folder for each post or series, a file for each output.
//!
//! Drive knows no names that are unique: a file is found by a property of our own application (`appProperties`), which
//! holds the hash of its location. Nothing creates a file only if it is absent, so two finishers may both store one. Of
//! those with one location and the right bytes **the oldest counts** (then the smallest id); whoever finds after its own
//! upload that another counts deletes its own. A search that doesn't show a young file yet leaves two files; they are
//! told by the audit.

mod api;
mod token;

use crate::config::{DriveAccount, VaultConfigError};
use crate::entry::Entry;
use crate::location::Location;
use crate::store::StoreError;
use crate::wait::wait;
use api::{Api, CallError, FOLDER, File, Sent};
use reqwest::Url;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::sync::Mutex;

/// The size of a part of an upload, in bytes; Drive wants a multiple of 256 KiB.
const PART_BYTES: u64 = 8 << 20;
/// How often in a row an upload may get no further, or have to begin again.
const STALLS: u32 = 5;
/// Our properties: what a file is, and which. A property holds at most 124 bytes with its name, so a location is cut.
const KIND: &str = "glassline";
const PLACE: &str = "glassline_at";
const PART_CHARS: usize = 100;
const PARTS: [&str; 3] = ["glassline_0", "glassline_1", "glassline_2"];

const ENDPOINT: &str = "https://www.googleapis.com";
const TOKEN_ENDPOINT: &str = "https://oauth2.googleapis.com/token";

/// A folder in Drive that outputs are stored below.
pub(crate) struct Drive {
    api: Api,
    /// The id of the folder.
    root: String,
    /// Ids of the folders within it that were found or made.
    folders: Mutex<HashMap<String, String>>,
}

impl std::fmt::Debug for Drive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Drive").field("root", &self.root).finish_non_exhaustive()
    }
}

/// Where a Drive is, as configured.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) folder: &'a str,
    pub(crate) shared_drive: Option<&'a str>,
    pub(crate) account: &'a DriveAccount,
    pub(crate) endpoint: Option<&'a str>,
    pub(crate) token_endpoint: Option<&'a str>,
}

impl Drive {
    /// Opens a Drive. Nothing is asked of it yet.
    pub(crate) fn open(place: Place<'_>) -> Result<Self, VaultConfigError> {
        let bad = |cause: &str| VaultConfigError::Store {
            root: format!("drive:{}", place.folder),
            cause: cause.to_owned(),
        };
        let plain = |id: &str| {
            !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        };
        if !plain(place.folder) || place.shared_drive.is_some_and(|id| !plain(id)) {
            return Err(bad("`folder` and `shared_drive` are ids, as in the address of a folder"));
        }
        let url = |text: &str| {
            let url = Url::parse(text).ok().filter(|url| {
                // Tokens go there.
                let local = url.host_str().is_some_and(|host| matches!(host, "127.0.0.1" | "[::1]"));
                url.scheme() == "https" || (url.scheme() == "http" && local)
            });
            url.ok_or_else(|| bad("an endpoint is an https address (or plain http on 127.0.0.1)"))
        };
        let base = url(place.endpoint.unwrap_or(ENDPOINT))?;
        let tokens = url(place.token_endpoint.unwrap_or(TOKEN_ENDPOINT))?;
        let shared = place.shared_drive.map(str::to_owned);
        let api =
            Api::new(base, tokens, place.account.clone(), shared).map_err(|error| bad(&error.to_string()))?;
        Ok(Self { api, root: place.folder.to_owned(), folders: Mutex::default() })
    }

    /// Stores a file of known size and hash, unless the same bytes are there already.
    pub(crate) async fn put(
        &self,
        location: &Location,
        file: std::fs::File,
        size_bytes: u64,
        content_type: &str,
    ) -> Result<(), StoreError> {
        let path = location.to_string();
        let failed = |error: CallError| StoreError { location: path.clone(), cause: error.to_string() };
        if !self.alike(&path, size_bytes, &location.sha256).await.map_err(failed)?.is_empty() {
            return Ok(());
        }
        let mut file = tokio::fs::File::from_std(file);
        let ours = self.upload(location, &mut file, size_bytes, content_type).await.map_err(failed)?;
        if self.differs(&ours, size_bytes, &location.sha256).await.map_err(failed)? {
            let _ = self.api.delete(&ours.id).await;
            let cause = "it stored other bytes than it was sent".to_owned();
            return Err(StoreError { location: path, cause });
        }
        let alike = self.alike(&path, size_bytes, &location.sha256).await.map_err(failed)?;
        // Only what we see ourselves beaten by makes our own file one too many.
        let beaten = alike.iter().any(|file| file.id == ours.id)
            && alike.first().is_some_and(|first| first.id != ours.id);
        if beaten {
            tracing::info!(location = path, "another stored the same output first; ours is deleted");
            self.api.delete(&ours.id).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Whether the object is there, with this size and hash.
    pub(crate) async fn holds(&self, path: &str, size_bytes: u64, sha256: &str) -> Result<bool, StoreError> {
        let failed = |error: CallError| StoreError { location: path.to_owned(), cause: error.to_string() };
        Ok(!self.alike(path, size_bytes, sha256).await.map_err(failed)?.is_empty())
    }

    /// Deletes every file of a location.
    pub(crate) async fn delete(&self, path: &str) -> Result<(), StoreError> {
        let failed = |error: CallError| StoreError { location: path.to_owned(), cause: error.to_string() };
        for file in self.at(path).await.map_err(failed)? {
            self.api.delete(&file.id).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Every file of ours. A location may have several.
    pub(crate) async fn list(&self) -> Result<Vec<Entry>, StoreError> {
        let failed = |error: CallError| StoreError { location: String::new(), cause: error.to_string() };
        let files = self.api.search(&query(KIND, "object")).await.map_err(failed)?;
        let entry = |file: File| {
            let path: String =
                PARTS.iter().filter_map(|part| file.app_properties.get(*part).map(String::as_str)).collect();
            let ours = file.app_properties.get(PLACE).is_some_and(|place| *place == self.place(&path));
            ours.then(|| Entry {
                size_bytes: file.size_bytes().unwrap_or(0),
                sha256: file.sha256_checksum.clone(),
                modified_ms: crate::entry::time_of(&file.created_time),
                id: Some(file.id),
                path,
            })
        };
        // Other folders of the same account have other hashes.
        Ok(files.into_iter().filter_map(entry).collect())
    }

    /// Deletes one file of a list.
    pub(crate) async fn delete_entry(&self, id: &str) -> Result<(), StoreError> {
        let failed = |error: CallError| StoreError { location: String::new(), cause: error.to_string() };
        self.api.delete(id).await.map_err(failed)
    }

    /// The hash that a location is found by: that of the location within this folder.
    fn place(&self, path: &str) -> String {
        hex::encode(Sha256::digest(format!("{}/{path}", self.root)))
    }

    async fn at(&self, path: &str) -> Result<Vec<File>, CallError> {
        self.api.search(&query(PLACE, &self.place(path))).await
    }

    /// The files of a location that hold the right bytes, the one that counts first.
    async fn alike(&self, path: &str, size_bytes: u64, sha256: &str) -> Result<Vec<File>, CallError> {
        let mut alike = Vec::new();
        for file in self.at(path).await? {
            if !self.differs(&file, size_bytes, sha256).await? {
                alike.push(file);
            }
        }
        Ok(alike)
    }

    /// Whether a file holds other bytes. Drive tells the hash; where it doesn't, the file is read.
    async fn differs(&self, file: &File, size_bytes: u64, sha256: &str) -> Result<bool, CallError> {
        if file.size_bytes() != Some(size_bytes) {
            return Ok(true);
        }
        if let Some(told) = &file.sha256_checksum {
            return Ok(told != sha256);
        }
        let mut answer = self.api.media(&file.id).await?;
        let mut hash = Sha256::new();
        while let Some(chunk) =
            answer.chunk().await.map_err(|error| CallError::Unavailable(error.without_url().to_string()))?
        {
            hash.update(&chunk);
        }
        Ok(hex::encode(hash.finalize()) != sha256)
    }

    /// The folder of a post or series, found or made. Two may make one at the same time: the older one is used from
    /// then on, and files are found wherever they lie.
    async fn folder(&self, name: &str) -> Result<String, CallError> {
        if let Some(id) = self.folders.lock().await.get(name) {
            return Ok(id.clone());
        }
        let place = self.place(name);
        let search = format!("{} and mimeType = '{FOLDER}'", query(PLACE, &place));
        let id = match self.api.search(&search).await?.into_iter().next() {
            Some(folder) => folder.id,
            None => {
                let properties =
                    BTreeMap::from([(KIND.to_owned(), "folder".to_owned()), (PLACE.to_owned(), place)]);
                let made = self.api.make_folder(name, &self.root, &properties).await?;
                let first = self.api.search(&search).await?.into_iter().next();
                first.map_or(made.id, |first| first.id)
            }
        };
        self.folders.lock().await.insert(name.to_owned(), id.clone());
        Ok(id)
    }

    /// Sends a file in parts, going on where the other side says.
    async fn upload(
        &self,
        location: &Location,
        file: &mut tokio::fs::File,
        size_bytes: u64,
        content_type: &str,
    ) -> Result<File, CallError> {
        let mut stalls = 0;
        let mut session = self.begin(location, size_bytes, content_type).await?;
        let mut at = 0;
        loop {
            let part = read(file, at, PART_BYTES.min(size_bytes - at)).await?;
            let sent = match self.api.send(&session, part, at, size_bytes).await {
                Err(CallError::Unavailable(_)) if stalls < STALLS => {
                    wait(stalls).await;
                    self.api.send(&session, Vec::new(), 0, size_bytes).await
                }
                other => other,
            };
            match sent {
                Ok(Sent::Whole(file)) => return Ok(file),
                Ok(Sent::UpTo(next)) if next > at && next < size_bytes => {
                    (at, stalls) = (next, 0);
                    continue;
                }
                // It got no further: the bytes are sent again from where it is.
                Ok(Sent::UpTo(next)) if stalls < STALLS => at = next.min(size_bytes - 1),
                Ok(Sent::Gone) if stalls < STALLS => {
                    session = self.begin(location, size_bytes, content_type).await?;
                    at = 0;
                }
                Err(CallError::Unavailable(_)) if stalls < STALLS => {}
                Ok(Sent::UpTo(_) | Sent::Gone) => {
                    return Err(CallError::Unavailable("an upload gets no further".into()));
                }
                Err(error) => return Err(error),
            }
            wait(stalls).await;
            stalls += 1;
        }
    }

    async fn begin(
        &self,
        location: &Location,
        size_bytes: u64,
        content_type: &str,
    ) -> Result<Url, CallError> {
        let path = location.to_string();
        // `POST/p1` or `EPISODE/main`: the post or the series.
        let cut = path.match_indices('/').nth(1).map_or(path.len(), |(at, _)| at);
        let (folder, name) = path.split_at(cut);
        let mut properties =
            BTreeMap::from([(KIND.to_owned(), "object".to_owned()), (PLACE.to_owned(), self.place(&path))]);
        // Locations are ASCII.
        for (key, part) in PARTS.iter().zip(path.as_bytes().chunks(PART_CHARS)) {
            properties.insert((*key).to_owned(), String::from_utf8_lossy(part).into_owned());
        }
        let name = name.trim_start_matches('/').replace('/', " ");
        let parent = self.folder(folder).await?;
        let metadata =
            json!({"name": name, "parents": [parent], "mimeType": content_type, "appProperties": properties});
        match self.api.begin(&metadata, content_type, size_bytes).await {
            Err(CallError::Missing) => {
                // Somebody deleted the folder: the next try makes another.
                self.folders.lock().await.remove(folder);
                Err(CallError::Unavailable("its folder is gone".into()))
            }
            other => other,
        }
    }
}

fn query(property: &str, value: &str) -> String {
    format!("appProperties has {{ key='{property}' and value='{value}' }} and trashed = false")
}

async fn read(file: &mut tokio::fs::File, at: u64, count: u64) -> Result<Vec<u8>, CallError> {
    let broken =
        |error: std::io::Error| CallError::Unavailable(format!("the download can't be read ({error})"));
    file.seek(std::io::SeekFrom::Start(at)).await.map_err(broken)?;
    let mut part = Vec::new();
    file.take(count).read_to_end(&mut part).await.map_err(broken)?;
    if part.len() as u64 == count {
        Ok(part)
    } else {
        Err(CallError::Unavailable("the download became shorter while it was stored".into()))
    }
}
