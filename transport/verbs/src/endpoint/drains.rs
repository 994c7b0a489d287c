//! The end of queue pairs: stop, drain, destroy.
//!
//! A queue pair is destroyed when all its requests have completed: its send queue is empty, and the
//! device has reported that it takes no more receives (`IBV_EVENT_QP_LAST_WQE_REACHED`). Some
//! devices do not report that; then a fixed time must pass. The number of the queue pair is
//! forgotten when all its completions are handled.

use super::failure::told;
use super::send_queue::Role;
use super::work_request::{PairId, WorkRequest};
use super::{Open, PeerAddress};
use crate::Error;
use core::time::Duration;
use std::time::Instant;

/// Time for a device to report that a queue pair takes no more receives.
const PATIENCE: Duration = Duration::from_millis(50);
/// As [`PATIENCE`], while a caller waits.
const SHORT_PATIENCE: Duration = Duration::from_millis(5);
/// The longest wait of a caller.
const WAIT_MAX: Duration = Duration::from_secs(2);

impl Open {
    /// Destroys the queue pairs that are drained.
    pub(super) fn destroy_drained(&mut self, now: Duration) -> Result<(), Error> {
        let drained = self.drained(|pair| pair.is_drained(now, PATIENCE));
        drained.into_iter().try_for_each(|id| self.destroy(id))
    }

    fn drained(&self, is_so: impl Fn(&super::pair::Pair) -> bool) -> Vec<PairId> {
        let pairs = self.pairs.iter().filter(|pair| is_so(pair));
        pairs.map(|pair| pair.id).collect()
    }

    /// Destroys a queue pair, after all its completions are handled.
    fn destroy(&mut self, id: PairId) -> Result<(), Error> {
        self.read_ahead()?;
        self.settle(id);
        let Some(mut pair) = self.pairs.take(id) else {
            return Ok(());
        };
        let number = pair.offer.qpn;
        // Requests that have not completed by now never will.
        let error = Error::completed(
            "complete an operation",
            "the connection was given up, and the device never reported its result".to_owned(),
            libc::ECANCELED,
        );
        while let Some(entry) = pair.queue.give_up() {
            self.in_flight -= usize::from(entry.role != Role::Marker);
            self.progress
                .ready
                .extend(told(entry, pair.peer, Some(error.clone())));
        }
        pair.destroy()?;
        // Another queue pair may get its number, so no completion of it may be left.
        self.read_ahead()?;
        self.settle_number(id, Some(number));
        Ok(())
    }

    /// Handles the completions of one queue pair that were read ahead.
    fn settle(&mut self, id: PairId) {
        let number = self.pairs.get(id).map(|pair| pair.offer.qpn);
        self.settle_number(id, number);
    }

    fn settle_number(&mut self, id: PairId, number: Option<u32>) {
        let mut told = core::mem::take(&mut self.progress.ready);
        for completion in core::mem::take(&mut self.progress.read_ahead) {
            let is_its = match WorkRequest::decode(completion.wr_id) {
                WorkRequest::Send(of, _) => of == id,
                WorkRequest::Receive(_) => Some(completion.qp_num) == number,
                _ => false,
            };
            match is_its {
                true => self.completed(&completion, &mut told),
                false => self.progress.read_ahead.push(completion),
            }
        }
        self.progress.ready = told;
    }

    /// See [`super::Endpoint::remove`].
    pub(super) fn remove(&mut self, address: PeerAddress) -> Result<(), Error> {
        self.unknown_clients.remove(address);
        let gone = self.peers.take(address).ok_or_else(|| {
            Error::invalid(
                "remove a peer",
                "it was removed before, or belongs to another endpoint",
            )
        })?;
        self.progress.ready.retain(|one| one.peer != Some(address));
        let of_it = |pair: &&mut super::pair::Pair| pair.peer == Some(address);
        let mut ids = Vec::new();
        for pair in self.pairs.iter_mut().filter(of_it) {
            pair.peer = None;
            ids.push(pair.id);
        }
        if let Some(id) = gone.pair {
            self.give_up(id);
        }
        self.wait_for(&ids)?;
        ids.into_iter().try_for_each(|id| self.destroy(id))
    }

    /// Waits until these queue pairs are drained, or the time is over.
    pub(super) fn wait_for(&mut self, ids: &[PairId]) -> Result<(), Error> {
        let began = Instant::now();
        loop {
            self.read_ahead()?;
            self.read_events()?;
            ids.iter().for_each(|id| self.settle(*id));
            let now = self.clock.elapsed();
            let is_left = ids.iter().any(|id| {
                let pair = self.pairs.get(*id);
                pair.is_some_and(|pair| !pair.is_drained(now, SHORT_PATIENCE))
            });
            if !is_left || began.elapsed() > WAIT_MAX {
                return Ok(());
            }
            std::thread::yield_now();
        }
    }
}
