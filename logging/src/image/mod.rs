//! [`LogImage`]: logs that are no longer written, read from segment files and from the
//! memory of a dead rank.
//!
//! Unlike the rest of this crate it reads files, and waits for them: it is used by
//! recovery and by people, never on a rank's sending path. All input is
//! checked: records are given only from chunks whose checksums are all correct (or
//! from unsealed memory, which has none). LOG-2
//!
//! - A log is the contiguous run of chunks up to its last valid one: it begins after the last
//!   gap, and chunks before the gap were freed. A chunk whose place is empty
//!   in a file after which the log continued is not a gap: it was left out
//!   (docs/formats/log-format.md).
//! - A chunk may have several copies: in memory, on disk, in two files after
//!   a failed write. Any valid copy is used.
//! - Records and messages are streamed in the order of the log, with a memory of
//!   a few chunks however long the log is.

mod ahead;
mod checked;
mod contents;
mod files;
mod index;
mod memory;
mod messages;
mod records;
mod shared;
mod verify;

pub use crate::assembly::Message;
pub use checked::ChunkFault;
pub use files::{Launcher, SegmentFile, StrangeFile, WhyStrange};
pub use index::{ChunkPlace, LogSummary};
pub use memory::RankMemory;
pub use messages::Messages;
pub use records::{CopyFault, LogExtent, LogRecord, ReadFailure, Records, Wanted};
pub use verify::{Finding, LogVerification, Verdict, Verification};

use crate::segment::Channel;
use contents::Contents;
use core::fmt;
use index::LogIndex;
use refrain_ring::{Incarnation, Position, Rank, Ssn};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Names a log: one channel of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogKey {
    /// The job.
    pub job: u64,
    /// The channel.
    pub channel: Channel,
}

impl fmt::Display for LogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job, channel: of } = self;
        write!(
            f,
            "the log of rank {} (incarnation {}) to rank {} in job {job:016x}",
            of.source, of.incarnation, of.destination
        )
    }
}

/// Selects logs; `None` in a field selects all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection {
    /// The job.
    pub job: Option<u64>,
    /// The sender.
    pub source: Option<Rank>,
    /// The incarnation of the sender.
    pub incarnation: Option<Incarnation>,
    /// The receiver.
    pub destination: Option<Rank>,
}

impl Selection {
    fn has(&self, key: &LogKey) -> bool {
        let channel = &key.channel;
        self.job.is_none_or(|job| job == key.job)
            && self.source.is_none_or(|rank| rank == channel.source)
            && self
                .incarnation
                .is_none_or(|life| life == channel.incarnation)
            && self
                .destination
                .is_none_or(|rank| rank == channel.destination)
    }
}

/// Why a folder's logs could not be read.
#[derive(Debug, Error)]
#[error("reading the folder {}: {error}", folder.display())]
pub struct OpenError {
    /// The folder.
    pub folder: PathBuf,
    /// The system's error.
    pub error: io::Error,
}

/// All logs that could be found; see the [module](self).
#[derive(Debug, Default)]
pub struct LogImage {
    selection: Selection,
    files: Vec<SegmentFile>,
    strange: Vec<StrangeFile>,
    others: usize,
    memories: Vec<RankMemory>,
    logs: BTreeMap<LogKey, LogIndex>,
}

/// All paths in a folder. Not by `std::fs::read_dir`: that allocates from the heap of
/// the rank's program, in later lives only.
fn paths_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    use rustix::fs::{CWD, Dir, Mode, OFlags, openat};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut paths = Vec::new();
    for entry in Dir::new(openat(CWD, folder, flags, Mode::empty())?)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            paths.push(folder.join(name));
        }
    }
    Ok(paths)
}

impl LogImage {
    /// The logs in the segment files of a folder, without subfolders.
    /// Files that are not segment files, or cannot be read, are listed; they are not an error.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn open(folder: &Path, selection: Selection) -> Result<Self, OpenError> {
        let fail = |error| OpenError {
            folder: folder.to_owned(),
            error,
        };
        let mut paths = paths_in(folder).map_err(fail)?;
        paths.sort();
        let mut image = Self::empty(selection);
        for path in paths {
            // Neither links nor sockets, pipes or devices: spilling creates none.
            match path.symlink_metadata() {
                Ok(metadata) if metadata.is_file() => image.add_file(Contents::of_path(path)),
                _ => image.others += 1,
            }
        }
        Ok(image.with_all_files())
    }

    /// The logs in files in memory, given as names and contents.
    pub fn of_contents(
        files: impl IntoIterator<Item = (String, Vec<u8>)>,
        selection: Selection,
    ) -> Self {
        let mut image = Self::empty(selection);
        for (name, bytes) in files {
            image.add_file(Contents::of_bytes(name, bytes));
        }
        image.with_all_files()
    }

    /// No logs; memory may be added.
    pub fn empty(selection: Selection) -> Self {
        Self {
            selection,
            ..Self::default()
        }
    }

    /// Adds the memory of a dead rank. Logs that are not selected are left out.
    pub fn add_memory(&mut self, memory: RankMemory) {
        let number = self.memories.len();
        memory.each_chunk(|key, chunk| {
            if self.selection.has(&key) {
                self.logs.entry(key).or_default().add(chunk, number);
            }
        });
        self.memories.push(memory);
    }

    fn add_file(&mut self, contents: Contents) {
        match files::look_at(contents) {
            Ok(Some(file)) if !self.selection.has(&file.key()) => {}
            Ok(Some(file)) => {
                if let Err(strange) = self.index_file(file) {
                    self.strange.push(strange);
                }
            }
            Ok(None) => self.others += 1,
            Err(strange) => self.strange.push(strange),
        }
    }

    fn index_file(&mut self, mut file: SegmentFile) -> Result<(), StrangeFile> {
        let number = self.files.len();
        let index = self.logs.entry(file.key()).or_default();
        let places = file.index_slots(|chunk| index.add(chunk, number));
        // After an error no slot of the file is indexed.
        let places =
            places.map_err(|error| StrangeFile::unreadable(file.contents.path(), &error))?;
        if file.written_slots > 0 {
            index.add_file(&file.header, number, places);
        }
        self.files.push(file);
        Ok(())
    }

    fn with_all_files(mut self) -> Self {
        self.logs.values_mut().for_each(LogIndex::add_left_out);
        self
    }

    /// The segment files, in the order of their paths.
    pub fn files(&self) -> &[SegmentFile] {
        &self.files
    }

    /// Files that look like segment files but cannot be read as such.
    pub fn strange_files(&self) -> &[StrangeFile] {
        &self.strange
    }

    /// Number of other entries in the folder.
    pub fn other_files(&self) -> usize {
        self.others
    }

    /// The logs, with summaries of the headers of their chunks; nothing else is checked
    /// yet.
    pub fn logs(&self) -> impl Iterator<Item = (LogKey, LogSummary)> {
        self.logs.iter().map(|(key, index)| (*key, index.summary()))
    }

    /// The chunks of a log; reads the end of the log.
    ///
    /// # Errors
    /// When there is no such log.
    pub fn extent(&self, key: &LogKey) -> Result<LogExtent, ReadFailure> {
        Ok(Records::new(self, key, Ssn(0).into())?.extent().clone())
    }

    /// The records of a log in their order, only those of wanted messages: of one
    /// stream from an SSN on, or of all streams. Begins at the first chunk that can hold one of
    /// these records.
    ///
    /// # Errors
    /// When there is no such log.
    pub fn records(
        &self,
        key: &LogKey,
        wanted: impl Into<Wanted>,
    ) -> Result<Records<'_>, ReadFailure> {
        Records::new(self, key, wanted.into())
    }

    /// The wanted messages of a log, put together, in the order in which they become
    /// complete.
    ///
    /// # Errors
    /// When there is no such log.
    pub fn messages(
        &self,
        key: &LogKey,
        wanted: impl Into<Wanted>,
    ) -> Result<Messages<'_>, ReadFailure> {
        Ok(Messages::new(self.records(key, wanted)?))
    }

    /// As [`LogImage::messages`], to continue reading: `begun` is the beginning of a message
    /// before all wanted ones. Chunks before that position are not read again. This saves time
    /// in the memory of a dead rank, where unsealed chunks do not give their last SSN and a
    /// search begins at the beginning of the log.
    ///
    /// # Errors
    /// When there is no such log.
    pub fn messages_behind(
        &self,
        key: &LogKey,
        wanted: impl Into<Wanted>,
        begun: Position,
    ) -> Result<Messages<'_>, ReadFailure> {
        let mut records = self.records(key, wanted)?;
        records.skip_to(begun);
        Ok(Messages::new(records))
    }

    /// Checks all checksums of all chunks.
    pub fn verify(&self) -> Verification {
        verify::verify(self)
    }
}
