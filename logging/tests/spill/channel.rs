//! One channel: its log, and beside it a list of all records ever appended,
//! which knows nothing of chunks but where each record went.

use crate::disk::JOB;
use refrain_ring::chunk::{ChunkReader, ChunkRecord};
use refrain_ring::{
    Arena, ArenaFull, CHUNK_BYTES, ChannelLog, Frame, InMemory, Incarnation, LentChunk, LoanEnd,
    Position, Rank, RecordHeader, RecordKind, ReserveError, Ssn, payload_offset,
};
use std::collections::VecDeque;

pub const SOURCE: Rank = Rank(9);
pub const INCARNATION: Incarnation = Incarnation(3);
const CHUNK: u64 = CHUNK_BYTES as u64;

/// A record as it was appended.
#[derive(Clone, Debug)]
struct Expected {
    header: RecordHeader,
    seed: u64,
    position: Position,
}

/// Place of a complete chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Memory,
    Lent,
    Disk,
}

#[derive(Debug)]
struct Message {
    ssn: Ssn,
    bytes: u64,
    packed_bytes: u64,
}

pub struct Channel {
    pub destination: Rank,
    pub log: ChannelLog,
    window_bytes: u64,
    records: Vec<Expected>,
    /// Frames that are packed and not published.
    frames: VecDeque<(Frame, Ssn)>,
    /// An eager message whose fragments must follow before any other message.
    packing: Option<Message>,
    /// Rendezvous messages whose payload follows later.
    announced: Vec<Message>,
    pub next_ssn: Ssn,
    pub horizon: Ssn,
    released: Position,
    /// Place of each chunk, including chunks that are gone.
    pub places: Vec<Place>,
}

fn fill(payload: &mut [u8], seed: u64) {
    let mut word = seed | 1;
    for bytes in payload.chunks_mut(8) {
        word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
    }
}

fn is_filled(payload: &[u8], seed: u64) -> bool {
    let mut expected = vec![0; payload.len()];
    fill(&mut expected, seed);
    expected == payload
}

impl Channel {
    pub fn new(destination: Rank, window_bytes: u64) -> Self {
        Self {
            destination,
            log: ChannelLog::new(SOURCE, INCARNATION, destination, window_bytes),
            window_bytes,
            records: Vec::new(),
            frames: VecDeque::new(),
            packing: None,
            announced: Vec::new(),
            next_ssn: Ssn(0),
            horizon: Ssn(0),
            released: Position(0),
            places: Vec::new(),
        }
    }

    /// Begins a message; its first record carries as much as fits.
    pub fn send(&mut self, arena: &mut Arena, bytes: u64, is_rendezvous: bool) {
        if self.packing.is_some() {
            return self.pack_on(arena, 0);
        }
        let ssn = self.next_ssn;
        let (kind, first_bytes) = match is_rendezvous {
            true => (RecordKind::Rendezvous, 0),
            false => (RecordKind::Eager, bytes),
        };
        let Some(packed_bytes) = self.append(arena, kind, ssn, bytes, first_bytes) else {
            return;
        };
        self.next_ssn = ssn.next();
        let message = Message {
            ssn,
            bytes,
            packed_bytes,
        };
        if is_rendezvous {
            self.announced.push(message);
        } else if packed_bytes < bytes {
            self.packing = Some(message);
        }
    }

    /// Packs the next fragment of the message that is being packed, or else of one that
    /// was announced.
    pub fn pack_on(&mut self, arena: &mut Arena, which: usize) {
        let (message, is_announced) = match self.packing.take() {
            Some(message) => (message, false),
            None if self.announced.is_empty() => return,
            None => {
                let at = which % self.announced.len();
                (self.announced.remove(at), true)
            }
        };
        let rest = message.bytes - message.packed_bytes;
        let kind = RecordKind::Fragment;
        let more = self
            .append(arena, kind, message.ssn, message.packed_bytes, rest)
            .unwrap_or(0);
        let message = Message {
            packed_bytes: message.packed_bytes + more,
            ..message
        };
        if message.packed_bytes < message.bytes {
            match is_announced {
                true => self.announced.push(message),
                false => self.packing = Some(message),
            }
        }
    }

    /// Appends a record; returns the length of its payload.
    fn append(
        &mut self,
        arena: &mut Arena,
        kind: RecordKind,
        ssn: Ssn,
        extent: u64,
        bytes: u64,
    ) -> Option<u64> {
        let wanted = bytes.min(ChannelLog::PAYLOAD_BYTES_MAX as u64) as usize;
        let seed = (self.records.len() as u64) << 20 | u64::from(self.destination.0);
        let mut header = RecordHeader {
            payload_bytes: 0,
            kind,
            flags: (seed >> 20) as u16 & RecordHeader::WANT_ACK,
            incarnation: INCARNATION,
            source: SOURCE,
            ssn,
            context: seed as u32,
            tag: -(ssn.0 as i32),
            extent,
        };
        let lures = |place: &mut [u8]| fill(place, seed);
        let frame = match self.log.append(arena, wanted, wanted == 0, header, lures) {
            Ok(frame) => frame,
            Err(error) => return self.assert_refused(arena, &error),
        };
        header.payload_bytes = frame.payload_bytes() as u32;
        self.records.push(Expected {
            header,
            seed,
            position: frame.position,
        });
        let sequence = frame.position.0 / CHUNK;
        self.places.resize(sequence as usize + 1, Place::Memory);
        self.frames.push_back((frame, ssn));
        Some(u64::from(header.payload_bytes))
    }

    /// LOG-3: memory is refused only when it is used up.
    fn assert_refused(&self, arena: &Arena, error: &ReserveError) -> Option<u64> {
        match error {
            ReserveError::Window => assert_eq!(self.log.held_bytes(), self.window_bytes),
            ReserveError::Arena(ArenaFull::Budget { budget_bytes }) => {
                assert_eq!(arena.used_bytes(), *budget_bytes);
            }
            ReserveError::Arena(other) => panic!("{other}"),
        }
        None
    }

    pub fn publish(&mut self, arena: &Arena, count: usize) {
        for (frame, _) in self.frames.drain(..count.min(self.frames.len())) {
            frame.publish(arena.region());
        }
    }

    /// Position before which everything is published.
    pub fn posted(&self) -> Position {
        let first = self.frames.front();
        first.map_or(self.log.tail(), |(frame, _)| frame.position)
    }

    /// Moves the receiver on, a part (of 255) of the way.
    pub fn release(&mut self, part: u8) {
        let ahead = self.posted().0 - self.released.0;
        self.released.0 += ahead * u64::from(part) / 255;
    }

    pub fn released(&self) -> Position {
        self.released
    }

    /// The receiver's checkpoint covers more of the completely sent messages. LOG-4
    pub fn checkpoint(&mut self, part: u8) {
        let unfinished = self.packing.iter().chain(&self.announced);
        let unfinished = unfinished.map(|message| message.ssn);
        let unpublished = self.frames.iter().map(|(_, ssn)| *ssn);
        let limit = unfinished.chain(unpublished).min();
        let limit = limit.unwrap_or(self.next_ssn);
        let ahead = limit.0.saturating_sub(self.horizon.0);
        self.horizon.0 += ahead * u64::from(part) / 255;
    }

    /// The receiver needs no more messages.
    pub fn finish(&mut self) {
        self.packing = None;
        self.announced.clear();
        self.release(255);
        self.horizon = self.next_ssn;
    }

    /// The chunk that the log must lend next.
    pub fn next_to_lend(&self, posted: Position) -> Option<u64> {
        let trimmed = self.log.trimmed().0 / CHUNK;
        let complete = self.places.len().saturating_sub(1) as u64;
        (trimmed..complete)
            .find(|sequence| self.places[*sequence as usize] == Place::Memory)
            .filter(|sequence| (sequence + 1) * CHUNK <= posted.0)
    }

    pub fn lend(&mut self, arena: &Arena, posted: Position) -> Option<LentChunk> {
        let expected = self.next_to_lend(posted);
        let chunk = self.log.lend(arena, posted);
        assert_eq!(chunk.as_ref().map(LentChunk::sequence), expected);
        let chunk = chunk?;
        self.places[chunk.sequence() as usize] = Place::Lent;
        assert_eq!(*chunk.ends(), self.ssn_end(chunk.sequence()).into());
        Some(chunk)
    }

    pub fn take_back(&mut self, chunk: &LentChunk, end: LoanEnd, told: LoanEnd) {
        let place = &mut self.places[chunk.sequence() as usize];
        assert_eq!(*place, Place::Lent, "a chunk comes back once");
        *place = match end {
            LoanEnd::OnDisk => Place::Disk,
            LoanEnd::InMemory => Place::Memory,
        };
        self.log.take_back(chunk, told);
    }

    /// Frees all chunks that may be freed, and no others. LOG-4
    pub fn trim(&mut self, arena: &mut Arena, horizon: Ssn, released: Position) {
        let mut trimmed = self.log.trimmed().0 / CHUNK;
        while trimmed + 1 < self.places.len() as u64 {
            let place = self.places[trimmed as usize];
            let is_free = self.ssn_end(trimmed) <= self.horizon || place == Place::Disk;
            if !is_free || place == Place::Lent || (trimmed + 1) * CHUNK > self.released.0 {
                break;
            }
            trimmed += 1;
        }
        self.log.trim_below(arena, &horizon.into(), released);
        assert_eq!(self.log.trimmed(), Position(trimmed * CHUNK));
    }

    /// One past the highest number of a message up to the end of a chunk.
    pub fn ssn_end(&self, sequence: u64) -> Ssn {
        let end = Position((sequence + 1) * CHUNK);
        let before = self.records.iter().filter(|record| record.position < end);
        let highest = before.map(|record| record.header.ssn.next()).max();
        highest.expect("a chunk holds a record")
    }

    /// Checks the log's counters.
    pub fn check_counts(&self) {
        let complete = self.places.len().saturating_sub(1);
        let trimmed = (self.log.trimmed().0 / CHUNK) as usize;
        let count = |place| {
            let in_memory = &self.places[trimmed.min(complete)..complete];
            in_memory.iter().filter(|known| **known == place).count()
        };
        assert_eq!(self.log.lent_chunks(), count(Place::Lent));
        assert_eq!(
            self.log.held_bytes(),
            (self.places.len() - trimmed) as u64 * CHUNK
        );
    }

    /// Checks that the contents in memory are those sent. Returns whether the chunk is missing.
    pub fn check_memory(&self, arena: &Arena, sequence: u64) -> bool {
        let posted = self.posted();
        match self.log.in_memory(arena, sequence, posted) {
            InMemory::Freed => true,
            InMemory::Lent => {
                assert_eq!(self.places[sequence as usize], Place::Lent);
                false
            }
            InMemory::NotYet => panic!("chunk {sequence} was begun"),
            InMemory::Records { bytes, is_whole } => {
                assert_ne!(self.places[sequence as usize], Place::Lent);
                let end = Position((sequence + 1) * CHUNK).min(posted);
                let is_complete = sequence + 1 < self.places.len() as u64;
                let last = self.records_of(sequence, Position(u64::MAX)).count();
                let published = self.records_of(sequence, posted).count();
                assert_eq!(is_whole, is_complete && published == last);
                let reader = ChunkReader::in_memory(bytes);
                self.check_records(sequence, end, reader.expect("a chunk"));
                false
            }
        }
    }

    /// Checks that the contents read from disk are those sent. LOG-2
    pub fn check_disk(&self, sequence: u64, bytes: &[u8]) {
        let reader = ChunkReader::sealed(bytes).expect("a sealed chunk");
        let seal = reader.header().seal.expect("sealed");
        assert_eq!(seal.job, JOB);
        assert_eq!(seal.ssn_end, self.ssn_end(sequence));
        let end = Position((sequence + 1) * CHUNK);
        let numbers = self.records_of(sequence, end);
        let lowest = numbers.map(|record| record.header.ssn).min();
        assert_eq!(Some(seal.ssn_low), lowest);
        self.check_records(sequence, end, reader);
    }

    fn records_of(&self, sequence: u64, end: Position) -> impl Iterator<Item = &Expected> {
        let end = end.min(Position((sequence + 1) * CHUNK));
        self.records
            .iter()
            .filter(move |record| record.position.0 >= sequence * CHUNK && record.position < end)
    }

    fn check_records(&self, sequence: u64, end: Position, mut reader: ChunkReader<'_>) {
        let header = *reader.header();
        assert_eq!(
            (header.sequence, header.source, header.destination),
            (sequence, SOURCE, self.destination)
        );
        assert_eq!(header.incarnation, INCARNATION);
        for expected in self.records_of(sequence, end) {
            let ChunkRecord {
                header,
                payload,
                offset,
            } = reader
                .next_record()
                .expect("an undamaged chunk")
                .unwrap_or_else(|| panic!("chunk {sequence} lacks {expected:?}"));
            assert_eq!(header, expected.header);
            assert_eq!(sequence * CHUNK + offset as u64, expected.position.0);
            assert!(is_filled(payload, expected.seed), "{expected:?}");
        }
        assert!(matches!(reader.next_record(), Ok(None)), "nothing more");
    }

    /// The first record from `index` on, of a message from `from` on, and where
    /// it is in the list.
    pub fn next_record(&self, index: usize, from: Ssn) -> Option<usize> {
        let rest = self.records.iter().enumerate().skip(index);
        let posted = self.posted();
        let mut rest = rest.take_while(|(_, record)| record.position < posted);
        rest.find(|(_, record)| record.header.ssn >= from)
            .map(|(index, _)| index)
    }

    pub fn check_record(&self, index: usize, header: &RecordHeader, payload: &[u8]) {
        let expected = &self.records[index];
        assert_eq!(*header, expected.header);
        assert!(is_filled(payload, expected.seed), "{expected:?}");
    }

    /// Checks the bytes that records take beyond their payload: at most a line, and
    /// the rounding to lines.
    pub fn check_overhead(&self) {
        for record in &self.records {
            let payload_bytes = record.header.payload_bytes as usize;
            assert!(payload_offset(payload_bytes) <= 64);
        }
    }
}
