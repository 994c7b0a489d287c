//! Messages gathered from registered memory.

#![allow(unsafe_code, reason = "hands registered memory to the provider")]

use super::{Endpoint, PeerAddress};
use crate::error::{Error, Refused};
use crate::native::Part;
use crate::sys::attributes::fi_msg;
use crate::sys::constants::{FI_EMSGSIZE, FI_EOPBADSTATE};
use crate::sys::inline;
use core::ffi::c_void;
use core::ptr::null_mut;
use libc::iovec;

/// Most parts of one message; a provider may have a lower limit.
pub const PARTS_MAX: usize = 4;

/// The parts of a message, in the provider's form.
pub(super) struct Gathered {
    iov: [iovec; PARTS_MAX],
    descriptors: [*mut c_void; PARTS_MAX],
    count: usize,
    pub(super) bytes: usize,
}

impl Endpoint {
    #[inline]
    pub(super) fn gather(&self, parts: &[Part], bytes_max: usize) -> Result<Gathered, Refused> {
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
            // Each part is within existing memory, so the sum does not overflow.
            gathered.bytes += part.bytes;
        }
        if gathered.bytes > bytes_max {
            return Err(too_long(gathered.bytes, bytes_max).into());
        }
        Ok(gathered)
    }

    #[inline]
    pub(super) fn send_message(
        &self,
        to: PeerAddress,
        gathered: &mut Gathered,
        context: *mut c_void,
        flags: u64,
    ) -> isize {
        let Some(objects) = &self.objects else {
            return -(FI_EOPBADSTATE as isize);
        };
        let message = fi_msg {
            msg_iov: gathered.iov.as_ptr(),
            desc: gathered.descriptors.as_mut_ptr(),
            iov_count: gathered.count,
            addr: to.0,
            context,
            data: 0,
        };
        // SAFETY: the endpoint is open. All parts are within memory that stays mapped until it is
        // closed, and so does the context.
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
        FI_EMSGSIZE,
        format!("it has {bytes} bytes, at most {bytes_max} can be sent this way"),
    )
}
