//! Completions of the device, and their handling.

#![allow(unsafe_code, reason = "reads the device's completion queue")]

use super::connections::Happening;
use super::failure::told;
use super::pair::PairState;
use super::send_queue::Role;
use super::work_request::{PairId, WorkRequest};
use super::{Open, PeerAddress};
use crate::sys::constants::*;
use crate::sys::inline;
use crate::sys::types::ibv_wc;
use crate::{Error, Kind};
use core::ffi::c_int;
use core::mem::MaybeUninit;

/// Completions read by one call of the device.
const BATCH: usize = 32;
/// Most batches read by one poll: a peer that never pauses must not keep this process in it.
const BATCHES_MAX: usize = 16;
/// Polls between two reads of the clock while nothing is expected.
const POLLS_PER_LOOK: u32 = 64;
/// Polls between two reads of the clock while greetings are in progress or queue pairs are
/// draining.
const POLLS_PER_LOOK_EXPECTING: u32 = 8;

/// The end of an operation.
pub type Completion = refrain_libfabric::native::Completion<PeerAddress, Error>;

impl Open {
    #[inline]
    pub(super) fn poll(&mut self, out: &mut Vec<Completion>) -> Result<(), Error> {
        if !self.progress.ready.is_empty() {
            out.append(&mut self.progress.ready);
        }
        for completion in core::mem::take(&mut self.progress.read_ahead) {
            self.completed(&completion, out);
        }
        let mut completions = [const { MaybeUninit::<ibv_wc>::uninit() }; BATCH];
        for _ in 0..BATCHES_MAX {
            let count = self.read_completions(&mut completions)?;
            for completion in &completions[..count] {
                // SAFETY: the device has written `count` completions.
                let completion = unsafe { completion.assume_init_ref() };
                self.completed(completion, out);
            }
            if count < BATCH {
                break;
            }
        }
        self.receives.post(&self.device, &mut self.counters)?;
        self.progress.polls = self.progress.polls.wrapping_add(1);
        let polls_per_look = match self.is_expecting() {
            true => POLLS_PER_LOOK_EXPECTING,
            false => POLLS_PER_LOOK,
        };
        let has_news = !self.progress.happenings.is_empty() || self.progress.fatal.is_some();
        if has_news || self.progress.polls.is_multiple_of(polls_per_look) {
            self.look()?;
            out.append(&mut self.progress.ready);
        }
        Ok(())
    }

    /// Reads a batch of completions; returns their number.
    #[inline]
    pub(super) fn read_completions(
        &mut self,
        to: &mut [MaybeUninit<ibv_wc>; BATCH],
    ) -> Result<usize, Error> {
        let queue = self.device.completions.raw();
        // SAFETY: the queue is open, and there is room for a batch.
        let count = unsafe { inline::ibv_poll_cq(queue, BATCH as c_int, to.as_mut_ptr().cast()) };
        let count = usize::try_from(count).map_err(|_| {
            Error::invalid("read the completion queue", "the device reports no reason")
        })?;
        self.counters.completions += count as u64;
        Ok(count)
    }

    /// Reads all available completions, to be handled later.
    pub(super) fn read_ahead(&mut self) -> Result<(), Error> {
        let mut completions = [const { MaybeUninit::<ibv_wc>::uninit() }; BATCH];
        for _ in 0..=self.sizes.completions / BATCH {
            let count = self.read_completions(&mut completions)?;
            // SAFETY: the device has written `count` completions.
            let read = completions[..count]
                .iter()
                .map(|one| unsafe { *one.assume_init_ref() });
            self.progress.read_ahead.extend(read);
            if count < BATCH {
                break;
            }
        }
        Ok(())
    }

    #[inline]
    pub(super) fn completed(&mut self, completion: &ibv_wc, out: &mut Vec<Completion>) {
        match WorkRequest::decode(completion.wr_id) {
            WorkRequest::Receive(index) => self.received(completion, index, out),
            WorkRequest::Send(id, sequence) => self.sent(completion, id, sequence, out),
            WorkRequest::GreetingSent(number) => self.datagrams.sent(number, completion.status),
            WorkRequest::GreetingHeard(number) => self.greeted(completion, number),
        }
    }

    #[inline]
    fn received(&mut self, completion: &ibv_wc, index: u32, out: &mut Vec<Completion>) {
        let pair = self
            .pairs
            .by_number(completion.qp_num)
            .and_then(|id| self.pairs.get_mut(id))
            .filter(|pair| pair.state == PairState::Bound);
        // FENCE-1: messages on a stopped queue pair do not count.
        let Some(pair) = pair else {
            let was_message = completion.status == IBV_WC_SUCCESS;
            self.counters.dropped += u64::from(was_message);
            self.receives.again(index);
            return;
        };
        let (id, peer) = (pair.id, pair.peer);
        if completion.status == IBV_WC_WR_FLUSH_ERR {
            self.receives.again(index);
            self.broke(id, completion.status);
            return;
        }
        let Some(token) = self.receives.end(index) else {
            return;
        };
        let outcome = match completion.status {
            IBV_WC_SUCCESS => {
                if !self.is_established(id) {
                    self.progress.happenings.push(Happening::Arrived(id));
                }
                Ok(())
            }
            status => Err(self.broke(id, status).of(Kind::Receive.attempted())),
        };
        out.push(Completion {
            token,
            kind: Kind::Receive,
            bytes: completion.byte_len as usize,
            peer,
            outcome,
        });
    }

    #[inline]
    fn sent(&mut self, completion: &ibv_wc, id: PairId, sequence: u32, out: &mut Vec<Completion>) {
        let failure = match completion.status {
            IBV_WC_SUCCESS => None,
            _ if self.pairs.get(id).is_none() => return,
            status => Some(self.broke(id, status)),
        };
        let Some(pair) = self.pairs.get_mut(id) else {
            return;
        };
        let (peer, is_marked) = (pair.peer, &mut pair.is_marked);
        let in_flight = &mut self.in_flight;
        let mut half = None;
        pair.queue.end(sequence, |entry, is_last| {
            *is_marked &= entry.role != Role::Marker;
            *in_flight -= usize::from(entry.role != Role::Marker);
            let failure = failure.clone().filter(|_| is_last);
            half = failure.clone().filter(|_| entry.role == Role::Half);
            out.extend(told(entry, peer, failure));
        });
        if half.is_some() {
            // The next request is only flushed; it reports this error.
            pair.half = half;
        }
    }

    fn greeted(&mut self, completion: &ibv_wc, number: u32) {
        let bytes = completion.byte_len as usize;
        match self.datagrams.heard(number, completion.status, bytes) {
            Some(greeting) => self.progress.happenings.push(Happening::Heard(greeting)),
            None if completion.status == IBV_WC_SUCCESS => self.counters.greetings_ignored += 1,
            None => {}
        }
    }
}
