//! The rank that writes the log: what it packed, and what the disk has.

use refrain_ring::read_back::DiskChunks;
use refrain_ring::{
    Arena, CHUNK_BYTES, ChannelLog, Frame, Incarnation, LentChunk, LoanEnd, Position, Rank,
    RecordHeader, RecordKind, Ssn, record_bytes,
};
use std::collections::{BTreeMap, VecDeque};

const IDENTITY: (Rank, Rank, Incarnation) = (Rank(3), Rank(5), Incarnation(2));

/// What others write is never looked at.
const HOGGED: RecordHeader = RecordHeader {
    payload_bytes: 0,
    kind: RecordKind::Eager,
    flags: 0,
    incarnation: Incarnation(0),
    source: Rank(0),
    ssn: Ssn(0),
    context: 0,
    tag: 0,
    extent: 1 << 20,
};

/// A record as it must be found.
#[derive(Clone, Debug)]
pub struct Record {
    pub header: RecordHeader,
    pub payload: Vec<u8>,
    pub position: Position,
}

impl Record {
    pub fn end(&self) -> Position {
        Position(self.position.0 + record_bytes(self.payload.len()) as u64)
    }
}

/// Chunks on disk: what is in them, and where their messages end.
#[derive(Default)]
pub struct Disk {
    chunks: BTreeMap<u64, (Ssn, Vec<u8>)>,
    next_token: u64,
    /// Reads under way: token and chunk.
    pub reads: Vec<(u64, u64)>,
}

impl Disk {
    /// A chunk is gone, for no reason.
    pub fn lose(&mut self, sequence: u64) {
        self.chunks.remove(&sequence);
    }

    pub fn bytes(&self, sequence: u64) -> Option<Vec<u8>> {
        self.chunks.get(&sequence).map(|(_, bytes)| bytes.clone())
    }
}

impl DiskChunks for Disk {
    fn find(&self, ssn: Ssn) -> Option<u64> {
        let mut chunks = self.chunks.iter();
        chunks.find(|(_, (end, _))| *end > ssn).map(|(at, _)| *at)
    }

    fn begin_read(&mut self, sequence: u64) -> Option<u64> {
        self.chunks.contains_key(&sequence).then(|| {
            self.next_token += 1;
            self.reads.push((self.next_token, sequence));
            self.next_token
        })
    }
}

pub struct Writer {
    pub log: ChannelLog,
    pub arena: Arena,
    pub disk: Disk,
    pub horizon: Ssn,
    pub records: Vec<Record>,
    packed: VecDeque<Frame>,
    announced: VecDeque<Ssn>,
    lent: VecDeque<LentChunk>,
    next_ssn: Ssn,
    hog: ChannelLog,
}

impl Writer {
    pub fn new(arena_chunks: usize, window_chunks: u64) -> Self {
        let (source, destination, incarnation) = IDENTITY;
        let window_bytes = window_chunks * CHUNK_BYTES as u64;
        Self {
            log: ChannelLog::new(source, incarnation, destination, window_bytes),
            arena: Arena::heap(arena_chunks * CHUNK_BYTES),
            disk: Disk::default(),
            horizon: Ssn(0),
            records: Vec::new(),
            packed: VecDeque::new(),
            announced: VecDeque::new(),
            lent: VecDeque::new(),
            next_ssn: Ssn(0),
            hog: ChannelLog::new(source, incarnation, Rank(9), u64::MAX),
        }
    }

    /// A message that a receiver may miss: one that no horizon covers.
    pub fn from(&self, any: u64) -> Ssn {
        let range = self.next_ssn.0 + 1 - self.horizon.0;
        Ssn(self.horizon.0 + any % range)
    }

    /// All records before are published.
    pub fn posted(&self) -> Position {
        let waiting = self.packed.front();
        waiting.map_or(self.log.tail(), |frame| frame.position)
    }

    /// The published records from a message on.
    pub fn published_from(&self, from: Ssn) -> impl Iterator<Item = &Record> {
        let posted = self.posted();
        let records = self.records.iter();
        records.filter(move |record| record.header.ssn >= from && record.position < posted)
    }

    pub fn send(&mut self, bytes: usize, announced: bool) {
        let ssn = self.next_ssn;
        let kind = match announced {
            true => RecordKind::Rendezvous,
            false => RecordKind::Eager,
        };
        let now = if announced { 0 } else { bytes };
        if self.pack(ssn, kind, now) {
            self.next_ssn = ssn.next();
            if announced {
                self.announced.push_back(ssn);
            }
        }
    }

    pub fn send_rest(&mut self) {
        let Some(ssn) = self.announced.front().copied() else {
            return;
        };
        if self.pack(ssn, RecordKind::Fragment, 20_000) {
            self.announced.pop_front();
        }
    }

    fn pack(&mut self, ssn: Ssn, kind: RecordKind, bytes: usize) -> bool {
        let seed = self.records.len() as u64;
        let fill = (0..bytes as u64).map(|at| (at * 31 + seed * 7 + (at >> 8)) as u8);
        let payload: Vec<u8> = fill.collect();
        let (source, _, incarnation) = IDENTITY;
        let header = RecordHeader {
            payload_bytes: bytes as u32,
            kind,
            flags: 0,
            incarnation,
            source,
            ssn,
            context: 9,
            tag: seed as i32,
            extent: bytes as u64,
        };
        let fill = |place: &mut [u8]| place.copy_from_slice(&payload);
        let Ok(frame) = self.log.append(&mut self.arena, bytes, true, header, fill) else {
            return false;
        };
        self.packed.push_back(frame);
        self.records.push(Record {
            header,
            payload,
            position: frame.position,
        });
        true
    }

    pub fn publish(&mut self, records: usize) {
        for frame in self.packed.drain(..records.min(self.packed.len())) {
            frame.publish(self.arena.region());
        }
    }

    pub fn lend(&mut self) {
        let posted = self.posted();
        self.lent.extend(self.log.lend(&self.arena, posted));
    }

    pub fn take_back(&mut self, on_disk: bool) {
        let Some(mut chunk) = self.lent.pop_front() else {
            return;
        };
        let end = if on_disk {
            chunk.seal(7);
            let written = (chunk.ssn_end(), chunk.bytes().to_vec());
            if chunk.ssn_end() > self.horizon {
                self.disk.chunks.insert(chunk.sequence(), written);
            }
            LoanEnd::OnDisk
        } else {
            LoanEnd::InMemory
        };
        self.log.take_back(&chunk, end);
    }

    pub fn move_horizon(&mut self, messages: u64) {
        let published = self.published_from(Ssn(0)).last();
        let end = published.map_or(0, |record| record.header.ssn.0);
        // What was announced and is not whole is not delivered.
        let whole = self.announced.front().map_or(end, |ssn| ssn.0);
        self.horizon = Ssn((self.horizon.0 + messages).min(whole).max(self.horizon.0));
        let horizon = self.horizon;
        self.disk.chunks.retain(|_, (end, _)| *end > horizon);
    }

    pub fn trim(&mut self, free: Option<Position>) {
        let free = free.unwrap_or(Position(u64::MAX)).min(self.posted());
        self.log.trim_below(&mut self.arena, self.horizon, free);
    }

    pub fn hog(&mut self, chunks: usize) {
        for _ in 0..chunks {
            // Where others were: nothing may be read there any more.
            let fill = |place: &mut [u8]| place.fill(0xee);
            let taken = (self.hog).append(&mut self.arena, 200_000, true, HOGGED, fill);
            if taken.is_err() {
                return;
            }
        }
    }

    /// All but one.
    pub fn unhog(&mut self) {
        let end = self.hog.tail();
        self.hog.trim_released(&mut self.arena, end);
    }

    pub fn verify_nothing_leaks(&self) {
        let held = self.log.held_bytes() + self.hog.held_bytes();
        assert_eq!(self.arena.used_bytes(), held, "memory is lost");
    }
}
