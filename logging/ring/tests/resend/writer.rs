//! The rank that writes the log, with the packed records and the chunks on disk.

use refrain_ring::read_back::DiskChunks;
use refrain_ring::{
    Arena, CHUNK_BYTES, ChannelLog, Frame, Frontier, Incarnation, LentChunk, LoanEnd, Position,
    Rank, RecordHeader, RecordKind, Ssn, Stream, record_bytes,
};
use std::collections::{BTreeMap, VecDeque};

const IDENTITY: (Rank, Rank, Incarnation) = (Rank(3), Rank(5), Incarnation(2));

/// The records of other users are never read.
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

/// An expected record.
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

/// Chunks on disk, with their contents and the ends of their messages.
#[derive(Default)]
pub struct Disk {
    chunks: BTreeMap<u64, (Frontier, Vec<u8>)>,
    next_token: u64,
    /// Reads under way: token and chunk.
    pub reads: Vec<(u64, u64)>,
}

impl Disk {
    /// Removes a chunk though it is needed.
    pub fn lose(&mut self, sequence: u64) {
        self.chunks.remove(&sequence);
    }

    pub fn bytes(&self, sequence: u64) -> Option<Vec<u8>> {
        self.chunks.get(&sequence).map(|(_, bytes)| bytes.clone())
    }
}

impl DiskChunks for Disk {
    fn find(&self, from: &Frontier) -> Option<u64> {
        let mut chunks = self.chunks.iter();
        let found = chunks.find(|(_, (ends, _))| !ends.is_within(from));
        found.map(|(at, _)| *at)
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
    pub horizon: Frontier,
    pub records: Vec<Record>,
    packed: VecDeque<Frame>,
    announced: VecDeque<Ssn>,
    lent: VecDeque<LentChunk>,
    next: Frontier,
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
            horizon: Frontier::default(),
            records: Vec::new(),
            packed: VecDeque::new(),
            announced: VecDeque::new(),
            lent: VecDeque::new(),
            next: Frontier::default(),
            hog: ChannelLog::new(source, incarnation, Rank(9), u64::MAX),
        }
    }

    /// What a receiver may miss: from a message of each stream on that no horizon
    /// covers.
    pub fn from(&self, any: u64) -> Frontier {
        let mut from = self.horizon.clone();
        for (place, next) in self.next.all().enumerate() {
            let horizon = self.horizon.of(next.stream());
            let range = next.0 + 1 - horizon.0;
            from.raise_to(Ssn(horizon.0 + (any >> place) % range));
        }
        from
    }

    /// All records before are published.
    pub fn posted(&self) -> Position {
        let waiting = self.packed.front();
        waiting.map_or(self.log.tail(), |frame| frame.position)
    }

    /// The published records from a message on.
    pub fn published_from(&self, from: &Frontier) -> impl Iterator<Item = &Record> {
        let posted = self.posted();
        let records = self.records.iter();
        records.filter(move |it| !from.is_beyond(it.header.ssn) && it.position < posted)
    }

    pub fn send(&mut self, stream: Stream, bytes: usize, announced: bool) {
        let ssn = self.next.of(stream);
        let kind = match announced {
            true => RecordKind::Rendezvous,
            false => RecordKind::Eager,
        };
        let now = if announced { 0 } else { bytes };
        if self.pack(ssn, kind, now) {
            self.next.raise_to(ssn.next());
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
            let written = (chunk.ends().clone(), chunk.bytes().to_vec());
            if !chunk.ends().is_within(&self.horizon) {
                self.disk.chunks.insert(chunk.sequence(), written);
            }
            LoanEnd::OnDisk
        } else {
            LoanEnd::InMemory
        };
        self.log.take_back(&chunk, end);
    }

    pub fn move_horizon(&mut self, stream: Stream, messages: u64) {
        let from = Frontier::default();
        let of_stream = |ssn: &Ssn| ssn.stream() == stream;
        let published = self.published_from(&from).map(|it| it.header.ssn);
        let end = published.filter(of_stream).last();
        let end = end.unwrap_or(Ssn::first(stream));
        // An announced message that is not complete is not delivered.
        let whole = self.announced.iter().copied().find(of_stream);
        let covered = Ssn(self.horizon.of(stream).0 + messages);
        self.horizon.raise_to(covered.min(whole.unwrap_or(end)));
        let horizon = &self.horizon;
        self.disk
            .chunks
            .retain(|_, (ends, _)| !ends.is_within(horizon));
    }

    pub fn trim(&mut self, free: Option<Position>) {
        let free = free.unwrap_or(Position(u64::MAX)).min(self.posted());
        self.log.trim_below(&mut self.arena, &self.horizon, free);
    }

    pub fn hog(&mut self, chunks: usize) {
        for _ in 0..chunks {
            // Memory of freed chunks: nothing may be read there any more.
            let fill = |place: &mut [u8]| place.fill(0xee);
            let taken = (self.hog).append(&mut self.arena, 200_000, true, HOGGED, fill);
            if taken.is_err() {
                return;
            }
        }
    }

    /// Returns all chunks except one.
    pub fn unhog(&mut self) {
        let end = self.hog.tail();
        self.hog.trim_released(&mut self.arena, end);
    }

    pub fn verify_nothing_leaks(&self) {
        let held = self.log.held_bytes() + self.hog.held_bytes();
        assert_eq!(self.arena.used_bytes(), held, "memory is lost");
    }
}
