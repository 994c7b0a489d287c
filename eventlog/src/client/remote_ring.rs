//! Commits by RMA writes into a ring of a logger on another host.

use crate::remote::{RemoteError, RemoteWriter};
use crate::ring::{Cursor, Full};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_ring::Clock;
use std::collections::VecDeque;

/// A batch that was written and is not known to be placed.
#[derive(Debug)]
struct Written {
    /// The place behind it.
    position: Cursor,
    end: EventIndex,
    clock: Clock,
}

#[derive(Debug)]
pub(super) struct RemoteRing {
    pub writer: RemoteWriter,
    written: VecDeque<Written>,
    /// It waits for room, which the logger announces.
    pub is_full: bool,
}

impl RemoteRing {
    /// Writes into the ring that came with a welcome.
    pub fn new(writer: RemoteWriter) -> Self {
        Self {
            writer,
            written: VecDeque::new(),
            is_full: false,
        }
    }

    /// Begins to place a batch, if there is room.
    pub fn write(&mut self, batch: &[u8]) -> Result<Result<(), Full>, RemoteError> {
        let result = self.writer.write(batch)?;
        self.is_full = result.is_err();
        if result.is_ok()
            && let Ok(header) = BatchHeader::peek(batch)
        {
            self.written.push_back(Written {
                position: self.writer.position(),
                end: header.end(),
                clock: header.last_clock,
            });
        }
        Ok(result)
    }

    /// Moves writes along; end and clock of the last batch that was placed since the last
    /// call. EL-1
    pub fn placed(&mut self) -> Result<Option<(EventIndex, Clock)>, RemoteError> {
        let placed = self.writer.poll()?;
        let mut last = None;
        while let Some(batch) = self.written.pop_front_if(|batch| batch.position <= placed) {
            last = Some((batch.end, batch.clock));
        }
        Ok(last)
    }

    /// Whether all that was written is placed.
    pub fn is_placed(&self) -> bool {
        self.written.is_empty()
    }
}
