//! Which addresses a lane may fetch from: the rules that every URL, every redirect and every dialled address must
//! keep.

use crate::address::{Reach, reach};
use crate::config::{AllowedHost, VaultConfigError};
use glassline_protocol::ids::LaneName;
use reqwest::Url;
use std::net::{IpAddr, Ipv6Addr};

/// Why an address is not fetched. The messages name no address: it may be signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    /// Not a URL.
    #[error("the output's address is not a URL")]
    NotUrl,
    /// A scheme other than https (or plain http where it isn't allowed).
    #[error("the output's address doesn't use https")]
    Scheme,
    /// A user name or password within the URL.
    #[error("the output's address carries a user name or password")]
    UserInfo,
    /// A host that isn't on the lane's list.
    #[error("the output's host is not on the lane's list of allowed hosts")]
    Host,
    /// A port that isn't on the lane's list.
    #[error("the output's port is not on the lane's list of allowed hosts")]
    Port,
    /// A host whose address may not be dialled.
    #[error("the output's host leads to an address that may not be dialled ({0})")]
    Address(&'static str),
    /// A redirect without a readable target.
    #[error("the output's address redirects to nowhere")]
    Redirect,
    /// More redirects than allowed.
    #[error("the output's address redirects too often")]
    Redirects,
}

impl Blocked {
    /// A stable code for logs and metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotUrl => "not_url",
            Self::Scheme => "scheme",
            Self::UserInfo => "user_info",
            Self::Host => "host",
            Self::Port => "port",
            Self::Address(_) => "address",
            Self::Redirect => "redirect",
            Self::Redirects => "redirects",
        }
    }
}

/// The allow-list of one lane, checked.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    hosts: Vec<AllowedHost>,
}

impl Policy {
    /// Checks the entries of a lane.
    pub(crate) fn new(lane: &LaneName, hosts: &[AllowedHost]) -> Result<Self, VaultConfigError> {
        let mut checked: Vec<AllowedHost> = Vec::with_capacity(hosts.len());
        for entry in hosts {
            let bad = |rule| VaultConfigError::Host { lane: lane.clone(), host: entry.host.clone(), rule };
            let host = canonical(entry).map_err(bad)?;
            let clash = checked.iter().any(|other| {
                other.host == host
                    && (other.allow_private, other.allow_http) != (entry.allow_private, entry.allow_http)
            });
            if clash {
                // A name is resolved without knowing the port, so one host has one rule for its addresses.
                return Err(bad("another entry of the same host has other `allow_http` or `allow_private`"));
            }
            checked.push(AllowedHost { host, ..entry.clone() });
        }
        Ok(Self { hosts: checked })
    }

    /// Whether no entry allows plain http.
    pub(crate) fn https_only(&self) -> bool {
        !self.hosts.iter().any(|entry| entry.allow_http)
    }

    /// Checks a URL before it is asked for.
    pub(crate) fn check(&self, url: &Url) -> Result<(), Blocked> {
        let secure = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(Blocked::Scheme),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Blocked::UserInfo);
        }
        let host = url.host_str().ok_or(Blocked::NotUrl)?;
        let port = url.port_or_known_default().ok_or(Blocked::Port)?;
        let default_port = if secure { 443 } else { 80 };
        if self.matching(host).next().is_none() {
            return Err(Blocked::Host);
        }
        if !secure && !self.matching(host).any(|entry| entry.allow_http) {
            return Err(Blocked::Scheme);
        }
        if !self.matching(host).any(|entry| entry.port.unwrap_or(default_port) == port) {
            return Err(Blocked::Port);
        }
        // A literal address is dialled without being resolved, so it is judged here.
        match literal(host) {
            Some(address) => self.check_address(host, address),
            None => Ok(()),
        }
    }

    /// Checks an address that a host leads to, before it is dialled.
    pub(crate) fn check_address(&self, host: &str, address: IpAddr) -> Result<(), Blocked> {
        let mut entries = self.matching(host).peekable();
        if entries.peek().is_none() {
            return Err(Blocked::Host);
        }
        let (private, http) = entries.fold((true, false), |(private, http), entry| {
            (private && entry.allow_private, http || entry.allow_http)
        });
        match reach(address) {
            Reach::Loopback if private => Ok(()),
            Reach::Public if http => Err(Blocked::Address("not loopback")),
            Reach::Private if http => Err(Blocked::Address("not loopback")),
            Reach::Private if private => Ok(()),
            Reach::Public => Ok(()),
            Reach::Loopback => Err(Blocked::Address("loopback")),
            Reach::Private => Err(Blocked::Address("private")),
            Reach::Never(name) => Err(Blocked::Address(name)),
        }
    }

    fn matching<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a AllowedHost> + 'a {
        self.hosts.iter().filter(move |entry| match entry.host.strip_prefix('*') {
            Some(suffix) => host.strip_suffix(suffix).is_some_and(|label| !label.is_empty()),
            None => entry.host == host,
        })
    }
}

/// The address that a URL's host is, if it is one.
fn literal(host: &str) -> Option<IpAddr> {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host).parse().ok()
}

/// The host of an entry as it appears in a parsed URL, or the rule that the entry breaks.
fn canonical(entry: &AllowedHost) -> Result<String, &'static str> {
    let (wild, base) = match entry.host.strip_prefix("*.") {
        Some(base) => (true, base),
        None => (false, entry.host.as_str()),
    };
    // An IPv6 address may be written in any form, with or without brackets: it can't be mistaken for a name.
    let v6 = literal(base).is_some_and(|address| address.is_ipv6());
    let url = match base.parse::<Ipv6Addr>() {
        Ok(_) => Url::parse(&format!("https://[{base}]/")),
        Err(_) => Url::parse(&format!("https://{base}/")),
    };
    let url = url.map_err(|_| "it is not a host name or address")?;
    let host = url.host_str().unwrap_or_default().to_owned();
    if base.contains('*') {
        return Err("`*` stands only at the start, as `*.`");
    }
    if (!v6 && host != base) || url.as_str() != format!("https://{host}/") {
        return Err("a host is written in lower case, in its plain form and without a port");
    }
    let base = host;
    if entry.port == Some(0) {
        return Err("0 is not a port");
    }
    if wild && (literal(&base).is_some() || !base.contains('.')) {
        return Err("`*.` needs a domain of at least two parts after it");
    }
    if wild && (entry.allow_http || entry.allow_private) {
        return Err("`*.` can't be combined with `allow_http` or `allow_private`");
    }
    if entry.allow_http && !entry.allow_private {
        return Err("`allow_http` is for loopback only and needs `allow_private`");
    }
    Ok(if wild { format!("*.{base}") } else { base })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(host: &str) -> AllowedHost {
        AllowedHost { host: host.into(), port: None, allow_http: false, allow_private: false }
    }

    fn policy(entries: &[AllowedHost]) -> Result<Policy, VaultConfigError> {
        Policy::new(&LaneName::new("lane").unwrap(), entries)
    }

    #[test]
    fn names_below_a_wildcard_are_allowed_and_no_others() {
        let policy = policy(&[entry("*.assets.example.com"), entry("cdn.example.com")]).unwrap();
        let check = |url: &str| policy.check(&Url::parse(url).unwrap());
        for good in [
            "https://a.assets.example.com/x?y#z",
            "https://a.b.assets.example.com:443/",
            "https://CDN.example.com/",
            "https://cdn.example.com/a@b:c",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "https://assets.example.com/",
            "https://.assets.example.com/",
            "https://xassets.example.com/",
            "https://a.assets.example.com.evil.example/",
            "https://cdn.example.com./",
        ] {
            assert_eq!(check(bad), Err(Blocked::Host), "{bad}");
        }
        assert_eq!(check("https://cdn.example.com:444/"), Err(Blocked::Port));
        assert_eq!(check("http://cdn.example.com/"), Err(Blocked::Scheme));
    }

    #[test]
    fn a_port_is_allowed_only_as_listed() {
        let with_port = AllowedHost { port: Some(8443), ..entry("cdn.example.com") };
        let policy = policy(&[with_port]).unwrap();
        let check = |url: &str| policy.check(&Url::parse(url).unwrap());
        assert_eq!(check("https://cdn.example.com:8443/"), Ok(()));
        assert_eq!(check("https://cdn.example.com/"), Err(Blocked::Port));
    }

    #[test]
    fn plain_http_dials_loopback_only() {
        let local = AllowedHost { allow_http: true, allow_private: true, ..entry("sandbox") };
        let policy = policy(&[local]).unwrap();
        let check = |address: &str| policy.check_address("sandbox", address.parse().unwrap());
        assert_eq!(check("127.0.0.1"), Ok(()));
        assert_eq!(check("::1"), Ok(()));
        for bad in ["10.0.0.1", "8.8.8.8", "169.254.169.254", "fc00::1"] {
            assert!(matches!(check(bad), Err(Blocked::Address(_))), "{bad}");
        }
    }

    #[test]
    fn entries_that_could_surprise_are_refused() {
        for host in [
            "",
            "CDN.example.com",
            "cdn.example.com:443",
            "cdn.example.com/x",
            "user@cdn.example.com",
            "2130706433",
            "127.1",
            "*.com",
            "*.127.0.0.1",
            "*",
            "*cdn.example.com",
            "a b",
            "https://cdn.example.com",
        ] {
            assert!(policy(&[entry(host)]).is_err(), "{host}");
        }
        for host in ["cdn.example.com", "127.0.0.1", "::1", "[::1]", "*.example.com", "xn--bcher-kva.example"]
        {
            assert!(policy(&[entry(host)]).is_ok(), "{host}");
        }
        assert!(policy(&[AllowedHost { allow_http: true, ..entry("localhost") }]).is_err());
        assert!(policy(&[AllowedHost { allow_private: true, ..entry("*.example.com") }]).is_err());
        assert!(policy(&[AllowedHost { port: Some(0), ..entry("localhost") }]).is_err());
        let other = AllowedHost { port: Some(8443), allow_private: true, ..entry("cdn.example.com") };
        assert!(policy(&[entry("cdn.example.com"), other]).is_err());
    }
}
