//! Secrets: how long it takes to admit the right one and to refuse others of its length, in turns, so that whatever else
//! the machine does hits all of them alike.

use glassline_protocol::sign::{Secret, Secrets};
use std::hint::black_box;
use std::time::Instant;

/// Judgements that are timed as one, because a clock is too coarse for a single one.
const BATCH: u32 = 200;

fn nanos(secrets: &Secrets, presented: &str) -> f64 {
    let started = Instant::now();
    for _ in 0..BATCH {
        black_box(secrets.admit(black_box(presented.as_bytes())));
    }
    started.elapsed().as_secs_f64() * 1e9 / f64::from(BATCH)
}

pub(crate) fn run(runs: u32, json: bool) -> Result<(), String> {
    let right = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let secret = Secret::new(right).ok_or("the secret is too short")?;
    let secrets = Secrets { current: secret, previous: None };
    let cases = [
        ("right", right.to_owned()),
        ("first byte wrong", right.replacen('0', "x", 1)),
        ("last byte wrong", format!("{}x", right.strip_suffix('f').unwrap_or(right))),
        ("all wrong", "x".repeat(right.len())),
    ];
    let mut times = cases.each_ref().map(|_| Vec::new());
    for _ in 0..runs {
        for ((_, presented), times) in cases.iter().zip(&mut times) {
            times.push(nanos(&secrets, presented));
        }
    }
    let mut rows = Vec::new();
    for ((name, _), mut times) in cases.iter().zip(times) {
        times.sort_by(f64::total_cmp);
        let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
        rows.push(serde_json::json!({ "secret": name, "median_ns": at(50), "p90_ns": at(90) }));
        if !json {
            println!("{name:18} median {:7.1} ns   p90 {:7.1} ns", at(50), at(90));
        }
    }
    if json {
        println!("{}", serde_json::json!({ "secrets": rows, "runs": runs }));
    }
    Ok(())
}
