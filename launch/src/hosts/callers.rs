//! A door for agents, and connections whose agents are not known yet.

use super::message::{AGENT, FromAgent};
use refrain_wire::{Connection, Door, Secret};
use rustix::event::PollFlags;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Instant;
use std::{fs, io};

/// See the [module](self).
#[derive(Debug)]
pub struct Callers {
    door: Door,
    /// Authenticated connections without their first message.
    unnamed: Vec<Connection>,
}

impl Callers {
    /// Listens on all addresses of this host. Also returns the port.
    ///
    /// # Errors
    /// Of the system.
    pub fn open(secret: Secret) -> io::Result<(Self, u16)> {
        let (door, port) = Door::open(secret, &AGENT)?;
        let unnamed = Vec::new();
        Ok((Self { door, unnamed }, port))
    }

    /// The first messages that have arrived. An agent whose connection was closed may connect again.
    pub fn step(&mut self) -> Vec<(Connection, FromAgent)> {
        self.unnamed.extend(self.door.step(Instant::now()));
        let mut named = Vec::new();
        for mut wire in std::mem::take(&mut self.unnamed) {
            let received = wire.receive();
            match wire.next_message() {
                Ok(Some(first)) => named.push((wire, first)),
                Ok(None) if received.is_ok() => self.unnamed.push(wire),
                _ => {}
            }
        }
        named
    }

    /// When to step even if no descriptor is ready.
    pub fn deadline(&self) -> Option<Instant> {
        self.door.deadline()
    }

    /// The descriptors to poll.
    pub fn interests(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let unnamed = self.unnamed.iter();
        let unnamed = unnamed.map(|wire| (wire.as_fd(), wire.interest()));
        std::iter::once((self.door.as_fd(), PollFlags::IN)).chain(unnamed)
    }

    /// The error of the last attempt to accept a connection.
    pub fn trouble(&self) -> Option<&io::Error> {
        self.door.trouble()
    }
}

/// The addresses of this host, those of the loopback last. Empty only if `/proc` is missing.
pub fn addresses_of_this_host() -> Vec<IpAddr> {
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
/// Link-local addresses (scope 20) are useless without an interface.
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
        let here = addresses_of_this_host();
        assert!(here.is_sorted_by_key(IpAddr::is_loopback), "{here:?}");
    }
}
