//! Which device, port, GID and packet size are used.

use crate::{Device, DeviceLimits, Error, LinkLayer};
use core::fmt;

/// What is wanted of the choice; the default leaves all to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct PortChoice {
    /// A device by name.
    pub device: Option<String>,
    /// One of its ports; the first is 1.
    pub port: Option<u8>,
    /// An entry of the port's table of GIDs. On InfiniBand: use a GID (a GRH) at
    /// all, as between subnets.
    pub gid_index: Option<u8>,
    /// Bytes that a packet carries: 256, 512, 1024, 2048 or 4096.
    pub mtu_bytes: Option<u32>,
}

/// What was chosen, with all that opening it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The device's name.
    pub device: String,
    /// The port's number.
    pub port: u8,
    /// The network it is on.
    pub link_layer: LinkLayer,
    /// The GID that packets carry, by its index; none on InfiniBand within a
    /// subnet: no GRH then.
    pub gid_index: Option<u8>,
    /// That GID, or on InfiniBand the first of the table; in the order of bytes on
    /// the wire.
    pub gid: [u8; 16],
    /// The port's address in its InfiniBand subnet; 0 on Ethernet.
    pub lid: u16,
    /// Bytes that a packet carries at most, of those that a queue pair can be told:
    /// 256, 512, 1024, 2048 or 4096.
    pub mtu_bytes: u32,
    /// Bytes of the longest message.
    pub message_max_bytes: u32,
    /// The network interface, if one is known.
    pub interface: Option<String>,
    /// What the device can do at most.
    pub limits: DeviceLimits,
}

/// Chooses a port, and on it a GID and a packet size.
///
/// # Errors
/// Nothing fits; the error names everything there is and the remedy.
pub fn choose(devices: &[Device], wanted: &PortChoice) -> Result<Chosen, Error> {
    let _ = (devices, wanted);
    todo!()
}

/// For people: `rxe0:1 (Ethernet, GID 1 192.168.1.4, MTU 1024)`.
impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.device, self.port)
    }
}
