//! The contents of a ring whose server has ended.

use super::layout::{DATA_BYTES, LINE_BYTES, RingIdentity};
use super::memory::RingMemory;
use refrain_logging::determinant::batch::{BATCH_BYTES_MAX, BatchHeader, HEADER_BYTES};

/// A ring of an earlier server.
///
/// Positions in its control page are not used: the process that wrote them may have been
/// killed meanwhile, or be hostile. Every line of the data may begin a batch. Complete
/// batches of this client and incarnation were placed by it, and their numbers give their
/// order. Most of them are stored already, and the acceptor recognizes them.
#[derive(Debug)]
pub struct RingRemains {
    memory: RingMemory,
    identity: RingIdentity,
}

impl RingRemains {
    /// Opens a ring whose owner is known from the file's name, and closes it: a client that
    /// still writes there must join again.
    pub fn new(memory: RingMemory, identity: RingIdentity) -> Self {
        memory.close();
        Self { memory, identity }
    }

    /// Passes the batches in the ring to `each`, in the order of their numbers, until `each`
    /// fails. EL-2, EL-3
    ///
    /// # Errors
    /// The error of `each`.
    pub fn each<E>(
        &self,
        mut each: impl FnMut(&BatchHeader, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut batch = [0; BATCH_BYTES_MAX];
        for offset in self.places() {
            if let Some(header) = self.read(offset, &mut batch) {
                each(&header, &batch[..header.batch_bytes()])?;
            }
        }
        Ok(())
    }

    /// Places where batches may begin, in the order of their first determinants.
    fn places(&self) -> Vec<usize> {
        let mut header = [0; HEADER_BYTES];
        let mut places = Vec::new();
        for offset in (0..=DATA_BYTES - BATCH_BYTES_MAX).step_by(LINE_BYTES) {
            self.memory.read(offset, &mut header);
            if let Ok(header) = BatchHeader::peek(&header)
                && self.identity.is_of(&header)
            {
                places.push((header.first, offset));
            }
        }
        places.sort_unstable();
        places.into_iter().map(|(_, offset)| offset).collect()
    }

    fn read(&self, offset: usize, batch: &mut [u8; BATCH_BYTES_MAX]) -> Option<BatchHeader> {
        self.memory.read(offset, &mut batch[..]);
        let (header, _) = BatchHeader::read(&batch[..]).ok()?;
        self.identity.is_of(&header).then_some(header)
    }

    /// The owner of the ring.
    pub fn identity(&self) -> &RingIdentity {
        &self.identity
    }
}
