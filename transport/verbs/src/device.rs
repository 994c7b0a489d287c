//! The devices of a machine: what they are and what they can do.

use crate::error::Error;
use crate::port::Port;

/// The protocol of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Transport {
    /// InfiniBand's, also over Ethernet (RoCE).
    InfiniBand,
    /// iWARP, over TCP: its queue pairs need the RDMA connection manager.
    Iwarp,
    /// A protocol of its maker.
    #[default]
    Other,
}

/// A device as it was found: plain data, nothing is open.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Device {
    /// As in `/sys/class/infiniband`.
    pub name: String,
    /// Its protocol.
    pub transport: Transport,
    /// Globally unique, of the device.
    pub node_guid: u64,
    /// Globally unique, of what several devices may be part of.
    pub system_guid: u64,
    /// The maker's number.
    pub vendor_id: u32,
    /// The maker's number of the part.
    pub vendor_part_id: u32,
    /// The revision of the part.
    pub hardware_version: u32,
    /// The version of its firmware, as the maker writes it; may be empty.
    pub firmware: String,
    /// Its limits; all 0 if it cannot be opened.
    pub limits: DeviceLimits,
    /// Its ports; none if it cannot be opened.
    pub ports: Vec<Port>,
    /// Why it cannot be opened, and what to do.
    pub refusal: Option<Error>,
}

/// The limits of a device. That a number is below a limit does not mean
/// that there is memory for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceLimits {
    /// Queue pairs.
    pub queue_pairs: u32,
    /// Work requests of one queue of a queue pair.
    pub work_requests: u32,
    /// Pieces of memory of one work request.
    pub pieces: u32,
    /// Completion queues.
    pub completion_queues: u32,
    /// Entries of a completion queue.
    pub completions: u32,
    /// Shared receive queues; 0: it has none.
    pub shared_queues: u32,
    /// Work requests of a shared receive queue.
    pub shared_requests: u32,
    /// Pieces of memory of one of those.
    pub shared_pieces: u32,
    /// Registrations of memory.
    pub registrations: u32,
    /// Bytes of one registration.
    pub registration_bytes: u64,
    /// Address handles.
    pub address_handles: u32,
    /// Reads that one queue pair answers at a time (`max_qp_rd_atom`).
    pub reads_answered: u8,
    /// Reads that one queue pair may have begun (`max_qp_init_rd_atom`).
    pub reads_begun: u8,
}

impl Device {
    /// The port of that number.
    pub fn port(&self, number: u8) -> Option<&Port> {
        self.ports.iter().find(|port| port.number == number)
    }
}
