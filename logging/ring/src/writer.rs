//! [`ChannelLog`]: the sender's side of one channel's log.
//!
//! [`append`](ChannelLog::append) reserves space, lets the caller pack the payload there, and
//! writes the header. The [`Frame`] that it returns is published when it is posted:
//! a record may be packed while an earlier determinant is not stable (pack now,
//! publish when stable).
//!
//! A reader polls the first word behind the last record. That
//! place may hold old payload, which must never be taken for a record: so the
//! word behind a record is cleared *before* the record is published. A store
//! that misses the cache there would delay the publication behind it, so
//! writers of small records clear some lines ahead, between messages
//! ([`clear_ahead`](ChannelLog::clear_ahead)).

mod lending;

use crate::header::{HEADER_BYTES, LINE_BYTES, payload_offset, record_bytes};
use crate::sync::{Ordering, fence};
use crate::{
    Arena, ArenaFull, CHUNK_BYTES, ChunkId, Frontier, Incarnation, Position, Rank, RecordHeader,
    RecordKind, Region, Ssn,
};
use std::collections::VecDeque;
use thiserror::Error;

/// Bytes of the header at the start of a chunk.
pub(crate) const CHUNK_HEADER_BYTES: usize = LINE_BYTES;
/// Bytes kept free at the end of a chunk for the link to the next.
pub(crate) const LINK_BYTES: usize = LINE_BYTES;
/// Minimum length of a fragment that fills the end of a chunk.
pub(crate) const FRAGMENT_BYTES_MIN: usize = 1024;

/// Bytes that are cleared ahead for small records, and the remainder below which
/// more are cleared.
const AHEAD_BYTES: usize = 4096;
const AHEAD_BYTES_MIN: usize = 1024;

/// Extent of the link at the end of a chunk that the log left before it took another.
pub(crate) const NOWHERE: u64 = u64::MAX;

/// Why a record could not be reserved.
#[derive(Debug, Error)]
pub enum ReserveError {
    /// The channel's window is used up; the channel continues when the receiver has consumed.
    #[error("the channel's window is full")]
    Window,
    /// The rank's log memory is exhausted.
    #[error(transparent)]
    Arena(#[from] ArenaFull),
}

/// Space for one record at the tail.
pub(crate) struct Room {
    pub(crate) offset: usize,
    pub(crate) payload_bytes: usize,
}

/// A packed record that is to be posted.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Position of the record in the channel's log.
    pub position: Position,
    /// Offset of the record in the region.
    pub offset: usize,
    /// Bytes of header, gap and payload from `offset` on.
    pub bytes: usize,
    /// 0: the record is already published.
    pub(crate) first_word: u64,
}

impl Frame {
    /// Bytes of payload, at the end of the frame.
    #[inline]
    pub fn payload_bytes(&self) -> usize {
        match self.bytes {
            0..=LINE_BYTES => self.bytes - HEADER_BYTES,
            bytes => bytes - LINE_BYTES,
        }
    }

    /// The record's header, as it was appended. Only for the rank that wrote it.
    #[cfg(not(loom))]
    #[inline]
    pub fn header(&self, region: &Region) -> Result<RecordHeader, crate::HeaderError> {
        let first_word = match self.first_word {
            0 => region.load_first_word(self.offset),
            first_word => first_word,
        };
        let [a, b, c, d, e] = region.read_header_rest(self.offset);
        RecordHeader::from_words([first_word, a, b, c, d, e])
    }

    /// The published record at `offset`; `None` when its header is invalid.
    #[cfg(not(loom))]
    pub(crate) fn published(
        region: &Region,
        offset: usize,
        position: Position,
    ) -> Option<(Self, RecordHeader)> {
        let mut frame = Self {
            position,
            offset,
            bytes: 0,
            first_word: 0,
        };
        let header = frame.header(region).ok()?;
        let payload_bytes = header.payload_bytes as usize;
        frame.bytes = payload_offset(payload_bytes) + payload_bytes;
        Some((frame, header))
    }

    /// As [`Region::publish`].
    #[inline]
    pub fn publish(&self, region: &Region) {
        region.publish(self);
    }
}

#[derive(Debug)]
pub(crate) struct ChunkEntry {
    pub(crate) chunk: ChunkId,
    /// For each stream, one past the highest SSN with a record in this chunk or an earlier
    /// one.
    pub(crate) ends: Frontier,
    /// Bytes of header and records; 0 while the chunk is being filled.
    pub(crate) used_bytes: usize,
    pub(crate) place: Place,
}

/// Place of the bytes of a complete chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Memory,
    /// In memory, and being written to disk.
    Lent,
    Disk,
}

/// The sender's log of one channel.
#[derive(Debug)]
pub struct ChannelLog {
    source: Rank,
    destination: Rank,
    incarnation: Incarnation,
    /// Chunks from the oldest that is not trimmed to the one being filled.
    chunks: VecDeque<ChunkEntry>,
    /// Number of chunks trimmed so far: the sequence number of `chunks[0]`.
    chunks_trimmed: u64,
    /// For each stream, one past the highest SSN in the trimmed chunks.
    ends_trimmed: Frontier,
    window_chunks: usize,
    /// Whether the last chunk is being filled. If not, the log rests: the next record begins a
    /// chunk.
    is_filling: bool,
    tail: Position,
    tail_offset: usize,
    /// From the tail to this offset in the current chunk, the first words of all lines
    /// are 0.
    cleared_until: usize,
    /// End of the last reservation. If it is beyond the tail, the record was
    /// declined, and its payload may have been written.
    reserved_until: usize,
    /// Sequence number before which all chunks have been lent.
    lent_until: u64,
    /// Number of chunks that are lent.
    lent: usize,
}

impl ChannelLog {
    /// An empty log from `source` to `destination`. It holds at most
    /// `window_bytes` (rounded up to whole chunks, at least two).
    pub fn new(
        source: Rank,
        incarnation: Incarnation,
        destination: Rank,
        window_bytes: u64,
    ) -> Self {
        let window_chunks = usize::try_from(window_bytes.div_ceil(CHUNK_BYTES as u64))
            .unwrap_or(usize::MAX)
            .max(2);
        Self {
            source,
            destination,
            incarnation,
            chunks: VecDeque::new(),
            chunks_trimmed: 0,
            ends_trimmed: Frontier::default(),
            window_chunks,
            is_filling: false,
            tail: Position(0),
            tail_offset: 0,
            cleared_until: 0,
            reserved_until: 0,
            lent_until: 0,
            lent: 0,
        }
    }

    /// Maximum length of the payload of one record.
    pub const PAYLOAD_BYTES_MAX: usize = CHUNK_BYTES - CHUNK_HEADER_BYTES - LINK_BYTES - LINE_BYTES;

    /// Position behind the last record; while the log rests, position of the next one.
    pub fn tail(&self) -> Position {
        self.tail
    }

    /// Position up to which memory has been freed.
    pub fn trimmed(&self) -> Position {
        Position(self.chunks_trimmed * CHUNK_BYTES as u64)
    }

    /// For each stream, one past the highest SSN with a record in the memory that was
    /// freed.
    pub fn ends_trimmed(&self) -> &Frontier {
        &self.ends_trimmed
    }

    /// Sender, receiver and incarnation of the log.
    pub(crate) fn identity(&self) -> (Rank, Rank, Incarnation) {
        (self.source, self.destination, self.incarnation)
    }

    /// One past the sequence number of the chunk being filled.
    #[inline]
    pub fn sequence_end(&self) -> u64 {
        self.chunks_trimmed + self.chunks.len() as u64
    }

    /// Position behind the oldest chunk in memory.
    pub fn first_end(&self) -> Option<Position> {
        let end = Position((self.chunks_trimmed + 1) * CHUNK_BYTES as u64);
        self.first_chunk().map(|_| end)
    }

    /// Bytes of memory that the channel holds.
    pub fn held_bytes(&self) -> u64 {
        self.chunks.len() as u64 * CHUNK_BYTES as u64
    }

    /// Whether the log rests ([`ChannelLog::rest`]) and still holds memory, which it gets back when
    /// its receiver has left it.
    pub fn is_being_left(&self) -> bool {
        !self.is_filling && !self.chunks.is_empty()
    }

    /// The first chunk of the log, while it holds one.
    pub fn first_chunk(&self) -> Option<ChunkId> {
        self.chunks.front().map(|entry| entry.chunk)
    }

    /// Appends a record of up to `payload_bytes_max` bytes of payload, which `fill`
    /// writes. Without `whole` the record may be shorter, so that chunks are filled
    /// to their end: append the rest as a further record. The header's payload length,
    /// incarnation and source are set here. The record becomes visible when its frame
    /// is published; frames are published in order.
    ///
    /// # Errors
    /// When there is no room; the log is then unchanged.
    ///
    /// # Panics
    /// When a whole record is longer than [`Self::PAYLOAD_BYTES_MAX`].
    // Always inlined: returned through memory, the frame would be read again
    // before its stores are forwarded, which costs a small send 15 ns.
    #[inline(always)]
    pub fn append(
        &mut self,
        arena: &mut Arena,
        payload_bytes_max: usize,
        whole: bool,
        header: RecordHeader,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Frame, ReserveError> {
        let mut room = self.reserve(arena, payload_bytes_max, whole)?;
        fill(arena.region().payload_mut(&mut room));
        Ok(self.seal(arena, &room, self.stamp(header, &room)))
    }

    /// As [`ChannelLog::append`], for a record that `fill` may decline: then nothing is appended,
    /// and the bytes that `fill` has written are ignored. `fill` also gets the record's header.
    ///
    /// # Errors
    /// As [`ChannelLog::append`].
    ///
    /// # Panics
    /// As [`ChannelLog::append`].
    pub fn append_if(
        &mut self,
        arena: &mut Arena,
        payload_bytes_max: usize,
        whole: bool,
        header: RecordHeader,
        fill: impl FnOnce(&RecordHeader, &mut [u8]) -> bool,
    ) -> Result<Option<Frame>, ReserveError> {
        let mut room = self.reserve(arena, payload_bytes_max, whole)?;
        let header = self.stamp(header, &room);
        let is_filled = fill(&header, arena.region().payload_mut(&mut room));
        Ok(is_filled.then(|| self.seal(arena, &room, header)))
    }

    #[inline(always)]
    fn reserve(
        &mut self,
        arena: &mut Arena,
        payload_bytes_max: usize,
        whole: bool,
    ) -> Result<Room, ReserveError> {
        let longest = Self::PAYLOAD_BYTES_MAX;
        assert!(
            !whole || payload_bytes_max <= longest,
            "no record holds {payload_bytes_max} bytes"
        );
        let payload_bytes_max = payload_bytes_max.min(longest);
        let room = self.room();
        let payload_bytes = if record_bytes(payload_bytes_max) <= room {
            payload_bytes_max
        } else if !whole && room >= record_bytes(FRAGMENT_BYTES_MIN) {
            room - LINE_BYTES
        } else {
            self.go_to_next_chunk(arena)?;
            payload_bytes_max
        };
        if self.reserved_until != self.tail_offset {
            // An earlier record was declined: its payload lies there.
            self.cleared_until = self.tail_offset + LINE_BYTES;
        }
        let behind = self.tail_offset + record_bytes(payload_bytes);
        if behind >= self.cleared_until {
            // Cleared before this record's own line is touched: stores become visible in
            // order, and a miss between header and publication would leave the
            // reader time to take the half-written line out of the cache.
            arena.region().clear_first_word(behind);
            self.cleared_until = behind + LINE_BYTES;
        }
        self.reserved_until = behind;
        Ok(Room {
            offset: self.tail_offset,
            payload_bytes,
        })
    }

    /// Writes the header of a record whose payload is in place.
    #[inline(always)]
    fn seal(&mut self, arena: &Arena, room: &Room, header: RecordHeader) -> Frame {
        let position = self.tail;
        let [first_word, rest @ ..] = header.words();
        arena.region().write_header_rest(room.offset, &rest);
        let record = record_bytes(room.payload_bytes);
        self.tail = Position(self.tail.0 + record as u64);
        self.tail_offset += record;
        self.reserved_until = self.tail_offset;
        let entry = self.chunks.back_mut().expect("a record lies in a chunk");
        entry.ends.raise_to(header.ssn.next());
        Frame {
            position,
            offset: room.offset,
            bytes: payload_offset(room.payload_bytes) + room.payload_bytes,
            first_word,
        }
    }

    /// Sets the log's identity and the length of the payload.
    #[inline(always)]
    fn stamp(&self, header: RecordHeader, room: &Room) -> RecordHeader {
        RecordHeader {
            payload_bytes: room.payload_bytes as u32,
            incarnation: self.incarnation,
            source: self.source,
            ..header
        }
    }

    /// Clears lines behind the last record, so that the next small records need not do so
    /// while a receiver waits for them. Call it after a post.
    #[inline]
    pub fn clear_ahead(&mut self, arena: &Arena) {
        if self.cleared_until < self.tail_offset + AHEAD_BYTES_MIN {
            self.clear_far_ahead(arena.region());
        }
    }

    fn clear_far_ahead(&mut self, region: &Region) {
        if !self.is_filling {
            // The tail has no place yet.
            return;
        }
        let used = (self.tail.0 % CHUNK_BYTES as u64) as usize;
        let chunk_end = self.tail_offset - used + CHUNK_BYTES;
        let end = chunk_end.min(self.tail_offset + AHEAD_BYTES);
        for line in (self.cleared_until..end).step_by(LINE_BYTES) {
            region.clear_first_word(line);
        }
        self.cleared_until = self.cleared_until.max(end);
    }

    /// Frees whole chunks before `released`, the position up to which
    /// neither the network nor the receiver needs the log.
    pub fn trim_released(&mut self, arena: &mut Arena, released: Position) {
        self.trim_while(arena, |_, end| end <= released);
    }

    /// Frees whole chunks whose messages are all below `horizon`: delivered
    /// before a checkpoint of the receiver that is stable and published. LOG-4
    pub fn trim_below(&mut self, arena: &mut Arena, horizon: &Frontier, released: Position) {
        self.trim_while(arena, |entry, end| {
            end <= released && (entry.place == Place::Disk || entry.ends.is_within(horizon))
        });
    }

    /// Ends the chunk that is being filled, so that it can be freed as every other: until the next
    /// record the log needs no memory. All records must be published, and released by the lane.
    /// `horizon`: the records must also be below it. LOG-4
    ///
    /// Returns the link that ends the chunk, which must be published before the next record. A
    /// receiver that reads the log stops there ([`ReadError::Resting`](crate::ReadError::Resting))
    /// and has to be told the next chunk. `None`: the chunk is needed, or there is none.
    pub fn rest(&mut self, arena: &Arena, horizon: Option<&Frontier>) -> Option<Frame> {
        let used_bytes = (self.tail.0 % CHUNK_BYTES as u64) as usize;
        let (identity, tail) = (self.identity(), self.tail);
        let next = Position(self.sequence_end() * CHUNK_BYTES as u64 + CHUNK_HEADER_BYTES as u64);
        let last = self.chunks.back_mut().filter(|_| self.is_filling)?;
        let is_needed = horizon.is_some_and(|horizon| !last.ends.is_within(horizon));
        // No chunk begins with a link.
        if is_needed || used_bytes == CHUNK_HEADER_BYTES {
            return None;
        }
        last.used_bytes = used_bytes;
        self.is_filling = false;
        self.tail = next;
        let [first_word, rest @ ..] = link(identity, NOWHERE).words();
        arena.region().write_header_rest(self.tail_offset, &rest);
        Some(Frame {
            position: tail,
            offset: self.tail_offset,
            bytes: HEADER_BYTES,
            first_word,
        })
    }

    /// Whether all records of the log are below `horizon`. LOG-4
    pub fn is_below(&self, horizon: &Frontier) -> bool {
        let mut chunks = self.chunks.iter();
        chunks.all(|chunk| chunk.place == Place::Disk || chunk.ends.is_within(horizon))
    }

    /// A chunk that is in memory.
    #[cfg(not(loom))]
    pub(crate) fn entry_of(&self, sequence: u64) -> Option<&ChunkEntry> {
        let at = sequence.checked_sub(self.chunks_trimmed)?;
        self.chunks.get(usize::try_from(at).ok()?)
    }

    fn trim_while(&mut self, arena: &mut Arena, may_free: impl Fn(&ChunkEntry, Position) -> bool) {
        // The chunk being filled stays.
        while self.chunks.len() > usize::from(self.is_filling) {
            let end = Position((self.chunks_trimmed + 1) * CHUNK_BYTES as u64);
            let oldest = &self.chunks[0];
            // A chunk that is being written to disk stays.
            if oldest.place == Place::Lent || !may_free(oldest, end) {
                break;
            }
            arena.give_back(oldest.chunk);
            if let Some(oldest) = self.chunks.pop_front() {
                self.ends_trimmed = oldest.ends;
            }
            self.chunks_trimmed += 1;
        }
        if self.chunks.is_empty() {
            // The memory of the list.
            self.chunks = VecDeque::new();
        }
    }

    /// Whether a record with this payload fits into the current chunk.
    #[inline]
    pub fn has_room(&self, payload_bytes: usize) -> bool {
        record_bytes(payload_bytes) <= self.room()
    }

    /// Maximum bytes of a record in the current chunk.
    #[inline]
    fn room(&self) -> usize {
        if !self.is_filling {
            return 0;
        }
        let used = (self.tail.0 % CHUNK_BYTES as u64) as usize;
        CHUNK_BYTES - LINK_BYTES - used
    }

    #[cold]
    fn go_to_next_chunk(&mut self, arena: &mut Arena) -> Result<(), ReserveError> {
        if self.chunks.len() >= self.window_chunks {
            return Err(ReserveError::Window);
        }
        let next = arena.take()?;
        let start = arena.offset_of(next);
        let sequence = self.sequence_end();
        let region = arena.region();
        begin_chunk(region, start, sequence, self.identity());
        if self.is_filling {
            self.write_link(region, self.tail_offset, next);
            let used_bytes = (self.tail.0 % CHUNK_BYTES as u64) as usize;
            let complete = self.chunks.back_mut().expect("a chunk is being filled");
            complete.used_bytes = used_bytes;
        }
        let before = self.chunks.back().map(|last| &last.ends);
        let ends = before.unwrap_or(&self.ends_trimmed).clone();
        self.is_filling = true;
        self.chunks.push_back(ChunkEntry {
            chunk: next,
            ends,
            used_bytes: 0,
            place: Place::Memory,
        });
        self.tail = Position(sequence * CHUNK_BYTES as u64 + CHUNK_HEADER_BYTES as u64);
        self.tail_offset = start + CHUNK_HEADER_BYTES;
        self.cleared_until = self.tail_offset + LINE_BYTES;
        self.reserved_until = self.tail_offset;
        Ok(())
    }

    /// Writes a link, which is visible at once: a reader reaches it only over all records
    /// before it.
    pub(crate) fn write_link(&self, region: &Region, offset: usize, next: ChunkId) {
        let link = link(self.identity(), u64::from(next.0));
        let [first_word, rest @ ..] = link.words();
        region.write_header_rest(offset, &rest);
        region.publish_first_word(offset, first_word);
    }
}

/// The header of a link to a chunk, or to [`NOWHERE`].
fn link((source, _, incarnation): (Rank, Rank, Incarnation), extent: u64) -> RecordHeader {
    RecordHeader {
        payload_bytes: 0,
        kind: RecordKind::Link,
        flags: 0,
        incarnation,
        source,
        ssn: Ssn(0),
        context: 0,
        tag: 0,
        extent,
    }
}

/// Empties the chunk at `start` and writes its header, for readers after the death of this
/// process (docs/formats/log-format.md). If the process is killed meanwhile, the chunk has no
/// valid header, and never one that describes its earlier contents.
pub(crate) fn begin_chunk(
    region: &Region,
    start: usize,
    sequence: u64,
    (source, destination, incarnation): (Rank, Rank, Incarnation),
) {
    region.clear_first_word(start);
    fence(Ordering::Release);
    region.clear_first_word(start + CHUNK_HEADER_BYTES);
    region.write_header_rest(
        start,
        &[
            sequence,
            u64::from(source.0) | u64::from(destination.0) << 32,
            u64::from(incarnation.0),
            0,
            0,
        ],
    );
    // Removes the words that sealing wrote for the earlier chunk here.
    #[cfg(not(loom))]
    for at in [48, 56] {
        region.store_word(start + at, 0);
    }
    region.publish_first_word(start, CHUNK_MAGIC);
}

/// First word of a chunk in use: "rfrnchk" and the version.
pub(crate) const CHUNK_MAGIC: u64 = u64::from_le_bytes(*b"rfrnchk\x02");
