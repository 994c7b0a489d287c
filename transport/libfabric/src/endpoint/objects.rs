//! The objects of one rank, closed in the order of their dependence.

#![allow(
    unsafe_code,
    reason = "opens and closes libfabric's objects through their tables of functions"
)]

use crate::endpoint::EndpointOptions;
use crate::error::Error;
use crate::info::Info;
use crate::sys::attributes::*;
use crate::sys::constants::{FI_EBUSY, FI_RECV, FI_SELECTIVE_COMPLETION, FI_TRANSMIT};
use crate::sys::inline;
use crate::sys::objects::*;
use core::mem::zeroed;
use core::ptr::{NonNull, null_mut};

/// Structures of the library that begin with a `fid`.
pub(super) trait Object {}
impl Object for fid_fabric {}
impl Object for fid_domain {}
impl Object for fid_av {}
impl Object for fid_cq {}
impl Object for fid_ep {}
impl Object for fid_mr {}

/// An open object; dropping it closes it.
pub(super) struct Opened<T: Object>(NonNull<T>);

impl<T: Object> Opened<T> {
    /// The object that `open` writes to the pointer that it gets.
    pub(super) fn by(
        info: &Info,
        attempted: &'static str,
        open: impl FnOnce(*mut *mut T) -> core::ffi::c_int,
    ) -> Result<Self, Error> {
        let mut object = null_mut();
        info.library().check(attempted, open(&raw mut object))?;
        NonNull::new(object).map(Self).ok_or_else(|| {
            Error::new(
                attempted,
                crate::sys::constants::FI_EOTHER,
                "it gave no object",
            )
        })
    }

    #[inline]
    pub(super) fn raw(&self) -> *mut T {
        self.0.as_ptr()
    }

    #[inline]
    pub(super) fn fid(&self) -> *mut fid {
        self.0.as_ptr().cast()
    }

    /// Closes it; an object that cannot be closed stays open.
    pub(super) fn close(self, info: &Info, attempted: &'static str) -> Result<(), Error> {
        let object = self.fid();
        core::mem::forget(self);
        // SAFETY: it is open, and owned by this value alone.
        let status = unsafe { inline::fi_close(object) };
        info.library().check(attempted, status)
    }
}

impl<T: Object> Drop for Opened<T> {
    fn drop(&mut self) {
        // SAFETY: it is open, and owned by this value alone. A refusal is ignored.
        unsafe { inline::fi_close(self.fid()) };
    }
}

/// Everything that an endpoint needs. Children stand before their parents, so
/// that they are dropped first.
pub(super) struct Objects {
    pub(super) endpoint: Opened<fid_ep>,
    pub(super) queue: Opened<fid_cq>,
    pub(super) vector: Opened<fid_av>,
    pub(super) domain: Opened<fid_domain>,
    pub(super) fabric: Opened<fid_fabric>,
    pub(super) wait_fd: Option<core::ffi::c_int>,
}

// SAFETY: nothing refers to the thread that opened them, and providers are told
// that accesses exclude each other (FI_THREAD_DOMAIN), not that they come from
// one thread. Not `Sync`.
unsafe impl Send for Objects {}

impl Objects {
    pub(super) fn open(info: &Info, options: &EndpointOptions) -> Result<Self, Error> {
        // SAFETY (of all calls below): every object is open when it is used,
        // the info is whole, attribute structures live during the call.
        let fabric = Opened::by(info, "open the fabric", |fabric| {
            let functions = info.library().functions();
            // SAFETY: see above.
            unsafe { (functions.fabric)((*info.raw()).fabric_attr, fabric, null_mut()) }
        })?;
        let domain = Opened::by(info, "open the domain", |domain| {
            // SAFETY: see above.
            unsafe { inline::fi_domain(fabric.raw(), info.raw(), domain) }
        })?;
        let vector = open_vector(info, &domain, options)?;
        let (queue, wait_fd) = open_queue(info, &domain, options)?;
        let endpoint = Opened::by(info, "open the endpoint", |endpoint| {
            // SAFETY: see above.
            unsafe { inline::fi_endpoint(domain.raw(), info.raw(), endpoint) }
        })?;
        let bind = |object, flags| {
            // SAFETY: see above.
            unsafe { inline::fi_bind(endpoint.fid(), object, flags) }
        };
        let library = info.library();
        library.check(
            "bind the address vector to the endpoint",
            bind(vector.fid(), 0),
        )?;
        // Sends report only where they ask for it, so that injected ones do not.
        library.check(
            "bind the completion queue to the endpoint for sending",
            bind(queue.fid(), FI_TRANSMIT | FI_SELECTIVE_COMPLETION),
        )?;
        library.check(
            "bind the completion queue to the endpoint for receiving",
            bind(queue.fid(), FI_RECV),
        )?;
        // SAFETY: see above.
        let status = unsafe { inline::fi_enable(endpoint.fid()) };
        library.check("enable the endpoint", status)?;
        Ok(Self {
            endpoint,
            queue,
            vector,
            domain,
            fabric,
            wait_fd,
        })
    }

    /// Closes all, children first; an object that still has children stays open.
    /// `registrations` closes those of the domain, when no operation uses them any more.
    pub(super) fn close(
        self,
        info: &Info,
        registrations: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let result = [
            self.endpoint.close(info, "close the endpoint"),
            registrations(),
            self.queue.close(info, "close the completion queue"),
            self.vector.close(info, "close the address vector"),
        ]
        .into_iter()
        .fold(Ok(()), Result::and);
        // A domain that thinks it is busy is leaked: libfabric 1.17 `ofi_rxm`
        // loses count when a peer died in the middle of a long message. With
        // the endpoint closed, nothing uses our memory any more.
        [
            self.domain.close(info, "close the domain"),
            self.fabric.close(info, "close the fabric"),
        ]
        .into_iter()
        .filter(|closed| !matches!(closed, Err(error) if error.code() == FI_EBUSY))
        .fold(result, Result::and)
    }
}

fn open_vector(
    info: &Info,
    domain: &Opened<fid_domain>,
    options: &EndpointOptions,
) -> Result<Opened<fid_av>, Error> {
    // SAFETY: zero is a value of every field.
    let mut attributes: fi_av_attr = unsafe { zeroed() };
    attributes.type_ = info.av_type();
    attributes.count = options.av_count;
    Opened::by(info, "open the address vector", |vector| {
        // SAFETY: the domain is open, the attributes live during the call.
        unsafe { inline::fi_av_open(domain.raw(), &raw mut attributes, vector) }
    })
}

/// Opens the completion queue, with a file descriptor to wait on if that is wanted and
/// the provider has one.
fn open_queue(
    info: &Info,
    domain: &Opened<fid_domain>,
    options: &EndpointOptions,
) -> Result<(Opened<fid_cq>, Option<core::ffi::c_int>), Error> {
    let open = |wait_object| {
        // SAFETY: zero is a value of every field.
        let mut attributes: fi_cq_attr = unsafe { zeroed() };
        attributes.size = options.cq_depth;
        attributes.format = FI_CQ_FORMAT_MSG;
        attributes.wait_obj = wait_object;
        Opened::by(info, "open the completion queue", |queue| {
            // SAFETY: the domain is open, the attributes live during the call.
            unsafe { inline::fi_cq_open(domain.raw(), &raw mut attributes, queue) }
        })
    };
    if options.wants_fd
        && let Ok(queue) = open(FI_WAIT_FD)
    {
        let mut fd = -1;
        // SAFETY: the queue is open, and was opened with a file descriptor.
        let status = unsafe { inline::get_wait_fd(queue.fid(), &mut fd) };
        if status >= 0 && fd >= 0 {
            return Ok((queue, Some(fd)));
        }
    }
    Ok((open(FI_WAIT_NONE)?, None))
}
