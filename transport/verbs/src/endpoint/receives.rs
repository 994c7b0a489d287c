//! Posted receives: memory for messages from any peer.

#![allow(unsafe_code, reason = "hands memory for messages to the device")]

use super::counters::Counters;
use super::device::Device;
use super::work_request::WorkRequest;
use crate::Error;
use crate::sys::inline;
use crate::sys::types::{ibv_recv_wr, ibv_sge};
use core::ffi::c_int;
use core::ptr::null_mut;

/// Receives that are posted together, with one doorbell.
const CHAIN: usize = 16;
/// With fewer receives at the device, a receive is posted without waiting for a full chain.
const FEW: usize = 2 * CHAIN;

/// A posted receive.
#[derive(Clone, Copy)]
struct Posted {
    token: u64,
    piece: ibv_sge,
    in_flight: bool,
}

/// All posted receives. They are collected and passed to the device in chains.
pub(super) struct Receives {
    entries: Box<[Posted]>,
    free: Vec<u32>,
    waiting: Vec<u32>,
}

impl Receives {
    pub(super) fn new(count: usize) -> Self {
        let nothing = Posted {
            token: 0,
            piece: ibv_sge {
                addr: 0,
                length: 0,
                lkey: 0,
            },
            in_flight: false,
        };
        Self {
            entries: vec![nothing; count].into(),
            free: (0..count as u32).rev().collect(),
            waiting: Vec::with_capacity(count),
        }
    }

    /// Adds a receive; returns whether there was room.
    #[inline]
    pub(super) fn begin(&mut self, piece: ibv_sge, token: u64) -> bool {
        let Some(index) = self.free.pop() else {
            return false;
        };
        self.entries[index as usize] = Posted {
            token,
            piece,
            in_flight: true,
        };
        self.waiting.push(index);
        true
    }

    /// Whether a full chain is waiting.
    #[inline]
    pub(super) fn has_chain(&self) -> bool {
        self.waiting.len() >= CHAIN
    }

    /// Whether a full chain is waiting, or the device has only few receives.
    #[inline]
    fn should_post(&self) -> bool {
        let waiting = self.waiting.len();
        self.has_chain() || (waiting > 0 && self.in_flight() - waiting < FEW)
    }

    /// Number of receives that are posted or wait to be posted.
    pub(super) fn in_flight(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Ends a receive whose message has arrived; returns its token, or `None` for an unknown index.
    #[inline]
    pub(super) fn end(&mut self, index: u32) -> Option<u64> {
        let entry = self.entries.get_mut(index as usize)?;
        if !entry.in_flight {
            return None;
        }
        entry.in_flight = false;
        self.free.push(index);
        Some(entry.token)
    }

    /// Posts a receive again that the device returned without a message that counts.
    pub(super) fn again(&mut self, index: u32) {
        let is_posted = self
            .entries
            .get(index as usize)
            .is_some_and(|entry| entry.in_flight);
        if is_posted {
            self.waiting.push(index);
        }
    }

    /// Posts collected receives; those that can wait for a full chain stay.
    ///
    /// # Errors
    /// Errors of the device, except a full queue.
    #[inline]
    pub(super) fn post(&mut self, device: &Device, counters: &mut Counters) -> Result<(), Error> {
        while self.should_post() {
            let taken = self.post_chain(device, counters)?;
            if taken == 0 {
                break;
            }
        }
        Ok(())
    }

    fn post_chain(&mut self, device: &Device, counters: &mut Counters) -> Result<usize, Error> {
        const NONE: ibv_recv_wr = ibv_recv_wr {
            wr_id: 0,
            next: null_mut(),
            sg_list: null_mut(),
            num_sge: 0,
        };
        let mut chain = [NONE; CHAIN];
        let count = self.waiting.len().min(CHAIN);
        let from = self.waiting.len() - count;
        let base = chain.as_mut_ptr();
        for (place, index) in self.waiting[from..].iter().enumerate() {
            let is_last = place + 1 == count;
            let piece = &mut self.entries[*index as usize].piece;
            // Devices take a piece of 0 bytes for one of 2^31 bytes.
            let pieces = c_int::from(piece.length > 0);
            let next = base.wrapping_add(place + 1);
            // SAFETY: an element of the chain's first `count`.
            unsafe {
                *base.add(place) = ibv_recv_wr {
                    wr_id: WorkRequest::Receive(*index).encode(),
                    next: if is_last { null_mut() } else { next },
                    sg_list: piece,
                    num_sge: pieces,
                };
            }
        }
        let mut refused: *mut ibv_recv_wr = null_mut();
        // SAFETY: the queue is open and the chain complete. The memory of each piece is registered,
        // and belongs to the device until the device returns it.
        let status =
            unsafe { inline::ibv_post_srq_recv(device.receives.raw(), base, &raw mut refused) };
        let taken = match status {
            0 => count,
            _ => (refused.addr().saturating_sub(base.addr()) / size_of::<ibv_recv_wr>()).min(count),
        };
        // The device has taken the first `taken` receives of the chain.
        self.waiting.drain(from..from + taken);
        counters.receive_doorbells += 1;
        counters.receives += taken as u64;
        match status {
            0 | libc::ENOMEM => Ok(taken),
            status => Err(Error::system("post a receive", status)),
        }
    }
}
