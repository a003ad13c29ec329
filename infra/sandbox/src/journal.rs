//! The books on disk: JSON lines, only appended to, each flushed before the answer that it stands for.

use crate::books::{Books, Render};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub(crate) enum Line {
    /// A render was accepted.
    Accept { render: Box<Render> },
    /// A render was cancelled.
    Cancel { id: String, at_ms: u64 },
    /// No callback is owed any more.
    Called { id: String },
}

/// Where lines go.
#[derive(Debug, Default)]
pub(crate) enum Journal {
    /// Nothing is kept.
    #[default]
    Nowhere,
    /// To a file that is locked for us.
    File(File),
    /// The server has stopped: nothing may be accepted any more.
    Closed,
}

/// Books that can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file can't be opened, read or repaired.
    #[error("the books file {path} can't be used: {source}; check the folder and its permissions")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process has it.
    #[error(
        "the books file {path} is in use by another sandbox; stop that one or give this one its own file"
    )]
    InUse {
        /// Which.
        path: PathBuf,
    },
    /// A line in it is none of ours.
    #[error("line {line} of the books file {path} can't be read; mend the line or move the file away")]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
    },
}

impl Journal {
    /// Opens the file, creating it if needed, and reads it into books. A last line without its end is what a kill in
    /// the middle of a write leaves; its answer was never sent, so it is cut off.
    ///
    /// # Errors
    /// [`JournalError`] when the file can't be used, is in use, or holds something else.
    pub(crate) fn open(path: &Path) -> Result<(Self, Books), JournalError> {
        let failed = |source| JournalError::File { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        let mut file = options.read(true).append(true).create(true).open(path).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(failed(io::Error::other("it isn't an ordinary file")));
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JournalError::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole < bytes.len() {
            file.set_len(whole as u64).map_err(failed)?;
            file.seek(SeekFrom::End(0)).map_err(failed)?;
        }
        let mut books = Books::default();
        for (index, line) in bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
            let bad = |_| JournalError::Line { path: path.to_owned(), line: index + 1 };
            replay(&mut books, serde_json::from_slice(line).map_err(bad)?);
        }
        Ok((Self::File(file), books))
    }

    /// Takes nothing any more and lets go of the file. Closing it alone isn't enough: a process being started at this
    /// moment by another thread holds a copy of it, lock and all, until it has become its program.
    pub(crate) fn close(&mut self) {
        match std::mem::replace(self, Self::Closed) {
            Self::File(file) => drop(file.unlock()),
            Self::Nowhere | Self::Closed => {}
        }
    }

    /// Appends a line and hands it to the operating system.
    ///
    /// # Errors
    /// When it could not be written whole; what was written of it is cut off again where possible.
    pub(crate) fn write(&mut self, line: &Line) -> io::Result<()> {
        let file = match self {
            Self::Nowhere => return Ok(()),
            Self::File(file) => file,
            Self::Closed => return Err(io::ErrorKind::BrokenPipe.into()),
        };
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        let before = file.metadata()?.len();
        let written = file.write_all(&bytes).and_then(|()| file.flush());
        if written.is_err() {
            file.set_len(before)?;
        }
        written
    }
}

fn replay(books: &mut Books, line: Line) {
    match line {
        Line::Accept { render } => books.enter(*render),
        Line::Cancel { id, at_ms } => {
            if let Some(render) = books.any_mut(&id) {
                render.cancelled_ms = Some(at_ms);
            }
        }
        Line::Called { id } => {
            if let Some(render) = books.any_mut(&id) {
                render.called_back = true;
            }
        }
    }
}
