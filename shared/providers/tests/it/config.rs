use crate::support::{BY_KEY, KEY, at, lane};
use glassline_protocol::provider::{Provider, Recovery};
use glassline_providers::{LaneConfig, Providers, ProvidersConfig, ProvidersError, SandboxLane, Secret};
use serde_json::{Value, json};

fn read(text: &str) -> Result<ProvidersConfig, String> {
    serde_json::from_str(text).map_err(|fault| fault.to_string())
}

fn full() -> Value {
    json!({"main": {"adapter": "sandbox", "base_url": "https://sandbox.example", "api_key_env": "MAIN_KEY",
        "recovery": {"tier": "lookup", "settle_ms": 60_000}, "polled": true, "connect_timeout_ms": 1_000,
        "submit_timeout_ms": 2_000, "query_timeout_ms": 3_000, "poll_ms": 4_000, "deadline_ms": 5_000,
        "output_lifetime_ms": 6_000}})
}

#[test]
fn a_configuration_is_read_and_declares_what_it_says() {
    let config = read(&full().to_string()).unwrap();
    let environment = |name: &str| (name == "MAIN_KEY").then(|| KEY.to_owned());
    let providers = Providers::from_config_with(config.clone(), &environment).unwrap();
    assert_eq!(providers.lanes().collect::<Vec<_>>(), [&lane()]);
    let declared = providers.capabilities(&lane());
    assert_eq!(declared.recovery, Recovery::Lookup { settle_ms: 60_000 });
    assert_eq!((declared.submit_timeout_ms, declared.poll_ms, declared.deadline_ms), (2_000, 4_000, 5_000));
    assert_eq!((declared.polled, declared.output_lifetime_ms), (true, Some(6_000)));
    for environment in
        [&|_: &str| None as Option<String>, &|_: &str| Some(String::new())] as [&dyn Fn(&str) -> _; 2]
    {
        let missing = Providers::from_config_with(config.clone(), environment).unwrap_err();
        assert_eq!(missing, ProvidersError::NoKey { lane: lane(), variable: "MAIN_KEY".into() });
    }
    let short = json!({"a.b": {"adapter": "sandbox", "base_url": "http://127.0.0.1:1", "api_key": "k",
        "recovery": {"tier": "none"}}});
    assert!(Providers::from_config(read(&short.to_string()).unwrap()).is_ok());
}

#[test]
fn unknown_fields_and_names_are_refused() {
    let change = |edit: &dyn Fn(&mut Value)| {
        let mut config = full();
        edit(&mut config);
        config.to_string()
    };
    for text in [
        change(&|config| config["main"]["timeout_ms"] = 1.into()),
        change(&|config| config["main"]["adapter"] = "other".into()),
        change(&|config| config["main"]["recovery"] = json!({"tier": "magic"})),
        change(&|config| config["main"]["poll_ms"] = (-1).into()),
        change(&|config| *config = json!({"a lane": config["main"]})),
        "[]".into(),
    ] {
        assert!(read(&text).is_err(), "{text}");
    }
}

fn refused(change: impl FnOnce(&mut SandboxLane)) -> ProvidersError {
    let mut config = at("https://sandbox.example", BY_KEY);
    change(&mut config);
    let lanes = [(lane(), LaneConfig::Sandbox(config))].into();
    Providers::from_config(ProvidersConfig { lanes }).unwrap_err()
}

#[test]
fn what_cannot_work_is_refused_with_the_lane_and_the_rule() {
    let errors = [
        refused(|config| config.base_url = "http://sandbox.example".into()),
        refused(|config| config.base_url = "http://127.0.0.1.example".into()),
        refused(|config| config.base_url = "https://user:pw@sandbox.example".into()),
        refused(|config| config.base_url = "https://sandbox.example/?a=b".into()),
        refused(|config| config.base_url = "ftp://sandbox.example".into()),
        refused(|config| config.base_url = "sandbox.example".into()),
        refused(|config| config.api_key_env = Some("X".into())),
        refused(|config| config.api_key = None),
        refused(|config| config.api_key = Some(Secret::new(""))),
        refused(|config| config.api_key = Some(Secret::new("two words"))),
        refused(|config| config.api_key = Some(Secret::new("line\nbreak"))),
        refused(|config| config.polled = false),
        refused(|config| config.recovery = Recovery::Callback { deadline_ms: 1 }),
        refused(|config| config.recovery = Recovery::Lookup { settle_ms: 0 }),
        refused(|config| config.callback_url = Some("javascript:alert(1)".into())),
        refused(|config| config.connect_timeout_ms = 0),
        refused(|config| config.connect_timeout_ms = config.submit_timeout_ms + 1),
        refused(|config| config.submit_timeout_ms = 600_001),
        refused(|config| config.query_timeout_ms = 0),
        refused(|config| config.poll_ms = 0),
        refused(|config| config.deadline_ms = u64::MAX),
    ];
    for error in errors {
        let text = error.to_string();
        assert!(text.contains("`main`") && !text.contains("pw") && !text.contains(KEY), "{text}");
    }
}

#[test]
fn plain_http_goes_to_this_machine_only_unless_allowed() {
    for (url, allow) in [
        ("http://127.0.0.1:9", false),
        ("http://127.8.8.8:9", false),
        ("http://localhost:9", false),
        ("http://[::1]:9", false),
        ("http://sandbox.example", true),
    ] {
        let mut config = at(url, BY_KEY);
        config.allow_plain_http = allow;
        let lanes = [(lane(), LaneConfig::Sandbox(config))].into();
        assert!(Providers::from_config(ProvidersConfig { lanes }).is_ok(), "{url}");
    }
}

#[test]
fn a_secret_never_prints() {
    let mut lane_config = full();
    lane_config["main"]["api_key"] = KEY.into();
    let config = read(&lane_config.to_string()).unwrap();
    let shown = format!("{config:?} {:#?} {:?}", config, Secret::new(KEY));
    assert!(!shown.contains(KEY) && shown.contains("Secret(…)"), "{shown}");
    for wrong in [json!(123_456), json!([KEY]), json!({"key": KEY})] {
        lane_config["main"]["api_key"] = wrong;
        let fault = read(&lane_config.to_string()).unwrap_err();
        assert!(!fault.contains(KEY) && !fault.contains("123456"), "{fault}");
    }
}
