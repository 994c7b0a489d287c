//! The device objects of an endpoint, except queue pairs.

#![allow(unsafe_code, reason = "opens objects of the library")]

use super::sizes::Sizes;
use crate::context::Context;
use crate::objects::{Owned, check, last_errno};
use crate::sys::types::*;
use crate::{Chosen, Error, Library};
use core::ffi::c_int;
use core::mem::zeroed;
use core::ptr::null_mut;

/// An open device with its queues. Children are declared before their parents, so that they are
/// dropped first.
pub(super) struct Device {
    pub(super) receives: Owned<ibv_srq>,
    pub(super) completions: Owned<ibv_cq>,
    pub(super) channel: Owned<ibv_comp_channel>,
    pub(super) domain: Owned<ibv_pd>,
    pub(super) context: Context,
}

impl Device {
    pub(super) fn open(library: &Library, chosen: &Chosen, sizes: &Sizes) -> Result<Self, Error> {
        let functions = library.functions();
        let context = Context::open(library, &chosen.device)?;
        // SAFETY: (of all calls below) the objects that are used are open, and are destroyed later
        // by the order of the fields.
        let domain = unsafe {
            let domain = (functions.alloc_pd)(context.raw());
            Owned::new("make a protection domain", domain, functions.dealloc_pd)?
        };
        // SAFETY: see above.
        let channel = unsafe {
            let channel = (functions.create_comp_channel)(context.raw());
            Owned::new(
                "make a completion channel",
                channel,
                functions.destroy_comp_channel,
            )?
        };
        // SAFETY: see above.
        let completions = unsafe {
            let queue = (functions.create_cq)(
                context.raw(),
                sizes.completions as c_int,
                null_mut(),
                channel.raw(),
                0,
            );
            Owned::new("make a completion queue", queue, functions.destroy_cq)
                .map_err(|error| error.with_remedy(&sizes.words()))?
        };
        let receives = open_receives(library, &domain, sizes)?;
        // SAFETY: both are open. Reads of events must not block.
        unsafe {
            set_nonblocking((*context.raw()).async_fd)?;
            set_nonblocking((*channel.raw()).fd)?;
        }
        Ok(Self {
            receives,
            completions,
            channel,
            domain,
            context,
        })
    }

    pub(super) fn library(&self) -> &Library {
        self.context.library()
    }

    /// Destroys all objects, children first; an object that cannot be destroyed is leaked.
    pub(super) fn close(self) -> Result<(), Error> {
        self.receives
            .destroy("destroy the shared receive queue")
            .and(self.completions.destroy("destroy the completion queue"))
            .and(self.channel.destroy("destroy the completion channel"))
            .and(self.domain.destroy("destroy the protection domain"))
    }
}

fn open_receives(
    library: &Library,
    domain: &Owned<ibv_pd>,
    sizes: &Sizes,
) -> Result<Owned<ibv_srq>, Error> {
    let functions = library.functions();
    // SAFETY: zero is a value of every field.
    let mut attributes: ibv_srq_init_attr = unsafe { zeroed() };
    attributes.attr.max_wr = sizes.receives as u32;
    attributes.attr.max_sge = 1;
    // SAFETY: the domain is open, the attributes live during the call.
    unsafe {
        let queue = (functions.create_srq)(domain.raw(), &raw mut attributes);
        Owned::new("make a shared receive queue", queue, functions.destroy_srq)
    }
}

fn set_nonblocking(fd: c_int) -> Result<(), Error> {
    // SAFETY: the descriptor is open.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        if flags < 0 || libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) < 0 {
            return check("make a descriptor of the device non-blocking", last_errno());
        }
    }
    Ok(())
}
