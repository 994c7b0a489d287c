//! What belongs to this network namespace: the kernel shows all GIDs of a device
//! to each one that shares it.

use crate::gid::{Gid, Reach};
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};
use std::net::{IpAddr, UdpSocket};

/// Whether a GID on Ethernet is of this namespace: its interface is here, and so is
/// its address. Link-local ones are made of the interface's hardware address, also
/// where IPv6 is off.
pub(crate) fn has(gid: &Gid) -> bool {
    gid.interface.as_deref().is_none_or(has_interface)
        && match (gid.ipv4(), gid.reach()) {
            (Some(address), _) => has_address(address.into()),
            (None, Reach::Ipv6) => has_address(gid.ipv6().into()),
            (None, _) => true,
        }
}

/// Only own addresses can be bound to; in a namespace where not even the loopback
/// interface was ever up, all can.
fn has_address(address: IpAddr) -> bool {
    let refusal = UdpSocket::bind((address, 0)).err();
    !matches!(
        refusal.as_ref().and_then(Errno::from_io_error),
        Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT)
    )
}

/// Not looked up in `/sys`, which shows the namespace that it was mounted in.
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
        // For documentation: nobody has it.
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
