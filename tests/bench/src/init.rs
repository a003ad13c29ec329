//! Init: a stand-in of the Lambda Runtime API on loopback waits for the first request of a freshly started bootstrap.
//! There is no microVM, no download of code and no TLS handshake in it, so it is a lower bound of a cold start.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const FUNCTIONS: [&str; 5] = ["dispatch", "worker", "finisher", "rollback", "api"];
/// The longest a start may take before the benchmark gives up.
const LIMIT: Duration = Duration::from_secs(10);

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The bootstraps lie beside this program.
fn bootstrap(name: &str) -> Result<PathBuf, String> {
    let own = std::env::current_exe()
        .map_err(|error| format!("this program's own file can't be found: {error}"))?;
    let path = own.with_file_name(name);
    if path.is_file() {
        return Ok(path);
    }
    Err(format!("{} isn't there; build it with `cargo build --release --workspace`", path.display()))
}

fn command(program: &Path, name: &str, api: &str, storage: &Path) -> Command {
    let url = |queue: &str| format!("http://127.0.0.1:9/000000000000/{queue}");
    let storage = serde_json::json!({ "store": { "kind": "fs", "root": storage }, "lanes": {} });
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("AWS_LAMBDA_RUNTIME_API", api)
        .env("AWS_LAMBDA_FUNCTION_NAME", name)
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256")
        .env("AWS_LAMBDA_FUNCTION_VERSION", "1")
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "bench")
        .env("AWS_SECRET_ACCESS_KEY", "bench")
        .env("GLASSLINE_TABLE", "glassline")
        .env("GLASSLINE_HANDOFF_SECRET", "a secret for the benchmark")
        .env("GLASSLINE_API_SECRET", "another secret for the benchmark")
        .env("GLASSLINE_PROVIDERS", "{}")
        .env("GLASSLINE_STORAGE", storage.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    for (variable, queue) in [
        ("GLASSLINE_RENDER_QUEUE_URL", "render"),
        ("GLASSLINE_FINISH_QUEUE_URL", "finish"),
        ("GLASSLINE_ROLLBACK_QUEUE_URL", "rollback"),
        ("GLASSLINE_WAKE_QUEUE_URL", "wake"),
        ("GLASSLINE_QA_QUEUE_URL", "qa.fifo"),
    ] {
        command.env(variable, url(queue));
    }
    command
}

/// Waits for a connection and its first bytes.
fn first_poll(listener: &TcpListener, child: &mut Child, until: Instant) -> Result<(), String> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => return is_next(stream),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(format!("no connection can be taken: {error}")),
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("the function ended with {status} before its first poll"));
        }
        if Instant::now() > until {
            return Err(format!("no poll within {LIMIT:?}"));
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

fn is_next(mut stream: TcpStream) -> Result<(), String> {
    let read = |error: std::io::Error| format!("the first request can't be read: {error}");
    stream.set_nonblocking(false).map_err(read)?;
    let mut start = [0u8; 40];
    stream.read_exact(&mut start).map_err(read)?;
    if start.starts_with(b"GET /2018-06-01/runtime/invocation/next") {
        return Ok(());
    }
    Err(format!("the first request isn't a poll: {}", String::from_utf8_lossy(&start)))
}

/// Resident memory of a process in KiB, where the system tells it.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

fn one(program: &Path, name: &str, storage: &Path) -> Result<(Duration, u64), String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| format!("no port: {error}"))?;
    listener.set_nonblocking(true).map_err(|error| format!("no port: {error}"))?;
    let api = listener.local_addr().map_err(|error| format!("no port: {error}"))?.to_string();
    let mut command = command(program, name, &api, storage);
    let started = Instant::now();
    let mut child = Running(command.spawn().map_err(|error| format!("{name} can't be started: {error}"))?);
    first_poll(&listener, &mut child.0, started + LIMIT).map_err(|why| format!("{name}: {why}"))?;
    Ok((started.elapsed(), resident_kib(child.0.id())))
}

fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 100_000.0).round() / 100.0
}

/// Starts each function `runs` times, interleaved, and prints the middle, the least and the most.
pub(crate) fn run(runs: u32, json: bool) -> Result<(), String> {
    let programs: Vec<(&str, PathBuf)> =
        FUNCTIONS.iter().map(|name| Ok((*name, bootstrap(name)?))).collect::<Result<_, String>>()?;
    let storage = std::env::temp_dir().join(format!("glassline-bench-{}", std::process::id()));
    let mut measured: Vec<(Vec<Duration>, u64)> = vec![(Vec::new(), 0); programs.len()];
    for _ in 0..runs {
        for ((name, program), (times, memory)) in programs.iter().zip(&mut measured) {
            let (time, resident) = one(program, name, &storage)?;
            times.push(time);
            *memory = resident.max(*memory);
        }
    }
    let _ = std::fs::remove_dir_all(&storage);
    let mut rows = serde_json::Map::new();
    if !json {
        println!(
            "{:10} {:>9} {:>9} {:>9} {:>12} {:>10}",
            "function", "p50 ms", "min ms", "max ms", "resident KiB", "file KiB"
        );
    }
    for ((name, program), (mut times, memory)) in programs.into_iter().zip(measured) {
        times.sort();
        let at = |index: usize| milliseconds(times.get(index).copied().unwrap_or_default());
        let (middle, least, most) = (at(times.len() / 2), at(0), at(times.len().saturating_sub(1)));
        let file_kib = std::fs::metadata(program).map_or(0, |file| file.len() / 1024);
        if json {
            rows.insert(
                name.into(),
                serde_json::json!({
                    "init_p50_ms": middle, "init_min_ms": least, "init_max_ms": most, "resident_kib": memory,
                    "file_kib": file_kib, "runs": runs,
                }),
            );
        } else {
            println!("{name:10} {middle:>9} {least:>9} {most:>9} {memory:>12} {file_kib:>10}");
        }
    }
    if json {
        println!("{}", serde_json::Value::Object(rows));
    }
    Ok(())
}
