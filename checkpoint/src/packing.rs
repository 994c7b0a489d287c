//! Packs sections into strips. Pure, except for the receiver of the strips.

use crate::format::{
    Header, PAGE_BYTES, PIECE_HEADER_BYTES, PieceHeader, SECTIONS_MAX, STRIP_BYTES, SectionKind,
};
use refrain_storage::AlignedBuffer;
use std::collections::BTreeSet;
use thiserror::Error;

/// The memory of a strip: [`STRIP_BYTES`] bytes.
pub type Strip = AlignedBuffer;

/// A strip of zeros.
pub fn empty_strip() -> Strip {
    AlignedBuffer::new(STRIP_BYTES)
}

/// Receives full strips, and returns empty ones.
pub trait Strips {
    /// The error of a strip that cannot be taken.
    type Error;

    /// Takes the first `bytes` bytes of a strip, which belong at offset `place`, and replaces it by
    /// a strip for the next bytes, whose contents are undefined.
    ///
    /// # Errors
    /// After an error, no more strips may be given.
    fn exchange(&mut self, place: u64, strip: &mut Strip, bytes: usize) -> Result<(), Self::Error>;
}

/// A section cannot be begun; everything that is already written stays valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SectionRefused {
    /// Another section has the same kind and id.
    #[error("there is a section {kind:?} {id} already: use different ids")]
    Twice {
        /// The kind of the section.
        kind: SectionKind,
        /// The id of the section.
        id: u64,
    },
    /// The checkpoint has too many sections.
    #[error("a checkpoint holds {SECTIONS_MAX} sections at most: put more into one")]
    TooMany,
}

/// The section that is being written.
#[derive(Clone, Copy, Debug)]
struct Open {
    kind: SectionKind,
    id: u64,
    /// Bytes in sealed pieces of the section.
    before: u64,
    /// Offset of the piece in the current strip.
    piece: usize,
}

/// A checkpoint that is being written.
#[derive(Debug)]
pub struct Packing {
    header: Header,
    strip: Strip,
    /// Offset of the strip in the checkpoint.
    place: u64,
    /// Bytes of the strip that are in use.
    used: usize,
    open: Option<Open>,
    next_piece: u64,
    names: BTreeSet<(SectionKind, u64)>,
    content_bytes: u64,
    digest: crc32fast::Hasher,
}

impl Packing {
    /// Begins a checkpoint with its header.
    pub fn new(header: Header, mut strip: Strip) -> Self {
        header.encode(strip.bytes_mut());
        Self {
            header,
            strip,
            place: 0,
            used: PAGE_BYTES,
            open: None,
            next_piece: 0,
            names: BTreeSet::new(),
            content_bytes: 0,
            digest: crc32fast::Hasher::new(),
        }
    }

    /// The header of the checkpoint.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Begins a section; the section before it ends.
    ///
    /// # Errors
    /// Errors of the strips. The inner error: the section is refused; the section before it has
    /// ended then, too.
    pub fn section<S: Strips + ?Sized>(
        &mut self,
        kind: SectionKind,
        id: u64,
        strips: &mut S,
    ) -> Result<Result<(), SectionRefused>, S::Error> {
        self.end_piece(true);
        if self.names.len() == SECTIONS_MAX {
            return Ok(Err(SectionRefused::TooMany));
        }
        if !self.names.insert((kind, id)) {
            return Ok(Err(SectionRefused::Twice { kind, id }));
        }
        let piece = self.room_for_header(strips)?;
        self.open = Some(Open {
            kind,
            id,
            before: 0,
            piece,
        });
        Ok(Ok(()))
    }

    /// Whether a section is open.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Appends to the section that was begun last.
    ///
    /// # Errors
    /// Errors of the strips.
    ///
    /// # Panics
    /// When no section was begun.
    pub fn write<S: Strips + ?Sized>(
        &mut self,
        mut bytes: &[u8],
        strips: &mut S,
    ) -> Result<(), S::Error> {
        assert!(
            self.open.is_some(),
            "a section is begun before it is written"
        );
        while !bytes.is_empty() {
            if self.used == STRIP_BYTES {
                self.next_strip(strips)?;
            }
            let now = bytes.len().min(STRIP_BYTES - self.used);
            let (head, rest) = bytes.split_at(now);
            self.strip.bytes_mut()[self.used..][..now].copy_from_slice(head);
            self.used += now;
            bytes = rest;
        }
        Ok(())
    }

    /// Ends the last section and the checkpoint; returns its length in bytes.
    ///
    /// # Errors
    /// Errors of the strips.
    pub fn end<S: Strips + ?Sized>(mut self, strips: &mut S) -> Result<u64, S::Error> {
        self.end_piece(true);
        let at = self.room_for_header(strips)?;
        let digest = self.digest.clone().finalize();
        let sections = self.names.len() as u64;
        let end = PieceHeader::end(self.next_piece, sections, self.content_bytes, digest);
        end.seal(self.header.salt, &mut self.strip.bytes_mut()[at..]);
        self.fill_up_to(PAGE_BYTES);
        let total = self.place + self.used as u64;
        strips.exchange(self.place, &mut self.strip, self.used)?;
        Ok(total)
    }

    /// Reserves a piece's header, in the next strip if needed; returns its offset in the strip.
    fn room_for_header<S: Strips + ?Sized>(&mut self, strips: &mut S) -> Result<usize, S::Error> {
        if self.used == STRIP_BYTES {
            self.next_strip(strips)?;
        }
        let at = self.used;
        self.used += PIECE_HEADER_BYTES;
        Ok(at)
    }

    /// Continues the open section in a new strip.
    fn next_strip<S: Strips + ?Sized>(&mut self, strips: &mut S) -> Result<(), S::Error> {
        let open = self.end_piece(false);
        strips.exchange(self.place, &mut self.strip, STRIP_BYTES)?;
        self.place += STRIP_BYTES as u64;
        self.used = 0;
        self.open = open.map(|open| {
            self.used = PIECE_HEADER_BYTES;
            Open { piece: 0, ..open }
        });
        Ok(())
    }

    /// Seals the open piece, and returns the state of its section.
    fn end_piece(&mut self, is_last: bool) -> Option<Open> {
        let mut open = self.open.take()?;
        let content_bytes = self.used - open.piece - PIECE_HEADER_BYTES;
        let header = PieceHeader {
            number: self.next_piece,
            id: open.id,
            before: open.before,
            content_bytes: content_bytes as u32,
            kind: open.kind.into(),
            is_last,
            digest: 0,
        };
        let salt = self.header.salt;
        let checksum = header.seal(salt, &mut self.strip.bytes_mut()[open.piece..]);
        self.digest.update(&checksum.to_le_bytes());
        self.next_piece += 1;
        self.content_bytes += content_bytes as u64;
        open.before += content_bytes as u64;
        self.fill_up_to(PIECE_HEADER_BYTES);
        Some(open)
    }

    /// Fills the strip with zeros up to the next multiple of `step`.
    fn fill_up_to(&mut self, step: usize) {
        let end = self.used.next_multiple_of(step);
        self.strip.bytes_mut()[self.used..end].fill(0);
        self.used = end;
    }
}
