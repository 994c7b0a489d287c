//! [`ReadBack`]: reads a channel's log again from a message on, from memory or disk,
//! while the log grows, is spilled and is freed. LOG-2
//!
//! It belongs to the rank that writes the log, and makes progress when it is called. A chunk
//! is read in memory while it is there, else from disk, some chunks ahead. Each chunk from disk
//! is read as a whole and checked before it gives records. The reader holds no more memory
//! than those chunks, however long the log is.

pub use crate::ahead::{ChunkBytes, DiskChunks, ReadBackError};

use crate::ahead::{DiskAhead, Found};
use crate::chunk::{CHUNK_HEAD_BYTES, ChunkReader};
use crate::{
    Arena, CHUNK_BYTES, ChannelLog, Frontier, InMemory, Incarnation, Position, Rank, RecordHeader,
    Reference, Ssn,
};

/// State of the rank that writes the log.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The log.
    pub log: &'a ChannelLog,
    /// The log's memory.
    pub arena: &'a Arena,
    /// All records before this position are published.
    pub posted: Position,
    /// All messages below it are free, in memory and on disk. LOG-4
    pub horizon: &'a Frontier,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Number of records given; there may be more.
    Records(usize),
    /// The next chunk is being read from disk, or written to it.
    Waiting,
    /// All records published so far were given.
    End,
    /// A horizon has passed the next records: the messages below it are free, and part of them
    /// is gone. Reading continues from [`ReadBack::from`] on; this is its message of the
    /// program's stream.
    Passed(Ssn),
}

/// Maximum number of chunks that are read ahead: 2 MiB.
const AHEAD_MAX: usize = 8;

/// A reader of one channel's log; see the [module](self).
#[derive(Debug)]
pub struct ReadBack {
    identity: (Rank, Rank, Incarnation),
    from: Frontier,
    /// The next record, once the reader has found where to begin.
    place: Option<Place>,
    /// Chunks read ahead, from the next chunk on.
    ahead: DiskAhead,
    /// The current chunk, if it came from disk; it has been checked.
    present: Option<ChunkBytes>,
}

/// Place of the next record.
#[derive(Clone, Copy, Debug)]
struct Place {
    sequence: u64,
    offset: usize,
}

/// Records of a chunk that were given.
struct Given {
    records: usize,
    /// The payload of the next record was freed.
    is_freed: bool,
}

impl Place {
    fn start_of(sequence: u64) -> Self {
        Self {
            sequence,
            offset: CHUNK_HEAD_BYTES,
        }
    }
}

impl ReadBack {
    /// A reader of all messages of `log` from `from` on.
    pub fn new(log: &ChannelLog, from: impl Into<Frontier>) -> Self {
        Self {
            identity: log.identity(),
            from: from.into(),
            place: None,
            ahead: DiskAhead::new(log.identity()),
            present: None,
        }
    }

    /// The receiver.
    pub fn destination(&self) -> Rank {
        self.identity.1
    }

    /// The first message of each stream that is given; a horizon may have moved it on.
    pub fn from(&self) -> &Frontier {
        &self.from
    }

    /// Chunks in memory for this reader alone, or on their way there.
    pub fn chunks_ahead(&self) -> usize {
        self.ahead.len() + usize::from(self.present.is_some())
    }

    /// Whether a read belongs to this reader.
    pub fn waits_for(&self, token: u64) -> bool {
        self.ahead.waits_for(token)
    }

    /// Handles a completed read; returns whether it was one of this reader's.
    pub fn arrived(&mut self, token: u64, bytes: Result<ChunkBytes, String>) -> bool {
        self.ahead.arrived(token, bytes)
    }

    /// Gives the next records, of one chunk at most, in the order of the log: all records of
    /// messages from [`ReadBack::from`] on.
    ///
    /// # Errors
    /// When the log cannot be read at this place. The reader stays there.
    ///
    /// # Panics
    /// When another log is passed than the one with which the reader was made.
    pub fn step(
        &mut self,
        writer: Writer<'_>,
        disk: &mut dyn DiskChunks,
        give: &mut dyn FnMut(&RecordHeader, &[u8]),
    ) -> Result<Progress, ReadBackError> {
        assert_eq!(writer.log.identity(), self.identity, "another log");
        let mut place = match self.place {
            Some(place) => place,
            None => {
                if self.is_passed(writer) {
                    return Ok(Progress::Passed(self.from.program));
                }
                *self
                    .place
                    .insert(Place::start_of(first_chunk(writer.log, &self.from, disk)?))
            }
        };
        loop {
            self.read_ahead(place, writer, disk);
            let (given, is_over) = match self.present.take() {
                Some(bytes) => {
                    let given = self.give(&mut place, bytes.bytes(), writer.arena, give)?;
                    if given.is_freed {
                        self.present = Some(bytes);
                    }
                    (given, true)
                }
                None => match writer
                    .log
                    .in_memory(writer.arena, place.sequence, writer.posted)
                {
                    InMemory::Records { bytes, is_whole } => {
                        let given = self.give(&mut place, bytes, writer.arena, give)?;
                        (given, is_whole)
                    }
                    InMemory::Lent => return Ok(Progress::Waiting),
                    InMemory::NotYet => return Ok(Progress::End),
                    InMemory::Freed => match self.ahead.take(place.sequence, disk)? {
                        Found::Here(bytes) => {
                            self.present = Some(bytes);
                            continue;
                        }
                        Found::Coming => return Ok(Progress::Waiting),
                        Found::Nowhere => return self.pass(place.sequence, writer, disk),
                    },
                },
            };
            if given.is_freed {
                self.place = Some(place);
                return match self.is_passed(writer) {
                    true => Ok(Progress::Passed(self.from.program)),
                    false => Err(lost(self.destination(), place.sequence)),
                };
            }
            if is_over {
                place = Place::start_of(place.sequence + 1);
            }
            self.place = Some(place);
            match (given.records, is_over) {
                (0, true) => {}
                (0, false) => return Ok(Progress::End),
                (records, _) => return Ok(Progress::Records(records)),
            }
        }
    }

    /// Whether a horizon has passed the reader. Records below it may be gone in part, and are not
    /// given.
    fn is_passed(&mut self, writer: Writer<'_>) -> bool {
        let is_passed = !writer.horizon.is_within(&self.from);
        self.from.raise(writer.horizon);
        is_passed
    }

    /// The current chunk is gone: a horizon must have passed it, LOG-4, or it held
    /// no records from the reader's first message on.
    fn pass(
        &mut self,
        sequence: u64,
        writer: Writer<'_>,
        disk: &dyn DiskChunks,
    ) -> Result<Progress, ReadBackError> {
        if !self.is_passed(writer) {
            // The reader waited at the end of this chunk for messages of later chunks.
            let next = first_chunk(writer.log, &self.from, disk)?;
            if next <= sequence {
                return Err(lost(self.destination(), sequence));
            }
            self.place = Some(Place::start_of(next));
            return Ok(Progress::Records(0));
        }
        let next = first_chunk(writer.log, &self.from, disk)?.max(sequence + 1);
        self.place = Some(Place::start_of(next));
        Ok(Progress::Passed(self.from.program))
    }

    /// Begins to read chunks that are only on disk, from the current one on.
    fn read_ahead(&mut self, place: Place, writer: Writer<'_>, disk: &mut dyn DiskChunks) {
        let is_present = usize::from(self.present.is_some());
        let freed = writer.log.trimmed().0 / CHUNK_BYTES as u64;
        let wanted = place.sequence + is_present as u64..freed;
        self.ahead.read(wanted, AHEAD_MAX - is_present, disk);
    }

    /// Gives the records of a chunk from `place` on, up to one whose payload was freed.
    fn give(
        &self,
        place: &mut Place,
        bytes: &[u8],
        arena: &Arena,
        give: &mut dyn FnMut(&RecordHeader, &[u8]),
    ) -> Result<Given, ReadBackError> {
        let fail = |damage| ReadBackError::Damaged {
            destination: self.destination(),
            sequence: place.sequence,
            place: "the memory of its sender".into(),
            damage,
        };
        let mut reader = ChunkReader::checked(bytes, place.offset).map_err(fail)?;
        let mut records = 0;
        let mut is_freed = false;
        while let Some(record) = reader.next_record().map_err(fail)? {
            if self.from.is_beyond(record.header.ssn) {
                place.offset = reader.offset();
                continue;
            }
            let (header, payload) = match record.header.flags & RecordHeader::REFERENCE {
                0 => (record.header, Some(record.payload)),
                _ => Reference::of_record(&record.header, record.payload)
                    .map(|(reference, header)| (header, arena.shared(&reference, &header)))
                    .map_err(|error| fail(reader.damage(error.into())))?,
            };
            let Some(payload) = payload else {
                is_freed = true;
                break;
            };
            // An attachment was for the receiver's incarnation at the time of the send. Who reads the
            // record later, such as a checkpoint, gets the message without it.
            let (header, payload, _) = header.detach(payload);
            give(&header, payload);
            records += 1;
            place.offset = reader.offset();
        }
        Ok(Given { records, is_freed })
    }
}

/// The first chunk with messages from `from` on.
pub(crate) fn first_chunk(
    log: &ChannelLog,
    from: &Frontier,
    disk: &dyn DiskChunks,
) -> Result<u64, ReadBackError> {
    let in_memory = log.find(from);
    let freed = log.trimmed().0 / CHUNK_BYTES as u64;
    match disk.find(from) {
        Some(on_disk) => Ok(on_disk.min(in_memory)),
        None if !log.ends_trimmed().is_within(from) => Err(lost(log.identity().1, freed - 1)),
        None => Ok(in_memory),
    }
}

pub(crate) fn lost(destination: Rank, sequence: u64) -> ReadBackError {
    ReadBackError::Lost {
        destination,
        sequence,
    }
}
