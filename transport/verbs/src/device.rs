//! The devices of a machine and their properties.

use crate::error::Error;
use crate::port::Port;

/// The transport protocol of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Transport {
    /// InfiniBand's protocol, also over Ethernet (RoCE).
    InfiniBand,
    /// iWARP, over TCP: its queue pairs need the RDMA connection manager.
    Iwarp,
    /// A protocol of the vendor.
    #[default]
    Other,
}

/// The description of a device; nothing is open.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Device {
    /// The name in `/sys/class/infiniband`.
    pub name: String,
    /// The transport protocol.
    pub transport: Transport,
    /// The globally unique id of the device.
    pub node_guid: u64,
    /// The globally unique id of the system that the device is part of.
    pub system_guid: u64,
    /// The vendor's id.
    pub vendor_id: u32,
    /// The vendor's id of the part.
    pub vendor_part_id: u32,
    /// The revision of the part.
    pub hardware_version: u32,
    /// The version of the firmware, as the vendor writes it; may be empty.
    pub firmware: String,
    /// The limits; all 0 if the device cannot be opened.
    pub limits: DeviceLimits,
    /// The ports; empty if the device cannot be opened.
    pub ports: Vec<Port>,
    /// The error when the device was opened, with the remedy.
    pub refusal: Option<Error>,
}

/// The limits of a device. Memory may limit a number further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceLimits {
    /// Number of queue pairs.
    pub queue_pairs: u32,
    /// Work requests of one queue of a queue pair.
    pub work_requests: u32,
    /// Memory ranges of one work request.
    pub pieces: u32,
    /// Number of completion queues.
    pub completion_queues: u32,
    /// Entries of a completion queue.
    pub completions: u32,
    /// Number of shared receive queues; 0: the device does not support them.
    pub shared_queues: u32,
    /// Work requests of a shared receive queue.
    pub shared_requests: u32,
    /// Memory ranges of one such request.
    pub shared_pieces: u32,
    /// Number of memory registrations.
    pub registrations: u32,
    /// Bytes of one registration.
    pub registration_bytes: u64,
    /// Number of address handles.
    pub address_handles: u32,
    /// Reads that one queue pair serves at a time (`max_qp_rd_atom`).
    pub reads_answered: u8,
    /// Reads that one queue pair may have in progress (`max_qp_init_rd_atom`).
    pub reads_begun: u8,
}

impl Device {
    /// The port with that number.
    pub fn port(&self, number: u8) -> Option<&Port> {
        self.ports.iter().find(|port| port.number == number)
    }
}
