//! Memory registered with an endpoint.

#![allow(unsafe_code, reason = "registers memory with the provider")]

use super::Endpoint;
use super::objects::Opened;
use crate::error::Error;
use crate::info::Info;
use crate::native::{Access, MemoryId, Part, RemoteMemory};
use crate::sys::constants::*;
use crate::sys::inline;
use crate::sys::objects::fid_mr;
use core::ffi::c_void;
use refrain_ring::Region;

pub(super) struct Registration {
    base: *mut u8,
    bytes: usize,
    descriptor: *mut c_void,
    key: u64,
    is_local: bool,
    // `None` after it is closed.
    object: Option<Opened<fid_mr>>,
    // Keeps the memory mapped.
    _region: Region,
}

// SAFETY: the region owns the memory; the rest is as for `Objects`.
unsafe impl Send for Registration {}

impl Registration {
    pub(super) fn close(&mut self, info: &Info) -> Result<(), Error> {
        self.object
            .take()
            .map_or(Ok(()), |object| object.close(info, "deregister memory"))
    }

    /// The key and address that peers need to read or write the memory.
    pub(super) fn remote_key(&self, adds_virtual_address: bool) -> RemoteMemory {
        let base = match adds_virtual_address {
            true => self.base.addr() as u64,
            false => 0,
        };
        RemoteMemory {
            key: self.key,
            base,
        }
    }
}

impl Endpoint {
    /// As [`register`](crate::native::MessageEndpoint::register), with a key for peers; it applies
    /// if the provider does not choose keys itself (`FI_MR_PROV_KEY`). Keys that count from 1, as
    /// those of `register`, are easily guessed. The region's memory stays mapped until the endpoint
    /// is closed.
    ///
    /// Operations and peers must follow the rules of [`Region`]: bytes that are being sent or read
    /// are not written meanwhile, and bytes that may be received into or written are not read.
    ///
    /// # Errors
    /// Errors of the provider, often because less memory may be locked than is needed (`ulimit
    /// -l`); also when a key is in use, or has more than [`Info::mr_key_bytes`].
    pub fn register_with_key(
        &mut self,
        region: &Region,
        access: Access,
        key: u64,
    ) -> Result<MemoryId, Error> {
        const ATTEMPTED: &str = "register memory";
        let (base, bytes) = (region.at(0), region.bytes());
        let memory = MemoryId::of_registration(self.registrations.len(), bytes)
            .map_err(|words| Error::invalid(ATTEMPTED, words))?;
        let objects = self.objects()?;
        let object = Opened::by(&self.info, ATTEMPTED, |registration| {
            // SAFETY: the domain is open; the memory stays mapped as long as the clone of the
            // region below, which outlives the registration.
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
            // SAFETY: both objects are open, and belong to one domain.
            unsafe {
                let status = inline::fi_bind(object.fid(), objects.endpoint.fid(), 0);
                let library = self.info.library();
                library.check("bind registered memory to the endpoint", status)?;
                library.check("enable registered memory", inline::fi_enable(object.fid()))?;
            }
        }
        // SAFETY: the registration is open, and both fields are set by now.
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

    /// Deregisters memory that was registered for peers only: their reads and writes fail from now
    /// on. A write that the provider has begun may still end, so the region's memory stays mapped
    /// until the endpoint is closed. A second call does nothing.
    ///
    /// # Errors
    /// Errors of the provider; also when the memory was registered with [`Access::LOCAL`], since
    /// own operations might still use it.
    pub fn deregister(&mut self, memory: MemoryId) -> Result<(), Error> {
        const ATTEMPTED: &str = "deregister memory";
        self.objects()?;
        let registration = self
            .registrations
            .get_mut(memory.index())
            .ok_or_else(|| Error::invalid(ATTEMPTED, "it was registered with another endpoint"))?;
        if registration.is_local {
            return Err(Error::invalid(
                ATTEMPTED,
                "operations of this endpoint may use it until the endpoint is closed",
            ));
        }
        // No part lies within the registration any more.
        registration.bytes = 0;
        registration.descriptor = core::ptr::null_mut();
        registration.close(&self.info)
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

/// Converts to the flags of `fi_mr_reg(3)`.
fn flags(access: Access) -> u64 {
    let each = [
        (Access::LOCAL, FI_SEND | FI_RECV | FI_READ | FI_WRITE),
        (Access::REMOTE_READ, FI_REMOTE_READ),
        (Access::REMOTE_WRITE, FI_REMOTE_WRITE),
    ];
    let allowed = each.iter().filter(|(one, _)| access.allows(*one));
    allowed.fold(0, |flags, (_, of_one)| flags | of_one)
}
