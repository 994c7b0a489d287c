//! The oracle's view of one channel: which records were packed, published and
//! read, which must still be there, and how far the log may be trimmed.

use super::{Memory, lure};
use refrain_ring::{
    CHUNK_BYTES, ChannelLog, ChannelReader, ChunkId, Frame, Frontier, Position, Rank, ReadError,
    RecordHeader, RecordKind, ReserveError, Ssn, payload_offset, record_bytes,
};
use std::collections::VecDeque;

const LINE_BYTES: usize = 64;
/// Room of a chunk that may be left unused when a record could be cut to fit:
/// a fragment of 1 KiB and its header.
const CUT_BYTES_MIN: usize = 1024 + LINE_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One record.
    Whole,
    /// One record or more.
    Eager,
    /// Announced now, its fragments packed later, behind younger messages.
    Rendezvous,
}

#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub kind: Kind,
    pub bytes: usize,
}

/// What frees a channel's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trim {
    /// The receiver has released it.
    Released,
    /// That, and a checkpoint of the receiver covers its messages.
    Horizon,
}

/// A message that is being packed.
struct Packing {
    ssn: Ssn,
    kind: Kind,
    bytes: usize,
    /// Bytes packed; none before the first record.
    packed: Option<usize>,
}

/// An expected record.
#[derive(Clone, Debug)]
struct Expected {
    header: RecordHeader,
    position: Position,
    payload_offset: usize,
    seed: u64,
}

/// One channel's log and reader, with their expected state.
pub struct Channel {
    number: usize,
    trim: Trim,
    window_bytes: u64,
    log: ChannelLog,
    reader: Option<ChannelReader>,
    /// The chunk in which a reader begins that has none.
    named: Option<u32>,
    /// The log rests: its last chunk is not being filled.
    rests: bool,
    /// Where the reader continues when it has come to the end of the chunk that was left.
    left: Option<Position>,
    /// One past the highest SSN in the log.
    ssn_end: Ssn,
    next_ssn: Ssn,
    next_seed: u64,
    packing: Option<Packing>,
    announced: VecDeque<Packing>,
    clears_after_packing: bool,
    packed: VecDeque<(Frame, Expected)>,
    published: VecDeque<Expected>,
    /// Records that are read, and in memory that is not trimmed.
    kept: VecDeque<Expected>,
    /// Of the chunks that are not trimmed: (chunk in the arena, one past the
    /// highest SSN in it or before it).
    chunks: VecDeque<(u32, Ssn)>,
    chunks_trimmed: u64,
    released: Position,
    horizon: Ssn,
}

impl Channel {
    pub fn new(number: usize, window_chunks: u32, first_ssn: u64, trim: Trim) -> Self {
        let window_bytes = u64::from(window_chunks) * CHUNK_BYTES as u64;
        let destination = Rank(number as u32 + 10);
        Self {
            number,
            trim,
            window_bytes,
            log: ChannelLog::new(lure::SOURCE, lure::INCARNATION, destination, window_bytes),
            reader: None,
            named: None,
            rests: true,
            left: None,
            ssn_end: Ssn(0),
            next_ssn: Ssn(first_ssn),
            next_seed: (number as u64) << 32,
            packing: None,
            announced: VecDeque::new(),
            clears_after_packing: false,
            packed: VecDeque::new(),
            published: VecDeque::new(),
            kept: VecDeque::new(),
            chunks: VecDeque::new(),
            chunks_trimmed: 0,
            released: Position(0),
            horizon: Ssn(0),
        }
    }

    /// Whether nothing is left to pack, publish or read.
    pub fn is_idle(&self) -> bool {
        self.packing.is_none()
            && self.announced.is_empty()
            && self.packed.is_empty()
            && self.published.is_empty()
    }

    /// Begins a message, unless one is begun, and packs as much of it as there
    /// is room for.
    pub fn pack(&mut self, memory: &mut Memory, message: Message) {
        if self.packing.is_none() {
            self.packing = Some(Packing {
                ssn: self.next_ssn,
                kind: message.kind,
                bytes: message.bytes,
                packed: None,
            });
            self.next_ssn = self.next_ssn.next();
        }
        self.pack_on(memory);
    }

    /// Continues a message that waits for room, or an announced one.
    pub fn pack_on(&mut self, memory: &mut Memory) {
        self.packing = self.packing.take().or_else(|| self.announced.pop_front());
        while let Some(packing) = &self.packing {
            let announces = packing.kind == Kind::Rendezvous && packing.packed.is_none();
            let left = match packing.packed {
                None if announces => 0,
                packed => packing.bytes - packed.unwrap_or(0),
            };
            let whole = announces || packing.kind == Kind::Whole;
            if !self.append(memory, left, whole, announces) {
                return;
            }
        }
    }

    /// Packs a message that leaves that many lines of the chunk free.
    pub fn pack_to_end(&mut self, memory: &mut Memory, lines: usize) {
        let bytes = self.room().saturating_sub((lines + 1) * LINE_BYTES);
        let kind = Kind::Whole;
        self.pack(memory, Message { kind, bytes });
    }

    /// Writes garbage where the next record goes, and declines it.
    pub fn abandon(&mut self, memory: &mut Memory, bytes: usize) {
        let (room, before) = (self.room(), self.observe(memory));
        let header = lure::header(u64::from(u32::MAX));
        let log = &mut self.log;
        let declined = log.append_if(&mut memory.arena, bytes, false, header, |_, payload| {
            lure::fill(payload, u64::from(u32::MAX));
            false
        });
        let fits = self.fits(room, bytes, false);
        match declined {
            Ok(frame) => assert!(frame.is_none()),
            Err(error) => return self.refused(memory, &error, fits, before),
        }
        if !fits {
            self.begin_chunk(memory, self.log.tail());
        }
        if self.clears_after_packing {
            self.clear_ahead(memory);
        }
    }

    pub fn set_clears_after_packing(&mut self, clears: bool) {
        self.clears_after_packing = clears;
    }

    /// Clears lines, in the chunk that is being filled and nowhere else. What
    /// lies before them is looked at when it is read.
    pub fn clear_ahead(&mut self, memory: &Memory) {
        let chunk = self.chunks.back().map(|(chunk, _)| *chunk);
        let around = memory.around(chunk);
        let before = self.observe(memory);
        self.log.clear_ahead(&memory.arena);
        assert_eq!(before, self.observe(memory), "clearing moves nothing");
        assert!(
            around == memory.around(chunk),
            "cleared beyond chunk {chunk:?}"
        );
    }

    fn fits(&self, room: usize, left: usize, whole: bool) -> bool {
        record_bytes(left) <= room || (!whole && room >= CUT_BYTES_MIN)
    }

    fn refused(&self, memory: &Memory, error: &ReserveError, fits: bool, before: [u64; 5]) {
        assert!(!fits, "{error}, where it fits");
        assert_eq!(before, self.observe(memory), "a refusal changes nothing");
        memory.assert_refused(error, self.log.held_bytes(), self.window_bytes);
    }

    /// The log continued in a further chunk, or began.
    fn begin_chunk(&mut self, memory: &mut Memory, begin: Position) {
        let sequence = self.chunks_trimmed + self.chunks.len() as u64;
        let chunk = memory.taken((self.number, sequence));
        self.chunks.push_back((chunk, self.ssn_end));
        self.rests = false;
        assert!(self.log.held_bytes() <= self.window_bytes);
        let start = sequence * CHUNK_BYTES as u64 + LINE_BYTES as u64;
        assert_eq!(begin, Position(start));
        if self.reader.is_none() || self.left.is_some() {
            self.named.get_or_insert(chunk);
        }
        self.begin_to_read(memory);
    }

    /// A receiver without a reader begins in the chunk that is named to it.
    fn begin_to_read(&mut self, memory: &Memory) {
        if self.reader.is_none()
            && let Some(first) = self.named.take()
        {
            let region = memory.region().clone();
            let reader = ChannelReader::new(region, memory.first_chunk_offset(), ChunkId(first));
            self.reader = Some(reader.expect("the chunk exists"));
        }
    }

    /// Gives back the chunk that is being filled: it does if all records in it are read, released,
    /// and below the horizon.
    pub fn rest(&mut self, memory: &Memory) {
        // The caller's part.
        if !self.packed.is_empty() || !self.published.is_empty() || self.released < self.log.tail()
        {
            return;
        }
        let is_empty = self.log.tail().0 % CHUNK_BYTES as u64 == LINE_BYTES as u64;
        let is_covered = self.trim == Trim::Released || self.ssn_end <= self.horizon;
        let before = self.observe(memory);
        let horizon = Frontier::from(self.horizon);
        let horizon = (self.trim == Trim::Horizon).then_some(&horizon);
        let link = self.log.rest(&memory.arena, horizon);
        let may_rest = !self.rests && !is_empty && is_covered;
        assert_eq!(link.is_some(), may_rest);
        let Some(link) = link else {
            return assert_eq!(before, self.observe(memory));
        };
        link.publish(memory.region());
        assert_eq!(link.position, Position(before[0]));
        let sequence_end = self.chunks_trimmed + self.chunks.len() as u64;
        let next = Position(sequence_end * CHUNK_BYTES as u64 + LINE_BYTES as u64);
        assert_eq!(self.log.tail(), next);
        self.rests = true;
        self.left = Some(next);
    }

    /// Packs the next record of the message being packed; returns whether there was room.
    fn append(&mut self, memory: &mut Memory, left: usize, whole: bool, announces: bool) -> bool {
        let (room, before) = (self.room(), self.observe(memory));
        let fits = self.fits(room, left, whole);
        let seed = self.next_seed;
        // The log itself sets the sender and the payload's length.
        let given = RecordHeader {
            payload_bytes: 12345,
            source: Rank(77),
            incarnation: Default::default(),
            ..self.header_of_next(announces)
        };
        let log = &mut self.log;
        let packed = log.append(&mut memory.arena, left, whole, given, |payload| {
            lure::fill(payload, seed);
        });
        let frame = match packed {
            Ok(frame) => frame,
            Err(error) => {
                self.refused(memory, &error, fits, before);
                return false;
            }
        };
        self.next_seed += 1;
        let position = match fits {
            true => Position(before[0]),
            false => {
                self.begin_chunk(memory, frame.position);
                frame.position
            }
        };
        let payload_bytes = frame.payload_bytes();
        if payload_bytes != left {
            assert!(payload_bytes < left && !whole);
            assert_eq!(self.room(), 0, "a record that is cut fills its chunk");
        }
        let header = RecordHeader {
            payload_bytes: payload_bytes as u32,
            ..self.header_of_next(announces)
        };
        self.go_on_packing(payload_bytes, announces);
        let (chunk, ssn_end) = self.chunks.back_mut().expect("a chunk is held");
        *ssn_end = (*ssn_end).max(header.ssn.next());
        self.ssn_end = *ssn_end;
        assert_eq!(frame.position, position);
        assert_eq!(frame.bytes, payload_offset(payload_bytes) + payload_bytes);
        memory.assert_frame_lies_in(&frame, *chunk);
        let end = position.0 + record_bytes(payload_bytes) as u64;
        assert_eq!(self.log.tail(), Position(end));
        let payload_offset = frame.offset + payload_offset(payload_bytes);
        let expected = Expected {
            header,
            position,
            payload_offset,
            seed,
        };
        self.packed.push_back((frame, expected));
        if self.clears_after_packing {
            self.clear_ahead(memory);
        }
        true
    }

    /// The header of the next record of the message being packed.
    fn header_of_next(&self, announces: bool) -> RecordHeader {
        let packing = self.packing.as_ref().expect("a message is being packed");
        let (kind, extent) = match packing.packed {
            None if announces => (RecordKind::Rendezvous, packing.bytes),
            None => (RecordKind::Eager, packing.bytes),
            Some(offset) => (RecordKind::Fragment, offset),
        };
        RecordHeader {
            payload_bytes: 0,
            kind,
            flags: (packing.ssn.0 % 2) as u16,
            incarnation: lure::INCARNATION,
            source: lure::SOURCE,
            ssn: packing.ssn,
            context: self.number as u32,
            tag: -(packing.bytes as i32),
            extent: extent as u64,
        }
    }

    /// Counts further packed bytes of the message.
    fn go_on_packing(&mut self, payload_bytes: usize, announces: bool) {
        let mut packing = self.packing.take().expect("a message is being packed");
        let packed = packing.packed.unwrap_or(0) + payload_bytes;
        packing.packed = Some(packed);
        if packed < packing.bytes {
            if announces {
                self.announced.push_back(packing);
            } else {
                self.packing = Some(packing);
            }
        }
    }

    /// Publishes the oldest packed records.
    pub fn publish(&mut self, memory: &Memory, records: usize) {
        let records = records.min(self.packed.len());
        for (frame, expected) in self.packed.drain(..records) {
            frame.publish(memory.region());
            self.published.push_back(expected);
        }
    }

    /// Reads up to `records` records: only published ones, as sent.
    pub fn read(&mut self, memory: &Memory, records: usize) {
        for _ in 0..records {
            let Some(reader) = &mut self.reader else {
                return assert!(self.published.is_empty());
            };
            if let Some(next) = self.left.take() {
                // Nothing is published before the link.
                assert!(reader.ready());
                let end = reader.read().expect_err("the chunk is left");
                assert_eq!(end, ReadError::Resting(next));
                self.released = next;
                self.reader = None;
                self.begin_to_read(memory);
                continue;
            }
            let Some(expected) = self.published.pop_front() else {
                let record = reader.read().expect("the log is sound");
                assert!(record.is_none(), "never published: {record:?}");
                return;
            };
            assert!(reader.ready());
            let before = reader.position();
            let record = reader.read().expect("the log is sound");
            let record = record.expect("a published record is seen");
            assert_eq!(record.header, expected.header);
            assert_eq!(record.position, expected.position);
            assert_eq!(record.payload_offset, expected.payload_offset);
            assert!(lure::is_filled(record.payload, expected.seed));
            assert!(record.position >= before, "positions only grow");
            assert!(reader.position() <= self.log.tail());
            self.kept.push_back(expected);
        }
    }

    /// Moves the released position a part (of 255) of the way to the reader's,
    /// from record to record.
    pub fn release(&mut self, part: u8) {
        let Some(reader) = &self.reader else { return };
        let held = self
            .kept
            .partition_point(|kept| kept.position < self.released);
        let index = held + (self.kept.len() - held) * usize::from(part) / 255;
        let position = self.kept.get(index).map(|kept| kept.position);
        self.released = position.unwrap_or(reader.position());
    }

    /// Moves the receiver's checkpoint a part (of 255) of the way to the last
    /// message.
    pub fn checkpoint(&mut self, part: u8) {
        let oldest = self
            .kept
            .front()
            .map_or(self.next_ssn, |kept| kept.header.ssn);
        let horizon = self.horizon.max(oldest);
        let ahead = (self.next_ssn.0.saturating_sub(horizon.0)) * u64::from(part) / 255;
        self.horizon = Ssn(horizon.0 + ahead);
    }

    /// Trims as this channel may; then exactly the chunks that may be free are free.
    pub fn trim(&mut self, memory: &mut Memory) {
        self.assert_kept();
        let trimmed = self.log.trimmed();
        match self.trim {
            Trim::Released => self.log.trim_released(&mut memory.arena, self.released),
            // LOG-4
            Trim::Horizon => {
                self.log
                    .trim_below(&mut memory.arena, &self.horizon.into(), self.released);
            }
        }
        while self.may_free_oldest() {
            memory.given_back((self.number, self.chunks_trimmed));
            self.chunks.pop_front();
            self.chunks_trimmed += 1;
        }
        let expected = Position(self.chunks_trimmed * CHUNK_BYTES as u64);
        assert_eq!(self.log.trimmed(), expected);
        assert!(self.log.trimmed() >= trimmed, "positions only grow");
        assert!(self.log.trimmed() <= self.released);
        memory.assert_used_bytes();
        assert_eq!(
            self.log.first_chunk().map(|chunk| chunk.0),
            self.chunks.front().map(|(chunk, _)| *chunk)
        );
        self.kept.retain(|kept| kept.position >= expected);
    }

    fn may_free_oldest(&self) -> bool {
        let end = Position((self.chunks_trimmed + 1) * CHUNK_BYTES as u64);
        let covered = match (self.trim, self.chunks.front()) {
            (Trim::Horizon, Some((_, ssn_end))) => *ssn_end <= self.horizon,
            _ => true,
        };
        self.chunks.len() > usize::from(!self.rests) && end <= self.released && covered
    }

    /// Records that were read and not trimmed are still there, bit by bit.
    pub fn assert_kept(&self) {
        let Some(reader) = &self.reader else { return };
        for kept in &self.kept {
            let bytes = kept.header.payload_bytes as usize;
            let before = payload_offset(bytes);
            let start = kept.payload_offset - before;
            // SAFETY: the record is not trimmed, and nothing writes meanwhile.
            let record = unsafe { reader.payload_at(start, before + bytes) };
            assert_eq!(
                record[..RecordHeader::BYTES],
                kept.header.encode(),
                "a header in memory is a header on the wire"
            );
            assert!(lure::is_filled(&record[before..], kept.seed));
        }
    }

    /// The state that a refused call could have changed.
    fn observe(&self, memory: &Memory) -> [u64; 5] {
        [
            self.log.tail().0,
            self.log.trimmed().0,
            self.log.held_bytes(),
            self.log
                .first_chunk()
                .map_or(0, |chunk| 1 + u64::from(chunk.0)),
            memory.arena.used_bytes(),
        ]
    }

    /// Room for a record in the current chunk, besides the link at its end.
    fn room(&self) -> usize {
        let used = (self.log.tail().0 % CHUNK_BYTES as u64) as usize;
        if self.rests {
            0
        } else {
            CHUNK_BYTES - LINE_BYTES - used
        }
    }
}
