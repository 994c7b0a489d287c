//! Index of the chunks of one log, and reading of their copies.

use super::ahead::OpenFiles;
use super::checked::{CheckedChunk, ChunkFault};
use super::{LogImage, LogKey};
use crate::segment::{FileHeader, slot_offset};
use core::fmt;
use core::ops::Range;
use refrain_ring::chunk::Seal;
use refrain_ring::{CHUNK_BYTES, ChunkId, Ssn};
use refrain_storage::BLOCK_BYTES;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

/// The place of a copy of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkPlace {
    /// In a segment file.
    Disk {
        /// Path of the file.
        path: PathBuf,
        /// Slot in the file.
        slot: u32,
    },
    /// In a dead rank's memory.
    Memory {
        /// Number of the chunk in the arena.
        chunk: ChunkId,
    },
}

impl fmt::Display for ChunkPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk { path, slot } => write!(f, "{}, slot {slot}", path.display()),
            Self::Memory { chunk } => write!(f, "chunk {} of the rank's memory", chunk.0),
        }
    }
}

/// Summary of the headers of a log's chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSummary {
    /// Number of chunks, each counted once.
    pub chunks: u64,
    /// Number of these chunks that are on disk.
    pub disk_chunks: u64,
    /// Number of these chunks that are in memory (a chunk may be in both).
    pub memory_chunks: u64,
    /// Lowest and highest sequence number.
    pub sequences: Option<(u64, u64)>,
    /// Bytes of headers and records of the chunks on disk.
    pub used_bytes: u64,
    /// Range of SSNs of the program's messages in the sealed chunks: the lowest, and one past
    /// the highest.
    pub ssns: Option<Range<u64>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkCopy {
    pub sequence: u64,
    /// `None` in memory: not sealed. On disk: no valid header.
    pub seal: Option<Seal>,
    pub place: CopyPlace,
    /// The place was empty when it was read; only the place of a missing chunk.
    pub unwritten: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyPlace {
    Slot(u32),
    Memory(ChunkId),
}

/// A copy and the number of the file or memory that it is in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    pub number: usize,
    pub chunk: ChunkCopy,
}

/// The copies of each chunk of one log, by sequence number, in the order in which they are
/// tried.
#[derive(Debug, Default)]
pub(super) struct LogIndex {
    pub chunks: BTreeMap<u64, Vec<Copy>>,
    /// First sequence numbers of the files that hold chunks.
    file_begins: BTreeSet<u64>,
    ends: Vec<FileEnd>,
}

/// The end of a file behind its last chunk.
#[derive(Debug)]
struct FileEnd {
    /// The first chunk that has no place in the file.
    next: u64,
    number: usize,
    places: Vec<ChunkCopy>,
}

impl LogIndex {
    pub fn add(&mut self, chunk: ChunkCopy, number: usize) {
        let copies = self.chunks.entry(chunk.sequence).or_default();
        copies.push(Copy { number, chunk });
        copies.sort_by_key(|copy| match copy.chunk {
            // Memory is faster, and a disk copy without a valid header is unlikely to help.
            ChunkCopy {
                place: CopyPlace::Memory(_),
                ..
            } => 0,
            ChunkCopy { seal: Some(_), .. } => 1,
            ChunkCopy {
                unwritten: false, ..
            } => 2,
            _ => 3,
        });
    }

    /// Adds a file that holds chunks, and the places behind the last of them.
    pub fn add_file(&mut self, header: &FileHeader, number: usize, places: Vec<ChunkCopy>) {
        self.file_begins.insert(header.first_sequence);
        if !places.is_empty() {
            self.ends.push(FileEnd {
                next: header.first_sequence + u64::from(header.slots),
                number,
                places,
            });
        }
    }

    /// Adds chunks that were left out; call it when all files are known. A log continues in the
    /// next file only when this one has no place left, so an empty place before its end was left
    /// out.
    pub fn add_left_out(&mut self) {
        for end in std::mem::take(&mut self.ends) {
            if !self.file_begins.contains(&end.next) {
                continue;
            }
            for place in end.places {
                let left_out = ChunkCopy {
                    unwritten: true,
                    ..place
                };
                self.add(left_out, end.number);
            }
        }
    }

    /// The chunk from which on all records of the program's stream with an SSN of at
    /// least `from` are found: behind the last chunk that is known to end below it.
    pub fn begin_of(&self, from: Ssn, run: Range<u64>) -> u64 {
        let ends_below = |copies: &[Copy]| {
            let mut seals = copies.iter().filter_map(|copy| copy.chunk.seal);
            seals.any(|seal| seal.ssn_end <= from)
        };
        let below = self
            .chunks
            .range(run.clone())
            .rev()
            .find(|(_, copies)| ends_below(copies));
        below.map_or(run.start, |(sequence, _)| sequence + 1)
    }

    /// As [`LogIndex::begin_of`], for records of all streams: skips only chunks that are also
    /// known to hold no internal records.
    pub fn begin_of_all(&self, from: Ssn, run: Range<u64>) -> u64 {
        let begin = self.begin_of(from, run.clone());
        let has_none = |copies: &[Copy]| {
            let mut seals = copies.iter().filter_map(|copy| copy.chunk.seal);
            seals.any(|seal| !seal.has_internal)
        };
        let mut before = self.chunks.range(run.start..begin);
        let internal = before.find(|(_, copies)| !has_none(copies));
        internal.map_or(begin, |(sequence, _)| *sequence)
    }

    pub fn summary(&self) -> LogSummary {
        let mut summary = LogSummary::default();
        let is_there = |copies: &Vec<Copy>| copies.iter().any(|copy| !copy.chunk.unwritten);
        for (sequence, copies) in self.chunks.iter().filter(|(_, copies)| is_there(copies)) {
            let is_in_memory = |copy: &&Copy| matches!(copy.chunk.place, CopyPlace::Memory(_));
            let on_disk = copies
                .iter()
                .find(|copy| !copy.chunk.unwritten && !is_in_memory(copy));
            let in_memory = copies.iter().any(|copy| is_in_memory(&copy));
            summary.chunks += 1;
            summary.disk_chunks += u64::from(on_disk.is_some());
            summary.memory_chunks += u64::from(in_memory);
            let low = summary.sequences.map_or(*sequence, |(low, _)| low);
            summary.sequences = Some((low, *sequence));
            if let Some(seal) = on_disk.and_then(|copy| copy.chunk.seal) {
                summary.used_bytes += u64::from(seal.used_bytes);
            }
            for seal in copies.iter().filter_map(|copy| copy.chunk.seal) {
                let ssns = summary.ssns.get_or_insert(seal.ssn_low.0..seal.ssn_end.0);
                ssns.start = ssns.start.min(seal.ssn_low.0);
                ssns.end = ssns.end.max(seal.ssn_end.0);
            }
        }
        summary
    }
}

impl Copy {
    pub fn place(&self, image: &LogImage) -> ChunkPlace {
        match self.chunk.place {
            CopyPlace::Slot(slot) => ChunkPlace::Disk {
                path: image.files[self.number].contents.path().to_owned(),
                slot,
            },
            CopyPlace::Memory(chunk) => ChunkPlace::Memory { chunk },
        }
    }

    /// Reads the copy and checks it completely.
    pub fn load(
        &self,
        image: &LogImage,
        key: &LogKey,
        open: &mut OpenFiles,
        into: &mut CheckedChunk,
    ) -> Result<(), ChunkFault> {
        let sequence = self.chunk.sequence;
        match self.chunk.place {
            CopyPlace::Memory(chunk) => {
                if !image.memories[self.number].copy(chunk, into.buffer()) {
                    return Err(ChunkFault::Read("it is not in the memory".into()));
                }
                into.check_memory(key, sequence)
            }
            CopyPlace::Slot(slot) => {
                let contents = &image.files[self.number].contents;
                let bytes = self.bytes_to_read();
                let buffer = &mut into.buffer()[..bytes];
                let read = match open.ahead.take(self.number, slot_offset(slot), buffer) {
                    Some(read) => read,
                    None => open
                        .get(self.number, contents)
                        .and_then(|file| file.read(buffer, slot_offset(slot)))
                        .map_err(|error| match error.kind() {
                            io::ErrorKind::NotFound => ChunkFault::Gone,
                            _ => ChunkFault::Read(error.to_string()),
                        })?,
                };
                match into.check_sealed(read, key, sequence) {
                    // A running job may have written it meanwhile.
                    Err(_) if self.chunk.unwritten => Err(ChunkFault::Unwritten),
                    checked => checked,
                }
            }
        }
    }

    /// Begins to read the copy.
    pub fn will_load(&self, image: &LogImage, open: &mut OpenFiles) {
        if let CopyPlace::Slot(slot) = self.chunk.place {
            let contents = &image.files[self.number].contents;
            let bytes = self.bytes_to_read();
            open.ahead
                .ask(self.number, contents, slot_offset(slot), bytes);
        }
    }

    fn bytes_to_read(&self) -> usize {
        let seal = self.chunk.seal;
        let used_bytes = seal.map_or(CHUNK_BYTES, |seal| seal.used_bytes as usize);
        used_bytes.next_multiple_of(BLOCK_BYTES).min(CHUNK_BYTES)
    }
}
