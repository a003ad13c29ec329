//! Descriptions: those in the repository are whole, and every mistake in one is a clear sentence with its place.

use super::read::{Mistake, read};
use super::{BUILT_IN, GenericLane};
use crate::config::{LaneConfig, ProvidersConfig};
use crate::registry::Providers;
use serde_json::json;
use std::collections::BTreeMap;

const GOOD: &str = r#"
name = "Test"
base_url = "https://api.example"
[auth]
header = "x-key"
[options.model]
[options.size]
default = "small"
[recovery]
tier = "key"
lifetime_ms = 60000
header = "idempotency-key"
value = "{reference_hash}"
[submit]
path = "/v1/{option.model}"
task = "/id"
error_code = ["/code"]
query = { hook = "{callback_url}" }
body = { size = "{option.size}" }
place = { "/input" = "{params}", "/input/prompt" = "{prompt}" }
refused = [{ http = 409, class = "unknown" }, { code = "nsfw", class = "moderated" }]
[status]
path = "/v1/{task}"
word = "/status"
words = { done = "completed", bad = "failed", busy = "running" }
http = { 404 = "missing" }
error_code = ["/code"]
errors = { nsfw = "moderated" }
[output]
items = ["/outputs/*"]
path = "/files/{item:/name}"
with_key = true
[[cancel]]
method = "DELETE"
path = "/v1/{task}"
[find]
path = "/v1/list"
query = { ref = "{reference}" }
items = "/items/*"
task = "/id"
reference = "/ref"
equals = "{reference}"
[callback]
task = "/id"
signature = "standard_webhooks"
"#;

fn options() -> BTreeMap<String, String> {
    [("model".to_owned(), "owner/name".to_owned())].into()
}

fn mistake(text: &str) -> Mistake {
    match read(text, &options()) {
        Ok(_) => panic!("no mistake was found in {text}"),
        Err(mistake) => mistake,
    }
}

#[test]
fn the_descriptions_in_the_repository_are_whole() {
    for (name, text) in BUILT_IN {
        let mut given = BTreeMap::new();
        let table: toml::Table = text.parse().unwrap();
        for (option, spec) in table.get("options").and_then(toml::Value::as_table).into_iter().flatten() {
            if spec.get("default").is_none() {
                given.insert(option.clone(), "some/name".to_owned());
            }
        }
        let api = read(text, &given).unwrap_or_else(|mistake| panic!("{name}: {mistake:?}"));
        assert!(!api.name.is_empty() && api.base_url.is_some(), "{name}");
        assert!(
            table["docs"].as_array().unwrap().iter().all(|url| url.as_str().unwrap().starts_with("https://"))
        );
        if !given.is_empty() {
            let missing = read(text, &BTreeMap::new()).map(|_| ()).unwrap_err();
            assert!(missing.place.starts_with("options."), "{name}: {missing:?}");
        }
    }
    assert!(read(GOOD, &options()).is_ok());
}

#[test]
fn every_mistake_is_one_sentence_with_its_place() {
    for (from, to, place, word) in [
        ("name = \"Test\"", "name = ", "line 2", ""),
        ("name = \"Test\"", "nam = \"Test\"", "nam", "unknown field"),
        ("header = \"x-key\"", "header = \"x key\"", "auth.header", "header"),
        ("header = \"x-key\"", "header = \"host\"", "auth.header", "client itself"),
        ("tier = \"key\"", "tier = \"magic\"", "recovery", "variant"),
        ("lifetime_ms = 60000", "lifetime_ms = 0", "recovery.lifetime_ms", "year"),
        ("value = \"{reference_hash}\"", "value = \"fixed\"", "recovery.value", "{reference}"),
        ("header = \"idempotency-key\"\n", "", "recovery", "header"),
        ("path = \"/v1/{option.model}\"", "path = \"v1\"", "submit.path", "`/`"),
        ("path = \"/v1/{option.model}\"", "path = \"/v1/../x\"", "submit.path", "`..`"),
        ("path = \"/v1/{option.model}\"", "path = \"/v1?x=1\"", "submit.path", "query"),
        ("path = \"/v1/{option.model}\"", "path = \"/v1/{prompt}\"", "submit.path", "not known here"),
        ("path = \"/v1/{option.model}\"", "path = \"/v1/{option.nodel}\"", "submit.path", "not declared"),
        ("path = \"/v1/{option.model}\"", "path = \"/v1/{option.model\"", "submit.path", "`}`"),
        ("task = \"/id\"\nerror_code", "task = \"id\"\nerror_code", "submit.task", "pointer"),
        ("task = \"/id\"\nerror_code", "task = \"/*\"\nerror_code", "submit.task", "`*`"),
        ("\"/input/prompt\" = \"{prompt}\"", "\"/x\" = \"fixed\"", "submit.place", "`{prompt}`"),
        ("\"/input\" = \"{params}\"", "\"/input\" = \"a {params}\"", "submit.place.\"/input\"", "object"),
        ("hook = \"{callback_url}\"", "hook = \"x\"", "callback", "need each other"),
        ("http = 409, class = \"unknown\"", "class = \"unknown\"", "submit.refused[0]", "`http`, `code`"),
        ("http = 409, class", "http = 201, class", "submit.refused[0]", "accepted"),
        ("class = \"moderated\" }]", "class = \"rude\" }]", "submit.refused[1]", "`throttled`"),
        ("error_code = [\"/code\"]\nquery", "query", "submit.refused[1]", "error_code"),
        ("done = \"completed\"", "done = \"running\"", "status", "`completed`"),
        ("bad = \"failed\"", "bad = \"broken\"", "status.words.bad", "`running`"),
        ("http = { 404 = \"missing\" }", "http = { x = \"missing\" }", "status.http.x", "HTTP status"),
        ("http = { 404 = \"missing\" }", "http = { 99 = \"missing\" }", "status.http.99", "HTTP status"),
        ("word = \"/status\"\n", "", "status.words", "status.word"),
        ("path = \"/files/{item:/name}\"", "", "output", "exactly one"),
        ("path = \"/files/{item:/name}\"", "url = \"/x\"", "output.with_key", "`path`"),
        ("{item:/name}", "{item:name}", "output.path", "pointer"),
        ("items = [\"/outputs/*\"]\n", "", "output.items", "item"),
        ("method = \"DELETE\"", "method = \"GET\"", "cancel[0].method", "`DELETE`"),
        ("path = \"/v1/{task}\"\n[find]", "path = \"/v1\"\n[find]", "cancel[0]", "`{task}`"),
        ("equals = \"{reference}\"", "equals = \"x\"", "find.equals", "{reference}"),
        ("signature = \"standard_webhooks\"", "signature = \"none\"", "callback.signature", "variant"),
        ("[output]", "[output]\nsurprise = 1", "output.surprise", "unknown field"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let found = mistake(&GOOD.replacen(from, to, 1));
        assert!(found.place.starts_with(place), "{to}: {found:?}");
        assert!(found.rule.contains(word) && !found.rule.contains('\n'), "{to}: {found:?}");
    }
    let lookup = GOOD.replace(
        "tier = \"key\"\nlifetime_ms = 60000\nheader = \"idempotency-key\"\nvalue = \"{reference_hash}\"",
        "tier = \"lookup\"\nsettle_ms = 1000",
    );
    assert!(read(&lookup, &options()).is_ok());
    let (start, rest) = lookup.split_once("[find]").unwrap();
    let (_, end) = rest.split_once("[callback]").unwrap();
    assert_eq!(mistake(&format!("{start}[callback]{end}")).place, "recovery.tier");
    let long = format!("{GOOD}# {}", "x".repeat(300_000));
    assert_eq!(mistake(&long).place, "the file");
}

#[test]
fn options_are_checked() {
    let given = |name: &str, value: &str| {
        let mut given = options();
        given.insert(name.to_owned(), value.to_owned());
        read(GOOD, &given).map(|_| ()).map_err(|mistake| mistake.place)
    };
    assert_eq!(given("size", "large"), Ok(()));
    assert_eq!(given("colour", "red"), Err("options.colour".to_owned()));
    for bad in ["", "a b", "../x", "a//b", "a?b", "{prompt}", "a\nb"] {
        assert_eq!(given("model", bad), Err("options.model".to_owned()), "{bad}");
    }
}

fn lane(own: serde_json::Value) -> Result<(), String> {
    let config: GenericLane = serde_json::from_value(own).map_err(|error| error.to_string())?;
    let lanes = [("main".parse().unwrap(), LaneConfig::Generic(Box::new(config)))].into();
    Providers::from_config(ProvidersConfig { lanes }).map(|_| ()).map_err(|error| error.to_string())
}

#[test]
fn a_lane_says_what_it_lacks() {
    let model = json!({"model": "a/b"});
    let hook = "https://hooks.example/x";
    let secrets = json!(["sixteen bytes of secret"]);
    for (own, word) in [
        (json!({}), "exactly one of `api`, `file` and `toml`"),
        (json!({"api": "higgsfield", "toml": GOOD}), "exactly one of"),
        (json!({"api": "nobody"}), "there are: comfyui, higgsfield"),
        (json!({"file": "/does/not/exist.toml"}), "can't be read"),
        (json!({"api": "higgsfield", "api_key": "k"}), "options.model"),
        (json!({"api": "higgsfield", "options": model}), "exactly one of `api_key`"),
        (json!({"api": "higgsfield", "options": model, "api_key": "k", "api_key_env": "X"}), "exactly one"),
        (json!({"api": "comfyui", "options": {"prompt_node": "6"}, "api_key": "k"}), "no `[auth]`"),
        (
            json!({"api": "luma-agents", "options": model, "api_key": "k", "callback_url": hook,
            "callback_secrets": secrets}),
            "no `[callback]`",
        ),
        (
            json!({"api": "higgsfield", "options": model, "api_key": "k", "callback_url": hook}),
            "`callback_secrets`",
        ),
        (
            json!({"api": "higgsfield", "options": model, "api_key": "k", "callback_url": hook,
            "callback_secrets": ["short"]}),
            "16 bytes",
        ),
        (json!({"api": "higgsfield", "options": model, "api_key": "k", "polled": false}), "`callback_url`"),
        (
            json!({"toml": GOOD, "options": model, "api_key": "k", "callback_url": hook,
            "callback_secrets": secrets}),
            "`webhook_secrets`",
        ),
        (json!({"toml": GOOD, "options": model, "api_key": "k", "webhook_secrets": ["whsec_?"]}), "base64"),
        (
            json!({"toml": GOOD.replace("base_url = \"https://api.example\"\n", ""), "options": model,
            "api_key": "k"}),
            "`base_url`",
        ),
        (
            json!({"api": "higgsfield", "options": model, "api_key": "k", "base_url": "http://x.example"}),
            "https",
        ),
        (json!({"api": "higgsfield", "options": model, "api_key": {"env": "X"}}), "must be a text"),
    ] {
        let told = lane(own.clone()).unwrap_err();
        assert!(told.contains(word) && !told.contains('\n'), "{own}: {told}");
    }
    assert_eq!(lane(json!({"toml": GOOD, "options": model, "api_key": "k"})), Ok(()));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// A description with bytes left out, doubled or replaced is read or refused in one sentence.
    #[test]
    fn a_damaged_description_never_panics(
        from in 0_usize..GOOD.len(),
        length in 0_usize..40,
        put in proptest::prelude::prop_oneof!["[\\[\\]{}\"=.,#*/ a-z0-9\n]{0,12}", ".{0,6}"],
    ) {
        let to = (from + length).min(GOOD.len());
        let text = format!("{}{put}{}", &GOOD[..from], &GOOD[to..]);
        if let Err(mistake) = read(&text, &options()) {
            proptest::prop_assert!(!mistake.rule.is_empty() && !mistake.rule.contains('\n'), "{mistake:?}");
        }
    }
}
