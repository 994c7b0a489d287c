//! Channels that are idle and need nothing of their logs: each gives back the last chunk of its log, as
//! many peers may be spoken to one after the other. The next record takes a chunk again.
//!
//! A chunk is given back at slow places only: when a send finds no memory, and when the caller looks
//! for idle channels ([`Engine::rest_idle`]). A receiver that reads the log in place must leave the
//! chunk first, which it does when it polls; until then the chunk is in use.

use super::Engine;
use super::destination::Destination;
use super::lane::Lane;
use super::outbox::{LogMeans, Outbox};
use crate::fabric::Fabric;
use crate::protocol::Protocol;
use refrain_ring::Arena;

impl Destination {
    /// Gives back the last chunk of the log, if no record in it is needed: the lane has released
    /// all, and all are below the horizon if the log keeps its payload. LOG-4
    fn rest(&mut self, fabric: &mut dyn Fabric, arena: &mut Arena) {
        // A lane that catches up reads the log again.
        let is_settled = match self.lane {
            Lane::Live => self.recalled.is_none(),
            Lane::Down => true,
            _ => false,
        };
        if !is_settled
            || !self.has_nothing_waiting()
            || self.released(self.rank, fabric) < self.log.tail()
        {
            return;
        }
        let horizon = self.keeps_payload().then_some(&self.horizon);
        if let Some(link) = self.log.rest(arena, horizon)
            && fabric.leave_chunk(arena.region(), self.rank, &link)
        {
            self.lane_begins = self.log.tail();
        }
        if self.log.is_being_left() {
            self.trim(fabric, arena);
        }
        if self.log.held_bytes() == 0 {
            self.give_back_heap();
        }
    }

    /// Gives back the memory of queues, which are empty.
    fn give_back_heap(&mut self) {
        self.queue.shrink_to_fit();
        self.cleared.shrink_to_fit();
        self.packed.shrink_to_fit();
        self.unanswered.shrink_to_fit();
    }

    /// Whether memory of the log becomes free when the receiver polls: it has to leave a chunk, or
    /// has not released records that nothing else needs.
    fn waits_for_receiver(&mut self, fabric: &mut dyn Fabric) -> bool {
        if !self.lane.is_live() || self.log.held_bytes() == 0 {
            return false;
        }
        self.log.is_being_left()
            || (!self.keeps_payload() || self.log.is_below(&self.horizon))
                && self.released(self.rank, fabric) < self.log.tail()
    }
}

impl Outbox {
    /// Gives back the last chunks of all channels that do not need them, for a channel that needs
    /// memory.
    pub(super) fn rest_all(&mut self, log: &mut LogMeans<'_>) {
        for destination in self.destinations.iter_mut() {
            destination.rest(log.fabric, log.arena);
        }
    }

    /// As [`Outbox::rest_all`], of the channels that have not sent since the last call.
    fn rest_idle(&mut self, log: &mut LogMeans<'_>) {
        for destination in self.destinations.iter_mut() {
            let tail = destination.log.tail();
            if core::mem::replace(&mut destination.tail_seen, tail) == tail {
                destination.rest(log.fabric, log.arena);
            }
        }
    }

    /// Whether memory becomes free when a receiver polls.
    pub(super) fn waits_for_receivers(&mut self, fabric: &mut dyn Fabric) -> bool {
        let mut destinations = self.destinations.iter_mut();
        destinations.any(|destination| destination.waits_for_receiver(fabric))
    }
}

impl<P: Protocol> Engine<P> {
    /// Looks for idle channels if half of the log memory is in use, and gives back the last chunks of
    /// their logs. A channel is idle if it has sent nothing since the last call: call this at times.
    pub fn rest_idle(&mut self) {
        let (used_bytes, budget_bytes) = self.log_bytes();
        if used_bytes >= budget_bytes / 2 {
            let (outbox, mut means) = self.sending();
            outbox.rest_idle(&mut means.log);
        }
    }
}
