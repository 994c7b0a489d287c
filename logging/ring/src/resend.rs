//! [`Resend`]: gives the records of a log again, from a message on, as frames
//! to be posted: in recovery, a receiver reads the log again from an earlier position.
//! REC-3, LOG-2
//!
//! It belongs to the rank that writes the log, and makes progress when it is called. A chunk
//! that is in memory is used in place, even while it is lent to the disk. A chunk that
//! is only on disk is *recalled*: read, checked, and copied into a chunk of the arena,
//! where a [`ChannelReader`](crate::ChannelReader) reads it as if it had stayed in memory.
//! Positions are always those of the log.
//!
//! Chunks that follow a recalled one are reachable only over its link, which
//! is written when the next chunk is in memory. While chunks are
//! recalled, the lane reads nothing of the log's own memory, and the
//! log may be trimmed there ([`Resend::trimmable`]): that frees the memory for
//! recalled chunks. Once the lane has reached a chunk of the log's own memory, the log is
//! trimmed as usual, by what the lane has released.

use crate::ahead::{ChunkBytes, DiskChunks, ReadBackError};
use crate::ahead::{DiskAhead, Found};
use crate::arena::BorrowedChunk;
use crate::chunk::{CHUNK_HEAD_BYTES, ChunkHeader};
use crate::read_back::{first_chunk, lost};
use crate::{
    Arena, CHUNK_BYTES, ChannelLog, ChunkId, Frame, Frontier, Incarnation, Position, Rank,
    record_bytes,
};
use std::collections::VecDeque;

/// Maximum number of chunks being read from disk: 1 MiB.
const AHEAD_MAX: usize = 4;
/// Maximum number of recalled chunks that the lane has not released: 4 MiB.
const RECALLED_MAX: usize = 16;

/// State of the log and of the lane at a step.
#[derive(Debug)]
pub struct Lane<'a> {
    /// The log.
    pub log: &'a ChannelLog,
    /// The log's memory.
    pub arena: &'a mut Arena,
    /// All records before this position are published.
    pub posted: Position,
    /// All messages below it are free, in memory and on disk. LOG-4
    pub horizon: &'a Frontier,
    /// The lane no longer reads the log before this position.
    pub released: Position,
}

/// The result of a step.
#[derive(Clone, Copy, Debug)]
pub enum Resent {
    /// The next record, to be posted in place.
    Frame(Frame),
    /// The next chunk is being read from disk, or there is no memory for it.
    Waiting,
    /// All records published so far were given. There may be more later.
    End,
}

/// Gives a log again; see the [module](self).
///
/// Its memory returns to the arena as the lane releases it, and all of it when
/// this is dropped. Drop it only after the lane has ended, or has released the memory
/// ([`Resend::holds_memory`]).
#[derive(Debug)]
pub struct Resend {
    identity: (Rank, Rank, Incarnation),
    from: Frontier,
    /// Position of the next record, once the beginning is known.
    next: Option<Position>,
    /// The lane reads chunks of the log's own memory.
    is_in_memory: bool,
    ahead: DiskAhead,
    /// The next chunk to be recalled, checked; it waits for memory.
    present: Option<(u64, ChunkBytes)>,
    /// In the order of the log; each except the last has a link to the next.
    recalled: VecDeque<Recalled>,
    /// Reserve: while the lane reads one recalled chunk there must be memory for the next.
    spare: Option<BorrowedChunk>,
}

#[derive(Debug)]
struct Recalled {
    sequence: u64,
    memory: BorrowedChunk,
    used_bytes: usize,
}

/// A chunk of the log in memory: the log's own or a recalled one.
#[derive(Clone, Copy, Debug)]
struct Lying {
    chunk: ChunkId,
    /// Bytes of header and published records.
    used_bytes: usize,
    /// The chunk is complete, and all of its records are published.
    is_whole: bool,
}

impl Resend {
    /// Gives all messages of `log` from `from` on, on a lane that has just begun.
    pub fn new(log: &ChannelLog, from: Frontier) -> Self {
        Self {
            identity: log.identity(),
            from,
            next: None,
            is_in_memory: false,
            ahead: DiskAhead::new(log.identity()),
            present: None,
            recalled: VecDeque::new(),
            spare: None,
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

    /// Whether a read of the disk belongs to this resend.
    pub fn waits_for(&self, token: u64) -> bool {
        self.ahead.waits_for(token)
    }

    /// Whether the next chunk has been read from disk and there is no memory for it.
    pub fn waits_for_memory(&self) -> bool {
        self.present.is_some()
    }

    /// Handles a completed read; returns whether it was one of this resend's.
    pub fn arrived(&mut self, token: u64, bytes: Result<ChunkBytes, String>) -> bool {
        self.ahead.arrived(token, bytes)
    }

    /// Position up to which the lane, which has released the log up to `released`, lets
    /// the log be trimmed. Trimmed chunks must be on disk or below
    /// the horizon ([`ChannelLog::trim_below`]).
    pub fn trimmable(&self, released: Position) -> Position {
        match self.is_in_memory {
            true => released,
            false => Position(u64::MAX),
        }
    }

    /// The lane no longer reads the log before `released`: recalled chunks
    /// that end before it return to the arena.
    pub fn release(&mut self, released: Position) {
        let is_over = |recalled: &Recalled| start_of(recalled.sequence + 1) <= released;
        while let Some(oldest) = self.recalled.pop_front_if(|oldest| is_over(oldest)) {
            let is_needed = !self.is_in_memory && self.recalled.len() == 1;
            if is_needed && self.spare.is_none() {
                self.spare = Some(oldest.memory);
            }
        }
    }

    /// Whether the lane may still read memory that returns to the arena when
    /// this is dropped.
    pub fn holds_memory(&self) -> bool {
        !self.recalled.is_empty()
    }

    /// The next published record of a message from [`Resend::from`] on,
    /// in the order of the log.
    ///
    /// # Errors
    /// When the log cannot be read at this place. The next step tries again.
    ///
    /// # Panics
    /// When another log is passed than the one with which this was made.
    pub fn step(
        &mut self,
        mut lane: Lane<'_>,
        disk: &mut dyn DiskChunks,
    ) -> Result<Resent, ReadBackError> {
        assert_eq!(lane.log.identity(), self.identity, "another log");
        self.release(lane.released);
        if self.next.is_none() {
            self.from.raise(lane.horizon);
            self.go_to_chunk(first_chunk(lane.log, &self.from, disk)?);
        }
        self.pass_released(&lane);
        loop {
            let next = self.next.expect("it has begun");
            let sequence = next.0 / CHUNK_BYTES as u64;
            let Some(lying) = self.lying(sequence, &lane) else {
                if sequence >= lane.log.sequence_end() {
                    // The log is empty: later records are in memory.
                    self.is_in_memory = true;
                    return Ok(Resent::End);
                }
                match self.recall(sequence, &mut lane, disk)? {
                    Recall::GoOn => continue,
                    Recall::Waiting => return Ok(Resent::Waiting),
                }
            };
            let in_chunk = (next.0 % CHUNK_BYTES as u64) as usize;
            if in_chunk < lying.used_bytes {
                if let Some(frame) = self.take_record(next, lying.chunk, &lane) {
                    return Ok(Resent::Frame(frame));
                }
            } else if lying.is_whole {
                self.go_to_chunk(sequence + 1);
            } else {
                return Ok(Resent::End);
            }
        }
    }

    fn go_to_chunk(&mut self, sequence: u64) {
        let begin = start_of(sequence).0 + CHUNK_HEAD_BYTES as u64;
        self.next = Some(Position(begin));
    }

    /// Moves to the released position: a receiver that reads in place advances by itself.
    fn pass_released(&mut self, lane: &Lane<'_>) {
        if self.is_in_memory && lane.released <= lane.log.tail() {
            self.next = self.next.max(Some(lane.released));
        }
    }

    /// The frame of the record at `next`, unless it is of an earlier message.
    fn take_record(&mut self, next: Position, chunk: ChunkId, lane: &Lane<'_>) -> Option<Frame> {
        let offset = lane.arena.offset_of(chunk) + (next.0 % CHUNK_BYTES as u64) as usize;
        let (frame, header) = Frame::published(lane.arena.region(), offset, next)
            .expect("what this rank has published, or a checksum has proved");
        let bytes = record_bytes(header.payload_bytes as usize) as u64;
        self.next = Some(Position(next.0 + bytes));
        (!self.from.is_beyond(header.ssn)).then_some(frame)
    }

    /// A chunk in memory: the log's own or a recalled one.
    fn lying(&mut self, sequence: u64, lane: &Lane<'_>) -> Option<Lying> {
        let mut recalled = self.recalled.iter();
        if let Some(recalled) = recalled.find(|recalled| recalled.sequence == sequence) {
            return Some(Lying {
                chunk: recalled.memory.chunk,
                used_bytes: recalled.used_bytes,
                is_whole: true,
            });
        }
        self.enter_memory(sequence, lane)
    }

    /// Continues in a chunk of the log's own memory.
    fn enter_memory(&mut self, sequence: u64, lane: &Lane<'_>) -> Option<Lying> {
        let entry = lane.log.entry_of(sequence)?;
        if !self.is_in_memory {
            self.is_in_memory = true;
            self.spare = None;
            self.link_to(entry.chunk, lane);
        }
        let used_bytes = lane.log.used_bytes_of(sequence, entry);
        let posted_bytes = lane.posted.0.saturating_sub(start_of(sequence).0);
        let posted_bytes = usize::try_from(posted_bytes).unwrap_or(usize::MAX);
        Some(Lying {
            chunk: entry.chunk,
            used_bytes: used_bytes.min(posted_bytes),
            is_whole: sequence + 1 < lane.log.sequence_end() && posted_bytes >= used_bytes,
        })
    }

    /// Writes a link from the last recalled chunk to `next`, if the lane may still read it.
    fn link_to(&self, next: ChunkId, lane: &Lane<'_>) {
        if let Some(last) = self.recalled.back() {
            let place = lane.arena.offset_of(last.memory.chunk) + last.used_bytes;
            lane.log.write_link(lane.arena.region(), place, next);
        }
    }

    /// Brings a chunk that is only on disk into memory.
    fn recall(
        &mut self,
        sequence: u64,
        lane: &mut Lane<'_>,
        disk: &mut dyn DiskChunks,
    ) -> Result<Recall, ReadBackError> {
        let freed = lane.log.trimmed().0 / CHUNK_BYTES as u64;
        let is_present = usize::from(self.present.is_some());
        let wanted = sequence + is_present as u64..freed;
        self.ahead.read(wanted, AHEAD_MAX - is_present, disk);
        if self.present.is_none() {
            match self.ahead.take(sequence, disk)? {
                Found::Here(bytes) => self.present = Some((sequence, bytes)),
                Found::Coming => return Ok(Recall::Waiting),
                Found::Nowhere => return self.pass(sequence, lane, disk),
            }
        }
        let Some(memory) = self.take_memory(sequence + 1 < freed, lane.arena) else {
            return Ok(Recall::Waiting);
        };
        if let Some((sequence, bytes)) = self.present.take() {
            self.copy(sequence, bytes.bytes(), memory, lane);
            // Once it is linked, a chunk in memory stays there.
            self.enter_memory(sequence + 1, lane);
        }
        Ok(Recall::GoOn)
    }

    /// Takes memory for a recalled chunk. That memory is freed only when the lane moves on to
    /// the next chunk: so without memory for the next, too, the first is not begun.
    fn take_memory(&mut self, needs_next: bool, arena: &mut Arena) -> Option<BorrowedChunk> {
        if self.recalled.len() >= RECALLED_MAX {
            return None;
        }
        let memory = match self.spare.take() {
            Some(spare) => spare,
            None => arena.borrow().ok()?,
        };
        if self.recalled.is_empty() && needs_next {
            self.spare = Some(arena.borrow().ok()?);
        }
        Some(memory)
    }

    fn copy(&mut self, sequence: u64, bytes: &[u8], memory: BorrowedChunk, lane: &Lane<'_>) {
        let seal = ChunkHeader::decode(bytes).ok().and_then(|head| head.seal);
        let used_bytes = seal.expect("the chunk was checked").used_bytes as usize;
        let region = lane.arena.region();
        region.fill_chunk(lane.arena.offset_of(memory.chunk), &bytes[..used_bytes]);
        self.link_to(memory.chunk, lane);
        self.recalled.push_back(Recalled {
            sequence,
            memory,
            used_bytes,
        });
    }

    /// A chunk is neither in memory nor on disk: a horizon must have passed it,
    /// so the receiver does not need it. LOG-4
    fn pass(
        &mut self,
        sequence: u64,
        lane: &Lane<'_>,
        disk: &dyn DiskChunks,
    ) -> Result<Recall, ReadBackError> {
        self.from.raise(lane.horizon);
        let next = first_chunk(lane.log, &self.from, disk)?;
        if next <= sequence {
            return Err(lost(self.destination(), sequence));
        }
        self.go_to_chunk(next);
        Ok(Recall::GoOn)
    }
}

/// The result of an attempt to bring a chunk into memory.
enum Recall {
    /// The next chunk can be tried.
    GoOn,
    /// Try again later.
    Waiting,
}

fn start_of(sequence: u64) -> Position {
    Position(sequence * CHUNK_BYTES as u64)
}
