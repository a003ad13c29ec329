//! Outputs as objects of a folder, a bucket or memory, through OpenDAL: stored conditionally, atomically, and checked by
//! reading.
#![allow(clippy::disallowed_methods, reason = "the age of a file is wall-clock time")]

use crate::config::VaultConfigError;
use crate::entry::Entry;
use crate::location::Location;
use crate::s3;
use crate::store::{SignedUrl, StoreError};
use crate::wait::wait;
use futures_util::{Stream, TryStreamExt};
use opendal::options::{ListOptions, ReaderOptions, WriteOptions};
use opendal::{ErrorKind, Operator, services};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncReadExt, AsyncSeekExt};

/// The folder, within a store on disk, of writes in progress. No location starts with it.
const PARTIAL: &str = ".partial";
/// A write in progress that is older than this was left by a crash: no save takes that long.
const PARTIAL_MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// How much is held in memory while copying, in bytes.
const CHUNK_BYTES: usize = 4 << 20;
/// How often a write is begun while others write the same object.
const WRITE_ROUNDS: u32 = 5;

/// A place of objects.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    operator: Operator,
    /// The root folder of a store on disk.
    root: Option<PathBuf>,
    /// The size of a part of a write, in bytes.
    part_bytes: usize,
    /// How many parts are written at once.
    parts_at_once: usize,
}

impl Objects {
    /// A folder on this machine; made if absent, and swept.
    pub(crate) fn folder(root: &Path) -> Result<Self, VaultConfigError> {
        let bad = |cause: String| VaultConfigError::Store { root: root.display().to_string(), cause };
        let text = root.to_str().ok_or_else(|| bad("its name is not UTF-8".into()))?;
        let partial = root.join(PARTIAL);
        std::fs::create_dir_all(&partial).map_err(|error| bad(error.to_string()))?;
        sweep(&partial);
        let service = services::Fs::default().root(text).atomic_write_dir(&format!("{text}/{PARTIAL}"));
        let operator = Operator::new(service).map_err(|error| bad(error.to_string()))?;
        let root = root.canonicalize().map_err(|error| bad(error.to_string()))?;
        Ok(Self { operator, root: Some(root), part_bytes: CHUNK_BYTES, parts_at_once: 1 })
    }

    /// This process's memory.
    pub(crate) fn memory() -> Result<Self, VaultConfigError> {
        let bad = |error: opendal::Error| VaultConfigError::Store {
            root: "memory".into(),
            cause: error.to_string(),
        };
        let operator = Operator::new(services::Memory::default()).map_err(bad)?;
        Ok(Self { operator, root: None, part_bytes: CHUNK_BYTES, parts_at_once: 1 })
    }

    /// A bucket.
    pub(crate) fn bucket(place: s3::Place<'_>) -> Result<Self, VaultConfigError> {
        let operator = s3::open(place)?;
        Ok(Self { operator, root: None, part_bytes: s3::PART_BYTES, parts_at_once: s3::PARTS_AT_ONCE })
    }

    /// Every object.
    pub(crate) async fn list(&self) -> Result<Vec<Entry>, StoreError> {
        let failed = |error: opendal::Error| StoreError { location: String::new(), cause: error.to_string() };
        let options = ListOptions { recursive: true, ..ListOptions::default() };
        let mut lister = self.operator.lister_options("", options).await.map_err(failed)?;
        let mut found = Vec::new();
        while let Some(entry) = lister.try_next().await.map_err(failed)? {
            let path = entry.path().to_owned();
            if path.ends_with('/') || path.starts_with(PARTIAL) {
                continue;
            }
            // A listing of a folder doesn't tell what a listing of a bucket does.
            let told = entry.metadata();
            let met = match told.last_modified() {
                Some(_) => told.clone(),
                None => match self.operator.stat(&path).await {
                    Ok(met) => met,
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    Err(error) => return Err(failed(error)),
                },
            };
            if !met.is_file() {
                continue;
            }
            let modified_ms = met.last_modified().map(|time| time.into_inner().as_millisecond());
            let modified_ms = modified_ms.and_then(|ms| u64::try_from(ms).ok());
            found.push(Entry { path, size_bytes: met.content_length(), sha256: None, modified_ms, id: None });
        }
        Ok(found)
    }

    /// Deletes an object; fine if it isn't there.
    pub(crate) async fn delete(&self, path: &str) -> Result<(), StoreError> {
        let failed =
            |error: opendal::Error| StoreError { location: path.to_owned(), cause: error.to_string() };
        self.operator.delete(path).await.map_err(failed)
    }

    /// Reads an object in pieces of at most 4 MiB; `None` if it isn't there.
    pub(crate) async fn read(
        &self,
        path: &str,
    ) -> opendal::Result<
        Option<(u64, impl Stream<Item = opendal::Result<opendal::Buffer>> + Unpin + Send + use<>)>,
    > {
        let found = match self.operator.stat(path).await {
            Ok(found) if found.is_file() => found,
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let options = ReaderOptions { chunk: Some(CHUNK_BYTES), ..ReaderOptions::default() };
        let reader = self.operator.reader_options(path, options).await?;
        Ok(Some((found.content_length(), reader.into_stream(0..found.content_length()).await?)))
    }

    /// An address at which anybody may read the object for a while; `None` where the backend has no such thing.
    pub(crate) async fn sign(&self, path: &str, lifetime: Duration) -> Result<Option<SignedUrl>, StoreError> {
        if !self.operator.info().capability().presign_read {
            return Ok(None);
        }
        match self.operator.presign_read(path, lifetime).await {
            Ok(request) => Ok(Some(SignedUrl::new(request.uri().to_string()))),
            Err(error) => Err(StoreError { location: path.to_owned(), cause: error.to_string() }),
        }
    }

    /// Stores a file of known size and hash, unless the same bytes are there already. Afterwards the object is whole
    /// and on disk.
    pub(crate) async fn put(
        &self,
        location: &Location,
        file: std::fs::File,
        size_bytes: u64,
        content_type: &str,
    ) -> Result<(), StoreError> {
        let path = location.to_string();
        let failed = |cause: String| StoreError { location: path.clone(), cause };
        let mut file = tokio::fs::File::from_std(file);
        let mut if_absent = true;
        for round in 0.. {
            match self.write(location, &mut file, content_type, if_absent).await {
                Ok(()) => break,
                Err(WriteError::Exists) if if_absent => {
                    if self.holds(&path, size_bytes, &location.sha256).await? {
                        break;
                    }
                    tracing::warn!(location = path, "a torn or different object is replaced");
                    if_absent = false;
                }
                Err(WriteError::Exists) => return Err(failed("it can't be replaced".into())),
                Err(WriteError::Conflict) if round < WRITE_ROUNDS => wait(round).await,
                Err(WriteError::Conflict) => {
                    return Err(failed("others write it at the same time".into()));
                }
                Err(WriteError::Failed(cause)) => {
                    // The answer may have been lost after the object was made.
                    match self.holds(&path, size_bytes, &location.sha256).await {
                        Ok(true) => break,
                        Ok(false) | Err(_) => return Err(failed(cause)),
                    }
                }
            }
        }
        // Also for an object that was there: whoever renamed it may have crashed before this.
        self.sync_folders(&path).await.map_err(|error| failed(error.to_string()))
    }

    /// Whether the object is there, with this size and hash. Reads it whole.
    pub(crate) async fn holds(&self, path: &str, size_bytes: u64, sha256: &str) -> Result<bool, StoreError> {
        match self.hash_of(path, size_bytes).await {
            Ok(found) => Ok(found.as_deref() == Some(sha256)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(StoreError { location: path.to_owned(), cause: error.to_string() }),
        }
    }

    /// The place of a stored object on disk, if the store is on disk.
    pub(crate) fn path_of(&self, location: &Location) -> Option<PathBuf> {
        self.root.as_ref().map(|root| root.join(location.to_string()))
    }

    /// The hash of an object, if it is one of the given size.
    async fn hash_of(&self, path: &str, size_bytes: u64) -> opendal::Result<Option<String>> {
        let (size, mut stream) = match self.read(path).await? {
            Some(found) => found,
            None => return Ok(None),
        };
        if size != size_bytes {
            return Ok(None);
        }
        let mut hash = Sha256::new();
        while let Some(buffer) = stream.try_next().await? {
            for bytes in buffer {
                hash.update(&bytes);
            }
        }
        Ok(Some(hex::encode(hash.finalize())))
    }

    /// Writes the object; only if it is absent, where asked and offered by the backend. On disk this is a write to a
    /// name of its own, synced, then renamed; the final name never shows a part of the bytes.
    async fn write(
        &self,
        location: &Location,
        file: &mut tokio::fs::File,
        content_type: &str,
        if_absent: bool,
    ) -> Result<(), WriteError> {
        let path = location.to_string();
        let offered = self.operator.info().capability();
        if if_absent && !offered.write_with_if_not_exists {
            match self.operator.stat(&path).await {
                Ok(_) => return Err(WriteError::Exists),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        let options = WriteOptions {
            if_not_exists: if_absent && offered.write_with_if_not_exists,
            content_type: offered.write_with_content_type.then(|| content_type.to_owned()),
            chunk: Some(self.part_bytes),
            concurrent: self.parts_at_once,
            ..WriteOptions::default()
        };
        let mut writer = self.operator.writer_options(&path, options).await?;
        let mut written = copy(file, &mut writer, &location.sha256).await;
        let copied = written.is_ok();
        if copied {
            written = writer.close().await.map(drop).map_err(WriteError::from);
        }
        // On disk, after `close` failed, a part may stay in the folder of writes in progress; `sweep` removes it.
        if written.is_err()
            && (self.root.is_none() || !copied)
            && let Err(error) = writer.abort().await
        {
            // A bucket's rule on incomplete uploads removes it.
            tracing::warn!(location = path, %error, "a write in progress can't be removed");
        }
        written
    }

    /// Makes the folders of an object durable, so that it is still found after a power cut.
    async fn sync_folders(&self, path: &str) -> std::io::Result<()> {
        let Some(root) = self.root.clone() else { return Ok(()) };
        let object = root.join(path);
        let sync = move || {
            for folder in object.ancestors().skip(1) {
                #[cfg(unix)]
                std::fs::File::open(folder)?.sync_all()?;
                if folder == root {
                    break;
                }
            }
            Ok(())
        };
        tokio::task::spawn_blocking(sync).await.map_err(std::io::Error::other)?
    }
}

enum WriteError {
    /// The object is there already.
    Exists,
    /// Another write of the same object is under way.
    Conflict,
    Failed(String),
}

impl From<opendal::Error> for WriteError {
    fn from(error: opendal::Error) -> Self {
        // Not an enum of ours: new kinds may come.
        if matches!(error.kind(), ErrorKind::ConditionNotMatch | ErrorKind::AlreadyExists) {
            Self::Exists
        } else if error.kind() == ErrorKind::Conflict {
            Self::Conflict
        } else {
            Self::Failed(error.to_string())
        }
    }
}

impl From<std::io::Error> for WriteError {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Copies the file, and checks on the way that its bytes are still those that were hashed and validated.
async fn copy(
    file: &mut tokio::fs::File,
    writer: &mut opendal::Writer,
    sha256: &str,
) -> Result<(), WriteError> {
    file.rewind().await?;
    let mut hash = Sha256::new();
    loop {
        let mut chunk = Vec::new();
        if (&mut *file).take(CHUNK_BYTES as u64).read_to_end(&mut chunk).await? == 0 {
            break;
        }
        hash.update(&chunk);
        writer.write(chunk).await?;
    }
    if hex::encode(hash.finalize()) == sha256 {
        Ok(())
    } else {
        Err(WriteError::Failed("the downloaded bytes changed while they were stored".into()))
    }
}

/// Removes writes in progress that a crash left behind.
fn sweep(partial: &Path) {
    let Ok(entries) = std::fs::read_dir(partial) else { return };
    for entry in entries.flatten() {
        let age = entry.metadata().and_then(|found| found.modified()).ok();
        let age = age.and_then(|modified| SystemTime::now().duration_since(modified).ok());
        if age.is_some_and(|age| age > PARTIAL_MAX_AGE)
            && let Err(error) = std::fs::remove_file(entry.path())
        {
            tracing::warn!(path = %entry.path().display(), %error, "an old write in progress can't be removed");
        }
    }
}
