//! Peers that die and come back: fencing a life, connecting the next.

use super::giving_up::{ROUND, ROUNDS_MAX};
use super::{Engine, EngineError};
use crate::fabric::Address;
use crate::protocol::Protocol;
use refrain_ring::{Incarnation, Rank};

impl<P: Protocol> Engine<P> {
    /// Fences a peer: nothing of its present incarnation arrives any more, and
    /// it is no fault that what was on its way is lost.
    ///
    /// Messages that have arrived wholly stay, also those that were left in its
    /// log. Those of which a part is lost are void, their matches stay: the
    /// receive waits for the message to be sent again, the horizon does not pass
    /// it. What is sent to the peer from now on goes into the log, and nowhere
    /// else. FENCE-1, REC-7
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn fence(&mut self, peer: Rank) {
        self.lives[peer.index()].fence();
        self.inbox.rescue(peer, &mut *self.fabric);
        self.fabric.disconnect(peer);
        self.outbox.fence(peer);
        self.end_landings_from(peer);
        self.inbox.void(peer, &mut self.requests);
    }

    /// The life of a peer that is connected, if one is.
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn connected(&self, peer: Rank) -> Option<Incarnation> {
        self.lives[peer.index()].connected().map(Incarnation)
    }

    /// Connects a life of a peer, and fences an earlier one. If it is not the
    /// first, or this rank's is not, the two tell each other what they miss, and
    /// each sends it again before anything else. A life that was connected
    /// before, or an earlier one, is ignored. REC-3, REC-6
    ///
    /// # Errors
    /// When it cannot be connected: nothing is then. When the protocol keeps
    /// nothing of what a later life misses.
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn connect(
        &mut self,
        peer: Rank,
        incarnation: Incarnation,
        address: &Address,
    ) -> Result<(), EngineError> {
        if !self.lives[peer.index()].is_news(incarnation.0) {
            return Ok(());
        }
        if self.connected(peer).is_some() {
            self.fence(peer);
        }
        let is_later = incarnation.max(self.options.incarnation) > Incarnation(0);
        if is_later && !self.protocol.keeps_payload() {
            return Err(EngineError::NothingKept {
                peer,
                protocol: self.protocol.name(),
            });
        }
        self.fabric.connect(peer, incarnation, address)?;
        self.lives[peer.index()].connect(incarnation.0);
        let source = &mut self.inbox.sources[peer.index()];
        source.fenced = false;
        let restart = is_later.then(|| source.first_missing());
        self.outbox.connect(peer, restart, source.horizon_told);
        Ok(())
    }

    /// Returns when nothing of a peer that was disconnected is landing here.
    fn end_landings_from(&mut self, peer: Rank) {
        for _ in 0..ROUNDS_MAX {
            if !self.inbox.landings.any_from(peer) {
                return;
            }
            self.progress_later_told();
            self.fabric.wait(ROUND);
        }
        self.close_for(Some(peer));
        while self.inbox.landings.any_from(peer) {
            self.progress_later_told();
        }
    }
}
