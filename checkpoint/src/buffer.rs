//! The memory of a strip.

use crate::format::STRIP_BYTES;
use refrain_storage::{AlignedBuffer, Bytes, Memory};

/// The bytes of a strip, at an address that direct I/O takes.
#[derive(Debug)]
pub struct Strip(AlignedBuffer);

impl Strip {
    /// Zeroed.
    pub fn new() -> Self {
        Self(AlignedBuffer::new(STRIP_BYTES))
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// All of it.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
}

impl Default for Strip {
    fn default() -> Self {
        Self::new()
    }
}

/// To be written.
impl Memory for Strip {
    fn bytes(&mut self) -> Bytes<'_> {
        Bytes::Write(self.0.bytes())
    }
}
