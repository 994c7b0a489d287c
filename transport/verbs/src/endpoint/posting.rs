//! Posts requests to a queue pair; all requests of one call use one doorbell.

#![allow(unsafe_code, reason = "hands requests to the device")]

use super::send_queue::{QueuePlace, Role};
use super::work_request::{PairId, WorkRequest};
use super::{Open, PeerAddress};
use crate::sys::constants::{IBV_SEND_SIGNALED, IBV_WR_RDMA_WRITE};
use crate::sys::inline;
use crate::sys::types::*;
use crate::{Error, Kind, Refused};
use core::ffi::c_int;
use core::mem::zeroed;
use core::ptr::null_mut;

/// A request before it is posted.
pub(super) struct Request {
    pub(super) role: Role,
    pub(super) token: u64,
    pub(super) bytes: u32,
    pub(super) must_signal: bool,
    pub(super) opcode: ibv_wr_opcode,
    pub(super) flags: u32,
    pub(super) pieces: *mut ibv_sge,
    pub(super) count: usize,
    pub(super) remote_address: u64,
    pub(super) key: u32,
}

/// Most requests of one call.
const TOGETHER: usize = 2;

impl Open {
    /// The established queue pair of a peer, if it has room for `count` requests.
    #[inline]
    pub(super) fn ready_pair(&mut self, to: PeerAddress, count: usize) -> Result<PairId, Refused> {
        let peer = self.peers.get(to).ok_or_else(unknown_peer)?;
        let Some(id) = peer.pair.filter(|_| peer.is_established) else {
            return Err(Refused::Again);
        };
        if self.in_flight + count > self.sizes.operations {
            // Some requests may have ended without a completion; markers show which.
            self.progress.wants_markers = true;
            return Err(Refused::Full);
        }
        match self.pairs.get(id) {
            Some(pair) if pair.queue.has_room(count) => Ok(id),
            _ => Err(Refused::Again),
        }
    }

    /// Posts a chain of requests. The queue must have room for them.
    ///
    /// # Safety
    /// The pieces are in registered memory. It stays registered, and only the requests access it
    /// until their completions.
    #[inline]
    pub(super) unsafe fn post(
        &mut self,
        id: PairId,
        requests: &mut [Request],
        kind: Kind,
    ) -> Result<(), Refused> {
        debug_assert!(requests.len() <= TOGETHER);
        let Some(pair) = self.pairs.get_mut(id) else {
            return Err(Refused::Again);
        };
        // SAFETY: zero is a value of every field.
        let mut chain: [ibv_send_wr; TOGETHER] = unsafe { zeroed() };
        let base = chain.as_mut_ptr();
        let mut signalled = 0;
        for (index, request) in requests.iter().enumerate() {
            let begun = pair.queue.begin(
                request.role,
                request.token,
                request.bytes,
                request.must_signal,
            );
            let Some(place) = begun else {
                (0..index).for_each(|_| pair.queue.take_back());
                return Err(Refused::Again);
            };
            signalled += u64::from(place.is_signalled);
            // SAFETY: there are at most `TOGETHER` requests.
            unsafe {
                if index > 0 {
                    (*base.add(index - 1)).next = base.add(index);
                }
                fill(&mut *base.add(index), id, place, request);
            }
        }
        let mut refused: *mut ibv_send_wr = null_mut();
        // SAFETY: the queue pair is open and the chain complete; the caller promises the rest about
        // memory.
        let status = unsafe { inline::ibv_post_send(pair.raw(), base, &raw mut refused) };
        if status != 0 {
            let taken = (refused.addr().saturating_sub(base.addr())) / size_of::<ibv_send_wr>();
            return self.not_posted(id, requests, taken, status, kind);
        }
        let own = requests
            .iter()
            .filter(|request| request.role == Role::Marker)
            .count();
        self.in_flight += requests.len() - own;
        self.counters.doorbells += 1;
        self.counters.work_requests += requests.len() as u64;
        self.counters.signalled += signalled;
        self.counters.markers += own as u64;
        Ok(())
    }

    /// Handles an error after the device took the first `taken` requests: if there are any, the
    /// connection is stopped.
    #[cold]
    fn not_posted(
        &mut self,
        id: PairId,
        requests: &[Request],
        taken: usize,
        status: c_int,
        kind: Kind,
    ) -> Result<(), Refused> {
        let taken = taken.min(requests.len());
        if let Some(pair) = self.pairs.get_mut(id) {
            (taken..requests.len()).for_each(|_| pair.queue.take_back());
        }
        self.in_flight += taken;
        if taken > 0 {
            self.give_up(id);
        } else if status == libc::ENOMEM || status == libc::EAGAIN {
            return Err(Refused::Again);
        }
        Err(Error::system(kind.attempted(), status).into())
    }

    /// Posts a marker: its completion means that all requests before it have ended.
    pub(super) fn mark(&mut self, id: PairId) {
        let Some(pair) = self.pairs.get_mut(id) else {
            return;
        };
        pair.is_marked = true;
        let mut request = Request {
            role: Role::Marker,
            token: 0,
            bytes: 0,
            must_signal: true,
            opcode: IBV_WR_RDMA_WRITE,
            flags: 0,
            pieces: null_mut(),
            count: 0,
            remote_address: 0,
            key: 0,
        };
        // A write of zero bytes needs no key. If it is refused, it is tried again later.
        // SAFETY: it uses no memory.
        let posted = unsafe { self.post(id, core::slice::from_mut(&mut request), Kind::Write) };
        if posted.is_err()
            && let Some(pair) = self.pairs.get_mut(id)
        {
            pair.is_marked = false;
        }
    }
}

#[inline]
fn fill(to: &mut ibv_send_wr, id: PairId, place: QueuePlace, request: &Request) {
    to.wr_id = WorkRequest::Send(id, place.sequence).encode();
    to.sg_list = request.pieces;
    to.num_sge = request.count as c_int;
    to.opcode = request.opcode;
    to.send_flags = request.flags
        | if place.is_signalled {
            IBV_SEND_SIGNALED
        } else {
            0
        };
    to.wr.rdma = ibv_send_wr__bindgen_ty_2__bindgen_ty_1 {
        remote_addr: request.remote_address,
        rkey: request.key,
    };
}

pub(super) fn empty_piece() -> ibv_sge {
    ibv_sge {
        addr: 0,
        length: 0,
        lkey: 0,
    }
}

#[cold]
pub(super) fn unknown_peer() -> Refused {
    Error::invalid(
        "start an operation",
        "the peer was removed, or belongs to another endpoint",
    )
    .into()
}
