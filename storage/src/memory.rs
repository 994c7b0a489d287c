//! Memory for direct I/O.

use crate::engine::{Bytes, Memory};
use std::fmt;

/// Direct I/O requires addresses, offsets and lengths that are multiples of this.
pub const BLOCK_BYTES: usize = 4096;

/// Bytes that begin at a multiple of [`BLOCK_BYTES`].
pub struct AlignedBuffer {
    memory: Vec<u8>,
    begin: usize,
    bytes: usize,
}

impl AlignedBuffer {
    /// A buffer of zeros.
    ///
    /// # Panics
    /// Never: each address is followed by a multiple within [`BLOCK_BYTES`].
    pub fn new(bytes: usize) -> Self {
        let memory = vec![0; bytes + BLOCK_BYTES];
        // The memory never moves: its length does not change.
        let begin = memory.as_ptr().align_offset(BLOCK_BYTES);
        assert!(begin < BLOCK_BYTES, "no aligned address");
        Self {
            memory,
            begin,
            bytes,
        }
    }

    /// All bytes of the buffer.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.begin..][..self.bytes]
    }

    /// All bytes of the buffer, mutable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..][..self.bytes]
    }
}

impl AsRef<[u8]> for AlignedBuffer {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuffer({} bytes)", self.bytes)
    }
}

/// Memory of a write.
impl Memory for AlignedBuffer {
    fn bytes(&mut self) -> Bytes<'_> {
        Bytes::Write(Self::bytes(self))
    }
}

/// Memory of a write.
impl Memory for Vec<u8> {
    fn bytes(&mut self) -> Bytes<'_> {
        Bytes::Write(self)
    }
}
