//! A checkpoint that is written.

use super::contract::{Sink, Stable};
use crate::error::CheckpointError;
use crate::format::{Header, SectionKind};
use crate::packing::{Packing, empty_strip};
use core::fmt;

/// A checkpoint that is being written: its sections in order, then [`Writing::commit`]. After an
/// error the checkpoint never counts.
pub struct Writing {
    packing: Packing,
    sink: Box<dyn Sink>,
}

impl fmt::Debug for Writing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Writing")
            .field(self.packing.header())
            .finish()
    }
}

impl Writing {
    pub(crate) fn new(header: Header, sink: Box<dyn Sink>) -> Self {
        Self {
            packing: Packing::new(header, empty_strip()),
            sink,
        }
    }

    /// The number of the checkpoint.
    pub fn number(&self) -> u64 {
        self.packing.header().number
    }

    /// Begins a section; the section before it ends.
    ///
    /// # Errors
    /// When the checkpoint has such a section already, or too many sections, or the store fails.
    pub fn section(&mut self, kind: SectionKind, id: u64) -> Result<(), CheckpointError> {
        let refused = self.packing.section(kind, id, &mut *self.sink)?;
        Ok(refused?)
    }

    /// Appends to the section that was begun last. Bytes are copied; full strips are written in the
    /// background.
    ///
    /// # Errors
    /// When the store fails.
    ///
    /// # Panics
    /// When no section was begun.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        self.packing.write(bytes, &mut *self.sink)
    }

    /// Ends the checkpoint and makes it stable; then removes checkpoints older than the previous
    /// one (GC-1).
    ///
    /// # Errors
    /// When the store fails: this checkpoint may or may not exist; earlier ones do.
    pub fn commit(mut self) -> Result<Stable, CheckpointError> {
        let bytes = self.packing.end(&mut *self.sink)?;
        self.sink.commit(bytes)
    }
}
