//! Addresses that must not be fetched, and configurations that would allow them.

use crate::fixtures::png;
use crate::site::{Page, Site, barred, lane, local, save, scripted, stored, vault};
use glassline_assets::{AllowedHost, AssetVault, Limits, StoreConfig, VaultConfig, VaultConfigError};
use glassline_protocol::provider::Media;
use glassline_protocol::vault::Saved;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

fn entry(host: &str) -> AllowedHost {
    AllowedHost { host: host.into(), port: None, allow_http: false, allow_private: false }
}

#[tokio::test]
async fn addresses_off_the_list_are_refused() {
    let folder = TempDir::new().unwrap();
    let vault =
        vault(folder.path(), vec![entry("cdn.example.com"), entry("*.img.example.com")], Limits::default());
    let cases = [
        ("", "not a URL"),
        ("cdn.example.com/x.png", "not a URL"),
        ("https://", "not a URL"),
        ("https://[::1", "not a URL"),
        ("http://cdn.example.com/x.png", "doesn't use https"),
        ("ftp://cdn.example.com/x.png", "doesn't use https"),
        ("file:///etc/passwd", "doesn't use https"),
        ("gopher://cdn.example.com/", "doesn't use https"),
        ("data:image/png;base64,iVBORw0KGgo=", "doesn't use https"),
        ("javascript:alert(1)", "doesn't use https"),
        ("https://user@cdn.example.com/", "user name"),
        ("https://user:secret@cdn.example.com/", "user name"),
        ("https://:secret@cdn.example.com/", "user name"),
        ("https://cdn.example.com@evil.example/", "user name"),
        ("https://cdn.example.com:8443/", "port"),
        ("https://cdn.example.com:80/", "port"),
        ("https://cdn.example.com.evil.example/", "allowed hosts"),
        ("https://evilcdn.example.com/", "allowed hosts"),
        ("https://cdn.example.com./", "allowed hosts"),
        ("https://img.example.com/", "allowed hosts"),
        ("https:////evil.example/x.png", "allowed hosts"),
        ("https:\\\\evil.example\\x.png", "allowed hosts"),
        ("https://localhost/", "allowed hosts"),
        ("https://127.0.0.1/", "allowed hosts"),
        ("https://127.1/", "allowed hosts"),
        ("https://2130706433/", "allowed hosts"),
        ("https://0x7f.0.0.1/", "allowed hosts"),
        ("https://0177.0.0.1/", "allowed hosts"),
        ("https://１２７.０.０.１/", "allowed hosts"),
        ("https://[::1]/", "allowed hosts"),
        ("https://[::ffff:169.254.169.254]/", "allowed hosts"),
        ("https://169.254.169.254/latest/meta-data/", "allowed hosts"),
        ("https://metadata.google.internal/", "allowed hosts"),
        ("https://evil.example\\@cdn.example.com/", "allowed hosts"),
        ("https://evil.example#@cdn.example.com/", "allowed hosts"),
        ("https://evil.example?@cdn.example.com/", "allowed hosts"),
        ("https://evil.example%2f@cdn.example.com/", "user name"),
        ("https://evil.example/https://cdn.example.com/", "allowed hosts"),
        ("https://cdn.ex\u{430}mple.com/", "allowed hosts"),
        ("https://xn--bcher-kva.example/", "allowed hosts"),
        ("https://cdn\u{3002}example\u{3002}com\u{3002}evil\u{3002}example/", "allowed hosts"),
        ("https://cdn.example.com%00.evil.example/", "not a URL"),
        ("https://cdn.example.com%2eevil.example/", "allowed hosts"),
        ("https://cdn.example.com:443@evil.example/", "user name"),
        ("https://[::ffff:a9fe:a9fe]/", "allowed hosts"),
        ("https://[64:ff9b::a9fe:a9fe]/", "allowed hosts"),
        ("https://0xa9fea9fe/", "allowed hosts"),
        ("https://2852039166/", "allowed hosts"),
        ("https://0251.0376.0251.0376/", "allowed hosts"),
        ("s3://cdn.example.com/x.png", "allowed hosts"),
    ];
    for (url, expected) in cases {
        let reason = barred(save(&vault, url, Media::Image).await);
        assert!(reason.contains(expected), "{url}: {reason}");
        assert!(!reason.contains("secret") && !reason.contains("example"), "{url}: {reason}");
    }
}

#[tokio::test]
async fn a_listed_host_inside_our_network_is_not_dialled() {
    let site = Site::start(vec![("/out", Page::ok(png()))]).await;
    let port = Some(site.port);
    let private = |host: &str| AllowedHost { port, allow_private: true, ..entry(host) };
    let sandbox = |host: &str| AllowedHost { allow_http: true, ..private(host) };
    let public = |host: &str| AllowedHost { port, ..entry(host) };
    let cases = [
        (public("localhost"), "https://localhost"),
        (public("127.0.0.1"), "https://127.0.0.1"),
        (public("127.0.0.1"), "https://2130706433"),
        (public("127.0.0.1"), "https://0x7f000001"),
        (public("127.0.0.1"), "https://017700000001"),
        (public("127.0.0.1"), "https://127.0.1"),
        (public("127.0.0.1"), "https://%31%32%37.0.0.1"),
        (public("::1"), "https://[::1]"),
        (public("10.0.0.1"), "https://10.0.0.1"),
        (public("192.168.0.1"), "https://192.168.1"),
        (public("100.64.0.1"), "https://100.64.0.1"),
        (public("fd00::1"), "https://[fd00::1]"),
        (private("0.0.0.0"), "https://0"),
        (private("169.254.169.254"), "https://169.254.169.254"),
        (private("fd00:ec2::254"), "https://[fd00:ec2:0::254]"),
        (private("100.100.100.200"), "https://100.100.100.200"),
        (private("::ffff:7f00:1"), "https://[::ffff:127.0.0.1]"),
        (private("64:ff9b::7f00:1"), "https://[64:ff9b::127.0.0.1]"),
        (private("2002:7f00:1::"), "https://[2002:7f00:1::]"),
        (private("fe80::1"), "https://[fe80::1]"),
        (private("224.0.0.1"), "https://224.0.0.1"),
        (private("255.255.255.255"), "https://255.255.255.255"),
        (private("::"), "https://[::]"),
        (sandbox("10.0.0.1"), "http://10.0.0.1"),
        (sandbox("8.8.8.8"), "http://8.8.8.8"),
    ];
    for (host, url) in cases {
        let folder = TempDir::new().unwrap();
        // An address in another form than its plain one can't be listed at all.
        let name = host.host.clone();
        let vault = vault(folder.path(), vec![host], Limits::default());
        let reason = barred(save(&vault, &format!("{url}:{}/out", site.port), Media::Image).await);
        assert!(reason.contains("may not be dialled"), "{url} for {name}: {reason}");
    }
    assert!(site.asked().is_empty());
}

/// However it is written: these are the listed host itself, and what stops them is only that nobody answers there.
#[tokio::test]
async fn a_listed_host_is_asked_however_it_is_written() {
    let folder = TempDir::new().unwrap();
    let limits = Limits { deadline_ms: 300, ..Limits::default() };
    let vault = vault(folder.path(), vec![entry("nobody.invalid"), entry("*.cdn.invalid")], limits);
    for url in [
        "https://nobody.invalid/x.png",
        "https://NOBODY.invalid:443/x.png",
        "https:\\\\nobody.invalid\\x.png",
        "  https://nobody.invalid/x.png\n",
        "https://no\tbody.invalid/x.png",
        "https://nobody\u{3002}invalid/x.png",
        "https://nobody.invalid\\@evil.example/x.png",
        "https://nobody.invalid/?u=https://169.254.169.254/",
        "https://a.b.cdn.invalid/x@y:z",
    ] {
        assert_eq!(save(&vault, url, Media::Image).await, Saved::Unavailable, "{url}");
    }
}

#[tokio::test]
async fn a_redirect_in_circles_ends() {
    let pages = vec![
        ("/a", Page::redirect(302, "/b")),
        ("/b", Page::redirect(307, "/a")),
        ("/self", Page::redirect(308, "/self")),
    ];
    let site = Site::start(pages).await;
    let folder = TempDir::new().unwrap();
    let vault = vault(folder.path(), vec![local(site.port)], Limits::default());
    for path in ["/a", "/self"] {
        assert!(barred(save(&vault, &site.url(path), Media::Image).await).contains("too often"));
    }
    assert_eq!(site.asked().len(), 12, "the first address and five more, each time");
}

#[tokio::test]
async fn a_sandbox_on_loopback_can_be_allowed_by_name_or_address() {
    let site = Site::start(vec![("/out", Page::ok(png()))]).await;
    for host in ["127.0.0.1", "localhost"] {
        let folder = TempDir::new().unwrap();
        let vault = vault(
            folder.path(),
            vec![AllowedHost { host: host.into(), ..local(site.port) }],
            Limits::default(),
        );
        stored(save(&vault, &format!("http://{host}:{}/out", site.port), Media::Image).await);
    }
}

#[tokio::test]
async fn a_redirect_is_held_to_the_same_rules() {
    let trap = Site::start(vec![("/out", Page::ok(png()))]).await;
    let targets = [
        ("/port", trap.url("/out"), "port"),
        ("/name", format!("http://localhost:{}/out", trap.port), "allowed hosts"),
        ("/v6", format!("http://[::1]:{}/out", trap.port), "allowed hosts"),
        ("/decimal", format!("http://2130706433:{}/out", trap.port), "port"),
        ("/relative", format!("//localhost:{}/out", trap.port), "allowed hosts"),
        ("/metadata", "http://169.254.169.254/latest/meta-data/".into(), "allowed hosts"),
        ("/public", "https://evil.example/x.png".into(), "allowed hosts"),
        ("/file", "file:///etc/passwd".into(), "doesn't use https"),
        ("/user", trap.url("/out").replace("127.", "me:secret@127."), "user name"),
        ("/nonsense", "http://[".into(), "nowhere"),
    ];
    let pages = targets.iter().map(|(path, target, _)| (*path, Page::redirect(302, target))).collect();
    let site = Site::start(pages).await;
    let folder = TempDir::new().unwrap();
    let vault = vault(folder.path(), vec![local(site.port)], Limits::default());
    for (path, target, expected) in targets {
        let reason = barred(save(&vault, &site.url(path), Media::Image).await);
        assert!(reason.contains(expected), "{target}: {reason}");
    }
    assert!(trap.asked().is_empty());
}

/// Fetches from the site at `GLASSLINE_TEST_PORT`; run by the test below in a process of its own.
#[tokio::test]
#[ignore = "run by `the_environment_offers_no_proxy`"]
async fn child_fetches() {
    let port: u16 = std::env::var("GLASSLINE_TEST_PORT").unwrap().parse().unwrap();
    let folder = TempDir::new().unwrap();
    let vault = vault(folder.path(), vec![local(port)], Limits::default());
    stored(save(&vault, &format!("http://127.0.0.1:{port}/out"), Media::Image).await);
}

#[tokio::test]
async fn the_environment_offers_no_proxy() {
    let site = Site::start(vec![("/out", Page::ok(png()))]).await;
    let proxy = Site::start(vec![("/out", Page::status(502, "a proxy was asked"))]).await;
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "guard::child_fetches", "--ignored"]);
    child.env("GLASSLINE_TEST_PORT", site.port.to_string()).env_remove("NO_PROXY").env_remove("no_proxy");
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"] {
        child.env(name, proxy.url(""));
    }
    let done = child.output().await.unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    assert_eq!((site.asked().len(), proxy.asked().len()), (1, 0));
}

/// Where the logs of one test go.
#[derive(Clone, Default)]
struct Logs(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_log_carries_a_signature() {
    // In a process of its own: other tests' threads, which have no subscriber, would switch off log lines here.
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
    let done = child.args(["--exact", "guard::child_logs", "--ignored"]).output().await.unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}

#[tokio::test]
#[ignore = "run by `no_log_carries_a_signature`"]
async fn child_logs() {
    let logs = Logs::default();
    let writer = logs.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let (dead, _) = scripted(vec![]).await;
    let pages = vec![
        ("/out", Page::ok(png())),
        ("/html", Page::ok(b"<html>signature</html>".to_vec())),
        ("/500", Page::status(500, "signature")),
        ("/off", Page::redirect(302, "https://evil.example/signature?x=signature")),
    ];
    let site = Site::start(pages).await;
    let folder = TempDir::new().unwrap();
    let vault = vault(folder.path(), vec![local(site.port), local(dead)], Limits::default());
    for path in ["/out", "/html", "/500", "/off", "/404"] {
        save(&vault, &site.url(&format!("{path}?sig=signature#signature")), Media::Image).await;
    }
    let reset = format!("http://127.0.0.1:{dead}/x?sig=signature");
    for url in [reset.as_str(), "https://signature:signature@cdn.example.com/", "signature"] {
        save(&vault, url, Media::Image).await;
    }
    let text = String::from_utf8(logs.0.lock().unwrap().clone()).unwrap();
    let ours: Vec<&str> = text.lines().filter(|line| line.contains("glassline_assets")).collect();
    assert!(ours.len() >= 7, "{text}");
    for line in ours {
        assert!(!line.contains("signature"), "{line}");
    }
}

#[test]
fn a_configuration_is_checked_when_it_is_read() {
    let text = r#"{
        "store": {"kind": "fs", "root": "/var/outputs"},
        "lanes": {"video": [{"host": "*.example.com"}, {"host": "127.0.0.1", "port": 8080,
            "allow_http": true, "allow_private": true}]},
        "limits": {"deadline_ms": 1000}
    }"#;
    let config: VaultConfig = serde_json::from_str(text).unwrap();
    assert_eq!(config.store, StoreConfig::Fs { root: PathBuf::from("/var/outputs") });
    assert_eq!(config.limits, Limits { deadline_ms: 1000, ..Limits::default() });
    assert_eq!(
        serde_json::from_str::<VaultConfig>(&serde_json::to_string(&config).unwrap()).unwrap(),
        config
    );
    for (good, bad) in [
        ("\"kind\": \"fs\"", "\"kind\": \"nfs\""),
        ("\"root\"", "\"path\""),
        ("\"host\": \"*.example.com\"", "\"host\": \"*.example.com\", \"scheme\": \"http\""),
        ("\"deadline_ms\"", "\"deadline\""),
        ("\"video\"", "\"a lane\""),
        ("\"limits\"", "\"limit\""),
    ] {
        let changed = text.replace(good, bad);
        assert!(changed != text && serde_json::from_str::<VaultConfig>(&changed).is_err(), "{bad}");
    }
}

#[test]
fn a_configuration_that_cannot_work_is_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let good = VaultConfig {
        store: StoreConfig::Fs { root: folder.path().to_owned() },
        lanes: [(lane(), vec![entry("cdn.example.com")])].into(),
        limits: Limits::default(),
        temp_dir: None,
    };
    assert!(AssetVault::new(good.clone()).is_ok());
    let error = |config: VaultConfig| AssetVault::new(config).err().expect("it must be refused");
    let host = VaultConfig { lanes: [(lane(), vec![entry("CDN.example.com")])].into(), ..good.clone() };
    assert!(error(host).to_string().contains("lane `lane` allows the host `CDN.example.com`"));
    let limit = VaultConfig { limits: Limits { stall_ms: 0, ..Limits::default() }, ..good.clone() };
    assert!(matches!(error(limit), VaultConfigError::Limit { name: "stall_ms" }));
    let temp_dir = VaultConfig { temp_dir: Some(folder.path().join("absent")), ..good.clone() };
    assert!(matches!(error(temp_dir), VaultConfigError::TempDir { .. }));
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let store = VaultConfig { store: StoreConfig::Fs { root: file.join("root") }, ..good };
    assert!(matches!(error(store), VaultConfigError::Store { .. }));
}
