//! Segment files: chunks of one channel on disk (docs/formats/log-format.md).
//!
//! A file holds the chunks `first_sequence .. first_sequence + slots` of one
//! channel, each in its own slot, so that the place of a chunk follows from its
//! sequence number. A slot that holds another chunk than its own was not written
//! since the file was reused, and counts as empty.

use core::fmt;
use refrain_ring::{CHUNK_BYTES, Incarnation, Rank};
use thiserror::Error;

/// Bytes of a file's header: the unit of disk writes, and the alignment of direct
/// writes.
pub const FILE_HEADER_BYTES: usize = 4096;
/// Bytes of the header that are used.
const MEANING_BYTES: usize = 64;
/// First bytes of a segment file.
const FILE_MAGIC: [u8; 8] = *b"rfrnseg\x01";

/// One direction between two ranks, in one life of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel {
    /// The sender, to which the log belongs.
    pub source: Rank,
    /// The sender's incarnation.
    pub incarnation: Incarnation,
    /// The receiver.
    pub destination: Rank,
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (incarnation {}) to {}",
            self.source, self.incarnation.0, self.destination
        )
    }
}

/// The header of a segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// The job.
    pub job: u64,
    /// The channel.
    pub channel: Channel,
    /// Sequence number of the chunk in slot 0.
    pub first_sequence: u64,
    /// Number of chunks for which the file has room.
    pub slots: u32,
}

/// Why bytes are not the header of a segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FileHeaderError {
    /// Fewer bytes than a header has.
    #[error("the header of the segment file is cut short: {0} of {FILE_HEADER_BYTES} bytes")]
    Short(usize),
    /// Another file, or another version.
    #[error("not a segment file of this version")]
    Magic,
    /// The checksum differs.
    #[error("the header of the segment file does not match its checksum")]
    Check,
    /// Chunks of another length than this program's.
    #[error("a segment file with chunks of {0} bytes, this program's have {CHUNK_BYTES}")]
    ChunkBytes(u32),
    /// The number of slots is outside the limits.
    #[error("a segment file with an invalid number of slots: {0}")]
    Slots(u32),
}

impl FileHeader {
    /// Maximum number of slots of a file.
    pub const SLOTS_MAX: u32 = 1 << 16;

    /// Encodes the header.
    pub fn encode(&self) -> [u8; FILE_HEADER_BYTES] {
        let channel = &self.channel;
        let words = [
            u64::from_le_bytes(FILE_MAGIC),
            self.job,
            u64::from(channel.source.0) | u64::from(channel.destination.0) << 32,
            u64::from(channel.incarnation.0) | (CHUNK_BYTES as u64) << 32,
            self.first_sequence,
            u64::from(self.slots),
            0,
        ];
        let mut bytes = [0; FILE_HEADER_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let check = crc32fast::hash(&bytes[..MEANING_BYTES - 8]);
        bytes[MEANING_BYTES - 8..MEANING_BYTES].copy_from_slice(&u64::from(check).to_le_bytes());
        bytes
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// When the bytes are not a header that this version has written.
    pub fn decode(bytes: &[u8]) -> Result<Self, FileHeaderError> {
        if bytes.len() < FILE_HEADER_BYTES {
            return Err(FileHeaderError::Short(bytes.len()));
        }
        if bytes[..8] != FILE_MAGIC {
            return Err(FileHeaderError::Magic);
        }
        let (words, _) = bytes[..MEANING_BYTES].as_chunks::<8>();
        let word = |at: usize| u64::from_le_bytes(words[at]);
        if word(7) != u64::from(crc32fast::hash(&bytes[..MEANING_BYTES - 8])) || word(6) != 0 {
            return Err(FileHeaderError::Check);
        }
        let chunk_bytes = (word(3) >> 32) as u32;
        if chunk_bytes as usize != CHUNK_BYTES {
            return Err(FileHeaderError::ChunkBytes(chunk_bytes));
        }
        let slots = u32::try_from(word(5)).unwrap_or(u32::MAX);
        if !(1..=Self::SLOTS_MAX).contains(&slots) {
            return Err(FileHeaderError::Slots(slots));
        }
        Ok(Self {
            job: word(1),
            channel: Channel {
                source: Rank(word(2) as u32),
                destination: Rank((word(2) >> 32) as u32),
                incarnation: Incarnation(word(3) as u32),
            },
            first_sequence: word(4),
            slots,
        })
    }

    /// The slot of a chunk, if the file has one for it.
    pub fn slot_of(&self, sequence: u64) -> Option<u32> {
        let slot = sequence.checked_sub(self.first_sequence)?;
        u32::try_from(slot).ok().filter(|slot| *slot < self.slots)
    }

    /// Bytes of the whole file.
    pub fn file_bytes(&self) -> u64 {
        slot_offset(self.slots)
    }

    /// The end of the file's name; the beginning names the job.
    pub fn name(&self) -> String {
        let channel = &self.channel;
        let life = name_of_life(channel.source, channel.incarnation);
        let destination = channel.destination.0;
        format!("{life}to-r{destination}-{:012}.log", self.first_sequence)
    }
}

/// The start of [`FileHeader::name`] that all files of a life have in common.
pub fn name_of_life(source: Rank, incarnation: Incarnation) -> String {
    format!("r{}i{}-", source.0, incarnation.0)
}

/// Offset of a slot in its file, in bytes.
pub fn slot_offset(slot: u32) -> u64 {
    FILE_HEADER_BYTES as u64 + u64::from(slot) * CHUNK_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> FileHeader {
        FileHeader {
            job: u64::MAX - 3,
            channel: Channel {
                source: Rank(70_000),
                incarnation: Incarnation(u32::MAX),
                destination: Rank(3),
            },
            first_sequence: 1 << 40,
            slots: 256,
        }
    }

    #[test]
    fn it_comes_back_and_any_changed_byte_is_found() {
        let bytes = header().encode();
        assert_eq!(FileHeader::decode(&bytes), Ok(header()));
        for at in 0..MEANING_BYTES {
            let mut changed = bytes;
            changed[at] ^= 0x10;
            assert!(FileHeader::decode(&changed).is_err(), "byte {at}");
        }
        assert_eq!(
            FileHeader::decode(&bytes[..100]),
            Err(FileHeaderError::Short(100))
        );
    }

    #[test]
    fn a_chunk_has_one_place() {
        let header = header();
        assert_eq!(header.slot_of((1 << 40) - 1), None);
        assert_eq!(header.slot_of(1 << 40), Some(0));
        assert_eq!(header.slot_of((1 << 40) + 255), Some(255));
        assert_eq!(header.slot_of((1 << 40) + 256), None);
        assert_eq!(header.slot_of(u64::MAX), None);
        assert_eq!(slot_offset(1), 4096 + CHUNK_BYTES as u64);
    }
}
