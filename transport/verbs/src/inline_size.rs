//! How much a queue pair takes along in a work request.

#![allow(unsafe_code, reason = "makes and destroys the library's objects")]

use crate::context::Context;
use crate::sys::constants::IBV_QPT_RC;
use crate::sys::types::{ibv_cq, ibv_pd, ibv_qp_init_attr};
use crate::{Error, Library};
use core::mem::zeroed;
use core::ptr::{NonNull, null_mut};

/// What is asked for first, in bytes; doubled as long as it is given.
const FIRST_BYTES: u32 = 32;

impl Library {
    /// How many bytes a queue pair of the device takes along in a work request
    /// (`IBV_SEND_INLINE`) at most. No device says it: queue pairs are made that
    /// take more and more, until one is refused or takes `wished_bytes`.
    ///
    /// # Errors
    /// There is no such device, it cannot be opened, or it makes no queue pair.
    pub fn inline_bytes(&self, device: &str, wished_bytes: u32) -> Result<u32, Error> {
        let context = Context::open(self, device)?;
        let trial = Trial::new(&context, device)?;
        let mut bytes = trial.queue_pair(0)?;
        let mut asked = FIRST_BYTES;
        while bytes < wished_bytes {
            // A device may give more than asked.
            asked = asked.max(bytes.saturating_add(1)).min(wished_bytes);
            match trial.queue_pair(asked) {
                Ok(given) if given >= asked => bytes = given,
                _ => break,
            }
            asked = asked.saturating_mul(2);
        }
        Ok(bytes)
    }
}

/// What queue pairs are made with, for a moment.
struct Trial<'a> {
    context: &'a Context,
    device: &'a str,
    domain: NonNull<ibv_pd>,
    queue: NonNull<ibv_cq>,
}

impl<'a> Trial<'a> {
    fn new(context: &'a Context, device: &'a str) -> Result<Self, Error> {
        let functions = context.library().functions();
        // SAFETY: an open device.
        let domain = NonNull::new(unsafe { (functions.alloc_pd)(context.raw()) })
            .ok_or_else(|| refused(device, "a protection domain"))?;
        // SAFETY: an open device; no channel, the first vector.
        let queue = unsafe { (functions.create_cq)(context.raw(), 1, null_mut(), null_mut(), 0) };
        let Some(queue) = NonNull::new(queue) else {
            let error = refused(device, "a completion queue");
            // SAFETY: nothing was made with it.
            unsafe { (functions.dealloc_pd)(domain.as_ptr()) };
            return Err(error);
        };
        Ok(Self {
            context,
            device,
            domain,
            queue,
        })
    }

    /// Makes a queue pair that takes along `asked_bytes`, and destroys it: how many
    /// it would have taken.
    fn queue_pair(&self, asked_bytes: u32) -> Result<u32, Error> {
        let functions = self.context.library().functions();
        // SAFETY: numbers and pointers, for which 0 is a value.
        let mut wanted: ibv_qp_init_attr = unsafe { zeroed() };
        wanted.send_cq = self.queue.as_ptr();
        wanted.recv_cq = self.queue.as_ptr();
        wanted.qp_type = IBV_QPT_RC;
        wanted.cap.max_send_wr = 1;
        wanted.cap.max_recv_wr = 1;
        wanted.cap.max_send_sge = 1;
        wanted.cap.max_recv_sge = 1;
        wanted.cap.max_inline_data = asked_bytes;
        // SAFETY: domain and queue are open and of one device.
        let pair = unsafe { (functions.create_qp)(self.domain.as_ptr(), &raw mut wanted) };
        let pair = NonNull::new(pair).ok_or_else(|| refused(self.device, "a queue pair"))?;
        // SAFETY: made above, used by nothing.
        unsafe { (functions.destroy_qp)(pair.as_ptr()) };
        Ok(wanted.cap.max_inline_data)
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        let functions = self.context.library().functions();
        // SAFETY: no queue pair uses it any more.
        unsafe { (functions.destroy_cq)(self.queue.as_ptr()) };
        // SAFETY: nothing is left that was made with it.
        unsafe { (functions.dealloc_pd)(self.domain.as_ptr()) };
    }
}

fn refused(device: &str, what: &str) -> Error {
    let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    Error::system(format!("make {what} on {device}"), errno)
}
