use crate::support::{BY_LOOKUP, KEY, Raw, at, lane, providers, reference, request, say};
use glassline_protocol::provider::{Provider, Submit};
use glassline_providers::{Callback, CallbackError, Secret, verify_callback};
use glassline_sandbox::{AccountConfig, Sandbox, SandboxConfig, sign_callback};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

const NOW_MS: u64 = 1_800_000_000_000;
const BODY: &[u8] = br#"{"id":"rnd_1","reference":"POST#p1/SHOT#s1/1","status":"succeeded"}"#;

fn headers(timestamp: &str, signature: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("x-sandbox-timestamp", timestamp.parse().unwrap());
    headers.insert("x-sandbox-signature", signature.parse().unwrap());
    headers
}

fn signed(secret: &str, sent_s: u64, body: &[u8]) -> HeaderMap {
    headers(&sent_s.to_string(), &sign_callback(secret, sent_s, body))
}

fn check(headers: &HeaderMap, body: &[u8], secrets: &[&str]) -> Result<Callback, CallbackError> {
    let secrets: Vec<Secret> = secrets.iter().map(|text| Secret::new(*text)).collect();
    verify_callback(headers, body, NOW_MS, &secrets)
}

#[test]
fn either_secret_is_good_during_a_rotation_and_no_other() {
    let now_s = NOW_MS / 1_000;
    for secret in ["old", "new"] {
        let got = check(&signed(secret, now_s, BODY), BODY, &["new", "old"]).unwrap();
        assert_eq!((got.task.as_str(), got.reference), ("rnd_1", reference("s1")));
    }
    assert_eq!(check(&signed("other", now_s, BODY), BODY, &["new", "old"]), Err(CallbackError::Signature));
    assert_eq!(check(&signed("", now_s, BODY), BODY, &["new", ""]), Err(CallbackError::Signature));
    assert_eq!(check(&signed("", now_s, BODY), BODY, &[""]), Err(CallbackError::NoSecret));
    assert_eq!(check(&signed("new", now_s, BODY), BODY, &[]), Err(CallbackError::NoSecret));
}

#[test]
fn the_body_and_the_time_are_both_signed_and_the_time_must_be_near() {
    let now_s = NOW_MS / 1_000;
    let mut changed = BODY.to_vec();
    changed[8] ^= 1;
    assert_eq!(check(&signed("s", now_s, BODY), &changed, &["s"]), Err(CallbackError::Signature));
    let signature = sign_callback("s", now_s, BODY);
    let moved = headers(&(now_s + 1).to_string(), &signature);
    assert_eq!(check(&moved, BODY, &["s"]), Err(CallbackError::Signature));
    for (sent_s, good) in
        [(now_s - 300, true), (now_s + 300, true), (now_s - 301, false), (now_s + 301, false)]
    {
        assert_eq!(check(&signed("s", sent_s, BODY), BODY, &["s"]).is_ok(), good);
    }
    assert_eq!(check(&signed("s", 999_999_999_999, BODY), BODY, &["s"]), Err(CallbackError::Stale));
    let short = headers(&now_s.to_string(), &signature[..62]);
    assert_eq!(check(&short, BODY, &["s"]), Err(CallbackError::Signature));
}

#[test]
fn malformed_headers_and_bodies_are_refused() {
    let now_s = NOW_MS / 1_000;
    let signature = sign_callback("s", now_s, BODY);
    for timestamp in ["", "+1800000000", "1800000000.0", "-1", "18000000000000", "abc"] {
        let got = check(&headers(timestamp, &signature), BODY, &["s"]);
        assert_eq!(got, Err(CallbackError::Header("x-sandbox-timestamp")), "{timestamp}");
    }
    for signature in ["", "zz", "abc"] {
        let got = check(&headers(&now_s.to_string(), signature), BODY, &["s"]);
        let refused = matches!(got, Err(CallbackError::Header(_) | CallbackError::Signature));
        assert!(refused, "{signature}: {got:?}");
    }
    assert!(matches!(check(&HeaderMap::new(), BODY, &["s"]), Err(CallbackError::Header(_))));
    for name in ["x-sandbox-timestamp", "x-sandbox-signature"] {
        let mut twice = signed("s", now_s, BODY);
        let value = twice.get(name).unwrap().clone();
        twice.append(HeaderName::from_static(name), value);
        assert_eq!(check(&twice, BODY, &["s"]), Err(CallbackError::Header(name)));
        let mut odd = signed("s", now_s, BODY);
        odd.insert(HeaderName::from_static(name), HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(check(&odd, BODY, &["s"]), Err(CallbackError::Header(name)));
    }
    for body in [
        &b""[..],
        b"{}",
        br#"{"id":"a b","reference":"POST#p1/SHOT#s1/1"}"#,
        br#"{"id":"rnd_1","reference":"POST#p1/SHOT#s1"}"#,
        br#"{"id":"rnd_1","reference":"POST#p1/SHOT#s1/0"}"#,
        br#"{"id":"rnd_1","reference":"POST#p1/SHOT#s1/+1"}"#,
        br#"{"id":"rnd_1","reference":"POST#p1/SHOT#s1/01"}"#,
        br#"{"id":"rnd_1","reference":"POST#p1/SHOT#s1/4294967296"}"#,
    ] {
        let got = check(&signed("s", now_s, body), body, &["s"]);
        assert_eq!(got, Err(CallbackError::Unreadable), "{}", String::from_utf8_lossy(body));
    }
}

#[tokio::test]
async fn a_real_callback_of_the_sandbox_is_believed() {
    let raw = Raw::start(say("204 No Content", "", "")).await;
    let mut account = AccountConfig::new("main", KEY);
    account.callback_secret = Some("callback secret".into());
    (account.render_min_ms, account.render_max_ms) = (0, 0);
    let sandbox = Sandbox::start(SandboxConfig::new(vec![account])).await.unwrap();
    let mut config = at(&sandbox.url(), BY_LOOKUP);
    (config.polled, config.callback_url) = (false, Some(format!("{}/hook", raw.url)));
    let told = providers(config).submit(&lane(), &request(), &reference("s1")).await;
    let Submit::Accepted(task) = told else { panic!("{told:?}") };
    let waiting = async {
        while raw.last().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), waiting).await.expect("a callback");
    let sent = raw.last();
    let (head, body) = sent.split_once("\r\n\r\n").unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in head.lines().filter_map(|line| line.split_once(": ")) {
        headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now_ms = u64::try_from(now.as_millis()).unwrap();
    let secrets = [Secret::new("callback secret")];
    let got = verify_callback(&headers, body.as_bytes(), now_ms, &secrets).unwrap();
    assert_eq!(got, Callback { task, reference: reference("s1") });
}
