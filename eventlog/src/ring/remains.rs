//! What is left in a ring whose server has gone away.

use super::layout::{DATA_BYTES, LINE_BYTES, RingIdentity};
use super::memory::RingMemory;
use core::ops::ControlFlow;
use refrain_logging::determinant::batch::{BATCH_BYTES_MAX, BatchHeader, HEADER_BYTES};

/// A ring that was found, not made.
///
/// Positions in its control page are not used: their writer may have been killed
/// meanwhile, or be hostile. Every line of the data may begin a batch; those that are
/// whole and of this client in this life were placed by it, and their numbers give their
/// order. Most were stored long ago: the acceptor knows them.
#[derive(Debug)]
pub struct RingRemains {
    memory: RingMemory,
    identity: RingIdentity,
}

impl RingRemains {
    /// A ring of which the file's name says whose it is. Closes it: a client that
    /// still writes there has to join again.
    pub fn new(memory: RingMemory, identity: RingIdentity) -> Self {
        memory.close();
        Self { memory, identity }
    }

    /// Hands out the batches that are there, in the order of their numbers,
    /// until `each` breaks. EL-2, EL-3
    pub fn each<B>(
        &self,
        mut each: impl FnMut(&BatchHeader, &[u8]) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let mut batch = [0; BATCH_BYTES_MAX];
        for offset in self.places() {
            let Some(header) = self.read(offset, &mut batch) else {
                continue;
            };
            each(&header, &batch[..header.batch_bytes()])?;
        }
        ControlFlow::Continue(())
    }

    /// Where batches may begin, by the numbers of their first determinants.
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

    /// Whose it is.
    pub fn identity(&self) -> &RingIdentity {
        &self.identity
    }
}
