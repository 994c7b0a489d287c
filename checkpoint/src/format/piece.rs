//! Pieces of sections, and the end piece.

use super::{Flaw, is_zero, u16_at, u32_at, u64_at};

/// Bytes of a piece's header; pieces begin at multiples of it.
pub const PIECE_HEADER_BYTES: usize = 64;
const MAGIC: [u8; 4] = *b"piec";
/// The kind of the end piece, which makes a checkpoint whole.
const KIND_END: u16 = 0;

const _: () = assert!(4 + 4 + 3 * 8 + 2 * 4 + 2 * 2 + 20 == PIECE_HEADER_BYTES);

/// The header before a piece's content:
///
/// | bytes | field |
/// |---|---|
/// | 0..4 | CRC-32 of the salt and bytes 4 to the end of the content |
/// | 4..8 | magic |
/// | 8..16 | number of the piece, from 0 |
/// | 16..24 | id of the section; at the end: how many sections there are |
/// | 24..32 | bytes of the section before this piece; at the end: bytes of all |
/// | 32..36 | bytes of content |
/// | 36..38 | kind of the section; 0: the end |
/// | 38..40 | 1: the last piece of its section; else 0 |
/// | 40..44 | at the end: CRC-32 of the checksums of all pieces before; else 0 |
/// | 44..64 | 0 |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceHeader {
    /// The number of the piece, from 0.
    pub number: u64,
    /// The id of the section; in the end piece: the number of sections.
    pub id: u64,
    /// Bytes of the section before this piece; in the end piece: bytes of all sections.
    pub before: u64,
    /// Bytes of content.
    pub content_bytes: u32,
    /// The kind of the section; 0: the end piece.
    pub kind: u16,
    /// Whether the section ends with this piece.
    pub is_last: bool,
    /// In the end piece: CRC-32 of the checksums of all pieces.
    pub digest: u32,
}

fn checksum(salt: u64, behind_checksum: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_le_bytes());
    hasher.update(behind_checksum);
    hasher.finalize()
}

impl PieceHeader {
    /// The piece that ends a checkpoint.
    pub fn end(number: u64, sections: u64, bytes: u64, digest: u32) -> Self {
        Self {
            number,
            id: sections,
            before: bytes,
            content_bytes: 0,
            kind: KIND_END,
            is_last: true,
            digest,
        }
    }

    /// Whether this is the end piece.
    pub fn is_end(&self) -> bool {
        self.kind == KIND_END
    }

    /// Bytes of header and content.
    pub fn piece_bytes(&self) -> usize {
        PIECE_HEADER_BYTES + self.content_bytes as usize
    }

    /// Writes the header before the content, which is already there, and returns the checksum.
    ///
    /// # Panics
    /// When `piece` is shorter than the piece.
    pub fn seal(&self, salt: u64, piece: &mut [u8]) -> u32 {
        let piece = &mut piece[..self.piece_bytes()];
        piece[4..8].copy_from_slice(&MAGIC);
        piece[8..16].copy_from_slice(&self.number.to_le_bytes());
        piece[16..24].copy_from_slice(&self.id.to_le_bytes());
        piece[24..32].copy_from_slice(&self.before.to_le_bytes());
        piece[32..36].copy_from_slice(&self.content_bytes.to_le_bytes());
        piece[36..38].copy_from_slice(&self.kind.to_le_bytes());
        piece[38..40].copy_from_slice(&u16::from(self.is_last).to_le_bytes());
        piece[40..44].copy_from_slice(&self.digest.to_le_bytes());
        piece[44..PIECE_HEADER_BYTES].fill(0);
        let checksum = checksum(salt, &piece[4..]);
        piece[..4].copy_from_slice(&checksum.to_le_bytes());
        checksum
    }

    /// Decodes and checks the piece at the beginning of `bytes`; returns it with its checksum.
    ///
    /// # Errors
    /// When the piece is incomplete or damaged.
    pub fn open(salt: u64, bytes: &[u8]) -> Result<(Self, u32), Flaw> {
        let header: &[u8; PIECE_HEADER_BYTES] = bytes.first_chunk().ok_or(Flaw::Short)?;
        let flags = u16_at(header, 38);
        let read = Self {
            number: u64_at(header, 8),
            id: u64_at(header, 16),
            before: u64_at(header, 24),
            content_bytes: u32_at(header, 32),
            kind: u16_at(header, 36),
            is_last: flags == 1,
            digest: u32_at(header, 40),
        };
        let is_sane = header[4..8] == MAGIC && flags <= 1 && is_zero(&header[44..]);
        if !is_sane {
            return Err(Flaw::Piece);
        }
        let piece = bytes.get(..read.piece_bytes()).ok_or(Flaw::Short)?;
        let stored = u32_at(header, 0);
        match checksum(salt, &piece[4..]) == stored {
            true => Ok((read, stored)),
            false => Err(Flaw::Piece),
        }
    }
}
