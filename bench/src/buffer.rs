//! User buffers of the ranks, and the pattern that shows that a transfer was correct.

use crate::workload::payload;
use crate::workload::prng::{combine, nth};

/// Buffers begin on a page, as NetPIPE's do.
const PAGE_BYTES: usize = 4096;

/// Memory that begins on a page and was written once.
#[derive(Debug)]
pub struct Buffer {
    storage: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Buffer {
    /// A buffer of `bytes` bytes, all written once.
    pub fn new(bytes: usize) -> Self {
        let mut storage = Vec::with_capacity(bytes + PAGE_BYTES);
        // Not `vec![0; n]`: the kernel would map its pages at their first access.
        storage.resize(bytes + PAGE_BYTES, 0xa5);
        let start = storage.as_ptr().align_offset(PAGE_BYTES);
        Self {
            storage,
            start,
            bytes,
        }
    }

    /// The first `bytes` bytes of the buffer.
    ///
    /// # Panics
    /// If the buffer is shorter.
    pub fn first(&mut self, bytes: usize) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.bytes][..bytes]
    }
}

/// A pattern of bytes that depends on `seed` and `origin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Seed of the round.
    pub seed: u64,
    /// The rank that sent them first.
    pub origin: u32,
}

impl Pattern {
    fn key(self) -> u64 {
        combine(&[self.seed, u64::from(self.origin)])
    }

    /// Writes the pattern over `room`.
    pub fn fill(self, room: &mut [u8]) {
        payload::fill(self.key(), room);
    }

    /// Writes bytes that all differ from the pattern.
    pub fn fill_inverted(self, room: &mut [u8]) {
        self.fill(room);
        room.iter_mut().for_each(|byte| *byte = !*byte);
    }

    /// The first byte of `data` that differs from the pattern, if any.
    pub fn mismatch(self, data: &[u8]) -> Option<usize> {
        let key = self.key();
        (0..).zip(data.chunks(8)).find_map(|(index, chunk)| {
            let expected = nth(key, index).to_le_bytes();
            let at = payload::first_difference(chunk, &expected[..chunk.len()])?;
            Some(8 * index as usize + at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_begin_on_a_page_and_have_the_room() {
        for bytes in [0, 1, 4095, 4096, 4097] {
            let mut buffer = Buffer::new(bytes);
            let room = buffer.first(bytes);
            assert_eq!(room.len(), bytes);
            assert_eq!(room.as_ptr().addr() % PAGE_BYTES, 0);
        }
    }

    #[test]
    fn one_wrong_byte_anywhere_is_found() {
        let pattern = Pattern { seed: 7, origin: 0 };
        for bytes in [1, 7, 8, 9, 100] {
            let mut data = vec![0; bytes];
            pattern.fill(&mut data);
            assert_eq!(pattern.mismatch(&data), None);
            for at in 0..bytes {
                data[at] ^= 1;
                assert_eq!(pattern.mismatch(&data), Some(at));
                data[at] ^= 1;
            }
            pattern.fill_inverted(&mut data);
            assert_eq!(pattern.mismatch(&data), Some(0));
        }
    }

    #[test]
    fn patterns_of_other_commands_and_ranks_differ() {
        let mut data = vec![0; 64];
        Pattern { seed: 7, origin: 0 }.fill(&mut data);
        assert!(Pattern { seed: 8, origin: 0 }.mismatch(&data).is_some());
        assert!(Pattern { seed: 7, origin: 1 }.mismatch(&data).is_some());
    }
}
