//! Memory that disks can be given directly.

use super::BLOCK_BYTES;

/// What direct transfers are aligned to, on any disk.
const ALIGNMENT_BYTES: usize = 4096;

/// A block of memory that begins on a page.
#[derive(Debug)]
pub struct Block {
    storage: Vec<u8>,
    start: usize,
}

impl Block {
    /// A block of bytes that no disk can compress or recognise: they differ with
    /// `seed`.
    pub fn random(seed: u64) -> Self {
        let mut storage = vec![0; BLOCK_BYTES + ALIGNMENT_BYTES];
        let mut state = seed;
        for word in storage.chunks_exact_mut(8) {
            // splitmix64
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes());
        }
        let start = storage.as_ptr().align_offset(ALIGNMENT_BYTES);
        Self { storage, start }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.storage[self.start..][..BLOCK_BYTES]
    }

    /// The same, to be read into.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..][..BLOCK_BYTES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_differ() {
        let (one, mut other) = (Block::random(1), Block::random(2));
        for block in [&one, &other] {
            assert_eq!(block.bytes().len(), BLOCK_BYTES);
            assert!(
                block
                    .bytes()
                    .as_ptr()
                    .addr()
                    .is_multiple_of(ALIGNMENT_BYTES)
            );
        }
        assert_ne!(one.bytes(), other.bytes());
        other.bytes_mut().copy_from_slice(one.bytes());
        assert_eq!(one.bytes(), other.bytes());
    }
}
