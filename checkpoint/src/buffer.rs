//! Memory for direct I/O.

use crate::format::{PAGE_BYTES, STRIP_BYTES};
use core::fmt;

/// The bytes of a strip, at an address that direct I/O takes.
pub struct Strip {
    memory: Vec<u8>,
    begin: usize,
}

impl Strip {
    /// Zeroed.
    pub fn new() -> Self {
        let memory = vec![0; STRIP_BYTES + PAGE_BYTES];
        // The memory is never moved: its length does not change.
        let begin = memory.as_ptr().align_offset(PAGE_BYTES);
        assert!(begin < PAGE_BYTES, "every address has a multiple behind it");
        Self { memory, begin }
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.begin..][..STRIP_BYTES]
    }

    /// All of it.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..][..STRIP_BYTES]
    }
}

impl Default for Strip {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Strip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Strip")
    }
}
