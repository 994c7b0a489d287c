//! Answers to requests for determinants, in pieces at the client's pace.

use crate::logbook::{Logbook, ReadError, Ticket};
use crate::message::{FRAME_BYTES_MAX, ToClient};
use crate::store::read::Question;
use crate::store::walk::GroupPosition;
use core::ops::ControlFlow;
use refrain_logging::determinant::batch::{BATCH_BYTES_MAX, BatchHeader};

/// Maximum bytes of batches in one piece.
const PIECE_BYTES: usize = FRAME_BYTES_MAX - 64;
const _: () = assert!(PIECE_BYTES >= BATCH_BYTES_MAX);

/// An answer that is being sent. EL-5
#[derive(Debug)]
pub(super) struct Answer {
    /// The part that is still to be sent.
    pub(super) question: Question,
    pub(super) position: GroupPosition,
    /// The answer begins once this is stored: batches that were placed before the request belong
    /// to the answer.
    pub(super) ready: Ticket,
}

impl Answer {
    /// The next piece, and whether it is the last.
    pub(super) fn piece(&mut self, logbook: &Logbook) -> Result<(ToClient, bool), ReadError> {
        let mut batches = Vec::new();
        let mut is_last = true;
        let mut next = self.question.from;
        let mut each = |batch: &[u8]| {
            if batches.len() + batch.len() > PIECE_BYTES {
                is_last = false;
                return ControlFlow::Break(());
            }
            if let Ok(header) = BatchHeader::peek(batch) {
                next = header.end();
            }
            batches.extend_from_slice(batch);
            ControlFlow::Continue(())
        };
        logbook.read_on(&self.question, &mut self.position, &mut each)?;
        self.question.from = next;
        Ok((ToClient::Events { batches, is_last }, is_last))
    }
}
