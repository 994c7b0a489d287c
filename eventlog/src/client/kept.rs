//! Batches that a client keeps: their consecutive bytes, and an index.

use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_ring::Clock;
use std::collections::VecDeque;

/// Place of a kept batch, and the values that its acknowledgement must have.
#[derive(Clone, Copy, Debug, Hash)]
struct Entry {
    first: EventIndex,
    end: EventIndex,
    last_clock: Clock,
    /// Place of its first byte, on the scale of `Kept::base`.
    at: u64,
    bytes: u32,
}

/// Consecutive batches. Allocates only to hold more bytes than ever before.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Kept {
    bytes: Vec<u8>,
    /// Bytes at the front that are free.
    free: usize,
    /// Place of the first byte of `bytes`.
    base: u64,
    index: VecDeque<Entry>,
}

impl Kept {
    pub fn push(&mut self, header: &BatchHeader, batch: &[u8]) {
        self.index.push_back(Entry {
            first: header.first,
            end: header.end(),
            last_clock: header.last_clock,
            at: self.base + self.bytes.len() as u64,
            bytes: batch.len() as u32,
        });
        self.bytes.extend_from_slice(batch);
    }

    /// Number of the first determinant that is kept.
    pub fn first(&self) -> Option<EventIndex> {
        self.index.front().map(|entry| entry.first)
    }

    /// The batch that begins with determinant `first`, and its end.
    pub fn starting_at(&self, first: EventIndex) -> Option<(EventIndex, &[u8])> {
        let place = self
            .index
            .binary_search_by_key(&first, |entry| entry.first)
            .ok()?;
        let entry = self.index[place];
        let at = (entry.at - self.base) as usize;
        Some((entry.end, &self.bytes[at..at + entry.bytes as usize]))
    }

    /// Clock of the last determinant of the batch that ends at `end`.
    pub fn clock_at_end(&self, end: EventIndex) -> Option<Clock> {
        let place = self
            .index
            .binary_search_by_key(&end, |entry| entry.end)
            .ok()?;
        Some(self.index[place].last_clock)
    }

    /// Frees the batches that end at or before `end`; returns the clock of the
    /// last of them.
    pub fn free_before(&mut self, end: EventIndex) -> Option<Clock> {
        let mut last_clock = None;
        while let Some(entry) = self.index.front().filter(|entry| entry.end <= end) {
            last_clock = Some(entry.last_clock);
            self.free += entry.bytes as usize;
            self.index.pop_front();
        }
        if self.index.is_empty() {
            self.bytes.clear();
            self.free = 0;
        } else if self.free * 2 > self.bytes.len() {
            // Fewer bytes are moved than were freed.
            self.bytes.drain(..self.free);
            self.base += self.free as u64;
            self.free = 0;
        }
        last_clock
    }

    /// Bytes of the batches that are kept.
    pub fn bytes(&self) -> usize {
        self.bytes.len() - self.free
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }
}
