//! Messages gathered from registered memory.

#![allow(unsafe_code, reason = "hands registered memory to the device")]

use super::posting::{Request, empty_piece};
use super::registration::out_of_bounds;
use super::send_queue::Role;
use super::{Open, PeerAddress};
use crate::sys::constants::{IBV_SEND_INLINE, IBV_WR_SEND};
use crate::sys::types::ibv_sge;
use crate::{Error, Kind, Part, Refused};

/// Most parts of one message.
pub const PARTS_MAX: usize = 4;

/// The parts of a message, in the device's form.
pub(super) struct Gathered {
    pub(super) pieces: [ibv_sge; PARTS_MAX],
    pub(super) count: usize,
    pub(super) bytes: usize,
}

impl Open {
    #[inline]
    pub(super) fn gather(&self, parts: &[Part], bytes_max: usize) -> Result<Gathered, Refused> {
        let mut gathered = Gathered {
            pieces: [empty_piece(); PARTS_MAX],
            count: 0,
            bytes: 0,
        };
        for part in parts.iter().filter(|part| part.bytes > 0) {
            if gathered.count == PARTS_MAX {
                return Err(too_many_parts());
            }
            let (addr, lkey) = self.registrations.locate(part).ok_or_else(out_of_bounds)?;
            // Each part is within existing memory, so the sum does not overflow.
            gathered.bytes += part.bytes;
            if gathered.bytes > bytes_max {
                return Err(too_long(gathered.bytes, bytes_max));
            }
            gathered.pieces[gathered.count] = ibv_sge {
                addr,
                length: part.bytes as u32,
                lkey,
            };
            gathered.count += 1;
        }
        Ok(gathered)
    }

    #[inline]
    pub(super) fn send_message(
        &mut self,
        to: PeerAddress,
        mut gathered: Gathered,
        role: Role,
        token: u64,
        flags: u32,
    ) -> Result<(), Refused> {
        let id = self.ready_pair(to, 1)?;
        let mut request = Request {
            role,
            token,
            bytes: gathered.bytes as u32,
            must_signal: false,
            opcode: IBV_WR_SEND,
            flags,
            pieces: gathered.pieces.as_mut_ptr(),
            count: gathered.count,
            remote_address: 0,
            key: 0,
        };
        // SAFETY: the pieces are in registered memory that stays mapped, and the caller does not
        // touch them until the completion.
        unsafe { self.post(id, core::slice::from_mut(&mut request), Kind::Send)? };
        self.counters.inline += u64::from(flags & IBV_SEND_INLINE != 0);
        Ok(())
    }
}

#[cold]
fn too_many_parts() -> Refused {
    Error::invalid(
        "send a message",
        format!("it has more than {PARTS_MAX} parts"),
    )
    .into()
}

#[cold]
pub(super) fn too_long(bytes: usize, bytes_max: usize) -> Refused {
    Error::invalid(
        "start an operation",
        format!("it has {bytes} bytes, at most {bytes_max} are possible this way"),
    )
    .into()
}
