//! Copies the handlers' source into one module of this crate, with seeded faults behind a switch at run time. A pattern
//! that doesn't occur exactly once fails the build, so that the faults can't drift away from the code.
#![allow(clippy::expect_used, clippy::panic, reason = "a build that can't copy must stop")]
#![allow(clippy::disallowed_methods, reason = "cargo tells a build script where to write by the environment")]

use std::path::Path;

include!("seeded.rs");

/// A folder of sources, the module that it becomes, and what `crate` is called from outside of it.
struct Copied {
    folder: &'static str,
    module: &'static str,
    files: &'static [&'static str],
}

const COPIES: [Copied; 6] = [
    Copied {
        folder: "functions/dispatch/src",
        module: "dispatch",
        files: &["claim", "handoff", "open", "outside", "report", "tick"],
    },
    Copied { folder: "functions/worker/src", module: "worker", files: &["check", "handoff", "resolve"] },
    Copied { folder: "functions/finisher/src", module: "finisher", files: &[] },
    Copied { folder: "functions/rollback/src", module: "rollback", files: &[] },
    Copied {
        folder: "shared/protocol/src/steps",
        module: "steps",
        files: &[
            "asked", "callback", "cancel", "follow", "orphan", "outside", "parent", "reopen", "requeue",
            "review", "send",
        ],
    },
    Copied { folder: "shared/protocol/src", module: "settle", files: &[] },
];

fn source(root: &Path, path: &str) -> String {
    let full = root.join(path);
    println!("cargo::rerun-if-changed={}", full.display());
    let text = std::fs::read_to_string(&full).unwrap_or_else(|error| panic!("{path} can't be read: {error}"));
    let text = seed(path, text);
    text.lines().filter(|line| !line.starts_with("//!")).map(|line| format!("{line}\n")).collect()
}

/// Puts the seeded faults of a file in.
fn seed(path: &str, mut text: String) -> String {
    for (name, file, from, to) in SEEDED {
        if *file == path {
            let found = text.matches(from).count();
            assert_eq!(
                found, 1,
                "the seeded fault `{name}` needs its pattern once in {path}, and it is there {found} times"
            );
            text = text.replace(from, &to.replace("SEEDED", &format!("crate::mutants::on({name:?})")));
        }
    }
    text
}

/// Names as they are from within this crate.
fn renamed(copy: &Copied, text: &str) -> String {
    let own = format!("crate::mutated::{}::", copy.module);
    let text = if copy.folder.starts_with("functions") {
        text.replace("crate::mutants::", "\u{1}")
            .replace("crate::", &own)
            .replace('\u{1}', "crate::mutants::")
    } else {
        let text = text.replace("crate::mutants::", "\u{1}").replace("crate::", "glassline_protocol::");
        text.replace('\u{1}', "crate::mutants::")
    };
    text.replace("glassline_protocol::steps", "crate::mutated::steps")
        .replace("glassline_protocol::settle", "crate::mutated::settle")
}

fn module(root: &Path, copy: &Copied) -> String {
    let main = match copy.module {
        "steps" => "mod.rs",
        "settle" => "settle.rs",
        _ => "lib.rs",
    };
    let mut text = source(root, &format!("{}/{main}", copy.folder)).replace("pub mod bootstrap;\n", "");
    for file in copy.files {
        let inner = source(root, &format!("{}/{file}.rs", copy.folder));
        let line = format!("mod {file};\n");
        assert_eq!(text.matches(&line).count(), 1, "{} should have `{line}` once", copy.folder);
        text = text.replace(&line, &format!("mod {file} {{\n{inner}}}\n"));
    }
    format!("pub mod {} {{\n{}}}\n", copy.module, renamed(copy, &text))
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=seeded.rs");
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let root = Path::new(&here).join("../..");
    for (name, file, ..) in SEEDED {
        let known = COPIES.iter().any(|copy| file.starts_with(copy.folder));
        assert!(known, "the seeded fault `{name}` is in {file}, which isn't copied");
    }
    let text: String = COPIES.iter().map(|copy| module(&root, copy)).collect();
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    std::fs::write(Path::new(&out).join("mutated.rs"), text).expect("the copy can be written");
}
