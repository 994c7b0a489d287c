//! The RDMA devices that libibverbs finds, and what their memory lock means for a
//! job.

pub use refrain_verbs::{
    Chosen, Device, DeviceLimits, Gid, GidType, LinkLayer, MemoryLock, Port, PortChoice, PortState,
    Reach, Transport, choose,
};

use refrain_verbs::Library;
use std::path::Path;

/// Inline data beyond this is of no use to the fabric.
const INLINE_BYTES_ASKED: u32 = 1024;

/// What libibverbs finds on this machine.
#[derive(Clone, Debug)]
pub struct Ports {
    library: Library,
    /// The devices, in the order in which they are chosen.
    pub devices: Vec<Device>,
}

impl Ports {
    /// Loads libibverbs, from that file or as the loader finds it, and asks every
    /// device; takes some milliseconds for each.
    ///
    /// # Errors
    /// One line: why there are none, and what to do.
    pub fn find(library: Option<&Path>) -> Result<Self, String> {
        let library = Library::load(library).map_err(|error| error.to_string())?;
        let devices = library.devices().map_err(|error| error.to_string())?;
        Ok(Self { library, devices })
    }

    /// Bytes that a queue pair of the device takes along in a work request.
    ///
    /// # Errors
    /// One line: why it is not known.
    pub fn inline_bytes(&self, device: &str) -> Result<u32, String> {
        self.library
            .inline_bytes(device, INLINE_BYTES_ASKED)
            .map_err(|error| error.to_string())
    }
}

/// Log memory of a rank alone on this machine where none is given, in bytes: what
/// a NIC must be allowed to lock, and some MiB more.
pub fn default_log_bytes() -> u64 {
    crate::world::default_log_bytes(1)
}
