//! The objects of one endpoint, closed in the order of their dependencies.

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

/// Marks structures of the library that begin with a `fid`.
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
    /// The object that `open` writes to its argument.
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
                "the provider returned no object",
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

    /// Closes the object; if that fails, it stays open.
    pub(super) fn close(self, info: &Info, attempted: &'static str) -> Result<(), Error> {
        let object = self.fid();
        core::mem::forget(self);
        // SAFETY: the object is open, and this value alone owns it.
        let status = unsafe { inline::fi_close(object) };
        info.library().check(attempted, status)
    }
}

impl<T: Object> Drop for Opened<T> {
    fn drop(&mut self) {
        // SAFETY: the object is open, and this value alone owns it. A refusal is ignored.
        unsafe { inline::fi_close(self.fid()) };
    }
}

/// All objects of an endpoint. Children are declared before their parents, so that they are dropped
/// first.
pub(super) struct Objects {
    pub(super) endpoint: Opened<fid_ep>,
    pub(super) queue: Opened<fid_cq>,
    pub(super) vector: Opened<fid_av>,
    pub(super) domain: Opened<fid_domain>,
    pub(super) fabric: Opened<fid_fabric>,
    pub(super) wait_fd: Option<core::ffi::c_int>,
}

// SAFETY: the objects do not depend on the thread that opened them. FI_THREAD_DOMAIN promises
// providers only that accesses exclude each other, not that they come from one thread. Not `Sync`.
unsafe impl Send for Objects {}

impl Objects {
    pub(super) fn open(info: &Info, options: &EndpointOptions) -> Result<Self, Error> {
        // SAFETY (of all calls below): every object is open during its use, the info is complete,
        // and attribute structures live during the call.
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
        // Sends report a completion only if they request it, so that injected ones do not.
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

    /// Closes all objects, children first; an object that still has children stays open.
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
        // A domain that reports to be busy is leaked: `ofi_rxm` of libfabric 1.17 miscounts when a
        // peer died during a long message. Since the endpoint is closed, no memory of this process
        // is used any more.
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

/// Opens the completion queue, with a file descriptor to wait on if it is requested and the
/// provider has one.
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
