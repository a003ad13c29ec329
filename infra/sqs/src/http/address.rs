//! Queue URLs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::error::SqsError;

/// The account of every queue.
const ACCOUNT: &str = "000000000000";

/// The URL of a queue on a server at this address: `http://127.0.0.1:PORT/000000000000/NAME`. For a server that listens
/// on all addresses it is the loopback one.
#[must_use]
pub fn queue_url(address: SocketAddr, queue: &str) -> String {
    let ip = match address {
        _ if !address.ip().is_unspecified() => address.ip(),
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    format!("http://{}/{ACCOUNT}/{queue}", SocketAddr::new(ip, address.port()))
}

/// The queue of a URL. Scheme, host and port don't matter: clients reach the server under many names.
pub(super) fn queue_of_url(url: &str) -> Result<String, SqsError> {
    let invalid = || SqsError::InvalidAddress { address: url.chars().take(256).collect() };
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")).ok_or_else(invalid)?;
    let (_host, path) = rest.split_once('/').ok_or_else(invalid)?;
    match path.split('/').collect::<Vec<_>>().as_slice() {
        [account, queue] if *account == ACCOUNT && !queue.is_empty() => Ok((*queue).to_owned()),
        [_, queue] if !queue.is_empty() => Err(SqsError::QueueDoesNotExist { queue: (*queue).to_owned() }),
        _ => Err(invalid()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lead_back_to_their_queue() {
        let url = queue_url("127.0.0.1:4100".parse().unwrap(), "render.fifo");
        assert_eq!(url, "http://127.0.0.1:4100/000000000000/render.fifo");
        assert_eq!(queue_of_url(&url).unwrap(), "render.fifo");
        assert_eq!(queue_url("0.0.0.0:1".parse().unwrap(), "q"), "http://127.0.0.1:1/000000000000/q");
        assert_eq!(queue_url("[::]:1".parse().unwrap(), "q"), "http://[::1]:1/000000000000/q");
        assert_eq!(queue_of_url("https://sqs.us-east-1.amazonaws.com/000000000000/q").unwrap(), "q");
        let other = queue_of_url("http://h/123456789012/q");
        assert_eq!(other, Err(SqsError::QueueDoesNotExist { queue: "q".to_owned() }));
        for bad in [
            "",
            "q",
            "http://h",
            "http://h/",
            "http://h/000000000000/",
            "http://h/000000000000/q/x",
            "ftp://h/a/b",
        ] {
            assert!(matches!(queue_of_url(bad), Err(SqsError::InvalidAddress { .. })), "{bad}");
        }
    }
}
