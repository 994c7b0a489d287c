//! The log of a dead rank. Its segment lives as long as a process holds its descriptor, and another
//! process of the host can read it. LOG-2

use super::segment::{RANKS_MAX, SEGMENT_MAGIC, Segment, arena_offset};
use crate::fabric::FabricError;
use core::ops::Range;
use core::sync::atomic::Ordering::Acquire;
use refrain_ring::{CHUNK_BYTES, Incarnation, Rank, Region};
use rustix::fs::{SealFlags, SeekFrom, fcntl_get_seals, fstat, seek};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use thiserror::Error;

/// The log memory of a rank, and the identity in its segment.
#[derive(Clone, Debug)]
pub struct DeadLog {
    /// The whole segment; it stays mapped as long as this exists.
    pub region: Region,
    /// Where its log's chunks lie: from the arena's beginning to the end of the
    /// last chunk that was ever written to.
    pub arena: Range<usize>,
    /// The job.
    pub job: u64,
    /// The rank.
    pub rank: Rank,
    /// Its incarnation.
    pub incarnation: Incarnation,
}

/// Why a descriptor gives no log.
#[derive(Debug, Error)]
pub enum DeadLogError {
    /// It is not a segment of this version.
    #[error("this is no shared segment of a rank: {0}")]
    NoSegment(String),
    /// The system could not map it.
    #[error(transparent)]
    Map(#[from] FabricError),
}

/// Maps the segment of a rank. The rank must be dead and reaped: records that a living rank writes
/// meanwhile would be missed, or read as damage.
///
/// # Errors
/// When the descriptor is not of a rank's whole segment.
pub fn open_dead_log(file: Arc<OwnedFd>) -> Result<DeadLog, DeadLogError> {
    let segment = attach_checked(&file, Segment::attach)?;
    let head = segment.head();
    let (rank, size) = (head.rank.load(Acquire), head.size.load(Acquire));
    if size > RANKS_MAX || rank >= size {
        return refuse(format!("it names rank {rank} of {size} ranks"));
    }
    let begin = arena_offset(size);
    let said = (
        head.arena_offset.load(Acquire),
        head.segment_bytes.load(Acquire),
    );
    if said != (begin as u64, segment.bytes() as u64) || begin > segment.bytes() {
        return refuse(format!(
            "log memory from {} to {} in {} bytes, for {size} ranks",
            said.0,
            said.1,
            segment.bytes()
        ));
    }
    let end = written_end(&file, begin, segment.bytes());
    Ok(DeadLog {
        region: segment.region(),
        arena: begin..end,
        job: head.job.load(Acquire),
        rank: Rank(rank),
        incarnation: Incarnation(head.incarnation.load(Acquire)),
    })
}

fn refuse<T>(why: String) -> Result<T, DeadLogError> {
    Err(DeadLogError::NoSegment(why))
}

/// Maps a file of a rank's segment. Only a memory file that cannot be shortened is mapped:
/// access to a truncated part kills the process. Segments have that seal.
pub(super) fn attach_checked(
    file: &Arc<OwnedFd>,
    attach: fn(Arc<OwnedFd>) -> Result<Segment, FabricError>,
) -> Result<Segment, DeadLogError> {
    let seals = fcntl_get_seals(file).or_else(|_| refuse("it is no memory file".into()))?;
    if !seals.contains(SealFlags::SHRINK) {
        return refuse("it may be shortened while it is read".into());
    }
    let bytes = fstat(file).map_or(0, |stat| stat.st_size);
    if bytes < arena_offset(1) as i64 {
        return refuse(format!("{bytes} bytes are too few"));
    }
    let segment = attach(Arc::clone(file))?;
    let magic = segment.head().magic.load(Acquire);
    if magic != SEGMENT_MAGIC {
        return refuse(format!(
            "it begins with {magic:#018x}, not {SEGMENT_MAGIC:#018x}"
        ));
    }
    Ok(segment)
}

/// The end of the chunk with the last byte that has memory: reading a page without
/// memory would allocate it.
fn written_end(file: &OwnedFd, begin: usize, bytes: usize) -> usize {
    let mut end = begin;
    // If the system does not report holes, the whole log is read.
    while let Ok(data) = seek(file, SeekFrom::Data(end as u64)) {
        match seek(file, SeekFrom::Hole(data)) {
            Ok(hole) if hole as usize > end => end = hole as usize,
            _ => return bytes,
        }
    }
    begin + (end.min(bytes) - begin).next_multiple_of(CHUNK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::shm::{Shm, ShmOptions};
    use refrain_ring::{Arena, ChannelLog, RecordHeader, RecordKind, Ssn};
    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};
    use rustix::io::pwrite;

    const OPTIONS: ShmOptions = ShmOptions {
        job: 77,
        rank: Rank(1),
        incarnation: Incarnation(4),
        size: 3,
        log_bytes: 64 << 20,
        window_bytes: 8 << 20,
    };

    fn segment_of(options: ShmOptions) -> (Arc<OwnedFd>, Arena) {
        let (fabric, arena) = Shm::create(options).expect("memory");
        (Arc::clone(fabric.own.file().expect("it is its own")), arena)
    }

    #[test]
    fn a_log_outlives_its_rank() {
        let (file, mut arena) = segment_of(OPTIONS);
        let mut log = ChannelLog::new(OPTIONS.rank, OPTIONS.incarnation, Rank(2), 8 << 20);
        let header = RecordHeader {
            payload_bytes: 5,
            kind: RecordKind::Eager,
            flags: 0,
            incarnation: Incarnation(0),
            source: Rank(0),
            ssn: Ssn(9),
            context: 0,
            tag: 0,
            extent: 5,
        };
        let fill = |payload: &mut [u8]| payload.copy_from_slice(b"hello");
        let frame = log.append(&mut arena, 5, true, header, fill);
        frame.expect("room").publish(arena.region());
        let chunk = log.first_chunk().expect("it was begun");
        drop((log, arena));

        let dead = open_dead_log(file).expect("a whole segment");
        assert_eq!(
            (dead.job, dead.rank, dead.incarnation),
            (77, Rank(1), Incarnation(4))
        );
        assert!(
            dead.arena.len() < 16 << 20,
            "of 64 MiB only what was used: {:?}",
            dead.arena
        );
        let mut bytes = vec![0; CHUNK_BYTES];
        assert!(dead.region.copy_chunk(dead.arena.start, chunk, &mut bytes));
        let mut reader = refrain_ring::chunk::ChunkReader::in_memory(&bytes).expect("a chunk");
        assert_eq!(reader.header().destination, Rank(2));
        let record = reader.next_record().expect("whole").expect("one");
        assert_eq!((record.header.ssn, record.payload), (Ssn(9), &b"hello"[..]));
    }

    #[test]
    fn a_rank_that_sent_nothing_has_an_empty_log() {
        let (file, arena) = segment_of(OPTIONS);
        drop(arena);
        let dead = open_dead_log(file).expect("a whole segment");
        assert_eq!(dead.arena.len(), 0);
    }

    #[track_caller]
    fn assert_refused(file: Arc<OwnedFd>, words: &str) {
        let error = open_dead_log(file).expect_err("nonsense").to_string();
        assert!(error.contains(words), "{words:?} in {error}");
    }

    #[test]
    fn what_is_no_segment_is_refused() {
        let null = std::fs::File::open("/dev/null").expect("/dev/null");
        assert_refused(Arc::new(null.into()), "no memory file");
        let memory = |bytes: u64| {
            let file = memfd_create("test", MemfdFlags::ALLOW_SEALING).expect("a memory file");
            ftruncate(&file, bytes).expect("room");
            file
        };
        assert_refused(Arc::new(memory(4 << 20)), "shortened");
        for (bytes, words) in [(100, "too few"), (4 << 20, "begins with")] {
            let file = memory(bytes);
            fcntl_add_seals(&file, SealFlags::SHRINK).expect("sealed");
            assert_refused(Arc::new(file), words);
        }
    }

    /// Every field of the head that determines the layout is checked.
    #[test]
    fn a_damaged_head_is_refused() {
        for (offset, bytes, words) in [
            (0, 1_u64.to_le_bytes(), "begins with"),
            (16, (3 | 4_u64 << 32).to_le_bytes(), "rank 3 of 3"),
            (
                24,
                u64::from(u32::MAX).to_le_bytes(),
                "rank 1 of 4294967295",
            ),
            (24, 900_u64.to_le_bytes(), "for 900 ranks"),
            (32, u64::MAX.to_le_bytes(), "log memory from"),
            (40, 64_u64.to_le_bytes(), "log memory from"),
        ] {
            let (file, arena) = segment_of(OPTIONS);
            drop(arena);
            pwrite(&file, &bytes, offset).expect("written");
            assert_refused(file, words);
        }
    }
}
