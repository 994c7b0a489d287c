//! Peers that die and come back: fencing a life, connecting the next. FENCE-1, REC-3

use super::lane::Lane;
use super::{Engine, EngineError};
use crate::fabric::Address;
use crate::protocol::Protocol;
use refrain_ring::{Incarnation, Rank, Ssn};

/// The lives of a peer. FENCE-1
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lives {
    is_connected: bool,
    was_connected: bool,
    /// The life that was connected last, if one was. It and earlier lives are not connected any
    /// more. REC-6
    newest: Incarnation,
}

const _: () = assert!(size_of::<Lives>() == 8);

impl Lives {
    pub fn connect(&mut self, incarnation: Incarnation) {
        *self = Self {
            is_connected: true,
            was_connected: true,
            newest: incarnation,
        };
    }

    fn connected(self) -> Option<Incarnation> {
        self.is_connected.then_some(self.newest)
    }

    /// Whether this life may be connected.
    fn accepts(self, incarnation: Incarnation) -> bool {
        !self.was_connected || incarnation > self.newest
    }
}

/// The lives of every rank when an engine starts: in a first life, all peers are connected.
pub(super) fn lives_at_start(size: u32, own: Rank, is_first: bool) -> Vec<Lives> {
    let mut lives = vec![Lives::default(); size as usize];
    for (peer, lives) in (0..).map(Rank).zip(&mut lives) {
        if is_first && peer != own {
            lives.connect(Incarnation(0));
        }
    }
    lives
}

impl<P: Protocol> Engine<P> {
    /// Fences a peer: no frame of its present incarnation arrives any more, and the loss of
    /// messages in transit is not an error.
    ///
    /// Messages that have arrived completely stay, also those that are still in its log. A message
    /// that has arrived in part is void, and its match stays: the receive waits until the message
    /// is sent again, and the horizon does not pass it. Messages to the peer go only into the log
    /// from now on. FENCE-1, REC-7
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn fence(&mut self, peer: Rank) {
        self.lives[peer.index()].is_connected = false;
        self.inbox.rescue(peer, &mut *self.fabric);
        self.fabric.disconnect(peer);
        self.outbox.fence(peer);
        self.end_landings(|engine| engine.inbox.landings.any_from(peer).then_some(peer));
        self.inbox.void(peer, &mut self.requests);
        self.protocol.fenced(peer);
        self.tell_protocols();
    }

    /// The connected life of a peer, if there is one.
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn connected(&self, peer: Rank) -> Option<Incarnation> {
        self.lives[peer.index()].connected()
    }

    /// Connects a life of a peer, and fences an earlier one. If that life or this rank's own is a
    /// later life, each of the two ranks reports which messages it misses, and the other sends them
    /// again before anything else. A life that was connected before, or an earlier one, is ignored.
    /// REC-3, REC-6
    ///
    /// # Errors
    /// When the life cannot be connected: then no life of the peer is. When the protocol does not
    /// keep the messages that a later life misses.
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn connect(
        &mut self,
        peer: Rank,
        incarnation: Incarnation,
        address: &Address,
    ) -> Result<(), EngineError> {
        if !self.lives[peer.index()].accepts(incarnation) {
            return Ok(());
        }
        if self.connected(peer).is_some() {
            self.fence(peer);
        }
        let is_later = incarnation.max(self.options.incarnation) > Incarnation(0);
        if is_later && self.has_stopped_keeping {
            let destination = &mut self.outbox.destinations[peer.index()];
            // It misses nothing: no life of it has got anything. LOG-7
            if !matches!(destination.lane, Lane::Unmet { .. }) {
                return Err(EngineError::StoppedKeeping { peer });
            }
            destination.keeps_until_live = true;
        }
        if is_later && !self.protocol.keeps_payload() {
            return Err(EngineError::NothingKept {
                peer,
                protocol: self.protocol.name(),
            });
        }
        self.fabric.connect(peer, incarnation, address)?;
        self.lives[peer.index()].connect(incarnation);
        let source = &mut self.inbox.sources[peer.index()];
        let restart = source.start_again();
        let restart = is_later.then_some(restart);
        let life = (peer, incarnation);
        self.outbox.connect(life, restart, &source.horizon);
        if is_later && self.outbox.frees_closed {
            self.whole.connected_again.push(peer);
        }
        self.protocol.connected(peer);
        self.tell_protocols();
        Ok(())
    }

    /// Handles a peer's report of the messages that it misses. REC-3
    #[cold]
    pub(super) fn peer_misses(&mut self, peer: Rank, ssn: Ssn, others: u32) {
        let (outbox, mut means) = self.sending();
        match outbox.restart(peer, ssn, others, &mut means) {
            Ok(Some(misses)) => self.note_what_peer_misses(peer, misses),
            Ok(None) => {}
            Err(error) => drop(self.inbox.violation.get_or_insert(error)),
        }
    }
}
