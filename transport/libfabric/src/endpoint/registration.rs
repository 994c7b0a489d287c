//! Memory registered with an endpoint.

#![allow(unsafe_code, reason = "registers memory with the provider")]

use super::Endpoint;
use super::objects::Opened;
use crate::constants::*;
use crate::native::check_registered;
use crate::sys::inline;
use crate::sys::objects::fid_mr;
use crate::{Access, Error, Info, MemoryId, Part, RemoteMemory};
use core::ffi::c_void;
use refrain_ring::Region;

pub(super) struct Registration {
    base: *mut u8,
    bytes: usize,
    descriptor: *mut c_void,
    key: u64,
    is_local: bool,
    // None after closing.
    object: Option<Opened<fid_mr>>,
    // Keeps the memory mapped.
    _region: Region,
}

// SAFETY: the memory is the region's, the rest is as for `Objects`.
unsafe impl Send for Registration {}

impl Registration {
    pub(super) fn close(&mut self, info: &Info) -> Result<(), Error> {
        self.object.take().map_or(Ok(()), |object| {
            object.close(info, "give up registered memory")
        })
    }
}

impl Endpoint {
    /// Registers `bytes` bytes of `region` from `offset` on. The region's
    /// memory stays mapped until the endpoint is closed.
    ///
    /// What operations and peers do with the memory follows the discipline of
    /// [`Region`]: the caller sees to it that nobody writes bytes that are
    /// being sent or read, nor reads those that may be received into or written.
    ///
    /// # Errors
    /// Out of bounds, or the provider's: often that less memory may be locked
    /// than is needed (`ulimit -l`).
    pub fn register(
        &mut self,
        region: &Region,
        offset: usize,
        bytes: usize,
        access: Access,
    ) -> Result<MemoryId, Error> {
        let key = self.registrations.len() as u64 + 1;
        self.register_with_key(region, offset, bytes, access, key)
    }

    /// As [`Endpoint::register`], with the key that peers are to use where the
    /// provider does not choose it itself (`FI_MR_PROV_KEY`). Keys that count
    /// from 1, as those of [`Endpoint::register`], are easily guessed.
    ///
    /// # Errors
    /// As [`Endpoint::register`]; also a key that is in use, or has more than
    /// [`Info::mr_key_bytes`].
    pub fn register_with_key(
        &mut self,
        region: &Region,
        offset: usize,
        bytes: usize,
        access: Access,
        key: u64,
    ) -> Result<MemoryId, Error> {
        const ATTEMPTED: &str = "register memory";
        check_registered(offset, bytes, region.bytes())
            .map_err(|words| Error::invalid(ATTEMPTED, words))?;
        let base = region.at(offset);
        let memory = MemoryId::of_index(self.registrations.len())
            .map_err(|words| Error::invalid(ATTEMPTED, words))?;
        let objects = self.objects()?;
        let object = Opened::by(&self.info, ATTEMPTED, |registration| {
            // SAFETY: the domain is open; the memory is mapped as long as the
            // clone of the region below, which outlives the registration.
            unsafe {
                inline::fi_mr_reg(
                    objects.domain.raw(),
                    base.cast(),
                    bytes,
                    flags(access),
                    key,
                    registration,
                )
            }
        })?;
        if self.limits.binds_registrations {
            // SAFETY: both are open, and of one domain.
            unsafe {
                let status = inline::fi_bind(object.fid(), objects.endpoint.fid(), 0);
                let library = self.info.library();
                library.check("bind registered memory to the endpoint", status)?;
                library.check("enable registered memory", inline::fi_enable(object.fid()))?;
            }
        }
        // SAFETY: the registration is open; both fields are set by now.
        let (descriptor, key) = unsafe { ((*object.raw()).mem_desc, (*object.raw()).key) };
        self.registrations.push(Registration {
            base,
            bytes,
            descriptor,
            key,
            is_local: access.allows(Access::LOCAL),
            object: Some(object),
            _region: region.clone(),
        });
        Ok(memory)
    }

    /// Gives up memory that was registered for peers only: their reads and
    /// writes fail from now on. One whose beginning the provider has taken
    /// already may still come to its end, so the region's memory stays mapped
    /// until the endpoint is closed. Giving up again does nothing.
    ///
    /// # Errors
    /// The provider's, or the memory was registered with [`Access::LOCAL`] too:
    /// own operations might still use it.
    pub fn deregister(&mut self, memory: MemoryId) -> Result<(), Error> {
        const ATTEMPTED: &str = "give up registered memory";
        self.objects()?;
        let registration = self
            .registrations
            .get_mut(memory.index())
            .ok_or_else(|| Error::invalid(ATTEMPTED, "it was registered with another endpoint"))?;
        if registration.is_local {
            return Err(Error::invalid(
                ATTEMPTED,
                "own operations may use it until the endpoint is closed",
            ));
        }
        // No part of it fits any more.
        registration.bytes = 0;
        registration.descriptor = core::ptr::null_mut();
        registration.close(&self.info)
    }

    /// What peers need to read or write registered memory.
    ///
    /// # Panics
    /// The memory was registered with another endpoint.
    pub fn remote_key(&self, memory: MemoryId) -> RemoteMemory {
        let registration = &self.registrations[memory.index()];
        RemoteMemory {
            key: registration.key,
            base: if self.limits.adds_virtual_address {
                registration.base.addr() as u64
            } else {
                0
            },
        }
    }

    pub(super) fn descriptor(&self, memory: MemoryId) -> Option<*mut c_void> {
        let registration = self.registrations.get(memory.index())?;
        registration.object.as_ref()?;
        Some(registration.descriptor)
    }

    /// Address and descriptor of a part, if it is within registered memory.
    #[inline]
    pub(super) fn locate(&self, part: &Part) -> Option<(*mut u8, *mut c_void)> {
        let registration = self.registrations.get(part.memory.index())?;
        part.is_within(registration.bytes).then(|| {
            (
                registration.base.wrapping_add(part.offset),
                registration.descriptor,
            )
        })
    }
}

/// As `fi_mr_reg(3)` takes them.
fn flags(access: Access) -> u64 {
    let each = [
        (Access::LOCAL, FI_SEND | FI_RECV | FI_READ | FI_WRITE),
        (Access::REMOTE_READ, FI_REMOTE_READ),
        (Access::REMOTE_WRITE, FI_REMOTE_WRITE),
    ];
    let allowed = each.iter().filter(|(one, _)| access.allows(*one));
    allowed.fold(0, |flags, (_, of_one)| flags | of_one)
}
