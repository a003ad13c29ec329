//! Who is signed in: a cookie that says until when, signed with the shared secret, and the token that every change
//! carries. Nothing is kept here: whoever knows the secret in force made the cookie.

use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue};
use glassline_protocol::ids::Ms;
use glassline_protocol::sign::Secrets;

/// How long a sign-in lasts, in milliseconds.
pub const LIFETIME_MS: Ms = 12 * 60 * 60 * 1_000;

/// What a session's signature is for.
const SESSION: &str = "glassline-session-1";
/// What a change's token is for.
const CHANGE: &str = "glassline-change-1";

/// A session that is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The cookie's value: until when, a nonce, and their signature.
    value: String,
}

impl Session {
    /// Begins a session at `now_ms`; `nonce` makes it, and the token of its changes, unlike any other.
    #[must_use]
    pub fn begin(secrets: &Secrets, now_ms: Ms, nonce: &str) -> Self {
        let until_ms = now_ms.saturating_add(LIFETIME_MS).to_string();
        let tag = secrets.tag(SESSION, &[&until_ms, nonce]);
        Self { value: format!("{until_ms}.{nonce}.{tag}") }
    }

    /// The session that a request's cookies show; `None` when there is none in force.
    #[must_use]
    pub fn of(secrets: &Secrets, headers: &HeaderMap, now_ms: Ms) -> Option<Self> {
        let name = cookie_name(headers);
        let cookies = headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok());
        let pairs =
            cookies.flat_map(|header| header.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut values = pairs.filter(|(given, _)| *given == name).map(|(_, value)| value);
        values.find_map(|value| Self::read(secrets, value, now_ms))
    }

    fn read(secrets: &Secrets, value: &str, now_ms: Ms) -> Option<Self> {
        let mut parts = value.splitn(3, '.');
        let (until, nonce, tag) = (parts.next()?, parts.next()?, parts.next()?);
        // The signature first: what isn't ours is not looked at.
        if !secrets.tagged(SESSION, &[until, nonce], tag) {
            return None;
        }
        (until.parse::<Ms>().ok()? > now_ms).then(|| Self { value: value.to_owned() })
    }

    /// The token that this session's changes carry.
    #[must_use]
    pub fn token(&self, secrets: &Secrets) -> String {
        secrets.tag(CHANGE, &[&self.value])
    }

    /// Whether a token is this session's.
    #[must_use]
    pub fn allows(&self, secrets: &Secrets, token: &str) -> bool {
        secrets.tagged(CHANGE, &[&self.value], token)
    }

    /// The header that begins it in the browser.
    #[must_use]
    pub fn cookie(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        set_cookie(headers, &self.value, LIFETIME_MS / 1_000)
    }
}

/// The header that ends a session in the browser.
#[must_use]
pub fn ended(headers: &HeaderMap) -> Option<HeaderValue> {
    set_cookie(headers, "", 0)
}

fn set_cookie(headers: &HeaderMap, value: &str, seconds: u64) -> Option<HeaderValue> {
    let secure = if on_loopback(headers) { "" } else { "; Secure" };
    let name = cookie_name(headers);
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&text).ok()
}

/// Where the browser promises more by the name (host only, secure), it is asked to.
fn cookie_name(headers: &HeaderMap) -> &'static str {
    if on_loopback(headers) { "glassline" } else { "__Host-glassline" }
}

fn host(headers: &HeaderMap) -> Option<&str> {
    headers.get(HOST)?.to_str().ok()
}

/// Whether the request came by an address of this machine, where there is no TLS. A page elsewhere can't choose the
/// `Host` that its visitor's browser sends.
#[must_use]
pub fn on_loopback(headers: &HeaderMap) -> bool {
    let Some(host) = host(headers) else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        Some(_) | None => host,
    };
    ["127.0.0.1", "localhost", "[::1]"].contains(&name)
}

/// Whether a change comes from a page of ours. Browsers say so themselves in `Sec-Fetch-Site`, which no page can set; an
/// older one sends the page's origin, which must name this host. Who sends neither isn't a browser with a page of ours.
#[must_use]
pub fn from_our_page(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site.as_bytes() == b"same-origin";
    }
    let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
    let (Some(origin), Some(host)) = (origin, host(headers)) else { return false };
    let scheme = if on_loopback(headers) { "http" } else { "https" };
    origin.split_once("://") == Some((scheme, host))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;
    use glassline_protocol::sign::Secret;

    fn secrets(current: &str, previous: Option<&str>) -> Secrets {
        let secret = |text: &str| Secret::new(text).unwrap();
        Secrets { current: secret(current), previous: previous.map(secret) }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    const SECRET: &str = "0123456789abcdef";
    const OTHER: &str = "fedcba9876543210";

    #[test]
    fn a_session_lasts_until_its_end_and_not_under_another_secret() {
        let own = secrets(SECRET, None);
        let session = Session::begin(&own, 1_000, "aa");
        let seen = headers(&[
            ("host", "127.0.0.1:8080"),
            ("cookie", &format!("a=b; glassline={}; c=d", session.value)),
        ]);
        assert_eq!(Session::of(&own, &seen, 1_000 + LIFETIME_MS - 1), Some(session.clone()));
        assert_eq!(Session::of(&own, &seen, 1_000 + LIFETIME_MS), None);
        assert_eq!(Session::of(&secrets(OTHER, None), &seen, 1_000), None);
        // During a rotation both secrets are in force.
        assert_eq!(Session::of(&secrets(OTHER, Some(SECRET)), &seen, 1_000), Some(session));
    }

    #[test]
    fn a_cookie_that_was_changed_is_no_session() {
        let own = secrets(SECRET, None);
        let session = Session::begin(&own, 1_000, "aa");
        let (until, rest) = session.value.split_once('.').unwrap();
        let longer = format!("{}.{rest}", until.parse::<u64>().unwrap() + 1);
        let (unsigned, _) = session.value.rsplit_once('.').unwrap();
        let spoilt =
            [longer, unsigned.to_owned(), format!("{unsigned}."), String::new(), "..".into(), "a.b.c".into()];
        for value in spoilt {
            assert_eq!(Session::read(&own, &value, 1_000), None, "{value}");
        }
        // What signs changes doesn't sign sessions.
        let forged = own.tag(CHANGE, &[until, "aa"]);
        assert_eq!(Session::read(&own, &format!("{until}.aa.{forged}"), 1_000), None);
    }

    #[test]
    fn a_change_needs_the_token_of_its_own_session() {
        let own = secrets(SECRET, None);
        let (mine, other) = (Session::begin(&own, 1_000, "aa"), Session::begin(&own, 1_000, "bb"));
        assert!(mine.allows(&own, &mine.token(&own)));
        for token in [other.token(&own), String::new(), mine.value.clone(), format!("{}0", mine.token(&own))]
        {
            assert!(!mine.allows(&own, &token), "{token}");
        }
    }

    #[test]
    fn cookies_are_for_this_host_alone_and_secure_but_on_loopback() {
        let session = Session::begin(&secrets(SECRET, None), 1_000, "aa");
        let text =
            |host: &str| session.cookie(&headers(&[("host", host)])).unwrap().to_str().unwrap().to_owned();
        for host in ["127.0.0.1:80", "localhost:3000", "[::1]:3000", "localhost"] {
            assert!(text(host).starts_with("glassline=") && !text(host).contains("Secure"), "{host}");
        }
        for host in
            ["abc.lambda-url.eu-north-1.on.aws", "localhost.example.com", "127.0.0.1.example.com:80", ""]
        {
            assert!(text(host).starts_with("__Host-glassline="), "{host}");
            for part in ["; Path=/;", "; HttpOnly;", "; SameSite=Strict; Secure", "; Max-Age=43200;"] {
                assert!(text(host).contains(part), "{host}: {part}");
            }
        }
        assert!(!text("localhost").contains(SECRET));
    }

    #[test]
    fn only_our_own_pages_may_change_something() {
        let host = ("host", "glassline.example");
        for (given, ours) in [
            (vec![host, ("sec-fetch-site", "same-origin")], true),
            (vec![host, ("sec-fetch-site", "cross-site"), ("origin", "https://glassline.example")], false),
            (vec![host, ("sec-fetch-site", "same-site")], false),
            (vec![host, ("sec-fetch-site", "none")], false),
            (vec![host, ("origin", "https://glassline.example")], true),
            (vec![host, ("origin", "http://glassline.example")], false),
            (vec![host, ("origin", "https://evil.example")], false),
            (vec![host, ("origin", "null")], false),
            (vec![host], false),
            (vec![("host", "127.0.0.1:9"), ("origin", "http://127.0.0.1:9")], true),
            (vec![("host", "127.0.0.1:9"), ("origin", "http://127.0.0.1:8")], false),
        ] {
            assert_eq!(from_our_page(&headers(&given)), ours, "{given:?}");
        }
    }
}
