//! Which addresses a request may go to.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// A range of addresses, such as `10.0.0.0/8`; a single address is a range of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    first: IpAddr,
    prefix: u8,
}

impl Range {
    const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Self {
        let first = IpAddr::V4(Ipv4Addr::new(a, b, c, d));
        Self { first, prefix }
    }

    const fn v6(a: u16, b: u16, c: u16, prefix: u8) -> Self {
        let first = IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0));
        Self { first, prefix }
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let (mine, other, unused) = match (self.first, address) {
            (IpAddr::V4(mine), IpAddr::V4(other)) => (
                u128::from(mine.to_bits()),
                u128::from(other.to_bits()),
                32 - self.prefix,
            ),
            (IpAddr::V6(mine), IpAddr::V6(other)) => {
                (mine.to_bits(), other.to_bits(), 128 - self.prefix)
            }
            _ => return false,
        };
        (mine ^ other).checked_shr(u32::from(unused)).unwrap_or(0) == 0
    }
}

impl FromStr for Range {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address = address.trim_start_matches('[').trim_end_matches(']');
        let first: IpAddr = address.parse().map_err(|_| "is not an address")?;
        let longest = if first.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix.map(str::parse::<u8>) {
            None => longest,
            Some(Ok(prefix)) if prefix <= longest => prefix,
            Some(_) => return Err("has a prefix that is too long or not a number"),
        };
        Ok(Self { first, prefix })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

/// What is not the public internet, and why it is not.
const NOT_PUBLIC: &[(Range, &str)] = &[
    (Range::v4(0, 0, 0, 0, 8), "this network"),
    (Range::v4(10, 0, 0, 0, 8), "private"),
    (Range::v4(100, 64, 0, 0, 10), "shared by a carrier"),
    (Range::v4(127, 0, 0, 0, 8), "loopback"),
    (Range::v4(168, 63, 129, 16, 32), "a cloud's own services"),
    (
        Range::v4(169, 254, 0, 0, 16),
        "link-local or cloud metadata",
    ),
    (Range::v4(172, 16, 0, 0, 12), "private"),
    (Range::v4(192, 0, 0, 0, 24), "reserved for protocols"),
    (Range::v4(192, 0, 2, 0, 24), "for documentation"),
    (Range::v4(192, 88, 99, 0, 24), "a 6to4 relay"),
    (Range::v4(192, 168, 0, 0, 16), "private"),
    (Range::v4(198, 18, 0, 0, 15), "for benchmarks"),
    (Range::v4(198, 51, 100, 0, 24), "for documentation"),
    (Range::v4(203, 0, 113, 0, 24), "for documentation"),
    (Range::v4(224, 0, 0, 0, 4), "multicast"),
    (Range::v4(240, 0, 0, 0, 4), "reserved or broadcast"),
    (
        Range::v6(0x2001, 0, 0, 23),
        "reserved for protocols or Teredo",
    ),
    (Range::v6(0x2001, 0xdb8, 0, 32), "for documentation"),
    (Range::v6(0x2002, 0, 0, 16), "6to4"),
    (Range::v6(0x3fff, 0, 0, 20), "for documentation"),
];

/// All of IPv6 that is public lies in here.
const GLOBAL_UNICAST: Range = Range::v6(0x2000, 0, 0, 3);

/// Addresses of IPv4 as a NAT64 gateway spells them.
const NAT64: Range = Range::v6(0x64, 0xff9b, 0, 96);

/// The address that is really meant: IPv4 may be spelt as IPv6 in more than one way.
pub(super) fn meant(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if NAT64.contains(IpAddr::V6(v6)) => {
            IpAddr::V4(Ipv4Addr::from_bits(v6.to_bits() as u32))
        }
        canonical => canonical,
    }
}

/// Why an address is not a public one, if it is not.
pub(super) fn not_public(address: IpAddr) -> Option<&'static str> {
    let address = meant(address);
    if let Some((_, why)) = NOT_PUBLIC.iter().find(|(range, _)| range.contains(address)) {
        return Some(why);
    }
    let is_public = address.is_ipv4() || GLOBAL_UNICAST.contains(address);
    (!is_public).then_some("loopback, private, link-local, multicast or reserved")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        let blocked = "0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 127.0.0.1 \
            127.255.255.254 168.63.129.16 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.192 \
            192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9 \
            224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 :: ::1 ::127.0.0.1 \
            ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:0:127.0.0.1 \
            64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::808:808 100::1 2001::1 2001:0:a00:1:: \
            2001:10::1 2001:db8::1 2002:7f00:1:: 2002:808:808::1 3fff::1 5f00::1 fc00::1 \
            fd00:ec2::254 fe80::1 fec0::1 ff02::1 ff0e::1 4000::1";
        for address in blocked.split_whitespace() {
            assert!(not_public(address.parse().unwrap()).is_some(), "{address}");
        }
        let public = "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 \
            128.0.0.1 168.63.129.15 169.253.255.255 172.15.255.255 172.32.0.0 192.0.1.1 \
            192.167.255.255 198.17.255.255 198.20.0.0 223.255.255.255 2001:200::1 \
            2001:4860:4860::8888 2003::1 2606:4700::1111 2a00::1 ::ffff:8.8.8.8 64:ff9b::808:808";
        for address in public.split_whitespace() {
            assert_eq!(not_public(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn a_range_contains_its_ends_and_no_more() {
        let range: Range = "10.1.0.0/16".parse().unwrap();
        for (address, inside) in [
            ("10.1.0.0", true),
            ("10.1.255.255", true),
            ("10.0.255.255", false),
            ("10.2.0.0", false),
            ("::a01:0", false),
        ] {
            assert_eq!(
                range.contains(address.parse().unwrap()),
                inside,
                "{address}"
            );
        }
        let all: Range = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("255.1.2.3".parse().unwrap()));
        let all: Range = "::/0".parse().unwrap();
        assert!(all.contains("ff02::1".parse().unwrap()));
        let one: Range = "[::1]".parse().unwrap();
        assert!(one.contains("::1".parse().unwrap()) && !one.contains("::2".parse().unwrap()));
        for bad in [
            "",
            "10.0.0.0/33",
            "10.0.0/8",
            "::/129",
            "10.0.0.0/x",
            "10.0.0.0/-1",
        ] {
            assert!(bad.parse::<Range>().is_err(), "{bad}");
        }
    }
}
