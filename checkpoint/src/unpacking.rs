//! Unpacks strips into sections, with every check. Pure.

use crate::format::{
    Flaw, Header, PAGE_BYTES, PIECE_HEADER_BYTES, PieceHeader, SECTIONS_MAX, STRIP_BYTES,
    SectionInfo, SectionKind, is_zero,
};
use core::ops::Range;
use std::collections::BTreeSet;

/// A piece that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The kind of the section.
    pub kind: SectionKind,
    /// The id of the section.
    pub id: u64,
    /// Whether the section begins with this piece.
    pub is_first: bool,
    /// Whether the section ends with this piece.
    pub is_last: bool,
    /// The range of the content in the strip.
    pub content: Range<usize>,
}

/// The next part of the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A piece.
    Piece(Piece),
    /// The strip has no more pieces; another strip follows.
    StripIsOver,
    /// The checkpoint is whole, and has ended.
    End,
}

/// A checkpoint that is read, strip by strip.
#[derive(Debug)]
pub struct Unpacking {
    header: Header,
    /// Offset of the next piece in its strip.
    at: usize,
    /// Bytes of earlier strips.
    passed: u64,
    next_piece: u64,
    /// Kind, id and bytes so far of the open section.
    open: Option<(SectionKind, u64, u64)>,
    names: BTreeSet<(SectionKind, u64)>,
    content_bytes: u64,
    digest: crc32fast::Hasher,
    is_over: bool,
}

impl Unpacking {
    /// Reads the header, from the first strip.
    ///
    /// # Errors
    /// When the strip has no valid header.
    pub fn new(first_strip: &[u8]) -> Result<Self, Flaw> {
        Ok(Self {
            header: Header::decode(first_strip)?,
            at: PAGE_BYTES,
            passed: 0,
            next_piece: 0,
            open: None,
            names: BTreeSet::new(),
            content_bytes: 0,
            digest: crc32fast::Hasher::new(),
            is_over: false,
        })
    }

    /// The header of the checkpoint.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Whether the end was read: the checkpoint is whole.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Offset of the next piece in the checkpoint, in bytes.
    pub fn place(&self) -> u64 {
        self.passed + self.at as u64
    }

    /// Checks the next piece of a strip; all strips but the last are full. After
    /// [`Next::StripIsOver`], call it with the next strip.
    ///
    /// # Errors
    /// When the piece is damaged; then the checkpoint cannot be read further.
    pub fn next(&mut self, strip: &[u8]) -> Result<Next, Flaw> {
        if self.is_over {
            return Ok(Next::End);
        }
        if self.at == STRIP_BYTES {
            self.passed += STRIP_BYTES as u64;
            self.at = 0;
            return Ok(Next::StripIsOver);
        }
        let rest = strip.get(self.at..).unwrap_or_default();
        let (header, checksum) = PieceHeader::open(self.header.salt, rest)?;
        if header.number != self.next_piece {
            return Err(Flaw::Order);
        }
        if header.is_end() {
            self.end(&header, strip)?;
            return Ok(Next::End);
        }
        let end = header.piece_bytes();
        let room = rest.get(end..end.next_multiple_of(PIECE_HEADER_BYTES));
        if !is_zero(room.ok_or(Flaw::Short)?) {
            return Err(Flaw::Piece);
        }
        let piece = self.piece(&header)?;
        self.digest.update(&checksum.to_le_bytes());
        self.at += end.next_multiple_of(PIECE_HEADER_BYTES);
        Ok(Next::Piece(piece))
    }

    fn piece(&mut self, header: &PieceHeader) -> Result<Piece, Flaw> {
        let kind = SectionKind::try_from(header.kind)?;
        let is_first = self.open.is_none();
        let before = match self.open {
            Some(open) => open,
            None if self.names.len() == SECTIONS_MAX => return Err(Flaw::Sections),
            None if !self.names.insert((kind, header.id)) => return Err(Flaw::Sections),
            None => (kind, header.id, 0),
        };
        // The first piece of a section may be empty: its strip has room only for its header.
        let is_empty = header.content_bytes == 0 && !header.is_last && !is_first;
        if before != (kind, header.id, header.before) || is_empty || header.digest != 0 {
            return Err(Flaw::Order);
        }
        let bytes = u64::from(header.content_bytes);
        self.open = (!header.is_last).then_some((kind, header.id, header.before + bytes));
        self.content_bytes += bytes;
        self.next_piece += 1;
        let start = self.at + PIECE_HEADER_BYTES;
        Ok(Piece {
            kind,
            id: header.id,
            is_first,
            is_last: header.is_last,
            content: start..start + header.content_bytes as usize,
        })
    }

    fn end(&mut self, header: &PieceHeader, strip: &[u8]) -> Result<(), Flaw> {
        let sections = self.names.len() as u64;
        let digest = self.digest.clone().finalize();
        let expected = PieceHeader::end(self.next_piece, sections, self.content_bytes, digest);
        if *header != expected || self.open.is_some() {
            return Err(Flaw::End);
        }
        let behind = self.at + PIECE_HEADER_BYTES;
        let page_end = behind.next_multiple_of(PAGE_BYTES);
        if strip.len() < page_end {
            return Err(Flaw::Short);
        }
        if strip.len() > page_end || !is_zero(&strip[behind..]) {
            return Err(Flaw::Behind);
        }
        self.at = page_end;
        self.is_over = true;
        Ok(())
    }
}

/// Collects the list of sections, piece by piece.
#[derive(Clone, Debug, Default)]
pub struct Sections(Vec<SectionInfo>);

impl Sections {
    /// Adds a piece.
    pub fn add(&mut self, piece: &Piece) {
        if piece.is_first {
            self.0.push(SectionInfo {
                kind: piece.kind,
                id: piece.id,
                bytes: 0,
            });
        }
        if let Some(section) = self.0.last_mut() {
            section.bytes += piece.content.len() as u64;
        }
    }

    /// All sections, in order.
    pub fn into_vec(self) -> Vec<SectionInfo> {
        self.0
    }
}
