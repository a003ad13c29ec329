//! Which network addresses may be dialled. The ranges are those of the IANA special-purpose registries
//! (<https://www.iana.org/assignments/iana-ipv4-special-registry>,
//! <https://www.iana.org/assignments/iana-ipv6-special-registry>) and the metadata services of the clouds.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The public internet.
    Public,
    /// This machine.
    Loopback,
    /// A private network (RFC 1918, RFC 4193, carrier-grade NAT).
    Private,
    /// Nothing that an output could ever come from; the text names the range.
    Never(&'static str),
}

/// Tells what an address reaches.
pub(crate) fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(v4) => reach_v4(v4),
        IpAddr::V6(v6) => reach_v6(v6),
    }
}

/// IPv4 ranges that are neither public, private nor loopback: (network, prefix length, name).
const V4_NEVER: [(Ipv4Addr, u32, &str); 13] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, "unspecified"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local or metadata"),
    (Ipv4Addr::new(168, 63, 129, 16), 32, "metadata"),
    (Ipv4Addr::new(100, 100, 100, 200), 32, "metadata"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "protocol assignments"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "documentation"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "6to4 relay"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "benchmarking"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved or broadcast"),
    (Ipv4Addr::new(192, 31, 196, 0), 24, "protocol assignments"),
];

/// IPv6 ranges within the global unicast range (2000::/3) that don't reach the public internet themselves or carry an
/// IPv4 address that would have to be judged in its place.
const V6_NEVER: [(Ipv6Addr, u32, &str); 5] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "Teredo or protocol assignments"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "documentation"),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "6to4"),
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48, "protocol assignments"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "documentation"),
];

fn reach_v4(address: Ipv4Addr) -> Reach {
    let within = |network: Ipv4Addr, bits: u32| {
        let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
        address.to_bits() & mask == network.to_bits()
    };
    if let Some((_, _, name)) = V4_NEVER.iter().find(|(network, bits, _)| within(*network, *bits)) {
        return Reach::Never(name);
    }
    if address.is_loopback() {
        return Reach::Loopback;
    }
    if address.is_private() || within(Ipv4Addr::new(100, 64, 0, 0), 10) {
        return Reach::Private;
    }
    Reach::Public
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    let within = |network: Ipv6Addr, bits: u32| {
        let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        address.to_bits() & mask == network.to_bits()
    };
    if address == Ipv6Addr::LOCALHOST {
        return Reach::Loopback;
    }
    if address == Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254) {
        return Reach::Never("metadata");
    }
    if within(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7) {
        return Reach::Private;
    }
    // Everything outside 2000::/3 is unspecified, IPv4-mapped, IPv4-compatible, NAT64, link-local, site-local,
    // multicast or unassigned. An embedded IPv4 address is not judged in its place: no resolver that we use needs to
    // answer with one, so the whole range is refused.
    if !within(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3) {
        return Reach::Never("outside the public IPv6 range");
    }
    match V6_NEVER.iter().find(|(network, bits, _)| within(*network, *bits)) {
        Some((_, _, name)) => Reach::Never(name),
        None => Reach::Public,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Reach {
        reach(text.parse().unwrap())
    }

    #[test]
    fn public_addresses_are_public() {
        for text in [
            "8.8.8.8",
            "1.1.1.1",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "169.253.0.1",
            "168.63.129.17",
            "2606:4700::1111",
            "2a00:1450::1",
            "2001:4860::8888",
        ] {
            assert_eq!(of(text), Reach::Public, "{text}");
        }
    }

    #[test]
    fn own_and_private_networks_are_told_apart() {
        for text in ["127.0.0.1", "127.255.255.254", "::1"] {
            assert_eq!(of(text), Reach::Loopback, "{text}");
        }
        for text in [
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "100.127.255.255",
            "fc00::1",
            "fd12:3456::1",
        ] {
            assert_eq!(of(text), Reach::Private, "{text}");
        }
    }

    #[test]
    fn nothing_else_is_ever_dialled() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "169.254.0.1",
            "168.63.129.16",
            "100.100.100.200",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::808:808",
            "64:ff9b:1::1",
            "2002:7f00:1::1",
            "2001::1",
            "2001:db8::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "fd00:ec2::254",
            "100::1",
            "3fff::1",
            "4000::1",
        ] {
            assert!(matches!(of(text), Reach::Never(_)), "{text}: {:?}", of(text));
        }
    }
}
