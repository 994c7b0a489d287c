//! Completions, and waiting for them.

#![allow(unsafe_code, reason = "reads the provider's completion queue")]

use super::operations::Operation;
use super::{Endpoint, PeerAddress, closed};
use crate::constants::{FI_EAGAIN, FI_EAVAIL};
use crate::native::text;
use crate::sys::attributes::{fi_cq_err_entry, fi_cq_msg_entry};
use crate::sys::inline;
use crate::{Error, Kind, TOKEN_OF_INJECTED};
use core::mem::{MaybeUninit, zeroed};
use std::os::fd::BorrowedFd;

/// Entries read at once.
const BATCH: usize = 32;
/// Batches read by one call: a peer that never pauses must not keep us here.
const BATCHES_MAX: usize = 16;

/// An operation is over.
pub type Completion = crate::native::Completion<PeerAddress, Error>;

/// An error entry; newer libraries write more than API 1.17 knows of.
#[repr(C)]
struct ErrorEntry {
    entry: fi_cq_err_entry,
    _newer_fields: [u64; 64],
}

impl Endpoint {
    /// Appends what has completed to `out`. Moves operations along, also where
    /// nothing comes out: call it often, and whenever an operation was refused
    /// with [`crate::Refused::Again`].
    ///
    /// # Errors
    /// The completion queue itself failed: the endpoint is of no use any more.
    #[inline]
    pub fn poll(&mut self, out: &mut Vec<Completion>) -> Result<(), Error> {
        let queue = self.objects.as_ref().ok_or_else(closed)?.queue.raw();
        self.has_polled = true;
        let mut entries = [const { MaybeUninit::<fi_cq_msg_entry>::uninit() }; BATCH];
        for _ in 0..BATCHES_MAX {
            // SAFETY: the queue is open and has entries of this format; there is
            // room for as many as are asked for.
            let count = unsafe { inline::fi_cq_read(queue, entries.as_mut_ptr().cast(), BATCH) };
            if count == -(FI_EAGAIN as isize) || count == 0 {
                return Ok(());
            }
            if count < 0 {
                self.poll_failed(count, out)?;
                continue;
            }
            let count = count as usize;
            for entry in &entries[..count] {
                // SAFETY: the queue wrote that many entries.
                let entry = unsafe { entry.assume_init_ref() };
                // An unknown context: an injected message that was reported
                // although nobody asked. It went well, so nobody needs to know.
                if let Some(operation) = self.operations.end(entry.op_context) {
                    out.push(completed(operation, entry.len));
                }
            }
            if count < BATCH {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes the error entry that stands before all others, or gives up.
    #[cold]
    fn poll_failed(&mut self, status: isize, out: &mut Vec<Completion>) -> Result<(), Error> {
        const ATTEMPTED: &str = "read the completion queue";
        if status != -(FI_EAVAIL as isize) {
            return Err(self.info.library().error(ATTEMPTED, status as i64));
        }
        let queue = self.objects.as_ref().ok_or_else(closed)?.queue.raw();
        // Zeroed: without room for the provider's own data it lends its own.
        // SAFETY: zero is a value of every field.
        let mut error: ErrorEntry = unsafe { zeroed() };
        // SAFETY: the queue is open, and behind the entry there is more room.
        let status = unsafe { inline::fi_cq_readerr(queue, (&raw mut error).cast()) };
        if status == -(FI_EAGAIN as isize) {
            return Ok(());
        }
        if status < 0 {
            return Err(self.info.library().error(ATTEMPTED, status as i64));
        }
        out.push(self.failed(queue, &error.entry));
        Ok(())
    }

    fn failed(
        &mut self,
        queue: *mut crate::sys::objects::fid_cq,
        entry: &fi_cq_err_entry,
    ) -> Completion {
        let mut buffer = [0_u8; 256];
        // SAFETY: the queue is open; the words end in NUL and stay for the moment.
        let words = unsafe { text(inline::fi_cq_strerror(queue, entry, &mut buffer)) };
        let code = entry.err.abs();
        let general = self.info.library().words(code);
        let words = match words.as_str() {
            "" => general,
            same if same == general => general,
            _ => format!("{general}: {words}"),
        };
        let operation = self.operations.end(entry.op_context);
        let kind = operation.map_or(Kind::Send, |operation| operation.kind);
        Completion {
            token: operation.map_or(TOKEN_OF_INJECTED, |operation| operation.token),
            kind,
            bytes: entry.len,
            peer: None,
            outcome: Err(Error::new(kind.attempted(), code, words)),
        }
    }

    /// The file descriptor to wait on, if one was wanted and could be had. It
    /// may only be waited on after [`Endpoint::may_sleep`] said so.
    pub fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        let fd = self.objects.as_ref()?.wait_fd?;
        // SAFETY: the queue keeps it open, and is open as long as the borrow.
        Some(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Whether there is a file descriptor to wait on.
    pub fn has_fd(&self) -> bool {
        self.wait_fd().is_some()
    }

    /// Whether nothing is left to do, so that waiting on the file descriptor
    /// misses nothing (fi_trywait(3)). Else: poll again.
    pub fn may_sleep(&self) -> bool {
        let Some(objects) = self
            .objects
            .as_ref()
            .filter(|objects| objects.wait_fd.is_some())
        else {
            return false;
        };
        // SAFETY: the fabric and its queue are open.
        unsafe { inline::fi_trywait(objects.fabric.raw(), &mut [objects.queue.fid()]) == 0 }
    }
}

fn completed(operation: Operation, bytes: usize) -> Completion {
    Completion {
        token: operation.token,
        kind: operation.kind,
        bytes: match operation.kind {
            Kind::Receive => bytes,
            _ => operation.bytes,
        },
        peer: None,
        outcome: Ok(()),
    }
}
