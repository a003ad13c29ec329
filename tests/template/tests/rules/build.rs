//! How the functions are built: by cargo-lambda, with the same settings, so that they share what is compiled.

use super::Findings;
use glassline_template::Template;
use serde_json::json;
use std::collections::BTreeSet;

pub(crate) fn rule(template: &Template) -> Findings {
    let mut found = Findings::new();
    let functions = template.functions();
    for (name, function) in &functions {
        let metadata = &function["Metadata"];
        let binary = name.to_lowercase();
        if metadata["BuildMethod"] != "rust-cargolambda" || metadata["BuildProperties"]["Binary"] != binary {
            found.push(format!("{name} isn't built as {binary} by cargo-lambda"));
        }
        if function["Properties"]["CodeUri"] != format!("functions/{binary}") {
            found.push(format!("{name}'s code isn't in functions/{binary}"));
        }
        let wanted = [
            ("Runtime", json!("provided.al2023")),
            ("Handler", json!("bootstrap")),
            ("Architectures", json!([{"Ref": "Architecture"}])),
        ];
        for (key, value) in wanted {
            if *template.of_function(name, key) != value {
                found.push(format!("{name}'s {key} isn't {value}"));
            }
        }
    }
    if template.0["Parameters"]["Architecture"]["AllowedValues"] != json!(["x86_64", "arm64"]) {
        found.push("the architecture isn't a choice of x86_64 and arm64".to_owned());
    }
    found
}

/// What cargo-lambda is told by the workspace's Cargo.toml; the SAM CLI passes no flags on.
fn settings(template: &Template, manifest: &str) -> Findings {
    let mut found = Findings::new();
    let manifest: toml::Table = manifest.parse().unwrap();
    let build = &manifest["workspace"]["metadata"]["lambda"]["build"];
    let texts = |name: &str| -> BTreeSet<String> {
        let list = build.get(name).and_then(toml::Value::as_array);
        list.into_iter().flatten().filter_map(toml::Value::as_str).map(str::to_owned).collect()
    };
    let functions = template.functions();
    let packages = functions.keys().map(|name| format!("glassline-{}", name.to_lowercase())).collect();
    if texts("packages") != packages {
        found.push(format!("it doesn't build all functions' packages: {packages:?}"));
    }
    if texts("config") != BTreeSet::from(["../../infra/lambda.toml".to_owned()]) {
        found.push("it doesn't take the profile of infra/lambda.toml".to_owned());
    }
    for name in ["disable_optimizations", "skip_target_check"] {
        if build.get(name).and_then(toml::Value::as_bool) != Some(true) {
            found.push(format!("it builds without {name}"));
        }
    }
    found
}

#[test]
fn cargo_lambda_is_told_how_to_build() {
    let template = Template::read();
    let manifest = std::fs::read_to_string(glassline_template::root().join("Cargo.toml")).unwrap();
    assert_eq!(settings(&template, &manifest), Findings::new());
    for (seeded, sentence) in [
        (manifest.replace(r#", "glassline-api"]"#, "]"), "it doesn't build all functions' packages"),
        (manifest.replace("../../infra/lambda.toml", "lambda.toml"), "it doesn't take the profile"),
        (manifest.replace("disable_optimizations = true", ""), "it builds without disable_optimizations"),
    ] {
        assert_ne!(seeded, manifest, "{sentence}");
        let found = settings(&template, &seeded);
        assert!(found.len() == 1 && found[0].starts_with(sentence), "{found:?}");
    }
}
