//! Memory of collectives that are complete, for later ones.

use super::{Plan, Waiting};
use std::collections::VecDeque;

/// What collectives that are complete have used.
#[derive(Debug, Default)]
pub(super) struct Spare {
    #[expect(clippy::vec_box, reason = "the boxes are what is kept")]
    pub plans: Vec<Box<Plan>>,
    buffers: Vec<Vec<u8>>,
    pub queues: Vec<VecDeque<Waiting>>,
}

impl Spare {
    /// Plans that are kept.
    const PLANS_MAX: usize = 8;
    /// Buffers that are kept, and bytes of the longest one.
    const BUFFERS_MAX: usize = 8;
    const BUFFER_BYTES_MAX: usize = 8 << 20;

    /// A buffer of at least `bytes` bytes; its content is arbitrary.
    #[inline]
    pub fn take(&mut self, bytes: usize) -> Vec<u8> {
        match bytes {
            0 => Vec::new(),
            _ => self.take_some(bytes),
        }
    }

    fn take_some(&mut self, bytes: usize) -> Vec<u8> {
        let fits = |buffer: &Vec<u8>| buffer.len() >= bytes;
        let index = self.buffers.iter().rposition(fits);
        let last = self.buffers.len().checked_sub(1);
        let mut buffer = match index.or(last) {
            Some(index) => self.buffers.swap_remove(index),
            None => Vec::new(),
        };
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        buffer
    }

    #[inline]
    pub fn give_back_plan(&mut self, plan: Box<Plan>) {
        if self.plans.len() < Self::PLANS_MAX {
            self.plans.push(plan);
        }
    }

    #[inline]
    pub fn give_back(&mut self, buffer: Vec<u8>) {
        let is_kept = (1..=Self::BUFFER_BYTES_MAX).contains(&buffer.len());
        if is_kept && self.buffers.len() < Self::BUFFERS_MAX {
            self.buffers.push(buffer);
        }
    }
}
