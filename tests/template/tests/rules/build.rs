//! How the functions are built: by cargo-lambda, with the same flags, so that they share what is compiled.

use super::Findings;
use glassline_template::Template;
use serde_json::json;
use std::collections::BTreeSet;

pub(crate) fn rule(template: &Template) -> Findings {
    let mut found = Findings::new();
    let functions = template.functions();
    let packages: BTreeSet<String> =
        functions.keys().map(|name| format!("glassline-{}", name.to_lowercase())).collect();
    for (name, function) in &functions {
        let metadata = &function["Metadata"];
        let binary = name.to_lowercase();
        if metadata["BuildMethod"] != "rust-cargolambda" || metadata["BuildProperties"]["Binary"] != binary {
            found.push(format!("{name} isn't built as {binary} by cargo-lambda"));
        }
        if function["Properties"]["CodeUri"] != format!("functions/{binary}") {
            found.push(format!("{name}'s code isn't in functions/{binary}"));
        }
        let flags: Vec<&str> = metadata["BuildProperties"]["CargoLambdaFlags"]
            .as_array()
            .map(|flags| flags.iter().filter_map(serde_json::Value::as_str).collect())
            .unwrap_or_default();
        let named = flags.windows(2).filter(|pair| pair[0] == "-p").map(|pair| pair[1].to_owned());
        if named.collect::<BTreeSet<_>>() != packages {
            found.push(format!("{name} isn't built with all functions' packages: {packages:?}"));
        }
        for flag in ["--disable-optimizations", "--skip-target-check", "../../infra/lambda.toml"] {
            if !flags.contains(&flag) {
                found.push(format!("{name} is built without {flag}"));
            }
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
