//! One queue pair, from its creation to its end.

#![allow(unsafe_code, reason = "makes and moves queue pairs of the device")]

use super::device::Device;
use super::port::LocalPort;
use super::send_queue::{MARKERS_MAX, SendQueue};
use super::sizes::Sizes;
use super::work_request::PairId;
use super::{PARTS_MAX, PeerAddress, Retry, random};
use crate::greeting::{Contact, Offer};
use crate::objects::{Owned, check};
use crate::sys::constants::*;
use crate::sys::types::*;
use crate::{Error, Library};
use core::ffi::c_int;
use core::mem::zeroed;
use core::time::Duration;

/// The state of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PairState {
    /// Not bound to another queue pair.
    Fresh,
    /// Connected to a queue pair of the peer.
    Bound,
    /// Stopped: its requests complete with errors.
    Draining {
        since: Duration,
        /// The device has reported that it takes no more receives.
        is_last: bool,
    },
}

/// A queue pair for one peer.
pub(super) struct Pair {
    object: Owned<ibv_qp>,
    pub(super) id: PairId,
    /// `None`: the peer was removed, and its operations do not complete any more.
    pub(super) peer: Option<PeerAddress>,
    pub(super) offer: Offer,
    pub(super) queue: SendQueue,
    pub(super) state: PairState,
    /// The reason why the queue pair broke, for later completions.
    pub(super) failure: Option<Error>,
    /// The next sequence number at the last check for old requests.
    pub(super) seen: u32,
    pub(super) is_marked: bool,
    /// The error of a first half (see `Role::Half`), for the request that follows it.
    pub(super) half: Option<Error>,
}

/// The objects and settings that queue pairs are made with.
pub(super) struct Making<'a> {
    pub(super) device: &'a Device,
    pub(super) port: &'a LocalPort,
    pub(super) sizes: &'a Sizes,
    pub(super) inline_bytes: u32,
}

impl Making<'_> {
    /// Makes a queue pair, which is not initialised.
    pub(super) fn queue_pair(
        &self,
        kind: ibv_qp_type,
        capacity: ibv_qp_cap,
    ) -> Result<(Owned<ibv_qp>, ibv_qp_cap), Error> {
        let functions = self.device.library().functions();
        // SAFETY: zero is a value of every field.
        let mut attributes: ibv_qp_init_attr = unsafe { zeroed() };
        attributes.send_cq = self.device.completions.raw();
        attributes.recv_cq = self.device.completions.raw();
        if kind == IBV_QPT_RC {
            attributes.srq = self.device.receives.raw();
        }
        attributes.cap = capacity;
        attributes.qp_type = kind;
        // SAFETY: the device is open, and its queues are destroyed later.
        let object = unsafe {
            let pair = (functions.create_qp)(self.device.domain.raw(), &raw mut attributes);
            Owned::new("make a queue pair", pair, functions.destroy_qp).map_err(explain)?
        };
        Ok((object, attributes.cap))
    }

    fn capacity(&self, inline_bytes: u32) -> ibv_qp_cap {
        ibv_qp_cap {
            max_send_wr: (self.sizes.send_room + MARKERS_MAX) as u32,
            max_recv_wr: 0,
            max_send_sge: PARTS_MAX as u32,
            max_recv_sge: 0,
            max_inline_data: inline_bytes,
        }
    }

    /// The number of bytes that can be copied into a request, at most `wished`. Devices do not
    /// report the limit, but refuse larger queue pairs.
    pub(super) fn inline_bytes(&self, wished: u32) -> Result<u32, Error> {
        let mut bytes = wished;
        loop {
            match self.queue_pair(IBV_QPT_RC, self.capacity(bytes)) {
                Ok((_, granted)) => return Ok(granted.max_inline_data.min(wished)),
                Err(error) if bytes == 0 => return Err(error),
                Err(_) => bytes /= 2,
            }
        }
    }

    /// Makes a queue pair for a peer.
    pub(super) fn pair(
        &self,
        id: PairId,
        peer: PeerAddress,
        generation: u32,
    ) -> Result<Pair, Error> {
        let psn = random::number_24()?;
        let (object, _) = self.queue_pair(IBV_QPT_RC, self.capacity(self.inline_bytes))?;
        // SAFETY: zero is a value of every field.
        let mut attributes: ibv_qp_attr = unsafe { zeroed() };
        attributes.qp_state = IBV_QPS_INIT;
        attributes.port_num = self.port.number;
        attributes.qp_access_flags =
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
        let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        let library = self.device.library();
        modify(
            library,
            &object,
            "prepare a queue pair",
            &mut attributes,
            mask,
        )?;
        // SAFETY: the queue pair is open.
        let qpn = unsafe { (*object.raw()).qp_num };
        Ok(Pair {
            object,
            id,
            peer: Some(peer),
            offer: Offer {
                generation,
                qpn,
                psn,
            },
            queue: SendQueue::new(self.sizes.send_room),
            state: PairState::Fresh,
            failure: None,
            seen: 0,
            is_marked: false,
            half: None,
        })
    }
}

/// Adds the usual reasons to an error.
fn explain(error: Error) -> Error {
    match error.errno() {
        libc::ENOMEM => error.with_remedy(
            "the device has no more queue pairs, of all processes together (refrain info --verbs), \
             less memory may be locked than is needed (ulimit -l), or the cgroup allows no more \
             (rdma.max)",
        ),
        _ => error,
    }
}

impl Pair {
    #[inline]
    pub(super) fn raw(&self) -> *mut ibv_qp {
        self.object.raw()
    }

    /// Connects the queue pair to one of the peer, ready to receive and to send.
    pub(super) fn bind(
        &mut self,
        library: &Library,
        port: &LocalPort,
        retry: &Retry,
        theirs: &Offer,
        contact: &Contact,
    ) -> Result<(), Error> {
        // SAFETY: zero is a value of every field.
        let mut attributes: ibv_qp_attr = unsafe { zeroed() };
        attributes.qp_state = IBV_QPS_RTR;
        attributes.ah_attr = port.route_to(&contact.gid, contact.lid);
        attributes.path_mtu = ibv_mtu::from(port.contact.mtu.min(contact.mtu));
        attributes.dest_qp_num = theirs.qpn;
        attributes.rq_psn = theirs.psn;
        attributes.max_dest_rd_atomic = port.contact.reads_served.min(contact.reads_asked).max(1);
        attributes.min_rnr_timer = retry.receiver_timer;
        let mask = IBV_QP_STATE
            | IBV_QP_AV
            | IBV_QP_PATH_MTU
            | IBV_QP_DEST_QPN
            | IBV_QP_RQ_PSN
            | IBV_QP_MAX_DEST_RD_ATOMIC
            | IBV_QP_MIN_RNR_TIMER;
        modify(
            library,
            &self.object,
            "bind a queue pair to one of the peer",
            &mut attributes,
            mask,
        )?;
        self.make_ready_to_send(library, port, retry, contact)?;
        self.state = PairState::Bound;
        Ok(())
    }

    fn make_ready_to_send(
        &self,
        library: &Library,
        port: &LocalPort,
        retry: &Retry,
        contact: &Contact,
    ) -> Result<(), Error> {
        // SAFETY: zero is a value of every field.
        let mut attributes: ibv_qp_attr = unsafe { zeroed() };
        attributes.qp_state = IBV_QPS_RTS;
        attributes.timeout = retry.timeout;
        attributes.retry_cnt = retry.count;
        attributes.rnr_retry = retry.receiver_count;
        attributes.sq_psn = self.offer.psn;
        attributes.max_rd_atomic = port.contact.reads_asked.min(contact.reads_served).max(1);
        let mask = IBV_QP_STATE
            | IBV_QP_TIMEOUT
            | IBV_QP_RETRY_CNT
            | IBV_QP_RNR_RETRY
            | IBV_QP_SQ_PSN
            | IBV_QP_MAX_QP_RD_ATOMIC;
        modify(
            library,
            &self.object,
            "make a queue pair ready to send",
            &mut attributes,
            mask,
        )
    }

    /// Stops the queue pair: it receives and sends nothing from now on.
    pub(super) fn stop(&mut self, library: &Library, now: Duration) {
        if matches!(self.state, PairState::Draining { .. }) {
            return;
        }
        // SAFETY: zero is a value of every field.
        let mut attributes: ibv_qp_attr = unsafe { zeroed() };
        attributes.qp_state = IBV_QPS_ERR;
        // If the device refuses, the queue pair is still destroyed later.
        let _ = modify(
            library,
            &self.object,
            "stop a queue pair",
            &mut attributes,
            IBV_QP_STATE,
        );
        self.state = PairState::Draining {
            since: now,
            // A queue pair that was never bound has received nothing.
            is_last: self.state == PairState::Fresh,
        };
    }

    /// Whether all requests have completed, as far as can be known.
    pub(super) fn is_drained(&self, now: Duration, patience: Duration) -> bool {
        match self.state {
            PairState::Draining { since, is_last } => {
                let is_over = self.queue.is_empty() && (is_last || now >= since + patience);
                is_over || now >= since + LONGEST_DRAIN
            }
            _ => false,
        }
    }

    pub(super) fn destroy(self) -> Result<(), Error> {
        self.object.destroy("destroy a queue pair")
    }
}

/// Time after which a queue pair counts as drained in any case.
const LONGEST_DRAIN: Duration = Duration::from_secs(1);

pub(super) fn modify(
    library: &Library,
    pair: &Owned<ibv_qp>,
    attempted: &'static str,
    attributes: &mut ibv_qp_attr,
    mask: u32,
) -> Result<(), Error> {
    // SAFETY: the queue pair is open, and the attributes live during the call.
    let status =
        unsafe { (library.functions().modify_qp)(pair.raw(), &raw mut *attributes, mask as c_int) };
    check(attempted, status)
}
