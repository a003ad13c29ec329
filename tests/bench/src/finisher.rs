//! Memory and speed of a save: films of several sizes through the vault, from a server on loopback to a folder and to S3.
//!
//! Each save runs in a process of its own, so that its highest resident memory is its own; the servers of films and of S3
//! run in this one. A film is a whole small one with a box of zeros after it, which readers skip (`free`).

use glassline_assets::{AllowedHost, AssetVault, Limits, S3Keys, StoreConfig, VaultConfig};
use glassline_protocol::ids::{Id, JobKey, LaneName};
use glassline_protocol::provider::{Media, Output};
use glassline_protocol::vault::{Saved, Vault as _};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const CLIP: &[u8] = include_bytes!("../../../shared/assets/tests/data/clip.mp4");
const LANE: &str = "bench";
const BUCKET: &str = "bench";
/// What is sent of a film's zeros at once.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// One save, as the process that makes it is told.
#[derive(Serialize, Deserialize)]
struct Task {
    port: u16,
    size_bytes: u64,
    root: PathBuf,
    temp_dir: PathBuf,
    /// The address of S3; a folder if absent.
    endpoint: Option<String>,
}

/// What a save took.
#[derive(Debug, Serialize, Deserialize)]
struct Taken {
    store: String,
    size_bytes: u64,
    seconds: f64,
    mib_per_second: f64,
    /// Resident memory before, in KiB.
    before_kib: u64,
    /// The highest resident memory, in KiB.
    peak_kib: u64,
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime can be started: {error}"))
}

/// Measures the sizes up to `size_mib`, in `folder` or the system's own temporary folder.
pub(crate) fn run(size_mib: u64, folder: Option<&Path>, json: bool) -> Result<(), String> {
    runtime()?.block_on(Box::pin(measure(size_mib, folder, json)))
}

async fn measure(size_mib: u64, folder: Option<&Path>, json: bool) -> Result<(), String> {
    let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    let folder = match folder {
        Some(folder) => tempfile::tempdir_in(folder),
        None => tempfile::tempdir(),
    };
    let folder = folder.map_err(|error| failed("no folder can be made", &error))?;
    let listener =
        TcpListener::bind("127.0.0.1:0").await.map_err(|error| failed("no port is free", &error))?;
    let port = listener.local_addr().map_err(|error| failed("no port is free", &error))?.port();
    tokio::spawn(films(listener));
    let s3 = glassline_s3::Server::start(&folder.path().join("s3"), BUCKET)
        .await
        .map_err(|error| failed("S3 can't be started", &error))?;
    let sizes = [64 << 10, 20 << 20, size_mib << 20];
    let mut all = Vec::new();
    for endpoint in [None, Some(s3.endpoint().to_owned())] {
        for size_bytes in sizes {
            let task = Task {
                port,
                size_bytes,
                root: folder.path().join("storage"),
                temp_dir: folder.path().to_owned(),
                endpoint: endpoint.clone(),
            };
            let taken = child(&task).await?;
            if !json {
                println!(
                    "{:6} {:>8} KiB  {:>8.2} s  {:>7.1} MiB/s  resident {:>6} KiB before, {:>6} KiB at most",
                    taken.store,
                    taken.size_bytes >> 10,
                    taken.seconds,
                    taken.mib_per_second,
                    taken.before_kib,
                    taken.peak_kib
                );
            }
            all.push(taken);
            // The largest film is as large as the disk may bear; it isn't needed twice.
            let _ = std::fs::remove_dir_all(folder.path().join("storage"));
        }
    }
    if json {
        println!("{}", serde_json::json!({ "finisher": all }));
    }
    Ok(())
}

/// Runs a save in a process of its own.
async fn child(task: &Task) -> Result<Taken, String> {
    let own = std::env::current_exe().map_err(|error| format!("this program can't be found: {error}"))?;
    let text = serde_json::to_string(task).map_err(|error| error.to_string())?;
    let done = tokio::process::Command::new(own)
        .args(["save", &text])
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .output()
        .await
        .map_err(|error| format!("a save can't be started: {error}"))?;
    if !done.status.success() {
        return Err(format!("a save of {} bytes failed", task.size_bytes));
    }
    serde_json::from_slice(&done.stdout).map_err(|error| format!("a save's report can't be read: {error}"))
}

/// Makes one save and reports it as JSON; [`run`] starts this as a process.
pub(crate) fn save(task: &str) -> Result<(), String> {
    let task: Task = serde_json::from_str(task).map_err(|error| format!("no save is told: {error}"))?;
    runtime()?.block_on(Box::pin(save_one(task)))
}

async fn save_one(task: Task) -> Result<(), String> {
    let lane = LaneName::new(LANE).map_err(|error| error.to_string())?;
    let host = AllowedHost {
        host: "127.0.0.1".into(),
        port: Some(task.port),
        allow_http: true,
        allow_private: true,
    };
    let store = match task.endpoint {
        Some(endpoint) => StoreConfig::S3 {
            bucket: BUCKET.into(),
            region: "us-east-1".into(),
            endpoint: Some(endpoint),
            keys: Some(S3Keys { id: glassline_s3::KEY_ID.into(), secret: glassline_s3::SECRET.into() }),
        },
        None => StoreConfig::Fs { root: task.root },
    };
    let kind = if matches!(store, StoreConfig::S3 { .. }) { "s3" } else { "folder" };
    let config = VaultConfig {
        store,
        lanes: [(lane.clone(), vec![host])].into(),
        limits: Limits { video_max_bytes: u64::MAX, deadline_ms: 3_600_000, ..Limits::default() },
        temp_dir: Some(task.temp_dir),
    };
    let vault = AssetVault::new(config).map_err(|error| error.to_string())?;
    let id = |text: &str| Id::new(text).map_err(|error| error.to_string());
    let job = JobKey::shot(id("bench")?, id(&format!("s{}", task.size_bytes))?);
    let output =
        Output { url: format!("http://127.0.0.1:{}/{}", task.port, task.size_bytes), expires_ms: None };
    let (before_kib, started) = (memory_kib("VmRSS:")?, Instant::now());
    let saved = Box::pin(vault.save(&lane, &job, 1, &output, Media::Video)).await;
    let seconds = started.elapsed().as_secs_f64();
    let Saved::Stored(asset) = saved else { return Err(format!("it isn't stored: {saved:?}")) };
    if asset.size_bytes != task.size_bytes {
        return Err(format!("{} bytes are stored of {}", asset.size_bytes, task.size_bytes));
    }
    let taken = Taken {
        store: kind.into(),
        size_bytes: task.size_bytes,
        seconds,
        mib_per_second: task.size_bytes as f64 / f64::from(1 << 20) / seconds,
        before_kib,
        peak_kib: memory_kib("VmHWM:")?,
    };
    println!("{}", serde_json::to_string(&taken).map_err(|error| error.to_string())?);
    Ok(())
}

/// A line of this process's status, in KiB.
fn memory_kib(name: &str) -> Result<u64, String> {
    let status = std::fs::read_to_string("/proc/self/status")
        .map_err(|error| format!("resident memory is read from /proc, as on Linux: {error}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| format!("/proc/self/status says nothing of {name}"))
}

/// Answers `GET /N` with a film of N bytes.
async fn films(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            if let Err(error) = film(stream).await {
                eprintln!("glassline-bench: a film was not sent whole: {error}");
            }
        });
    }
}

async fn film(mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).await? == 0 {
            return Ok(());
        }
        head.extend_from_slice(&byte);
    }
    let text = String::from_utf8_lossy(&head);
    let asked = text.split_whitespace().nth(1).and_then(|path| path.strip_prefix('/'));
    let size_bytes: u64 = asked.and_then(|size| size.parse().ok()).unwrap_or(0);
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {size_bytes}\r\nconnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).await?;
    stream.write_all(CLIP).await?;
    let rest = size_bytes.saturating_sub(CLIP.len() as u64);
    // A box with a size of 64 bits: 1, its name, its size.
    stream.write_all(&1u32.to_be_bytes()).await?;
    stream.write_all(b"free").await?;
    stream.write_all(&rest.to_be_bytes()).await?;
    let mut left = rest.saturating_sub(16);
    while left > 0 {
        let part = usize::try_from(left).unwrap_or(usize::MAX).min(ZEROS.len());
        stream.write_all(ZEROS.get(..part).unwrap_or_default()).await?;
        left -= part as u64;
    }
    stream.flush().await
}
