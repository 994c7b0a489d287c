//! What the logging protocols of ranks tell each other, in pieces on the control lane.

use super::{Engine, EngineError};
use crate::control::{Control, Piece};
use crate::gate::Mark;
use crate::protocol::Protocol;
use refrain_ring::Rank;

impl<P: Protocol> Engine<P> {
    /// Sends what the protocol has to tell those of other ranks. GATE-4
    #[inline]
    pub(super) fn tell_protocols(&mut self) {
        if let Some(first) = self.protocol.next_piece() {
            self.tell_pieces(first);
        }
    }

    #[cold]
    fn tell_pieces(&mut self, first: (Rank, Piece)) {
        let mut next = Some(first);
        while let Some((to, piece)) = next {
            let control = Control::Protocol(piece);
            self.outbox.push_control(to, control, Mark::default());
            next = self.protocol.next_piece();
        }
        // The program may not call the library for long.
        self.post_controls();
    }

    /// Hands a piece of another rank to the protocol, and sends its answer.
    #[cold]
    pub(super) fn protocol_hears(&mut self, from: Rank, piece: &Piece) {
        if let Err(why) = self.protocol.hear(from, &piece.padded()[..piece.count()]) {
            let error = EngineError::StrangePiece { peer: from, why };
            self.inbox.violation.get_or_insert(error);
        }
        self.tell_protocols();
    }
}
