//! Memory registered with an endpoint.

#![allow(unsafe_code, reason = "registers memory with the device")]

use super::Endpoint;
use crate::objects::Owned;
use crate::sys::constants::*;
use crate::sys::types::{ibv_mr, ibv_pd};
use crate::{Access, Error, Library, MemoryId, Part, Refused, RemoteMemory};
use core::ffi::c_int;
use refrain_ring::Region;

/// The text for errors, after "cannot".
pub(super) const ATTEMPTED: &str = "register memory";

/// Registered memory; it is deregistered before it may be unmapped.
pub(super) struct Registration {
    object: Owned<ibv_mr>,
    base: *mut u8,
    bytes: usize,
    local_key: u32,
    remote_key: u32,
    // Keeps the memory mapped. Declared after the registration, so that it is dropped later.
    _region: Region,
}

// SAFETY: the region owns the memory; the rest is as for `Owned`.
unsafe impl Send for Registration {}

impl Registration {
    /// # Errors
    /// Errors of the device.
    pub(super) fn new(
        library: &Library,
        domain: &Owned<ibv_pd>,
        region: &Region,
        access: Access,
    ) -> Result<Self, Error> {
        let functions = library.functions();
        let (base, bytes) = (region.at(0), region.bytes());
        let access = flags(access) as c_int;
        // SAFETY: the domain is open and is destroyed later; the memory stays mapped as long as the
        // clone of the region below.
        let object = unsafe {
            let object = (functions.reg_mr)(domain.raw(), base.cast(), bytes, access);
            Owned::new(ATTEMPTED, object, functions.dereg_mr).map_err(explain)?
        };
        // SAFETY: the registration is open.
        let (local_key, remote_key) = unsafe { ((*object.raw()).lkey, (*object.raw()).rkey) };
        Ok(Self {
            object,
            base,
            bytes,
            local_key,
            remote_key,
            _region: region.clone(),
        })
    }

    pub(super) fn address(&self, offset: usize) -> u64 {
        self.base.wrapping_add(offset).addr() as u64
    }

    pub(super) fn local_key(&self) -> u32 {
        self.local_key
    }

    /// Deregisters the memory. If the device refuses, the memory stays mapped.
    pub(super) fn close(self) -> Result<(), Error> {
        let result = self.object.destroy("deregister memory");
        if result.is_err() {
            core::mem::forget(self._region);
        }
        result
    }
}

/// Converts to the flags of `ibv_reg_mr(3)`. Peers may also read memory that they may write: a read
/// after a write shows that the write is placed. Devices require such memory to be locally
/// writable, too.
fn flags(access: Access) -> u32 {
    let each = [
        (Access::LOCAL, IBV_ACCESS_LOCAL_WRITE),
        (Access::REMOTE_READ, IBV_ACCESS_REMOTE_READ),
        (
            Access::REMOTE_WRITE,
            IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_LOCAL_WRITE,
        ),
    ];
    let allowed = each.iter().filter(|(one, _)| access.allows(*one));
    allowed.fold(0, |flags, (_, of_one)| flags | of_one)
}

/// Adds the usual reason to an error.
fn explain(error: Error) -> Error {
    match error.errno() {
        libc::ENOMEM => error.with_remedy(
            "less memory may be locked than is needed (ulimit -l), or the device has no more \
             registrations",
        ),
        libc::EFAULT => error.with_remedy("the memory cannot be written or is not mapped"),
        _ => error,
    }
}

/// All registrations, by [`MemoryId`].
#[derive(Default)]
pub(super) struct Registrations(pub(super) Vec<Option<Registration>>);

impl Registrations {
    pub(super) fn get(&self, memory: MemoryId) -> Option<&Registration> {
        self.0.get(memory.index())?.as_ref()
    }

    /// Address and local key of a part, if it is within registered memory.
    #[inline]
    pub(super) fn locate(&self, part: &Part) -> Option<(u64, u32)> {
        let registration = self.get(part.memory)?;
        part.is_within(registration.bytes)
            .then(|| (registration.address(part.offset), registration.local_key))
    }

    /// The local key for `bytes` bytes at an address, if they are within the registration.
    #[inline]
    pub(super) fn key_of(&self, memory: MemoryId, address: u64, bytes: usize) -> Option<u32> {
        let registration = self.get(memory)?;
        let offset = usize::try_from(address.checked_sub(registration.address(0))?).ok()?;
        let fits = bytes <= registration.bytes && offset <= registration.bytes - bytes;
        fits.then_some(registration.local_key)
    }

    /// The key of deregistered memory does not exist.
    ///
    /// # Panics
    /// When the memory was registered with another endpoint.
    pub(super) fn remote_key(&self, memory: MemoryId) -> RemoteMemory {
        let slot = self.0.get(memory.index());
        let registration = slot.expect("memory of this endpoint").as_ref();
        registration.map_or_else(RemoteMemory::default, |registration| RemoteMemory {
            key: u64::from(registration.remote_key),
            base: registration.address(0),
        })
    }

    /// Deregisters all memory, and returns the first error.
    pub(super) fn close(self) -> Result<(), Error> {
        let mut result = Ok(());
        for registration in self.0.into_iter().flatten() {
            result = result.and(registration.close());
        }
        result
    }
}

impl Endpoint {
    /// Deregisters memory. When this returns, peers no longer read or write it: the device waits
    /// for operations in progress. Operations of this endpoint that still use it fail, and with
    /// them their connections. A second call does nothing.
    ///
    /// # Errors
    /// Errors of the device; the memory then stays mapped forever.
    pub fn deregister(&mut self, memory: MemoryId) -> Result<(), Error> {
        let registrations = &mut self.open_mut()?.registrations.0;
        let slot = registrations.get_mut(memory.index()).ok_or_else(|| {
            Error::invalid(
                "deregister memory",
                "it was registered with another endpoint",
            )
        })?;
        slot.take().map_or(Ok(()), Registration::close)
    }
}

#[cold]
pub(super) fn out_of_bounds() -> Refused {
    Error::invalid(
        "start an operation",
        "a part is not within registered memory",
    )
    .into()
}
