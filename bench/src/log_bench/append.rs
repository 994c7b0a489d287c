//! A log that is appended to as fast as its memory and its disk allow.

use super::arguments::Arguments;
use super::files::BenchFiles;
use crate::disk::{BLOCK_BYTES, Transferred, random_block};
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use refrain_logging::spill::{Event, Report, SpillLog, SpillOptions};
use refrain_logging::store::Store;
use refrain_logging::store::disk::{DiskOptions, DiskStore};
use refrain_ring::{
    Arena, CHUNK_BYTES, ChannelLog, Incarnation, LoanEnd, Position, Rank, RecordHeader, RecordKind,
    Region, ReserveError, Ssn,
};
use std::thread;
use std::time::{Duration, Instant};

pub const SOURCE: Rank = Rank(0);
pub const DESTINATION: Rank = Rank(1);
/// Length of the fragments of messages over shared memory.
const FRAGMENT_BYTES: usize = 16 << 10;
/// Time between two checks for written chunks, while the log has no free memory.
const LOOK: Duration = Duration::from_micros(50);
/// Alignment of direct transfers.
const ALIGNMENT_BYTES: usize = 4096;

/// Measurements of appending.
#[derive(Clone, Debug)]
pub struct Appended {
    /// Log bytes on disk, and the time from the first byte appended until the last byte was on
    /// disk.
    pub spilled: Transferred,
    /// Payload bytes appended.
    pub payload_bytes: u64,
    /// Bytes in the log for this payload, with headers and unused ends of chunks.
    pub log_bytes: u64,
    /// All records of messages below this SSN are on disk.
    pub on_disk_end: Ssn,
    /// Maximum of log memory in use.
    pub memory_peak_bytes: u64,
    /// Time without free memory to append to.
    pub waited_seconds: f64,
    /// Settings of the disk engine, for the table.
    pub how: String,
}

/// Appends until the log has the requested length, and waits until every complete chunk is on
/// disk.
///
/// # Errors
/// The disk fails, or a signal asks for the end.
pub fn append_and_spill(
    arguments: &Arguments,
    files: &BenchFiles,
    interrupt: &Interrupt,
) -> Result<Appended, BenchError> {
    let options = DiskOptions {
        engine: arguments.spill_io,
        under_way_max: arguments.in_flight as usize,
        ..DiskOptions::new(&files.folder, &files.prefix, files.job)
    };
    let no_disk = |error| BenchError::failed(format!("the log has no disk: {error}"));
    let store = DiskStore::new(options).map_err(no_disk)?;
    let spill = SpillOptions {
        job: files.job,
        rank: SOURCE,
        incarnation: Incarnation(0),
        size: 2,
        disk_bytes: files.disk_bytes,
        writes_max: arguments.in_flight as usize,
    };
    let mut log = SpillingLog::new(arguments, SpillLog::new(spill, store));
    log.fill(arguments, interrupt)
}

/// A channel's log and the disk below it.
struct SpillingLog<S> {
    arena: Arena,
    log: ChannelLog,
    spill: SpillLog<S>,
    spill_after_bytes: u64,
    began: Instant,
    next_ssn: Ssn,
    payload_bytes: u64,
    /// The chunk that is being filled.
    chunk: u64,
    /// All records of messages below this SSN are on disk.
    on_disk_end: Ssn,
    waited: Duration,
}

impl<S: Store> SpillingLog<S> {
    fn new(arguments: &Arguments, spill: SpillLog<S>) -> Self {
        let memory_bytes = arguments.log_memory as usize;
        let mut arena = page_aligned_arena(memory_bytes);
        // The heap is mapped already: this call only counts it.
        arena.commit_all().expect("memory on the heap");
        Self {
            arena,
            log: ChannelLog::new(SOURCE, Incarnation(0), DESTINATION, u64::MAX),
            spill,
            spill_after_bytes: arguments.spill_after,
            began: Instant::now(),
            next_ssn: Ssn(0),
            payload_bytes: 0,
            chunk: 0,
            on_disk_end: Ssn(0),
            waited: Duration::ZERO,
        }
    }

    fn fill(
        &mut self,
        arguments: &Arguments,
        interrupt: &Interrupt,
    ) -> Result<Appended, BenchError> {
        let mut source = random_block(7);
        let source = source.first(BLOCK_BYTES);
        self.began = Instant::now();
        while self.log.tail().0 < arguments.size {
            self.append(source, arguments.message, interrupt)?;
        }
        // The disk gets every complete chunk.
        self.spill_after_bytes = 0;
        loop {
            self.move_on()?;
            if self.log.lent_chunks() == 0 && self.log.next_to_lend(self.log.tail()).is_none() {
                break;
            }
            interrupt.check()?;
            thread::sleep(LOOK);
        }
        Ok(Appended {
            spilled: Transferred {
                bytes: self.spill.statistics().bytes_written,
                seconds: self.began.elapsed().as_secs_f64(),
            },
            payload_bytes: self.payload_bytes,
            log_bytes: self.log.tail().0,
            on_disk_end: self.on_disk_end,
            memory_peak_bytes: self.arena.used_bytes_peak(),
            waited_seconds: self.waited.as_secs_f64(),
            how: self.spill.describe(),
        })
    }

    /// Appends a message, fragment by fragment. Each fragment is a copy of `source`.
    fn append(
        &mut self,
        source: &[u8],
        message_bytes: u64,
        interrupt: &Interrupt,
    ) -> Result<(), BenchError> {
        let mut done = 0;
        while done < message_bytes {
            let left = usize::try_from(message_bytes - done).unwrap_or(usize::MAX);
            let longest = left.min(FRAGMENT_BYTES);
            let header = self.header(done, message_bytes);
            let fill = |place: &mut [u8]| place.copy_from_slice(&source[..place.len()]);
            let frame = match (self.log).append(&mut self.arena, longest, false, header, fill) {
                Ok(frame) => frame,
                Err(ReserveError::Arena(_) | ReserveError::Window) => {
                    self.wait(interrupt)?;
                    continue;
                }
            };
            let fragment_bytes = frame.payload_bytes() as u64;
            frame.publish(self.arena.region());
            done += fragment_bytes;
            self.payload_bytes += fragment_bytes;
            let chunk = frame.position.0 / CHUNK_BYTES as u64;
            if chunk != self.chunk {
                self.chunk = chunk;
                self.move_on()?;
            }
        }
        self.next_ssn = self.next_ssn.next();
        Ok(())
    }

    fn header(&self, done: u64, message_bytes: u64) -> RecordHeader {
        let (kind, extent) = match done {
            0 => (RecordKind::Eager, message_bytes),
            done => (RecordKind::Fragment, done),
        };
        RecordHeader {
            payload_bytes: 0,
            kind,
            flags: 0,
            incarnation: Incarnation(0),
            source: SOURCE,
            ssn: self.next_ssn,
            context: 0,
            tag: 0,
            extent,
        }
    }

    /// Waits for a write if there is no memory to append to.
    fn wait(&mut self, interrupt: &Interrupt) -> Result<(), BenchError> {
        let began = Instant::now();
        interrupt.check()?;
        self.move_on()?;
        if self.arena.used_bytes() == self.arena.budget_bytes() {
            thread::sleep(LOOK);
        }
        self.waited += began.elapsed();
        Ok(())
    }

    /// Frees written chunks, and passes complete chunks to the disk.
    fn move_on(&mut self) -> Result<(), BenchError> {
        let now = self.began.elapsed();
        while let Some(event) = self.spill.poll(|| now) {
            match event {
                Event::Returned(chunk, end) => {
                    if end == LoanEnd::OnDisk {
                        self.on_disk_end = self.on_disk_end.max(chunk.ends().program);
                    }
                    self.log.take_back(&chunk, end);
                }
                Event::Report(
                    Report::Paused { error }
                    | Report::Stopped { error }
                    | Report::Undeleted { error },
                ) => {
                    return Err(BenchError::failed(format!(
                        "the log cannot be written: {error}"
                    )));
                }
                Event::Report(Report::Resumed) | Event::Read { .. } => {}
            }
        }
        // The log has no reader: everything is released at once. No horizon frees chunks.
        let released = self.log.tail();
        self.log
            .trim_below(&mut self.arena, &Ssn(0).into(), released);
        self.lend(released, now);
        Ok(())
    }

    fn lend(&mut self, posted: Position, now: Duration) {
        let lent_bytes = |log: &ChannelLog| log.lent_chunks() as u64 * CHUNK_BYTES as u64;
        let is_full = self.arena.used_bytes() == self.arena.budget_bytes();
        let after_bytes = if is_full { 0 } else { self.spill_after_bytes };
        while self.arena.used_bytes() - lent_bytes(&self.log) > after_bytes
            && let Some(sequence) = self.log.next_to_lend(posted)
            && self.spill.takes(DESTINATION, sequence, now).is_ok()
            && let Some(chunk) = self.log.lend(&self.arena, posted)
        {
            self.spill.put(chunk);
        }
    }
}

/// An arena on the heap whose chunks begin on pages, as direct transfers require.
pub fn page_aligned_arena(bytes: usize) -> Arena {
    let region = Region::heap(bytes.next_multiple_of(CHUNK_BYTES) + ALIGNMENT_BYTES);
    let first_chunk = region.at(0).align_offset(ALIGNMENT_BYTES);
    Arena::new(region, first_chunk, Box::new(|_, _| Ok(())))
}
