//! The segment files in a folder, identified by their headers, and files that only look like
//! segment files.

use super::LogKey;
use super::checked::is_chunk;
use super::contents::{Contents, Opened};
use super::index::{ChunkCopy, CopyPlace};
use crate::segment::{Channel, FILE_HEADER_BYTES, FileHeader, FileHeaderError, slot_offset};
use refrain_ring::chunk::{CHUNK_HEAD_BYTES, ChunkError, ChunkHeader};
use refrain_ring::{CHUNK_BYTES, Incarnation, Rank};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// First bytes of segment files of every version.
const MAGIC_OF_ALL_VERSIONS: &[u8] = b"rfrnseg";
/// Number of slots whose headers the system reads ahead.
const AHEAD_SLOTS: u32 = 64;

/// The process that started a job, as given in file names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Launcher {
    /// Its process id.
    pub process: u32,
    /// Its start time, in clock ticks since boot.
    pub start_time: u64,
}

/// A file with the header of a segment file.
#[derive(Debug)]
pub struct SegmentFile {
    pub(super) contents: Contents,
    pub(super) header: FileHeader,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// The process that started the job, if the file's name says so.
    pub launcher: Option<Launcher>,
    /// Number of slots that hold their chunk, according to its header.
    pub(super) written_slots: u32,
    /// Number of slots that hold a chunk from before the file was reused.
    pub(super) stale_slots: u32,
    broken_slots: u32,
}

/// A file that looks like a segment file but cannot be read as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrangeFile {
    /// Its path.
    pub path: PathBuf,
    /// The reason.
    pub why: WhyStrange,
}

/// Why a file cannot be read as a segment file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WhyStrange {
    /// Created, but its header was not written when the rank died, or is not written yet.
    #[error("its header was never written")]
    NotBegun,
    /// Its header is damaged or of another version.
    #[error(transparent)]
    Header(#[from] FileHeaderError),
    /// Its header is valid, but names chunks that no log has.
    #[error("its header says that it begins at chunk {0}, which no log has")]
    Sequence(u64),
    /// The system could not read it.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
}

impl WhyStrange {
    /// Whether chunks may be lost with the file.
    pub fn is_damage(&self) -> bool {
        *self != Self::NotBegun
    }
}

impl StrangeFile {
    pub(super) fn unreadable(path: &Path, error: &io::Error) -> Self {
        Self {
            path: path.to_owned(),
            why: WhyStrange::Unreadable(error.to_string()),
        }
    }
}

/// Reads a file's header; `None`: the file does not look like a segment file.
pub(super) fn look_at(contents: Contents) -> Result<Option<SegmentFile>, StrangeFile> {
    let name = contents.path().file_name().unwrap_or_default();
    let name = name.to_str().map(SegmentName::parse).unwrap_or_default();
    let mut head = [0; FILE_HEADER_BYTES];
    let looked = contents
        .open()
        .and_then(|file| Ok((file.read(&mut head, 0)?, file.bytes()?)));
    let (read, bytes) = match looked {
        Ok(looked) => looked,
        // Removed meanwhile by its running job.
        Err(error) if name.is_none() || error.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(StrangeFile::unreadable(contents.path(), &error)),
    };
    let head = &head[..read];
    let strange = |why| {
        let path = contents.path().to_owned();
        Err(StrangeFile { path, why })
    };
    if name.is_none() && !head.starts_with(MAGIC_OF_ALL_VERSIONS) {
        return Ok(None);
    }
    if head.iter().all(|byte| *byte == 0) {
        return strange(WhyStrange::NotBegun);
    }
    match FileHeader::decode(head) {
        Err(error) => strange(error.into()),
        Ok(header) if !is_of_a_log(&header) => strange(WhyStrange::Sequence(header.first_sequence)),
        Ok(header) => Ok(Some(SegmentFile {
            contents,
            header,
            bytes,
            launcher: name.and_then(|name| name.launcher),
            written_slots: 0,
            stale_slots: 0,
            broken_slots: 0,
        })),
    }
}

/// Whether positions of the file's chunks fit 64 bits.
fn is_of_a_log(header: &FileHeader) -> bool {
    let end = header.first_sequence.checked_add(header.slots.into());
    end.and_then(|end| end.checked_mul(CHUNK_BYTES as u64))
        .is_some()
}

impl SegmentFile {
    /// The log that the file holds.
    pub fn key(&self) -> LogKey {
        LogKey {
            job: self.header.job,
            channel: self.header.channel,
        }
    }

    /// Number of slots that were never written.
    pub(super) fn empty_slots(&self) -> u32 {
        self.header.slots - self.written_slots - self.stale_slots - self.broken_slots
    }

    /// Reads the header in every slot. `found` gets chunks, and slots that may have held one.
    /// Returns the places behind the last chunk.
    pub(super) fn index_slots(
        &mut self,
        mut found: impl FnMut(ChunkCopy),
    ) -> io::Result<Vec<ChunkCopy>> {
        let file = self.contents.open()?;
        file.reads_are_scattered();
        // A truncated file has fewer slots.
        let there = self.bytes.saturating_sub(slot_offset(0));
        let slots = there.div_ceil(CHUNK_BYTES as u64);
        let slots = u32::try_from(slots).map_or(self.header.slots, |n| n.min(self.header.slots));
        let ask = |slot: u32| {
            if slot < slots {
                file.will_read(slot_offset(slot), CHUNK_HEAD_BYTES as u64);
            }
        };
        (0..AHEAD_SLOTS).for_each(ask);
        // A file is filled from its beginning and freed as a whole: an empty slot before
        // a written one was left out when the rank died.
        let mut left_out = Vec::new();
        for slot in 0..slots {
            ask(slot + AHEAD_SLOTS);
            let sequence = self.header.first_sequence + u64::from(slot);
            let mut copy = ChunkCopy {
                sequence,
                seal: None,
                place: CopyPlace::Slot(slot),
                unwritten: false,
            };
            match self.look_into(&file, slot, sequence) {
                Slot::Empty => left_out.push(copy),
                Slot::Stale => {
                    self.stale_slots += 1;
                    left_out.push(copy);
                }
                Slot::Broken => {
                    self.broken_slots += 1;
                    found(copy);
                }
                Slot::Written(header) => {
                    self.written_slots += 1;
                    for mut copy in left_out.drain(..) {
                        copy.unwritten = true;
                        found(copy);
                    }
                    copy.seal = header.seal;
                    found(copy);
                }
            }
        }
        Ok(left_out)
    }

    fn look_into(&self, file: &Opened, slot: u32, sequence: u64) -> Slot {
        let mut head = [0; CHUNK_HEAD_BYTES];
        let Ok(read) = file.read(&mut head, slot_offset(slot)) else {
            // Reported when the chunk is read.
            return Slot::Broken;
        };
        match ChunkHeader::decode(&head[..read]) {
            Ok(header) if header.seal.is_none() => Slot::Broken,
            Ok(header) if is_chunk(&header, &self.key(), sequence) => Slot::Written(header),
            Ok(_) => Slot::Stale,
            Err(ChunkError::Empty) => Slot::Empty,
            Err(_) => Slot::Broken,
        }
    }
}

/// The state of a slot, according to its header.
enum Slot {
    Empty,
    Stale,
    Broken,
    Written(ChunkHeader),
}

/// The name of a segment file; the header takes precedence.
#[derive(Debug, PartialEq, Eq)]
struct SegmentName {
    launcher: Option<Launcher>,
    channel: Channel,
    first_sequence: u64,
}

impl SegmentName {
    /// `refrain-<process>-<start time>-<job>-r<source>i<incarnation>-to-r<destination>-<first>.log`,
    /// with another number before `.log` where that name was taken.
    fn parse(name: &str) -> Option<Self> {
        let stem = name.strip_suffix(".log")?;
        let (rest, receiver) = stem.rsplit_once("-to-r")?;
        let mut numbers = receiver.splitn(3, '-');
        let (destination, first) = (numbers.next()?, numbers.next()?);
        if let Some(attempt) = numbers.next() {
            attempt.parse::<u32>().ok()?;
        }
        let (prefix, sender) = match rest.rsplit_once('-') {
            Some((prefix, sender)) => (Some(prefix), sender),
            None => (None, rest),
        };
        let (source, incarnation) = sender.strip_prefix('r')?.split_once('i')?;
        Some(Self {
            launcher: prefix.and_then(launcher),
            channel: Channel {
                source: Rank(source.parse().ok()?),
                incarnation: Incarnation(incarnation.parse().ok()?),
                destination: Rank(destination.parse().ok()?),
            },
            first_sequence: first.parse().ok()?,
        })
    }
}

fn launcher(prefix: &str) -> Option<Launcher> {
    // The job may follow.
    let mut numbers = prefix.strip_prefix("refrain-")?.splitn(3, '-');
    let (process, start_time) = (numbers.next()?, numbers.next()?);
    Some(Launcher {
        process: process.parse().ok()?,
        start_time: start_time.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_whose_files_they_are() {
        let name = SegmentName::parse("refrain-12-345-r70000i2-to-r3-000000000256.log").unwrap();
        assert_eq!(
            name.launcher,
            Some(Launcher {
                process: 12,
                start_time: 345
            })
        );
        assert_eq!(name.channel.to_string(), "70000 (incarnation 2) to 3");
        assert_eq!(name.first_sequence, 256);
        // Names as jobs make them; the second if the first was taken.
        for name in [
            "refrain-12-345-00000c0ffee00001-r70000i2-to-r3-000000000256.log",
            "refrain-12-345-00000c0ffee00001-r70000i2-to-r3-000000000256-2.log",
        ] {
            assert_eq!(
                SegmentName::parse(name),
                SegmentName::parse("refrain-12-345-r70000i2-to-r3-000000000256.log"),
                "{name}"
            );
        }
        let plain = SegmentName::parse("r0i0-to-r1-000000000000.log").unwrap();
        assert_eq!(plain.launcher, None);
        for other in [
            "",
            "r0i0-to-r1-000000000000",
            "r0-to-r1-0.log",
            "refrain-1-2-r0i0-to-r1.log",
            "ri-to-r-.log",
            "r0i0-to-r1-000000000000-x.log",
            "r0i0-to-r1-000000000000-2-3.log",
            "messages-2024-to-r1-7.log",
        ] {
            assert_eq!(SegmentName::parse(other), None, "{other}");
        }
    }
}
