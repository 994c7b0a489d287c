//! The oracle's view of an arena: the owner of each chunk, the free chunks in
//! their order, and the memory that the system has given.

use super::lure;
use refrain_ring::{Arena, ArenaFull, CHUNK_BYTES, Frame, Region, ReserveError};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// The chunks begin here in the region, behind whatever else may be there.
const FIRST_CHUNK_OFFSET: usize = 4096;
/// Memory is asked of the system in pieces of this size.
const EXTENT_CHUNKS: u32 = ((2 << 20) / CHUNK_BYTES) as u32;

/// How much of a chunk's neighbours is watched: more than is cleared ahead.
const WATCHED_BYTES: usize = 8192;

/// The system's side: a stretch of memory that only grows.
#[derive(Default)]
struct System {
    committed_chunks: u32,
    /// The next request is refused.
    short: bool,
}

/// An arena and its expected state.
pub struct Memory {
    pub arena: Arena,
    system: Rc<RefCell<System>>,
    chunks: u32,
    /// Chunks that were never taken begin here.
    fresh: u32,
    /// Chunks given back, the last one on top.
    free: Vec<u32>,
    /// Owner of each chunk: (channel, number of the chunk in that channel's log).
    holders: Vec<Option<(usize, u64)>>,
}

impl Memory {
    /// Memory of `chunks` chunks, full of a former log.
    pub fn new(chunks: u32) -> Self {
        let system = Rc::new(RefCell::new(System::default()));
        let region = lure::used_region(FIRST_CHUNK_OFFSET, chunks as usize);
        let arena = Arena::new(region, FIRST_CHUNK_OFFSET, {
            let system = system.clone();
            Box::new(move |offset, bytes| system.borrow_mut().commit(offset, bytes))
        });
        assert_eq!(arena.budget_bytes(), u64::from(chunks) * CHUNK_BYTES as u64);
        Self {
            arena,
            system,
            chunks,
            fresh: 0,
            free: Vec::new(),
            holders: vec![None; chunks as usize],
        }
    }

    pub fn region(&self) -> &Region {
        self.arena.region()
    }

    /// The memory before the chunks, and what adjoins `chunk` on both sides.
    pub fn around(&self, chunk: Option<u32>) -> [Vec<u8>; 3] {
        let end = self.region().bytes();
        let start = chunk.map_or(end, |chunk| {
            FIRST_CHUNK_OFFSET + chunk as usize * CHUNK_BYTES
        });
        let behind = (start + CHUNK_BYTES).min(end);
        [
            0..FIRST_CHUNK_OFFSET,
            start - WATCHED_BYTES.min(start)..start,
            behind..(behind + WATCHED_BYTES).min(end),
        ]
        .map(|range| lure::bytes(self.region(), range))
    }

    pub fn first_chunk_offset(&self) -> usize {
        FIRST_CHUNK_OFFSET
    }

    /// Whether the system refuses to give more.
    pub fn set_short(&self, short: bool) {
        self.system.borrow_mut().short = short;
    }

    pub fn used_bytes(&self) -> u64 {
        let used = self.holders.iter().flatten().count();
        used as u64 * CHUNK_BYTES as u64
    }

    /// The arena gave a chunk to `holder`: which one that must be.
    pub fn taken(&mut self, holder: (usize, u64)) -> u32 {
        let chunk = self.free.pop().unwrap_or_else(|| {
            self.fresh += 1;
            self.fresh - 1
        });
        assert!(
            chunk < self.system.borrow().committed_chunks,
            "chunk {chunk} is used before it is committed"
        );
        let former = self.holders[chunk as usize].replace(holder);
        assert_eq!(former, None, "chunk {chunk} is taken from its holder");
        self.assert_used_bytes();
        chunk
    }

    /// `holder` gave its chunk back.
    pub fn given_back(&mut self, holder: (usize, u64)) {
        let chunk = self.holders.iter().position(|held| *held == Some(holder));
        let chunk = chunk.expect("only chunks that are held are given back");
        self.holders[chunk] = None;
        self.free.push(chunk as u32);
    }

    pub fn assert_used_bytes(&self) {
        assert_eq!(self.arena.used_bytes(), self.used_bytes());
        assert!(self.arena.used_bytes() <= self.arena.budget_bytes());
    }

    /// A frame lies in the chunk that its channel holds.
    pub fn assert_frame_lies_in(&self, frame: &Frame, chunk: u32) {
        let start = FIRST_CHUNK_OFFSET + chunk as usize * CHUNK_BYTES;
        let in_chunk = (frame.position.0 % CHUNK_BYTES as u64) as usize;
        assert_eq!(frame.offset, start + in_chunk);
        assert!(frame.offset + frame.bytes <= start + CHUNK_BYTES);
    }

    /// Checks that a chunk was refused for a valid reason.
    pub fn assert_refused(&self, error: &ReserveError, held_bytes: u64, window_bytes: u64) {
        let all = u64::from(self.chunks) * CHUNK_BYTES as u64;
        match error {
            ReserveError::Window => assert_eq!(held_bytes, window_bytes),
            ReserveError::Arena(ArenaFull::Budget { budget_bytes }) => {
                assert_eq!((*budget_bytes, self.used_bytes()), (all, all));
            }
            ReserveError::Arena(ArenaFull::Memory {
                committed_bytes, ..
            }) => {
                let system = self.system.borrow();
                assert!(system.short);
                assert!(self.free.is_empty() && self.fresh == system.committed_chunks);
                assert_eq!(*committed_bytes, u64::from(self.fresh) * CHUNK_BYTES as u64);
            }
        }
        self.assert_used_bytes();
    }
}

impl System {
    fn commit(&mut self, offset: usize, bytes: usize) -> io::Result<()> {
        let committed = self.committed_chunks as usize * CHUNK_BYTES;
        assert_eq!(offset, FIRST_CHUNK_OFFSET + committed, "in one stretch");
        assert!(bytes > 0 && bytes.is_multiple_of(CHUNK_BYTES));
        if self.short {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let chunks = (bytes / CHUNK_BYTES) as u32;
        assert!(chunks <= EXTENT_CHUNKS, "no more than an extent at a time");
        self.committed_chunks += chunks;
        Ok(())
    }
}
