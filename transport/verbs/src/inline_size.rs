//! How much a queue pair takes along in a work request.

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
    /// How many bytes a queue pair of the device takes along in a work request
    /// (`IBV_SEND_INLINE`) at most. Devices do not report it: queue pairs are made for more
    /// and more bytes, until one is refused or takes `wished_bytes`.
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

/// What trial queue pairs are made with. Children stand before their parents, so that
/// they are dropped first.
struct Trial<'a> {
    queue: Owned<ibv_cq>,
    domain: Owned<ibv_pd>,
    context: &'a Context,
    device: &'a str,
}

impl<'a> Trial<'a> {
    fn new(context: &'a Context, device: &'a str) -> Result<Self, Error> {
        let functions = context.library().functions();
        // SAFETY: an open device, which is closed later.
        let domain = unsafe {
            let domain = (functions.alloc_pd)(context.raw());
            let attempted = format!("make a protection domain on {device}");
            Owned::new(attempted, domain, functions.dealloc_pd)?
        };
        // SAFETY: an open device, which is closed later; no channel, the first vector.
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

    /// Makes a queue pair that takes along `asked_bytes`, and destroys it: how many
    /// it would have taken.
    fn queue_pair(&self, asked_bytes: u32) -> Result<u32, Error> {
        let functions = self.context.library().functions();
        // SAFETY: numbers and pointers, for which 0 is a value.
        let mut wanted: ibv_qp_init_attr = unsafe { zeroed() };
        wanted.send_cq = self.queue.raw();
        wanted.recv_cq = self.queue.raw();
        wanted.qp_type = IBV_QPT_RC;
        wanted.cap.max_send_wr = 1;
        wanted.cap.max_recv_wr = 1;
        wanted.cap.max_send_sge = 1;
        wanted.cap.max_recv_sge = 1;
        wanted.cap.max_inline_data = asked_bytes;
        // SAFETY: domain and queue are open, of one device, and destroyed later.
        unsafe {
            let pair = (functions.create_qp)(self.domain.raw(), &raw mut wanted);
            let attempted = format!("make a queue pair on {}", self.device);
            drop(Owned::new(attempted, pair, functions.destroy_qp)?);
        }
        Ok(wanted.cap.max_inline_data)
    }
}
