//! The record header, which precedes every payload in the log, on the wire
//! and on disk. Little endian, 48 bytes, the same everywhere.
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 0..4 | `payload_bytes` | bytes of payload in this record |
//! | 4 | `kind` | [`RecordKind`]; never 0, so that the first word of a published record is never 0 |
//! | 5 | `version` | [`RECORD_VERSION`] |
//! | 6..8 | `flags` | [`RecordHeader::WANT_ACK`], [`RecordHeader::REFERENCE`], [`RecordHeader::FIRST`], [`RecordHeader::ATTACHED`] |
//! | 8..12 | `incarnation` | of the sender |
//! | 12..16 | `source` | rank of the sender |
//! | 16..24 | `ssn` | the message: its stream in the upper 12 bits, its number there in the lower 52 |
//! | 24..28 | `context` | communication context |
//! | 28..32 | `tag` | |
//! | 32..40 | `extent` | kinds that begin a message: bytes of the whole message; `Fragment`: its offset in the message; `Link`: id of the next chunk |
//! | 40..48 | `check` | checksum, filled in when the record is spilled; 0 before |
//!
//! The payload follows at [`payload_offset`]; records are multiples of 64 bytes.

use crate::{Incarnation, Rank, Ssn};
use thiserror::Error;

/// Version of the record header. A reader refuses every other.
pub const RECORD_VERSION: u8 = 2;

/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 48;
/// Records start at multiples of this (a cache line).
pub(crate) const LINE_BYTES: usize = 64;
/// The longest payload that shares its header's cache line.
const INLINE_PAYLOAD_BYTES: usize = LINE_BYTES - HEADER_BYTES;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// Begins a message and carries its first (often only) payload bytes; the
    /// rest follows in `Fragment`s without a clear-to-send.
    Eager = 1,
    /// Announces a message; its payload follows in `Fragment`s after the
    /// receiver has cleared it to send.
    Rendezvous = 2,
    /// Further payload of the message `ssn`, at offset `extent`.
    Fragment = 3,
    /// The log continues in chunk `extent`.
    Link = 4,
}

/// A decoded record header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Bytes of payload in this record.
    pub payload_bytes: u32,
    /// The kind of the record.
    pub kind: RecordKind,
    /// [`RecordHeader::WANT_ACK`], [`RecordHeader::REFERENCE`], [`RecordHeader::FIRST`] and
    /// [`RecordHeader::ATTACHED`].
    pub flags: u16,
    /// Incarnation of the sender.
    pub incarnation: Incarnation,
    /// The sender.
    pub source: Rank,
    /// Sequence number of the message.
    pub ssn: Ssn,
    /// Communication context.
    pub context: u32,
    /// Tag.
    pub tag: i32,
    /// Message bytes, fragment offset or chunk id, by `kind`.
    pub extent: u64,
}

/// Why bytes are not a record header of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// Fewer bytes than a header has.
    #[error("record header cut short: {0} of 48 bytes")]
    Short(usize),
    /// Written by another version.
    #[error(
        "record header of version {0}, this program reads version {RECORD_VERSION}: run the same refrain on every rank"
    )]
    Version(u8),
    /// The kind is unknown.
    #[error(
        "record header with unknown kind {0}: the memory or the wire is damaged, or the peer is not refrain"
    )]
    Kind(u8),
    /// The flags are unknown.
    #[error(
        "record header with unknown flags {0:#06x}: the memory or the wire is damaged, or the peer is not refrain"
    )]
    Flags(u16),
    /// The payload would not fit in its message.
    #[error(
        "record header claims {payload_bytes} payload bytes at offset {offset}, which no message and no chunk can hold"
    )]
    Extent {
        /// Claimed payload bytes.
        payload_bytes: u32,
        /// Claimed offset.
        offset: u64,
    },
}

impl RecordHeader {
    /// Bytes of an encoded header.
    pub const BYTES: usize = HEADER_BYTES;
    /// Flag: the sender completes only when the receiver has matched (a
    /// synchronous send).
    pub const WANT_ACK: u16 = 1;
    /// Flag: the record holds a [`Reference`](crate::Reference) to its payload. LOG-6
    pub const REFERENCE: u16 = 2;
    /// Flag: the first message of an internal operation to its receiver. Set where messages may be
    /// left out: a stream goes on with such a message behind a gap. WHOLE-5
    pub const FIRST: u16 = 4;
    /// Flag: the whole message is in the record, and an
    /// [attachment](RecordHeader::detach) stands behind it. CAUSAL-1
    pub const ATTACHED: u16 = 8;
    /// The upper half of the first word of a record that begins a message and has no flags.
    const PLAIN: u64 = RecordKind::Eager as u64 | (RECORD_VERSION as u64) << 8;
    /// The bits of a first word that only links and references have.
    pub(crate) const ELSEWHERE: u64 =
        (RecordKind::Link as u64) << 32 | (Self::REFERENCE as u64) << 48;

    /// The first eight bytes as one little-endian word: the word whose release
    /// store publishes a record.
    #[inline]
    pub fn first_word(&self) -> u64 {
        u64::from(self.payload_bytes)
            | (self.kind as u64) << 32
            | u64::from(RECORD_VERSION) << 40
            | u64::from(self.flags) << 48
    }

    /// Encodes the header.
    #[inline]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        le_bytes(self.words())
    }

    /// The header as six words, in native order.
    #[inline]
    pub(crate) fn words(&self) -> [u64; 6] {
        [
            self.first_word(),
            u64::from(self.incarnation.0) | u64::from(self.source.0) << 32,
            self.ssn.0,
            u64::from(self.context) | u64::from(self.tag.cast_unsigned()) << 32,
            self.extent,
            0,
        ]
    }

    /// Decodes a header from the start of `bytes`.
    ///
    /// # Errors
    /// When the bytes are not a header that this version can have written.
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        let (words, _) = bytes.as_chunks::<8>();
        let words: &[[u8; 8]; 6] = words.first_chunk().ok_or(HeaderError::Short(bytes.len()))?;
        Self::from_words(words.map(u64::from_le_bytes))
    }

    #[inline]
    pub(crate) fn from_words(words: [u64; 6]) -> Result<Self, HeaderError> {
        let [first, identity, ssn, envelope, extent, _check] = words;
        let payload_bytes = first as u32;
        let longest = extent.min(crate::ChannelLog::PAYLOAD_BYTES_MAX as u64);
        // Most records, of which nothing else is to be checked.
        let is_plain = first >> 32 == Self::PLAIN && u64::from(payload_bytes) <= longest;
        let kind = match is_plain {
            true => RecordKind::Eager,
            false => check_other(first, extent)?,
        };
        let flags = (first >> 48) as u16;
        Ok(Self {
            payload_bytes,
            kind,
            flags,
            incarnation: Incarnation(identity as u32),
            source: Rank((identity >> 32) as u32),
            ssn: Ssn(ssn),
            context: envelope as u32,
            tag: ((envelope >> 32) as u32).cast_signed(),
            extent,
        })
    }
}

/// Checks the first word and the extent of a record that may have flags, or another kind.
#[inline(never)]
fn check_other(first: u64, extent: u64) -> Result<RecordKind, HeaderError> {
    let version = (first >> 40) as u8;
    if version != RECORD_VERSION {
        return Err(HeaderError::Version(version));
    }
    let kind = match (first >> 32) as u8 {
        1 => RecordKind::Eager,
        2 => RecordKind::Rendezvous,
        3 => RecordKind::Fragment,
        4 => RecordKind::Link,
        other => return Err(HeaderError::Kind(other)),
    };
    let flags = (first >> 48) as u16;
    let payload_bytes = first as u32;
    if flags & !(RecordHeader::WANT_ACK | RecordHeader::FIRST) != 0 {
        check_rare(flags, kind, payload_bytes, extent)?;
    }
    let fits = match kind {
        RecordKind::Eager => {
            u64::from(payload_bytes) <= extent || flags & RecordHeader::ATTACHED != 0
        }
        RecordKind::Fragment => extent.checked_add(u64::from(payload_bytes)).is_some(),
        RecordKind::Rendezvous | RecordKind::Link => payload_bytes == 0,
    };
    match fits && payload_bytes as usize <= crate::ChannelLog::PAYLOAD_BYTES_MAX {
        true => Ok(kind),
        false => Err(HeaderError::Extent {
            payload_bytes,
            offset: extent,
        }),
    }
}

/// Checks a record with other flags than `WANT_ACK` and `FIRST`.
fn check_rare(
    flags: u16,
    kind: RecordKind,
    payload_bytes: u32,
    extent: u64,
) -> Result<(), HeaderError> {
    let rare = flags & !(RecordHeader::WANT_ACK | RecordHeader::FIRST);
    let is_right = match (rare, kind) {
        (RecordHeader::ATTACHED, RecordKind::Eager) => u64::from(payload_bytes)
            .checked_sub(extent)
            .is_some_and(|bytes| (1..=RecordHeader::ATTACHMENT_BYTES_MAX as u64).contains(&bytes)),
        (RecordHeader::REFERENCE, RecordKind::Eager | RecordKind::Fragment) => {
            payload_bytes as usize == crate::Reference::BYTES
        }
        _ => false,
    };
    match is_right {
        true => Ok(()),
        false => Err(HeaderError::Flags(flags)),
    }
}

/// Words as little-endian bytes.
#[inline]
pub(crate) fn le_bytes<const WORDS: usize, const BYTES: usize>(words: [u64; WORDS]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Offset of the payload in its record: behind the header in the same cache
/// line if it fits, else on the next line, aligned for wide copies.
#[inline]
pub const fn payload_offset(payload_bytes: usize) -> usize {
    if payload_bytes <= INLINE_PAYLOAD_BYTES {
        HEADER_BYTES
    } else {
        LINE_BYTES
    }
}

/// Bytes that a record with this payload takes in the log.
#[inline]
pub const fn record_bytes(payload_bytes: usize) -> usize {
    (payload_offset(payload_bytes) + payload_bytes).next_multiple_of(LINE_BYTES)
}

// No other kind has the bit of a link.
const _: () = assert!(RecordKind::Link as u8 & RecordKind::Fragment as u8 == 0);
const _: () = assert!(record_bytes(0) == 64 && record_bytes(16) == 64 && record_bytes(17) == 128);
const _: () = assert!(record_bytes(64) == 128 && record_bytes(65) == 192);
