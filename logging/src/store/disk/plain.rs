//! Plain reads and writes, one after the other, for where io_uring is not
//! allowed.

use super::bell::Bell;
use super::engine::{Ended, Engine};
use super::transfer::{Rest, Transfer};
use std::io;
use std::sync::Arc;

/// The engine; moves bytes when it is asked to begin.
#[derive(Debug)]
pub(super) struct Plain {
    bell: Arc<Bell>,
    ended: Vec<Ended>,
    /// Why not io_uring, if that was wanted.
    reason: Option<String>,
}

impl Plain {
    pub fn new(bell: Arc<Bell>, reason: Option<String>) -> Self {
        Self {
            bell,
            ended: Vec::new(),
            reason,
        }
    }

    /// For engines of tests, which do some pieces themselves.
    #[cfg(test)]
    pub fn put(&mut self, ended: Ended) {
        self.ended.push(ended);
    }
}

impl Engine for Plain {
    fn room(&self) -> usize {
        // One, so that a completion is told before the next transfer begins.
        1 - self.ended.len().min(1)
    }

    fn begin(&mut self, mut transfer: Transfer) {
        let descriptor = transfer.descriptor.clone();
        let place = transfer.rest_place();
        let result = match transfer.rest() {
            Rest::Write(bytes) => rustix::io::pwrite(&descriptor, bytes, place),
            Rest::Read(bytes) => rustix::io::pread(&descriptor, bytes, place),
        };
        let result = result.map_err(io::Error::from);
        self.ended.push(Ended { transfer, result });
    }

    fn collect(&mut self, sleep: bool, ended: &mut Vec<Ended>) -> io::Result<()> {
        if sleep && self.ended.is_empty() {
            self.bell.wait()?;
        }
        ended.append(&mut self.ended);
        Ok(())
    }

    fn under_way(&self) -> usize {
        self.ended.len()
    }

    fn name(&self) -> String {
        match &self.reason {
            Some(reason) => format!("plain writes ({reason})"),
            None => "plain writes".into(),
        }
    }
}
