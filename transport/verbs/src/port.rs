//! One port of a device.

use crate::gid::Gid;
use core::fmt;

/// The logical state of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PortState {
    /// There is no link.
    Down,
    /// There is a link, and no subnet manager has configured the port yet.
    Initialising,
    /// The port is configured, but does not carry data yet.
    Armed,
    /// The port carries data.
    Active,
    /// The port was active, and its link is lost temporarily.
    ActiveDeferred,
    /// A number that the interface does not define.
    Unknown(u32),
}

/// The kind of a port's network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkLayer {
    /// InfiniBand: ports are addressed by LIDs, which a subnet manager assigns.
    InfiniBand,
    /// Ethernet (RoCE): ports are addressed by GIDs.
    Ethernet,
    /// The device does not report it.
    Unknown,
}

/// The description of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The number of the port; the first is 1.
    pub number: u8,
    /// The logical state.
    pub state: PortState,
    /// The number of the physical state: see [`Port::physical_state_words`].
    pub physical_state: u8,
    /// The kind of network.
    pub link_layer: LinkLayer,
    /// Largest possible payload of a packet, in bytes.
    pub mtu_max_bytes: u32,
    /// Largest payload of a packet as configured now, in bytes. It depends on the network interface
    /// on Ethernet, and on the subnet manager on InfiniBand.
    pub mtu_active_bytes: u32,
    /// The longest message, in bytes.
    pub message_max_bytes: u32,
    /// The address within an InfiniBand subnet; 0 on Ethernet.
    pub lid: u16,
    /// The address of the subnet manager; 0 on Ethernet.
    pub subnet_manager_lid: u16,
    /// On InfiniBand: packets must carry a GID (a GRH) even within the subnet, for instance those
    /// of virtual functions.
    pub grh_required: bool,
    /// Entries of the table of partition keys.
    pub partition_keys: u16,
    /// Number of lanes times their speed, in Mbit/s, as the nominal rate (100 Gbit/s is 100 000); 0
    /// if the device does not report it.
    pub speed_mbit_s: u32,
    /// The entries of the table of GIDs that are not empty, by index.
    pub gids: Vec<Gid>,
    /// The network interface of the port: that of its GIDs, or of IP over InfiniBand.
    pub interface: Option<String>,
}

impl Port {
    /// Whether the port carries data.
    pub fn is_active(&self) -> bool {
        self.state == PortState::Active
    }

    /// Whether queue pairs of the port need a GID; always true on Ethernet.
    pub fn needs_gid(&self) -> bool {
        self.link_layer != LinkLayer::InfiniBand || self.grh_required
    }

    /// The entry `index` of the table of GIDs, if it is not empty.
    pub fn gid(&self, index: u8) -> Option<&Gid> {
        self.gids.iter().find(|gid| gid.index == index)
    }

    /// The name of the physical state.
    pub fn physical_state_words(&self) -> &'static str {
        match self.physical_state {
            1 => "sleep",
            2 => "polling",
            3 => "disabled",
            4 => "training",
            5 => "link up",
            6 => "link error recovery",
            7 => "physical test",
            _ => "unknown",
        }
    }
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Down => "DOWN",
            Self::Initialising => "INIT",
            Self::Armed => "ARMED",
            Self::Active => "ACTIVE",
            Self::ActiveDeferred => "ACTIVE_DEFER",
            Self::Unknown(number) => return write!(f, "state {number}"),
        })
    }
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::InfiniBand => "InfiniBand",
            Self::Ethernet => "Ethernet",
            Self::Unknown => "unknown",
        })
    }
}
