//! Checks of operations on peers' memory, and the memory for reading writes back.

use super::Open;
use super::device::Device;
use super::message::too_long;
use super::registration::Registration;
use crate::sys::types::ibv_sge;
use crate::{Access, Error, Refused};
use refrain_ring::Region;

/// Number of bytes at the end of a write that are read back.
const READ_BACK_BYTES: usize = 8;

impl Open {
    #[inline]
    pub(super) fn length(&self, bytes: usize) -> Result<u32, Refused> {
        match u32::try_from(bytes) {
            Ok(length) if bytes <= self.message_bytes => Ok(length),
            _ => Err(too_long(bytes, self.message_bytes)),
        }
    }
}

#[inline]
pub(super) fn remote_key(key: u64) -> Result<u32, Refused> {
    u32::try_from(key).map_err(|_| no_key(key))
}

#[cold]
fn no_key(key: u64) -> Refused {
    Error::invalid(
        "start an operation",
        format!("{key:#x} is no key of verbs, which have 32 bits"),
    )
    .into()
}

/// Memory into which the ends of writes are read; it has no other use.
pub(super) struct ReadBack {
    memory: Registration,
}

impl ReadBack {
    pub(super) fn new(device: &Device) -> Result<Self, Error> {
        let region = Region::heap(READ_BACK_BYTES);
        let library = device.library();
        let access = Access::LOCAL;
        let memory = Registration::new(library, &device.domain, &region, access)?;
        Ok(Self { memory })
    }

    /// The piece for the end of a write of `bytes` bytes.
    #[inline]
    pub(super) fn piece(&self, bytes: usize) -> ibv_sge {
        ibv_sge {
            addr: self.memory.address(0),
            length: bytes.min(READ_BACK_BYTES) as u32,
            lkey: self.memory.local_key(),
        }
    }

    pub(super) fn close(self) -> Result<(), Error> {
        self.memory.close()
    }
}
