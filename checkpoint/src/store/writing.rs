//! A checkpoint that is written.

use super::contract::{Sink, Stable};
use crate::error::CheckpointError;
use crate::format::{Header, SectionKind};
use crate::packing::{Packing, empty_strip};
use core::fmt;

/// A checkpoint that is written: sections, one after the other, then
/// [`Writing::commit`]. After an error it is over: nothing of it counts.
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

    /// Which it is.
    pub fn number(&self) -> u64 {
        self.packing.header().number
    }

    /// Begins a section; the one before has ended.
    ///
    /// # Errors
    /// When there is such a section already, or there are too many, or the place
    /// fails.
    pub fn section(&mut self, kind: SectionKind, id: u64) -> Result<(), CheckpointError> {
        let refused = self.packing.section(kind, id, &mut *self.sink)?;
        Ok(refused?)
    }

    /// Appends to the section that was begun last. Bytes are copied; what is full
    /// is written in the background.
    ///
    /// # Errors
    /// When the place fails.
    ///
    /// # Panics
    /// When no section was begun.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        self.packing.write(bytes, &mut *self.sink)
    }

    /// Ends it and makes it stable; then older ones than the one before are
    /// removed (GC-1).
    ///
    /// # Errors
    /// When the place fails: it may be there, or not. The ones before are.
    pub fn commit(mut self) -> Result<Stable, CheckpointError> {
        let bytes = self.packing.end(&mut *self.sink)?;
        self.sink.commit(bytes)
    }
}
