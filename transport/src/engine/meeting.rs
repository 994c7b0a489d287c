//! Peers that are introduced when something is to be sent between the two ranks for the first time.
//! Until then a rank does not know the address of the peer, and has no state for it.
//!
//! No message leaves for a peer before it is introduced. So the peers that were introduced to any
//! life of a rank are all to which its lives may have sent messages, or which may have sent to them:
//! a later life exchanges what is missing with these, and only with these. REC-3

use super::Engine;
use super::lane::Lane;
use super::unrecorded::Unrecorded;
use crate::protocol::Protocol;
use refrain_ring::{Incarnation, Rank};

impl<P: Protocol> Engine<P> {
    /// Introduces peers later, by [`Engine::connect`], and not at the start. `met`: those that were
    /// introduced to earlier lives of this rank; `connected`: those whose first lives the fabric has
    /// already connected. The engine must not have done anything yet.
    ///
    /// # Panics
    /// When the job has no such rank.
    #[must_use]
    pub fn with_introductions(mut self, met: &[Rank], connected: &[Rank]) -> Self {
        self.outbox
            .destinations
            .change(|begin| begin.meets_later = true);
        self.lives.fill(super::fencing::Lives::default());
        for peer in met {
            self.outbox.destinations[peer.index()].lane = Lane::Down;
        }
        for peer in connected {
            self.lives[peer.index()].connect(Incarnation(0));
            self.outbox.destinations[peer.index()].lane = Lane::Live;
        }
        if let Some(unrecorded) = &mut self.unrecorded {
            *unrecorded = Unrecorded::new(met.iter().copied());
        }
        self
    }

    /// The next peer to which something waits that has to be introduced first; each is named once.
    #[inline]
    pub fn next_wanted_peer(&mut self) -> Option<Rank> {
        self.outbox.wanted_peers.pop()
    }
}
