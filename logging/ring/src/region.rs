//! A [`Region`]: the memory of a log, possibly shared with other
//! processes.

#![allow(
    unsafe_code,
    reason = "the one place that turns mapped memory into words, headers and payload slices"
)]

use crate::Frame;
#[cfg(not(loom))]
use crate::payload_offset;
use crate::sync::{AtomicU64, Ordering};
use crate::writer::Room;
use std::sync::Arc;

/// Memory shared by one writer and its readers.
///
/// All accesses follow one discipline, on which every unsafe block below relies. The first
/// word of a line is only accessed atomically. All other bytes of a record are
/// written by the log's one writer before it publishes the record's first word
/// (release), read by others only after they saw that word (acquire), and not
/// written again until every reader has released the chunk. The processes of a
/// job trust each other to follow it.
#[derive(Clone)]
pub struct Region {
    memory: Memory,
    bytes: usize,
}

/// The owner of the mapping, which keeps the memory mapped.
pub type Owner = Arc<dyn Send + Sync>;

#[cfg(not(loom))]
#[derive(Clone)]
struct Memory {
    base: core::ptr::NonNull<u8>,
    _owner: Owner,
}

// SAFETY: the pointer is to memory that `_owner` keeps alive from any thread,
// and the discipline above orders all accesses.
#[cfg(not(loom))]
unsafe impl Send for Memory {}
// SAFETY: as for Send.
#[cfg(not(loom))]
unsafe impl Sync for Memory {}

impl core::fmt::Debug for Region {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Region")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Region {
    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(not(loom))]
impl Region {
    /// Wraps memory that the caller has mapped.
    ///
    /// # Safety
    /// `base .. base + bytes` must be readable and writable as long as `owner`
    /// lives, aligned to 64 bytes, and used by others only by the discipline
    /// stated at [`Region`].
    pub unsafe fn from_raw(base: core::ptr::NonNull<u8>, bytes: usize, owner: Owner) -> Self {
        assert!(
            base.as_ptr()
                .addr()
                .is_multiple_of(crate::header::LINE_BYTES),
            "a region begins on a cache line"
        );
        Self {
            memory: Memory {
                base,
                _owner: owner,
            },
            bytes,
        }
    }

    /// Zeroed memory of this process alone, on pages of its own: device libraries
    /// may withhold registered pages from forked children.
    pub fn heap(bytes: usize) -> Self {
        #[repr(align(4096))]
        struct Page(
            #[expect(dead_code, reason = "only its memory is used")]
            core::cell::UnsafeCell<[u8; 4096]>,
        );
        // SAFETY: the cell's bytes are accessed only through the region, by its
        // discipline.
        unsafe impl Sync for Page {}
        let pages: Arc<[Page]> = (0..bytes.div_ceil(size_of::<Page>()))
            .map(|_| Page(core::cell::UnsafeCell::new([0; 4096])))
            .collect();
        let base = core::ptr::NonNull::from(&*pages).cast::<u8>();
        // SAFETY: the slice lives as long as the Arc, is aligned to more than 64 and
        // holds `bytes` bytes inside cells.
        unsafe { Self::from_raw(base, bytes, Arc::new(pages)) }
    }

    /// Address of the byte at `offset`.
    #[inline]
    pub fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset <= self.bytes);
        self.memory.base.as_ptr().wrapping_add(offset)
    }

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(
            offset.is_multiple_of(8) && offset + 8 <= self.bytes,
            "word outside its region"
        );
        // SAFETY: in bounds and aligned by the assertion; first words are only
        // touched atomically.
        unsafe { AtomicU64::from_ptr(self.at(offset).cast()) }
    }

    /// Writes bytes 8..48 of the line at `offset`: a header without its first word.
    #[inline(always)]
    pub(crate) fn write_header_rest(&self, offset: usize, words: &[u64; 5]) {
        assert!(offset + 48 <= self.bytes, "header outside its region");
        let to = self.at(offset + 8).cast::<u64>();
        // Word by word: a copy of the array would load bytes that were just stored.
        for (index, word) in words.iter().enumerate() {
            // SAFETY: in bounds; the record at `offset` is not published, so no reader
            // reads these bytes.
            unsafe { to.add(index).write(word.to_le()) }
        }
    }

    /// Reads bytes 8..48 of the line at `offset`, after its first word was seen.
    #[inline]
    pub(crate) fn read_header_rest(&self, offset: usize) -> [u64; 5] {
        assert!(offset + 48 <= self.bytes, "header outside its region");
        // SAFETY: in bounds; the record is published, so these bytes do not change.
        let [a, b, c, d] = unsafe { self.at(offset + 8).cast::<[u64; 4]>().read() };
        // The checksum may be written at any time, when the chunk is written to disk.
        let check = self.word(offset + 40).load(Ordering::Relaxed);
        [a, b, c, d, check].map(u64::from_le)
    }

    /// Stores a word that no reader depends on: a checksum. Tests use it to damage a log.
    #[doc(hidden)]
    pub fn store_word(&self, offset: usize, word: u64) {
        self.word(offset).store(word.to_le(), Ordering::Release);
    }

    /// The first four words of the chunk at `offset`. Sealing may change the last of them
    /// meanwhile.
    pub(crate) fn chunk_words(&self, offset: usize) -> [u64; 4] {
        let first = self.load_first_word(offset);
        let [a, b, c] = [8, 16, 24].map(|at| self.word(offset + at).load(Ordering::Relaxed));
        [first, u64::from_le(a), u64::from_le(b), u64::from_le(c)]
    }

    /// Fills a chunk that no reader reads with the bytes of a complete chunk that was
    /// recalled from disk. All its records are then published, and no link follows them
    /// yet. If the process is killed meanwhile, the chunk has no valid header.
    pub(crate) fn fill_chunk(&self, offset: usize, bytes: &[u8]) {
        self.clear_first_word(offset);
        crate::sync::fence(Ordering::Release);
        let (words, rest) = bytes.as_chunks::<8>();
        assert!(rest.is_empty() && bytes.len() < crate::CHUNK_BYTES);
        for (index, word) in words.iter().enumerate().skip(1) {
            let word = u64::from_ne_bytes(*word);
            self.word(offset + index * 8).store(word, Ordering::Relaxed);
        }
        self.clear_first_word(offset + bytes.len());
        self.publish_first_word(offset, u64::from_le_bytes(words[0]));
    }

    /// Copies the first `to.len()` bytes of a chunk out of a rank's memory, with
    /// the arena at `arena_offset`, rounded down to whole words; `false`, and
    /// nothing copied, when the region has no such chunk.
    ///
    /// For readers of a dead rank's log. The copy is word by word and atomic, so that a writer
    /// that still lives causes wrong bytes but no undefined behaviour; the reader checks
    /// everything ([`chunk::ChunkReader`](crate::chunk::ChunkReader)).
    #[must_use]
    pub fn copy_chunk(&self, arena_offset: usize, chunk: crate::ChunkId, to: &mut [u8]) -> bool {
        let begin = (chunk.0 as usize)
            .checked_mul(crate::CHUNK_BYTES)
            .and_then(|at| at.checked_add(arena_offset))
            .filter(|begin| begin.is_multiple_of(8) && to.len() <= crate::CHUNK_BYTES);
        let Some(begin) = begin else {
            return false;
        };
        if (begin.checked_add(crate::CHUNK_BYTES)).is_none_or(|end| end > self.bytes) {
            return false;
        }
        let (words, _) = to.as_chunks_mut::<8>();
        for (index, word) in words.iter_mut().enumerate() {
            *word = self
                .word(begin + index * 8)
                .load(Ordering::Relaxed)
                .to_ne_bytes();
        }
        true
    }

    /// The bytes of a complete chunk that its log has lent out: only the borrower
    /// stores there.
    pub(crate) fn chunk(&self, offset: usize) -> &[u8] {
        assert!(
            offset + crate::CHUNK_BYTES <= self.bytes,
            "chunk outside its region"
        );
        // SAFETY: in bounds; all its records are published and do not change
        // before the log has the chunk back.
        unsafe { core::slice::from_raw_parts(self.at(offset), crate::CHUNK_BYTES) }
    }

    /// Payload bytes of a record that is not published.
    #[inline(always)]
    pub(crate) fn payload_mut<'a>(&'a self, room: &'a mut Room) -> &'a mut [u8] {
        let offset = room.offset + payload_offset(room.payload_bytes);
        assert!(
            offset + room.payload_bytes <= self.bytes,
            "payload outside its region"
        );
        // SAFETY: in bounds; a log and the shared payload have one room at a time, which is
        // borrowed exclusively, and readers look neither beyond the last published word nor at
        // shared payload to which no published record refers.
        unsafe { core::slice::from_raw_parts_mut(self.at(offset), room.payload_bytes) }
    }

    /// Payload bytes of a published record.
    ///
    /// The caller makes sure that the record is not released while the slice
    /// lives; the reader's borrow does that.
    #[inline]
    pub(crate) fn payload(&self, offset: usize, bytes: usize) -> &[u8] {
        assert!(offset + bytes <= self.bytes, "payload outside its region");
        // SAFETY: in bounds; published bytes do not change until released.
        unsafe { core::slice::from_raw_parts(self.at(offset), bytes) }
    }
}

impl Region {
    /// The first word of the line at `offset`; 0 when nothing is published there.
    #[inline]
    pub(crate) fn load_first_word(&self, offset: usize) -> u64 {
        u64::from_le(self.word(offset).load(Ordering::Acquire))
    }

    /// Makes the frame's record visible to readers. A record that is visible already may be
    /// on its way to disk: nothing is stored there.
    #[inline]
    pub fn publish(&self, frame: &Frame) {
        if frame.first_word != 0 {
            let word = frame.first_word.to_le();
            self.word(frame.offset).store(word, Ordering::Release);
        }
    }

    /// Publishes the line at `offset`, and all earlier writes.
    #[inline]
    pub(crate) fn publish_first_word(&self, offset: usize, word: u64) {
        self.word(offset).store(word.to_le(), Ordering::Release);
    }

    /// Marks the line at `offset` as not published. Visible at the latest with
    /// the next publication.
    #[inline]
    pub(crate) fn clear_first_word(&self, offset: usize) {
        self.word(offset).store(0, Ordering::Relaxed);
    }
}

/// Under loom a region is a sequence of modelled lines: an atomic first word and a cell
/// for the rest of the header, whose unsynchronised use loom reports.
#[cfg(loom)]
#[derive(Clone)]
struct Memory {
    lines: Arc<Vec<(AtomicU64, loom::cell::UnsafeCell<[u64; 5]>)>>,
}

// SAFETY: loom stops at the first access to a cell that is not ordered.
#[cfg(loom)]
unsafe impl Send for Memory {}
// SAFETY: as for Send.
#[cfg(loom)]
unsafe impl Sync for Memory {}

#[cfg(loom)]
impl Region {
    /// Modelled memory.
    #[expect(
        clippy::arc_with_non_send_sync,
        reason = "loom's cells are no Sync, their wrapper is"
    )]
    pub fn heap(bytes: usize) -> Self {
        let lines = (0..bytes / 64)
            .map(|_| (AtomicU64::new(0), loom::cell::UnsafeCell::new([0; 5])))
            .collect();
        Self {
            memory: Memory {
                lines: Arc::new(lines),
            },
            bytes,
        }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(
            offset.is_multiple_of(64),
            "only first words of lines are modelled"
        );
        &self.memory.lines[offset / 64].0
    }

    pub(crate) fn write_header_rest(&self, offset: usize, words: &[u64; 5]) {
        // SAFETY: loom checks that no other thread uses this cell.
        self.memory.lines[offset / 64]
            .1
            .with_mut(|cell| unsafe { *cell = *words });
    }

    pub(crate) fn read_header_rest(&self, offset: usize) -> [u64; 5] {
        // SAFETY: loom checks that no thread writes this cell.
        self.memory.lines[offset / 64]
            .1
            .with(|cell| unsafe { *cell })
    }

    pub(crate) fn chunk_words(&self, offset: usize) -> [u64; 4] {
        match self.load_first_word(offset) {
            0 => [0; 4],
            first => {
                let [a, b, c, ..] = self.read_header_rest(offset);
                [first, a, b, c]
            }
        }
    }

    pub(crate) fn payload_mut<'a>(&'a self, _room: &'a mut Room) -> &'a mut [u8] {
        &mut []
    }

    pub(crate) fn payload(&self, _offset: usize, bytes: usize) -> &[u8] {
        assert_eq!(bytes, 0, "payload is not modelled: use the header's fields");
        &[]
    }
}
