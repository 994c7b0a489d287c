//! [`SpillLog`]: the index of a rank's log chunks on disk.
//!
//! A state machine: chunks and horizons come in, operations for a [`Store`] go
//! out, completions come back. It knows no clock, thread or file; the time is an
//! argument. Promises:
//!
//! - Every chunk that was put comes back once, as on disk or as still only in
//!   memory. LOG-3: nothing is dropped.
//! - A chunk on disk can be found and read until a horizon frees it. LOG-2, LOG-4
//! - Files take no more than the budget. A file whose chunks are all free is reused
//!   or deleted; a file that cannot be deleted still counts.
//! - When the disk is full, chunks stay in memory, and writing is tried again later.
//!   After other errors it is tried a few times with a new file, then no more.

mod channel;
mod files;
mod health;

use crate::segment::{Channel, FILE_HEADER_BYTES, FileHeader};
use crate::store::{Completion, FileNumber, Operation, ReadToken, Store, StoreError};
use channel::ChannelIndex;
use core::time::Duration;
use files::Files;
pub use health::{Refused, Report};

use health::Health;
use refrain_ring::read_back::ChunkBytes;
use refrain_ring::{CHUNK_BYTES, Frontier, Incarnation, LentChunk, LoanEnd, Rank};
use std::collections::{BTreeMap, VecDeque};

/// Settings of one rank's spilling.
#[derive(Clone, Debug)]
pub struct SpillOptions {
    /// The job.
    pub job: u64,
    /// The rank to which the logs belong.
    pub rank: Rank,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Number of ranks in the job.
    pub size: u32,
    /// Budget of all files together, in bytes.
    pub disk_bytes: u64,
    /// Maximum number of concurrent writes.
    pub writes_max: usize,
}

/// Maximum number of slots of a file: 64 MiB.
const FILE_SLOTS_MAX: u64 = 256;
/// Minimum number of slots of a file: 1 MiB.
const FILE_SLOTS_MIN: u64 = 4;
/// Number of files that each channel should be able to have within the budget.
const FILES_PER_CHANNEL: u64 = 4;

impl SpillOptions {
    /// Number of slots of each file: small enough for a few files per channel, within the
    /// limits.
    pub fn file_slots(&self) -> u32 {
        let channels = u64::from(self.size.saturating_sub(1).max(1));
        let share = self.disk_bytes / channels / FILES_PER_CHANNEL / CHUNK_BYTES as u64;
        share.clamp(FILE_SLOTS_MIN, FILE_SLOTS_MAX) as u32
    }

    /// Length of each file in bytes.
    pub fn file_bytes(&self) -> u64 {
        FILE_HEADER_BYTES as u64 + u64::from(self.file_slots()) * CHUNK_BYTES as u64
    }

    /// Minimum budget in bytes: one file.
    pub const DISK_BYTES_MIN: u64 = FILE_HEADER_BYTES as u64 + FILE_SLOTS_MIN * CHUNK_BYTES as u64;
}

/// A result of spilling or reading.
#[derive(Debug)]
pub enum Event {
    /// A chunk comes back to its log.
    Returned(LentChunk, LoanEnd),
    /// A read has ended.
    Read {
        /// The token that [`SpillLog::read`] returned.
        token: ReadToken,
        /// The chunk's bytes; its checksums are not checked yet.
        result: Result<ChunkBytes, StoreError>,
    },
    /// A message for people.
    Report(Report),
}

/// Counters of a rank's spilling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpillStatistics {
    /// Number of chunks written so far.
    pub chunks_written: u64,
    /// Bytes of these chunks up to the last record of each.
    pub bytes_written: u64,
    /// Bytes of the existing files, including those that could not be removed.
    pub disk_bytes: u64,
    /// Number of files created so far, without reused ones.
    pub files_made: u64,
    /// Number of times that a file was reused.
    pub files_reused: u64,
    /// Number of failed writes.
    pub failures: u64,
}

/// A rank's spilling; see the [module](self).
#[derive(Debug)]
pub struct SpillLog<S> {
    options: SpillOptions,
    store: S,
    /// By destination; of those for which something was written or freed.
    channels: BTreeMap<Rank, ChannelIndex>,
    files: Files,
    health: Health,
    writes: usize,
    next_token: u64,
    events: VecDeque<Event>,
    statistics: SpillStatistics,
}

impl<S: Store> SpillLog<S> {
    /// A log without chunks on disk.
    pub fn new(options: SpillOptions, store: S) -> Self {
        Self {
            channels: BTreeMap::new(),
            files: Files::new(options.disk_bytes / options.file_bytes()),
            health: Health::default(),
            writes: 0,
            next_token: 0,
            events: VecDeque::new(),
            statistics: SpillStatistics::default(),
            options,
            store,
        }
    }

    /// Number of writes that are under way.
    pub fn writes_under_way(&self) -> usize {
        self.writes
    }

    /// Counters.
    pub fn statistics(&self) -> SpillStatistics {
        SpillStatistics {
            disk_bytes: self.files.count() as u64 * self.options.file_bytes(),
            ..self.statistics
        }
    }

    /// The settings.
    pub fn options(&self) -> &SpillOptions {
        &self.options
    }

    /// The store's way of writing, for people.
    pub fn describe(&self) -> String {
        self.store.describe()
    }

    /// Whether the next chunk of a channel would be taken now. `now` is a time
    /// that never decreases.
    ///
    /// # Errors
    /// The reason why it would not be taken.
    pub fn takes(
        &mut self,
        destination: Rank,
        sequence: u64,
        now: Duration,
    ) -> Result<(), Refused> {
        self.health.takes(now)?;
        if self.writes >= self.options.writes_max {
            return Err(Refused::Busy);
        }
        let channel = self.channels.get(&destination);
        let slot = channel
            .and_then(|channel| channel.current)
            .and_then(|file| self.files.slot(file, sequence));
        match slot.is_some() || self.files.may_open() {
            true => Ok(()),
            false => Err(Refused::Full),
        }
    }

    /// Takes a chunk to be written. Chunks of a channel must come in order, except
    /// those that were returned and are put again.
    ///
    /// # Panics
    /// When [`SpillLog::takes`] would have refused it.
    pub fn put(&mut self, chunk: LentChunk) {
        let destination = chunk.destination();
        let sequence = chunk.sequence();
        self.writes += 1;
        let channel = self.channels.entry(destination).or_default();
        let file = match channel.current {
            Some(file) if self.files.slot(file, sequence).is_some() => file,
            previous => {
                let (file, operation) = self.files.open(FileHeader {
                    job: self.options.job,
                    channel: Channel {
                        source: self.options.rank,
                        incarnation: self.options.incarnation,
                        destination,
                    },
                    first_sequence: sequence,
                    slots: self.options.file_slots(),
                });
                match operation {
                    Operation::Open { reuse: Some(_), .. } => self.statistics.files_reused += 1,
                    _ => self.statistics.files_made += 1,
                }
                self.store.submit(operation);
                channel.current = Some(file);
                if let Some(previous) = previous {
                    self.files.close(previous, &mut self.store);
                }
                file
            }
        };
        if let Some(ready) = self.files.write(file, chunk) {
            self.store.submit(ready);
        }
    }

    /// The next event, if any. `now` gives the same time as in
    /// [`SpillLog::takes`]; it is called only when an operation has ended.
    pub fn poll(&mut self, now: impl Fn() -> Duration) -> Option<Event> {
        while self.events.is_empty() {
            let completion = self.store.poll()?;
            self.complete(completion, now());
        }
        self.events.pop_front()
    }

    fn complete(&mut self, completion: Completion, now: Duration) {
        match completion {
            Completion::Opened { file, result } => self.opened(file, result, now),
            Completion::Written {
                file,
                chunk,
                result,
            } => self.written(file, chunk, result, now),
            Completion::Read {
                token,
                file,
                result,
            } => {
                self.files.read_ended(file, &mut self.store);
                self.events.push_back(Event::Read { token, result });
            }
            Completion::Deleted { result: Ok(()), .. } => self.files.deleted(),
            Completion::Deleted {
                result: Err(error), ..
            } => {
                // Writing may still work.
                let report = Report::Undeleted { error };
                self.events.push_back(Event::Report(report));
            }
        }
    }

    fn opened(&mut self, file: FileNumber, result: Result<(), StoreError>, now: Duration) {
        match result {
            Ok(()) => self.files.opened(file, &mut self.store),
            Err(error) => {
                let destination = self.files.header(file).channel.destination;
                let channel = self.channels.entry(destination).or_default();
                if channel.current == Some(file) {
                    channel.current = None;
                }
                for chunk in self.files.gave_up_opening(file) {
                    self.give_back(chunk, LoanEnd::InMemory);
                }
                self.failed(error, now);
            }
        }
    }

    fn written(
        &mut self,
        file: FileNumber,
        chunk: LentChunk,
        result: Result<(), StoreError>,
        now: Duration,
    ) {
        let channel = self.channels.entry(chunk.destination()).or_default();
        match result {
            Ok(()) => {
                self.statistics.chunks_written += 1;
                self.statistics.bytes_written += chunk.used_bytes() as u64;
                if channel.add(chunk.sequence(), chunk.ends(), file) {
                    self.files.keeps(file);
                }
                self.files.write_ended(file, &mut self.store);
                self.leave_idle(chunk.destination(), file);
                self.give_back(chunk, LoanEnd::OnDisk);
                if self.health.succeeded() {
                    self.events.push_back(Event::Report(Report::Resumed));
                }
            }
            Err(error) => {
                // No more chunks are written there; those in the file stay.
                if channel.current == Some(file) {
                    channel.current = None;
                    self.files.close(file, &mut self.store);
                }
                self.files.write_ended(file, &mut self.store);
                self.give_back(chunk, LoanEnd::InMemory);
                self.failed(error, now);
            }
        }
    }

    fn give_back(&mut self, chunk: LentChunk, end: LoanEnd) {
        self.writes -= 1;
        self.events.push_back(Event::Returned(chunk, end));
    }

    fn failed(&mut self, error: StoreError, now: Duration) {
        self.statistics.failures += 1;
        if let Some(report) = self.health.failed(error, now) {
            self.events.push_back(Event::Report(report));
        }
    }

    /// Frees the messages of a channel below `horizon`. LOG-4
    pub fn trim(&mut self, destination: Rank, horizon: &Frontier) {
        let channel = self.channels.entry(destination).or_default();
        let mut freed = Vec::new();
        channel.trim(horizon, |file| freed.push(file));
        for file in freed {
            self.files.releases(file, &mut self.store);
            self.leave_idle(destination, file);
        }
    }

    /// Lets a channel release a file of which no chunk is needed: another channel may
    /// need the room.
    fn leave_idle(&mut self, destination: Rank, file: FileNumber) {
        let channel = self.channels.entry(destination).or_default();
        if channel.current == Some(file) && self.files.is_idle(file) {
            channel.current = None;
            self.files.close(file, &mut self.store);
        }
    }

    /// The chunk from which on a reader finds all messages of a channel from
    /// `from` on, if it is on disk: the first chunk that ends beyond it in some stream.
    pub fn find(&self, destination: Rank, from: &Frontier) -> Option<u64> {
        self.channels.get(&destination)?.find(from)
    }

    /// Place of a chunk on disk: the sequence number of the first chunk of its file, which is
    /// part of the file's name, and its slot there.
    pub fn place(&self, destination: Rank, sequence: u64) -> Option<(u64, u32)> {
        let (_, slot) = self.slot_of(destination, sequence)?;
        Some((sequence - u64::from(slot), slot))
    }

    /// Whether a chunk is on disk.
    pub fn holds(&self, destination: Rank, sequence: u64) -> bool {
        self.slot_of(destination, sequence).is_some()
    }

    fn slot_of(&self, destination: Rank, sequence: u64) -> Option<(FileNumber, u32)> {
        let file = self.channels.get(&destination)?.file_of(sequence)?;
        Some((file, self.files.slot(file, sequence)?))
    }

    /// Begins to read a chunk that is on disk; `None` when the chunk is not there. The file
    /// stays until the read has ended.
    pub fn read(&mut self, destination: Rank, sequence: u64) -> Option<ReadToken> {
        let (file, slot) = self.slot_of(destination, sequence)?;
        let token = ReadToken(self.next_token);
        self.next_token += 1;
        self.files.read_began(file);
        self.store.submit(Operation::Read { file, slot, token });
        Some(token)
    }
}
