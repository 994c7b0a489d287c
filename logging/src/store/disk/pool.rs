//! Reused buffers for reading chunks.

use crossbeam_channel::{Receiver, Sender, bounded};
use refrain_ring::CHUNK_BYTES;
use refrain_storage::AlignedBuffer;
use std::fmt;

/// Buffers of the length of a chunk. Keeps a few unused ones.
#[derive(Clone, Debug)]
pub(in crate::store) struct Pool {
    spare: Receiver<AlignedBuffer>,
    give_back: Sender<AlignedBuffer>,
}

impl Pool {
    /// Keeps at most `spare_max` unused buffers.
    pub fn new(spare_max: usize) -> Self {
        let (give_back, spare) = bounded(spare_max);
        Self { spare, give_back }
    }

    /// A buffer with undefined contents.
    pub fn take(&self) -> PooledBuffer {
        let buffer = self
            .spare
            .try_recv()
            .unwrap_or_else(|_| AlignedBuffer::new(CHUNK_BYTES));
        PooledBuffer {
            buffer: Some(buffer),
            pool: self.give_back.clone(),
        }
    }
}

/// A buffer that returns to its pool when dropped.
pub(in crate::store) struct PooledBuffer {
    /// `Some` until it is dropped.
    buffer: Option<AlignedBuffer>,
    pool: Sender<AlignedBuffer>,
}

impl fmt::Debug for PooledBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.buffer.fmt(f)
    }
}

impl PooledBuffer {
    pub fn bytes(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| buffer.bytes())
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer
            .as_mut()
            .map_or(&mut [], |buffer| buffer.bytes_mut())
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            // If the pool is full or gone, the memory is freed.
            let _ = self.pool.try_send(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_come_back_up_to_the_limit() {
        let pool = Pool::new(2);
        let taken: Vec<PooledBuffer> = (0..4).map(|_| pool.take()).collect();
        for buffer in &taken {
            assert!(
                buffer
                    .as_ref()
                    .as_ptr()
                    .addr()
                    .is_multiple_of(refrain_storage::BLOCK_BYTES)
            );
            assert_eq!(buffer.as_ref().len(), CHUNK_BYTES);
        }
        drop(taken);
        assert_eq!(pool.spare.len(), 2);
        let first = pool.take();
        assert_eq!(pool.spare.len(), 1);
        drop(pool);
        drop(first);
    }
}
