//! A disk in memory, slow on purpose: chunks from the engine come back after some polls, and the
//! last read ends first.

use refrain_ring::read_back::ChunkBytes;
use refrain_ring::{CHUNK_BYTES, Frontier, LentChunk, LoanEnd, Rank};
use refrain_transport::spill::{Spill, SpillEvent};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Number of operations in progress before the first one ends.
const DEPTH: usize = 3;

#[derive(Default)]
struct Platter {
    /// By receiver and chunk: the end of its messages, and its bytes.
    chunks: BTreeMap<(Rank, u64), (Frontier, Vec<u8>)>,
    horizons: BTreeMap<Rank, Frontier>,
    writes: VecDeque<LentChunk>,
    reads: VecDeque<(u64, Vec<u8>)>,
    next_token: u64,
    polls: usize,
    chunks_read: usize,
}

#[derive(Clone, Default)]
pub struct MemoryDisk(Rc<RefCell<Platter>>);

impl MemoryDisk {
    pub fn chunks_read(&self) -> usize {
        self.0.borrow().chunks_read
    }

    /// Number of chunks on the disk.
    pub fn chunk_count(&self) -> usize {
        self.0.borrow().chunks.len()
    }
}

impl Spill for MemoryDisk {
    fn takes(&mut self, _: Rank, _: u64) -> bool {
        self.0.borrow().writes.len() < DEPTH
    }

    fn put(&mut self, chunk: LentChunk) {
        self.0.borrow_mut().writes.push_back(chunk);
    }

    fn poll(&mut self) -> Option<SpillEvent> {
        let platter = &mut *self.0.borrow_mut();
        platter.polls += 1;
        if !platter.polls.is_multiple_of(DEPTH) {
            return None;
        }
        if let Some((token, bytes)) = platter.reads.pop_back() {
            platter.chunks_read += 1;
            return Some(SpillEvent::Read {
                token,
                bytes: Ok(ChunkBytes::new(bytes)),
            });
        }
        let mut chunk = platter.writes.pop_front()?;
        chunk.seal(1);
        let horizon = platter.horizons.get(&chunk.destination());
        if horizon.is_none_or(|horizon| !chunk.ends().is_within(horizon)) {
            let place = (chunk.destination(), chunk.sequence());
            let kept = (chunk.ends().clone(), chunk.bytes().to_vec());
            platter.chunks.insert(place, kept);
        }
        Some(SpillEvent::Returned(chunk, LoanEnd::OnDisk))
    }

    fn under_way(&self) -> usize {
        let platter = self.0.borrow();
        platter.writes.len() + platter.reads.len()
    }

    fn trim(&mut self, destination: Rank, horizon: &Frontier) {
        let platter = &mut *self.0.borrow_mut();
        platter.horizons.insert(destination, horizon.clone());
        platter
            .chunks
            .retain(|(rank, _), (ends, _)| *rank != destination || !ends.is_within(horizon));
    }

    fn find(&self, destination: Rank, from: &Frontier) -> Option<u64> {
        let platter = self.0.borrow();
        let of_channel = platter
            .chunks
            .range((destination, 0)..=(destination, u64::MAX));
        let mut beyond = of_channel.filter(|(_, (ends, _))| !ends.is_within(from));
        beyond.next().map(|((_, sequence), _)| *sequence)
    }

    fn read(&mut self, destination: Rank, sequence: u64) -> Option<u64> {
        let platter = &mut *self.0.borrow_mut();
        let (_, bytes) = platter.chunks.get(&(destination, sequence))?;
        let token = platter.next_token;
        platter.reads.push_back((token, bytes.clone()));
        platter.next_token += 1;
        Some(token)
    }

    fn after_bytes(&self) -> u64 {
        256 << 10
    }

    fn held_bytes(&self) -> u64 {
        (self.chunk_count() * CHUNK_BYTES) as u64
    }

    fn explain(&self) -> String {
        "a disk in memory".to_owned()
    }
}
