//! The RDMA devices that libibverbs finds.

use refrain_verbs::{Device, Library};
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
