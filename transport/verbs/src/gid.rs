//! Global identifiers (GIDs): the addresses of a port.

use core::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The network protocol of a GID's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GidType {
    /// InfiniBand: a subnet's prefix and the port's GUID.
    InfiniBand,
    /// RoCE v1: Ethernet frames of their own type, which routers do not forward.
    RoceV1,
    /// RoCE v2: UDP over IPv4 or IPv6, port 4791.
    RoceV2,
    /// The kernel does not report the type.
    Unknown,
}

impl fmt::Display for GidType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::InfiniBand => "InfiniBand",
            Self::RoceV1 => "RoCE v1",
            Self::RoceV2 => "RoCE v2",
            Self::Unknown => "unknown",
        })
    }
}

/// One entry of a port's table of GIDs that is not empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Gid {
    /// The index in the table, which queue pairs use.
    pub index: u8,
    /// The identifier, in network byte order.
    pub bytes: [u8; 16],
    /// The protocol of its packets.
    pub kind: GidType,
    /// The network interface of the GID; `None` on InfiniBand.
    pub interface: Option<String>,
    /// Whether its address belongs to this network namespace; always true on InfiniBand. A
    /// container may see the GIDs of its host, but cannot use them.
    pub is_here: bool,
}

/// The kind of a RoCE v2 GID's address, which determines what it reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reach {
    /// An IPv4 address of the interface, as `::ffff:a.b.c.d`.
    Ipv4,
    /// An IPv6 address of the interface.
    Ipv6,
    /// A link-local address of IPv6 or IPv4; routers do not forward its packets.
    LinkLocal,
}

impl Gid {
    /// The identifier as an IPv6 address, since it has the same form.
    pub fn ipv6(&self) -> Ipv6Addr {
        Ipv6Addr::from(self.bytes)
    }

    /// The IPv4 address that the GID contains, if there is one.
    pub fn ipv4(&self) -> Option<Ipv4Addr> {
        self.ipv6().to_ipv4_mapped()
    }

    /// The kind of its address.
    pub fn reach(&self) -> Reach {
        Address(self.bytes).reach()
    }
}

/// Shows the IPv4 address that the GID contains, else the IPv6 address.
impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Address(self.bytes).fmt(f)
    }
}

/// A GID without its index.
pub(crate) struct Address(pub(crate) [u8; 16]);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from(self.0);
        match address.to_ipv4_mapped() {
            Some(address) => address.fmt(f),
            None => address.fmt(f),
        }
    }
}

impl Address {
    pub(crate) fn reach(&self) -> Reach {
        let address = Ipv6Addr::from(self.0);
        match address.to_ipv4_mapped() {
            Some(address) if !address.is_link_local() => Reach::Ipv4,
            None if !address.is_unicast_link_local() => Reach::Ipv6,
            _ => Reach::LinkLocal,
        }
    }
}
