//! Checks which GIDs belong to this network namespace: the kernel shows all GIDs of a device in
//! each namespace that shares it.

use crate::gid::{Gid, Reach};
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};
use std::net::{IpAddr, UdpSocket};

/// Whether a GID on Ethernet belongs to this namespace: its interface and its address must be here.
/// Only the interface is checked for link-local GIDs: they are made of the interface's hardware
/// address, even if IPv6 is off.
pub(crate) fn has(gid: &Gid) -> bool {
    gid.interface.as_deref().is_none_or(has_interface)
        && match (gid.ipv4(), gid.reach()) {
            (Some(address), _) => has_address(address.into()),
            (None, Reach::Ipv6) => has_address(gid.ipv6().into()),
            (None, _) => true,
        }
}

/// Only own addresses can be bound to. If not even the loopback interface was ever up in a
/// namespace, all addresses can.
fn has_address(address: IpAddr) -> bool {
    let refusal = UdpSocket::bind((address, 0)).err();
    !matches!(
        refusal.as_ref().and_then(Errno::from_io_error),
        Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT)
    )
}

/// Does not use `/sys`, which shows the namespace in which it was mounted.
fn has_interface(name: &str) -> bool {
    socket(AddressFamily::INET, SocketType::DGRAM, None)
        .is_ok_and(|socket| name_to_index(socket, name).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GidType;
    use std::net::Ipv6Addr;

    fn gid(address: Ipv6Addr, interface: &str) -> Gid {
        Gid {
            index: 0,
            bytes: address.octets(),
            kind: GidType::RoceV2,
            interface: Some(interface.into()),
            is_here: false,
        }
    }

    #[test]
    fn own_addresses_are_told_from_others() {
        let own = "127.0.0.1".parse::<std::net::Ipv4Addr>().unwrap();
        // An address for documentation, which no host has.
        let other = "192.0.2.77".parse::<std::net::Ipv4Addr>().unwrap();
        assert!(has(&gid(own.to_ipv6_mapped(), "lo")));
        assert!(!has(&gid(own.to_ipv6_mapped(), "no-such-if")));
        assert!(!has(&gid(other.to_ipv6_mapped(), "lo")));
        assert!(!has(&gid("2001:db8::77".parse().unwrap(), "lo")));
    }

    #[test]
    fn link_local_ones_are_told_by_their_interface() {
        let address: Ipv6Addr = "fe80::1".parse().unwrap();
        assert!(has(&gid(address, "lo")));
        assert!(!has(&gid(address, "no-such-if")));
    }
}
