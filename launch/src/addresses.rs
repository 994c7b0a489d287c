//! The addresses of this host, by which others may reach it.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Lists them, the loopback's last. Empty lists only where `/proc` is missing.
pub fn of_this_host() -> Vec<IpAddr> {
    let trie = fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let six = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let four = of_trie(&trie).into_iter().map(IpAddr::V4);
    let mut all: Vec<IpAddr> = four.chain(of_interfaces(&six).map(IpAddr::V6)).collect();
    all.sort_by_key(IpAddr::is_loopback);
    all
}

/// `/proc/net/fib_trie`: a local address is a line `|-- ADDRESS`, and one below it
/// says `/32 host LOCAL`.
fn of_trie(text: &str) -> Vec<Ipv4Addr> {
    let mut found: Vec<Ipv4Addr> = Vec::new();
    let mut last = None;
    for line in text.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(last.filter(|address| !found.contains(address)));
        }
    }
    found
}

/// `/proc/net/if_inet6`: 32 digits, the interface, prefix length, scope, flags, name.
/// Link-local addresses (scope 20) mean nothing without an interface.
fn of_interfaces(text: &str) -> impl Iterator<Item = Ipv6Addr> {
    text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let digits = words.next()?;
        let is_wide = words.nth(2)? != "20";
        let bits = u128::from_str_radix(digits, 16).ok();
        bits.filter(|_| is_wide).map(Ipv6Addr::from_bits)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_are_found_once_and_loopback_is_last() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n\
                    \x20    |-- 10.1.0.0\n        /16 link UNICAST\n     |-- 10.1.0.7\n\
                    \x20       /32 host LOCAL\n     |-- 10.1.255.255\n        /32 link BROADCAST\n\
                    Local:\n     |-- 10.1.0.7\n        /32 host LOCAL\n     |-- 127.0.0.1\n\
                    \x20       /32 host LOCAL\n";
        let found = of_trie(trie);
        assert_eq!(found, [Ipv4Addr::new(10, 1, 0, 7), Ipv4Addr::LOCALHOST]);
        let six = "fe800000000000000000000000000001 02 40 20 80 eth0\n\
                   20010db8000000000000000000000007 02 40 00 80 eth0\nrubbish\n";
        let found: Vec<Ipv6Addr> = of_interfaces(six).collect();
        assert_eq!(found, ["2001:db8::7".parse::<Ipv6Addr>().unwrap()]);
        let here = of_this_host();
        assert!(here.is_sorted_by_key(IpAddr::is_loopback), "{here:?}");
    }
}
