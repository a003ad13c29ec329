//! `audit`: what is stored against what the table says is stored.

use crate::args::Options;
use crate::connect::{Connection, connect};
use crate::failure::Failure;
use crate::output::{self, span, table};
use glassline_assets::{AssetVault, Entry, Limits, Location, VaultConfig};
use glassline_protocol::ids::Ms;
use glassline_protocol::ledger;
use glassline_protocol::ports::{Local as _, Store as _};
use glassline_protocol::row::{OrphanRow, OutcomeRow};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// An object without a row is deleted only when it is older: a save and its outcome lie minutes apart.
const REPAIR_AGE_MS: Ms = 24 * 60 * 60 * 1000;
/// Lines of one kind in the tables for people.
const SHOWN: usize = 20;

/// An object that no outcome names.
struct Stray {
    entry: Entry,
    age_ms: Option<Ms>,
    /// Its attempt has an outcome, which names another object or none: written once, so that this one never counts.
    closed: bool,
    /// What became of it.
    deleted: bool,
}

impl Stray {
    /// Whether a repair may delete it.
    fn removable(&self) -> bool {
        self.closed && self.age_ms.is_some_and(|age_ms| age_ms > REPAIR_AGE_MS)
    }
}

/// What doesn't agree.
#[derive(Default)]
struct Findings {
    objects: usize,
    rows: usize,
    strays: Vec<Stray>,
    /// Outcomes whose object isn't there.
    missing: Vec<OutcomeRow>,
    /// Outcomes whose object is another, and in what.
    different: Vec<(OutcomeRow, &'static str)>,
    /// Second objects of one location.
    copies: Vec<Entry>,
    /// Paths that are no location of ours.
    foreign: Vec<String>,
    /// Oldest first.
    orphans: Vec<OrphanRow>,
    /// Rows that can't be understood.
    bad_rows: Vec<String>,
    deep: bool,
}

impl Findings {
    /// Whether an output is lost or wrong.
    fn harmed(&self) -> bool {
        !self.missing.is_empty() || !self.different.is_empty() || !self.bad_rows.is_empty()
    }
}

pub(crate) async fn run(options: &Options, deep: bool, repair: bool) -> Result<ExitCode, Failure> {
    let connection = connect(options).await?;
    let Some(store) = connection.storage.clone() else {
        return Err(Failure::new(format!("{} has no place of outputs to look at", options.place())));
    };
    let config = VaultConfig { store, lanes: BTreeMap::new(), limits: Limits::default(), temp_dir: None };
    let vault = AssetVault::new(config)?;
    let mut findings = look(&connection, &vault, deep).await?;
    if repair {
        delete_strays(&vault, &mut findings).await?;
    }
    if options.json {
        output::json(&as_json(&findings, connection.ports.now_ms()));
    } else {
        tell(&findings, connection.ports.now_ms(), repair);
    }
    Ok(if findings.harmed() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn look(connection: &Connection, vault: &AssetVault, deep: bool) -> Result<Findings, Failure> {
    // Rows first: an object is stored before its row, so what is stored meanwhile makes no row look empty.
    let read = connection.ports.store.ledger_rows().await?;
    let entries = vault.list().await?;
    let now_ms = connection.ports.now_ms();
    let mut outcomes: Vec<OutcomeRow> = Vec::new();
    let mut findings = Findings { objects: entries.len(), bad_rows: read.bad, deep, ..Findings::default() };
    for row in read.entries {
        match row {
            ledger::Entry::Outcome(outcome) => outcomes.push(*outcome),
            ledger::Entry::Orphan(orphan) => findings.orphans.push(*orphan),
            ledger::Entry::Job(_) => {}
        }
    }
    findings.rows = outcomes.len();
    findings.orphans.sort_by_key(|orphan| orphan.at_ms);
    let mut by_path: BTreeMap<String, Entry> = BTreeMap::new();
    for entry in entries {
        if Location::parse(&entry.path).is_none() {
            findings.foreign.push(entry.path);
        } else if by_path.contains_key(&entry.path) {
            findings.copies.push(entry);
        } else {
            by_path.insert(entry.path.clone(), entry);
        }
    }
    for outcome in outcomes {
        let Some(asset) = outcome.asset() else { continue };
        match by_path.remove(&asset.location) {
            // A list may lag behind; the object itself doesn't.
            None if vault.verify(&asset).await? => {}
            None => findings.missing.push(outcome),
            Some(entry) if entry.size_bytes != asset.size_bytes => findings.different.push((outcome, "size")),
            Some(entry) if entry.sha256.as_ref().is_some_and(|told| *told != asset.sha256) => {
                findings.different.push((outcome, "hash"));
            }
            Some(_) if deep && !vault.verify(&asset).await? => findings.different.push((outcome, "hash")),
            Some(_) => {}
        }
    }
    for entry in by_path.into_values() {
        let Some(location) = Location::parse(&entry.path) else { continue };
        let outcome = connection.ports.job(&location.job).await?;
        let outcome = outcome.as_ref().and_then(|view| view.outcome(location.attempt));
        // Recorded since the rows were read.
        if outcome.is_some_and(|outcome| outcome.location.as_deref() == Some(entry.path.as_str())) {
            continue;
        }
        let age_ms = entry.modified_ms.map(|at_ms| now_ms.saturating_sub(at_ms));
        findings.strays.push(Stray { entry, age_ms, closed: outcome.is_some(), deleted: false });
    }
    Ok(findings)
}

async fn delete_strays(vault: &AssetVault, findings: &mut Findings) -> Result<(), Failure> {
    for stray in findings.strays.iter_mut().filter(|stray| stray.removable()) {
        vault.delete(&stray.entry).await?;
        stray.deleted = true;
    }
    Ok(())
}

fn as_json(findings: &Findings, now_ms: Ms) -> Value {
    let outcome = |row: &OutcomeRow| {
        json!({
            "job": row.key.job.to_string(), "attempt": row.key.attempt, "location": row.location,
            "sha256": row.sha256, "size_bytes": row.size_bytes,
        })
    };
    let strays = findings.strays.iter().map(|stray| {
        json!({
            "location": stray.entry.path, "size_bytes": stray.entry.size_bytes, "age_ms": stray.age_ms,
            "attempt_ended": stray.closed, "removable": stray.removable(), "deleted": stray.deleted,
        })
    });
    let different = findings.different.iter().map(|(row, what)| {
        let mut value = outcome(row);
        if let Some(object) = value.as_object_mut() {
            object.insert("differs_in".into(), (*what).into());
        }
        value
    });
    let orphans = findings.orphans.iter().map(|row| {
        json!({
            "job": row.key.job.to_string(), "task": row.key.task.to_string(), "attempt": row.attempt,
            "lane": row.lane.to_string(), "age_ms": now_ms.saturating_sub(row.at_ms), "reason": row.reason,
            "cancel": row.cancel,
        })
    });
    let copies = findings.copies.iter().map(|entry| json!({"location": entry.path, "id": entry.id}));
    json!({
        "objects": findings.objects,
        "outcomes": findings.rows,
        "hashes_checked": findings.deep,
        "objects_without_rows": strays.collect::<Vec<_>>(),
        "rows_without_objects": findings.missing.iter().map(outcome).collect::<Vec<_>>(),
        "mismatches": different.collect::<Vec<_>>(),
        "second_copies": copies.collect::<Vec<_>>(),
        "foreign": findings.foreign,
        "orphans": orphans.collect::<Vec<_>>(),
        "bad_rows": findings.bad_rows,
    })
}

/// A heading with a count, and the first lines below it.
fn list(heading: &str, columns: &[&str], rows: Vec<Vec<String>>) {
    if rows.is_empty() {
        return;
    }
    say!("\n{} {heading}:", rows.len());
    let more = rows.len().saturating_sub(SHOWN);
    let mut lines = table(columns);
    for row in rows.into_iter().take(SHOWN) {
        lines.add_row(row);
    }
    say!("{lines}");
    if more > 0 {
        say!("… and {more} more; --json has all");
    }
}

fn tell(findings: &Findings, now_ms: Ms, repair: bool) {
    let hashes = if findings.deep { "read and hashed" } else { "not read; --deep does" };
    say!("{} objects ({hashes}), {} outcomes.", findings.objects, findings.rows);
    let outcome = |row: &OutcomeRow, what: &str| {
        let location = row.location.clone().unwrap_or_default();
        vec![row.key.job.to_string(), row.key.attempt.to_string(), location, what.to_owned()]
    };
    let columns = ["job", "attempt", "location", "what"];
    let missing = findings.missing.iter().map(|row| outcome(row, "gone")).collect();
    list("rows without their object", &columns, missing);
    let different = findings.different.iter().map(|(row, what)| outcome(row, what)).collect();
    list("rows whose object is another", &columns, different);
    let stray = |stray: &Stray| {
        let age = stray.age_ms.map(span).unwrap_or_default();
        let what = match (stray.deleted, stray.removable(), stray.closed) {
            (true, _, _) => "deleted",
            (false, true, _) => "--repair deletes it",
            (false, false, true) => "younger than a day",
            (false, false, false) => "its attempt has no outcome; left",
        };
        vec![stray.entry.path.clone(), stray.entry.size_bytes.to_string(), age, what.to_owned()]
    };
    let columns = ["location", "bytes", "age", "what"];
    list("objects without a row", &columns, findings.strays.iter().map(stray).collect());
    let copies =
        findings.copies.iter().map(|entry| vec![entry.path.clone(), entry.id.clone().unwrap_or_default()]);
    list("second copies", &["location", "id"], copies.collect());
    let foreign = findings.foreign.iter().map(|path| vec![path.clone()]).collect();
    list("objects that aren't outputs; left", &["path"], foreign);
    let orphans = findings.orphans.iter().map(|row| {
        let age = span(now_ms.saturating_sub(row.at_ms));
        vec![row.key.job.to_string(), row.key.task.to_string(), age, row.reason.clone(), row.cancel.clone()]
    });
    list("orphaned tasks, oldest first", &["job", "task", "age", "why", "cancel"], orphans.collect());
    list(
        "rows that can't be understood",
        &["row"],
        findings.bad_rows.iter().map(|row| vec![row.clone()]).collect(),
    );
    if findings.strays.iter().any(|stray| stray.removable() && !stray.deleted) && !repair {
        say!(
            "\nNothing was changed; `glassline audit --repair` deletes what may be deleted, and never a row."
        );
    }
}
