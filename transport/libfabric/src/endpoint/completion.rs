//! Completions, and errors of operations.

#![allow(unsafe_code, reason = "reads the provider's completion queue")]

use super::operations::Operation;
use super::{Endpoint, PeerAddress, closed};
use crate::error::Error;
use crate::native::{Kind, MessageEndpoint, TOKEN_OF_INJECTED, text};
use crate::sys::attributes::fi_cq_err_entry;
use crate::sys::constants::{FI_EAGAIN, FI_EAVAIL};
use crate::sys::inline;
use core::mem::zeroed;

/// The end of an operation.
pub type Completion = crate::native::Completion<PeerAddress, Error>;

/// An error entry with spare room: newer libraries write more fields than API 1.17 has.
#[repr(C)]
struct ErrorEntry {
    entry: fi_cq_err_entry,
    _newer_fields: [u64; 64],
}

impl Endpoint {
    /// Reads the error entry at the head of the queue; fails on other errors.
    #[cold]
    pub(super) fn poll_failed(
        &mut self,
        status: isize,
        out: &mut Vec<Completion>,
    ) -> Result<(), Error> {
        const ATTEMPTED: &str = "read the completion queue";
        if status != -(FI_EAVAIL as isize) {
            return Err(self.info.library().error(ATTEMPTED, status as i64));
        }
        let queue = self.objects.as_ref().ok_or_else(closed)?.queue.raw();
        // Zeroed: the entry offers no buffer for the provider's error data, so the provider lends
        // its own.
        // SAFETY: zero is a value of every field.
        let mut error: ErrorEntry = unsafe { zeroed() };
        // SAFETY: the queue is open, and there is spare room after the entry.
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
        // SAFETY: the queue is open; the text ends in NUL and stays valid until the next call.
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

    /// Whether there is a file descriptor to wait on.
    pub fn has_fd(&self) -> bool {
        self.wait_fd().is_some()
    }
}

impl Operation {
    /// The completion of an operation that succeeded; `bytes`: length of a received message.
    #[inline]
    pub(super) fn completed(self, bytes: usize) -> Completion {
        Completion {
            token: self.token,
            kind: self.kind,
            bytes: match self.kind {
                Kind::Receive => bytes,
                _ => self.bytes,
            },
            peer: None,
            outcome: Ok(()),
        }
    }
}
