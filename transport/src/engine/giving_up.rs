//! Ways out: buffers that are given back early, the end.
//!
//! Memory that a fabric may still write to is never given back: where payload
//! is landing in a receive's buffer the landing ends first.

use super::buffer::ReceiveBuffer;
use super::request::{RequestId, State};
use super::{Engine, EngineError};
use crate::protocol::Protocol;
use core::time::Duration;
use refrain_ring::Rank;

/// Most rounds of waiting for a landing to end by itself. A device tries again for
/// up to 20 s where the wire is cut.
pub(super) const ROUNDS_MAX: u32 = 30_000;
/// The longest that a round waits.
pub(super) const ROUND: Duration = Duration::from_millis(1);

impl<P: Protocol> Engine<P> {
    /// Gives a request's buffer back now, whatever its state. A send goes on
    /// from a copy; what a receive would get is dropped. Where payload is being
    /// written into the buffer by a peer's device this waits for its end, makes
    /// progress meanwhile, and as a last resort closes the fabric.
    ///
    /// A receive that exists is cancelled first, which is an operation of the
    /// clock. That of a send is none: which sends are requests at all is timing.
    pub fn detach(&mut self, id: RequestId) {
        if self.requests.get(id).is_some_and(|it| it.is_receive) {
            self.cancel(id);
        }
        let Some(request) = self.requests.get_mut(id) else {
            return;
        };
        request.detached = true;
        match &mut request.state {
            State::Sending(sending) => {
                let packed_bytes = sending.packed_bytes;
                sending.buffer.detach(packed_bytes);
            }
            State::Receiving(receiving) => {
                // Nothing new begins to land there.
                receiving.buffer = ReceiveBuffer::nowhere();
                if receiving.landings > 0 {
                    self.end_landings(id);
                }
            }
            State::Done(_) => self.requests.remove(id),
        }
    }

    /// Returns when nothing is written into a receive's buffer any more.
    #[cold]
    fn end_landings(&mut self, id: RequestId) {
        for _ in 0..ROUNDS_MAX {
            self.progress_later_told();
            if !self.is_landing(id) {
                return;
            }
            self.fabric.wait(ROUND);
        }
        self.close_for(self.inbox.landings.source_of(id));
        while self.is_landing(id) {
            self.progress_later_told();
        }
    }

    /// As a last resort. What has arrived is still to be had.
    pub(super) fn close_for(&mut self, peer: Option<Rank>) {
        self.inbox.rescue_all(&mut *self.fabric);
        self.closed_for = peer;
        self.fabric.close();
    }

    fn is_landing(&mut self, id: RequestId) -> bool {
        let receiving = self.requests.receiving(id);
        receiving.is_some_and(|receiving| receiving.landings > 0)
    }

    /// Progress whose failure the next [`Engine::progress`] tells.
    pub(super) fn progress_later_told(&mut self) {
        match self.progress() {
            Ok(_) => {}
            Err(EngineError::PeerLost { peer, .. }) => self.inbox.note_lost(peer),
            Err(error) => drop(self.inbox.violation.get_or_insert(error)),
        }
    }

    /// What went wrong while nothing arrived.
    #[cold]
    pub(super) fn fault(&mut self) -> Result<(), EngineError> {
        self.noted_fault()?;
        match self.closed_for {
            Some(peer) => Err(EngineError::Closed { peer }),
            None => Ok(()),
        }
    }

    /// One thing at a time, peers that were given up last.
    pub(super) fn noted_fault(&mut self) -> Result<(), EngineError> {
        if let Some(error) = self.inbox.violation.take() {
            return Err(error);
        }
        if let Some(peer) = self.inbox.lost.pop() {
            let why = self.fabric.why_lost(peer);
            return Err(EngineError::PeerLost { peer, why });
        }
        Ok(())
    }
}

impl<P: Protocol> Drop for Engine<P> {
    fn drop(&mut self) {
        if !self.inbox.landings.is_empty() {
            self.fabric.close();
            self.inbox.landings.abandon();
        }
    }
}
