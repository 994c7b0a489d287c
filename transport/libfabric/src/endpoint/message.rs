//! Messages: gathered from registered memory, received into it.

#![allow(unsafe_code, reason = "hands registered memory to the provider")]

use super::{Endpoint, PeerAddress, closed};
use crate::constants::{FI_COMPLETION, FI_INJECT};
use crate::sys::attributes::fi_msg;
use crate::sys::inline;
use crate::{Error, Kind, Part, Refused};
use core::ffi::c_void;
use core::ptr::null_mut;
use libc::iovec;

/// The most parts of one message, if the provider can have as many.
pub const PARTS_MAX: usize = 4;

/// Where the bytes of a message are.
struct Gathered {
    iov: [iovec; PARTS_MAX],
    descriptors: [*mut c_void; PARTS_MAX],
    count: usize,
    bytes: usize,
}

impl Endpoint {
    /// Sends a message that is made of `parts`, in this order. Its completion
    /// brings `token` back; until then nobody may write the parts.
    ///
    /// # Errors
    /// See [`Refused`]; also a part that is not within registered memory, more
    /// parts or bytes than the provider can have.
    #[inline]
    pub fn send(&mut self, to: PeerAddress, parts: &[Part], token: u64) -> Result<(), Refused> {
        let mut gathered = self.gather(parts, self.limits.message_bytes)?;
        let begun = self.operations.begin(Kind::Send, token, gathered.bytes);
        let (index, context) = begun.ok_or(Refused::Full)?;
        let status = self.send_message(to, &mut gathered, context, FI_COMPLETION);
        self.started(Some(index), Kind::Send, status)
    }

    /// Sends a short message that the provider copies at once: the parts are
    /// free when this returns, and no completion comes. Failing later, it is
    /// reported with [`TOKEN_OF_INJECTED`](crate::TOKEN_OF_INJECTED).
    ///
    /// # Errors
    /// As of [`Endpoint::send`], but for [`Refused::Full`]; also more bytes than
    /// [`crate::Info::inject_bytes`], which providers do not check.
    #[inline]
    pub fn inject(&mut self, to: PeerAddress, parts: &[Part]) -> Result<(), Refused> {
        let mut gathered = self.gather(parts, self.limits.inject_bytes)?;
        let context = self.operations.injected();
        let status = self.send_message(to, &mut gathered, context, FI_INJECT);
        self.started(None, Kind::Send, status)
    }

    /// Posts memory for one message, from whichever peer. Its completion brings
    /// `token` back; until then nobody else may use the part. A longer message
    /// completes with an error (`FI_ETRUNC`); libfabric 1.17
    /// `ofi_rxm` also loses the connection by it.
    ///
    /// # Errors
    /// See [`Refused`]; also a part that is not within registered memory.
    #[inline]
    pub fn receive(&mut self, part: Part, token: u64) -> Result<(), Refused> {
        let (memory, descriptor) = self.locate(&part).ok_or_else(out_of_bounds)?;
        let objects = self.objects.as_ref().ok_or_else(closed)?;
        let endpoint = objects.endpoint.raw();
        let begun = self.operations.begin(Kind::Receive, token, part.bytes);
        let (index, context) = begun.ok_or(Refused::Full)?;
        // SAFETY: the endpoint is open; the part is within memory that stays
        // mapped until it is closed, and the context as well.
        let status = unsafe {
            inline::fi_recv(
                endpoint,
                memory.cast(),
                part.bytes,
                descriptor,
                u64::MAX, // from whomever
                context,
            )
        };
        self.started(Some(index), Kind::Receive, status)
    }

    #[inline]
    fn gather(&self, parts: &[Part], bytes_max: usize) -> Result<Gathered, Refused> {
        let empty = iovec {
            iov_base: null_mut(),
            iov_len: 0,
        };
        let mut gathered = Gathered {
            iov: [empty; PARTS_MAX],
            descriptors: [null_mut(); PARTS_MAX],
            count: 0,
            bytes: 0,
        };
        for part in parts.iter().filter(|part| part.bytes > 0) {
            if gathered.count == self.limits.parts {
                return Err(too_many_parts(self.limits.parts).into());
            }
            let (memory, descriptor) = self.locate(part).ok_or_else(out_of_bounds)?;
            gathered.iov[gathered.count] = iovec {
                iov_base: memory.cast(),
                iov_len: part.bytes,
            };
            gathered.descriptors[gathered.count] = descriptor;
            gathered.count += 1;
            // Each is within memory that exists: no overflow.
            gathered.bytes += part.bytes;
        }
        if gathered.bytes > bytes_max {
            return Err(too_long(gathered.bytes, bytes_max).into());
        }
        Ok(gathered)
    }

    #[inline]
    fn send_message(
        &self,
        to: PeerAddress,
        gathered: &mut Gathered,
        context: *mut c_void,
        flags: u64,
    ) -> isize {
        let Some(objects) = &self.objects else {
            return -(crate::constants::FI_EOPBADSTATE as isize);
        };
        let message = fi_msg {
            msg_iov: gathered.iov.as_ptr(),
            desc: gathered.descriptors.as_mut_ptr(),
            iov_count: gathered.count,
            addr: to.0,
            context,
            data: 0,
        };
        // SAFETY: the endpoint is open; all parts are within memory that stays
        // mapped until it is closed, and the context as well.
        unsafe { inline::fi_sendmsg(objects.endpoint.raw(), &message, flags) }
    }
}

#[cold]
pub(super) fn out_of_bounds() -> Error {
    Error::invalid(
        "start an operation",
        "a part is not within registered memory",
    )
}

#[cold]
fn too_many_parts(parts_max: usize) -> Error {
    Error::invalid(
        "send a message",
        format!("it has more than {parts_max} parts"),
    )
}

#[cold]
fn too_long(bytes: usize, bytes_max: usize) -> Error {
    Error::new(
        "send a message",
        crate::constants::FI_EMSGSIZE,
        format!("it has {bytes} bytes, at most {bytes_max} can be sent this way"),
    )
}
