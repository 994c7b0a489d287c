//! The RDMA devices that libibverbs finds.

use refrain_verbs::{Device, Library};
use std::path::Path;

/// The fabric uses no more inline data than this.
const INLINE_BYTES_ASKED: u32 = 1024;

/// RDMA devices of this machine, as libibverbs reports them.
#[derive(Clone, Debug)]
pub struct Ports {
    library: Library,
    /// The devices, in the order of preference.
    pub devices: Vec<Device>,
}

impl Ports {
    /// Loads libibverbs (from `library`, or as the loader finds it) and queries every device;
    /// takes some milliseconds per device.
    ///
    /// # Errors
    /// One line: why there are no devices, and what to do.
    pub fn find(library: Option<&Path>) -> Result<Self, String> {
        let library = Library::load(library).map_err(|error| error.to_string())?;
        let devices = library.devices().map_err(|error| error.to_string())?;
        Ok(Self { library, devices })
    }

    /// Bytes that a queue pair of the device can send inline in a work request.
    ///
    /// # Errors
    /// One line: why the number is not known.
    pub fn inline_bytes(&self, device: &str) -> Result<u32, String> {
        self.library
            .inline_bytes(device, INLINE_BYTES_ASKED)
            .map_err(|error| error.to_string())
    }
}
