//! Name resolution that lets only allowed addresses through. It runs whenever a connection is opened, so a name that
//! changes its address between the check and the connection gains nothing.

use crate::policy::{Blocked, Policy};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

/// Looks up the addresses of a host name.
type Lookup = Arc<dyn Fn(String) -> Answers + Send + Sync>;
type Answers = Pin<Box<dyn Future<Output = std::io::Result<Vec<IpAddr>>> + Send>>;

/// The resolver of one lane.
pub(crate) struct Resolver {
    policy: Arc<Policy>,
    lookup: Lookup,
}

impl Resolver {
    /// A resolver that asks the system.
    pub(crate) fn new(policy: Arc<Policy>) -> Self {
        Self { policy, lookup: Arc::new(|host| Box::pin(system(host))) }
    }
}

async fn system(host: String) -> std::io::Result<Vec<IpAddr>> {
    // Port 0 stands for the URL's own, which the connector puts in its place.
    Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (policy, lookup) = (Arc::clone(&self.policy), Arc::clone(&self.lookup));
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let answers = lookup(host.clone()).await?;
            let mut allowed: Vec<SocketAddr> = Vec::new();
            let mut blocked = None;
            for address in answers {
                match policy.check_address(&host, address) {
                    Ok(()) => allowed.push(SocketAddr::new(address, 0)),
                    Err(why) => blocked = Some(why),
                }
            }
            match blocked {
                Some(why) if allowed.is_empty() => Err(why.into()),
                Some(_) | None => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

/// The refusal within an error of the HTTP client, if a refused address was its cause.
pub(crate) fn blocked_within(error: &(dyn std::error::Error + 'static)) -> Option<Blocked> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(blocked) = error.downcast_ref::<Blocked>() {
            return Some(blocked.clone());
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AllowedHost;
    use glassline_protocol::ids::LaneName;

    async fn dialled(allow_private: bool, answers: &[&str]) -> Result<Vec<String>, Blocked> {
        let entry =
            AllowedHost { host: "cdn.example.com".into(), port: None, allow_http: false, allow_private };
        let policy = Policy::new(&LaneName::new("lane").unwrap(), &[entry]).unwrap();
        let answers: Vec<IpAddr> = answers.iter().map(|text| text.parse().unwrap()).collect();
        let lookup: Lookup = Arc::new(move |_| {
            let answers = answers.clone();
            Box::pin(async move { Ok(answers) })
        });
        let resolver = Resolver { policy: Arc::new(policy), lookup };
        match resolver.resolve("cdn.example.com".parse().unwrap()).await {
            Ok(addresses) => Ok(addresses.map(|address| address.ip().to_string()).collect()),
            Err(error) => Err(blocked_within(error.as_ref()).unwrap()),
        }
    }

    #[tokio::test]
    async fn only_allowed_addresses_come_out() {
        assert_eq!(dialled(false, &["8.8.8.8"]).await.unwrap(), ["8.8.8.8"]);
        assert_eq!(dialled(false, &["10.0.0.1", "8.8.8.8", "::1"]).await.unwrap(), ["8.8.8.8"]);
        assert_eq!(dialled(true, &["10.0.0.1", "169.254.169.254"]).await.unwrap(), ["10.0.0.1"]);
        assert!(dialled(false, &[]).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_name_that_changes_its_address_gains_nothing() {
        let entry = AllowedHost {
            host: "cdn.example.com".into(),
            port: None,
            allow_http: false,
            allow_private: false,
        };
        let policy = Policy::new(&LaneName::new("lane").unwrap(), &[entry]).unwrap();
        let asked = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let counted = Arc::clone(&asked);
        let lookup: Lookup = Arc::new(move |_| {
            // Public when it is looked at first, inside ever after.
            let first = counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
            let answer = if first { "8.8.8.8" } else { "169.254.169.254" };
            Box::pin(async move { Ok(vec![answer.parse().unwrap()]) })
        });
        let resolver = Resolver { policy: Arc::new(policy), lookup };
        assert!(resolver.resolve("cdn.example.com".parse().unwrap()).await.is_ok());
        let Err(error) = resolver.resolve("cdn.example.com".parse().unwrap()).await else {
            panic!("each connection resolves anew and is judged anew")
        };
        assert!(matches!(blocked_within(error.as_ref()), Some(Blocked::Address(_))));
        assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_name_that_leads_only_inside_is_refused() {
        for inside in [
            "127.0.0.1",
            "10.1.2.3",
            "169.254.169.254",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "0.0.0.0",
            "fd00:ec2::254",
            "fe80::1",
            "100.64.1.1",
        ] {
            assert!(matches!(dialled(false, &[inside]).await, Err(Blocked::Address(_))), "{inside}");
        }
        for never in ["169.254.169.254", "fd00:ec2::254", "0.0.0.0", "::ffff:10.0.0.1"] {
            assert!(matches!(dialled(true, &[never]).await, Err(Blocked::Address(_))), "{never}");
        }
    }
}
