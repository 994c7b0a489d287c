//! Builds logs as a rank does, and files as a store does.

use refrain_logging::image::{LogKey, RankMemory};
use refrain_logging::segment::{Channel, FileHeader};
use refrain_ring::{
    Arena, CHUNK_BYTES, ChannelLog, Incarnation, LoanEnd, Position, Rank, RecordHeader, RecordKind,
    Reference, Region, Ssn,
};

pub const JOB: u64 = 0x1234_5678_9abc_def0;

pub fn key(destination: u32) -> LogKey {
    LogKey {
        job: JOB,
        channel: Channel {
            source: Rank(0),
            incarnation: Incarnation(2),
            destination: Rank(destination),
        },
    }
}

/// A record as a test sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub kind: RecordKind,
    pub ssn: u64,
    pub extent: u64,
    pub payload: Vec<u8>,
    pub position: u64,
}

const FRAGMENT: RecordHeader = RecordHeader {
    payload_bytes: 0,
    kind: RecordKind::Fragment,
    flags: 0,
    incarnation: Incarnation(0),
    source: Rank(0),
    ssn: Ssn(0),
    context: 0,
    tag: 0,
    extent: 0,
};

/// A log that is being written.
pub struct Writing {
    pub key: LogKey,
    pub arena: Arena,
    log: ChannelLog,
    pub records: Vec<Written>,
}

impl Writing {
    pub fn new(key: LogKey, chunks: usize) -> Self {
        Self {
            key,
            arena: Arena::heap(chunks * CHUNK_BYTES),
            log: log_of(key),
            records: Vec::new(),
        }
    }

    /// Appends one record. A fragment may be cut; returns the length of the payload written.
    pub fn record(&mut self, kind: RecordKind, ssn: u64, extent: u64, payload: &[u8]) -> usize {
        let whole = kind != RecordKind::Fragment;
        let header = RecordHeader {
            kind,
            ssn: Ssn(ssn),
            context: 7,
            tag: -3,
            extent,
            ..FRAGMENT
        };
        let fill = |place: &mut [u8]| place.copy_from_slice(&payload[..place.len()]);
        let frame = self
            .log
            .append(&mut self.arena, payload.len(), whole, header, fill)
            .expect("room");
        let bytes = frame.payload_bytes();
        frame.publish(self.arena.region());
        self.records.push(Written {
            kind,
            ssn,
            extent,
            payload: payload[..bytes].to_vec(),
            position: frame.position.0,
        });
        bytes
    }

    /// Appends a complete small message.
    pub fn message(&mut self, ssn: u64, payload: &[u8]) {
        self.record(RecordKind::Eager, ssn, payload.len() as u64, payload);
    }

    /// Appends a record that refers to payload elsewhere.
    pub fn reference(&mut self, kind: RecordKind, ssn: u64, extent: u64, reference: &Reference) {
        let header = RecordHeader {
            kind,
            ssn: Ssn(ssn),
            flags: RecordHeader::REFERENCE,
            extent,
            ..FRAGMENT
        };
        let fill = |place: &mut [u8]| place.copy_from_slice(&reference.encode());
        let frame = (self.log).append(&mut self.arena, Reference::BYTES, true, header, fill);
        frame.expect("room").publish(self.arena.region());
    }

    /// Begins a new chunk, which is still empty.
    pub fn end_chunk(&mut self) {
        let longest = ChannelLog::PAYLOAD_BYTES_MAX;
        let arena = &mut self.arena;
        drop(
            self.log
                .append_if(arena, longest, true, FRAGMENT, |_, _| false),
        );
    }

    /// Seals the next `count` complete chunks, or all if there are fewer; returns their
    /// bytes as they are written to disk.
    pub fn seal(&mut self, count: usize, end: LoanEnd) -> Vec<Vec<u8>> {
        let mut sealed = Vec::new();
        let mut lent = Vec::new();
        while lent.len() < count
            && let Some(mut chunk) = self.log.lend(&self.arena, Position(u64::MAX))
        {
            chunk.seal(self.key.job);
            sealed.push(chunk.bytes().to_vec());
            lent.push(chunk);
        }
        lent.iter().for_each(|chunk| self.log.take_back(chunk, end));
        sealed
    }

    /// Frees chunks that are on disk, and lets another log overwrite the first `count`
    /// of them.
    pub fn overwrite(&mut self, count: usize) {
        let end = Position((count * CHUNK_BYTES) as u64);
        self.log.trim_below(&mut self.arena, &Ssn(0).into(), end);
        let mut other = log_of(key(9));
        for _ in 0..count {
            let longest = ChannelLog::PAYLOAD_BYTES_MAX;
            let frame = other.append(&mut self.arena, longest, true, FRAGMENT, |_| {});
            frame.expect("room").publish(self.arena.region());
        }
    }

    pub fn memory(&self) -> RankMemory {
        let region = self.arena.region().clone();
        RankMemory {
            arena: 0..region.bytes(),
            region,
            job: self.key.job,
            source: self.key.channel.source,
            incarnation: self.key.channel.incarnation,
        }
    }
}

fn log_of(key: LogKey) -> ChannelLog {
    let channel = key.channel;
    ChannelLog::new(
        channel.source,
        channel.incarnation,
        channel.destination,
        1 << 40,
    )
}

/// A small sealed chunk with three messages, whose bytes depend on `generation`.
pub fn small_chunk(key: LogKey, first_ssn: u64, generation: u8) -> Vec<u8> {
    chunks_of(key, 1, first_ssn, generation).remove(0)
}

/// `count` small sealed chunks with three messages each.
pub fn chunks_of(key: LogKey, count: usize, first_ssn: u64, generation: u8) -> Vec<Vec<u8>> {
    chunks_with(key, count, 3, first_ssn, generation)
}

/// `count` sealed chunks with `messages` messages each.
pub fn chunks_with(
    key: LogKey,
    count: usize,
    messages: u64,
    first_ssn: u64,
    generation: u8,
) -> Vec<Vec<u8>> {
    let mut writing = Writing::new(key, count + 1);
    for ssn in 0..count as u64 * messages {
        writing.message(first_ssn + ssn, &payload(first_ssn + ssn, generation));
        if (ssn + 1).is_multiple_of(messages) {
            writing.end_chunk();
        }
    }
    writing.seal(count, LoanEnd::OnDisk)
}

/// The payload of the messages of [`small_chunk`].
pub fn payload(ssn: u64, generation: u8) -> Vec<u8> {
    let bytes = [3, 500, 90][(ssn % 3) as usize];
    (0..bytes)
        .map(|at| (at as u8) ^ (ssn as u8) ^ generation)
        .collect()
}

/// A segment file with these chunks in its first slots.
pub fn file(key: LogKey, first_sequence: u64, slots: u32, chunks: &[Vec<u8>]) -> Vec<u8> {
    let header = FileHeader {
        job: key.job,
        channel: key.channel,
        first_sequence,
        slots,
    };
    let mut bytes = header.encode().to_vec();
    for chunk in chunks {
        bytes.extend_from_slice(chunk);
        bytes.resize(bytes.len() + CHUNK_BYTES - chunk.len(), 0);
    }
    bytes.resize(header.file_bytes() as usize, 0);
    bytes
}

/// A file's name, as a job's spill names it.
pub fn name(key: LogKey, first_sequence: u64) -> String {
    let header = FileHeader {
        job: key.job,
        channel: key.channel,
        first_sequence,
        slots: 1,
    };
    format!("refrain-4194999-77-{}", header.name())
}

/// Memory whose first chunk has these bytes: they are the payload of a
/// record, and the arena is declared to begin there.
pub fn memory_with(key: LogKey, bytes: &[u8]) -> RankMemory {
    let mut writing = Writing::new(key, 2);
    writing.message(0, bytes);
    let region: Region = writing.arena.region().clone();
    RankMemory {
        region,
        arena: 128..128 + CHUNK_BYTES,
        job: key.job,
        source: key.channel.source,
        incarnation: key.channel.incarnation,
    }
}
