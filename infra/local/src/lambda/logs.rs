//! Where the functions' output goes: line by line, each bounded, never blocking a function on a slow disk for long.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::mpsc;

/// Lines that may wait for the disk before the functions that write them wait too.
const QUEUED_LINES: usize = 4_096;
/// A log file is set aside as `NAME.log.1`, in place of the last such file, when it reaches this size.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Which stream of a process a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStream {
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
    /// The host itself: inits that failed, timeouts, exits.
    Platform,
}

/// One line that a function's process wrote, or that the host has to say about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// The function.
    pub function: Arc<str>,
    /// The process; 0 when it never started.
    pub pid: u32,
    /// Where it came from.
    pub stream: LogStream,
    /// The line without its end, cut to `max_line_bytes`, then invalid UTF-8 replaced.
    pub text: String,
    /// How many bytes of the line were cut.
    pub cut_bytes: u64,
}

/// Takes lines as they come. It is called on the host's runtime and must not block.
pub type LogForward = Arc<dyn Fn(LogLine) + Send + Sync>;

/// Where lines go.
#[derive(Clone, Default)]
pub enum LogSink {
    /// Nowhere.
    #[default]
    Discard,
    /// Into `NAME.log` of this folder, one file per function, each line after the process id in brackets.
    Folder(PathBuf),
    /// To a function of the caller's.
    Forward(LogForward),
}

impl std::fmt::Debug for LogSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Discard => f.write_str("Discard"),
            Self::Folder(folder) => f.debug_tuple("Folder").field(folder).finish(),
            Self::Forward(_) => f.write_str("Forward"),
        }
    }
}

/// The sending side; every process's readers hold a clone.
#[derive(Clone)]
pub(super) enum Logs {
    Discard,
    File(mpsc::Sender<LogLine>),
    Forward(LogForward),
}

/// The thread that writes the files; it ends when the last [`Logs`] is gone.
pub(super) type LogThread = std::thread::JoinHandle<()>;

impl Logs {
    /// Opens the sink. The thread is there only for [`LogSink::Folder`].
    pub(super) fn open(sink: &LogSink) -> Result<(Self, Option<LogThread>), std::io::Error> {
        match sink {
            LogSink::Discard => Ok((Self::Discard, None)),
            LogSink::Forward(forward) => Ok((Self::Forward(Arc::clone(forward)), None)),
            LogSink::Folder(folder) => {
                std::fs::create_dir_all(folder)?;
                let (sender, receiver) = mpsc::channel(QUEUED_LINES);
                let folder = folder.clone();
                let name = "function-logs".to_owned();
                let thread =
                    std::thread::Builder::new().name(name).spawn(move || write_files(&folder, receiver))?;
                Ok((Self::File(sender), Some(thread)))
            }
        }
    }

    pub(super) async fn send(&self, line: LogLine) {
        match self {
            Self::Discard => {}
            // The receiver is gone only after shutdown, when nobody reads the file any more.
            Self::File(sender) => drop(sender.send(line).await),
            Self::Forward(forward) => forward(line),
        }
    }
}

/// A log file and how long it is.
struct Open {
    file: BufWriter<File>,
    size_bytes: u64,
}

fn write_files(folder: &Path, mut lines: mpsc::Receiver<LogLine>) {
    let mut files: HashMap<Arc<str>, Open> = HashMap::new();
    while let Some(line) = lines.blocking_recv() {
        if let Err(error) = write_line(folder, &mut files, &line) {
            tracing::warn!(function = %line.function, %error, "a line of the function's output could not be written");
            files.remove(&line.function);
        }
        if lines.is_empty() {
            for open in files.values_mut() {
                // Whoever follows the file sees a line when it was written, not when a buffer is full.
                drop(open.file.flush());
            }
        }
    }
}

fn write_line(
    folder: &Path,
    files: &mut HashMap<Arc<str>, Open>,
    line: &LogLine,
) -> Result<(), std::io::Error> {
    let path = folder.join(format!("{}.log", line.function));
    if files.get(&line.function).is_some_and(|open| open.size_bytes >= MAX_FILE_BYTES) {
        files.remove(&line.function);
        std::fs::rename(&path, path.with_extension("log.1"))?;
    }
    if !files.contains_key(&line.function) {
        let file = File::options().create(true).append(true).open(&path)?;
        let size_bytes = file.metadata()?.len();
        files.insert(Arc::clone(&line.function), Open { file: BufWriter::new(file), size_bytes });
    }
    let Some(open) = files.get_mut(&line.function) else { return Ok(()) };
    let cut = if line.cut_bytes > 0 { format!(" … ({} bytes cut)", line.cut_bytes) } else { String::new() };
    let text = format!("[{}] {}{cut}\n", line.pid, line.text);
    open.size_bytes += text.len() as u64;
    open.file.write_all(text.as_bytes())
}

/// Reads a stream line by line, holding at most `max_line_bytes` of each.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    max_line_bytes: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(stream: R, max_line_bytes: usize) -> Self {
        Self { reader: BufReader::new(stream), max_line_bytes }
    }

    /// The next line and how many of its bytes were cut; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Option<(String, u64)> {
        let mut line = Vec::new();
        let mut cut_bytes = 0_u64;
        let mut started = false;
        loop {
            // A read error is the end of the stream: the process is gone or going.
            let chunk = self.reader.fill_buf().await.unwrap_or_default();
            if chunk.is_empty() {
                return started.then(|| (text_of(line), cut_bytes));
            }
            started = true;
            let end = chunk.iter().position(|&byte| byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            let kept = part.len().min(self.max_line_bytes.saturating_sub(line.len()));
            line.extend_from_slice(&part[..kept]);
            cut_bytes += (part.len() - kept) as u64;
            let used = end.map_or(chunk.len(), |at| at + 1);
            self.reader.consume(used);
            if end.is_some() {
                return Some((text_of(line), cut_bytes));
            }
        }
    }
}

fn text_of(mut line: Vec<u8>) -> String {
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    String::from_utf8_lossy(&line).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines_of(input: &[u8], max_line_bytes: usize) -> Vec<(String, u64)> {
        let mut reader = Lines::new(input, max_line_bytes);
        let mut lines = Vec::new();
        while let Some(line) = reader.next().await {
            lines.push(line);
        }
        lines
    }

    #[tokio::test]
    async fn lines_are_split_cut_and_made_valid() {
        let lines = lines_of(b"one\r\n\n0123456789abc\n\xff\xfe!\n  \ntail", 10).await;
        let expected: Vec<(String, u64)> =
            [("one", 0), ("", 0), ("0123456789", 3), ("\u{fffd}\u{fffd}!", 0), ("  ", 0), ("tail", 0)]
                .map(|(text, cut)| (text.to_owned(), cut))
                .to_vec();
        assert_eq!(lines, expected);
    }

    #[tokio::test]
    async fn a_line_longer_than_any_buffer_is_held_only_up_to_its_bound() {
        let mut input = vec![b'x'; 1_000_000];
        input.extend_from_slice(b"\nnext\n");
        let lines = lines_of(&input, 100).await;
        assert_eq!(lines, vec![("x".repeat(100), 999_900), ("next".to_owned(), 0)]);
    }

    #[test]
    fn a_full_file_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let line = LogLine {
            function: "worker".into(),
            pid: 7,
            stream: LogStream::Stdout,
            text: "hello".to_owned(),
            cut_bytes: 2,
        };
        let mut files = HashMap::new();
        write_line(folder.path(), &mut files, &line).unwrap();
        files.get_mut("worker").unwrap().size_bytes = MAX_FILE_BYTES;
        write_line(folder.path(), &mut files, &line).unwrap();
        drop(files);
        for name in ["worker.log", "worker.log.1"] {
            let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
            assert_eq!(text, "[7] hello … (2 bytes cut)\n", "{name}");
        }
    }
}
