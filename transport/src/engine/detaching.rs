//! Buffers that are given back early, and the end of the engine.
//!
//! Memory that a fabric may still write to is never given back: a landing in a receive's buffer
//! ends first.

use super::buffer::ReceiveBuffer;
use super::request::{RequestId, RequestKind, RequestState};
use super::{Engine, EngineError};
use crate::protocol::Protocol;
use core::time::Duration;
use refrain_ring::Rank;

/// Maximum number of rounds that wait for a landing to end by itself. A device tries again for up
/// to 20 s if the wire is cut.
const ROUNDS_MAX: u32 = 30_000;
/// Maximum duration of a round.
const ROUND: Duration = Duration::from_millis(1);

impl<P: Protocol> Engine<P> {
    /// Gives a request's buffer back now, whatever its state. A send continues from a copy; the
    /// message of a receive is dropped. While a peer's device writes payload into the buffer, this
    /// waits for the end of the transfer and makes progress; as a last resort it closes the fabric.
    ///
    /// A receive that exists is cancelled first, which is an operation of the clock. Detaching a
    /// send is not one: which sends are requests at all depends on timing.
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
                // No further payload lands in the buffer.
                receiving.buffer = ReceiveBuffer::nowhere();
                if receiving.landings > 0 {
                    self.end_landings(|engine| engine.inbox.landings.source_of(id));
                }
            }
            RequestState::Done(_) => self.retire(id),
            RequestState::Operating => {}
        }
    }

    /// Waits until `landing` returns no peer, and makes progress meanwhile; as a last resort closes
    /// the fabric. Messages that have arrived by then can still be received.
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

    /// Makes progress. The next [`Engine::progress`] returns its error.
    fn progress_deferring_errors(&mut self) {
        match self.progress() {
            Ok(_) => {}
            Err(EngineError::PeerLost { peer, .. }) => self.inbox.note_lost(peer),
            Err(error) => drop(self.inbox.violation.get_or_insert(error)),
        }
    }

    /// Reports a noted error, or that the fabric was closed.
    #[cold]
    pub(super) fn fault(&mut self) -> Result<(), EngineError> {
        self.noted_fault()?;
        match self.closed_for {
            Some(peer) => Err(EngineError::Closed { peer }),
            None => Ok(()),
        }
    }

    /// Reports one noted error at a time, lost peers last.
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
