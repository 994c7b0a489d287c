//! Buffers that are given back early, and the end.
//!
//! Memory that a fabric may still write to is never given back: where payload
//! is landing in a receive's buffer the landing ends first.

use super::buffer::ReceiveBuffer;
use super::request::{RequestId, RequestKind, RequestState};
use super::{Engine, EngineError};
use crate::protocol::Protocol;
use core::time::Duration;
use refrain_ring::Rank;

/// Most rounds of waiting for a landing to end by itself. A device tries again for
/// up to 20 s where the wire is cut.
const ROUNDS_MAX: u32 = 30_000;
/// The longest that a round waits.
const ROUND: Duration = Duration::from_millis(1);

impl<P: Protocol> Engine<P> {
    /// Gives a request's buffer back now, whatever its state. A send continues
    /// from a copy; the message of a receive is dropped. Where payload is being
    /// written into the buffer by a peer's device this waits for its end, makes
    /// progress meanwhile, and as a last resort closes the fabric.
    ///
    /// A receive that exists is cancelled first, which is an operation of the
    /// clock. That of a send is none: which sends are requests at all is timing.
    pub fn detach(&mut self, id: RequestId) {
        let kind = self.requests.get(id).map(|request| request.kind);
        if kind == Some(RequestKind::Receive) {
            self.cancel(id);
        }
        let Some(request) = self.requests.get_mut(id) else {
            return;
        };
        request.detached = true;
        match &mut request.state {
            RequestState::Sending(sending) => {
                let packed_bytes = sending.packed_bytes;
                sending.buffer.detach(packed_bytes);
            }
            RequestState::Receiving(receiving) => {
                // Nothing new begins to land there.
                receiving.buffer = ReceiveBuffer::nowhere();
                if receiving.landings > 0 {
                    self.end_landings(|engine| engine.inbox.landings.source_of(id));
                }
            }
            RequestState::Done(_) => self.retire(id),
            RequestState::Operating => {}
        }
    }

    /// Returns when no peer is landing payload any more, as `landing` tells: waits for the
    /// end, makes progress meanwhile, and as a last resort closes the fabric. What has
    /// arrived then can still be received.
    #[cold]
    pub(super) fn end_landings(&mut self, landing: impl Fn(&Self) -> Option<Rank>) {
        for _ in 0..ROUNDS_MAX {
            if landing(self).is_none() {
                return;
            }
            self.progress_deferring_errors();
            self.fabric.wait(ROUND);
        }
        self.inbox.rescue_all(&mut *self.fabric);
        self.closed_for = landing(self);
        self.fabric.close();
        while landing(self).is_some() {
            self.progress_deferring_errors();
        }
    }

    /// Progress whose error the next [`Engine::progress`] returns.
    fn progress_deferring_errors(&mut self) {
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

    /// One error at a time, peers that were given up last.
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
