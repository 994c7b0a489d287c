//! A checkpoint that is read.

use super::contract::{Found, Source};
use crate::error::{CheckpointError, Damaged};
use crate::format::{Flaw, STRIP_BYTES, SectionInfo, SectionKind};
use crate::message::Whole;
use crate::unpacking::{Next, Piece, Unpacking};
use core::fmt;
use core::ops::Range;
use refrain_ring::Incarnation;

/// A whole checkpoint, read section by section, in the order of writing. Every piece is checked
/// again before its bytes are returned.
pub struct Reading {
    whole: Whole,
    source: Box<dyn Source>,
    unpacking: Unpacking,
    strip: Vec<u8>,
    /// Bytes of the strip that were read.
    strip_bytes: usize,
    /// Number of sections that were begun.
    begun: usize,
    /// Range of the present piece in the strip that is not returned yet, and whether more pieces of
    /// its section follow.
    content: Range<usize>,
    goes_on: bool,
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading")
            .field("whole", &self.whole)
            .finish_non_exhaustive()
    }
}

/// A section that is read; its unread bytes are skipped when the next section is read.
#[derive(Debug)]
pub struct Section<'a> {
    info: SectionInfo,
    reading: &'a mut Reading,
}

impl Reading {
    pub(crate) fn new(mut found: Found) -> Result<Self, CheckpointError> {
        let mut strip = vec![0; STRIP_BYTES];
        let strip_bytes = found.source.next_strip(&mut strip)?;
        let name = found.source.name();
        let number = found.whole.header.number;
        let damaged =
            |flaw| CheckpointError::DamagedMeanwhile(Damaged::new(name.clone(), number, 0, flaw));
        let unpacking = Unpacking::new(&strip[..strip_bytes]).map_err(damaged)?;
        if *unpacking.header() != found.whole.header {
            return Err(damaged(Flaw::Header));
        }
        Ok(Self {
            whole: found.whole,
            source: found.source,
            unpacking,
            strip,
            strip_bytes,
            begun: 0,
            content: 0..0,
            goes_on: false,
        })
    }

    /// The number of the checkpoint.
    pub fn number(&self) -> u64 {
        self.whole.header.number
    }

    /// The lowest number that the next checkpoint of the rank may have: it is also above those that
    /// were passed over.
    pub fn next_number(&self) -> u64 {
        let passed = self.whole.passed_over.iter().map(|damaged| damaged.number);
        passed.fold(self.number(), u64::max) + 1
    }

    /// The life that wrote the checkpoint.
    pub fn incarnation(&self) -> Incarnation {
        self.whole.header.incarnation
    }

    /// The length of the checkpoint, in bytes.
    pub fn bytes(&self) -> u64 {
        self.whole.bytes
    }

    /// The sections, in order.
    pub fn sections(&self) -> &[SectionInfo] {
        &self.whole.sections
    }

    /// Newer checkpoints that cannot be used. The caller should report them.
    pub fn passed_over(&self) -> &[Damaged] {
        &self.whole.passed_over
    }

    /// Begins the next section, and skips unread bytes of the one before. `None`: there are no more
    /// sections.
    ///
    /// # Errors
    /// When the checkpoint cannot be read, or has been damaged since it was checked.
    pub fn next_section(&mut self) -> Result<Option<Section<'_>>, CheckpointError> {
        while self.goes_on {
            self.next_piece()?;
        }
        let Some(piece) = self.next_piece()? else {
            return match self.begun == self.whole.sections.len() {
                true => Ok(None),
                false => Err(self.damaged(Flaw::End)),
            };
        };
        let announced = self.whole.sections.get(self.begun).copied();
        let info = announced.filter(|info| info.kind == piece.kind && info.id == piece.id);
        let Some(info) = info else {
            return Err(self.damaged(Flaw::Order));
        };
        self.begun += 1;
        Ok(Some(Section {
            info,
            reading: self,
        }))
    }

    /// Moves to the next piece.
    fn next_piece(&mut self) -> Result<Option<Piece>, CheckpointError> {
        loop {
            let strip = &self.strip[..self.strip_bytes];
            match self.unpacking.next(strip) {
                Err(flaw) => return Err(self.damaged(flaw)),
                Ok(Next::End) => return Ok(None),
                Ok(Next::StripIsOver) => {
                    self.strip_bytes = self.source.next_strip(&mut self.strip)?;
                }
                Ok(Next::Piece(piece)) => {
                    self.content = piece.content.clone();
                    self.goes_on = !piece.is_last;
                    return Ok(Some(piece));
                }
            }
        }
    }

    fn damaged(&self, flaw: Flaw) -> CheckpointError {
        let place = self.unpacking.place();
        let name = self.source.name();
        CheckpointError::DamagedMeanwhile(Damaged::new(name, self.number(), place, flaw))
    }
}

impl Section<'_> {
    /// The kind of the section.
    pub fn kind(&self) -> SectionKind {
        self.info.kind
    }

    /// The id of the section within its kind.
    pub fn id(&self) -> u64 {
        self.info.id
    }

    /// The length of the section, in bytes.
    pub fn bytes(&self) -> u64 {
        self.info.bytes
    }

    /// Reads the bytes that are available, at least one if `into` has room. Returns their number; 0
    /// at the end of the section.
    ///
    /// # Errors
    /// When the checkpoint cannot be read, or has been damaged since it was checked.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, CheckpointError> {
        if into.is_empty() {
            return Ok(0);
        }
        while self.reading.content.is_empty() {
            if !self.reading.goes_on || self.reading.next_piece()?.is_none() {
                return Ok(0);
            }
        }
        let reading = &mut *self.reading;
        let bytes = reading.content.len().min(into.len());
        let start = reading.content.start;
        into[..bytes].copy_from_slice(&reading.strip[start..start + bytes]);
        reading.content.start += bytes;
        Ok(bytes)
    }

    /// Fills all of `into`.
    ///
    /// # Errors
    /// As [`Section::read`]; [`CheckpointError::SectionEnds`] when the section has fewer bytes.
    pub fn read_exact(&mut self, into: &mut [u8]) -> Result<(), CheckpointError> {
        let mut done = 0;
        while done < into.len() {
            match self.read(&mut into[done..])? {
                0 => {
                    return Err(CheckpointError::SectionEnds {
                        kind: self.info.kind.name(),
                        id: self.info.id,
                    });
                }
                bytes => done += bytes,
            }
        }
        Ok(())
    }

    /// Reads all remaining bytes of the section.
    ///
    /// # Errors
    /// As [`Section::read`].
    pub fn read_to_end(&mut self) -> Result<Vec<u8>, CheckpointError> {
        let mut all = Vec::new();
        let mut part = vec![0; STRIP_BYTES.min(self.info.bytes as usize)];
        loop {
            match self.read(&mut part)? {
                0 => return Ok(all),
                bytes => all.extend_from_slice(&part[..bytes]),
            }
        }
    }
}
