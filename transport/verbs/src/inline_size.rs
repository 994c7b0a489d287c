//! Measures how many bytes can be copied into a work request.

#![allow(unsafe_code, reason = "makes the library's objects")]

use crate::context::Context;
use crate::error::Error;
use crate::library::Library;
use crate::objects::Owned;
use crate::sys::constants::IBV_QPT_RC;
use crate::sys::types::{ibv_cq, ibv_pd, ibv_qp_init_attr};
use core::mem::zeroed;
use core::ptr::null_mut;

/// The first size that is tried, in bytes; it doubles while it is granted.
const FIRST_BYTES: u32 = 32;

impl Library {
    /// The largest number of bytes that can be copied into a work request of the device
    /// (`IBV_SEND_INLINE`). Devices do not report it, so queue pairs are made with growing sizes,
    /// until one is refused or has `wished_bytes`.
    ///
    /// # Errors
    /// When the device does not exist, cannot be opened, or makes no queue pair.
    pub fn inline_bytes(&self, device: &str, wished_bytes: u32) -> Result<u32, Error> {
        let context = Context::open(self, device)?;
        let trial = Trial::new(&context, device)?;
        let mut bytes = trial.queue_pair(0)?;
        let mut asked = FIRST_BYTES;
        while bytes < wished_bytes {
            // A device may give more than requested.
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

/// The objects for trial queue pairs. Children are declared before their parents, so that they are
/// dropped first.
struct Trial<'a> {
    queue: Owned<ibv_cq>,
    domain: Owned<ibv_pd>,
    context: &'a Context,
    device: &'a str,
}

impl<'a> Trial<'a> {
    fn new(context: &'a Context, device: &'a str) -> Result<Self, Error> {
        let functions = context.library().functions();
        // SAFETY: the device is open, and is closed later.
        let domain = unsafe {
            let domain = (functions.alloc_pd)(context.raw());
            let attempted = format!("make a protection domain on {device}");
            Owned::new(attempted, domain, functions.dealloc_pd)?
        };
        // SAFETY: the device is open, and is closed later; there is no channel, and the vector is
        // the first one.
        let queue = unsafe {
            let queue = (functions.create_cq)(context.raw(), 1, null_mut(), null_mut(), 0);
            let attempted = format!("make a completion queue on {device}");
            Owned::new(attempted, queue, functions.destroy_cq)?
        };
        Ok(Self {
            queue,
            domain,
            context,
            device,
        })
    }

    /// Makes a queue pair with inline room for `asked_bytes`, and destroys it. Returns its inline
    /// room in bytes.
    fn queue_pair(&self, asked_bytes: u32) -> Result<u32, Error> {
        let functions = self.context.library().functions();
        // SAFETY: the structure has numbers and pointers, for which 0 is a value.
        let mut wanted: ibv_qp_init_attr = unsafe { zeroed() };
        wanted.send_cq = self.queue.raw();
        wanted.recv_cq = self.queue.raw();
        wanted.qp_type = IBV_QPT_RC;
        wanted.cap.max_send_wr = 1;
        wanted.cap.max_recv_wr = 1;
        wanted.cap.max_send_sge = 1;
        wanted.cap.max_recv_sge = 1;
        wanted.cap.max_inline_data = asked_bytes;
        // SAFETY: domain and queue are open, belong to one device, and are destroyed later.
        unsafe {
            let pair = (functions.create_qp)(self.domain.raw(), &raw mut wanted);
            let attempted = format!("make a queue pair on {}", self.device);
            drop(Owned::new(attempted, pair, functions.destroy_qp)?);
        }
        Ok(wanted.cap.max_inline_data)
    }
}
